"""Observations in CSV files: a column for each parameter, `value`, and perhaps `id` and others.

A file is read whole before anything is done with it. All mistakes are reported by line, the first
few in full; then nothing is taken in.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from ebo.arrays import Floats
from ebo.space import Space
from ebo.space.parameters import Categorical, Float, Int, Parameter
from ebo.study.storage.trial import TrialState

SHOWN = 10  # mistakes shown in full
MOST_COLUMNS = 10_000
COLUMNS = ("id", "batch", "state", "value", "started", "finished", "attempts", "error")
UNFINISHED = tuple(str(state) for state in TrialState if not state.finished)
DELIMITERS = {";": "semicolons (;)", "\t": "tabs", "|": "bars (|)"}  # of other programs
FAILED = ("", "nan", "none", "failed")  # of a value, in any case
# How a cell begins that spreadsheets run, the last four as wide characters.
RUN = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class TableError(ValueError):
    """A CSV file that cannot be used; the message lists the lines."""


def table_of(columns: Mapping[str, NDArray[Any]], space: Space) -> dict[str, NDArray[Any]]:
    """The columns of a storage as people read them: states by name, a column each parameter."""
    names = np.array([str(state) for state in TrialState], dtype=object)
    table = dated({name: column for name, column in columns.items() if name != "X"})
    table["state"] = names[columns["state"]]
    for d, (name, parameter) in enumerate(space.parameters.items()):
        column = columns["X"][:, d]
        if isinstance(parameter, Categorical):
            kinds = np.empty(parameter.levels, dtype=object)
            kinds[:] = parameter.choices
            column = kinds[column.astype(np.int64)]
        elif isinstance(parameter, Int):
            column = column.astype(np.int64)
        table[name] = column
    return table


def read_csv(path: Path, space: Space) -> tuple[Floats, Floats]:
    """Points (n, D) and values (n,) of a CSV file; an empty value, or nan, is a failure."""
    rows = read_rows(path, (*space.names, "value"))
    mistakes: list[str] = []
    points, values = [], []
    for line, row in rows:
        if row.get("state") in UNFINISHED:  # as in a file that was exported
            continue
        x = [
            _entry(line, name, parameter, row[name], mistakes)
            for name, parameter in space.parameters.items()
        ]
        points.append(x)
        values.append(value_of(line, row["value"], mistakes))
    complain(path, mistakes)
    X = np.array(points, dtype=np.float64).reshape(len(points), space.dims)
    return space.check(X), np.array(values, dtype=np.float64)


def read_values(path: Path) -> tuple[dict[int, float], dict[int, int]]:
    """Values by number, of a CSV file with columns `id` and `value`, and the lines they are in.

    Empty ones are left out.
    """
    mistakes: list[str] = []
    values: dict[int, float] = {}
    lines: dict[int, int] = {}
    for line, row in read_rows(path, ("id", "value")):
        if not row["value"].strip():
            continue
        value = value_of(line, row["value"], mistakes)
        try:
            number = int(row["id"])
        except ValueError:
            mistakes.append(f"line {line}: id is {row['id'][:40]!r}; give a whole number")
            continue
        if number in values:
            mistakes.append(f"line {line}: id {number} is there twice")
        values[number], lines[number] = value, line
    complain(path, mistakes)
    return values, lines


def read_rows(path: Path, needed: tuple[str, ...]) -> list[tuple[int, Mapping[str, str]]]:
    """The rows with their lines, after checking the header for the columns that are needed."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            header = [name.strip() for name in next(reader, [])]
            _check_header(path, header, needed)
            rows: list[tuple[int, Mapping[str, str]]] = []
            for fields in reader:
                if not fields:
                    continue
                if len(fields) != len(header):
                    raise TableError(
                        f"{path}, line {reader.line_num}: {len(fields)} fields for "
                        f"{len(header)} columns"
                    )
                rows.append((reader.line_num, dict(zip(header, fields, strict=True))))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TableError(f"{path}: {error}") from None
    if not rows:
        raise TableError(f"{path} has no rows below its header")
    return rows


def write_rows(
    file: TextIO, table: Mapping[str, NDArray[Any]], space: Space, *, spreadsheet: bool = False
) -> int:
    """Write columns that `read_csv` can read again; returns the number of rows.

    spreadsheet: put an apostrophe before text that a spreadsheet would run. `read_csv` keeps it.
    """
    columns = {name: iso_times(c) if c.dtype.kind == "M" else c for name, c in table.items()}
    for name, parameter in space.parameters.items():
        if isinstance(parameter, Categorical):
            columns[name] = np.array([str(choice) for choice in columns[name]], dtype=object)
    writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    if not spreadsheet:
        writer.writerow(columns)
        writer.writerows(rows)
    else:
        writer.writerow([_inert(name) for name in columns])
        writer.writerows([_inert(cell) for cell in row] for row in rows)
    return len(columns["id"])


def _inert(cell: Any) -> Any:
    """A cell that no spreadsheet runs; a number stays one, also where it is text."""
    if isinstance(cell, str) and cell.startswith(RUN) and not NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


