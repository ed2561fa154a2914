"""Samples of an additive Gaussian process whose groups and maximum are known.

f(x) = Σ_m f_m(x^{A_m}) on [0, 1]^D, each f_m a sample of the process with kernel

    κ_m(x, x') = exp(-‖x^{A_m} - x'^{A_m}‖₁ / ℓ),    ℓ = 0.1,

at N = 2,000 uniform points of its subspace, and between them the interpolant κ_m(x, points) w.

======  ========  =============================================================================
name    shape     meaning
======  ========  =============================================================================
`z`     (D,) int  group of each dimension
points  (N, d)    of one component, with d = |A_m| from 1 to 4
w       (N,)      K⁻¹ values: with K = LL' and values = Lε, simply L'⁻¹ε
======  ========  =============================================================================

Maxima. Along one coordinate, between neighbouring coordinates of the points, an interpolant solves
g'' = g/ℓ²: where it is positive it is convex, and beyond the outermost ones it decays. So a
positive maximum has all its coordinates among those of the points, and the best value of one
coordinate, given the others, is the best of N. In one and two dimensions the maximum found that
way is exact, up to rounding. In three and four it is what coordinate ascent finds from many
starts: at 2,000 points it is nearly always one of them.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from threadpoolctl import threadpool_limits

from ebo.arrays import Floats, Ints
from ebo.problems.base import Problem
from ebo.tilegp.gibbs import canonical
from ebo.tilegp.kernel import members

LENGTH_SCALE = 0.1
LARGEST_GROUP = 4
POINTS = 2_000
STARTS = 100  # of coordinate ascent: points with the largest values, and half as many random ones
CHUNK = 32  # rows of a kernel at a time
BATCH = 1_024  # points evaluated at a time


class Additive(Problem):
    """`add{D}`: groups of 1 to `largest_group` dimensions, random as everything, by the seed.

    `z` holds the groups, `components` their functions and `optimum` (D,) the maximum's place.
    """

    def __init__(
        self,
        name: str,
        dims: int,
        rng: np.random.Generator,
        *,
        largest_group: int = LARGEST_GROUP,
        points: int = POINTS,
    ) -> None:
        self.length_scale = LENGTH_SCALE
        self.z: Ints = random_groups(dims, largest_group, rng)
        self.groups = members(self.z)
        self.components: list[Component] = []
        self.optimum: Floats = np.empty(dims)
        total = 0.0
        with threadpool_limits(1):  # a factor's last bits depend on the number of threads
            for group in self.groups:
                place = rng.random((points, len(group)))
                component = Line(place, rng) if len(group) == 1 else Product(place, rng)
                self.components.append(component)
                self.optimum[group], value = component.maximum(rng)
                total += value
        super().__init__(name, np.zeros(dims), np.ones(dims), total)

    def _values(self, X: Floats) -> Floats:
        total = np.zeros(len(X))
        for group, component in zip(self.groups, self.components, strict=True):
            total += component(X[:, group])
        return total


class Component(Protocol):
    """One f_m."""

    def __call__(self, X: Floats) -> Floats:
        """The values (n,) at X (n, d)."""
        ...

    def maximum(self, rng: np.random.Generator) -> tuple[Floats, float]:
        """Where the maximum is, (d,), and its value."""
        ...


class Line:
    """A component of one dimension: an Ornstein-Uhlenbeck process, which is Markov.

    Between two points the interpolant is the solution of g'' = g/ℓ² through their values.
    """

    def __init__(self, points: Floats, rng: np.random.Generator) -> None:
        self.points = np.sort(points[:, 0]) / LENGTH_SCALE
        gaps = np.diff(self.points, prepend=-np.inf)  # the first value has no past
        kicks = np.sqrt(-np.expm1(-2.0 * gaps)) * rng.standard_normal(len(gaps))
        self.values: Floats = np.exp(-self.points) * np.cumsum(np.exp(self.points) * kicks)

    def __call__(self, X: Floats) -> Floats:
        """The values (n,) at X (n, 1)."""
        x = X[:, 0] / LENGTH_SCALE
        right = np.clip(np.searchsorted(self.points, x), 1, len(self.points) - 1)
        a, b = self.points[right - 1], self.points[right]
        inside = np.clip(x, a, b)
        mixed = self.values[right - 1] * np.sinh(b - inside) + self.values[right] * np.sinh(
            inside - a
        )
        values: Floats = mixed / np.sinh(b - a) * np.exp(-np.abs(x - inside))
        return values

    def maximum(self, rng: np.random.Generator) -> tuple[Floats, float]:
        """Where the maximum is, (1,), and its value: that of a point."""
        best = int(np.argmax(self.values))
        return np.array([self.points[best] * LENGTH_SCALE]), float(self.values[best])


class Product:
    """A component of two dimensions or more."""

    def __init__(self, points: Floats, rng: np.random.Generator) -> None:
        self.points = points
        L = cholesky(similarity(points, points), lower=True, check_finite=False)
        noise = rng.standard_normal(len(points))
        self.values: Floats = L @ noise
        self.weights: Floats = solve_triangular(L, noise, trans="T", lower=True)

    def __call__(self, X: Floats) -> Floats:
        """The values (n,) at X (n, d)."""
        values = np.empty(len(X))
        for i in range(0, len(X), BATCH):
            kernel = similarity(X[i : i + BATCH], self.points)
            # Not `@`: the last bits of a value would depend on the points evaluated with it.
            values[i : i + BATCH] = np.einsum("ij,j->i", kernel, self.weights)
        return values

    def maximum(self, rng: np.random.Generator) -> tuple[Floats, float]:
        """Where the maximum is, (d,), and its value."""
        if self.points.shape[1] == 2:  # the best second coordinate to each first one
            places, values = self.ascend(self.points, 1)
        else:
            mixed = rng.permuted(self.points, axis=0)[: STARTS // 2]
            starts = np.concatenate([self.points[np.argsort(-self.values)[:STARTS]], mixed])
            places, values = self.climb(starts)
        best = int(np.argmax(values))
        return places[best], float(self(places[best : best + 1])[0])

    def climb(self, places: Floats) -> tuple[Floats, Floats]:
        """Coordinate ascent from places (s, d) until no coordinate moves; places and values."""
        values = self(places)
        places, active = places.copy(), np.arange(len(places))
        while active.size:
            before = values[active]
            for j in range(places.shape[1]):
                places[active], values[active] = self.ascend(places[active], j)
            active = active[values[active] > before + 1e-12]
        return places, values

    def ascend(self, places: Floats, j: int) -> tuple[Floats, Floats]:
        """Places (s, d) with their coordinate j the best of the points', and the values there.

        With v_i = w_i κ over the other coordinates, and the points in order of coordinate j, the
        value at the k-th is Σ_i v_i exp(-|t_k - t_i|/ℓ): two cumulative sums.
        """
        order = np.argsort(self.points[:, j])
        t = np.exp(self.points[order, j] / LENGTH_SCALE)  # at most e^10
        others = np.arange(self.points.shape[1]) != j
        v = similarity(places[:, others], self.points[order][:, others]) * self.weights[order]
        below = np.cumsum(v * t, axis=1) / t
        above = np.cumsum((v / t)[:, ::-1], axis=1)[:, ::-1] * t
        g = below + above - v
        best = np.argmax(g, axis=1)
        places = places.copy()
        places[:, j] = self.points[order[best], j]
        return places, g[np.arange(len(places)), best]


def similarity(X: Floats, X2: Floats) -> Floats:
    """κ (n, n2) of X (n, d) and X2 (n2, d), a few rows at a time, which stay in the cache."""
    result = np.zeros((len(X), len(X2)))
    scratch = np.empty((CHUNK, len(X2)))
    for i in range(0, len(X), CHUNK):
        rows = result[i : i + CHUNK]
        distance = scratch[: len(rows)]
        for x, x2 in zip(X[i : i + CHUNK].T, X2.T, strict=True):
            np.subtract.outer(x, x2, out=distance)
            rows += np.abs(distance, out=distance)
        rows *= -1.0 / LENGTH_SCALE
        np.exp(rows, out=rows)
    return result


def random_groups(dims: int, most: int, rng: np.random.Generator) -> Ints:
    """Groups of 1 to `most` dimensions, their sizes uniform, their members random."""
    sizes: list[int] = []
    while sum(sizes) < dims:
        sizes.append(min(int(rng.integers(1, most + 1)), dims - sum(sizes)))
    return canonical(rng.permutation(np.repeat(np.arange(len(sizes)), sizes)))
