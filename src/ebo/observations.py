"""Observations: the points that were told with their values, and those that were asked for.

=========  ========  ========================================================================
name       shape     meaning
=========  ========  ========================================================================
X, y       (n, D)    points told, in the user's units, and their values; NaN where failed
`pending`  (Q, D)    points asked for and not told yet
T, u       (n, F)    points in the unit cube, and values standardised so that more is better
=========  ========  ========================================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from ebo.arrays import Floats, Ints
from ebo.space import Points, Space
from ebo.standardisation import Standardisation
from ebo.values import check_values

ATTEMPTS = 10  # times that random points are drawn to find new ones
SMALL_SPACE = 10_000  # a space of at most so many points is listed


def sign_of(space: Space, direction: str) -> float:
    """1 to maximise values of points of this space, -1 to minimise. Both arguments are checked."""
    if not isinstance(space, Space):
        raise TypeError(f"space is a {type(space).__name__}; give ebo.box(...) or ebo.Space")
    if direction not in ("maximize", "minimize"):
        raise ValueError(f"direction is {direction!r}; give 'maximize' or 'minimize'")
    return 1.0 if direction == "maximize" else -1.0


def told(space: Space, X: Points, y: ArrayLike) -> tuple[Floats, Floats]:
    """Points (n, D) and their values (n,), as arrays or dicts; one dict may have one number."""
    points = space.points(X)
    if isinstance(X, Mapping) and isinstance(y, Real):
        y = [float(y)]
    return points, check_values(y, len(points))


class Observations:
    """A growing set of points of a space. `sign` is -1 where their values are minimised."""

    def __init__(self, space: Space, sign: float) -> None:
        self.space, self.sign = space, sign
        self.pending = np.empty((0, space.dims))
        self._known: set[bytes] = set()  # rows told or asked
        # Told piece by piece, and put together when looked at: many small pieces stay cheap.
        self._pieces = [(np.empty((0, space.dims)), np.empty(0))]
        self._best: tuple[Floats, float] | None = None

    @property
    def X(self) -> Floats:
        """The points told, (n, D)."""
        return self._whole()[0]

    @property
    def y(self) -> Floats:
        """Their values, (n,)."""
        return self._whole()[1]

    @property
    def known(self) -> int:
        """How many different points were told or asked for."""
        return len(self._known)

    @property
    def any_value(self) -> bool:
        """Whether an evaluation has succeeded."""
        return self._best is not None

    def tell(self, X: Points, y: ArrayLike) -> None:
        """Take in values y (n,) of points X (n, D). After an error nothing was taken in.

        A point that is pending twice is waited for until it is told twice.
        """
        points, values = told(self.space, X, y)
        keys = row_keys(points)
        came, waiting = Counter(keys), np.ones(len(self.pending), dtype=np.bool_)
        for i, key in enumerate(row_keys(self.pending)):
            if came.get(key, 0):
                came[key] -= 1
                waiting[i] = False
        self._pieces.append((points, values))
        self.pending = self.pending[waiting]
        self._known.update(keys)
        if np.isfinite(values).any():
            i = int(np.nanargmax(self.sign * values))
            if self._best is None or self.sign * values[i] > self.sign * self._best[1]:
                self._best = points[i].copy(), float(values[i])

    def ask(self, X: Floats) -> None:
        """Note that these points were asked for and have no value yet."""
        self.pending = np.concatenate([self.pending, X])
        self._known.update(row_keys(X))

    def best(self) -> tuple[Floats, float]:
        """The best point told, (D,), and its value."""
        if self._best is None:
            raise RuntimeError("no value is known yet; tell at least one that has not failed")
        return self._best[0].copy(), self._best[1]

    def standardised(self) -> tuple[Floats, Floats, Standardisation]:
        """T, u and the map from y to u. The order of rows does not depend on that of telling."""
        table = np.ascontiguousarray(np.column_stack([self.X, self.sign * self.y]) + 0.0)
        order = np.argsort(table.view(f"V{table.shape[1] * 8}").ravel(), kind="stable")
        y = table[order, -1]
        scale = Standardisation.fit(y)
        return self.space.to_unit(self.X[order]), scale.to_standard(y), scale

    def _whole(self) -> tuple[Floats, Floats]:
        if len(self._pieces) > 1:
            points, values = zip(*self._pieces, strict=True)
            self._pieces = [(np.concatenate(points), np.concatenate(values))]
        return self._pieces[0]

    def new(self, X: Floats) -> Ints:
        """The rows of X that were neither told nor asked for, each point once."""
        seen, rows = set(self._known), list[int]()
        for i, key in enumerate(row_keys(X)):
            if key not in seen:
                seen.add(key)
                rows.append(i)
        return np.array(rows, dtype=np.int64)

    def complete(self, X: Floats, n: int, rng: np.random.Generator) -> Floats:
        """n points: those of X that are new, and random new ones for the rest.

        If there are no new points left, as in a small discrete space, points repeat.
        """
        X = X[self.new(X)][:n]
        for _ in range(ATTEMPTS):
            if len(X) == n:
                return X
            more = np.concatenate([X, self._any(2 * n, rng)])
            X = more[self.new(more)][:n]
        return np.concatenate([X, self._any(n, rng)])[:n]

    def _any(self, n: int, rng: np.random.Generator) -> Floats:
        """Random points; of a small discrete space, all in random order, again and again."""
        levels = self.space.levels
        if len(levels) and 0 < np.prod(levels.astype(np.float64)) <= SMALL_SPACE:
            grid = np.indices(tuple(levels.tolist())).reshape(len(levels), -1).T
            every = (rng.permutation(grid) + 0.5) / levels
            return self.space.from_unit(np.resize(every, (max(n, len(every)), len(levels))))
        return self.space.from_unit(rng.random((n, len(levels))))


def row_keys(X: Floats) -> list[bytes]:
    """Each row as bytes, which are equal if the points are; -0.0 and 0.0 are the same."""
    return [row.tobytes() for row in np.ascontiguousarray(X + 0.0)]
