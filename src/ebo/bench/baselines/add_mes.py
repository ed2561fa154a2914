"""Add-MES (Wang and Jegelka, 2017): max-value entropy search, a component at a time.

A block is worth the information that its value gives about the component's maximum y*_m, averaged
over some samples of it. The maximum is that over the blocks tried, and a little above the largest
mean there at least. Every point of a batch has samples of its own. Boldness (`components.py`)
multiplies their distance from the largest mean.

Add-MES-G   y*_m from a Gumbel law through the quartiles of the maximum of independent values.
Add-MES-R   y*_m from samples of the components. Each is a sum of random Fourier features with
            normal weights,

    g_m(x) = √(2/FM) Σ_i θ_i cos(ω_i·x^{A_m} + b_i),    ω_id ~ Cauchy(1/ℓ_d),

            made to fit the data by f_m(x) = g_m(x) + κ_m(x, T)/M (K + σ²I)⁻¹ (y - g(T) - ε), with
            g = Σ_m g_m (Matheron's rule), which needs no matrix of the features' size.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ebo.acquisition import Goal, entropy, gumbel_maxima
from ebo.arrays import Floats
from ebo.bench.baselines.additive_gp import AdditiveGP
from ebo.bench.baselines.components import ComponentMethod, Worth

SAMPLES = 10  # of the maxima
FEATURES = 200  # F, of a component
LEAST_ABOVE = 0.05  # of a maximum over the largest mean; f has the deviation one


class AddMESG(ComponentMethod):
    """With Gumbel maxima."""

    name = "add-mes-g"

    def _worths(self, gp: AdditiveGP, P: Floats, boldness: float) -> list[Worth]:
        worths: list[Worth] = []
        for m in range(len(gp.groups)):
            mean, sd = gp.part_moments(m, P)
            maxima = gumbel_maxima(mean, sd, SAMPLES, self.rng)
            worths.append(_information(maxima, mean, boldness))
        return worths


class AddMESR(ComponentMethod):
    """With maxima of sampled components."""

    name = "add-mes-r"

    def _worths(self, gp: AdditiveGP, P: Floats, boldness: float) -> list[Worth]:
        drawn = sample_components(gp, P, SAMPLES, self.rng)
        means = [gp.part_moments(m, P)[0] for m in range(len(gp.groups))]
        return [
            _information(values.max(axis=0), mean, boldness)
            for values, mean in zip(drawn, means, strict=True)
        ]


def sample_components(
    gp: AdditiveGP, P: Floats, count: int, rng: np.random.Generator
) -> list[Floats]:
    """Of every component, `count` samples of its posterior at P, (S, count)."""
    n, points = len(gp.T), np.concatenate([gp.T, P])
    prior = []
    for group in gp.groups:
        frequency = gp.cuts[group, None] * rng.standard_cauchy((len(group), FEATURES))
        phase = rng.uniform(0.0, 2.0 * np.pi, FEATURES)
        weights = rng.standard_normal((FEATURES, count))
        weights *= np.sqrt(2.0 / (FEATURES * len(gp.groups)))
        prior.append(np.cos(points[:, group] @ frequency + phase) @ weights)
    noisy = np.sum([g[:n] for g in prior], axis=0)
    noisy += np.sqrt(gp.noise) * rng.standard_normal((n, count))
    misfit = gp.w[:, None] - gp.inverse @ noisy  # R⁻¹(y - g(T) - ε)
    return [g[n:] + gp.part(m, P) @ misfit for m, g in enumerate(prior)]


def _information(maxima: Floats, mean: Floats, boldness: float) -> Worth:
    """MES of a component, by samples of its maximum and its means at the blocks tried."""
    best = float(mean.max())
    maxima = best + boldness * np.maximum(maxima - best, LEAST_ABOVE)
    return partial(entropy, goal=Goal(best, best, maxima=maxima))
