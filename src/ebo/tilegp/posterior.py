"""The posterior of one leaf, and how it changes when one block of x moves by itself.

With R R' = K + σ² I and v(x) = R⁻¹ κ_n(x), w = R⁻¹ y, the paper's posterior (Eq. gppost) is

    μ(x) = v(x)·w        σ²(x) = 1 - |v(x)|²

and, since κ is a sum over groups, v(x) = Σ_m v_m(x^{A_m}): where only block m moves, only v_m does.
A smooth part of the kernel (smooth.py) changes with every block; it goes with v_m, the other
coordinates as they stand.

=========  ===========  ======================================================================
name       shape        meaning
=========  ===========  ======================================================================
T, y       (n, D), (n)  the leaf's observations, in [0, 1]^D and standardised
P          (S, D)       points of the unit cube
v          (n,)         R⁻¹ κ_n of one point
=========  ===========  ======================================================================
"""

from __future__ import annotations

from functools import cached_property
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from ebo import native
from ebo.arrays import Floats, Ints, Singles
from ebo.tilegp.kernel import LimitRows, Rows, SampledKernel, members
from ebo.tilegp.smooth import Smooth, SmoothRows

NOTHING = np.empty(0)
ADDED_NOISE = 1e-4  # least noise of an added point: single precision bears no less


class Aim(Protocol):
    """What the posterior needs of an acquisition function; see `acquisition.Aim`."""

    @property
    def core(self) -> native.Aim | None:
        """The same as an object of the core; None if the core does not have the function."""
        ...

    def worth(self, mean: Floats, sd: Floats) -> Floats:
        """What points are worth, (S,), given their means and deviations in the model's scale."""
        ...


class Posterior:
    """A TileGP with given groups, cuts and noise variance, after its observations.

    inverse, w: R⁻¹ and R⁻¹ y. `Posterior.of` computes them.
    smooth: the smooth part, if there is one. Then the kernel is the mixture of both parts, and the
        noise is that of the mixture.
    """

    def __init__(
        self,
        kernel: SampledKernel,
        groups: list[Ints],
        cuts: ArrayLike,
        noise: float,
        T: Floats,
        inverse: Floats,
        w: Floats,
        smooth: Smooth | None = None,
    ) -> None:
        self.kernel, self.groups, self.cuts, self.noise = kernel, groups, np.asarray(cuts), noise
        self.T, self.inverse, self.w, self.smooth = T, inverse, w, smooth

    @classmethod
    def of(
        cls,
        kernel: SampledKernel,
        z: Ints,
        cuts: ArrayLike,
        noise: float,
        T: Floats,
        y: Floats,
        smooth: Smooth | None = None,
    ) -> Self:
        """The posterior after observations T (n, D) with values y (n,): O(n³)."""
        from scipy.linalg import cholesky, solve_triangular  # slow to import

        posterior = cls(kernel, members(z), cuts, noise, T, NOTHING, NOTHING, smooth)
        covariance = posterior.kappa(T, T)
        covariance[np.diag_indices(len(T))] += noise
        root = cholesky(covariance, lower=True, overwrite_a=True, check_finite=False)
        identity = np.eye(len(T))
        posterior.inverse = solve_triangular(root, identity, lower=True, check_finite=False)
        posterior.w = posterior.inverse @ y
        return posterior

    @property
    def group_share(self) -> float:
        """The weight of one group's similarity in the kernel."""
        return (1.0 if self.smooth is None else 1.0 - self.smooth.share) / len(self.groups)

    def fit_scale(self, doubt: float) -> float:
        """Divide y by √c, the deviation at which the kernel fits y best. Returns √c.

        Few observations say little of c. So they are counted together with as many others as
        `doubt` says, which fit best with c = 1.
        """
        deviation = float(np.sqrt((self.w @ self.w + doubt) / (len(self.w) + doubt)))
        self.w /= deviation
        return deviation

    def predict(self, P: Floats) -> tuple[Floats, Floats]:
        """Posterior mean and standard deviation of f, each (S,)."""
        v = self.kappa(P, self.T) @ self.inverse.T
        return v @ self.w, _deviation(np.einsum("ij,ij->i", v, v))

    def covariance(self, P: Floats) -> Floats:
        """Posterior covariance of f at the points, (S, S)."""
        v = self.kappa(P, self.T) @ self.inverse.T
        return self.kappa(P, P) - v @ v.T

    def component(self, m: int) -> Singles:
        """The posterior mean of group m's part of f at the observations, (n,)."""
        rows, weights = self._weighted
        kappa = rows(self.T, [self.groups[m]], self.group_share, len(self.T))
        part: Singles = kappa @ weights
        return part

    @cached_property
    def _weighted(self) -> tuple[Rows, Singles]:
        """The kernel's rows to the observations, and the weight of each of them in the mean."""
        weights = (self.inverse.T @ self.w).astype(np.float32)
        return self.kernel.rows(self.cuts, self.T.T), weights

    def kappa(self, P: Floats, P2: Floats) -> Floats:
        """The kernel between points, (S, S2)."""
        total = np.zeros((len(P), len(P2)))
        for group in self.groups:
            total += self.kernel.group_gram(P, P2, group, self.cuts)
        total *= self.group_share
        if self.smooth is not None:
            total += self.smooth.gram(P, P2, self.kernel.categorical)
        return total


