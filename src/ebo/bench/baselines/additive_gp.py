"""An exact additive Gaussian process, f as a whole and each of its components by itself.

    f(x) = mean + scale · Σ_m f_m(x^{A_m}),    f_m ~ GP(0, κ_m/M),    κ_m the Laplace kernel of A_m

With R R' = K + σ²I and v_m(x) = R⁻¹ κ_m(x, T)/M, a component has given all data the posterior

    μ_m(x) = v_m(x)·w        σ_m²(x) = 1/M - |v_m(x)|²,

the one that Kandasamy et al. (2015) derive; that of f has v = Σ_m v_m (`Posterior`). The σ_m² do
not sum to σ²: components are correlated given the data, as only their sum is observed.

=========  ===========  ======================================================================
name       shape        meaning
=========  ===========  ======================================================================
T, y       (n, D), (n)  observations: points of the unit cube, and values
`z`        (D,)         group of each dimension
`rates`    (D,)         1/ℓ_d
P          (S, D)       points; for a component only the columns of its group count
=========  ===========  ======================================================================

Means and deviations are those of (f - mean)/scale.
"""

from __future__ import annotations

import numpy as np

from ebo.arrays import Floats, Ints
from ebo.tilegp.kernel import Laplace
from ebo.tilegp.posterior import Posterior

LEAST_VARIANCE = 1e-12
ROUNDING = 1e-9


class AdditiveGP(Posterior):
    """Conditioned on observations, in O(n³); a point more costs O(n²).

    noise: σ², in parts of the variance of f.
    variance: that of f, whose mean is 0 then; None for the likeliest mean and variance.
    """

    def __init__(
        self,
        T: Floats,
        y: Floats,
        z: Ints,
        rates: Floats,
        noise: float,
        *,
        variance: float | None = None,
    ) -> None:
        posterior = Posterior.of(Laplace(), z, rates, noise, T, y)
        super().__init__(
            posterior.kernel,
            posterior.groups,
            rates,
            noise,
            T,
            posterior.inverse,
            posterior.w,
        )
        self.mean, self.scale = 0.0, 1.0
        if variance is not None:
            self.scale = float(np.sqrt(variance))
        else:
            ones = self.inverse.sum(axis=1)  # R⁻¹1
            self.mean = float(ones @ self.w / (ones @ ones))
            self.w = self.w - self.mean * ones
            scale = float(np.linalg.norm(self.w) / np.sqrt(max(1, len(y) - 1)))
            if scale > ROUNDING * float(np.abs(y).max(initial=0.0)):  # else all values are equal
                self.scale = scale
        self.w = self.w / self.scale

    def part(self, m: int, P: Floats) -> Floats:
        """v_m, (S, n)."""
        kappa = self.kernel.group_gram(P, self.T, self.groups[m], self.cuts)
        whitened: Floats = kappa @ self.inverse.T
        return whitened / len(self.groups)

    def moments(self, v: Floats, prior: float = 1.0) -> tuple[Floats, Floats]:
        """Mean and deviation, each (S,), of what has the whitened kernel v (S, n)."""
        variance = np.maximum(prior - np.einsum("ij,ij->i", v, v), LEAST_VARIANCE)
        return v @ self.w, np.sqrt(variance)

    def part_moments(self, m: int, P: Floats) -> tuple[Floats, Floats]:
        """μ_m and σ_m, each (S,), of one component, the others integrated out."""
        return self.moments(self.part(m, P), 1.0 / len(self.groups))

    def add(self, x: Floats) -> None:
        """Observe a point (D,) at its own mean: means stay as they are, deviations shrink."""
        n = len(self.T)
        v = self.inverse @ self.kappa(x[None, :], self.T)[0]
        pivot = np.sqrt(max(1.0 + self.noise - v @ v, LEAST_VARIANCE))
        inverse = np.zeros((n + 1, n + 1))
        inverse[:n, :n] = self.inverse
        inverse[n, :n] = -(v @ self.inverse) / pivot
        inverse[n, n] = 1.0 / pivot
        self.inverse, self.w = inverse, np.append(self.w, 0.0)
        self.T = np.concatenate([self.T, x[None, :]])
