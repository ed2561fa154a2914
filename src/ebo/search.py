"""Candidates of one leaf: the acquisition function, optimised one group's block at a time.

=========  =======  ==========================================================================
name       shape    meaning
=========  =======  ==========================================================================
T, u       (n, D)   the leaf's observations and their standardised values
P          (S, D)   points whose blocks are tried: row 0 is the candidate as it stands
=========  =======  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ebo import native
from ebo.acquisition import Goal, gumbel_maxima, sampled_maxima
from ebo.arrays import Floats, Ints, Singles
from ebo.learn import LeafModel
from ebo.partition import NARROWEST, Leaf, mondrian
from ebo.settings import Settings
from ebo.tilegp.features import MondrianGrid, TileCoding
from ebo.tilegp.posterior import Moves

Snap = Callable[[Floats], Floats]

MAXIMA = 10  # samples of the maximum, for max-value entropy
STARTS = 20  # observations of a leaf that candidates start from, or blocks that they cross with
PARENTS = 60  # observations whose differences are leaped by
SHORTEST = 1e-2  # step, in parts of a leaf's side
NARROW = 0.3  # the shortest of a candidate's steps over its longest, with a smooth part


@dataclass(frozen=True)
class Candidates:
    """Points of the unit cube, and what they are worth."""

    P: Floats
    value: Floats


@dataclass(frozen=True)
class Local:
    """A leaf, what is known there, and what is aimed at."""

    model: LeafModel
    leaf: Leaf
    T: Floats
    u: Floats
    goal: Goal
    settings: Settings
    snap: Snap
    rng: np.random.Generator

    @cached_property
    def aim(self) -> native.Goal:
        """The acquisition function, of means and deviations in the model's scale."""
        model = self.model
        return self.goal.in_core(self.settings.acquisition, model.mean, model.scale)

    def acquire(self, mean: Floats, sd: Floats) -> Floats:
        """What it makes of them."""
        return self.aim.worth(mean, sd)

    def uniform(self, count: int) -> Floats:
        """Random points of the leaf."""
        lower, upper = self.leaf.lower, self.leaf.upper
        return lower + self.rng.random((count, len(lower))) * (upper - lower)


def propose(local: Local, count: int, pending: Floats) -> Candidates:
    """`count` candidates of a leaf; if found one by one, pending points count as observed."""
    if local.settings.acquisition.startswith("mes"):
        local = replace(local, goal=_with_maxima(local))
    if local.settings.greedy:
        points = _one_by_one(local, count, pending)
    else:
        points = _top_and_random(local, count)
    mean, sd = local.model.posterior.predict(local.model.to_leaf(points))
    return Candidates(points, local.acquire(mean, sd))


def _one_by_one(local: Local, count: int, pending: Floats) -> Floats:
    """Candidates one after the other, each as if those before it had been observed.

    Each starts at a good observation and moves some of its groups, by steps up to some length. How
    good, how many and how long are drawn for each, evenly on the scale of logarithms: no function
    is told in advance whether few bold moves or many small ones pay. Where the function is not
    additive, some leap first: all groups at once.
    """
    model, leaf, settings, rng = local.model, local.leaf, local.settings, local.rng
    near = pending[np.all((pending >= leaf.lower) & (pending <= leaf.upper), axis=1)]
    moves = Moves(model.posterior, room=count + len(near))
    for x in model.to_leaf(near):
        moves.add(x, moves.whitened(x))
    best = np.argsort(-local.u, kind="stable")
    apart = _best_of_regions(local)
    crossing = _Crossing(local, moves)
    groups, smooth = model.posterior.groups, model.posterior.smooth
    leaping = settings.leaping * smooth.lead if smooth is not None and len(best) else 0.0
    found = []
    for _ in range(count):
        x = local.uniform(1)[0]
        if len(best):
            x = local.T[_good(apart if rng.random() < settings.apart else best, rng)]
        x = local.snap(x.clip(leaf.lower, leaf.upper)[None, :])[0]
        v = moves.whitened(model.to_leaf(x))
        if rng.random() < leaping:
            x, v = _leap(x, best, moves, local)
        movable = rng.permutation(len(groups))[: 1 + _log_uniform(len(groups), rng)]
        reach, crossed = SHORTEST ** rng.random(), rng.random() < settings.crossed
        for _ in range(settings.passes):
            P = _steps(x, reach, local)
            if crossed and len(best):
                crossing.put_into(P, movable)
            P = local.snap(P)
            P[0] = x
            order = rng.permutation(movable)
            rows, v = moves.climb(order, v, model.to_leaf(P), local.aim)
            for m, row in zip(order, rows, strict=True):
                x[groups[m]] = P[row, groups[m]]
        found.append(x)
        moves.add(model.to_leaf(x), v)
    return np.array(found)


