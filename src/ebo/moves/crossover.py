"""Crossover: a point takes blocks of other observations, of the best ones most often.

It is the paper's reading of evolutionary search (Section 3.6): under an additive model a block that
is good in one point is good in another. The best blocks may be in points that are poor as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ebo.arrays import Floats
from ebo.checks import check_count, check_number
from ebo.moves.base import GOOD, MOST_TRIES, Move, Region, log_uniform


@dataclass(frozen=True, kw_only=True)
class Crossover(Move):
    """A point may take blocks of good observations, however far away they are.

    count: tries for each group.
    share: the part of the candidates that make the move.
    """

    count: int = 10
    share: float = 0.2
    by_group = True

    def __post_init__(self) -> None:
        check_count("count", self.count, 1, most=MOST_TRIES)
        check_number("share", self.share, 0.0, 1.0)

    def tries(self, x: Floats, region: Region, reach: float, rng: np.random.Generator) -> Floats:
        """Points P (count, F); none in a leaf without observations."""
        T, groups = region.model.T, region.groups
        if not len(T):
            return np.empty((0, len(x)))
        ranks = log_uniform(min(len(T), GOOD), rng, (self.count, len(groups)))
        P = np.empty((self.count, len(x)))
        for m, group in enumerate(groups):
            P[:, group] = T[np.ix_(region.best_blocks(m)[ranks[:, m]], group)]
        return P
