"""What all baselines have in common.

A subclass works on the unit cube and always maximises:

=========  ========  ========================================================================
name       shape     meaning
=========  ========  ========================================================================
T          (n, F)    points in the unit cube, the free parameters only
u          (n,)      values, more is better; NaN where failed
numbers    (n,)      which of the points asked for these are, counted from 0; -1 for others
=========  ========  ========================================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebo.arrays import Floats
from ebo.checks import check_count
from ebo.observations import Observations, row_keys, sign_of
from ebo.space import Space


class AskTell(Protocol):
    """What a comparison needs of an optimiser; `ebo.Optimizer` has it too."""

    def ask(self, n: int) -> Floats:
        """n points (n, D) to evaluate next, in the user's units."""
        ...

    def tell(self, X: ArrayLike, y: ArrayLike) -> None:
        """Take in values y (n,) of points X (n, D), asked for or not; NaN for failed ones."""
        ...

    def best(self) -> tuple[Floats, float]:
        """The best point told, (D,), and its value."""
        ...


Factory = Callable[..., AskTell]


class Baseline(ABC):
    """An optimiser by `ask` and `tell`, in the user's units and direction.

    The bounds of the values and the workers are there to be called like `ebo.Optimizer`, and are
    used by none of the simple methods.
    """

    name: ClassVar[str]
    takes_categoricals: ClassVar[bool] = False  # those without an order

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        direction: str = "maximize",
        upper_bound: float | None = None,
        lower_bound: float | None = None,
        workers: int | None = None,
    ) -> None:
        sign = sign_of(space, direction)
        check_count("seed", seed, 0)
        if space.categorical.any() and not self.takes_categoricals:
            name = space.names[np.flatnonzero(space.free)[int(space.categorical.argmax())]]
            raise ValueError(
                f"{self.name} needs parameters with an order, and {name!r} is a choice without; "
                f"make it Categorical(..., ordered=True), or take random, sobol, tpe or ebo"
            )
        self.space, self.direction, self.seed = space, direction, int(seed)
        self.dims = int(space.free.sum())  # F
        self.rng = np.random.default_rng(self.seed)
        self.asked = 0  # points so far
        self._data = Observations(space, sign)
        self._open: defaultdict[bytes, list[int]] = defaultdict(list)  # numbers not told yet

    @property
    def portion(self) -> int | None:
        """How many points are best told before more are asked for; None for a batch of any size."""
        return None

    @property
    def X(self) -> Floats:
        """The points told, (n, D), in the order of telling."""
        return self._data.X.copy()

    @property
    def y(self) -> Floats:
        """Their values, (n,); NaN where failed."""
        return self._data.y.copy()

    def ask(self, n: int) -> Floats:
        """n points (n, D) to evaluate next, in the user's units."""
        check_count("n", n, 1)
        T = self._propose(int(n)) if self.dims else np.empty((n, 0))
        X = self.space.from_unit(T)
        for i, key in enumerate(row_keys(X)):
            self._open[key].append(self.asked + i)
        self.asked += len(X)
        return X

    def tell(self, X: ArrayLike, y: ArrayLike) -> None:
        """Take in values y (n,) of points X (n, D), asked for or not; NaN says that one failed."""
        before = len(self._data.y)
        self._data.tell(X, y)  # all of them, or none and an error
        points, values = self._data.X[before:], self._data.y[before:]
        numbers = np.array([self._number(key) for key in row_keys(points)], dtype=np.int64)
        if len(points) and self.dims:
            self._learn(self.space.to_unit(points), self._data.sign * values, numbers)

    def best(self) -> tuple[Floats, float]:
        """The best point told, (D,), and its value."""
        return self._data.best()

    def _number(self, key: bytes) -> int:
        """Which of the points asked for has this key; the first that is still open."""
        numbers = self._open.get(key)
        if not numbers:
            return -1
        number = numbers.pop(0)
        if not numbers:
            del self._open[key]
        return number

    @abstractmethod
    def _propose(self, n: int) -> Floats:
        """Points T (n, F), which get the numbers from `self.asked` on."""

    @abstractmethod
    def _learn(self, T: Floats, u: Floats, numbers: NDArray[np.int64]) -> None:
        """Take in values u (n,) of T (n, F)."""