def _leap(x: Floats, best: Ints, moves: Moves, local: Local) -> tuple[Floats, Singles]:
    """The best of points x + c (a - b), a and b good observations, c up to one; and its v.

    It is the step of differential evolution: what good points differ by are directions that matter
    together, whatever they are.
    """
    rng, leaf, count = local.rng, local.leaf, local.settings.block_samples
    a, b = local.T[rng.choice(best[:PARENTS], (2, count))]
    P = x + 10.0 ** (-2.0 * rng.random((count, 1))) * (a - b)
    P = local.snap(P.clip(leaf.lower, leaf.upper))
    P = np.concatenate([x[None, :], P])
    mean, sd, whitened = moves.whole(local.model.to_leaf(P))
    chosen = int(local.acquire(mean, sd).argmax())
    return P[chosen], whitened[chosen]


def _best_of_regions(local: Local) -> Ints:
    """Rows of the best observation in each part of a random partition of the leaf, best first.

    The best observations of all are soon neighbours of each other; these are hills far apart.
    """
    leaf, n = local.leaf, len(local.u)
    width = np.maximum(leaf.upper - leaf.lower, NARROWEST)
    T = np.clip((local.T - leaf.lower) / width, 0.0, 1.0)  # with ε > 0 some lie outside
    parts = mondrian(T, max_leaves=STARTS, leaf_size=max(1, n // STARTS), rng=local.rng)
    rows = np.array(
        [p.rows[local.u[p.rows].argmax()] for p in parts if len(p.rows)], dtype=np.int64
    )
    return rows[np.argsort(-local.u[rows], kind="stable")]


def _steps(x: Floats, reach: float, local: Local) -> Floats:
    """Points whose blocks x may take: steps from it in all directions, up to the reach.

    A smooth part is sure of short steps and shy of long ones. So that a candidate of long reach is
    one, it has no short steps to choose; without, crossing is what goes far.
    """
    rng, leaf, count = local.rng, local.leaf, 1 + local.settings.block_samples
    least = SHORTEST if local.model.posterior.smooth is None else NARROW
    length = reach * least ** rng.random((count, 1))
    P = x + length * (leaf.upper - leaf.lower) * rng.standard_normal((count, len(x)))
    return P.clip(leaf.lower, leaf.upper)


class _Crossing:
    """Blocks of observations to cross with, those that are worth most by themselves first.

    It is the paper's reading of evolutionary search (Section 3.6): under an additive model a block
    that is good in one point is good in another. The best blocks are found in poor points, too.
    """

    def __init__(self, local: Local, moves: Moves) -> None:
        self._local, self._moves = local, moves
        self._order: dict[int, Ints] = {}  # by group

    def put_into(self, P: Floats, movable: Ints) -> None:
        """Replace blocks in a quarter of the points P by blocks of observations."""
        local, quarter = self._local, max(1, len(P) // 4)  # row 0 is the point as it stands
        for m in movable.tolist():
            if m not in self._order:
                self._order[m] = np.argsort(-self._moves.component(m), kind="stable")
            group = local.model.posterior.groups[m]
            rows = [_good(self._order[m], local.rng) for _ in range(1, quarter)]
            P[1:quarter, group] = local.model.T[np.ix_(rows, group)].clip(
                local.leaf.lower[group], local.leaf.upper[group]
            )


def _top_and_random(local: Local, count: int) -> Floats:
    """The appendix's heuristic: i-th best blocks combined for half of them, the rest random.

    Block-coordinate search from a random point of the leaf; on its way, the best blocks of each
    group are remembered in their order. The best of all is polished before the next group's turn.
    """
    model, settings = local.model, local.settings
    top = (count + 1) // 2
    moves = Moves(model.posterior, room=0)
    P = local.snap(local.uniform(1 + settings.block_samples))
    U, x = model.to_leaf(P), P[0].copy()
    v = moves.whitened(U[0])
    combined = np.repeat(P[:1], top, axis=0)
    for _ in range(settings.passes):
        for m, group in enumerate(model.posterior.groups):
            mean, sd, moved = moves.vary(m, v, U)
            order = np.argsort(-local.acquire(mean, sd), kind="stable")
            combined[:, group] = P[np.ix_(np.resize(order, top), group)]
            v, x[group] = moved[order[0]], P[order[0], group]
            x, v = _polished(local, moves, m, x, v)
            combined[0, group] = x[group]
            P[0], U[0] = x, model.to_leaf(x)
    return np.concatenate([combined, local.snap(local.uniform(count - top))])


def _good(order: Ints, rng: np.random.Generator) -> int:
    """One of the best observations, whose rows are given in order."""
    return int(order[_log_uniform(min(len(order), STARTS), rng)])


def _polished(local: Local, moves: Moves, m: int, x: Floats, v: Singles) -> tuple[Floats, Singles]:
    """x with its block m improved along one dimension after the other, and its v.

    Along a dimension all places are tried that can matter to the kernel: the middle of every cell,
    where it has cells (the paper's L-BFGS-B would see no slope there), so that a block of one
    dimension ends at its optimum; else the coordinates of the observations, where a limit kernel
    has its kinks.
    """
    model, leaf = local.model, local.leaf
    kernel = model.posterior.kernel
    for d in model.posterior.groups[m]:
        if isinstance(kernel, TileCoding | MondrianGrid):
            ends = model.lower[d] + model.width[d] * kernel.breaks(d, model.posterior.cuts)
            ends = np.concatenate([leaf.lower[d : d + 1], ends, leaf.upper[d : d + 1]])
            ends = np.unique(ends.clip(leaf.lower[d], leaf.upper[d]))
            places = 0.5 * (ends[1:] + ends[:-1])
        else:
            places = local.T[:, d].clip(leaf.lower[d], leaf.upper[d])
        P = np.repeat(x[None, :], 1 + len(places), axis=0)
        P[1:, d] = places
        P = local.snap(P)
        P[0] = x
        mean, sd, moved = moves.vary(m, v, model.to_leaf(P))
        best = int(local.acquire(mean, sd).argmax())
        x, v = P[best], moved[best]
    return x, v


def _log_uniform(n: int, rng: np.random.Generator) -> int:
    """A number 0 .. n - 1, of which the first come often: log(1 + i) is about uniform."""
    return min(int((n + 1) ** rng.random()) - 1, n - 1)


def _with_maxima(local: Local) -> Goal:
    """The goal with samples of the leaf's maximum, none of them below the best value."""
    model, goal, settings, rng = local.model, local.goal, local.settings, local.rng
    P = np.concatenate([local.T, local.snap(local.uniform(settings.block_samples))])
    mean, sd = model.predict(P)
    if settings.acquisition == "mes-gumbel":
        maxima = gumbel_maxima(mean, sd, MAXIMA, rng)
    else:
        covariance = model.scale**2 * model.posterior.covariance(model.to_leaf(P))
        maxima = sampled_maxima(mean, covariance, MAXIMA, rng)
    return replace(goal, maxima=np.maximum(maxima, goal.best + 0.05 * model.scale))
