"""What a study holds as what SQLite stores, and back: arrays, ids, rows, JSON."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebo.arrays import Floats
from ebo.learning.base import Structure
from ebo.optimizer import State
from ebo.study.storage.file import StudyError
from ebo.study.trial import Finish, TrialState
from ebo.tilegp.smooth import Smooth

CHUNK = 10_000  # rows read at a time


def pack(array: ArrayLike, dtype: str) -> bytes:
    """Numbers as a BLOB."""
    return np.ascontiguousarray(array, dtype=dtype).tobytes()


def unpack(blob: bytes, dtype: str) -> NDArray[Any]:
    """A BLOB as a vector of the machine's own numbers."""
    if not isinstance(blob, bytes):
        raise TypeError("not an array")
    values = np.frombuffer(blob, dtype=dtype)
    return values.astype(values.dtype.newbyteorder("="))


def joined(blobs: Sequence[bytes], dims: int) -> Floats:
    """Rows of D float64 as (n, D)."""
    if any(len(blob) != 8 * dims for blob in blobs):
        raise ValueError("a point of another length")
    return unpack(b"".join(blobs), "<f8").reshape(len(blobs), dims)


def floats(values: Sequence[float | None]) -> Floats:
    """Numbers of a column, NaN for None."""
    return np.array(values, dtype=np.float64)


def float_or_none(value: float | None) -> float | None:
    """A number as a float, None as it is."""
    return None if value is None else float(value)


def chunks(db: sqlite3.Connection, query: str) -> Iterator[tuple[Sequence[Any], ...]]:
    """The columns of the rows of a table in the order of their ids, some thousand at a time."""
    cursor = db.execute(f"{query} ORDER BY id")
    while rows := cursor.fetchmany(CHUNK):
        yield tuple(zip(*rows, strict=True))


def whole_ids(ids: ArrayLike) -> list[int]:
    """Ids as ints; what is not whole is an error."""
    array = np.atleast_1d(np.asarray(ids))
    if array.size and (array.dtype.kind != "i" or array.ndim != 1):
        raise StudyError(f"ids are {ids!r}; give whole numbers")
    return [int(i) for i in array]


def finish_row(finish: Finish) -> tuple[Any, ...]:
    """The parameters of the statement in `Store.finish`."""
    (i,), state, value = whole_ids([finish.id]), TrialState(finish.state), finish.value
    if not state.finished:
        raise ValueError(f"trial {i} cannot end as {state}")
    if state is TrialState.DONE and (value is None or not np.isfinite(value)):
        raise ValueError(f"trial {i} is done with the value {value!r}; give a finite one")
    kept = float(value) if state is TrialState.DONE and value is not None else None
    error = finish.error
    if error:
        error = str(error).encode("utf-8", "replace").decode()  # SQLite takes no lone surrogates
    times = float_or_none(finish.started), float_or_none(finish.finished)
    attempts = None if finish.attempts is None else int(finish.attempts)
    return state.value, kept, *times, attempts, error or None, i


def state_row(state: State) -> tuple[Any, ...]:
    """asked, z, density, noise, together, lower, upper.

    Where there is a smooth part, its rates, share and noise come after the density; where there is
    a pair that probes are made of, it comes after `together`.
    """
    s = state.structure
    if s is None:
        if state.leaves is not None:
            raise ValueError("a state with leaves has a structure too")
        return int(state.asked), None, None, None, None, None, None
    free = len(s.z)
    boxes = [None, None] if state.leaves is None else [pack(b, "<f8") for b in state.leaves]
    density, together = pack(s.density, "<f8"), pack(s.together, "<f8")
    fits = len(density) == 8 * free and len(together) == 8 * free * free
    if s.smooth is not None:
        fits = fits and len(s.smooth.rates) == free
        density += pack(np.append(s.smooth.rates, [s.smooth.share, s.smooth.noise]), "<f8")
    if s.pair is not None:
        fits = fits and s.pair.shape == (2, free)
        together += pack(s.pair, "<f8")
    if not fits:
        raise ValueError("the arrays of a structure do not fit each other")
    return int(state.asked), pack(s.z, "<i8"), density, float(s.noise), together, *boxes


def _read_smooth(numbers: Floats) -> Smooth | None:
    """Rates, share and noise, or nothing."""
    if not len(numbers):
        return None
    rates, (share, noise) = numbers[:-2], numbers[-2:].tolist()
    if not (np.all((rates > 0) & np.isfinite(rates)) and 0 < share < 1 and 0 < noise < np.inf):
        raise ValueError("smooth")
    return Smooth(share, rates, noise)


def read_state(
    asked: int,
    z: bytes | None,
    density: bytes,
    noise: float,
    together: bytes,
    lower: bytes | None,
    upper: bytes | None,
) -> State:
    """The inverse of `state_row`; what does not fit is a ValueError or TypeError."""
    if not isinstance(asked, int) or asked < 0:
        raise ValueError("asked")
    if z is None:
        return State(asked)
    groups = unpack(z, "<i8")
    free = len(groups)
    widths, smooth = np.split(unpack(density, "<f8"), [free])
    if len(widths) != free or len(smooth) not in (0, free + 2):
        raise ValueError("density")
    counted, pair = np.split(unpack(together, "<f8"), [free * free])
    if len(counted) != free * free or len(pair) not in (0, 2 * free):
        raise ValueError("together")
    structure = Structure(
        groups,
        widths,
        float(noise),
        counted.reshape(free, free),
        _read_smooth(smooth),
        pair.reshape(2, free) if len(pair) else None,
    )
    if lower is None or upper is None:
        return State(asked, structure)
    low, high = unpack(lower, "<f8").reshape(-1, free), unpack(upper, "<f8").reshape(-1, free)
    if low.shape != high.shape:
        raise ValueError("leaves")
    return State(asked, structure, (low, high))


def to_json(value: Mapping[str, Any]) -> str:
    """A mapping as JSON, with NumPy's numbers and arrays as Python's own."""

    def plain(item: Any) -> Any:
        if isinstance(item, np.generic | np.ndarray):
            return item.tolist()
        raise TypeError(f"{item!r} ({type(item).__name__}) does not fit JSON")

    return json.dumps(value, default=plain)
