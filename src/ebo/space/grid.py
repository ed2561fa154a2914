"""The values low + k step of a `Float` with steps, as the shortest decimals that they are.

In floating point 0.1 * 3 is 0.30000000000000004. So low and step are taken as the decimals that
they are written as, and value k is a quotient of whole numbers, (first + k each)/ten: both are
exact, and the quotient is the float nearest to the decimal. Where they have more digits than fit,
as 1/3 has, ten is 1, and it is the plain sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np

from ebo.arrays import Floats

EXACT = 2**52  # whole numbers up to here, and their differences, are exact as floats
MOST_DIGITS = 22  # 10**22 is the largest power of ten that is exact
NEAR = 1e-6  # of a step: a value so near to one is taken for it


@dataclass(frozen=True, eq=False)
class Grid:
    """Values (first + k each)/ten for k from 0 to count - 1: of one parameter, or of k columns."""

    first: float | Floats
    each: float | Floats
    ten: float | Floats
    count: int | Floats

    @classmethod
    def of(cls, low: float, high: float, step: float) -> Grid:
        """From low up to the last value that is not above high but for rounding."""
        with localcontext(prec=800):  # the difference of any two floats, to the last digit
            start, end, width = (Decimal(repr(x)) for x in (low, high, step))
            digits = max(0, *(-int(x.normalize().as_tuple().exponent) for x in (start, width)))
            ratio = (end - start) / width
            near = ratio.to_integral_value()
            rounding = Decimal("1e-9") + ratio * Decimal("4e-16")
            count = 1 + int(near if abs(ratio - near) <= rounding else math.floor(ratio))
            ten = Decimal(10) ** digits
            if digits <= MOST_DIGITS and max(abs(start), abs(end)) * ten <= EXACT:
                return cls(float(start * ten), float(width * ten), float(ten), count)
        return cls(low, step, 1.0, count)

    def value(self, k: float | Floats) -> Floats:
        """Value number k."""
        return np.asarray((self.first + k * self.each) / self.ten, dtype=np.float64)

    def index(self, X: float | Floats) -> Floats:
        """The number of the value nearest to X; NaN where there is none."""
        with np.errstate(invalid="ignore", over="ignore"):
            k = np.rint((np.asarray(X, dtype=np.float64) * self.ten - self.first) / self.each)
        return np.clip(k, 0.0, np.asarray(self.count) - 1.0)

    def nearest(self, X: float | Floats) -> Floats:
        """The value nearest to X."""
        return self.value(self.index(X))

    def has(self, X: float | Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Whether X are values of it, but for rounding."""
        nearest = self.nearest(X)
        with np.errstate(invalid="ignore"):
            off = np.abs(np.asarray(X, dtype=np.float64) - nearest)
        slack = NEAR * self.each / self.ten + 2 * np.spacing(np.abs(nearest))
        return np.asarray(off <= slack, dtype=np.bool_)
