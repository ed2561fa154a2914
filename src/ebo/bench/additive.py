"""Functions whose additive structure is known: samples of a Gaussian process with κ = Σ_m κ_m / M,

    κ_m(x, x') = exp(-Σ_{d∈A_m} |x_d - x'_d| / ℓ),

the additive Laplace kernel of the paper's experiments, at given points of the unit cube.
"""

from __future__ import annotations

import numpy as np

from ebo.arrays import Floats, Ints
from ebo.tilegp.kernel import Laplace, members


def sample_values(
    T: Floats, z: Ints, length_scale: float, rng: np.random.Generator, *, noise: float = 0.0
) -> Floats:
    """Standardised values (n,) of one random function at points T (n, D), with noise of a variance.

    A group of one dimension is an Ornstein-Uhlenbeck process, sampled in O(n log n); a larger one
    costs O(n³).
    """
    n, groups = len(T), members(z)
    y = np.zeros(n)
    for group in groups:
        if len(group) == 1:
            y += _ornstein_uhlenbeck(T[:, group[0]], length_scale, rng)
        else:
            part = T[:, group]
            rates = np.full(len(group), 1.0 / length_scale)
            K = Laplace().gram(part, part, np.zeros(len(group), dtype=np.int64), rates)
            K[np.diag_indices(n)] += 1e-10
            y += np.linalg.cholesky(K) @ rng.standard_normal(n)
    y = y / np.sqrt(len(groups)) + np.sqrt(noise) * rng.standard_normal(n)
    standardised: Floats = (y - y.mean()) / y.std()
    return standardised


def _ornstein_uhlenbeck(t: Floats, length_scale: float, rng: np.random.Generator) -> Floats:
    order = np.argsort(t)
    decay = np.exp(-np.diff(t[order]) / length_scale)
    kick = np.sqrt(1.0 - decay**2) * rng.standard_normal(len(decay))
    path = np.empty(len(t))
    path[0] = rng.standard_normal()
    for i in range(len(decay)):
        path[i + 1] = decay[i] * path[i] + kick[i]
    values = np.empty(len(t))
    values[order] = path
    return values
