"""The cross-entropy method, as in the paper's experiments.

A Gaussian is fitted to the best 30 % of the first observations, then again and again to the best
30 % of each batch; the next batch is drawn from it. Its covariance is diagonal, or full.

======  ========  =============================================================================
name    shape     meaning
======  ========  =============================================================================
elite   (k, F)    the best points of a batch
A       (k, F)    (elite - mean)/√k, so that A'A is their covariance
======  ========  =============================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebo.arrays import Floats
from ebo.bench.baselines.base import Baseline

ELITE = 0.3
LEAST = 10  # successful evaluations that a Gaussian is fitted to
RIDGE = 1e-4  # added to the variances of a full covariance, which is of low rank


class CEM(Baseline):
    """Before there are `LEAST` values its points are uniform.

    What was told since the last fit is a batch, if it has at least `LEAST` values. Points are
    clipped to the cube: drawing again what is outside does less well on the rover.
    """

    name = "cem"

    def __init__(self, *arguments: Any, full: bool = False, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.full = full
        self._batch: list[tuple[Floats, Floats]] = []  # told since the last fit
        self._mean: Floats | None = None
        self._A = np.empty((0, self.dims))

    def _learn(self, T: Floats, u: Floats, numbers: NDArray[np.int64]) -> None:
        self._batch.append((T[np.isfinite(u)], u[np.isfinite(u)]))

    def _propose(self, n: int) -> Floats:
        if sum(len(u) for _, u in self._batch) >= LEAST:
            self._fit()
        if self._mean is None:
            return self.rng.random((n, self.dims))
        return np.clip(self._mean + self._deviations(n), 0.0, 1.0)

    def _deviations(self, n: int) -> Floats:
        """A'ε has the covariance A'A, whatever its rank: nothing need be factorised."""
        noise: Floats = self.rng.standard_normal((n, self.dims))
        if self.full:
            noise *= np.sqrt(RIDGE)
            noise += self.rng.standard_normal((n, len(self._A))) @ self._A
        else:
            noise *= np.sqrt((self._A**2).sum(axis=0))
        return noise

    def _fit(self) -> None:
        points, values = zip(*self._batch, strict=True)
        T, u = np.concatenate(points), np.concatenate(values)
        elite = T[np.argsort(-u, kind="stable")[: int(np.ceil(ELITE * len(u)))]]
        self._mean = elite.mean(axis=0)
        self._A = (elite - self._mean) / np.sqrt(len(elite))
        self._batch.clear()
