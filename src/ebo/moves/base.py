"""What a move is: it makes tries around a point, and the posterior picks the best of them.

=========  =======  ==========================================================================
name       shape    meaning
=========  =======  ==========================================================================
T, u       (n, F)   a leaf's observations and their standardised values
x          (F,)     the point that moves
P          (S, F)   tries
=========  =======  ==========================================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from ebo.acquisition import Acquisition, Aim, Goal, gumbel_maxima, sampled_maxima
from ebo.arrays import Floats, Ints
from ebo.learning.base import LeafModel
from ebo.partition import Leaf

Snap = Callable[[Floats], Floats]  # moves discrete parameters of points to their places

# So many of the best observations are good enough to start from, or to take blocks of. Ranks are
# drawn evenly on a log scale, so that the first ones come most often, whatever the number is.
GOOD = 20
MOST_TRIES = 10**6  # of a move: a search of more would not come to an end
MAXIMA = 10  # samples of the maximum for max-value entropy: as many as its authors take
PLACES = 100  # random points, beside the observations, at which the maximum may be
LEAST_GAIN = 0.05  # least gain of such a sample over the best value, in a model's deviations


class Move(ABC):
    """A way to make tries around a point. The posterior picks the best of them.

    share: the part of the candidates that make the move.
    by_group: whether the posterior picks the best block for each group, one group after the other,
        or the best point as a whole.
    """

    share: float = 1.0
    by_group: ClassVar[bool] = False

    @abstractmethod
    def tries(self, x: Floats, region: Region, reach: float, rng: np.random.Generator) -> Floats:
        """Points P (S, F) around x. The search clips those that are outside of the region.

        reach: how far this candidate may go, in parts of the region's sides.
        rng: all that is random must come from it.
        """

    def chance(self, region: Region) -> float:
        """The chance that a candidate of a region makes the move."""
        return self.share


@dataclass(frozen=True)
class Region:
    """Where the search looks for candidates: a leaf, what is known there, and what it aims at.

    T, u: the observations in the leaf's box; the model may know others.
    snap: moves discrete parameters of points to their places.
    """

    model: LeafModel
    leaf: Leaf
    T: Floats
    u: Floats
    acquisition: Acquisition
    goal: Goal
    snap: Snap
    _best_blocks: dict[int, Ints] = field(default_factory=dict, repr=False)

    @cached_property
    def aim(self) -> Aim:
        """The acquisition function for means and deviations in the model's scale."""
        return Aim(self.acquisition, self.goal, self.model.mean, self.model.scale)

    @cached_property
    def best(self) -> Ints:
        """Rows of the observations, best first."""
        return np.argsort(-self.u, kind="stable")

    @property
    def groups(self) -> list[Ints]:
        """The dimensions that act together."""
        return self.model.posterior.groups

    def with_maxima(self, rng: np.random.Generator) -> Region:
        """This region with samples of its maximum in the goal, if the acquisition needs them.

        All samples are above the best value.
        """
        how, model = self.acquisition.maxima, self.model
        if how is None:
            return self
        P = np.concatenate([self.T, self.snap(self.uniform(PLACES, rng))])
        mean, sd = model.predict(P)
        if how == "independently":
            maxima = gumbel_maxima(mean, sd, MAXIMA, rng)
        else:
            covariance = model.scale**2 * model.posterior.covariance(model.to_leaf(P))
            maxima = sampled_maxima(mean, covariance, MAXIMA, rng)
        least = self.goal.best + LEAST_GAIN * model.scale
        return replace(self, goal=replace(self.goal, maxima=np.maximum(maxima, least)))

    def uniform(self, count: int, rng: np.random.Generator) -> Floats:
        """Random points of the leaf."""
        lower, upper = self.leaf.lower, self.leaf.upper
        return lower + rng.random((count, len(lower))) * (upper - lower)

    def within(self, P: Floats) -> Floats:
        """The nearest points of the leaf, with discrete parameters at their places."""
        return self.snap(P.clip(self.leaf.lower, self.leaf.upper))

    def best_blocks(self, m: int) -> Ints:
        """Rows of the model's observations; first those whose block m is best by itself."""
        if m not in self._best_blocks:
            worth = self.model.posterior.component(m)
            self._best_blocks[m] = np.argsort(-worth, kind="stable")
        return self._best_blocks[m]


def log_uniform(n: int, rng: np.random.Generator, shape: tuple[int, ...] = ()) -> Ints:
    """Random numbers i of 0 .. n - 1; small ones come often: log(1 + i) is about uniform."""
    return np.minimum(((n + 1) ** rng.random(shape)).astype(np.int64) - 1, n - 1)


def good(order: Ints, rng: np.random.Generator) -> int:
    """One of the first rows of an order, the very first most often."""
    return int(order[log_uniform(min(len(order), GOOD), rng)])
