"""The heuristic of the appendix: the i-th best blocks of all groups make the i-th candidate.

The search starts at a random point of the leaf. Group by group it remembers the best blocks in
their order, takes the best one, and improves it before the next group's turn. The remembered blocks
make half of the candidates; the others are random points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ebo.arrays import Floats, Singles
from ebo.checks import check_count
from ebo.moves.base import Move, Region
from ebo.tilegp.posterior import Walk


@dataclass(frozen=True, kw_only=True)
class Printed:
    """The search as printed.

    tries: random points whose blocks are tried for each group.
    passes: how often every group has its turn.
    """

    tries: int = 1000
    passes: int = 1

    def __post_init__(self) -> None:
        check_count("tries", self.tries, 1, most=10**6)
        check_count("passes", self.passes, 1, most=10**6)

    def pieces(self, count: int) -> list[int]:
        """All candidates of a leaf at once, as the heuristic wants them."""
        return [count] if count else []

    def propose(
        self,
        region: Region,
        moves: Sequence[Move],
        count: int,
        pending: Floats,
        rng: np.random.Generator,
    ) -> Floats:
        """Candidates (count, F). The moves and the pending points are not used."""
        model = region.model
        top = (count + 1) // 2
        walk = Walk(model.posterior, room=0)
        P = region.snap(region.uniform(1 + self.tries, rng))
        U, x = model.to_leaf(P), P[0].copy()
        v = walk.whitened(U[0])
        combined = np.repeat(P[:1], top, axis=0)
        for _ in range(self.passes):
            for m, group in enumerate(region.groups):
                mean, sd, moved = walk.vary(m, v, U)
                order = np.argsort(-region.aim.worth(mean, sd), kind="stable")
                combined[:, group] = P[np.ix_(np.resize(order, top), group)]
                v, x[group] = moved[order[0]], P[order[0], group]
                x, v = _improved(region, walk, m, x, v)
                combined[0, group] = x[group]
                P[0], U[0] = x, model.to_leaf(x)
        return np.concatenate([combined, region.snap(region.uniform(count - top, rng))])


def _improved(region: Region, walk: Walk, m: int, x: Floats, v: Singles) -> tuple[Floats, Singles]:
    """x with its block m improved along one dimension after the other, and its v.

    Along a dimension all places are tried that can matter to the kernel: the middle of every cell,
    where it has cells (the paper's L-BFGS-B would see no slope there), so that a block of one
    dimension ends at its optimum; else the coordinates of the observations, where a limit kernel
    has its kinks.
    """
    model, leaf = region.model, region.leaf
    for d in model.posterior.groups[m]:
        breaks = model.posterior.kernel.breaks(d, model.posterior.cuts)
        if breaks is not None:
            ends = model.lower[d] + model.width[d] * breaks
            ends = np.concatenate([leaf.lower[d : d + 1], ends, leaf.upper[d : d + 1]])
            ends = np.unique(ends.clip(leaf.lower[d], leaf.upper[d]))
            places = 0.5 * (ends[1:] + ends[:-1])
        else:
            places = region.T[:, d].clip(leaf.lower[d], leaf.upper[d])
        P = np.repeat(x[None, :], 1 + len(places), axis=0)
        P[1:, d] = places
        P = region.snap(P)
        P[0] = x
        mean, sd, moved = walk.vary(m, v, model.to_leaf(P))
        best = int(region.aim.worth(mean, sd).argmax())
        x, v = P[best], moved[best]
    return x, v
