"""Objective values of any size and shape -> numbers near one that a Gaussian process can take.

    u = (y - median) / scale,   scale = interquartile range / 1.349

so that u is standard normal where y is normal, and a few wild values change nothing. Tails are
drawn in: what is further out than LOW below or HIGH above counts by its logarithm only. Low values
are drawn in sooner than high ones: three deviations below the median a point is hopeless, and no
more need be known of it, whereas the best points are what the search is for. The map rises and is
smooth, so that an upper bound of y is an upper bound of u. Where half of the values are equal, the
scale is the median distance of the others from them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ebo.arrays import Floats

LOW, HIGH = 3.0, 6.0
UNIT = 4.0  # y is divided by it, so that no difference of two values overflows
LARGEST = np.finfo(np.float64).max
ROUNDING = 1e-12
NORMAL_RANGE = 1.3489795003921634  # interquartile range of a standard normal
FAILED_QUANTILE = 0.1


@dataclass(frozen=True)
class Standardisation:
    """The map from objective values y to standardised values u."""

    centre: float  # of y/UNIT, as the scale is
    scale: float

    @classmethod
    def fit(cls, y: Floats) -> Standardisation:
        """Fit to the finite values. If there are none, or if all are equal, the scale is one."""
        known = y[np.isfinite(y)]
        if len(known) == 0:
            return cls(0.0, 1.0 / UNIT)
        parts = known / UNIT
        low, centre, high = np.quantile(parts, [0.25, 0.5, 0.75])
        scale = (high - low) / NORMAL_RANGE
        if scale <= ROUNDING * max(abs(low), abs(high)):  # half of the values are equal
            away = np.abs(parts - centre)
            away = away[away > ROUNDING * abs(centre)]
            scale = np.median(away) if len(away) else 0.0
        return cls(float(centre), float(scale) or 1.0 / UNIT)

    def to_standard(self, y: ArrayLike) -> Floats:
        """u of the values y. A failed evaluation (NaN) has the 10 % quantile of the others."""
        values = np.asarray(y, dtype=np.float64)
        with np.errstate(over="ignore"):
            u = (values / UNIT - self.centre) / self.scale
        u = np.where(np.isfinite(values), np.clip(u, -LARGEST, LARGEST), np.nan)
        u = np.where(u > HIGH, HIGH + np.log1p(np.maximum(u - HIGH, 0.0)), u)
        u = np.where(u < -LOW, -LOW - np.log1p(np.maximum(-LOW - u, 0.0)), u)
        failed = ~np.isfinite(u)
        if failed.any():
            u[failed] = np.quantile(u[~failed], FAILED_QUANTILE) if not failed.all() else 0.0
        return u

    def from_standard(self, u: ArrayLike) -> Floats:
        """The inverse map. What would be beyond the largest float is the largest float."""
        v = np.asarray(u, dtype=np.float64)
        with np.errstate(over="ignore"):
            v = np.where(v > HIGH, HIGH + np.expm1(np.maximum(v - HIGH, 0.0)), v)
            v = np.where(v < -LOW, -LOW - np.expm1(np.maximum(-LOW - v, 0.0)), v)
            return np.clip((v * self.scale + self.centre) * UNIT, -LARGEST, LARGEST)
