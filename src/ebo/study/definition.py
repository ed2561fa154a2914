"""What a study optimises, and how: all that an optimizer is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ebo.learning.base import Structure
from ebo.optimizer import Optimizer, State
from ebo.settings import Settings
from ebo.space import Space
from ebo.study.storage.describe import describe_space, read_space
from ebo.study.storage.trial import TrialState
from ebo.study.versions import versions
from ebo.tilegp.kernel import MOST_CUTS

NONE = "nothing"  # of a setting that the other strategy does not have


@dataclass(frozen=True)
class Definition:
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
        """A definition of what a user gave, checked by the optimizer."""
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
        """The definition that `describe` described."""
        space, settings = read_space(meta["space"]), Settings.from_dict(meta["settings"])
        found = cls(space, str(meta["direction"]), dict(meta["bounds"]), meta["seed"], settings)
        found.optimizer()  # checks it
        return found

    def describe(self) -> dict[str, Any]:
        """The definition as JSON data; ValueError where JSON cannot hold the space.

        With the versions that are here, which `read` leaves out: they are no part of it.
        """
        return {
            "space": describe_space(self.space),
            "direction": self.direction,
            "bounds": self.bounds,
            "seed": self.seed,
            "settings": self.settings.as_dict(),
            "versions": versions(),
        }

    def difference(self, other: Definition) -> str:
        """What another definition has otherwise, in words; "" if there is nothing."""
        for name, stored in vars(self).items():
            wanted = getattr(other, name)
            if wanted == stored:
                continue
            if name != "settings":
                return f"another {name}: it has {stored!r}, now given is {wanted!r}"
            old, new = stored.flat(), wanted.flat()
            changed = [
                f"{key} = {old.get(key, NONE)!s}, now given is {new.get(key, NONE)!s}"
                for key in dict.fromkeys([*old, *new])
                if old.get(key, NONE) != new.get(key, NONE)
            ]
            what = "another setting" if len(changed) == 1 else "other settings"
            return f"{what}: it has {'; '.join(changed)}"
        return ""

    def optimizer(self) -> Optimizer:
        """An optimizer that knows nothing yet."""
        return Optimizer(
            self.space,
            seed=self.seed,
            direction=self.direction,
            upper_bound=self.bounds.get("upper_bound"),
            lower_bound=self.bounds.get("lower_bound"),
            settings=self.settings,
        )

    def restored(self, columns: Mapping[str, NDArray[Any]], state: State) -> Optimizer:
        """The optimizer as it was when it had this state, with all trials that have ended since."""
        optimizer = self.optimizer()
        if state.structure is not None and not _fits(state.structure, int(self.space.free.sum())):
            raise ValueError("what was learned does not fit the space")
        X, told = self.space.check(columns["X"]), columns["state"] >= TrialState.DONE
        optimizer.tell(X[told], columns["value"][told])
        optimizer.restore(state, X[~told])
        return optimizer


def _fits(structure: Structure, dims: int) -> bool:
    """Whether what was learned can be used."""
    z, density, together = structure.z, structure.density, structure.together
    return bool(
        z.shape == (dims,)
        and density.shape == (dims,)
        and together.shape == (dims, dims)
        and np.all((z >= 0) & (z < dims))
        and np.all((density >= 0) & (density <= MOST_CUTS))
        and np.all((together >= 0) & (together <= 1))
        and 0 < structure.noise < np.inf
        and (structure.pair is None or np.all((structure.pair >= 0) & (structure.pair <= 1)))
    )
