"""CMA-ES by its authors' library `cma`.

It starts at the best point that it was told before it was first asked, with a step size of a
quarter of the range, and where it has converged anew at the next best.

Its default population is far smaller than a batch: 16 in 60 dimensions. So it would rather be asked
for one generation (`portion`) and told its values before the next, which is what a comparison does;
that favours it over methods that answer with a whole batch. Asked for more at once, it draws
several generations from the same distribution and is told one after the other. With `whole_batch`
the population is as large as the first batch.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebo.arrays import Floats
from ebo.bench.baselines.base import Baseline
from ebo.bench.baselines.imported import library, quiet

STEP = 0.25  # σ₀, of the range
LEAST = 4  # points of a generation


class CMA(Baseline):
    """Points that were not asked for serve as places to start, before the first `ask`."""

    name = "cma"

    def __init__(self, *arguments: Any, whole_batch: bool = False, **options: Any) -> None:
        super().__init__(*arguments, **options)
        with quiet():
            self._library = library("cma", self.name)
        self.whole_batch = whole_batch
        self.population = population(self.dims)
        self._strategy: Any = None
        self._fresh = False  # whether it was asked since it was told
        self._starts: list[tuple[float, Floats]] = []  # value and point
        self._drawn: list[Floats] = []  # of the current generation, not asked for yet
        self._sent: dict[int, Floats] = {}  # by number
        self._told: list[tuple[Floats, float]] = []  # of the current generation

    @property
    def portion(self) -> int | None:
        """What is left of the current generation."""
        return None if self.whole_batch else len(self._drawn) or self.population

    def _propose(self, n: int) -> Floats:
        if self._strategy is None:
            if self.whole_batch:
                self.population = max(n, LEAST)
            self._starts.sort(key=lambda start: -start[0])
            self._start()
        for number in range(self.asked, self.asked + n):
            if not self._drawn:
                self._drawn = self._draw()
            self._sent[number] = self._drawn.pop(0)
        return np.array([self._sent[number] for number in range(self.asked, self.asked + n)])

    def _start(self) -> None:
        start = self._starts.pop(0)[1] if self._starts else self.rng.random(self.dims)
        options = {
            "bounds": [0.0, 1.0],
            "popsize": self.population,
            "CMA_mirrors": 0,  # they come back in the next generation, which may be drawn by then
            "randn": lambda *shape: self.rng.standard_normal(shape),  # not the global generator
            "seed": math.nan,
            "verbose": -9,
            "verb_log": 0,
        }
        with quiet():
            self._strategy = self._library.CMAEvolutionStrategy(start, STEP, options)
        self._drawn, self._sent, self._told = [], {}, []

    def _learn(self, T: Floats, u: Floats, numbers: NDArray[np.int64]) -> None:
        if self._strategy is None:
            good = np.isfinite(u)
            self._starts += zip(u[good].tolist(), T[good], strict=True)
        for value, number in zip(u.tolist(), numbers.tolist(), strict=True):
            if number in self._sent:
                self._told.append((self._sent.pop(number), value))
        while len(self._told) >= self.population:
            generation, self._told = self._told[: self.population], self._told[self.population :]
            self._update(generation)

    def _update(self, generation: list[tuple[Floats, float]]) -> None:
        """One generation; a failure is as bad as its worst."""
        self._drawn = []  # from a distribution that is now past
        loss = -np.array([value for _, value in generation])
        if not np.isfinite(loss).any():
            return
        loss[np.isnan(loss)] = np.nanmax(loss)
        if not self._fresh:
            self._draw()  # it wants to be asked between two tells
        self._fresh = False
        with quiet():
            self._strategy.tell([point for point, _ in generation], loss.tolist())
            over = self._strategy.stop()
        if over:
            self._start()

    def _draw(self) -> list[Floats]:
        self._fresh = True
        with quiet():
            return list(self._strategy.ask())


def population(dims: int) -> int:
    """The library's default size of a generation."""
    return LEAST + int(3.0 * math.log(max(1, dims)))
