"""Beliefs: what one iteration takes for true, and what it does because of it.

Every iteration draws one belief of an ensemble. *Additive*: the function is a sum over groups of
parameters. *Mixture*: beside the sum it has a part that is smooth in all parameters together.

A belief says three things: which observations a leaf's model knows, which moves the search makes,
and which extra points the batch has. The mixture is the better model close to the best
observations. The additive belief dares to combine what is good in places far apart. Neither finds
what the other does. The chance of the mixture is ω, the share of the kernel that is smooth.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ebo.acquisition import Acquisition, Goal
from ebo.arrays import Floats, Ints
from ebo.checks import check_flag
from ebo.learning.base import Data, Structure, by_distance, outside
from ebo.moves.base import Move
from ebo.moves.crossover import Crossover
from ebo.moves.difference import Difference
from ebo.moves.probes import Probes
from ebo.moves.shrinking import Shrinking
from ebo.moves.step import Step
from ebo.space import Space


@dataclass(frozen=True)
class Asked:
    """What an iteration is asked for: a batch of n points of a space.

    pending: (Q, F), the points that were asked for before and have no value yet.
    acquisition, goal: what a point is worth.
    """

    n: int
    space: Space
    pending: Floats
    acquisition: Acquisition
    goal: Goal


@dataclass(frozen=True)
class Extra:
    """Points P (S, F) of the unit cube that a batch has beside those that the search finds.

    The batch takes the first `count` of them that are new.
    """

    P: Floats
    count: int
    structure: Structure  # with what the points are made of


@dataclass(frozen=True, kw_only=True)
class Additive:
    """The belief that the function is additive.

    borrows: whether a leaf's model also knows some of the best observations outside its box. What
        is good far away tells something of each group here. There are as many as `leaf_size` has
        room for; fewer, the more of the kernel is smooth, and none from half of it on.
    moves: how candidates are found. Steps may be short or long; crossing goes far.
    probes: evaluations that tell which parameters act together; None for none.
    """

    borrows: bool = True
    moves: tuple[Move, ...] = (Step(), Crossover())
    probes: Probes | None = field(default_factory=Probes)

    def __post_init__(self) -> None:
        check_flag("borrows", self.borrows)

    def rows(self, data: Data, rows: Ints, structure: Structure, rng: np.random.Generator) -> Ints:
        """The rows of a leaf, and others drawn from the best observations outside of it.

        The nearest ones would do as well on additive functions. But where only half of the function
        is additive, climbs with the nearest get caught.
        """
        missing = int(structure.additive_lead * data.partition.leaf_size) - len(rows)
        if not self.borrows or missing <= 0 or not len(rows):
            return rows
        others = data.best[outside(rows, len(data.u))[data.best]][: 2 * missing]
        missing = min(missing, len(others))
        return np.concatenate([rows, rng.choice(others, missing, replace=False)])

    def extra(
        self,
        data: Data,
        structure: Structure,
        asked: Asked,
        rng: np.random.Generator,
    ) -> Extra:
        """Probes, if more of them are needed."""
        if self.probes is None or data.model.group_limit == 1:
            return Extra(np.empty((0, data.dims)), 0, structure)
        P, count, pair = self.probes.points(
            data, structure.pair, asked.n, asked.pending, asked.space, rng
        )
        return Extra(P, count, replace(structure, pair=pair))


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """The belief that beside an additive part there is one that is smooth in all parameters.

    moves: how candidates are found. The smooth part is sure of short steps and shy of long ones,
        and would always choose the short. So a candidate of long reach is offered no short steps.
    polish: a part of the batch that lies close to the best observation; None for none.
    """

    moves: tuple[Move, ...] = (Difference(), Step(shortest=0.3), Crossover())
    polish: Shrinking | None = field(default_factory=Shrinking)

    def rows(self, data: Data, rows: Ints, structure: Structure, rng: np.random.Generator) -> Ints:
        """The rows of a leaf, and those nearest to the best of them, up to the size of a leaf.

        The leaf's box is random, and may cut through the hill that is climbed.
        """
        missing = data.partition.leaf_size - len(rows)
        if missing <= 0 or not len(rows):
            return rows
        near = by_distance(data.T, int(rows[data.u[rows].argmax()]))
        return np.concatenate([rows, near[outside(rows, len(near))[near]][:missing]])

    def extra(
        self,
        data: Data,
        structure: Structure,
        asked: Asked,
        rng: np.random.Generator,
    ) -> Extra:
        """Points close to the best observation, if its hill is known."""
        if self.polish is None:
            return Extra(np.empty((0, data.dims)), 0, structure)
        P = self.polish.points(
            data,
            structure,
            asked.acquisition,
            asked.goal,
            asked.n,
            asked.pending,
            asked.space.snap,
            rng,
        )
        return Extra(P, len(P), structure)


@dataclass(frozen=True)
class Belief:
    """The belief of one iteration, with the structure that it is about.

    structure: what the iteration's models have. In the additive belief it has no smooth part.
    learned: all that is learned, with the smooth part.
    """

    strategy: Additive | Mixture
    structure: Structure
    learned: Structure

    @property
    def moves(self) -> tuple[Move, ...]:
        """The moves that the search makes."""
        return self.strategy.moves

    def rows(self, data: Data, rows: Ints, rng: np.random.Generator) -> Ints:
        """The observations that the model of a leaf knows; `rows` are those in the leaf."""
        return self.strategy.rows(data, rows, self.learned, rng)

    def extra(
        self,
        data: Data,
        asked: Asked,
        rng: np.random.Generator,
    ) -> Extra:
        """The points that the batch has beside those that the search finds."""
        return self.strategy.extra(data, self.learned, asked, rng)


@dataclass(frozen=True, kw_only=True)
class Ensemble:
    """The beliefs that iterations draw from: the additive one, and the mixture or None."""

    additive: Additive = field(default_factory=Additive)
    mixture: Mixture | None = field(default_factory=Mixture)

    @property
    def smooth(self) -> bool:
        """Whether a smooth part is to be learned."""
        return self.mixture is not None

    def draw(
        self, structure: Structure, rng: np.random.Generator, *, fixed: bool = False
    ) -> Belief:
        """The belief of one iteration: the mixture with a chance that is its smooth part's share.

        fixed: the structure is not learned, so that probes would be of no use.
        """
        smooth = structure.smooth
        if smooth is not None and self.mixture is not None and rng.random() < smooth.share:
            return Belief(self.mixture, structure, structure)
        additive = replace(self.additive, probes=None) if fixed else self.additive
        return Belief(additive, replace(structure, smooth=None), structure)
