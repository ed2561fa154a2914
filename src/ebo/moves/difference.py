"""The step of differential evolution: x + c (a - b), a and b good observations.

What good points differ by are directions that matter together, whatever they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ebo.arrays import Floats
from ebo.checks import check_number
from ebo.moves.base import Region

PARENTS = 60  # best observations that a and b are drawn from: wide apart, and still good
DECADES = 2.0  # c is from a hundredth to 1, evenly on the scale of logarithms


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A move of all groups at once.

    share: most of the candidates, a share, that begin with it: so many where all is smooth, none
        where half is additive.
    """

    share: float = 0.5

    def __post_init__(self) -> None:
        check_number("share", self.share, 0.0, 1.0)

    def tries(self, x: Floats, region: Region, count: int, rng: np.random.Generator) -> Floats:
        """Points P (count, F)."""
        a, b = region.T[rng.choice(region.best[:PARENTS], (2, count))]
        P: Floats = x + 10.0 ** (-DECADES * rng.random((count, 1))) * (a - b)
        return P
