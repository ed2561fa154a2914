"""What a space is made of: real numbers, whole numbers, and choices."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

from ebo.space.grid import Grid
from ebo.tilegp.box import LARGEST_WHOLE

LARGEST_LOG_WHOLE = 2**45  # beyond it neighbours on a log scale no longer get distinct t
WIDEST_LOG = 1e300  # largest h/l of a log scale


@dataclass(frozen=True, repr=False)
class Float:
    """A real number from `low` to `high`, both included.

    log: a log scale, on which equal ratios are equally far apart.
    step: only the values low, low + step, low + 2 step, ... The last one is the largest not above
        `high`, and `high` becomes that: `Float(0, 1, step=0.3)` ends at 0.9.
    """

    low: float
    high: float
    log: bool = field(default=False, kw_only=True)
    step: float | None = field(default=None, kw_only=True)
    grid: Grid | None = field(default=None, init=False, compare=False)  # of the steps

    def __post_init__(self) -> None:
        low, high = _bounds(self)
        if high - low == math.inf:
            raise ValueError(f"{self}: high - low overflows; give bounds that are less far apart")
        if self.log and high / low > WIDEST_LOG:
            raise ValueError(f"{self}: high/low is above {WIDEST_LOG}; raise low")
        if self.step is not None:
            grid = _steps(self, low, high)
            high = float(grid.value(grid.count - 1))
            object.__setattr__(self, "step", float(self.step))
            object.__setattr__(self, "grid", grid)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def __repr__(self) -> str:
        log = ", log=True" * (self.log is True)
        step = "" if self.step is None else f", step={shown(self.step)}"
        return f"Float({shown(self.low)}, {shown(self.high)}{log}{step})"

    @property
    def levels(self) -> int:
        """Number of different values; 0 for a continuum, 1 for a parameter that is fixed."""
        return int(self.low == self.high) if self.grid is None else int(self.grid.count)


@dataclass(frozen=True, repr=False)
class Int:
    """A whole number from `low` to `high`, both included.

    log: a log scale, on which equal ratios are equally far apart.
    """

    low: int
    high: int
    log: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        low, high = _bounds(self)
        if low != math.floor(low) or high != math.floor(high):
            raise ValueError(f"{self}: the bounds are not whole; round them, or use Float")
        largest = LARGEST_LOG_WHOLE if self.log else LARGEST_WHOLE
        if max(-low, high) > largest:
            raise ValueError(
                f"{self}: the bounds go beyond 2**{largest.bit_length() - 1}, where neighbours "
                f"cannot be told apart in the unit cube; use Float, and round in the objective"
            )
        object.__setattr__(self, "low", int(low))
        object.__setattr__(self, "high", int(high))

    def __repr__(self) -> str:
        return f"Int({shown(self.low)}, {shown(self.high)}{', log=True' * (self.log is True)})"

    @property
    def levels(self) -> int:
        """Number of distinct values."""
        return self.high - self.low + 1


@dataclass(frozen=True, repr=False, eq=False)
class Categorical:
    """One of some choices.

    choices: any hashable values. 1, 1.0 and True are three choices, though Python calls them equal.
    ordered: whether neighbours in the list are alike, as small, medium and large are.
    """

    choices: Sequence[Hashable]
    ordered: bool = field(default=False, kw_only=True)
    _index: dict[Hashable, int] = field(init=False)

    def __post_init__(self) -> None:
        if isinstance(self.choices, str | bytes | Set | Mapping) or not isinstance(
            self.choices, Iterable
        ):
            raise TypeError(
                f"choices are {shown(self.choices)}; give a list or tuple, which has an order"
            )
        choices = tuple(_plain(choice) for choice in self.choices)
        _check_flag("ordered", self.ordered)
        if not choices:
            raise ValueError("choices are empty; give at least one")
        index: dict[Hashable, int] = {}
        for i, choice in enumerate(choices):
            try:
                first = index.setdefault(_key(choice), i)
            except TypeError:
                raise TypeError(
                    f"choice {i}, {shown(choice)}, cannot be hashed; use a tuple or a string"
                ) from None
            if first != i:
                raise ValueError(
                    f"choices {first} and {i} are both {shown(choice)}; leave one of them out"
                )
        object.__setattr__(self, "choices", choices)
        object.__setattr__(self, "_index", index)

    def __repr__(self) -> str:
        return f"Categorical([{listed(self.choices)}]{', ordered=True' * self.ordered})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Categorical):
            return NotImplemented
        return (self.ordered, list(self._index)) == (other.ordered, list(other._index))

    def __hash__(self) -> int:
        return hash((self.ordered, tuple(self._index)))

    @property
    def levels(self) -> int:
        """Number of choices."""
        return len(self.choices)

    def index(self, value: object) -> int:
        """The place of a value in `choices`. Another value, or another type, is an error."""
        try:
            return self._index[_key(_plain(value))]
        except (KeyError, TypeError):
            raise ValueError(
                f"{shown(value)} ({type(value).__name__}) is not a choice; "
                f"give one of {listed(self.choices)}"
            ) from None


Parameter = Float | Int | Categorical


def _bounds(parameter: Float | Int) -> tuple[float, float]:
    """The bounds as floats, with the checks that are the same for floats and ints."""
    try:
        low, high = number(parameter.low), number(parameter.high)
    except TypeError as error:
        raise TypeError(f"{parameter}: {error}") from None
    _check_flag("log", parameter.log)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"{parameter}: the bounds are not finite; give finite ones")
    if low > high:
        raise ValueError(f"{parameter}: low is above high; swap them")
    if parameter.log and low <= 0:
        raise ValueError(f"{parameter}: a log scale needs low > 0; raise low, or leave log out")
    return low, high


def _steps(parameter: Float, low: float, high: float) -> Grid:
    """The steps from low to high, checked."""
    try:
        step = number(parameter.step)
    except TypeError as error:
        raise TypeError(f"{parameter}: step {error}, or leave it out") from None
    if not 0 < step < math.inf:
        raise ValueError(f"{parameter}: step is {shown(step)}; give a positive number")
    if parameter.log:
        raise ValueError(f"{parameter}: a log scale has no steps; leave step or log out")
    fine = low == high or step >= 16 * np.spacing(max(abs(low), abs(high)))
    if not fine or high - low > step * LARGEST_WHOLE:
        raise ValueError(
            f"{parameter}: step is so small beside the bounds that neighbours cannot be told "
            f"apart; give a larger one, or leave it out"
        )
    grid = Grid.of(low, high, step)
    if grid.count == 1 and low < high:
        raise ValueError(
            f"{parameter}: step is above high - low, which leaves only {shown(low)}; give a "
            f"smaller one (the last value is the largest low + k step not above high)"
        )
    return grid


def _check_flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} is {shown(value)}; give True or False")


def number(value: Any) -> float:
    """A number as a float, infinite if it is too large. A bool is not a number."""
    if type(value) is float:
        return value
    numeric = isinstance(value, Real) and not isinstance(value, bool)
    if not numeric:
        raise TypeError(f"{shown(value)} ({type(value).__name__}) is not a number; give one")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # an int or a fraction


def _plain(value: Any) -> Any:
    """NumPy's scalars as Python's own."""
    return value.item() if isinstance(value, np.bool_ | np.number | np.str_) else value


def _key(value: Any) -> Hashable:
    """What a choice is looked up by: its type too, as True == 1; and NaN is equal to itself."""
    if isinstance(value, tuple):
        return type(value), tuple(_key(part) for part in value)
    return type(value), "nan" if isinstance(value, float) and math.isnan(value) else value


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def shown(value: object) -> str:
    """A value as error messages show it, cut short if it is long."""
    return _SHORT.repr(_plain(value))


def listed(values: Sequence[Any], *, show: Any = shown, most: int = 6) -> str:
    """The first few of some values for a message, and how many more there are."""
    rest = f", ... {len(values) - most} more" if len(values) > most else ""
    return ", ".join(show(value) for value in values[:most]) + rest
