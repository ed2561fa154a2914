"""A sparse Gaussian process learned by stochastic variational inference (Hensman et al. 2013).

It is GPyTorch's: an approximate process with whitened inducing values, a Gaussian likelihood, and
the variational evidence lower bound (ELBO). The kernel is the additive Laplace kernel, all
dimensions with one length scale,

    κ(x, x') = s/M Σ_m exp(-‖x^{A_m} - x'^{A_m}‖₁ / ℓ),

one group of all dimensions being the plain one. With R R' = κ(Z, Z), values at the inducing points
are R v, and q(v) = N(m, S). Each iteration draws a mini-batch and makes a natural gradient step of
q, and an Adam step of the kernel's parameters, up the ELBO. For Gaussian noise the former is, with
A = R⁻¹ κ(Z, batch), a moving average (their Section 3),

    S⁻¹ <- (1 - ρ) S⁻¹ + ρ (I + c A A'),    S⁻¹ m <- (1 - ρ) S⁻¹ m + ρ c A y,    c = n / (b σ²),

so that no eigenvalue of S is ever above one, as EBO's search needs (see `whitener`).

Two parts are written by hand, and tested against GPyTorch. While q is learned, mean and variance of
a mini-batch come from dense matrices (`Strategy`): with k = 200, b = 100 and F = 50 an iteration
costs 12 to 15 ms of CPU, and 23 to 25 ms with GPyTorch's lazy operators. And the kernel has its own
derivative (`_Laplace`): with 20 groups, 5 ms instead of 20 ms. Predictions are GPyTorch's own.

=========  ========  ==========================================================================
name       shape     meaning
=========  ========  ==========================================================================
T, y       (n, F)    observations in the unit cube, and their values
Z          (k, F)    inducing points
θ          (3,)      log length scale ℓ, log variance s, log noise variance σ²
=========  ========  ==========================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ebo.arrays import Floats, Ints
from ebo.bench.baselines.imported import quiet

with quiet():
    from gpytorch.constraints import Positive
    from gpytorch.distributions import MultivariateNormal
    from gpytorch.kernels import Kernel, ScaleKernel
    from gpytorch.likelihoods import GaussianLikelihood
    from gpytorch.means import ZeroMean
    from gpytorch.mlls import VariationalELBO
    from gpytorch.models import ApproximateGP
    from gpytorch.optim import NGD
    from gpytorch.variational import NaturalVariationalDistribution, VariationalStrategy
    from linear_operator.operators import DiagLinearOperator
    from linear_operator.utils.cholesky import psd_safe_cholesky


MINI_BATCH = 100  # b
STEP = 0.1  # ρ
RATE = 0.05  # of Adam, on logarithms
JITTER = 1e-6
LEAST, MOST = (1e-2, 1e-2, 1e-4), (1e3, 1e2, 1.0)  # length scale, variance and noise


class SparseGP:
    """A process on inducing points Z, which stay where they are; before any fit, the prior."""

    def __init__(self, Z: Floats, groups: list[Ints], theta: Floats) -> None:
        points = torch.from_numpy(np.ascontiguousarray(Z))
        self.model = Model(points, groups).double()
        self.likelihood = GaussianLikelihood(noise_constraint=_exponential()).double()
        self._raw = [
            self.model.kernel.base_kernel.raw_lengthscale,
            self.model.kernel.raw_outputscale,
            self.likelihood.noise_covar.raw_noise,
        ]
        for raw, value in zip(self._raw, theta.tolist(), strict=True):
            raw.data.fill_(value)
        self.model.eval()

    @property
    def theta(self) -> Floats:
        """Logarithms of length scale, variance and noise."""
        return np.array([raw.item() for raw in self._raw])

    @quiet()
    def fit(
        self, T: Floats, y: Floats, iterations: int, rng: np.random.Generator, *, fixed_length: bool
    ) -> None:
        """So many iterations of stochastic variational inference."""
        n, size = len(y), min(MINI_BATCH, len(y))
        points, values = torch.from_numpy(T), torch.from_numpy(y)
        bound = VariationalELBO(self.likelihood, self.model, num_data=n)
        self._raw[0].requires_grad_(not fixed_length)
        steps = [
            NGD(self.model.variational_parameters(), num_data=n, lr=STEP),
            torch.optim.Adam([raw for raw in self._raw if raw.requires_grad], lr=RATE),
        ]
        self.model.train()
        for _ in range(iterations):
            rows = torch.from_numpy(rng.choice(n, size, replace=False))
            for step in steps:
                step.zero_grad()
            loss = -bound(self.model(points[rows]), values[rows])
            loss.backward()
            for step in steps:
                step.step()
            for raw, least, most in zip(self._raw, LEAST, MOST, strict=True):
                raw.data.clamp_(np.log(least), np.log(most))
        self.model.eval()

    @quiet()
    def elbo(self, T: Floats, y: Floats, n: int) -> float:
        """The evidence lower bound of n observations, estimated from these."""
        bound = VariationalELBO(self.likelihood, self.model, num_data=n)
        with torch.no_grad():
            return n * float(bound(self.model(torch.from_numpy(T)), torch.from_numpy(y)))

    @quiet()
    def predict(self, P: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of f at points, each (S,), as GPyTorch has them."""
        with torch.no_grad():
            law = self.model(torch.from_numpy(P))
            return law.mean.numpy(), law.variance.numpy()

    @quiet()
    def whitener(self) -> tuple[Floats, Floats]:
        """B (k, k) and w (k,): with v = B κ(Z, x)/s, f(x)/√s has mean v·w and variance 1 - |v|².

        That is the form in which EBO's search takes a posterior: A'(I - S)A = |v|² s, with A as
        above. GPyTorch's variance is larger by its jitter, 10⁻⁶.
        """
        strategy = self.model.variational_strategy
        with torch.no_grad():
            law = strategy.variational_distribution
            gram = self.model.kernel(strategy.inducing_points).add_jitter(JITTER)
            root = psd_safe_cholesky(gram.to_dense())
            values, vectors = torch.linalg.eigh(law.covariance_matrix)
            shrink = (1.0 - values).clamp(min=1e-12).sqrt()
            whiten = torch.linalg.solve_triangular(root.T, vectors, upper=True).T
            B = torch.exp(0.5 * self._raw[1]) * shrink[:, None] * whiten
            w = (vectors.T @ law.mean) / shrink
        return B.numpy(), w.numpy()


