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

    def in_core(self, kind: str, mean: float = 0.0, scale: float = 1.0) -> native.Goal:
        """The core's form of it, for an acquisition function and the scale that a model has."""
        return native.Goal(
            kind=kind.removesuffix("-gumbel"),
            best=self.best,
            upper_bound=self.upper_bound,
            deviations=self.deviations,
            maxima=[] if self.maxima is None else self.maxima.tolist(),
            mean=mean,
            scale=scale,
        )


Acquisition = Callable[[Floats, Floats, Goal], Floats]


def eta(mean: Floats, sd: Floats, goal: Goal) -> Floats:
    """-η = (μ - f*)/σ (Section 3.3)."""
    return _worth("eta", mean, sd, goal)


def upper_confidence(mean: Floats, sd: Floats, goal: Goal) -> Floats:
    """μ + c σ."""
    return _worth("ucb", mean, sd, goal)


def log_improvement(mean: Floats, sd: Floats, goal: Goal) -> Floats:
    """log E max(0, f - best), exact far below the best as well."""
    return _worth("ei", mean, sd, goal)


def log_probability(mean: Floats, sd: Floats, goal: Goal) -> Floats:
    """log P(f > best)."""
    return _worth("pi", mean, sd, goal)


def entropy(mean: Floats, sd: Floats, goal: Goal) -> Floats:
    """log of the information about the maximum (MES), averaged over its samples."""
    return _worth("mes", mean, sd, goal)


ACQUISITIONS: dict[str, Acquisition] = {
    "eta": eta,
    "ucb": upper_confidence,
    "ei": log_improvement,
    "pi": log_probability,
    "mes": entropy,
    "mes-gumbel": entropy,
}


def _worth(kind: str, mean: Floats, sd: Floats, goal: Goal) -> Floats:
    """By the core, which has the formulas (native/acquisition.hpp)."""
    m, s = np.broadcast_arrays(np.asarray(mean, np.float64), np.asarray(sd, np.float64))
    return goal.in_core(kind).worth(m.ravel(), s.ravel()).reshape(m.shape)


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
