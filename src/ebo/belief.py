"""Beliefs: what one iteration takes for true, and what it does because of it.

Every iteration draws one member of an ensemble. *Additive*: the function is a sum over groups of
parameters. *Mixture*: it has a smooth part of all parameters together, too. A belief says which
observations a leaf's model knows, and which points a batch has beside what the search finds. The
mixture is the better model close to the best observations, and knows it; the additive one alone
dares to cross what is good in places far apart. Neither finds what the other does. The chance of
the mixture is the share ω that its smooth part has.
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
    """What is asked for: a batch of n points of a space, beside the pending ones (Q, F)."""

    n: int
    space: Space
    pending: Floats
    acquisition: Acquisition
    goal: Goal


@dataclass(frozen=True)
class Extra:
    """Points of the unit cube beside what the search finds: the first `count` that are new."""

    P: Floats
    count: int
    structure: Structure  # with what the points are made of


@dataclass(frozen=True, kw_only=True)
class Additive:
    """The function is additive.

    borrows: a leaf's model also knows some of the best observations outside its box, as many as
        `leaf_size` allows, and fewer where half is not additive. What is good far away tells of
        each group here.
    moves: how candidates are found. Steps may be short or long; crossing is what goes far.
    probes: evaluations that tell which parameters act together; None for none.
    """

    borrows: bool = True
    moves: tuple[Move, ...] = (Step(), Crossover())
    probes: Probes | None = field(default_factory=Probes)

    def __post_init__(self) -> None:
        check_flag("borrows", self.borrows)

    def rows(self, data: Data, rows: Ints, structure: Structure, rng: np.random.Generator) -> Ints:
        """A leaf's rows and, by chance, half of the best others.

        The nearest ones would do, too, but on functions that are half additive they make for climbs
        that get caught.
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
        """Probes."""
        if self.probes is None or data.model.group_limit == 1:
            return Extra(np.empty((0, data.dims)), 0, structure)
        P, count, pair = self.probes.points(
            data, structure.pair, asked.n, asked.pending, asked.space, rng
        )
        return Extra(P, count, replace(structure, pair=pair))


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """The function is additive, and beside it smooth in all parameters together.

    moves: how candidates are found. A smooth part is sure of short steps and shy of long ones. So
        that a candidate of long reach is one, it has no short steps to choose from.
    polish: a part of the batch that goes to where the best observation is; None for none.
    """

    moves: tuple[Move, ...] = (Difference(), Step(shortest=0.3), Crossover())
    polish: Shrinking | None = field(default_factory=Shrinking)

    def rows(self, data: Data, rows: Ints, structure: Structure, rng: np.random.Generator) -> Ints:
        """A leaf's rows and those nearest to the best of them, up to the size of a leaf.

        A smooth part does not care for boxes: a random one cuts through the hill that is climbed.
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
        """Points that polish the best observation."""
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
    """A belief of one iteration, and the structure that it is about.

    structure: as it is believed, with its smooth part or without.
    learned: all that is learned.
    """

    strategy: Additive | Mixture
    structure: Structure
    learned: Structure

    @property
    def moves(self) -> tuple[Move, ...]:
        """How candidates are found."""
        return self.strategy.moves

    def rows(self, data: Data, rows: Ints, rng: np.random.Generator) -> Ints:
        """Rows of the observations that the model of a leaf with these rows knows."""
        return self.strategy.rows(data, rows, self.learned, rng)

    def extra(
        self,
        data: Data,
        asked: Asked,
        rng: np.random.Generator,
    ) -> Extra:
        """Points of a batch beside those that the search finds."""
        return self.strategy.extra(data, self.learned, asked, rng)


@dataclass(frozen=True, kw_only=True)
class Ensemble:
    """All beliefs: the additive one, and the mixture, or None for none."""

    additive: Additive = field(default_factory=Additive)
    mixture: Mixture | None = field(default_factory=Mixture)

    @property
    def smooth(self) -> bool:
        """Whether a smooth part is to be learned."""
        return self.mixture is not None

    def draw(
        self, structure: Structure, rng: np.random.Generator, *, fixed: bool = False
    ) -> Belief:
        """The belief of one iteration: the mixture as often as the share of its smooth part."""
        smooth = structure.smooth
        if smooth is not None and self.mixture is not None and rng.random() < smooth.share:
            return Belief(self.mixture, structure, structure)
        # What is not learned needs no probes.
        additive = replace(self.additive, probes=None) if fixed else self.additive
        return Belief(additive, replace(structure, smooth=None), structure)
