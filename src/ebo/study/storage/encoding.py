"""What a study holds as what SQLite stores, and back: arrays, rows, JSON."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebo.arrays import Floats, Ints
from ebo.learning.base import Structure
from ebo.optimizer import State
from ebo.study.storage.trial import ENDS, Evaluation, Trial, TrialState
from ebo.tilegp.smooth import Smooth

CHUNK = 10_000  # rows read at a time: megabytes, whatever the size of the file


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


def finish_row(id: int, evaluation: Evaluation) -> tuple[Any, ...]:
    """The parameters of the statement in `SQLiteStorage.finish`."""
    e = evaluation
    error = e.error.encode("utf-8", "replace").decode()  # SQLite takes no lone surrogates
    return (
        e.state.value,
        float(e.value),  # SQLite makes NULL of NaN
        float_or_none(e.started),
        float_or_none(e.finished),
        None if e.attempts is None else int(e.attempts),
        error or None,
        id,
    )


def state_row(state: State) -> tuple[Any, ...]:
    """The columns of the table `state`: asked, z, density, ..., lower, upper."""
    s = state.structure
    if s is None:
        if state.leaves is not None:
            raise ValueError("a state with leaves has a structure too")
        return int(state.asked), *[None] * 10
    free = len(s.z)
    fits = s.density.shape == (free,) and s.together.shape == (free, free)
    smooth: list[Any] = [None, None, None]
    if s.smooth is not None:
        fits = fits and s.smooth.rates.shape == (free,)
        smooth = [pack(s.smooth.rates, "<f8"), float(s.smooth.share), float(s.smooth.noise)]
    fits = fits and (s.pair is None or s.pair.shape == (2, free))
    if not fits:
        raise ValueError("the arrays of a structure do not fit each other")
    return (
        int(state.asked),
        pack(s.z, "<i8"),
        pack(s.density, "<f8"),
        float(s.noise),
        pack(s.together, "<f8"),
        *smooth,
        None if s.pair is None else pack(s.pair, "<f8"),
        *([None, None] if state.leaves is None else [pack(box, "<f8") for box in state.leaves]),
    )


def read_state(
    asked: int,
    z: bytes | None,
    density: bytes,
    noise: float,
    together: bytes,
    rates: bytes | None,
    share: float | None,
    smooth_noise: float | None,
    pair: bytes | None,
    lower: bytes | None,
    upper: bytes | None,
) -> State:
    """The inverse of `state_row`; what does not fit is a ValueError or TypeError."""
    if not isinstance(asked, int) or asked < 0:
        raise ValueError("asked")
    if z is None:
        return State(asked)
    groups, widths = unpack(z, "<i8"), unpack(density, "<f8")
    free = len(groups)
    if len(widths) != free:
        raise ValueError("density")
    structure = Structure(
        groups,
        widths,
        float(noise),
        unpack(together, "<f8").reshape(free, free),
        _read_smooth(free, rates, share, smooth_noise),
        None if pair is None else unpack(pair, "<f8").reshape(2, free),
    )
    if lower is None or upper is None:
        return State(asked, structure)
    low, high = unpack(lower, "<f8").reshape(-1, free), unpack(upper, "<f8").reshape(-1, free)
    if low.shape != high.shape:
        raise ValueError("leaves")
    return State(asked, structure, (low, high))


def _read_smooth(
    free: int, rates: bytes | None, share: float | None, noise: float | None
) -> Smooth | None:
    if rates is None and share is None and noise is None:
        return None
    if rates is None or share is None or noise is None:
        raise ValueError("a part of the smooth part")
    numbers = unpack(rates, "<f8")
    sound = len(numbers) == free and np.all((numbers > 0) & np.isfinite(numbers))
    if not (sound and 0 < share < 1 and 0 < noise < np.inf):
        raise ValueError("smooth")
    return Smooth(float(share), numbers, float(noise))


def read_trial(
    id: int,
    batch: int | None,
    x: bytes,
    state: int,
    value: float | None,
    started: float | None,
    finished: float | None,
    attempts: int,
    error: str | None,
    *,
    dims: int,
) -> Trial:
    """A row of the view `trials`."""
    return Trial(
        id,
        None if batch is None else int(batch),
        joined([x], dims)[0],
        TrialState(state),
        float_or_none(value),
        float_or_none(started),
        float_or_none(finished),
        int(attempts),
        None if error is None else str(error),
    )


def read_trials(db: sqlite3.Connection, n: int, dims: int) -> dict[str, NDArray[Any]]:
    """The n trials by column; each must have one state and one only."""
    if db.execute("SELECT count(*), coalesce(min(id), 0) FROM points").fetchone() != (n, 0):
        raise ValueError("ids")
    X, batch, at = np.empty((n, dims)), np.empty(n, dtype=np.int64), 0
    for batches, blobs in chunks(db, "SELECT batch, x FROM points"):
        rows = slice(at, at + len(blobs))
        X[rows] = joined(blobs, dims)
        batch[rows] = [-1 if b is None else b for b in batches]
        at += len(blobs)
    state, attempts = np.full(n, -1, dtype=np.int8), np.zeros(n, dtype=np.int64)
    value, started, finished = (np.full(n, np.nan) for _ in range(3))
    for columns in chunks(db, "SELECT id, state, value, started, finished, attempts FROM results"):
        at_rows = _rows(columns[0], state)
        state[at_rows] = columns[1]
        value[at_rows], started[at_rows] = floats(columns[2]), floats(columns[3])
        finished[at_rows], attempts[at_rows] = floats(columns[4]), columns[5]
    if not np.isin(state, [-1, *ENDS]).all():
        raise ValueError("state")
    for columns in chunks(db, "SELECT id, started IS NOT NULL, started, attempts FROM open"):
        at_rows = _rows(columns[0], state)
        state[at_rows], attempts[at_rows] = columns[1], columns[3]
        started[at_rows] = floats(columns[2])
    if (state == -1).any():
        raise ValueError("trials without a state")
    return {
        "id": np.arange(n),
        "batch": batch,
        "state": state,
        "value": value,
        "started": started,
        "finished": finished,
        "attempts": attempts,
        "X": X,
    }


def _rows(ids: Sequence[int], state: NDArray[np.int8]) -> Ints:
    """Ids as rows, which must be there and must not have a state yet."""
    rows = np.array(ids, dtype=np.int64)
    if rows.min() < 0 or rows.max() >= len(state) or (state[rows] != -1).any():
        raise ValueError("ids")
    return rows


def to_json(value: Mapping[str, Any]) -> str:
    """A mapping as JSON, with NumPy's numbers and arrays as Python's own."""

    def plain(item: Any) -> Any:
        if isinstance(item, np.generic | np.ndarray):
            return item.tolist()
        raise TypeError(f"{item!r} ({type(item).__name__}) does not fit JSON")

    return json.dumps(dict(value), default=plain)
