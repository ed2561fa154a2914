"""What the methods on an exact additive GP share: their data, the structure, how a block is found.

=========  ========  =========================================================================
name       shape     meaning
=========  ========  =========================================================================
T, u       (n, F)    points in the unit cube, values (more is better)
`z`        (F,)      group of each dimension
P          (S, F)    points of which one group's block is tried
=========  ========  =========================================================================

Batches. A point chosen counts as observed at its own posterior mean before the next is chosen
(hallucinated, as in GP-BUCB); so do the points that are still waited for. Cost is O(n³) a batch:
these methods are for some hundred evaluations.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ebo.arrays import Floats, Ints
from ebo.bench.baselines.additive_gp import AdditiveGP
from ebo.bench.baselines.base import Baseline
from ebo.tilegp.box import Box
from ebo.tilegp.gibbs import ChainState, Prior, sample
from ebo.tilegp.kernel import Laplace

Value = Callable[[Floats], Floats]  # of points (S, F), (S,)

LEAST = 2  # values before which points are uniform
FAILED = 0.1  # quantile of the values that a failed evaluation counts as
NOISE = 1e-6  # of the known prior: the functions have none, and the factorisation needs some
PRIOR = Prior(noise=np.geomspace(1e-5, 1.0, 21), group_limit=4)  # of the unknown one
GROWTH = 1.1  # structure is learned again when there are so many times more values
LEARN_FROM = 200  # observations at most, since a sweep is cubic in them
SWEEPS = 2
UNIFORM, OBSERVED, STEPS = 200, 100, 30  # blocks tried: random, of the best points, near the best
REACHES = (0.1, 0.03, 0.01)


class AdditiveMethod(Baseline):
    """Proposes by an acquisition function of an additive GP.

    groups: the known A_m, as dimensions of the free parameters; None to learn them by Gibbs
        sampling, together with length-scales (unless given) and noise.
    length_scale: the known ℓ of all dimensions; it must be given with groups.
    variance: the known variance of f, whose prior mean is 0 then; None for the likeliest of both.
    """

    def __init__(
        self,
        *arguments: Any,
        groups: Sequence[Sequence[int]] | None = None,
        length_scale: float | None = None,
        variance: float | None = None,
        upper_bound: float | None = None,
        lower_bound: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        for name, number in (("length_scale", length_scale), ("variance", variance)):
            if number is not None and not 0.0 < number < np.inf:
                raise ValueError(f"{name} is {number!r}; give a positive number, or None")
        if groups is not None and length_scale is None:
            raise ValueError("groups are given without length_scale; give both, or neither")
        self.length_scale, self.variance = length_scale, variance
        self.z = None if groups is None else _labels(groups, self.dims)
        self.bound = upper_bound  # f*, in the sense of more is better
        if self.direction == "minimize":
            self.bound = None if lower_bound is None else -lower_bound
        self._told: list[tuple[Floats, Floats]] = []
        self._waiting: dict[int, Floats] = {}  # points asked for, by number
        self._state: ChainState | None = None  # of the chain
        self._learned_from = 0

    def _learn(self, T: Floats, u: Floats, numbers: Ints) -> None:
        self._told.append((T, u))
        for number in numbers.tolist():
            self._waiting.pop(number, None)

    def _propose(self, n: int) -> Floats:
        T = self._chosen(n)
        # Where nothing is noisy, a point a second time tells nothing, and would come again.
        fresh = self.space.snap(self.rng.random((n, self.dims)))
        new = self._data.new(self.space.from_unit(T))
        again = np.setdiff1d(np.arange(n), new)
        T[again] = fresh[again]
        self._waiting.update(zip(range(self.asked, self.asked + n), T, strict=True))
        return T

    def _chosen(self, n: int) -> Floats:
        """n points, one after the other."""
        points, values = zip(*self._told, strict=True) if self._told else ((), ())
        u = np.concatenate([*values, np.empty(0)])
        known = np.isfinite(u)
        if known.sum() < LEAST:
            return self.rng.random((n, self.dims))
        T = np.concatenate(points)
        u = np.where(known, u, np.quantile(u[known], FAILED))
        chosen = np.empty((n, self.dims))
        with threadpool_limits(1):  # last bits depend on the number of threads
            gp = AdditiveGP(T, u, *self._structure(T, u), variance=self.variance)
            for t in self._waiting.values():
                gp.add(t)
            order = np.argsort(-u, kind="stable")
            for i in range(n):
                chosen[i] = self.space.snap(self._next(gp, T[order])[None, :])[0]
                gp.add(chosen[i])
        return chosen

    @abstractmethod
    def _next(self, gp: AdditiveGP, best: Floats) -> Floats:
        """One point (F,); `best` (n, F) are the points told, the best first."""

    def _structure(self, T: Floats, u: Floats) -> tuple[Ints, Floats, float]:
        """z, rates and noise: as known, or as the chain has them."""
        if self.z is not None and self.length_scale is not None:
            return self.z, np.full(self.dims, 1.0 / self.length_scale), NOISE
        if self._state is None or len(u) >= GROWTH * self._learned_from:
            self._state, self._learned_from = self._sampled(T, u), len(u)
        rates = self._state.cuts.astype(np.float64)
        if self.length_scale is not None:  # the sampler has whole numbers
            rates = np.full(self.dims, 1.0 / self.length_scale)
        return self._state.z, rates, self._state.noise

    def _sampled(self, T: Floats, u: Floats) -> ChainState:
        """The chain, some sweeps on, by a random part of the observations."""
        rows = self.rng.permutation(len(u))[:LEARN_FROM]
        start = self._state
        if start is None:  # apart and all noise: whatever is more must be earned
            rate = 4 if self.length_scale is None else round(1.0 / self.length_scale)
            start = ChainState(np.arange(self.dims), np.full(self.dims, min(rate, 255)), 1.0)
        deviation = float(u[rows].std()) or 1.0
        return sample(
            [(T[rows], (u[rows] - u[rows].mean()) / deviation)],
            Box.unit(self.dims),
            Laplace(),
            PRIOR,
            sweeps=SWEEPS,
            rng=self.rng,
            start=start,
            learn_cuts=self.length_scale is None,
        )[0]

    def _tries(self, best: Floats) -> Floats:
        """Points whose blocks are tried: uniform ones, and observations.

        Under a Laplace kernel a mean has its peaks at the coordinates of observations.
        """
        return np.concatenate([self.rng.random((UNIFORM, self.dims)), best[:OBSERVED]])


def climb(P: Floats, group: Ints, value: Value, rng: np.random.Generator) -> Floats:
    """The best of P (S, F) by its block, improved by steps of that block, shorter and shorter."""
    x: Floats = P[int(value(P).argmax())]
    for reach in REACHES:
        Q = np.repeat(x[None, :], 1 + STEPS, axis=0)
        Q[1:, group] += reach * rng.standard_normal((STEPS, len(group)))
        Q = Q.clip(0.0, 1.0)
        x = Q[int(value(Q).argmax())]
    return x


def _labels(groups: Sequence[Sequence[int]], dims: int) -> Ints:
    """z of groups that hold every dimension once."""
    if sorted(d for group in groups for d in group) != list(range(dims)):
        raise ValueError(
            f"groups are {[list(group) for group in groups]}; give each of the dimensions "
            f"0 to {dims - 1} once"
        )
    z = np.empty(dims, dtype=np.int64)
    for m, group in enumerate(groups):
        z[np.asarray(group, dtype=np.int64)] = m
    return z
