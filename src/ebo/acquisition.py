"""Acquisition functions: what a point is worth, by the posterior mean and deviation there.

All are maximised; the paper's η is minimised, so that it appears with its sign changed. Values of
one call are compared with each other, and their differences are what the filter weighs against
diversity; so those that are chances or expectations come as logarithms.

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
from scipy.special import log_ndtr

from ebo import native
from ebo.arrays import Floats


@dataclass(frozen=True)
class Goal:
    """What is aimed at, in standardised values."""

    best: float
    upper_bound: float
    maxima: Floats | None = None
    deviations: float = 2.0  # of the upper confidence bound


Worth = Callable[[Floats, Floats, Goal], Floats]


@dataclass(frozen=True)
class Acquisition:
    """What points are worth.

    worth: a function of means, deviations and the goal; a larger value is a better point.
    core: the core's name for the same function, which is much faster there; None if it has none.
    maxima: how samples of the maximum are drawn, where it needs them: from the values at some
        points "jointly", or "independently".
    """

    worth: Worth
    core: str | None = None
    maxima: Literal["jointly", "independently"] | None = None


@dataclass(frozen=True)
class Aim:
    """An acquisition function and its goal, for the means and deviations of one model.

    mean, scale: what the model's values are multiplied by, and what is added then, to be
        standardised values.
    """

    acquisition: Acquisition
    goal: Goal
    mean: float = 0.0
    scale: float = 1.0

    @cached_property
    def core(self) -> native.Goal | None:
        """The same in the core, if it has the function."""
        kind, goal = self.acquisition.core, self.goal
        if kind is None:
            return None
        return native.Goal(
            kind=kind,
            best=goal.best,
            upper_bound=goal.upper_bound,
            deviations=goal.deviations,
            maxima=[] if goal.maxima is None else goal.maxima.tolist(),
            mean=self.mean,
            scale=self.scale,
        )

    def worth(self, mean: Floats, sd: Floats) -> Floats:
        """What points are worth, (S,), by their means and deviations in the model's scale."""
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
    """log E max(0, f - best), exact far below the best as well."""
    return _in_core("ei", mean, sd, goal)


def log_probability(mean: Floats, sd: Floats, goal: Goal) -> Floats:
    """log P(f > best)."""
    return _in_core("pi", mean, sd, goal)


def entropy(mean: Floats, sd: Floats, goal: Goal) -> Floats:
    """log of the information about the maximum (MES), averaged over its samples."""
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
        values, that returns what points are worth, (S,); a larger value is a better point. The
        filter adds it to a log determinant, so that differences of one should matter.
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

    The values at the points are taken as independent; the Gumbel law goes through the quartiles of
    their maximum.
    """

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
    """The same by drawing f at the points jointly (MES-R)."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    drawn: Floats = mean[:, None] + root @ rng.standard_normal((len(mean), count))
    maxima: Floats = drawn.max(axis=0)
    return maxima
