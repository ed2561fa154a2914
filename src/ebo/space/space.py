"""The search space: the user's own parameters and units, and their map to the unit cube.

Outside, a point is a dict or a row of X; inside, everything is T in [0, 1]^F. A parameter with only
one value is *fixed*: it has a column in X and none in T.

==============  =======  ======================================================================
name            shape    meaning
==============  =======  ======================================================================
X               (n, D)   points in the user's units: floats as they are, ints as whole floats,
                         categoricals as the index of the choice
T               (n, F)   the same points in the unit cube, the free parameters only
`names`         D        the parameters' names, in the order of the columns of X
`lower`         (D,)     lower bounds l, in the user's units (inclusive); categoricals 0
`upper`         (D,)     upper bounds h (inclusive); categoricals c - 1
`free`          (D,)     which parameters are not fixed; F of them
`levels`        (F,)     number of distinct values, 0 for continuous
`categorical`   (F,)     which are categoricals without an order
==============  =======  ======================================================================

How each kind is mapped is in `columns.py`.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebo.arrays import Bools, Floats, Ints
from ebo.display import as_html
from ebo.space.columns import Stepped, as_slice, blocks, scales
from ebo.space.parameters import (
    LARGEST_LOG_WHOLE,
    Categorical,
    Float,
    Int,
    Parameter,
    listed,
    number,
    shown,
)
from ebo.values import without_masked

__all__ = [
    "LARGEST_LOG_WHOLE",
    "Categorical",
    "Float",
    "Int",
    "Parameter",
    "Points",
    "Space",
    "box",
]

MOST_SHOWN = 20  # parameters in a notebook's table: more would fill the page
# Points as users give them: an array (n, D), a dict, or dicts.
Points: TypeAlias = ArrayLike | Mapping[str, Any] | Sequence[Mapping[str, Any]]
SLACK = 1e-9  # a float may be outside by so much of its range, through rounding: it is clipped


class Space:
    """Named parameters in a fixed order: `Space(x=Float(0, 1), n=Int(1, 9))`, or from a mapping.

    parameters: the parameters by name, read-only.
    dims: D, the number of parameters.
    named: whether an objective takes dicts. It is False for a space made by `box`; there an
        objective takes arrays.

    `lower`, `upper`, `free`, `levels` and `categorical` are read-only arrays; see the table above.
    """

    named: bool = True

    def __init__(
        self, parameters: Mapping[str, Parameter] | None = None, /, **more: Parameter
    ) -> None:
        every = _merged({} if parameters is None else parameters, more)
        self.parameters: Final[Mapping[str, Parameter]] = MappingProxyType(every)
        self.names: Final = tuple(every)
        self.dims: Final = len(every)
        values = list(every.values())
        bounds = np.array([_ends(value) for value in values], dtype=np.float64)
        levels = np.array([value.levels for value in values], dtype=np.int64)
        unordered = np.array([isinstance(p, Categorical) and not p.ordered for p in values])
        on_log = np.array([not isinstance(p, Categorical) and p.log for p in values])
        self.lower: Final[Floats] = _frozen(bounds[:, 0].copy())
        self.upper: Final[Floats] = _frozen(bounds[:, 1].copy())
        self.free: Final[Bools] = _frozen(levels != 1)
        self.levels: Final[Ints] = _frozen(levels[self.free])
        self.categorical: Final[Bools] = _frozen(unordered[self.free])
        grids = [value.grid if isinstance(value, Float) else None for value in values]
        self._scales: Final = scales(self.lower, self.upper, levels, self.free, on_log, grids)
        self._stepped: Final = [scale for scale in self._scales if isinstance(scale, Stepped)]
        whole = np.flatnonzero([not isinstance(p, Float) for p in values])
        self._whole: Final = as_slice(whole)
        self._reach: Final = _reach(self.lower, self.upper, whole, on_log)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Space):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        inner = listed([f"{n!r}: {p}" for n, p in self.parameters.items()], show=str)
        return f"Space({{{inner}}})" if self.named else f"<box of {self.dims}: {{{inner}}}>"

    def _repr_html_(self) -> str:
        shown = dict(list(self.parameters.items())[:MOST_SHOWN])
        more = self.dims - len(shown)
        rest = {"...": f"{more} more"} if more else {}
        kind = "Space" if self.named else "box"
        return as_html(f"{kind} of {_counted(self.dims, 'parameter')}", {**shown, **rest})

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (dict(self.parameters), self.named)

    def _identity(self) -> tuple[Any, ...]:
        return self.named, self.names, tuple(self.parameters.values())

    def check(self, X: ArrayLike) -> Floats:
        """X as a new (n, D) array. A point that is not of this space is an error."""
        given = _numbers(without_masked(X), "X")  # a masked coordinate is none
        if given.shape == (self.dims,):
            raise ValueError(
                f"X has shape {given.shape}, expected (n, {self.dims}); "
                f"if it is a single point, give X[None, :]"
            )
        if given.ndim != 2 or given.shape[1] != self.dims:
            raise ValueError(
                f"X has shape {given.shape}, expected (n, {self.dims}): one row a point, "
                f"one column a parameter, also for those that are fixed"
            )
        points = np.empty(given.shape)
        least, most = self._reach
        for rows in blocks(given.shape):
            part = given[rows]
            bad = ~((part >= least) & (part <= most))  # true for NaN as well
            whole = part[:, self._whole]
            bad[:, self._whole] |= whole != np.rint(whole)
            for steps in self._stepped:
                bad[:, steps.of_x] |= ~steps.grid.has(part[:, steps.of_x])
            if bad.any():
                i, d = (int(k) for k in np.argwhere(bad)[0])
                raise ValueError(self._complaint(rows.start + i, d, float(part[i, d])))
            np.clip(part, self.lower, self.upper, out=points[rows])
            for steps in self._stepped:  # rounded to the step itself
                points[rows, steps.of_x] = steps.grid.nearest(part[:, steps.of_x])
        return points

    def to_unit(self, X: ArrayLike) -> Floats:
        """The points X (n, D) as T (n, F) in [0, 1]."""
        points = self.check(X)
        T = np.empty((len(points), self.levels.size))
        for rows in blocks(points.shape):
            for scale in self._scales:
                T[rows, scale.of_t] = scale.to_unit(points[rows, scale.of_x])
        return np.clip(T, 0.0, 1.0, out=T)

    def from_unit(self, T: ArrayLike) -> Floats:
        """The points T (n, F), clipped to [0, 1], as X (n, D); of discrete ones the slot counts."""
        unit = self._clipped(T)
        X = np.tile(self.lower, (len(unit), 1))
        for rows in blocks(X.shape):
            for scale in self._scales:
                X[rows, scale.of_x] = scale.from_unit(unit[rows, scale.of_t])
        return X

    def snap(self, T: ArrayLike) -> Floats:
        """T (n, F) clipped to [0, 1], discrete parameters moved to the middle of their slots."""
        unit = self._clipped(T)
        for rows in blocks(unit.shape):
            for scale in self._scales:
                if scale.discrete:
                    values = scale.from_unit(unit[rows, scale.of_t])
                    unit[rows, scale.of_t] = scale.to_unit(values)
        return unit

    def to_dicts(self, X: ArrayLike) -> list[dict[str, Any]]:
        """The points X (n, D) as dicts, with Python floats, ints and the choices themselves."""
        points = self.check(X)
        columns = [
            _native(parameter, points[:, d]) for d, parameter in enumerate(self.parameters.values())
        ]
        return [dict(zip(self.names, row, strict=True)) for row in zip(*columns, strict=True)]

    def from_dicts(self, rows: Iterable[Mapping[str, Any]]) -> Floats:
        """Points X (n, D) from dicts. Each dict has all the parameters and no others."""
        if isinstance(rows, Mapping):
            raise TypeError("rows is one mapping; give a list of them, [row]")
        points = []
        for i, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise TypeError(
                    f"row {i} is {shown(row)}, not a mapping from names to values; give a dict"
                )
            if row.keys() != self.parameters.keys():
                raise ValueError(f"row {i}: {self._complaint_of_names(row)}")
            points.append([_entry(i, n, p, row[n]) for n, p in self.parameters.items()])
        return self.check(np.array(points, dtype=np.float64).reshape(len(points), self.dims))

    def points(self, given: Points) -> Floats:
        """X (n, D) from an array (n, D), from one dict, or from a list of dicts."""
        if isinstance(given, Mapping):
            return self.from_dicts([given])
        dicts = isinstance(given, list | tuple) and any(isinstance(p, Mapping) for p in given)
        return self.from_dicts(given) if dicts else self.check(given)  # type: ignore[arg-type]

    def _clipped(self, T: ArrayLike) -> Floats:
        """T as a new array within [0, 1]."""
        given = _numbers(T, "T")
        dims = self.levels.size
        if given.ndim != 2 or given.shape[1] != dims:
            raise ValueError(
                f"T has shape {given.shape}, expected (n, {dims}): one row a point, "
                f"one column a free parameter"
            )
        finite = np.isfinite(given)
        if not finite.all():
            i, f = np.argwhere(~finite)[0]
            name = self.names[np.flatnonzero(self.free)[f]]
            raise ValueError(
                f"row {i} of T, parameter {name!r}: {given[i, f]} is not finite; drop the point"
            )
        unit: Floats = np.clip(given, 0.0, 1.0, dtype=np.float64)
        return unit

    def _complaint(self, i: int, d: int, value: float) -> str:
        """What to say of a value that its parameter does not have."""
        parameter = self.parameters[self.names[d]]
        where = f"row {i}, parameter {self.names[d]!r}: {value!r}"
        if not math.isfinite(value):
            return f"{where} is not finite; drop the point or repair it"
        if isinstance(parameter, Categorical):
            return (
                f"{where} is not the index of a choice; give a whole number from 0 to "
                f"{parameter.levels - 1}, for {listed(parameter.choices)}, or use from_dicts"
            )
        if parameter.low == parameter.high:
            return f"{where} is not {parameter.low}, to which it is fixed; give that, or widen it"
        grid = parameter.grid if isinstance(parameter, Float) else None
        if not parameter.low <= value <= parameter.high:
            ends = "" if grid is None else f", where the steps of {parameter} end"
            return (
                f"{where} is outside [{parameter.low}, {parameter.high}]{ends}; "
                f"clip it, or widen the parameter"
            )
        if grid is not None:
            return (
                f"{where} is not a step of {parameter}; round it to {float(grid.nearest(value))}, "
                f"or leave step out"
            )
        return f"{where} is not whole, but the parameter is {parameter}; round it, or use Float"

    def _complaint_of_names(self, row: Mapping[Any, Any]) -> str:
        """What to say of a row whose names are not those of the parameters."""
        missing = [name for name in self.names if name not in row]
        for name in row:
            if name not in self.parameters:
                close = difflib.get_close_matches(str(name), missing or self.names, n=1)
                hint = f"did you mean {close[0]!r}?" if close else "leave it out."
                return f"unknown name {shown(name)}, {hint} The names are {listed(self.names)}"
        return f"no value for {listed(missing)}; give all of {listed(self.names)}"


def box(lower: ArrayLike, upper: ArrayLike, names: Sequence[str] | None = None) -> Space:
    """The box [lower, upper] of floats. Its objective takes arrays.

    names: those of the parameters; x0, x1, ... if they are left out.
    """
    low, high = _numbers(lower, "lower"), _numbers(upper, "upper")
    if low.ndim != 1 or low.size == 0 or low.shape != high.shape:
        raise ValueError(
            f"lower has shape {low.shape} and upper {high.shape}; give two vectors of the same "
            f"length, at least 1, such as [0.0] * 3 and [1.0] * 3"
        )
    if names is None:
        names = [f"x{d}" for d in range(low.size)]
    elif isinstance(names, str) or len(names) != low.size or len(set(names)) != low.size:
        raise ValueError(
            f"names are {shown(names)} for {low.size} dimensions; give one for each, all different"
        )
    parameters = {}
    for d, name in enumerate(names):
        try:
            parameters[name] = Float(low[d], high[d])
        except ValueError as error:
            raise ValueError(f"dimension {d}, {name!r}: {error}") from None
    return _rebuilt(parameters, named=False)


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"


def _rebuilt(parameters: Mapping[str, Parameter], named: bool) -> Space:
    space = Space(parameters)
    space.named = named
    return space


def _merged(given: Mapping[str, Parameter], more: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """All parameters, checked."""
    if not isinstance(given, Mapping):
        raise TypeError(
            f"parameters are {shown(given)}; give a mapping such as {{'x': Float(0, 1)}}"
        )
    twice = [name for name in more if name in given]
    if twice:
        raise ValueError(f"parameter {twice[0]!r} is given twice; leave one of them out")
    every = {**given, **more}
    if not every:
        raise ValueError("the space has no parameters; give at least one, such as x=Float(0, 1)")
    for name, parameter in every.items():
        if not isinstance(name, str):
            raise TypeError(f"the name {shown(name)} is not a string; give {str(name)!r}")
        if not name:
            raise ValueError(f"the name of {parameter} is empty; give it a name")
        if not isinstance(parameter, Parameter):
            raise TypeError(
                f"parameter {name!r} is {shown(parameter)}; "
                f"give Float(low, high), Int(low, high) or Categorical(choices)"
            )
    return every


def _ends(parameter: Parameter) -> tuple[float, float]:
    if isinstance(parameter, Categorical):
        return 0.0, parameter.levels - 1.0
    return parameter.low, parameter.high


def _reach(lower: Floats, upper: Floats, whole: Ints, log: Bools) -> tuple[Floats, Floats]:
    """The bounds with the slack of floats, on a log scale in proportion to the bound."""
    slack = SLACK * (upper - lower)
    slack[whole] = 0.0
    below = np.where(log, np.minimum(slack, SLACK * lower), slack)
    largest = np.finfo(np.float64).max
    with np.errstate(over="ignore"):
        return np.maximum(lower - below, -largest), np.minimum(upper + slack, largest)


def _native(parameter: Parameter, column: Floats) -> list[Any]:
    """One column of X as what the user knows it by."""
    values: list[Any] = column.astype(float if isinstance(parameter, Float) else int).tolist()
    if isinstance(parameter, Categorical):
        return [parameter.choices[i] for i in values]
    return values


def _entry(i: int, name: str, parameter: Parameter, value: object) -> float:
    """One value of a dict as its entry in X."""
    try:
        return parameter.index(value) if isinstance(parameter, Categorical) else number(value)
    except (TypeError, ValueError) as error:
        wanted = "" if isinstance(parameter, Categorical) else f" within {parameter}"
        raise type(error)(f"row {i}, parameter {name!r}: {error}{wanted}") from None


def _numbers(given: ArrayLike, name: str) -> NDArray[Any]:
    """An array of real numbers, not of bools, strings or objects."""
    try:
        values = np.asarray(given)
    except ValueError:
        raise ValueError(f"{name} is not an array: its rows have different lengths") from None
    if values.dtype.kind not in "fiu":
        raise TypeError(
            f"{name} has dtype {values.dtype}, which is not of numbers; give an array of floats "
            f"(Space.from_dicts makes one of dicts)"
        )
    return values


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
