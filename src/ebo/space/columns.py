"""The maps between the user's units and the unit cube, for all columns of one kind at once.

==============================  ===============================================================
kind                            t
==============================  ===============================================================
`Float`                         (x - l)/(h - l)
`Float(log=True)`               log(x/l)/log(h/l)
`Int`, `Categorical`            (v - l + 1/2)/(h - l + 1), the middle of the value's own slot
`Float(step=)`                  the same with the number k of the step: (k + 1/2)/count
`Int(log=True)`                 the middle of the slot [log(v - 1/2), log(v + 1/2)], all slots
                                together scaled to [0, 1]
==============================  ===============================================================

Discrete values survive the way there and back exactly, and equal values have bit-equal t. Floats do
to a few ulp of the larger bound, log floats to a relative error of a few ulp times 1 + log(h/l): t
has no more digits. For the same reason log ints end at 2**45 and other ints at 2**50.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ebo.arrays import Bools, Floats, Ints
from ebo.space.grid import Grid

BLOCK = 2**16  # numbers worked on at a time, so that they stay in the cache


@dataclass(frozen=True, eq=False)
class Linear:
    """k columns of one kind, l and h of shape (k,); this one for floats."""

    of_x: Ints | slice  # their columns in X
    of_t: Ints | slice  # their columns in T
    low: Floats
    high: Floats
    discrete: ClassVar[bool] = False

    def to_unit(self, X: Floats) -> Floats:
        """X (n, k) as T (n, k)."""
        return (X - self.low) / (self.high - self.low)

    def from_unit(self, T: Floats) -> Floats:
        """T (n, k) as X (n, k)."""
        X = self.low + T * (self.high - self.low)
        return np.where(T < 1.0, np.clip(X, self.low, self.high), self.high)


class _Log(Linear):
    """Floats on a log scale; log1p, as it keeps its digits where h/l is near 1."""

    def to_unit(self, X: Floats) -> Floats:
        return np.log1p((X - self.low) / self.low) / self._width()

    def from_unit(self, T: Floats) -> Floats:
        with np.errstate(over="ignore"):  # an ulp above the largest float: clipped
            X = self.low * np.exp(T * self._width())
        return np.where(T < 1.0, np.clip(X, self.low, self.high), self.high)

    def _width(self) -> Floats:
        return np.log1p((self.high - self.low) / self.low)


class _Whole(Linear):
    """Ints, and the indices of choices."""

    discrete = True

    def to_unit(self, X: Floats) -> Floats:
        return (X - self.low + 0.5) / (self.high - self.low + 1.0)

    def from_unit(self, T: Floats) -> Floats:
        span = self.high - self.low
        return self.low + np.minimum(np.floor(T * (span + 1.0)), span)


class _LogWhole(Linear):
    """Ints on a log scale that begins at l - 1/2 and ends at h + 1/2."""

    discrete = True

    def to_unit(self, X: Floats) -> Floats:
        start, steps = self.low - 0.5, X - self.low
        return (np.log1p(steps / start) + np.log1p((steps + 1.0) / start)) / (2.0 * self._width())

    def from_unit(self, T: Floats) -> Floats:
        X = np.floor((self.low - 0.5) * np.exp(T * self._width()) + 0.5)
        return np.clip(X, self.low, self.high)

    def _width(self) -> Floats:
        return np.log1p((self.high - self.low + 1.0) / (self.low - 0.5))


@dataclass(frozen=True, eq=False)
class Stepped(Linear):
    """Floats with steps, by the steps' numbers."""

    grid: Grid
    discrete = True

    def to_unit(self, X: Floats) -> Floats:
        """X (n, k) as T (n, k)."""
        return np.asarray((self.grid.index(X) + 0.5) / self.grid.count, dtype=np.float64)

    def from_unit(self, T: Floats) -> Floats:
        """T (n, k) as X (n, k)."""
        return self.grid.value(np.minimum(np.floor(T * self.grid.count), self.grid.count - 1.0))


def scales(
    lower: Floats,
    upper: Floats,
    levels: Ints,
    free: Bools,
    log: Bools,
    grids: Sequence[Grid | None],
) -> list[Linear]:
    """The maps of all free columns; lower, upper, levels, free, log (whether on a log scale) and
    grids (of steps) are those of all parameters, (D,)."""
    place = np.cumsum(free) - 1  # where a free column of X is in T
    found: list[Linear] = []
    steps = np.array([grid is not None for grid in grids])
    for kind, on_log in ((Linear, False), (_Log, True), (_Whole, False), (_LogWhole, True)):
        at = np.flatnonzero(free & ~steps & ((levels > 0) == kind.discrete) & (log == on_log))
        if at.size:
            of_x, of_t = as_slice(at), as_slice(place[at])
            found.append(kind(of_x, of_t, lower[at], upper[at]))
    at = np.flatnonzero(free & steps)
    if at.size:
        chosen = [grid for grid, k in zip(grids, free & steps, strict=True) if grid and k]
        parts = np.array([(g.first, g.each, g.ten, g.count) for g in chosen], dtype=np.float64)
        of_x, of_t = as_slice(at), as_slice(place[at])
        found.append(Stepped(of_x, of_t, lower[at], upper[at], Grid(*parts.T)))
    return found


def as_slice(at: Ints) -> Ints | slice:
    """Indices, as a slice where they are in one piece: it is several times faster."""
    if at.size and at[-1] - at[0] + 1 == at.size:
        return slice(int(at[0]), int(at[-1]) + 1)
    return at


def blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Slices of the rows, of about BLOCK numbers each."""
    n, dims = shape
    step = max(1, BLOCK // max(1, dims))
    for start in range(0, n, step):
        yield slice(start, start + step)