def iso_time(seconds: float | None) -> str | None:
    """A time as ISO 8601 in UTC, None as it is; also for those that no calendar has."""
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(seconds)


def dates(seconds: Floats) -> NDArray[np.datetime64]:
    """Seconds since 1970 as datetime64; NaT for none, and for those that no calendar has."""
    milliseconds = np.rint(1e3 * seconds)
    known = np.abs(milliseconds) < 1e14  # in 3,000 years
    dates = np.full(len(seconds), np.datetime64("NaT", "ms"))
    dates[known] = milliseconds[known].astype(np.int64).astype("datetime64[ms]")
    return dates


def dated(columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Columns with their times as dates."""
    return {**columns, **{key: dates(columns[key]) for key in ("started", "finished")}}


def iso_times(times: NDArray[np.datetime64]) -> NDArray[Any]:
    """Dates as texts, in UTC; empty where there is none."""
    return np.where(np.isnat(times), "", np.datetime_as_string(times, timezone="UTC"))


def check_names(space: Space) -> None:
    """Refuse what a table of trials could not tell apart."""
    for name, parameter in space.parameters.items():
        if name in COLUMNS:
            raise ValueError(
                f"a parameter of a study cannot be called {name!r}, as a column of its trials is; "
                f"give it another name"
            )
        if isinstance(parameter, Categorical):
            texts = [str(choice) for choice in parameter.choices]
            if len(set(texts)) < len(texts):
                raise ValueError(
                    f"parameter {name!r}: two choices of {list(parameter.choices)} look the same "
                    f"as text, so that a CSV file could not tell them apart; rename one"
                )


def value_of(line: int, text: str, mistakes: list[str]) -> float:
    """A value of the objective; what is empty, nan or not finite has failed."""
    stripped = text.strip()
    if stripped.lower() in FAILED:
        return math.nan
    try:
        return float(stripped)
    except ValueError:
        mistakes.append(f"line {line}: value is {text[:40]!r}; give a number, or nan if it failed")
        return math.nan


def complain(path: Path, mistakes: list[str]) -> None:
    """Raise if there are mistakes."""
    if mistakes:
        raise TableError(f"{path}: nothing was taken in, because of\n{first_of(mistakes)}")


def first_of(lines: Sequence[str]) -> str:
    """The first few lines, and how many more there are."""
    more = f"\n... and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    return "\n".join(lines[:SHOWN]) + more


def _check_header(path: Path, header: list[str], needed: tuple[str, ...]) -> None:
    if len(header) > MOST_COLUMNS:
        raise TableError(f"{path} has {len(header)} columns; at most {MOST_COLUMNS} are read")
    missing = [name for name in needed if name not in header]
    found = next((mark for mark in DELIMITERS if len(header) == 1 and mark in header[0]), None)
    if missing and found is not None:
        raise TableError(
            f"{path}: the columns are separated by {DELIMITERS[found]}; save it with commas (,) "
            f"between them, and points (.) in numbers"
        )
    if missing:
        raise TableError(
            f"{path}: line 1 lacks the column{'s' * (len(missing) > 1)} "
            f"{', '.join(map(repr, missing[:SHOWN]))}; it has {', '.join(header[:SHOWN]) or 'none'}"
        )
    repeated = {name for name in needed if header.count(name) > 1}
    if repeated:
        raise TableError(f"{path}: line 1 has the column {sorted(repeated)[0]!r} more than once")


def _entry(line: int, name: str, parameter: Parameter, text: str, mistakes: list[str]) -> float:
    """One parameter of a row as a number of X; a mistake is noted and gives NaN."""
    if isinstance(parameter, Categorical):
        for index, choice in enumerate(parameter.choices):
            if text == str(choice):
                return float(index)
        mistakes.append(
            f"line {line}: {name} is {text[:40]!r}; give one of "
            f"{', '.join(str(choice) for choice in parameter.choices[:SHOWN])}"
        )
        return math.nan
    return _number(line, name, parameter, text, mistakes)


def _number(line: int, name: str, parameter: Float | Int, text: str, mistakes: list[str]) -> float:
    try:
        value = float(text)
    except ValueError:
        mistakes.append(f"line {line}: {name} is {text[:40]!r}; give a number")
        return math.nan
    slack = 1e-9 * (parameter.high - parameter.low) if isinstance(parameter, Float) else 0.0
    if not parameter.low - slack <= value <= parameter.high + slack:
        mistakes.append(
            f"line {line}: {name} is {text[:40]}, outside [{parameter.low}, {parameter.high}]"
        )
        return math.nan
    grid = parameter.grid if isinstance(parameter, Float) else None
    if grid is not None and not grid.has(value):
        mistakes.append(
            f"line {line}: {name} is {text[:40]}, which is not a step of {parameter}; give "
            f"{float(grid.nearest(value))}"
        )
        return math.nan
    if isinstance(parameter, Int) and value != math.floor(value):
        mistakes.append(f"line {line}: {name} is {text[:40]}; give a whole number")
        return math.nan
    return value
