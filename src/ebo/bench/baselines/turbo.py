"""TuRBO: Bayesian optimisation in trust regions (Eriksson et al. 2019), with one region or several.

A region is a box around its best point, with sides in proportion to the length scales of a Gaussian
process that is fitted to the region's own observations; their geometric mean is its *length*. It is
doubled after 3 batches in a row that improved on the best, halved after max(4, F) evaluations in a
row that did not; a region that has become too small starts anew elsewhere. A batch is chosen by
Thompson sampling: one function of the posterior for each point, the best candidate of all regions.

Points told without being asked for are the first observations: with several regions, they are dealt
out in the order of their values, so that each gets a good centre of its own and a fair sample.

=========  ========  ==========================================================================
name       shape     meaning
=========  ========  ==========================================================================
T, u       (n, F)    a region's observations, and their values; NaN where failed
P          (C, F)    candidates in a region
weights    (F,)      side lengths over the region's length: their geometric mean is one
=========  ========  ==========================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebo.arrays import Floats
from ebo.bench.baselines.base import Baseline
from ebo.bench.baselines.imported import library, quiet
from ebo.checks import check_count
from ebo.standardisation import Standardisation

LENGTH, SHORTEST, LONGEST = 0.8, 0.5**7, 1.6
SUCCESSES = 3  # batches in a row that double the length
IMPROVEMENT = 1e-3  # that counts as success, in parts of the best value
PERTURBED = 20  # coordinates of a candidate that differ from the centre, on average
CANDIDATES = 100, 5_000  # for each dimension, and at most
MOST = 1_000  # observations that a process is fitted to; with m regions, √m times fewer each
FIRST_FIT, FIT = 25, 15  # evaluations of the likelihood: first of a region, then from the last
LEAST = 2  # values that a process is fitted to


class Region:
    """One trust region; `life` counts how often it has started."""

    def __init__(self, dims: int) -> None:
        self.dims, self.life = dims, 0
        self.begin()

    def begin(self) -> None:
        """Start without any observations."""
        self.life += 1
        self.T, self.u = np.empty((0, self.dims)), np.empty(0)
        self.length, self.successes, self.failures = LENGTH, 0, 0
        self.missing = 2 * self.dims  # points still to be asked for before the model is used alone
        self.fitted: Floats | None = None  # parameters of the last fit

    @property
    def ready(self) -> bool:
        """Whether there are enough values for a model."""
        return int(np.isfinite(self.u).sum()) >= LEAST

    @property
    def centre(self) -> Floats:
        """The best point."""
        return np.asarray(self.T[int(np.nanargmax(self.u))])

    def add(self, T: Floats, u: Floats) -> None:
        """More observations."""
        self.T, self.u = np.concatenate([self.T, T]), np.concatenate([self.u, u])

    def judge(self, u: Floats, best: float) -> None:
        """Adapt the length to the values of a batch, with the best before it; a failure is none."""
        if (u > best + IMPROVEMENT * abs(best)).any():
            self.successes, self.failures = self.successes + 1, 0
        else:
            self.successes, self.failures = 0, self.failures + len(u)
        if self.successes >= SUCCESSES:
            self.length, self.successes = min(2.0 * self.length, LONGEST), 0
        elif self.failures >= max(4, self.dims):
            self.length, self.failures = 0.5 * self.length, 0
        if self.length < SHORTEST:
            self.begin()

    def box(self, length_scales: Floats) -> tuple[Floats, Floats]:
        """Lower and upper bounds, each (F,)."""
        weights = np.exp(np.log(length_scales) - np.log(length_scales).mean())
        half = 0.5 * self.length * weights
        return np.clip(self.centre - half, 0.0, 1.0), np.clip(self.centre + half, 0.0, 1.0)

    def nearest(self, most: int) -> NDArray[np.int64]:
        """Rows of the observations that the model learns from: those nearest to the centre."""
        distance = np.sum((self.T - self.centre) ** 2, axis=1)
        return np.argsort(distance, kind="stable")[:most]


class TuRBO(Baseline):
    """`regions` share one batch: each gets as many points as its samples are best."""

    name = "turbo"

    def __init__(self, *arguments: Any, regions: int = 1, **options: Any) -> None:
        super().__init__(*arguments, **options)
        check_count("regions", regions, 1)
        with quiet():
            library("torch", self.name)
            self._gp = library("ebo.bench.baselines.exact_gp", self.name)
        self.regions = [Region(self.dims) for _ in range(regions)]
        self._news: list[tuple[Floats, Floats, NDArray[np.int64]]] = []  # since the last ask
        # Region, its life, and whether its model chose the point, by the point's number.
        self._origin: dict[int, tuple[int, int, bool]] = {}

    def _learn(self, T: Floats, u: Floats, numbers: NDArray[np.int64]) -> None:
        self._news.append((T, u, numbers))

    def _propose(self, n: int) -> Floats:
        self._take_in()
        points: list[Floats] = []
        for i, region in enumerate(self.regions):
            count = min(region.missing, n - len(points))
            points += self._started(i, count, len(points))
        ready = [i for i, region in enumerate(self.regions) if region.ready]
        if not ready:
            points += self._started(self.asked % len(self.regions), n - len(points), len(points))
        elif len(points) < n:
            with self._gp.one_thread():
                points += self._sampled(ready, n - len(points), len(points))
        return np.array(points)

    def _take_in(self) -> None:
        """Give what was told to the regions, and adapt these."""
        if not self._news:
            return
        T, u, numbers = (np.concatenate(parts) for parts in zip(*self._news, strict=True))
        self._news.clear()
        nobody = -1, 0, False
        origins = [self._origin.pop(number, nobody) for number in numbers.tolist()]
        self._deal(T[numbers < 0], u[numbers < 0])
        for i, region in enumerate(self.regions):
            life, best = region.life, np.nanmax(region.u) if region.ready else -np.inf
            own = np.array([origin[:2] == (i, life) for origin in origins])
            chosen = np.array([origin[2] for origin in origins])
            region.add(T[own], u[own])
            if (own & chosen).any():
                region.judge(u[own & chosen], best)

    def _deal(self, T: Floats, u: Floats) -> None:
        """Points that were not asked for: first observations, or of the region that is nearest."""
        empty = [region for region in self.regions if not region.ready]
        known = [region for region in self.regions if region.ready]
        order = np.argsort(-u, kind="stable")  # NaN last
        if known:
            centres = np.array([region.centre for region in known])
            distance = ((T[:, None, :] - centres) ** 2).sum(axis=2)
            for j, region in enumerate(known):
                mine = distance.argmin(axis=1) == j
                region.add(T[mine], u[mine])
            return
        for j, region in enumerate(empty):
            mine = order[j :: len(empty)]
            region.add(T[mine], u[mine])
            region.missing = max(0, region.missing - len(mine))

    def _started(self, i: int, count: int, taken: int) -> list[Floats]:
        """Points of a region that has no model yet, spread over the cube."""
        if count <= 0:
            return []
        region = self.regions[i]
        region.missing = max(0, region.missing - count)
        self._note(i, count, taken, chosen=False)
        return list(self._spread(count))

    def _note(self, i: int, count: int, taken: int, *, chosen: bool) -> None:
        for number in range(self.asked + taken, self.asked + taken + count):
            self._origin[number] = i, self.regions[i].life, chosen

    def _sampled(self, ready: list[int], n: int, taken: int) -> list[Floats]:
        """Thompson sampling: one function of each region a point, the best candidate of all."""
        every = [self._candidates(self.regions[i], n) for i in ready]
        P = np.concatenate([points for points, _ in every])
        owner = np.repeat(ready, [len(points) for points, _ in every])
        values = np.concatenate([drawn for _, drawn in every], axis=1)
        chosen: list[Floats] = []
        for row in values:
            best = int(row.argmax())
            values[:, best] = -np.inf  # no point twice
            self._note(int(owner[best]), 1, taken + len(chosen), chosen=True)
            chosen.append(P[best])
        return chosen

    def _candidates(self, region: Region, n: int) -> tuple[Floats, Floats]:
        """Candidates (C, F) of a region, and n functions drawn at them, (n, C)."""
        rows = region.nearest(int(MOST / np.sqrt(len(self.regions))))
        u = np.where(np.isnan(region.u), np.nanmin(region.u), region.u)[rows]  # failed: the worst
        scale = Standardisation.fit(u)
        evaluations = FIRST_FIT if region.fitted is None else FIT
        start = self._gp.first_parameters(self.dims) if region.fitted is None else region.fitted
        process = self._gp.ExactGP.fit(region.T[rows], scale.to_standard(u), start, evaluations)
        region.fitted = process.theta
        P = self._new(self._perturbed(region, process.length_scales), n)
        return P, scale.from_standard(process.draw(P, n, self.rng))

    def _perturbed(self, region: Region, length_scales: Floats) -> Floats:
        """The centre, with some coordinates replaced by those of points spread over the box."""
        lower, upper = region.box(length_scales)
        count = min(CANDIDATES[0] * self.dims, CANDIDATES[1])
        P = lower + (upper - lower) * self._spread(count)
        moved = self.rng.random(P.shape) < min(1.0, PERTURBED / self.dims)
        still = np.flatnonzero(~moved.any(axis=1))
        moved[still, self.rng.integers(self.dims, size=len(still))] = True
        return self.space.snap(np.where(moved, P, region.centre))

    def _new(self, P: Floats, n: int) -> Floats:
        """Candidates that are not known yet; where these are too few, uniform points as well."""
        new = self._data.new(self.space.from_unit(P))
        P = P[new]
        if len(P) < n:
            P = np.concatenate([P, self.space.snap(self.rng.random((n - len(P), self.dims)))])
        return P

    def _spread(self, count: int) -> Floats:
        """Points of a scrambled Sobol sequence, (count, F)."""
        from scipy.stats import qmc  # slow to import

        with quiet():  # of numbers that are no power of two, which do no harm
            return np.asarray(qmc.Sobol(self.dims, seed=self.rng).random(count))
