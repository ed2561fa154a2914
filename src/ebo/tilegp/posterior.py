"""The posterior of one leaf, taken apart by groups, so that one block of x can move by itself.

With R R' = K + σ² I and v(x) = R⁻¹ κ_n(x), w = R⁻¹ y, the paper's posterior (Eq. gppost) is

    μ(x) = v(x)·w        σ²(x) = 1 - |v(x)|²

and, since κ is a sum over groups, v(x) = Σ_m v_m(x^{A_m}). A `Table` holds the v_m of many points;
any recombination of their blocks is then a sum of its rows. Trying G blocks of one group costs
O(G n), whatever the other groups, and observing one more point makes each v_m one number longer.

=========  ===========  ======================================================================
name       shape        meaning
=========  ===========  ======================================================================
T, y       (n, D), (n)  the leaf's observations, in the unit cube and standardised
P          (G, D)       points whose blocks may be recombined
`parts`    M × (G, n)   v_m of each
rows       (M,)         a recombination: group m has the block of point rows[m]
=========  ===========  ======================================================================
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cholesky, solve_triangular

from ebo.tilegp.kernel import Kernel, members

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_VARIANCE = 1e-12


class Posterior:
    """A TileGP with given z, cuts and noise variance, conditioned on observations."""

    def __init__(
        self, kernel: Kernel, z: Ints, cuts: ArrayLike, noise: float, T: Floats, y: Floats
    ) -> None:
        self.kernel, self.cuts, self.noise, self.T = kernel, np.asarray(cuts), noise, T
        self.groups = members(z)
        covariance = kernel.gram(T, T, z, cuts)
        covariance[np.diag_indices(len(T))] += noise
        root = cholesky(covariance, lower=True, overwrite_a=True, check_finite=False)
        identity = np.eye(len(T))
        self._inverse = solve_triangular(root, identity, lower=True, check_finite=False)
        self.w = self._inverse @ y

    def part(self, m: int, P: Floats) -> Floats:
        """v_m of the points, (G, n)."""
        kappa = self.kernel.group_gram(P, self.T, self.groups[m], self.cuts)
        kappa /= len(self.groups)
        return kappa @ self._inverse.T

    def predict(self, P: Floats) -> tuple[Floats, Floats]:
        """Posterior mean and standard deviation of f, each (G,)."""
        v = self.whitened(P)
        return v @ self.w, _deviation(np.einsum("ij,ij->i", v, v))

    def whitened(self, P: Floats) -> Floats:
        """v of the points, (G, n)."""
        v = np.zeros((len(P), len(self.T)))
        for m in range(len(self.groups)):
            v += self.part(m, P)
        return v

    def covariance(self, P: Floats) -> Floats:
        """Posterior covariance of f at the points, (G, G)."""
        v = self.whitened(P)
        prior = sum(self.kernel.group_gram(P, P, group, self.cuts) for group in self.groups)
        return np.asarray(prior / len(self.groups) - v @ v.T)


class Table:
    """The parts of v at points P, and observations that are added by and by.

    `room` is how many points can be added.
    """

    def __init__(self, posterior: Posterior, P: Floats, room: int) -> None:
        self.posterior, self.P = posterior, P
        n = self._length = len(posterior.T)
        self._parts = [np.empty((len(P), n + room)) for _ in posterior.groups]
        for m, part in enumerate(self._parts):
            part[:, :n] = posterior.part(m, P)
        self._means = [part[:, :n] @ posterior.w for part in self._parts]
        self._squares = [np.einsum("ij,ij->i", part[:, :n], part[:, :n]) for part in self._parts]

    def recombine(self, P: Floats, rows: Ints) -> Floats:
        """The recombined point (D,) of P, (G, D), which may be in other coordinates."""
        x = np.empty(P.shape[1])
        for group, row in zip(self.posterior.groups, rows, strict=True):
            x[group] = P[row, group]
        return x

    def whitened(self, rows: Ints) -> Floats:
        """v of a recombined point, (n,)."""
        v = np.zeros(self._length)
        for part, row in zip(self._parts, rows, strict=True):
            v += part[row, : self._length]
        return v

    def mean(self, rows: Ints) -> float:
        """μ of a recombined point."""
        return float(sum(mean[row] for mean, row in zip(self._means, rows, strict=True)))

    def vary(self, m: int, row: int, v: Floats, mean: float) -> tuple[Floats, Floats]:
        """μ and σ, each (G,), of a point (v, mean) with its block m, row `row`, replaced."""
        part = self._parts[m][:, : self._length]
        rest = v - part[row]
        square = rest @ rest + 2.0 * (part @ rest) + self._squares[m]
        return mean - self._means[m][row] + self._means[m], _deviation(square)

    def swap(self, m: int, old: int, new: int, v: Floats, mean: float) -> tuple[Floats, float]:
        """v and mean of a point after its block m has been replaced."""
        part, means = self._parts[m][:, : self._length], self._means[m]
        return v - part[old] + part[new], mean - float(means[old]) + float(means[new])

    def add(self, x: Floats, v: Floats) -> None:
        """Observe the point x, whose v is given, at its own mean: μ stays, σ shrinks."""
        posterior = self.posterior
        pivot = np.sqrt(1.0 + posterior.noise - min(float(v @ v), 1.0))
        for m, part in enumerate(self._parts):
            group = posterior.groups[m]
            kappa = posterior.kernel.group_gram(self.P, x[None, :], group, posterior.cuts)[:, 0]
            column = (kappa / len(self._parts) - part[:, : self._length] @ v) / pivot
            part[:, self._length] = column
            self._squares[m] += column**2
        self._length += 1


def _deviation(square: Floats | float) -> Floats:
    """σ from |v|², which rounding may lead beyond 1."""
    return np.sqrt(np.maximum(1.0 - square, LEAST_VARIANCE))
