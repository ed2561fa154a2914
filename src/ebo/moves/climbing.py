"""Candidates of a leaf one after the other, each as if those before it had been observed.

Each starts at a good observation and makes moves from there. How many groups move, and how far, is
drawn for each candidate, evenly on a log scale: no function tells in advance whether few bold moves
or many small ones pay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ebo.arrays import Floats
from ebo.checks import check_count
from ebo.moves.base import MOST_TRIES, Move, Region, log_uniform
from ebo.moves.pick import best_blocks, best_point
from ebo.moves.starts import Starts, best_of_regions
from ebo.tilegp.posterior import Walk

PIECE = 50  # most candidates that are searched in one go: more would hold up the other threads
SHORTEST_REACH = 1e-2  # of a candidate, in parts of a leaf's sides; the longest reach is 1


@dataclass(frozen=True, kw_only=True)
class Climbing:
    """The default search: candidates climb from good observations, one after the other.

    passes: how often each group that is to move has its turn. The cost grows in proportion.
    starts: where candidates begin.
    """

    passes: int = 2
    starts: Starts = field(default_factory=Starts)

    def __post_init__(self) -> None:
        check_count("passes", self.passes, 1, most=MOST_TRIES)

    def pieces(self, count: int) -> list[int]:
        """The candidates of a leaf in nearly equal numbers, to be searched side by side."""
        parts = -(-count // PIECE)
        return [count // parts + (i < count % parts) for i in range(parts)]

    def propose(
        self,
        region: Region,
        moves: Sequence[Move],
        count: int,
        pending: Floats,
        rng: np.random.Generator,
    ) -> Floats:
        """Candidates (count, F). Pending points in the leaf count as observed at their mean."""
        model, leaf = region.model, region.leaf
        near = pending[np.all((pending >= leaf.lower) & (pending <= leaf.upper), axis=1)]
        walk = Walk(model.posterior, room=count + len(near))
        for x in model.to_leaf(near):
            walk.add(x, walk.whitened(x))
        hills = best_of_regions(region, rng)
        found = []
        for _ in range(count):
            x = self.starts.draw(region, hills, rng)
            v = walk.whitened(model.to_leaf(x))
            made = [move for move in moves if rng.random() < move.chance(region)]
            reach = float(SHORTEST_REACH ** rng.random())
            for move in made:
                if not move.by_group:
                    P = region.within(move.tries(x, region, reach, rng))
                    x, v = best_point(np.concatenate([x[None, :], P]), walk, region)
            by_group = [move for move in made if move.by_group]
            groups = len(region.groups)
            movable = rng.permutation(groups)[: 1 + log_uniform(groups, rng)]
            for _ in range(self.passes if by_group else 0):
                P = np.concatenate([move.tries(x, region, reach, rng) for move in by_group])
                P = np.concatenate([x[None, :], region.within(P)])
                x, v = best_blocks(P, rng.permutation(movable), v, walk, region)
            found.append(x)
            walk.add(model.to_leaf(x), v)
        return np.array(found)
