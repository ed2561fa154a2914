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
        """How the candidates of a leaf are divided, to be searched side by side."""
        ...

    def propose(
        self,
        region: Region,
        moves: Sequence[Move],
        count: int,
        pending: Floats,
        rng: np.random.Generator,
    ) -> Floats:
        """Candidates (count, F) of a region, points of the unit cube."""
        ...


@dataclass(frozen=True)
class Piece:
    """Some of the candidates of a leaf, which are searched by themselves."""

    region: Region
    count: int
    rng: np.random.Generator


@dataclass(frozen=True)
class Candidates:
    """Points P (C, F) of the unit cube, and what each of them is worth, (C,)."""

    P: Floats
    value: Floats


def search(strategy: Search, moves: Sequence[Move], pending: Floats, piece: Piece) -> Candidates:
    """The candidates of a piece. What they are worth is computed in double precision."""
    region = piece.region.with_maxima(piece.rng)
    P = strategy.propose(region, moves, piece.count, pending, piece.rng)
    mean, sd = region.model.posterior.predict(region.model.to_leaf(P))
    return Candidates(P, region.aim.worth(mean, sd))
