"""The search for candidates in one leaf, whichever strategy makes them (Alg. 1, lines 8 to 10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ebo.arrays import Floats
from ebo.moves.base import Move, Region


class Search(Protocol):
    """A way to make candidates."""

    def pieces(self, count: int) -> list[int]:
        """The candidates of a leaf in parts that are searched side by side."""
        ...

    def with_time(self, few: bool) -> Search:
        """The same for few observations, when every evaluation counts."""
        ...

    def propose(
        self,
        region: Region,
        moves: Sequence[Move],
        count: int,
        pending: Floats,
        rng: np.random.Generator,
    ) -> Floats:
        """Candidates (count, F)."""
        ...


@dataclass(frozen=True)
class Candidates:
    """Points of the unit cube, and what they are worth."""

    P: Floats
    value: Floats


def search(
    strategy: Search,
    region: Region,
    moves: Sequence[Move],
    count: int,
    pending: Floats,
    rng: np.random.Generator,
) -> Candidates:
    """`count` candidates of a region; their worth is told in double precision."""
    region = region.with_maxima(rng)
    P = strategy.propose(region, moves, count, pending, rng)
    mean, sd = region.model.posterior.predict(region.model.to_leaf(P))
    return Candidates(P, region.aim.worth(mean, sd))
