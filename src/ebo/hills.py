"""Hills: several climbs side by side, where a batch is larger than one climb has use for.

A climb goes on from what the batch before has found, and many points at once tell it little more
than some do; nor does it often leave the hill that it began on. So a large batch is shared: the
first climb knows all observations, the next ones those that are not near the best observation of
any before. Higher hills are paid more, and a climb that overtakes another takes its place.

=========  ===========  ======================================================================
name       shape        meaning
=========  ===========  ======================================================================
T, u       (n, F), (n)  all observations, in the unit cube, and their standardised values
=========  ===========  ======================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Hill:
    """Where a climb goes: everywhere but near the summits of higher hills."""

    rows: Ints  # of the observations there
    higher: tuple[Floats, ...]  # summits

    def holds(self, P: Floats) -> Bools:
        """Which of the points P (S, F) are there."""
        inside = np.ones(len(P), dtype=np.bool_)
        for x in self.higher:
            inside &= far(x, P)
        return inside


def find_hills(T: Floats, u: Floats, most: int, least: int) -> list[Hill]:
    """The highest first, each without those before, and all but the first of more than `least`."""
    hills = [Hill(np.arange(len(u)), ())]
    while len(hills) < most:
        rows, higher = hills[-1].rows, hills[-1].higher
        summit = T[rows[u[rows].argmax()]]
        rows = rows[far(summit, T[rows])]
        if len(rows) <= least:
            break
        hills.append(Hill(rows, (*higher, summit)))
    return hills


def far(x: Floats, P: Floats) -> Bools:
    """Which points P are not among the fortieth part of the cube, about, that is nearest to x.

    The square of the distance of a random point has this mean and variance, and in many dimensions
    about a normal law; in few, a tenth of the distance that is usual is the least that is near.
    """
    mean = np.sum(1.0 / 12.0 + (x - 0.5) ** 2)
    variance = np.sum(1.0 / 180.0 + (x - 0.5) ** 2 / 3.0)
    near = max(mean - 2.0 * np.sqrt(variance), 0.01 * mean)
    outside: Bools = np.sum((P - x) ** 2, axis=1) > near
    return outside