class Model(ApproximateGP):  # type: ignore[misc]
    """GPyTorch's process of mean zero on inducing points, with q by its natural parameters."""

    def __init__(self, Z: torch.Tensor, groups: list[Ints]) -> None:
        q = NaturalVariationalDistribution(len(Z))
        strategy = Strategy(self, Z, q, learn_inducing_locations=False, jitter_val=JITTER)
        strategy.variational_params_initialized.fill_(1)  # q is the prior; else noise is added
        super().__init__(strategy)
        self.mean = ZeroMean()
        self.kernel = ScaleKernel(LaplaceKernel(Z, groups), outputscale_constraint=_exponential())

    def forward(self, x: torch.Tensor) -> Any:
        """The prior of f at points."""
        return MultivariateNormal(self.mean(x), self.kernel(x))


class Strategy(VariationalStrategy):  # type: ignore[misc]
    """GPyTorch's, but mean and variance of a mini-batch without its lazy operators."""

    def forward(self, x: torch.Tensor, Z: torch.Tensor, **options: Any) -> Any:
        """The law of f at points; while q is learned, without covariances."""
        if not self.training:
            return super().forward(x, Z, **options)
        m, S = options["inducing_values"], options["variational_inducing_covar"]
        kappa = self.model.kernel.forward
        gram = kappa(Z, Z) + JITTER * torch.eye(len(Z), dtype=Z.dtype)
        A = torch.linalg.solve_triangular(psd_safe_cholesky(gram), kappa(Z, x), upper=False)
        root = S.root.to_dense()
        variance = kappa(x, x, diag=True) + JITTER - (A * A).sum(0) + (root.T @ A).square().sum(0)
        return MultivariateNormal(A.T @ m, DiagLinearOperator(variance))


class LaplaceKernel(Kernel):  # type: ignore[misc]
    """The additive Laplace kernel without its variance. Distances among Z are computed once."""

    has_lengthscale = True

    def __init__(self, Z: torch.Tensor, groups: list[Ints]) -> None:
        super().__init__(lengthscale_constraint=_exponential())
        self._groups, self._Z, self._among = groups, Z, distances(Z, Z, groups)

    def forward(
        self, x1: torch.Tensor, x2: torch.Tensor, diag: bool = False, **_: object
    ) -> torch.Tensor:
        """κ(x1, x2)/s, (n, n2), or its diagonal (n,)."""
        if diag:  # GPyTorch asks for it where x1 is x2 only
            return torch.ones(len(x1), dtype=x1.dtype)
        among = torch.equal(x1, self._Z) and torch.equal(x2, self._Z)
        distance = self._among if among else distances(x1, x2, self._groups)
        gram: torch.Tensor = _Laplace.apply(distance, self.lengthscale)  # type: ignore[no-untyped-call]
        return gram


class _Laplace(torch.autograd.Function):
    """Group by group, and the derivative with it: with 20 groups, a quarter of autograd's time."""

    @staticmethod
    def forward(ctx: Any, distance: torch.Tensor, ell: torch.Tensor) -> torch.Tensor:
        gram, slope = torch.zeros_like(distance[0]), torch.zeros_like(distance[0])
        for d in distance:
            kappa = (d / -ell).exp_()
            gram += kappa
            slope.addcmul_(kappa, d)
        ctx.save_for_backward(slope.div_(ell**2).div_(len(distance)), ell)
        return gram.div_(len(distance))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[None, torch.Tensor]:
        slope, ell = ctx.saved_tensors
        return None, (gradient * slope).sum().expand_as(ell)


def distances(x: torch.Tensor, x2: torch.Tensor, groups: list[Ints]) -> torch.Tensor:
    """‖x^{A_m} - x2^{A_m}‖₁ for each group, (M, n, n2)."""
    return torch.stack([torch.cdist(x[:, group], x2[:, group], p=1.0) for group in groups])


def _exponential() -> Any:
    """A positive parameter, given by its logarithm."""
    return Positive(transform=torch.exp, inv_transform=torch.log)
