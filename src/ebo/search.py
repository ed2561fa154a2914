"""Candidates of one leaf: the acquisition function, optimised one group's block at a time.

A set of points P is drawn in the leaf: uniform ones, observations, and steps of many lengths from
the best observations. A group's block takes any of the values that the points of P have there,
while the other blocks are held; so a candidate is a recombination of blocks of P, which includes
the paper's crossover of good points (Section 3.6).

=========  =======  ==========================================================================
name       shape    meaning
=========  =======  ==========================================================================
P          (G, D)   points whose blocks are tried
rows       (M,)     a candidate: group m has the block of point rows[m]
=========  =======  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ebo.acquisition import ACQUISITIONS, LEAST_SD, Goal, gumbel_maxima, sampled_maxima
from ebo.learn import LeafModel
from ebo.partition import Leaf
from ebo.settings import Settings
from ebo.tilegp.posterior import Table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Snap = Callable[[Floats], Floats]

STARTS = 5  # observations of a leaf that candidates start from
MAXIMA = 10  # samples of the maximum, for max-value entropy
STEP_SHARE = 0.5
LONGEST, SHORTEST = 0.3, 1e-3  # steps, in parts of a leaf's side


@dataclass(frozen=True)
class Candidates:
    """Points of the unit cube, and what the leaf's posterior says of them."""

    P: Floats
    mean: Floats
    sd: Floats
    value: Floats


def propose(
    model: LeafModel,
    leaf: Leaf,
    T: Floats,
    u: Floats,
    count: int,
    goal: Goal,
    settings: Settings,
    snap: Snap,
    rng: np.random.Generator,
    pending: Floats,
) -> Candidates:
    """`count` candidates of a leaf, for the observations T, u that it sees."""
    if settings.acquisition.startswith("mes"):
        goal = _with_maxima(model, leaf, T, goal, settings, rng)
    step = _one_by_one if settings.greedy else _top_and_random
    return step(model, leaf, T, u, count, goal, settings, snap, rng, pending)


def _one_by_one(
    model: LeafModel,
    leaf: Leaf,
    T: Floats,
    u: Floats,
    count: int,
    goal: Goal,
    settings: Settings,
    snap: Snap,
    rng: np.random.Generator,
    pending: Floats,
) -> Candidates:
    """Candidates one after the other, each as if those before it had been observed."""
    acquire = ACQUISITIONS[settings.acquisition]
    order = np.argsort(-u, kind="stable")[: min(STARTS, count)]
    starts = T[order] if len(order) else _uniform(leaf, 1, rng)
    near = pending[np.all((pending >= leaf.lower) & (pending <= leaf.upper), axis=1)]
    P = np.concatenate([near, snap(_blocks(starts, leaf, T, settings.block_samples, rng))])
    table = Table(model.posterior, model.to_leaf(P), room=count + len(near))
    groups = len(model.posterior.groups)
    for i in range(len(near)):
        table.add(table.P[i], table.whitened(np.full(groups, i)))
    found, means, sds, values = [], [], [], []
    for c in range(count):
        rows = np.full(groups, len(near) + c % len(starts))
        v, mean = table.whitened(rows), table.mean(rows)
        movable = rng.permutation(groups)[: _how_many(groups, rng)]
        reach = _reach(rng) * (leaf.upper - leaf.lower)
        near_start = np.abs(P - P[rows[0]]) <= reach
        for _ in range(settings.passes):
            for m in rng.permutation(movable):
                mu, sd = table.vary(m, rows[m], v, mean)
                value = acquire(model.mean + model.scale * mu, model.scale * sd, goal)
                value[~near_start[:, model.posterior.groups[m]].all(axis=1)] = -np.inf
                new = int(value.argmax())
                v, mean = table.swap(m, rows[m], new, v, mean)
                rows[m] = new
        x = table.recombine(P, rows)
        sd = np.sqrt(max(1.0 - float(v @ v), LEAST_SD**2))
        found.append(x)
        means.append(model.mean + model.scale * mean)
        sds.append(model.scale * sd)
        values.append(float(acquire(np.array(means[-1]), np.array(sds[-1]), goal)))
        table.add(model.to_leaf(x[None, :])[0], v)
    return Candidates(np.array(found), np.array(means), np.array(sds), np.array(values))


