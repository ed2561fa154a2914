"""Probes: points that tell which dimensions act together.

A probe takes every coordinate from one of two points, a and b. If f is a sum over groups of
dimensions, its value at a probe is a sum of few unknown numbers: one for each way to choose the
coordinates of a group. Every probe is an equation for them. So a few probes for each dimension
settle the groups, where thousands of points that share no coordinate say next to nothing.

=========  ===========  ======================================================================
name       shape        meaning
=========  ===========  ======================================================================
T, u       (n, F), (n)  observations in the unit cube, standardised values
`pair`     (2, F)       a, a good observation, and b, far from it in every dimension
=========  ===========  ======================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ebo.arrays import Floats
from ebo.checks import check_number
from ebo.learning.base import Data
from ebo.learning.pooled import are_probes
from ebo.moves.base import Snap
from ebo.space import Space

NEAR, FAR = 0.3, 0.7  # how far b is from a, on a range that is bent to a circle
FROM_B = 0.15  # share of a probe's coordinates from b; with more, all groups change at once
MANY_DIMENSIONS = 60  # beyond so many there are no more probes: they would use up the run
FIRST = 4  # times as many other observations must come first, so that a is a good one


@dataclass(frozen=True, kw_only=True)
class Probes:
    """Half of each batch is probes, until there are enough.

    per_dimension: how many probes there are for each parameter, of 60 parameters at most. They
        begin once there are four times as many observations. With more probes it is surer which
        parameters act together.
    """

    per_dimension: float = 5.0

    def __post_init__(self) -> None:
        check_number("per_dimension", self.per_dimension, 0.0, 1000.0)

    def points(
        self,
        data: Data,
        pair: Floats | None,
        n: int,
        pending: Floats,
        space: Space,
        rng: np.random.Generator,
    ) -> tuple[Floats, int, Floats | None]:
        """Probes (S, F), how many of them are needed, and the pair that they are made of.

        There are more than are needed, as some may be known already.
        """
        wanted = int(self.per_dimension * min(data.dims, MANY_DIMENSIONS))
        if data.dims == 1 or not 0 < FIRST * wanted <= len(data.u):
            return np.empty((0, data.dims)), 0, pair
        if pair is None:  # as it will come back from the user's units, which may be coarse
            new = new_pair(data.T, data.u, space.snap, rng)
            pair = space.to_unit(space.from_unit(new))
        known = are_probes(np.concatenate([data.T, pending]), pair).sum()
        count = max(0, min(int(0.5 * n + rng.random()), wanted - int(known)))
        return draw_probes(pair, 4 * count, rng), count, pair


def new_pair(T: Floats, u: Floats, snap: Snap, rng: np.random.Generator) -> Floats:
    """The best observation, and a random point far from it in every dimension."""
    a = T[u.argmax()]
    away = np.stack([rng.uniform(NEAR, FAR, len(a)), np.full(len(a), 0.5)])
    first, second = snap((a + away) % 1.0)
    b = np.where(first == a, second, first)  # in a slot that is wide, halfway round is outside
    return np.stack([a, b])


def draw_probes(pair: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Random probes (count, F), each with at least one coordinate from b."""
    dims = pair.shape[1]
    from_b = rng.random((count, dims)) < max(FROM_B, min(0.5, 2.0 / dims))
    from_b[np.arange(count), rng.integers(dims, size=count)] = True
    return np.asarray(np.where(from_b, pair[1], pair[0]))
