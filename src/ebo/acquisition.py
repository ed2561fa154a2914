"""Acquisition functions: what a point is worth, by the posterior mean and deviation there.

All of them are maximised. The paper's η is minimised, so it appears here with its sign changed. The
filter weighs differences of these values against diversity, which it measures by a log determinant.
So functions that are chances or expectations are logarithms here.

=============  ===========  ====================================================================
name           shape        meaning
=============  ===========  ====================================================================
mean, sd       any          posterior mean μ and standard deviation σ > 0, standardised
`best`         scalar       best value observed
`upper_bound`  scalar       f*, known or estimated
`maxima`       (K,)         samples of the maximum, for max-value entropy search
=============  ===========  ====================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from ebo import native
from ebo.arrays import Floats


@dataclass(frozen=True)
class Goal:
    """What the search aims at, in standardised values: more than `best`, up to `upper_bound`.

    maxima: (K,), samples of the maximum, for acquisition functions that need them.
    deviations: c of the upper confidence bound μ + c σ.
    """

    best: float
    upper_bound: float
    maxima: Floats | None = None
    deviations: float = 2.0


Worth = Callable[[Floats, Floats, Goal], Floats]


@dataclass(frozen=True)
class Acquisition:
    """An acquisition function: what points are worth.

    worth: a function of means, deviations and the goal. A larger value is a better point.
    core: the core's name for the same function; None if the core does not have it. The core is
        much faster.
    maxima: how samples of the maximum are drawn, if the function needs any: with the values at
        some points drawn "jointly", or "independently".
    """

    worth: Worth
    core: str | None = None
    maxima: Literal["jointly", "independently"] | None = None


@dataclass(frozen=True)
class Aim:
    """An acquisition function with its goal, for the means and deviations of one model.

    mean, scale: a value v of the model is the standardised value mean + scale v.
    """

    acquisition: Acquisition
    goal: Goal
    mean: float = 0.0
    scale: float = 1.0

    @cached_property
    def core(self) -> native.Aim | None:
        """The same as an object of the core; None if the core does not have the function."""
        kind, goal = self.acquisition.core, self.goal
        if kind is None:
            return None
        return native.Aim(
            kind=kind,
            best=goal.best,
            upper_bound=goal.upper_bound,
            deviations=goal.deviations,
            maxima=[] if goal.maxima is None else goal.maxima.tolist(),
            mean=self.mean,
            scale=self.scale,
        )

    def worth(self, mean: Floats, sd: Floats) -> Floats:
        """What points are worth, (S,), given their means and deviations in the model's scale."""
        if self.core is not None:
            return self.core.worth(mean, sd)
        worth = self.acquisition.worth
        found = np.asarray(worth(self.mean + self.scale * mean, self.scale * sd, self.goal))
        if found.shape != mean.shape or np.isnan(found).any():
            given = "NaN" if found.shape == mean.shape else f"shape {found.shape}"
            name = getattr(worth, "__name__", repr(worth))
            raise ValueError(
                f"the acquisition function {name} gave {given} for {len(mean)} points; return an "
                f"array ({len(mean)},) of numbers, larger for better points"
            )
        return found


def eta(mean: Floats, sd: Floats, goal: Goal) -> Floats:
    """-η = (μ - f*)/σ (Section 3.3)."""
    return _in_core("eta", mean, sd, goal)


def upper_confidence(mean: Floats, sd: Floats, goal: Goal) -> Floats:
    """μ + c σ."""
    return _in_core("ucb", mean, sd, goal)


def log_improvement(mean: Floats, sd: Floats, goal: Goal) -> Floats:
    """log E max(0, f - best). It is exact far below the best value, too."""
    return _in_core("ei", mean, sd, goal)


def log_probability(mean: Floats, sd: Floats, goal: Goal) -> Floats:
    """log P(f > best)."""
    return _in_core("pi", mean, sd, goal)


def entropy(mean: Floats, sd: Floats, goal: Goal) -> Floats:
    """log of the information that a value gives about the maximum (MES): a mean over samples."""
    return _in_core("mes", mean, sd, goal)


ACQUISITIONS: dict[str, Acquisition] = {
    "eta": Acquisition(eta, "eta"),
    "ucb": Acquisition(upper_confidence, "ucb"),
    "ei": Acquisition(log_improvement, "ei"),
    "pi": Acquisition(log_probability, "pi"),
    "mes": Acquisition(entropy, "mes", "jointly"),
    "mes-gumbel": Acquisition(entropy, "mes", "independently"),
}


def register(name: str, worth: Worth) -> None:
    """Add an acquisition function of your own; then `Settings(acquisition=name)` uses it.

    worth: a function of posterior means (S,), deviations (S,) and a `Goal`, all in standardised
        values. It returns what the points are worth, (S,); a larger value is a better point. The
        filter adds the values to a log determinant, so a difference of one should matter.
    """
    if not callable(worth):
        raise TypeError(f"worth is {worth!r}; give a function of means, deviations and a goal")
    if name in ACQUISITIONS:
        raise ValueError(f"there is an acquisition function {name!r} already; take another name")
    ACQUISITIONS[name] = Acquisition(worth)


def _in_core(kind: str, mean: Floats, sd: Floats, goal: Goal) -> Floats:
    """By the core, which has the formulas (native/acquisition.hpp)."""
    m, s = np.broadcast_arrays(np.asarray(mean, np.float64), np.asarray(sd, np.float64))
    core = Aim(Acquisition(eta, kind), goal).core
    assert core is not None
    return core.worth(m.ravel(), s.ravel()).reshape(m.shape)


def gumbel_maxima(mean: Floats, sd: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Samples of the maximum of f at some points, by a Gumbel law (MES-G).

    The values at the points are taken to be independent. The Gumbel law has the same quartiles as
    their maximum.
    """
    from scipy.special import log_ndtr  # slow to import

    def quantile(p: float) -> float:
        low, high = float((mean - 6.0 * sd).max()), float((mean + 6.0 * sd).max())
        for _ in range(50):
            middle = 0.5 * (low + high)
            if np.sum(log_ndtr((middle - mean) / sd)) < np.log(p):
                low = middle
            else:
                high = middle
        return high

    q1, q3 = quantile(0.25), quantile(0.75)
    width = max((q3 - q1) / (np.log(np.log(4.0)) - np.log(np.log(4.0 / 3.0))), 1e-12)
    centre = q1 + width * np.log(np.log(4.0))
    maxima: Floats = centre - width * np.log(-np.log(rng.random(count)))
    return maxima


def sampled_maxima(
    mean: Floats, covariance: Floats, count: int, rng: np.random.Generator
) -> Floats:
    """Samples of the maximum of f at some points, by drawing its values there jointly (MES-R)."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    drawn: Floats = mean[:, None] + root @ rng.standard_normal((len(mean), count))
    maxima: Floats = drawn.max(axis=0)
    return maxima
