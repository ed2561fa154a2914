"""The search for candidates in one leaf, whichever strategy makes them (Alg. 1, lines 8 to 10)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ebo.acquisition import Goal, gumbel_maxima, sampled_maxima
from ebo.arrays import Floats
from ebo.moves.base import Region

MAXIMA = 10  # samples of the maximum, for max-value entropy, as its authors take


class Search(Protocol):
    """A way to make candidates."""

    @property
    def tries(self) -> int:
        """Points whose blocks are tried for each group."""
        ...

    def pieces(self, count: int) -> list[int]:
        """The candidates of a leaf in parts that are searched side by side."""
        ...

    def with_time(self, few: bool) -> Search:
        """The same for few observations, when every evaluation counts."""
        ...

    def propose(
        self, region: Region, count: int, pending: Floats, rng: np.random.Generator
    ) -> Floats:
        """Candidates (count, F)."""
        ...


@dataclass(frozen=True)
class Candidates:
    """Points of the unit cube, and what they are worth."""

    P: Floats
    value: Floats


def search(
    strategy: Search, region: Region, count: int, pending: Floats, rng: np.random.Generator
) -> Candidates:
    """`count` candidates of a region; their worth is told in double precision."""
    if region.acquisition.maxima is not None:
        region = replace(region, goal=_with_maxima(region, strategy.tries, rng))
    P = strategy.propose(region, count, pending, rng)
    mean, sd = region.model.posterior.predict(region.model.to_leaf(P))
    return Candidates(P, region.aim.worth(mean, sd))


def _with_maxima(region: Region, count: int, rng: np.random.Generator) -> Goal:
    """The goal with samples of the leaf's maximum, none of them below the best value."""
    model, goal = region.model, region.goal
    P = np.concatenate([region.T, region.snap(region.uniform(count, rng))])
    mean, sd = model.predict(P)
    if region.acquisition.maxima == "independently":
        maxima = gumbel_maxima(mean, sd, MAXIMA, rng)
    else:
        covariance = model.scale**2 * model.posterior.covariance(model.to_leaf(P))
        maxima = sampled_maxima(mean, covariance, MAXIMA, rng)
    return replace(goal, maxima=np.maximum(maxima, goal.best + 0.05 * model.scale))
