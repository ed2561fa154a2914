"""Differential evolution, best/1/bin.

SciPy's solver calls the function itself and cannot be asked and told, so that this is our own, with
its defaults: F uniform in [0.5, 1], crossover 0.7, coordinates outside the cube drawn uniformly.
Its population are the best of the first observations, as many as the first batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebo.bench.baselines.base import Baseline, Floats

CROSSOVER = 0.7
LEAST = 8  # members


class DifferentialEvolution(Baseline):
    """Every point asked for challenges one member, in turn, and takes its place if it is better."""

    name = "de"

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._first: list[tuple[Floats, Floats]] = []  # told before there is a population
        self._members = np.empty((0, self.dims))  # (P, F)
        self._values = np.empty(0)  # (P,)
        self._challenged: dict[int, int] = {}  # member by the number of its challenger
        self._turn = 0

    def _propose(self, n: int) -> Floats:
        if not len(self._members):
            self._found(max(n, LEAST))
        if not len(self._members):
            return self.rng.random((n, self.dims))
        return np.array([self._challenger(self.asked + i) for i in range(n)])

    def _found(self, size: int) -> None:
        """The population, if enough is known."""
        if sum(len(u) for _, u in self._first) < LEAST:
            return
        points, values = zip(*self._first, strict=True)
        T, u = np.concatenate(points), np.concatenate(values)
        best = np.argsort(-u, kind="stable")[:size]
        self._members, self._values = T[best], u[best]
        self._first.clear()

    def _challenger(self, number: int) -> Floats:
        target = self._turn % len(self._members)
        self._turn += 1
        self._challenged[number] = target
        others = np.delete(np.arange(len(self._members)), target)
        a, b = self._members[self.rng.choice(others, 2, replace=False)]
        best = self._members[int(self._values.argmax())]
        mutant = best + self.rng.uniform(0.5, 1.0) * (a - b)
        outside = (mutant < 0.0) | (mutant > 1.0)
        mutant[outside] = self.rng.random(int(outside.sum()))
        crossed = self.rng.random(self.dims) < CROSSOVER
        crossed[self.rng.integers(self.dims)] = True
        challenger: Floats = np.where(crossed, mutant, self._members[target])
        return challenger

    def _learn(self, T: Floats, u: Floats, numbers: NDArray[np.int64]) -> None:
        if not len(self._members):
            self._first.append((T[np.isfinite(u)], u[np.isfinite(u)]))
        for t, value, number in zip(T, u, numbers.tolist(), strict=True):
            target = self._challenged.pop(number, None)
            if target is not None and value >= self._values[target]:  # false for NaN
                self._members[target], self._values[target] = t, value
