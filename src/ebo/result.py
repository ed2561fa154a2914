"""What an optimisation gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ebo.arrays import Floats
from ebo.display import as_html, as_text
from ebo.iteration import Iteration
from ebo.optimizer import Optimizer


@dataclass(frozen=True, repr=False)
class Result:
    """What an optimisation found: the best point, and all that was evaluated.

    best_x: the best point: an array (D,) on a box, a dict on a space of named parameters.
    best_value: its value.
    X, y: all points, (n, D) in the user's units, and their values (n,); NaN where failed.
    history: what every iteration did.
    optimizer: the optimizer, to go on from here by `ask` and `tell`.
    """

    best_x: Any
    best_value: float
    X: Floats
    y: Floats
    history: tuple[Iteration, ...]
    optimizer: Optimizer

    def __repr__(self) -> str:
        return as_text("Result", self._facts())

    def _repr_html_(self) -> str:
        return as_html("Result", self._facts())

    def _facts(self) -> dict[str, Any]:
        """The essentials, for people."""
        failed = int(np.isnan(self.y).sum())
        return {
            "best value": self.best_value,
            "best point": self.best_x,
            "direction": self.optimizer.direction,
            "parameters": self.optimizer.space.dims,
            "done": len(self.y) - failed,
            **({"failed": failed} if failed else {}),
        }


def make_result(optimizer: Optimizer) -> Result:
    """The result of all that an optimizer was told."""
    best_x: Any
    best_x, best_value = (
        optimizer.best() if optimizer.any_value else (np.full(optimizer.space.dims, np.nan), np.nan)
    )
    if optimizer.space.named and np.isfinite(best_value):
        best_x = optimizer.space.to_dicts(best_x[None, :])[0]
    return Result(best_x, best_value, optimizer.X, optimizer.y, tuple(optimizer.history), optimizer)
