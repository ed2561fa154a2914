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
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr, ndtr

Floats = NDArray[np.float64]

_LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)


@dataclass(frozen=True)
class Goal:
    """What is aimed at, in standardised values."""

    best: float
    upper_bound: float
    maxima: Floats | None = None
    deviations: float = 2.0  # of the upper confidence bound


Acquisition = Callable[[Floats, Floats, Goal], Floats]


def eta(mean: Floats, sd: Floats, goal: Goal) -> Floats:
    """-η = (μ - f*)/σ (Section 3.3)."""
    return (mean - goal.upper_bound) / sd


def upper_confidence(mean: Floats, sd: Floats, goal: Goal) -> Floats:
    """μ + c σ."""
    return mean + goal.deviations * sd


def log_improvement(mean: Floats, sd: Floats, goal: Goal) -> Floats:
    """log E max(0, f - best), exact far below the best as well."""
    return np.log(sd) + _log_h((mean - goal.best) / sd)


def log_probability(mean: Floats, sd: Floats, goal: Goal) -> Floats:
    """log P(f > best)."""
    log_p: Floats = log_ndtr((mean - goal.best) / sd)
    return log_p


def entropy(mean: Floats, sd: Floats, goal: Goal) -> Floats:
    """log of the information about the maximum (MES), averaged over its samples."""
    if goal.maxima is None:
        raise ValueError("max-value entropy needs samples of the maximum")
    total = np.zeros(np.broadcast(mean, sd).shape)
    for maximum in goal.maxima:
        total += _information((maximum - mean) / sd)
    return np.log(np.maximum(total / len(goal.maxima), 1e-300))


ACQUISITIONS: dict[str, Acquisition] = {
    "eta": eta,
    "ucb": upper_confidence,
    "ei": log_improvement,
    "pi": log_probability,
    "mes": entropy,
    "mes-gumbel": entropy,
}


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


def _log_h(u: Floats) -> Floats:
    """log(φ(u) + u Φ(u)), without cancellation for negative u."""
    log_phi = -0.5 * u**2 - _LOG_SQRT_2PI
    near = np.maximum(u, -1.0)
    direct = np.log(np.exp(-0.5 * near**2 - _LOG_SQRT_2PI) + near * ndtr(near))
    far = np.minimum(u, -1.0)
    # φ + uΦ = φ (1 - |u| sqrt(π/2) erfcx(|u|/√2)); far out the bracket is 1/u² - 3/u⁴.
    bracket = 1.0 + far * np.sqrt(0.5 * np.pi) * erfcx(-far / np.sqrt(2.0))
    series = -2.0 * np.log(-far) - 3.0 / far**2
    tail = np.where(far < -1e3, series, np.log(np.maximum(bracket, 1e-300)))
    log_h: Floats = np.where(u > -1.0, direct, log_phi + tail)
    return log_h


def _information(gamma: Floats) -> Floats:
    """γφ(γ)/(2Φ(γ)) - log Φ(γ), without cancellation for negative γ."""
    near = np.maximum(gamma, -1.0)
    log_cdf = log_ndtr(near)
    direct = 0.5 * near * np.exp(-0.5 * near**2 - _LOG_SQRT_2PI - log_cdf) - log_cdf
    far = np.minimum(gamma, -1.0)
    mills = np.sqrt(0.5 * np.pi) * erfcx(-far / np.sqrt(2.0))  # Φ/φ
    excess = np.where(far < -1e3, -1.0 + 2.0 / far**2, far * (1.0 / mills + far))
    tail = 0.5 * excess - np.log(mills) + _LOG_SQRT_2PI
    information: Floats = np.where(gamma > -1.0, direct, tail)
    return information
