"""A move makes tries around a point; the posterior picks the best of them.

=========  =======  ==========================================================================
name       shape    meaning
=========  =======  ==========================================================================
T, u       (n, F)   a leaf's observations and their standardised values
x          (F,)     the point that moves
P          (S, F)   tries
=========  =======  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ebo.acquisition import Acquisition, Aim, Goal
from ebo.arrays import Floats, Ints
from ebo.learning.base import LeafModel
from ebo.partition import Leaf

Snap = Callable[[Floats], Floats]  # points of the unit cube, discrete parameters to their places

# Observations that are good enough to start from, or to take blocks of. Ranks are drawn evenly on
# the scale of logarithms, so that the first come most often whatever the number is.
GOOD = 20


@dataclass(frozen=True)
class Region:
    """Where candidates are looked for: a leaf, what is known there, and what is aimed at."""

    model: LeafModel
    leaf: Leaf
    T: Floats
    u: Floats
    acquisition: Acquisition
    goal: Goal
    snap: Snap

    @cached_property
    def aim(self) -> Aim:
        """What points are worth, in the model's scale."""
        return Aim(self.acquisition, self.goal, self.model.mean, self.model.scale)

    @cached_property
    def best(self) -> Ints:
        """Rows of the observations, best first."""
        return np.argsort(-self.u, kind="stable")

    @property
    def groups(self) -> list[Ints]:
        """The dimensions that act together."""
        return self.model.posterior.groups

    def uniform(self, count: int, rng: np.random.Generator) -> Floats:
        """Random points of the leaf."""
        lower, upper = self.leaf.lower, self.leaf.upper
        return lower + rng.random((count, len(lower))) * (upper - lower)

    def clip(self, P: Floats) -> Floats:
        """The points of the leaf that are nearest."""
        return P.clip(self.leaf.lower, self.leaf.upper)


def log_uniform(n: int, rng: np.random.Generator) -> int:
    """A number 0 .. n - 1, of which the first come often: log(1 + i) is about uniform."""
    return min(int((n + 1) ** rng.random()) - 1, n - 1)


def good(order: Ints, rng: np.random.Generator) -> int:
    """One of the first rows of an order."""
    return int(order[log_uniform(min(len(order), GOOD), rng)])
