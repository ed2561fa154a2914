"""The step of differential evolution: x + c (a - b), with good observations a and b.

The differences of good points show along which directions one may move and stay good.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ebo.arrays import Floats
from ebo.checks import check_count, check_number
from ebo.moves.base import MOST_TRIES, Move, Region

PARENTS = 60  # a and b are among so many of the best: still good, and far apart
SHORTEST = 1e-2  # c is drawn from this to 1, evenly on a log scale


@dataclass(frozen=True, kw_only=True)
class Difference(Move):
    """A step of all groups at once, along the difference of two good observations.

    count: tries.
    share: the part of the candidates that begin with it where the whole kernel is smooth. There are
        fewer the more of it is additive, and none from half of it on.
    """

    count: int = 40
    share: float = 0.5

    def __post_init__(self) -> None:
        check_count("count", self.count, 1, most=MOST_TRIES)
        check_number("share", self.share, 0.0, 1.0)

    def chance(self, region: Region) -> float:
        """`share`, times how far the smooth part outweighs the additive one."""
        smooth = region.model.posterior.smooth
        return self.share * smooth.lead if smooth is not None and len(region.best) else 0.0

    def tries(self, x: Floats, region: Region, reach: float, rng: np.random.Generator) -> Floats:
        """Points P (count, F)."""
        a, b = region.T[rng.choice(region.best[:PARENTS], (2, self.count))]
        P: Floats = x + SHORTEST ** rng.random((self.count, 1)) * (a - b)
        return P
