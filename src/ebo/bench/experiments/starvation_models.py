"""The models of `starvation`: posteriors on a line, of all observations and leaf by leaf."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ebo.arrays import Floats
from ebo.partition import mondrian
from ebo.tilegp.box import Box
from ebo.tilegp.kernel import Kernel, Limit
from ebo.tilegp.model import TileGP

Prediction = tuple[Floats, Floats]  # μ and σ

LOWER, UPPER, OBSERVED, AWAY = -10.0, 10.0, 0.5, 1.5
NOISE = 0.01  # standard deviation
JITTER = 1e-9  # variance that lets the kernel matrix of f be factorised
HALF = 2.0 * np.sqrt(2.0 * np.log(2.0))  # width of the hat that is ½ where the bell is, over ℓ
LAYERS, LEAF_SIZE = 100, 100
BOX = Box(np.array([LOWER]), np.array([UPPER]))
ONE_GROUP = np.array([0])


class SquaredExponential(Limit):
    """What Fourier features tend to: exp(-½ k² (t - t')²)."""

    def profile(self, distance: Floats) -> Floats:
        """exp(-½ distance²), or 0 below 1e-31: numbers near the least slow every product down."""
        similarity: Floats = np.where(distance < 12.0, np.exp(-0.5 * distance**2), 0.0)
        return similarity


def draw(x: Floats, length: float, rng: np.random.Generator) -> Floats:
    """A sample of the process at the points x (n,)."""
    T = BOX.to_unit(x[:, None])
    covariance = SquaredExponential().gram(T, T, ONE_GROUP, [(UPPER - LOWER) / length])
    covariance[np.diag_indices(len(x))] += JITTER
    sample: Floats = np.linalg.cholesky(covariance) @ rng.standard_normal(len(x))
    return sample


def predict(
    kernel: Kernel, cuts: float, X: Floats, y: Floats, x: Floats, form: str = "kernel"
) -> Prediction:
    """μ and σ at the points x (n,), given y at X."""
    model = TileGP(kernel, BOX, ONE_GROUP, [cuts], NOISE**2, form).fit(X[:, None], y)
    mean, variance = model.predict(x[:, None])
    return mean, np.sqrt(np.maximum(variance, 1e-16))


def partition(X: Floats, rng: np.random.Generator) -> tuple[Floats, list[NDArray[np.int64]]]:
    """Places (J + 1,) that bound J leaves from left to right, and the observations of each."""
    T = (X[:, None] - LOWER) / (OBSERVED - LOWER)
    leaves = mondrian(T, max_leaves=len(X) + 1, leaf_size=LEAF_SIZE, rng=rng)
    leaves.sort(key=lambda leaf: float(leaf.lower[0]))
    starts = [LOWER + (OBSERVED - LOWER) * float(leaf.lower[0]) for leaf in leaves]
    return np.array([*starts, UPPER]), [leaf.rows for leaf in leaves]


def in_leaves(
    kernel: Callable[[int], Kernel],
    cuts: float,
    leaves: list[NDArray[np.int64]],
    edges: Floats,
    X: Floats,
    y: Floats,
    x: Floats,
) -> Prediction:
    """μ and σ at every point of x by the model of its own leaf, the j-th with kernel(j)."""
    mean, sd = np.empty(len(x)), np.empty(len(x))
    where = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(leaves) - 1)
    for j, rows in enumerate(leaves):
        here = where == j
        if here.any():
            mean[here], sd[here] = predict(kernel(j), cuts, X[rows], y[rows], x[here])
    return mean, sd