def _top_and_random(
    model: LeafModel,
    leaf: Leaf,
    T: Floats,
    u: Floats,
    count: int,
    goal: Goal,
    settings: Settings,
    snap: Snap,
    rng: np.random.Generator,
    pending: Floats,
) -> Candidates:
    """The appendix's heuristic: i-th best blocks combined for half of them, the rest random.

    Block-coordinate search from a random point of the leaf; on its way, the best blocks of each
    group are remembered in their order.
    """
    acquire = ACQUISITIONS[settings.acquisition]
    top = (count + 1) // 2
    P = snap(_uniform(leaf, settings.block_samples, rng))
    table = Table(model.posterior, model.to_leaf(P), room=0)
    groups = len(model.posterior.groups)
    rows = np.zeros(groups, dtype=np.int64)
    v, mean = table.whitened(rows), table.mean(rows)
    ranked = np.zeros((top, groups), dtype=np.int64)
    for _ in range(settings.passes):
        for m in range(groups):
            mu, sd = table.vary(m, rows[m], v, mean)
            value = acquire(model.mean + model.scale * mu, model.scale * sd, goal)
            best = np.argsort(-value, kind="stable")[:top]
            ranked[:, m] = np.resize(best, top)
            v, mean = table.swap(m, rows[m], int(best[0]), v, mean)
            rows[m] = best[0]
    combined = np.array([table.recombine(P, row) for row in ranked])
    points = np.concatenate([combined, snap(_uniform(leaf, count - top, rng))])
    mu, sd = model.predict(points)
    return Candidates(points, mu, sd, acquire(mu, sd, goal))


def _blocks(starts: Floats, leaf: Leaf, T: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Starts; then observations, steps from the starts and uniform points, in equal parts."""
    side = leaf.upper - leaf.lower
    third = max(1, int((count - len(starts)) * STEP_SHARE))
    observed = T[rng.permutation(len(T))[: (count - len(starts) - third) // 2]]
    length = np.exp(rng.uniform(np.log(SHORTEST), np.log(LONGEST), (third, 1)))
    steps = starts[rng.integers(len(starts), size=third)]
    steps = steps + length * side * rng.standard_normal(steps.shape)
    uniform = _uniform(leaf, max(1, count - len(starts) - len(observed) - third), rng)
    points: Floats = np.concatenate([starts, observed, steps, uniform])
    return points.clip(leaf.lower, leaf.upper)


def _how_many(groups: int, rng: np.random.Generator) -> int:
    """How many groups a candidate moves: any number is as likely on the scale of logarithms."""
    return int(np.ceil(np.exp(rng.uniform(0.0, np.log(groups))))) if groups > 1 else 1


def _reach(rng: np.random.Generator) -> float:
    return float(np.exp(rng.uniform(np.log(0.02), np.log(1.0))))


def _uniform(leaf: Leaf, count: int, rng: np.random.Generator) -> Floats:
    return leaf.lower + rng.random((count, len(leaf.lower))) * (leaf.upper - leaf.lower)


def _with_maxima(
    model: LeafModel,
    leaf: Leaf,
    T: Floats,
    goal: Goal,
    settings: Settings,
    rng: np.random.Generator,
) -> Goal:
    """The goal with samples of the leaf's maximum, none of them below the best value."""
    P = np.concatenate([T, _uniform(leaf, settings.block_samples, rng)])
    mean, sd = model.predict(P)
    if settings.acquisition == "mes-gumbel":
        maxima = gumbel_maxima(mean, sd, MAXIMA, rng)
    else:
        covariance = model.scale**2 * model.posterior.covariance(model.to_leaf(P))
        maxima = sampled_maxima(mean, covariance, MAXIMA, rng)
    floor = goal.best + 0.05 * model.scale
    return Goal(goal.best, goal.upper_bound, np.maximum(maxima, floor), goal.deviations)
