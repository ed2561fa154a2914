"""What a study optimises, and how: all that an optimizer is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from ebo.optimizer import Optimizer
from ebo.settings import Settings
from ebo.space import Space
from ebo.study.describe import describe_settings, describe_space, read_settings, read_space


@dataclass(frozen=True)
class Task:
    """The arguments of an `Optimizer`; `bounds` has those of its two bounds that are known."""

    space: Space
    direction: str
    bounds: dict[str, float]
    seed: int
    settings: Settings

    @classmethod
    def of(
        cls,
        space: Space,
        *,
        upper_bound: float | None,
        lower_bound: float | None,
        **options: Any,
    ) -> Self:
        """A task of what a user gave, checked by the optimizer."""
        bounds = {"upper_bound": upper_bound, "lower_bound": lower_bound}
        given: dict[str, Any] = {**options, **bounds}
        optimizer = Optimizer(space, **given)
        return cls(
            space,
            optimizer.direction,
            {name: float(value) for name, value in bounds.items() if value is not None},
            optimizer.seed,
            optimizer.settings,
        )

    @classmethod
    def read(cls, meta: Mapping[str, Any]) -> Self:
        """The task that `describe` described."""
        space, settings = read_space(meta["space"]), read_settings(meta["settings"])
        task = cls(space, str(meta["direction"]), dict(meta["bounds"]), meta["seed"], settings)
        task.optimizer()  # checks it
        return task

    def describe(self) -> dict[str, Any]:
        """The task as JSON data; ValueError where the space has something that JSON has not."""
        return {
            "space": describe_space(self.space),
            "direction": self.direction,
            "bounds": self.bounds,
            "seed": self.seed,
            "settings": describe_settings(self.settings),
        }

    def optimizer(self) -> Optimizer:
        """An optimizer of this task that knows nothing yet."""
        return Optimizer(
            self.space,
            seed=self.seed,
            direction=self.direction,
            upper_bound=self.bounds.get("upper_bound"),
            lower_bound=self.bounds.get("lower_bound"),
            settings=self.settings,
        )