class Walk:
    """The posterior for a point that moves one block at a time, and for points that are added.

    It works in single precision. That is enough to find out which block is best, but not to say
    in the end what a point is worth.

    room: how many points can be added.
    """

    def __init__(self, posterior: Posterior, room: int) -> None:
        self._posterior = posterior
        n, dims = posterior.T.shape
        T = np.zeros((dims, n + room))
        T[:, :n] = posterior.T.T
        self._rows = posterior.kernel.rows(posterior.cuts, T)
        self._inverse = np.zeros((n + room, n + room), dtype=np.float32)
        self._inverse[:n, :n] = posterior.inverse
        self._w = np.zeros(n + room, dtype=np.float32)
        self._w[:n] = posterior.w
        self._length = n
        self._smooth = None
        if posterior.smooth is not None:
            self._smooth = SmoothRows(posterior.smooth, T, posterior.kernel.categorical)
        self._core = None  # the core knows the limit kernels
        if isinstance(self._rows, LimitRows):
            self._core = self._in_core(self._rows, self._smooth)

    def whitened(self, x: Floats) -> Singles:
        """v of a point (D,)."""
        v: Singles = self.whole(x[None, :])[2][0]
        return v

    def whole(self, P: Floats) -> tuple[Floats, Floats, Singles]:
        """μ and σ, each (S,), and v, (S, n), of points."""
        kappa = self._kappa(self._posterior.groups, P)
        if self._smooth is not None:
            kappa += self._smooth(P, np.arange(P.shape[1]), self._length)
        return self._moments(kappa, np.zeros(self._length, dtype=np.float32))

    def vary(self, m: int, v: Singles, P: Floats) -> tuple[Floats, Floats, Singles]:
        """μ and σ, each (S,), and v, (S, n), of P[0] with its block m replaced by those of P.

        v: that of the point P[0].
        """
        group, base = self._posterior.groups[m], np.ascontiguousarray(v)
        if self._core is not None:
            mean, sd, moved = self._core.vary(P, group, base)
            return mean, sd, moved.T[: len(P)]
        kappa = self._kappa([group], P)
        if self._smooth is not None:
            kappa += self._smooth(P, group, self._length)
        kappa -= kappa[0].copy()
        return self._moments(kappa, base)

    def climb(self, order: Ints, v: Singles, P: Floats, aim: Aim) -> tuple[Ints, Singles]:
        """Replace the blocks of the point P[0], one after the other, by the best of those of P.

        order: the groups whose blocks are replaced, in this order.
        v: that of the point P[0].
        aim: what a point is worth.

        Returns the rows of P that the blocks are from, and the v of the point that they make.
        """
        groups = [self._posterior.groups[m] for m in order]
        if self._core is not None and aim.core is not None:
            # All in one call: threads share Python's lock.
            ends = np.cumsum([len(group) for group in groups])
            base = np.ascontiguousarray(v)
            return self._core.climb(aim.core, P, np.concatenate(groups), ends, base)
        P, rows = P.copy(), np.zeros(len(order), dtype=np.int64)
        for i, group in enumerate(groups):
            mean, sd, moved = self.vary(int(order[i]), v, P)
            rows[i] = aim.worth(mean, sd).argmax()
            P[0, group], v = P[rows[i], group], moved[rows[i]]
        return rows, v

    def add(self, x: Floats, v: Singles) -> None:
        """Observe the point x, whose v is given, at its own mean: μ stays, σ shrinks.

        A point that is already known as well as single precision can tell is left out: it has
        nothing new, and its rounding errors would grow with each point that is added.
        """
        n, left = self._length, 1.0 - float(v @ v)
        if left < native.KNOWN:
            return
        pivot = np.sqrt(left + max(self._posterior.noise, ADDED_NOISE))
        self._rows.put(n, x)
        if self._smooth is not None:
            self._smooth.T[:, n] = x
        self._inverse[n, :n] = -(v @ self._inverse[:n, :n]) / pivot
        self._inverse[n, n] = 1.0 / pivot
        self._length = n + 1

    def _in_core(self, rows: LimitRows, smooth: SmoothRows | None) -> native.Walk:
        """The same in the core, on the same arrays."""
        return native.Walk(
            laplace=rows.laplace,
            T=rows.T,
            cuts=rows.cuts,
            categorical=rows.categorical,
            scale=self._posterior.group_share,
            rates=NOTHING.astype(np.float32) if smooth is None else smooth.rates,
            share=0.0 if smooth is None else smooth.share,
            inverse=self._inverse,
            w=self._w,
        )

    def _kappa(self, groups: list[Ints], P: Floats) -> Singles:
        """The part that some groups have in the kernel, (S, n)."""
        return self._rows(P, groups, self._posterior.group_share, self._length)

    def _moments(self, kappa: Singles, base: Singles) -> tuple[Floats, Floats, Singles]:
        """μ, σ and v = base + R⁻¹ kappa: O(S n²)."""
        mean, sd, v = native.whiten(kappa, self._inverse, self._w, base)
        return mean, sd, v.T[: len(kappa)]


def _deviation(square: Floats) -> Floats:
    """σ from |v|², which rounding may lead beyond 1."""
    return np.sqrt(np.maximum(1.0 - square, 16 * np.finfo(np.float64).eps))
