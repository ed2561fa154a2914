"""Candidates of a leaf one after the other, each as if those before it had been observed.

Each starts at a good observation and moves some of its groups, one block at a time. How many move,
and how far, is drawn for each. Where the function is not additive, some leap first: all groups at
once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ebo.arrays import Floats, Singles
from ebo.checks import check_count
from ebo.moves.base import Region, log_uniform
from ebo.moves.crossover import Blocks, Crossover
from ebo.moves.difference import Difference
from ebo.moves.starts import Starts, best_of_regions
from ebo.moves.step import Step
from ebo.tilegp.posterior import Walk

MOST = 10**6  # tries, and passes: a search of more would not come to an end
PIECE = 50  # candidates of a leaf that know of each other: more would hold up the other threads


@dataclass(frozen=True, kw_only=True)
class Climbing:
    """The default search.

    tries: points whose blocks are tried for each group. More find better blocks; the cost grows in
        proportion.
    passes: times that every group that is to move has its turn; twice as often as long as all
        observations fit into one leaf, when every evaluation counts and a search costs little.
    """

    tries: int = 40
    passes: int = 2
    starts: Starts = field(default_factory=Starts)
    step: Step = field(default_factory=Step)
    crossover: Crossover = field(default_factory=Crossover)
    difference: Difference = field(default_factory=Difference)

    def __post_init__(self) -> None:
        check_count("tries", self.tries, 1, most=MOST)
        check_count("passes", self.passes, 1, most=MOST)

    def pieces(self, count: int) -> list[int]:
        """Equal numbers of candidates that are searched side by side."""
        parts = -(-count // PIECE)
        return [count // parts + (i < count % parts) for i in range(parts)]

    def with_time(self, few: bool) -> Climbing:
        """With twice the passes where there are few observations."""
        return replace(self, passes=min(2 * self.passes, MOST)) if few else self

    def propose(
        self, region: Region, count: int, pending: Floats, rng: np.random.Generator
    ) -> Floats:
        """Candidates (count, F); pending points of the leaf count as observed."""
        model, leaf, groups = region.model, region.leaf, region.groups
        near = pending[np.all((pending >= leaf.lower) & (pending <= leaf.upper), axis=1)]
        walk = Walk(model.posterior, room=count + len(near))
        for x in model.to_leaf(near):
            walk.add(x, walk.whitened(x))
        hills = best_of_regions(region, rng)
        blocks = Blocks(region, walk)
        smooth = model.posterior.smooth
        leaping = self.difference.share * smooth.lead if smooth and len(region.best) else 0.0
        found = []
        for _ in range(count):
            x = self.starts.draw(region, hills, rng)
            v = walk.whitened(model.to_leaf(x))
            if rng.random() < leaping:
                x, v = self._leap(x, walk, region, rng)
            movable = rng.permutation(len(groups))[: 1 + log_uniform(len(groups), rng)]
            reach, crosses = self.step.draw_reach(rng), rng.random() < self.crossover.share
            for _ in range(self.passes):
                P = self.step.tries(x, reach, region, 1 + self.tries, rng)
                if crosses and len(region.best):
                    blocks.put_into(P, movable, rng)
                P = region.snap(P)
                P[0] = x
                order = rng.permutation(movable)
                rows, v = walk.climb(order, v, model.to_leaf(P), region.aim)
                for m, row in zip(order, rows, strict=True):
                    x[groups[m]] = P[row, groups[m]]
            found.append(x)
            walk.add(model.to_leaf(x), v)
        return np.array(found)

    def _leap(
        self, x: Floats, walk: Walk, region: Region, rng: np.random.Generator
    ) -> tuple[Floats, Singles]:
        """The best of a difference's tries, or x as it stands; and its v."""
        P = region.snap(region.clip(self.difference.tries(x, region, self.tries, rng)))
        P = np.concatenate([x[None, :], P])
        mean, sd, whitened = walk.whole(region.model.to_leaf(P))
        chosen = int(region.aim.worth(mean, sd).argmax())
        return P[chosen], whitened[chosen]
