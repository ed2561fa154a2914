"""Search that learns nothing: uniform random points, and a Sobol sequence."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebo.arrays import Floats
from ebo.bench.baselines.base import Baseline


class Random(Baseline):
    """Uniform points."""

    name = "random"
    takes_categoricals = True

    def _propose(self, n: int) -> Floats:
        return self.rng.random((n, self.dims))

    def _learn(self, T: Floats, u: Floats, numbers: NDArray[np.int64]) -> None:
        pass


class Sobol(Random):
    """A scrambled Sobol sequence from its beginning: that of `ebo.Optimizer` with this seed."""

    name = "sobol"

    def __init__(self, *arguments: Any, **options: Any) -> None:
        from scipy.stats import qmc  # slow to import

        super().__init__(*arguments, **options)
        self._sequence = qmc.Sobol(max(1, self.dims), seed=self.rng)

    def _propose(self, n: int) -> Floats:
        with warnings.catch_warnings():  # of numbers that are no power of two, which do no harm
            warnings.simplefilter("ignore", UserWarning)
            return np.asarray(self._sequence.random(n))
