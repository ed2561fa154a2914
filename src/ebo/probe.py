"""Probes: points that tell which dimensions act together.

A probe takes every coordinate from one of two points, a and b. Where f is a sum over groups of
dimensions, it is then a sum of few numbers: one for each way to choose the coordinates of a group,
whatever the function is like, and every probe is an equation for them. So a few probes for each
dimension settle the groups, where thousands of points that share no coordinate say next to nothing.

=========  ===========  ======================================================================
name       shape        meaning
=========  ===========  ======================================================================
T, u       (n, F), (n)  observations in the unit cube, standardised values
`pair`     (2, F)       a, a good observation, and b, far from it in every dimension
=========  ===========  ======================================================================
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ebo.arrays import Bools, Floats

NEAR, FAR = 0.3, 0.7  # how far b is from a, in a range that is thought of as a circle
FROM_B = 0.15  # share of a probe's coordinates: not so many that all groups change at once
SAME = 1e-9  # coordinates that differ by less are rounded differently


def new_pair(
    T: Floats, u: Floats, snap: Callable[[Floats], Floats], rng: np.random.Generator
) -> Floats:
    """The best observation, and a random point far from it in every dimension."""
    a = T[u.argmax()]
    away = np.stack([rng.uniform(NEAR, FAR, len(a)), np.full(len(a), 0.5)])
    first, second = snap((a + away) % 1.0)
    b = np.where(first == a, second, first)  # in a slot that is wide, halfway round is outside
    return np.stack([a, b])


def draw_probes(pair: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Probes (count, F), each with one coordinate of b at least."""
    dims = pair.shape[1]
    from_b = rng.random((count, dims)) < max(FROM_B, min(0.5, 2.0 / dims))
    from_b[np.arange(count), rng.integers(dims, size=count)] = True
    return np.asarray(np.where(from_b, pair[1], pair[0]))


def are_probes(T: Floats, pair: Floats) -> Bools:
    """Which points (n, F) are made of the pair's coordinates."""
    off = np.minimum(np.abs(T - pair[0]), np.abs(T - pair[1]))
    return np.asarray(np.all(off < SAME, axis=1))
