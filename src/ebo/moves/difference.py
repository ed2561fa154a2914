"""The step of differential evolution: x + c (a - b), a and b good observations.

What good points differ by are directions that matter together, whatever they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ebo.arrays import Floats
from ebo.checks import check_count, check_number
from ebo.moves.base import Move, Region

PARENTS = 60  # best observations that a and b are drawn from: wide apart, and still good
SHORTEST = 1e-2  # c is from this to 1, evenly on the scale of logarithms


@dataclass(frozen=True, kw_only=True)
class Difference(Move):
    """All groups at once, along a difference of two good observations.

    count: tries.
    share: most of the candidates, a share, that begin with it: so many where all is smooth, none
        where half is additive.
    """

    count: int = 40
    share: float = 0.5

    def __post_init__(self) -> None:
        check_count("count", self.count, 1)
        check_number("share", self.share, 0.0, 1.0)

    def chance(self, region: Region) -> float:
        """By how far the smooth part outweighs the additive one."""
        smooth = region.model.posterior.smooth
        return self.share * smooth.lead if smooth is not None and len(region.best) else 0.0

    def tries(self, x: Floats, region: Region, reach: float, rng: np.random.Generator) -> Floats:
        """Points P (count, F)."""
        a, b = region.T[rng.choice(region.best[:PARENTS], (2, self.count))]
        P: Floats = x + SHORTEST ** rng.random((self.count, 1)) * (a - b)
        return P
