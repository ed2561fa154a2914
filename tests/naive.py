"""Slow, obvious twins of the fast routines: plain loops, one point at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ebo.arrays import Floats, Ints
from ebo.tilegp.features import MondrianGrid, TileCoding
from ebo.tilegp.kernel import Hat, SampledKernel
from ebo.tilegp.smooth import Smooth

WORD = 2**64


def to_unit(lower: Floats, upper: Floats, kinds: Sequence[str], X: Floats) -> Floats:
    T = np.empty(X.shape)
    for i in range(X.shape[0]):
        for d in range(X.shape[1]):
            if kinds[d] in ("continuous", "label"):
                T[i, d] = (X[i, d] - lower[d]) / (upper[d] - lower[d])
            else:
                T[i, d] = (X[i, d] - lower[d] + 0.5) / (upper[d] - lower[d] + 1)
    return T


def groups(z: Sequence[int]) -> list[list[int]]:
    return [[d for d in range(len(z)) if z[d] == m] for m in sorted(set(z))]


# Cells of one dimension on one layer.


def tile_cell(t: float, k: int, u: float) -> int:
    """How many of the cuts at (u + j)/k are not above t, by the definition of the family."""
    if k == 0:
        return 0
    p = k * t
    i = math.floor(p)
    return i + (1 if u <= p - i else 0)


def grid_cell(t: float, k: int, uniforms: Sequence[float]) -> int:
    return sum(1 for u in uniforms[:k] if u <= t)


def binning_cell(t: float, rate: float, gamma: float, u: float) -> int:
    if rate == 0:
        return 0
    return math.floor(t * (rate / gamma) + u)


# The cell of a point on a Mondrian tree, walked down by recursion.


def splitmix(state: int, output: int) -> int:
    x = (state + 0x9E3779B97F4A7C15 * (output + 1)) % WORD
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % WORD
    return x ^ (x >> 31)


def mondrian_cell(
    t: Sequence[float],
    rates: Sequence[float],
    state: int,
    lower: tuple[float, ...],
    upper: tuple[float, ...],
    time: float = 0.0,
) -> tuple[float, ...]:
    """The lower corner of the cell of t."""
    weights = [k * (b - a) for k, a, b in zip(rates, lower, upper, strict=True)]
    total = sum(weights)
    uniform = [(splitmix(state, output) >> 11) / 2**53 for output in range(3)]
    wait = -math.log1p(-uniform[0])
    if wait >= total * (1.0 - time):
        return lower
    d, below = 0, weights[0]
    while below <= uniform[1] * total and d < len(weights) - 1:
        d += 1
        below += weights[d]
    place = lower[d] + uniform[2] * (upper[d] - lower[d])
    time += wait / total
    if t[d] >= place:
        lower = (*lower[:d], place, *lower[d + 1 :])
        return mondrian_cell(t, rates, splitmix(state, 3), lower, upper, time)
    upper = (*upper[:d], place, *upper[d + 1 :])
    return mondrian_cell(t, rates, splitmix(state, 4), lower, upper, time)


# Kernels.


def cell_gram(
    cell: Callable[[Floats, list[int], int], Hashable],
    T: Floats,
    T2: Floats,
    z: Sequence[int],
    layers: int,
) -> Floats:
    """The share of layers and groups on which cell(point, group, layer) is the same."""
    gram = np.zeros((len(T), len(T2)))
    for i in range(len(T)):
        for j in range(len(T2)):
            for group in groups(z):
                for layer in range(layers):
                    if cell(T[i], group, layer) == cell(T2[j], group, layer):
                        gram[i, j] += 1
    return gram / (layers * len(groups(z)))


def limit_gram(
    profile: Callable[[float], float],
    T: Floats,
    T2: Floats,
    z: Sequence[int],
    cuts: Sequence[float],
    categorical: Sequence[bool],
) -> Floats:
    gram = np.zeros((len(T), len(T2)))
    for i in range(len(T)):
        for j in range(len(T2)):
            for group in groups(z):
                product = 1.0
                for d in group:
                    if categorical[d]:
                        product *= 1.0 if T[i, d] == T2[j, d] else 0.0
                    else:
                        product *= profile(cuts[d] * abs(T[i, d] - T2[j, d]))
                gram[i, j] += product
    return gram / len(groups(z))


def hat(distance: float) -> float:
    return max(0.0, 1.0 - distance)


def laplace(distance: float) -> float:
    return math.exp(-distance)


# The Gaussian process, by the inverse of the covariance.


def posterior(K: Floats, cross: Floats, y: Floats, noise: float) -> tuple[Floats, Floats]:
    """Mean and variance at points with cross-covariances cross (n2, n) and prior variance 1."""
    inverse = np.linalg.inv(K + noise * np.eye(len(K)))
    mean = np.array([c @ inverse @ y for c in cross])
    variance = np.array([1.0 - c @ inverse @ c for c in cross])
    return mean, variance


def log_likelihood(K: Floats, y: Floats, noise: float) -> float:
    covariance = K + noise * np.eye(len(K))
    misfit = y @ np.linalg.inv(covariance) @ y
    determinant = np.linalg.slogdet(covariance)[1]
    return float(-0.5 * misfit - 0.5 * determinant - 0.5 * len(y) * math.log(2 * math.pi))


# What the Gibbs sampler draws from: the likelihood of a state and its prior, with the mixing
# proportions and the Poisson rates integrated out.


class Target:
    """The log-likelihood of blocks (T, y) as a function of z, cuts (D,) or (D, L), and the noise.

    The similarities of all pairs in one dimension, for one number of cuts, are kept.
    """

    def __init__(
        self,
        kernel: SampledKernel,
        blocks: Sequence[tuple[Floats, Floats]],
    ) -> None:
        self.kernel, self.blocks = kernel, blocks
        self.layers = kernel.layers if isinstance(kernel, TileCoding | MondrianGrid) else 1
        self._kept: dict[tuple[int, int, int, int], Floats] = {}

    def log_likelihood(self, z: Sequence[int], cuts: Ints, noise: float) -> float:
        return sum(
            log_likelihood(self.gram(b, z, cuts), y, noise)
            for b, (T, y) in enumerate(self.blocks)
            if len(T)
        )

    def gram(self, block: int, z: Sequence[int], cuts: Ints) -> Floats:
        n = len(self.blocks[block][0])
        gram = np.zeros((n, n))
        for group in groups(z):
            together = np.ones((self.layers, n, n))
            for d in group:
                together = together * self.similarities(block, d, cuts[d])
            gram += together.mean(axis=0)
        return gram / len(groups(z))

    def similarities(self, block: int, d: int, cuts: Ints) -> Floats:
        """Of all pairs in dimension d on every layer, (L, n, n)."""
        per_layer = np.broadcast_to(cuts, self.layers)
        return np.array([self._layer(block, d, i, int(k)) for i, k in enumerate(per_layer)])

    def _layer(self, block: int, d: int, layer: int, k: int) -> Floats:
        key = (block, d, layer, k)
        if key not in self._kept:
            t = self.blocks[block][0][:, d].tolist()
            kernel = self.kernel
            if kernel.categorical is not None and kernel.categorical[d]:
                rows = [[a == b for a in t] for b in t]
            elif isinstance(kernel, TileCoding):
                u = float(kernel.uniforms[d, layer])
                cells = [tile_cell(a, k, u) for a in t]
                rows = [[a == b for a in cells] for b in cells]
            elif isinstance(kernel, MondrianGrid):
                us = kernel.uniforms[d, :, layer].tolist()
                cells = [grid_cell(a, k, us) for a in t]
                rows = [[a == b for a in cells] for b in cells]
            else:
                profile = hat if isinstance(kernel, Hat) else laplace
                rows = [[profile(k * abs(a - b)) for a in t] for b in t]
            self._kept[key] = np.array(rows, dtype=np.float64)
        return self._kept[key]


def partitions(dims: int) -> Iterator[tuple[int, ...]]:
    """All partitions of dims things, as labels in order of appearance."""
    if dims == 0:
        yield ()
        return
    for head in partitions(dims - 1):
        for label in range(max(head, default=-1) + 2):
            yield (*head, label)


def log_prior_labels(z: Sequence[int], alpha: Sequence[float], limit: int) -> float:
    """Dirichlet-multinomial law of labels 0 .. D - 1, up to a constant; groups up to limit."""
    total = 0.0
    for label, a in enumerate(alpha):
        size = sum(1 for m in z if m == label)
        if size > limit:
            return -math.inf
        total += math.lgamma(size + a) - math.lgamma(a)
    return total


def log_prior_partition(z: Sequence[int], alpha: float, limit: int) -> float:
    """The same for a partition: the sum over all ways to label its groups."""
    dims, count = len(z), len(set(z))
    labellings = math.lgamma(dims + 1) - math.lgamma(dims - count + 1)
    return labellings + log_prior_labels(z, [alpha] * dims, limit)


def log_prior_cuts(cuts: Sequence[int], rate: float, shape: float) -> float:
    """Law of the numbers of cuts of one dimension: Poisson, with a common Gamma rate."""
    total = sum(cuts)
    return (
        math.lgamma(shape + total)
        - math.lgamma(shape)
        + shape * math.log(rate)
        - (shape + total) * math.log(rate + len(cuts))
        - sum(math.lgamma(k + 1) for k in cuts)
    )


def smooth_gram(
    smooth: Smooth, T: Floats, T2: Floats, categorical: NDArray[np.bool_] | None
) -> Floats:
    """The smooth part of the kernel, pair by pair."""
    K = np.empty((len(T), len(T2)))
    for i, t in enumerate(T):
        for j, t2 in enumerate(T2):
            gaps = np.abs(t - t2)
            if categorical is not None:
                gaps[categorical] = t[categorical] != t2[categorical]
            r = np.sqrt(5.0) * np.linalg.norm(smooth.rates * gaps)
            K[i, j] = smooth.share * (1.0 + r + r**2 / 3.0) * np.exp(-r)
    return K
