"""Leaves to search in, which several tests share, and what points are worth by TileGP."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ebo import Categorical, Float, Int, Space, box
from ebo.acquisition import ACQUISITIONS, Goal
from ebo.arrays import Floats, Ints
from ebo.learning.base import LeafModel, leaf_box
from ebo.learning.model import Model
from ebo.moves.base import Region
from ebo.partition import Leaf
from ebo.tilegp.model import TileGP
from ebo.tilegp.posterior import Posterior, Walk
from ebo.tilegp.smooth import Smooth

SINGLE = 2e-3  # blocks are compared in single precision
SQUARE = box([0.0] * 4, [1.0] * 4)
LINE = box([0.0], [1.0])
MIXED = Space(
    rate=Float(1e-3, 10.0, log=True),
    kind=Categorical(["a", "b", "c"]),
    depth=Int(0, 6),
    shift=Float(-2.0, 6.0),
    units=Int(1, 40, log=True),
    size=Categorical([8, 16, 32, 64], ordered=True),
)
DISCRETE = Space(n=Int(0, 4), kind=Categorical(range(6)), m=Int(1, 9))
SPACES = {"square": SQUARE, "line": LINE, "mixed": MIXED, "discrete": DISCRETE}


def values(T: Floats) -> Floats:
    """A function with its own scale and mean, rough enough that blocks differ."""
    u: Floats = (np.sin(7.0 * T + np.arange(T.shape[1])) - 2.0 * (T - 0.45) ** 2).sum(axis=1)
    return u


def draw(
    space: Space,
    *,
    n: int = 40,
    lower: float = 0.0,
    upper: float = 1.0,
    overlap: float = 0.0,
    noise: float = 1e-2,
    seed: int = 0,
    acquisition: str = "ei",
    deviations: float = 2.0,
    kernel: str = "laplace",
) -> Region:
    """A leaf of equal sides that sees n observations, with groups of two and its own scale."""
    rng = np.random.default_rng([seed, 99])
    dims = len(space.levels)
    leaf = Leaf(np.full(dims, lower), np.full(dims, upper), np.arange(n))
    low, high = np.maximum(leaf.lower - overlap, 0.0), np.minimum(leaf.upper + overlap, 1.0)
    T = np.empty((0, dims))
    while len(T) < n:  # as in a partition: observations of the space that the leaf sees
        P = space.snap(rng.uniform(low, high, (10 * n, dims)))
        T = np.concatenate([T, P[np.all(P.clip(low, high) == P, axis=1)]])
    T = T[:n]
    y = values(T)
    drawn = Model(kernel=kernel, layers=12).draw_kernel(space.categorical, rng)
    z, cuts = np.arange(dims) // 2, rng.integers(2, 6, dims)
    posterior = Posterior.of(drawn, z, cuts, noise, (T - low) / (high - low), y)
    model = LeafModel(posterior, T, y, low, high - low, mean=0.3, scale=1.7)
    u = 0.3 + 1.7 * y
    best = float(u.max(initial=0.0))
    goal = Goal(best, best + 0.5, best + np.array([0.3, 0.9]), deviations)
    return Region(model, leaf, T, u, ACQUISITIONS[acquisition], goal, space.snap)


def none(region: Region) -> Floats:
    """No pending points."""
    return np.empty((0, region.T.shape[1]))


def groups_of(region: Region) -> Ints:
    """The groups of a leaf's model as numbers."""
    z = np.empty(region.T.shape[1], dtype=np.int64)
    for m, group in enumerate(region.groups):
        z[group] = m
    return z


def with_smooth(region: Region, share: float) -> Region:
    """The same with a smooth part of the model's kernel."""
    model, smooth = region.model, Smooth(share, np.ones(region.T.shape[1]), 0.01)
    old, z = model.posterior, groups_of(region)
    posterior = Posterior.of(old.kernel, z, old.cuts, 0.01, old.T, model.y, smooth)
    return replace(region, model=replace(model, posterior=posterior))


def worth(region: Region, P: Floats) -> Floats:
    """The acquisition function by TileGP on the model's box."""
    model, posterior = region.model, region.model.posterior
    mask = posterior.kernel.categorical
    assert mask is not None
    upper = model.lower + model.width
    cube = leaf_box(model.lower, upper, mask)
    gp = TileGP(
        posterior.kernel, cube, groups_of(region), posterior.cuts, posterior.noise, form="kernel"
    )
    mean, variance = gp.fit(region.T, model.y).predict(P.clip(model.lower, upper))
    sd = np.sqrt(np.maximum(variance, 1e-15))
    function = region.acquisition.worth
    return function(model.mean + model.scale * mean, model.scale * sd, region.goal)


def assert_of_the_leaf(region: Region, P: Floats) -> None:
    """Points of the space, in the leaf up to the slots of discrete values that it cuts through."""
    np.testing.assert_array_equal(region.snap(P), P)
    nearest = P.clip(region.leaf.lower, region.leaf.upper)
    np.testing.assert_array_equal(region.snap(nearest), P)


@dataclass
class Climbs:
    """What the search has asked of the posterior: climbs by blocks, and moves as a whole."""

    order: list[Ints] = field(default_factory=list)  # of the groups of a climb
    tries: list[Floats] = field(default_factory=list)  # whose blocks could be taken
    start: list[NDArray[np.float32]] = field(default_factory=list)  # v of the first of them
    whole: list[Floats] = field(default_factory=list)  # points that were to replace the first


def watched(monkeypatch: pytest.MonkeyPatch) -> Climbs:
    """All climbs from now on."""
    seen, climb, whole = Climbs(), Walk.climb, Walk.whole

    def watched_climb(self: Walk, order: Ints, v: Any, P: Floats, aim: Any) -> Any:
        seen.order.append(np.array(order))
        seen.tries.append(P.copy())
        seen.start.append(np.array(v))
        return climb(self, order, v, P, aim)

    def watched_whole(self: Walk, P: Floats) -> Any:
        if len(P) > 1:  # one is a point that starts, or is observed
            seen.whole.append(P.copy())
        return whole(self, P)

    monkeypatch.setattr(Walk, "climb", watched_climb)
    monkeypatch.setattr(Walk, "whole", watched_whole)
    return seen
