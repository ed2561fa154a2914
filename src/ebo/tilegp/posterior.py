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

from ebo.tilegp.kernel import Kernel, Limit, members

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Singles = NDArray[np.float32]


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

    def predict(self, P: Floats) -> tuple[Floats, Floats]:
        """Posterior mean and standard deviation of f, each (G,)."""
        v = self._whitened(P)
        return v @ self.w, _deviation(np.einsum("ij,ij->i", v, v))

    def covariance(self, P: Floats) -> Floats:
        """Posterior covariance of f at the points, (G, G)."""
        v = self._whitened(P)
        return self._kappa(P, P) - v @ v.T

    def parts(self, P: Floats) -> list[Singles]:
        """v_m of the points for each group, (G, n), in single precision."""
        inverse = self._inverse.astype(np.float32)
        points, T = P, self.T
        if isinstance(self.kernel, Limit):  # others must see which cell a point is in
            points, T = P.astype(np.float32), self.T.astype(np.float32)
        found = []
        for group in self.groups:
            kappa = self.kernel.group_gram(points, T, group, self.cuts).astype(np.float32)
            found.append(kappa @ inverse.T / np.float32(len(self.groups)))
        return found

    def _whitened(self, P: Floats) -> Floats:
        """v of the points, (G, n)."""
        return self._kappa(P, self.T) @ self._inverse.T

    def _kappa(self, P: Floats, P2: Floats) -> Floats:
        total = np.zeros((len(P), len(P2)))
        for group in self.groups:
            total += self.kernel.group_gram(P, P2, group, self.cuts)
        return total / len(self.groups)


class Table:
    """The parts of v at points P, and observations that are added by and by.

    `room` is how many points can be added. In single precision: good for finding out which blocks
    are best, not for what is said of a point in the end.
    """

    def __init__(self, posterior: Posterior, P: Floats, room: int) -> None:
        self.posterior, self.P = posterior, P
        n = self._length = len(posterior.T)
        w = posterior.w.astype(np.float32)
        self._parts = []
        for part in posterior.parts(P):
            longer = np.empty((len(P), n + room), dtype=np.float32)
            longer[:, :n] = part
            self._parts.append(longer)
        self._means = [part[:, :n] @ w for part in self._parts]
        self._squares = [np.einsum("ij,ij->i", part[:, :n], part[:, :n]) for part in self._parts]

    def recombine(self, P: Floats, rows: Ints) -> Floats:
        """The recombined point (D,) of P, (G, D), which may be in other coordinates."""
        x = np.empty(P.shape[1])
        for group, row in zip(self.posterior.groups, rows, strict=True):
            x[group] = P[row, group]
        return x

    def whitened(self, rows: Ints) -> Singles:
        """v of a recombined point, (n,)."""
        v = np.zeros(self._length, dtype=np.float32)
        for part, row in zip(self._parts, rows, strict=True):
            v += part[row, : self._length]
        return v

    def mean(self, rows: Ints) -> float:
        """μ of a recombined point."""
        return float(sum(mean[row] for mean, row in zip(self._means, rows, strict=True)))

    def vary(self, m: int, row: int, v: Singles, mean: float) -> tuple[Floats, Floats]:
        """μ and σ, each (G,), of a point (v, mean) with its block m, row `row`, replaced."""
        part, means = self._parts[m][:, : self._length], self._means[m]
        rest = v - part[row]
        square = rest @ rest + 2.0 * (part @ rest) + self._squares[m]
        return mean + (means - means[row]).astype(np.float64), _deviation(square)

    def swap(self, m: int, old: int, new: int, v: Singles, mean: float) -> tuple[Singles, float]:
        """v and mean of a point after its block m has been replaced."""
        part, means = self._parts[m][:, : self._length], self._means[m]
        return v - part[old] + part[new], mean + float(means[new] - means[old])

    def add(self, x: Floats, v: Singles) -> None:
        """Observe the point x, whose v is given, at its own mean: μ stays, σ shrinks."""
        posterior, n = self.posterior, self._length
        pivot = np.sqrt(1.0 + posterior.noise - min(float(v @ v), 1.0))
        for m, part in enumerate(self._parts):
            group = posterior.groups[m]
            kappa = posterior.kernel.group_gram(self.P, x[None, :], group, posterior.cuts)[:, 0]
            part[:, n] = (kappa / len(self._parts) - part[:, :n] @ v) / pivot
            self._squares[m] += part[:, n] ** 2
        self._length += 1


def _deviation(square: Floats | Singles) -> Floats:
    """σ from |v|², which rounding may lead beyond 1."""
    left = 1.0 - np.asarray(square, dtype=np.float64)
    return np.sqrt(np.maximum(left, 16 * np.finfo(square.dtype).eps))
