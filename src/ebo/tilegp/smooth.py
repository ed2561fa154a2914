"""The smooth part of the kernel: all dimensions together, for what is not additive.

    κ(x, x') = (1 - ω) κ_additive(x, x') + ω g(r),    r² = Σ_d ρ_d² (x_d - x'_d)²

with g the Matérn function of smoothness 5/2 and a rate ρ_d for every dimension; a categorical
dimension counts ρ_d² where the labels differ. The additive part is given; ω, the rates and the
noise are those of largest posterior density, the scale c of κ and σ² at its best for each:

    log p = -n/2 log c - 1/2 log|K|,    K = κ(T, T) + σ² I,    c = y'K⁻¹y / n

=========  ===========  ======================================================================
name       shape        meaning
=========  ===========  ======================================================================
T, y       (n, F), (n)  observations in the unit cube, values of mean 0
`rates`    (F,)         ρ, the inverse of a length
`share`    scalar       ω
θ          (F + 2,)     log ρ, log ω/(1 - ω), log σ²
=========  ===========  ======================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ebo import native
from ebo.arrays import Bools, Floats, Ints
from ebo.tilegp.kernel import check_mask

LENGTH = 0.7  # of a dimension before anything is known: the prior's centre, one log unit wide
NOISE = 1e-2  # the same of the noise, three log units wide
LEAST_NOISE = 1e-4  # single precision bears no less
RATES = np.exp(-6.0), np.exp(3.0)
ITERATIONS = 10  # of the fit, starting from the one before; three times as many at first


@dataclass(frozen=True)
class Smooth:
    """The smooth part: its share of the kernel, its rates, and the noise with both parts."""

    share: float
    rates: Floats
    noise: float

    @property
    def lead(self) -> float:
        """2ω - 1 or 0: 1 where all of the kernel is smooth, 0 where half of it or less is."""
        return max(0.0, 2.0 * self.share - 1.0)

    def gram(self, T: Floats, T2: Floats, categorical: Bools | None) -> Floats:
        """ω g between the points T (n, F) and T2 (n2, F)."""
        return self.share * matern(square_distance(self.rates, T, T2, categorical))


class SmoothRows:
    """Rows of the smooth part to many points T, (F, n), in single precision by the core."""

    def __init__(self, smooth: Smooth, T: Floats, categorical: Bools | None) -> None:
        self.T = T.astype(np.float32)
        self.share, self.rates = smooth.share, smooth.rates.astype(np.float32)
        self.categorical = check_mask(categorical, len(T))

    def __call__(self, P: Floats, group: Ints, columns: int) -> NDArray[np.float32]:
        """ω g of the first columns of T and P[0], a group of whose dimensions is that of each P.

        It takes O(n F + S n |group|) for S points P.
        """
        singles = P.astype(np.float32)
        return native.smooth_gram(
            singles, self.T, columns, group, self.rates, self.categorical, self.share
        )


def matern(square: Floats) -> Floats:
    """g, given r²."""
    r = np.sqrt(5.0 * square)
    similarity: Floats = (1.0 + r + r * r / 3.0) * np.exp(-r)
    return similarity


def square_distance(rates: Floats, T: Floats, T2: Floats, categorical: Bools | None) -> Floats:
    """r² between points, (n, n2)."""
    numeric = slice(None) if categorical is None else ~categorical
    A, B = T[:, numeric] * rates[numeric], T2[:, numeric] * rates[numeric]
    square: Floats = np.sum(A * A, axis=1)[:, None] + np.sum(B * B, axis=1) - 2.0 * A @ B.T
    if categorical is not None:
        for d in np.flatnonzero(categorical):
            square += rates[d] ** 2 * np.not_equal.outer(T[:, d], T2[:, d])
    return np.maximum(square, 0.0, out=square)


def fit(
    additive: Floats, T: Floats, y: Floats, categorical: Bools | None, start: Smooth | None
) -> Smooth:
    """The smooth part that fits best beside an additive kernel, whose matrix (n, n) is given."""
    from scipy.optimize import minimize  # slow to import

    F = T.shape[1]
    if start is None:
        theta, _ = _prior(F)
    else:
        odds = start.share / (1.0 - start.share)
        theta = np.concatenate([np.log(start.rates), np.log([odds, start.noise])])
    bounds = [tuple(np.log(RATES))] * F + [(-8.0, 8.0), (np.log(LEAST_NOISE), 0.0)]
    result = minimize(
        objective,
        np.clip(theta, *np.transpose(bounds)),
        args=(additive, T, y, categorical),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": ITERATIONS if start else 3 * ITERATIONS},
    )
    share = 1.0 / (1.0 + np.exp(-result.x[F]))
    return Smooth(float(share), np.exp(result.x[:F]), float(np.exp(result.x[F + 1])))


def objective(
    theta: Floats, additive: Floats, T: Floats, y: Floats, categorical: Bools | None
) -> tuple[float, Floats]:
    """-log p(θ | y) but for a constant, and its gradient: O(n³ + n² F)."""
    from scipy.linalg import cho_solve, lapack  # slow to import

    n, F = T.shape
    rates, odds, noise = np.exp(theta[:F]), np.exp(theta[F]), np.exp(theta[F + 1])
    share = odds / (1.0 + odds)
    square = square_distance(rates, T, T, categorical)
    smooth = matern(square)
    K = (1.0 - share) * additive + share * smooth
    K[np.diag_indices(n)] += noise
    root, failed = lapack.dpotrf(K, lower=1, clean=1)
    if failed:
        return np.inf, np.zeros(F + 2)
    weights = cho_solve((root, True), y, check_finite=False)
    scale = max(float(y @ weights) / n, np.finfo(np.float64).tiny)
    value = 0.5 * n * np.log(scale) + float(np.sum(np.log(np.diag(root))))
    inverse, _ = lapack.dpotri(root, lower=1)
    inverse += np.tril(inverse, -1).T
    by_K = 0.5 * (inverse - np.outer(weights, weights) / scale)  # ∂value/∂K
    # ∂g/∂log ρ_d = -5/3 (1 + r') e^-r' ρ_d² (x_d - x'_d)² with r' = √5 r
    r = np.sqrt(5.0 * square)
    by_log = by_K * ((-5.0 / 3.0 * share) * (1.0 + r) * np.exp(-r))
    gradient = np.empty(F + 2)
    X = T * rates
    gradient[:F] = 2.0 * (by_log.sum(axis=1) @ (X * X) - np.einsum("ij,ij->j", X, by_log @ X))
    if categorical is not None:
        for d in np.flatnonzero(categorical):
            apart = np.not_equal.outer(T[:, d], T[:, d])
            gradient[d] = rates[d] ** 2 * np.sum(by_log[apart])
    gradient[F] = share * (1.0 - share) * np.sum(by_K * (smooth - additive))
    gradient[F + 1] = noise * np.trace(by_K)
    centre, width = _prior(F)
    off = (theta - centre) / width
    return value + 0.5 * float(off @ off), gradient + off / width


def _prior(F: int) -> tuple[Floats, Floats]:
    """Centre and deviation of θ before anything is known."""
    centre = np.concatenate([np.full(F, -np.log(LENGTH)), [0.0, np.log(NOISE)]])
    return centre, np.concatenate([np.ones(F), [3.0, 3.0]])
