"""Steps in all directions; a point takes the best block of them for each group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ebo.arrays import Floats
from ebo.checks import check_count, check_number
from ebo.moves.base import MOST_TRIES, Move, Region


@dataclass(frozen=True, kw_only=True)
class Step(Move):
    """Steps up to the length of the reach, drawn evenly on a log scale.

    count: tries for each group. More find better blocks, and take longer in proportion.
    shortest: the shortest step over the reach. A model that is sure of short steps and shy of long
        ones takes the shortest it can have, and climbs the nearest hill.
    """

    count: int = 40
    shortest: float = 1e-2
    by_group = True

    def __post_init__(self) -> None:
        check_count("count", self.count, 1, most=MOST_TRIES)
        check_number("shortest", self.shortest, 1e-6, 1.0)

    def tries(self, x: Floats, region: Region, reach: float, rng: np.random.Generator) -> Floats:
        """Points P (count, F)."""
        length = reach * self.shortest ** rng.random((self.count, 1))
        sides = region.leaf.upper - region.leaf.lower
        P: Floats = x + length * sides * rng.standard_normal((self.count, len(x)))
        return P
