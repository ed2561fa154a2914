"""A problem and a method of your own, for `ebo bench compare`: change both.

ebo bench compare --template > mine.py
ebo bench compare --problems mine:problem --methods ebo,mine:method
"""

from __future__ import annotations

from typing import Any

import numpy as np

import ebo


class Problem:
    """What is compared on: a space, an upper bound if one is known, and values to maximise."""

    def __init__(self, seed: int) -> None:
        self.space = ebo.box([0.0] * 4, [1.0] * 4)
        self.upper_bound = 0.0  # leave it out if nothing is known
        self._best = np.random.default_rng(seed).random(4)

    def __call__(self, X: Any) -> Any:
        """Values (n,) of points X (n, D), in the units of the space; NaN where one failed."""
        return -((X - self._best) ** 2).sum(axis=1)


class Method:
    """What is compared: `ask`, `tell` and `best`. This one draws points at random."""

    def __init__(self, space: Any, seed: int) -> None:
        self._space, self._rng = space, np.random.default_rng(seed)
        self._x, self._value = None, -np.inf

    def ask(self, n: int) -> Any:
        """Points (n, D) to evaluate next."""
        return self._space.from_unit(self._rng.random((n, int(self._space.free.sum()))))

    def tell(self, X: Any, y: Any) -> None:
        """Take in values y (n,) of points X (n, D), asked for or not; NaN for failed ones."""
        for x, value in zip(X, y, strict=True):
            if value > self._value:
                self._x, self._value = x, float(value)

    def best(self) -> tuple[Any, float]:
        """The best point told, (D,), and its value."""
        return self._x, self._value


def problem(*, seed: int) -> Problem:
    """The factory of the problem; `seed` is for what is random in it."""
    return Problem(seed)


def method(space: Any, *, seed: int, **more: Any) -> Method:
    """The factory of the method; `more` has `upper_bound` (or None) and `workers`."""
    return Method(space, seed)
