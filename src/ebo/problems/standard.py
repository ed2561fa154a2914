"""Test functions of the literature, negated, so that all are maximised; points X (n, D).

Those of any dimension are shifted by a seed: their optimum moves to a uniform place in the middle
60 % of the box, and f is read at x - shift, beyond its usual box too. Unshifted, the optimum is at
the centre of the box, or near it, where many an optimiser starts, and on a diagonal. Their maximum
is 0 everywhere on R^D, so that the shift does not change it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ebo.arrays import Floats
from ebo.problems.base import Problem

MARGIN = 0.2  # of the range: as near as a shifted optimum comes to a bound
PI = np.pi


@dataclass(frozen=True)
class Family:
    """A function to minimise in any dimension; all coordinates of its optimum are the same."""

    function: Callable[[Floats], Floats]
    lower: float
    upper: float
    optimum: float
    least_dims: int = 1


class Standard(Problem):
    """The negative of a function; `optimum` (D,) is where the maximum is, or one of several."""

    def __init__(
        self,
        name: str,
        function: Callable[[Floats], Floats],
        lower: ArrayLike,
        upper: ArrayLike,
        optimum: ArrayLike,
        upper_bound: float = 0.0,
        shift: ArrayLike = 0.0,
    ) -> None:
        super().__init__(name, lower, upper, upper_bound)
        self.shift: Floats = np.broadcast_to(np.asarray(shift, dtype=np.float64), self.lower.shape)
        self.optimum: Floats = np.asarray(optimum, dtype=np.float64) + self.shift
        self._function = function

    def _values(self, X: Floats) -> Floats:
        return -self._function(X - self.shift)


def family(name: str, kind: str, dims: int, rng: np.random.Generator | None) -> Standard:
    """A function of any dimension, shifted if there is a generator."""
    f = FAMILIES[kind]
    if dims < f.least_dims:
        raise ValueError(f"{kind} in {dims} dimensions; give at least {f.least_dims}")
    shift = np.zeros(dims)
    if rng is not None:
        margin = MARGIN * (f.upper - f.lower)
        shift = rng.uniform(f.lower + margin, f.upper - margin, dims) - f.optimum
    bounds = np.full(dims, f.lower), np.full(dims, f.upper)
    return Standard(name, f.function, *bounds, np.full(dims, f.optimum), shift=shift)


def branin() -> Standard:
    """Branin's function, which has three optima."""
    return Standard(
        "branin",
        _branin,
        (-5.0, 0.0),
        (10.0, 15.0),
        optimum=(PI, 2.275),
        upper_bound=-5.0 / (4.0 * PI),
    )


def hartmann6() -> Standard:
    """Hartmann's function of six dimensions."""
    optimum = (0.20168951, 0.15001069, 0.47687398, 0.27533243, 0.31165162, 0.65730053)
    return Standard("hartmann6", _hartmann6, np.zeros(6), np.ones(6), optimum, HARTMANN6_MAXIMUM)


def _branin(X: Floats) -> Floats:
    x, y = X.T
    value: Floats = (
        (y - 5.1 / (4.0 * PI**2) * x**2 + 5.0 / PI * x - 6.0) ** 2
        + 10.0 * (1.0 - 1.0 / (8.0 * PI)) * np.cos(x)
        + 10.0
    )
    return value


HARTMANN6_MAXIMUM = 3.32236801141552
HEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
RATES = np.array(
    [
        [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
        [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
        [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
        [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
    ]
)
CENTRES = np.array(
    [
        [0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886],
        [0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991],
        [0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650],
        [0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381],
    ]
)


def _hartmann6(X: Floats) -> Floats:
    bumps = np.exp(-(RATES * (X[:, None] - CENTRES) ** 2).sum(axis=2))
    value: Floats = -(HEIGHTS * bumps).sum(axis=1)
    return value


def _ackley(X: Floats) -> Floats:
    ripple = np.exp(np.cos(2.0 * PI * X).mean(axis=1))
    value: Floats = 20.0 - 20.0 * np.exp(-0.2 * np.sqrt((X**2).mean(axis=1))) + np.e - ripple
    return value


def _levy(X: Floats) -> Floats:
    W = 1.0 + (X - 1.0) / 4.0
    first, inner, last = W[:, 0], W[:, :-1], W[:, -1]
    value: Floats = (
        np.sin(PI * first) ** 2
        + ((inner - 1.0) ** 2 * (1.0 + 10.0 * np.sin(PI * inner + 1.0) ** 2)).sum(axis=1)
        + (last - 1.0) ** 2 * (1.0 + np.sin(2.0 * PI * last) ** 2)
    )
    return value


def _rastrigin(X: Floats) -> Floats:
    value: Floats = (X**2 + 10.0 * (1.0 - np.cos(2.0 * PI * X))).sum(axis=1)
    return value


def _rosenbrock(X: Floats) -> Floats:
    x, following = X[:, :-1], X[:, 1:]
    value: Floats = (100.0 * (following - x**2) ** 2 + (1.0 - x) ** 2).sum(axis=1)
    return value


def _griewank(X: Floats) -> Floats:
    waves = np.cos(X / np.sqrt(np.arange(1, X.shape[1] + 1))).prod(axis=1)
    value: Floats = (X**2).sum(axis=1) / 4000.0 + 1.0 - waves
    return value


FAMILIES = {
    "ackley": Family(_ackley, -32.768, 32.768, 0.0),
    "levy": Family(_levy, -10.0, 10.0, 1.0),
    "rastrigin": Family(_rastrigin, -5.12, 5.12, 0.0),
    "rosenbrock": Family(_rosenbrock, -5.0, 10.0, 1.0, least_dims=2),
    "griewank": Family(_griewank, -600.0, 600.0, 0.0),
}
