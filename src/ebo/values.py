"""What counts as a value of the objective: a finite number, and nothing else.

This is decided here only: by `number_of` for what one call has returned, by `check_values` for the
values of many points. Everything that is not a value is a failed evaluation. A masked entry of
NumPy's is one too: it says that there is no value, whatever number is hidden beneath.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebo.arrays import Floats

NUMBERS = "fiub"  # NumPy's kinds of numbers: real, whole, of either sign, true or false


def number_of(returned: Any) -> tuple[float, str]:
    """The value and "", or NaN and the reason why what was returned is not a value."""
    try:
        array = np.asarray(without_masked(returned))
        # Objects too: Decimal and Fraction are numbers.
        if array.size != 1 or array.dtype.kind not in f"{NUMBERS}O":
            raise TypeError
        item = array.reshape(()).item()
        if isinstance(item, str | bytes) or item is None:
            raise TypeError
        value = float(item)
    except Exception:
        return math.nan, f"returned {shown(returned)}, which is not a number"
    if math.isfinite(value):
        return value, ""
    return math.nan, f"returned {'a masked value' if np.ma.is_masked(returned) else value}"


def check_values(y: ArrayLike, n: int) -> Floats:
    """The values of n points as floats (n,), NaN for each that is not finite or is masked."""
    try:
        values = np.asarray(without_masked(y))
    except ValueError:  # rows of different lengths
        values = np.empty(0, dtype=np.object_)
    if values.dtype.kind not in NUMBERS:
        raise ValueError(f"y is {y!r}; give numbers, NaN for an evaluation that failed")
    if values.shape != (n,):
        raise ValueError(
            f"y has shape {values.shape} for {n} points; give ({n},), one value for each point"
        )
    numbers = values.astype(np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def without_masked(values: Any) -> Any:
    """The same with NaN in the place of every masked number."""
    if isinstance(values, np.ma.MaskedArray):
        known: Any = values.astype(np.float64) if values.dtype.kind in NUMBERS else values
        return known.filled(np.nan)
    if isinstance(values, list | tuple):
        return [without_masked(value) for value in values]
    return values


def shown(value: Any, show: Callable[[Any], str] = reprlib.repr) -> str:
    """A value as text, whatever its own methods do."""
    try:
        return show(value)
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"
