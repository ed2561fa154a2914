"""The BBOB suite of the COCO platform: 24 functions that nobody here wrote, in any dimension.

They come with the package `ioh` (in the `bench` extra). The suite minimises f from f_opt upwards;
here the value is f_opt - f, so that the maximum is 0. The seed chooses the instance: the place of
the optimum, the rotations and f_opt.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ebo.arrays import Floats
from ebo.problems.base import Problem

FUNCTIONS = 24  # that the suite has


class BBOB(Problem):
    """Function `number`, 1 to 24, in `dims` dimensions, with the optimum where `instance` says."""

    def __init__(self, number: int, dims: int, instance: int) -> None:
        if not 1 <= number <= FUNCTIONS:
            raise ValueError(f"BBOB has no function {number}; give 1 to {FUNCTIONS}")
        if dims < 2:
            raise ValueError(f"BBOB in {dims} dimension; give at least 2")
        super().__init__(f"bbob{number}-{dims}", np.full(dims, -5.0), np.full(dims, 5.0), 0.0)
        self.number, self.instance = number, instance
        self._function = self._make()

    def _make(self) -> Any:
        import ioh  # in the bench extra

        bbob = ioh.ProblemClass.BBOB
        return ioh.get_problem(
            self.number, instance=self.instance, dimension=self.dims, problem_class=bbob
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_function": None}  # the suite's own object cannot be pickled

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._function = self._make()

    def _values(self, X: Floats) -> Floats:
        if not len(X):
            return np.empty(0)  # the suite takes this for one point
        f: Floats = np.array(self._function(X), dtype=np.float64)
        return float(self._function.optimum.y) - f
