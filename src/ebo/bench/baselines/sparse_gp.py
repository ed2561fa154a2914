"""A sparse Gaussian process learned by stochastic variational inference (Hensman et al. 2013).

The kernel is the additive Laplace kernel, all dimensions with one length scale,

    κ(x, x') = s/M Σ_m exp(-‖x^{A_m} - x'^{A_m}‖₁ / ℓ),

one group of all dimensions being the plain one. With R R' = κ(Z, Z), values at the inducing points
are R v, and q(v) = N(m, S). Each iteration draws a mini-batch, with A = R⁻¹ κ(Z, batch), makes a
natural gradient step of q, which for Gaussian noise is a moving average (their Section 3),

    S⁻¹ <- (1 - ρ) S⁻¹ + ρ (I + c A A'),    S⁻¹ m <- (1 - ρ) S⁻¹ m + ρ c A y,    c = n / (b σ²),

and an Adam step of the kernel's parameters up the evidence lower bound (ELBO).

=========  ========  ==========================================================================
name       shape     meaning
=========  ========  ==========================================================================
T, y       (n, F)    observations in the unit cube, and their values
Z          (k, F)    inducing points
θ          (3,)      log length scale ℓ, log variance s, log noise variance σ²
=========  ========  ==========================================================================
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MINI_BATCH = 100  # b
STEP = 0.1  # ρ
RATE = 0.05  # of Adam, on logarithms
JITTER = 1e-6
LEAST, MOST = (1e-2, 1e-2, 1e-4), (1e3, 1e2, 1.0)  # length scale, variance and noise


class SparseGP:
    """A process on inducing points Z, which stay where they are; before any fit, the prior."""

    def __init__(self, Z: Floats, groups: list[Ints], theta: Floats) -> None:
        self._Z, self.groups = torch.from_numpy(np.ascontiguousarray(Z)), groups
        self._theta = torch.from_numpy(theta.copy()).requires_grad_()
        self._among = distances(self._Z, self._Z, groups)
        self._identity = torch.eye(len(Z), dtype=torch.float64)
        self._precision = self._identity  # S⁻¹
        self._shift = torch.zeros(len(Z), dtype=torch.float64)  # S⁻¹ m

    @property
    def theta(self) -> Floats:
        """Logarithms of length scale, variance and noise."""
        return self._theta.detach().numpy().copy()

    def fit(
        self, T: Floats, y: Floats, iterations: int, rng: np.random.Generator, *, fixed_length: bool
    ) -> None:
        """So many iterations of stochastic variational inference."""
        n, size = len(y), min(MINI_BATCH, len(y))
        points, values = torch.from_numpy(T), torch.from_numpy(y)
        adam = torch.optim.Adam([self._theta], lr=RATE)
        low, high = torch.tensor(LEAST).double().log(), torch.tensor(MOST).double().log()
        for _ in range(iterations):
            rows = torch.from_numpy(rng.choice(n, size, replace=False))
            adam.zero_grad()
            A = self._whitened(points[rows])
            self._natural_step(A.detach(), values[rows], n)
            loss = -self._bound(A, values[rows], n) / n
            loss.backward()  # type: ignore[no-untyped-call]
            if fixed_length and self._theta.grad is not None:
                self._theta.grad[0] = 0.0
            adam.step()
            with torch.no_grad():
                self._theta.clamp_(low, high)

    def elbo(self, T: Floats, y: Floats, n: int) -> float:
        """The evidence lower bound of n observations, estimated from these."""
        with torch.no_grad():
            A = self._whitened(torch.from_numpy(T))
            return float(self._bound(A, torch.from_numpy(y), n))

    def whitener(self) -> tuple[Floats, Floats]:
        """B (k, k) and w (k,): with v = B κ(Z, x)/s, f(x)/√s has mean v·w and variance 1 - |v|².

        That is the form in which EBO's search takes a posterior. No eigenvalue of S is above one,
        since S⁻¹ is a mean of matrices I + c A A'.
        """
        with torch.no_grad():
            root = self._root() / torch.exp(0.5 * self._theta[1])
            whiten = torch.linalg.solve_triangular(root, self._identity, upper=False)
            values, vectors = torch.linalg.eigh(self._precision)
            shrink = (1.0 - 1.0 / values).clamp(min=1e-12).sqrt()
            B = shrink[:, None] * (vectors.T @ whiten)
            w = (vectors.T @ self._shift) / values / shrink
        return B.numpy(), w.numpy()

    def _natural_step(self, A: torch.Tensor, y: torch.Tensor, n: int) -> None:
        scale = n / len(y) * torch.exp(-self._theta[2].detach())
        self._precision = torch.lerp(self._precision, self._identity + scale * (A @ A.T), STEP)
        self._shift = torch.lerp(self._shift, scale * (A @ y), STEP)

    def _bound(self, A: torch.Tensor, y: torch.Tensor, n: int) -> torch.Tensor:
        """The ELBO, its sum over n observations estimated from those of a batch."""
        variance, noise = torch.exp(self._theta[1]), torch.exp(self._theta[2])
        root = torch.linalg.cholesky(self._precision)
        S = torch.cholesky_inverse(root)
        m = S @ self._shift
        missed = variance - (A * A).sum(0) + (A * (S @ A)).sum(0)
        square = (y - A.T @ m) ** 2 + missed
        fits = -0.5 * (square / noise + torch.log(2.0 * torch.pi * noise)).sum()
        divergence = 0.5 * (S.trace() + m @ m - len(m) + 2.0 * root.diagonal().log().sum())
        bound: torch.Tensor = n / len(y) * fits - divergence
        return bound

    def _root(self) -> torch.Tensor:
        """R."""
        ell, variance = torch.exp(self._theta[0]), torch.exp(self._theta[1])
        gram = laplace(self._among, ell) + JITTER * self._identity
        root: torch.Tensor = torch.linalg.cholesky(variance * gram)
        return root

    def _whitened(self, x: torch.Tensor) -> torch.Tensor:
        """A = R⁻¹ κ(Z, x), (k, b)."""
        ell, variance = torch.exp(self._theta[0]), torch.exp(self._theta[1])
        cross = variance * laplace(distances(self._Z, x, self.groups), ell)
        A: torch.Tensor = torch.linalg.solve_triangular(self._root(), cross, upper=False)
        return A


def distances(x: torch.Tensor, x2: torch.Tensor, groups: list[Ints]) -> torch.Tensor:
    """‖x^{A_m} - x2^{A_m}‖₁ for each group, (M, n, n2)."""
    return torch.stack([torch.cdist(x[:, group], x2[:, group], p=1.0) for group in groups])


def laplace(distance: torch.Tensor, ell: torch.Tensor) -> torch.Tensor:
    """The kernel without its variance, (n, n2)."""
    return torch.exp(-distance / ell).mean(0)
