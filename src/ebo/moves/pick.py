"""How the posterior picks the best of some tries: as a whole, or block by block."""

from __future__ import annotations

from ebo.arrays import Floats, Ints, Singles
from ebo.moves.base import Region
from ebo.tilegp.posterior import Walk


def best_point(P: Floats, walk: Walk, region: Region) -> tuple[Floats, Singles]:
    """The best of the points P, and the v of it."""
    mean, sd, whitened = walk.whole(region.model.to_leaf(P))
    chosen = int(region.aim.worth(mean, sd).argmax())
    return P[chosen], whitened[chosen]


def best_blocks(
    P: Floats, order: Ints, v: Singles, walk: Walk, region: Region
) -> tuple[Floats, Singles]:
    """The point that P[0] becomes, and its v; the v of P[0] is given.

    For one group after the other, in an order, its block is replaced by the best one of all P.
    """
    x = P[0].copy()
    rows, v = walk.climb(order, v, region.model.to_leaf(P), region.aim)
    for m, row in zip(order, rows, strict=True):
        group = region.groups[m]
        x[group] = P[row, group]
    return x, v
