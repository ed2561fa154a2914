"""The Gaussian process of a trust region: Matérn-5/2, a length scale for each dimension.

Its parameters maximise the marginal likelihood, with a log-normal prior of the length scales: by
the likelihood alone, hundreds of points in 50 dimensions give some dimension a tiny one by chance,
and the trust region is flat there. This is not GPyTorch, because a step of the fit, at 1,000 points
in 60 dimensions, took it 0.22 s of CPU against 0.03 to 0.12 s for the gradient written down here; a
test compares likelihood and gradient with GPyTorch's. Whole functions are drawn from the posterior
by Matheron's rule,

    f(x) = g(x) + κ(x, T) (κ(T, T) + σ² I)⁻¹ (y - g(T) - ε),    ε ~ N(0, σ² I),

with g a draw from the prior made of random Fourier features. A joint draw at C candidates costs
O(C (n + R)) each, instead of O(C³) once for a Cholesky factor: at 5,000 candidates, a tenth of it.

==========  =========  ========================================================================
name        shape      meaning
==========  =========  ========================================================================
T, y        (n, F)     observations in the unit cube, and their standardised values
P           (C, F)     candidates
θ           (3 + F,)   mean, log noise σ², log variance s, log length scales
Ω, b        (F, R)     frequencies and phases of R features √(2s/R) cos(xΩ + b)
==========  =========  ========================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from scipy.optimize import Bounds, minimize
from threadpoolctl import threadpool_limits

from ebo.arrays import Floats

NOISES, VARIANCES, LENGTH_SCALES = (5e-4, 0.2), (0.05, 20.0), (0.005, 20.0)
PRIOR = np.log(1.5), 0.5  # mean and deviation of log length scales
FIRST = 0.0, 0.005, 1.0, 0.5  # mean, noise, variance and length scales before any fit
FEATURES = 2_048  # R
DEGREES = 5.0  # 2ν, of the t law that a Matérn kernel's frequencies have


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for a while: last bits depend on their number."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(threads)


def first_parameters(dims: int) -> Floats:
    """θ to begin with."""
    mean, *scales = FIRST
    return np.concatenate([[mean], np.log(scales[:2]), np.full(dims, np.log(scales[2]))])


def length_penalty(log_length_scales: Floats) -> tuple[float, Floats]:
    """-log of their prior, without its constant, and its gradient (F,)."""
    mean, deviation = PRIOR
    away = (log_length_scales - mean) / deviation
    return 0.5 * float(away @ away), away / deviation


class ExactGP:
    """A process with parameters θ, conditioned on T and y."""

    def __init__(self, T: Floats, y: Floats, theta: Floats) -> None:
        self.theta, self.mean = theta, float(theta[0])
        self.noise, self.variance = np.exp(theta[1:3]).tolist()
        self.length_scales: Floats = np.exp(theta[3:])
        self._T, self._y = torch.from_numpy(T), torch.from_numpy(y)
        self._distance = _distances(self._scaled(self._T), self._scaled(self._T))
        covariance = self.variance * _matern(self._distance)
        covariance.diagonal().add_(self.noise)
        self._root = torch.linalg.cholesky(covariance)
        self._alpha = self._solve((self._y - self.mean)[:, None])[:, 0]

    @classmethod
    def fit(cls, T: Floats, y: Floats, start: Floats, evaluations: int) -> ExactGP:
        """The likeliest θ that so many evaluations of the likelihood find, from a start."""
        T, y = np.ascontiguousarray(T), np.ascontiguousarray(y)
        lower, upper = np.log([NOISES, VARIANCES, *[LENGTH_SCALES] * T.shape[1]]).T
        bounds = Bounds(np.append(-np.inf, lower), np.append(np.inf, upper))

        def loss(theta: Floats) -> tuple[float, Floats]:
            return cls(T, y, theta).loss()

        found = minimize(
            loss, start, jac=True, bounds=bounds, method="L-BFGS-B", options={"maxfun": evaluations}
        )
        return cls(T, y, found.x)

    def loss(self) -> tuple[float, Floats]:
        """-log p(y, θ | T)/n, without its constant, and its gradient (3 + F,)."""
        n, rest, alpha = len(self._y), self._y - self.mean, self._alpha
        value = 0.5 * rest.dot(alpha) + self._root.diagonal().log().sum()
        # The gradient is Σ_ij G_ij ∂K_ij/∂θ; ∂κ/∂log ℓ_d has a factor (z_id - z_jd)², z = x/ℓ.
        G = 0.5 * (torch.cholesky_inverse(self._root) - torch.outer(alpha, alpha))
        decay = self.variance * torch.exp(-self._distance)
        kappa = (1.0 + self._distance + self._distance**2 / 3.0) * decay
        weight = G * (5.0 / 3.0) * (1.0 + self._distance) * decay
        Z = self._scaled(self._T)
        by_length = 2.0 * (weight.sum(1) @ (Z * Z) - (Z * (weight @ Z)).sum(0))
        others = [-alpha.sum(), self.noise * G.trace(), (G * kappa).sum()]
        penalty, slope = length_penalty(self.theta[3:])
        gradient = torch.cat([torch.stack(others), by_length + torch.from_numpy(slope)]) / n
        return (float(value) + penalty) / n, gradient.numpy()

    def predict(self, P: Floats) -> tuple[Floats, Floats]:
        """Posterior mean (C,) and covariance (C, C) of f."""
        points = torch.from_numpy(np.ascontiguousarray(P))
        cross = self._kappa(points, self._T)
        covariance = self._kappa(points, points) - cross @ self._solve(cross.T)
        return (self.mean + cross @ self._alpha).numpy(), covariance.numpy()

    def draw(self, P: Floats, count: int, rng: np.random.Generator) -> Floats:
        """`count` functions from the posterior, at the points P: (count, C)."""
        n, dims = self._T.shape
        spread = np.sqrt(DEGREES / rng.chisquare(DEGREES, FEATURES))
        omega = rng.standard_normal((dims, FEATURES)) * spread / self.length_scales[:, None]
        b = rng.uniform(0.0, 2.0 * np.pi, FEATURES)
        weights = np.sqrt(2.0 * self.variance / FEATURES) * rng.standard_normal((FEATURES, count))
        noise = np.sqrt(self.noise) * rng.standard_normal((n, count))
        points = torch.from_numpy(np.ascontiguousarray(P))
        frequencies, phases, g = map(torch.from_numpy, (omega, b, weights))

        def prior(x: torch.Tensor) -> torch.Tensor:
            values: torch.Tensor = torch.addmm(phases, x, frequencies).cos_() @ g
            return values

        rest = (self._y - self.mean)[:, None] - prior(self._T) - torch.from_numpy(noise)
        drawn = self.mean + prior(points) + self._kappa(points, self._T) @ self._solve(rest)
        return np.ascontiguousarray(drawn.numpy().T)

    def _solve(self, right: torch.Tensor) -> torch.Tensor:
        """(κ(T, T) + σ² I)⁻¹ of a matrix."""
        return torch.cholesky_solve(right, self._root)

    def _kappa(self, x: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
        return _matern(_distances(self._scaled(x), self._scaled(x2))).mul_(self.variance)

    def _scaled(self, x: torch.Tensor) -> torch.Tensor:
        return x / torch.from_numpy(self.length_scales)


def _distances(Z: torch.Tensor, Z2: torch.Tensor) -> torch.Tensor:
    """√5 times the Euclidean distances, (n, n2)."""
    squares = (Z * Z).sum(1)[:, None] + (Z2 * Z2).sum(1)
    return torch.addmm(squares, Z, Z2.T, alpha=-2.0).clamp_(min=0.0).mul_(5.0).sqrt_()


def _matern(distance: torch.Tensor) -> torch.Tensor:
    """(1 + r + r²/3) exp(-r)."""
    return (1.0 + distance + distance**2 / 3.0) * torch.exp(-distance)
