"""Steps in all directions, whose blocks a point may take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ebo.arrays import Floats
from ebo.checks import check_number
from ebo.moves.base import Region

SHORTEST_REACH = 1e-2  # of a candidate, in parts of a leaf's sides; the longest is all of them


@dataclass(frozen=True, kw_only=True)
class Step:
    """Steps of lengths up to some reach, evenly on the scale of logarithms.

    The reach is drawn for each candidate in the same way: no function tells in advance whether few
    bold moves or many small ones pay.

    shortest: the shortest step over the reach.
    shortest_smooth: the same where a smooth part is believed. That is sure of short steps and shy
        of long ones: a candidate with both to choose from would climb the nearest hill.
    """

    shortest: float = 1e-2
    shortest_smooth: float = 0.3

    def __post_init__(self) -> None:
        check_number("shortest", self.shortest, 1e-6, 1.0)
        check_number("shortest_smooth", self.shortest_smooth, 1e-6, 1.0)

    def draw_reach(self, rng: np.random.Generator) -> float:
        """How far a candidate may go, in parts of a leaf's sides."""
        return float(SHORTEST_REACH ** rng.random())

    def tries(
        self, x: Floats, reach: float, region: Region, count: int, rng: np.random.Generator
    ) -> Floats:
        """Points P (count, F)."""
        leaf = region.leaf
        smooth = region.model.posterior.smooth is not None
        least = self.shortest_smooth if smooth else self.shortest
        length = reach * least ** rng.random((count, 1))
        P: Floats = x + length * (leaf.upper - leaf.lower) * rng.standard_normal((count, len(x)))
        return region.clip(P)
