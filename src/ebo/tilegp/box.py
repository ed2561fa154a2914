"""The box a TileGP lives on, and its map to the unit cube.

Every numeric routine of the leaf works on T in [0, 1]^D, so that a number of cuts means the same
in every dimension; only this module knows of units and kinds of dimensions.

=========  ==========  =======================================================================
name       shape       meaning
=========  ==========  =======================================================================
`lower`    (D,)        lower bounds l_d, in the user's units (inclusive)
`upper`    (D,)        upper bounds h_d (inclusive)
`kinds`    D strings   "continuous", "integer", "categorical" or "label"
X          (n, D)      points in the user's units
T          (n, D)      the same points in the unit cube
=========  ==========  =======================================================================

Continuous: t = (x - l)/(h - l). Integer and categorical, with h - l + 1 levels:
t = (v - l + 1/2)/levels, the middle of the value's own slot, so that equal values have bit-equal t.
A label is a category that has been mapped already, as in a part of the unit cube. It is mapped like
a continuous value and compared like a category.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebo.arrays import Bools, Floats

KINDS = ("continuous", "integer", "categorical", "label")
LARGEST_WHOLE = 2**50  # beyond it neighbouring whole numbers no longer get distinct t in float64


def as_points(X: ArrayLike, dims: int) -> Floats:
    """X as an (n, dims) float64 array. Any other shape is an error."""
    points = np.asarray(X, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != dims:
        raise ValueError(
            f"points have shape {points.shape}, expected (n, {dims}): "
            f"one row a point, one column a dimension"
        )
    return points


@dataclass(frozen=True, eq=False)
class Box:
    """A box of D dimensions with inclusive bounds. Without `kinds` all of them are continuous."""

    lower: Floats
    upper: Floats
    kinds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        lower = np.array(self.lower, dtype=np.float64)
        upper = np.array(self.upper, dtype=np.float64)
        if lower.ndim != 1 or lower.size == 0 or lower.shape != upper.shape:
            raise ValueError(
                f"lower has shape {lower.shape} and upper {upper.shape}; "
                f"give two vectors of the same length, at least 1"
            )
        kinds = tuple(self.kinds) or ("continuous",) * lower.size
        if len(kinds) != lower.size:
            raise ValueError(
                f"{len(kinds)} kinds for {lower.size} dimensions; give one for each, or none"
            )
        for d, kind in enumerate(kinds):
            _check_bounds(d, kind, float(lower[d]), float(upper[d]))
        lower.setflags(write=False)
        upper.setflags(write=False)
        for name, value in (("lower", lower), ("upper", upper), ("kinds", kinds)):
            object.__setattr__(self, name, value)

    @classmethod
    def unit(cls, dims: int) -> Box:
        """The continuous unit cube [0, 1]^dims."""
        return cls(np.zeros(dims), np.ones(dims))

    @property
    def dims(self) -> int:
        """D, the number of dimensions."""
        return len(self.kinds)

    @property
    def categorical(self) -> Bools:
        """(D,) mask of the dimensions whose values are compared for equality only."""
        return np.array([kind in ("categorical", "label") for kind in self.kinds])

    def to_unit(self, X: ArrayLike) -> Floats:
        """The points X (n, D) as T (n, D) in [0, 1]. A point outside of the box is an error."""
        points = as_points(X, self.dims)
        outside = ~((points >= self.lower) & (points <= self.upper))  # true for NaN as well
        if outside.any():
            i, d = np.argwhere(outside)[0]
            raise ValueError(self._complaint(int(i), int(d), float(points[i, d])))
        whole = np.array([kind in ("integer", "categorical") for kind in self.kinds])
        broken = whole & (points != np.floor(points))
        if broken.any():
            i, d = np.argwhere(broken)[0]
            raise ValueError(
                f"point {i}, dimension {d}: {points[i, d]} is not a whole number, but the "
                f"dimension is {self.kinds[d]}; round it"
            )
        span = self.upper - self.lower
        offset = points - self.lower
        T = np.where(whole, offset + 0.5, offset) / np.where(whole, span + 1.0, span)
        return np.clip(T, 0.0, 1.0)

    def _complaint(self, i: int, d: int, value: float) -> str:
        """What to say of a value that is not within the bounds."""
        if not np.isfinite(value):
            return f"point {i}, dimension {d}: {value} is not finite; drop the point or repair it"
        return (
            f"point {i}, dimension {d}: {value} is outside "
            f"[{self.lower[d]:.17g}, {self.upper[d]:.17g}]; clip it or widen the box"
        )


def _check_bounds(d: int, kind: Any, lower: float, upper: float) -> None:
    """Raise if one dimension's bounds do not suit its kind."""
    if kind not in KINDS:
        raise ValueError(f"dimension {d}: unknown kind {kind!r}; choose one of {', '.join(KINDS)}")
    bounds = f"dimension {d} ({kind}): bounds [{lower}, {upper}]"
    if not np.isfinite(upper - lower):
        raise ValueError(f"{bounds} are not finite or too far apart; give finite bounds")
    if kind in ("continuous", "label"):
        if not lower < upper:
            raise ValueError(
                f"{bounds} are empty; give lower < upper, or leave a fixed dimension out"
            )
        return
    if lower != np.floor(lower) or upper != np.floor(upper):
        raise ValueError(f"{bounds} are not whole numbers; round them or make it continuous")
    if lower > upper:
        raise ValueError(f"{bounds} are empty; give lower <= upper")
    if max(abs(lower), abs(upper)) > LARGEST_WHOLE:
        raise ValueError(f"{bounds} go beyond 2**50; make the dimension continuous")
