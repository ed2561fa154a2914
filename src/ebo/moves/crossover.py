"""Blocks of other observations, those that are worth most by themselves first.

It is the paper's reading of evolutionary search (Section 3.6): under an additive model a block that
is good in one point is good in another. The best blocks are found in poor points, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ebo.arrays import Floats, Ints
from ebo.checks import check_number
from ebo.moves.base import Region, good
from ebo.tilegp.posterior import Walk

PART = 4  # one in so many tries is a block of an observation


@dataclass(frozen=True, kw_only=True)
class Crossover:
    """A part of the tries takes blocks of observations.

    share: of the candidates that cross.
    """

    share: float = 0.2

    def __post_init__(self) -> None:
        check_number("share", self.share, 0.0, 1.0)


class Blocks:
    """The blocks of a region's observations, ordered by worth as far as they are asked for."""

    def __init__(self, region: Region, walk: Walk) -> None:
        self._region, self._walk = region, walk
        self._order: dict[int, Ints] = {}  # by group

    def put_into(self, P: Floats, movable: Ints, rng: np.random.Generator) -> None:
        """Replace blocks of some groups, in a part of the points P, by blocks of observations."""
        region, part = self._region, max(1, len(P) // PART)  # row 0 is the point as it stands
        for m in movable.tolist():
            if m not in self._order:
                self._order[m] = np.argsort(-self._walk.component(m), kind="stable")
            group = region.groups[m]
            rows = [good(self._order[m], rng) for _ in range(1, part)]
            P[1:part, group] = region.model.T[np.ix_(rows, group)].clip(
                region.leaf.lower[group], region.leaf.upper[group]
            )
