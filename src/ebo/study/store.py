"""The file of a study: every point, every evaluation, and what the optimiser needs to go on.

One SQLite file, one writer (`lock.py`), one transaction for every call that writes. Nothing in it
is executable: numbers, text, JSON, and arrays as little-endian BLOBs whose lengths are checked. A
row is written once and never grows; what is still open is a small table of its own. So a batch
costs the same in a study of a million trials as in an empty one, and that an evaluation is there
once is a primary key.

============  =====================================================================================
table         a row
============  =====================================================================================
`meta`        the one: D, and the caller's JSON (space, direction, settings, seed, ...)
`points`      a trial's point x, D float64; `batch` numbers the ask, NULL where not asked for
`open`        a trial that is waiting, or running since `started`; `attempts` counts its starts
`results`     a finished trial: state, value (NULL unless done), times, attempts, error
`iterations`  an ask: what it tells (JSON), and the z, density and noise that it learned
`state`       the one: `optimizer.State`, replaced together with the batch that it belongs to
`trials`      a view for people with an SQLite shell: points, open and results together
============  =====================================================================================

Trials are numbered from 0 without gaps: a trial's id is its row in `trials()`. The file's header
has `application_id`, which tells a study from other SQLite files, and `user_version`, the schema.

**What may be lost.** Nothing that a call has returned from. Against a killed process (also kill -9)
any setting would do, since the operating system has the writes already. Against a power cut
`synchronous=FULL` waits for the disk at every commit, some 0.3 to 10 ms; NORMAL would keep the file
sound, but lose the last seconds. Evaluations are dear and that is cheap, so it is FULL.

**Reading while a run writes.** WAL: readers see the last commit, and neither waits for the other.
A reader takes no lock of ours. Beside the file there are `-wal` and `-shm` while it is open and
after a crash: they are part of the study, to be copied with it. WAL needs a local file system.

A connection must not cross a fork: a forked process that uses the store is refused.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from types import TracebackType
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebo.learn import Structure
from ebo.optimizer import State
from ebo.study.lock import HeldError, Lock

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

APPLICATION_ID = 0x65626F31  # "ebo1"
SCHEMA = 1
PAGE_SIZE = 8192  # bytes; rows of some hundred parameters still share a page
WAL_LIMIT = 2**24  # bytes of the -wal file that are kept for use again
CHECKED_SIZE = 2**25  # bytes; files up to it are checked for damage whenever they are opened
LONGEST = 2**28  # bytes of one value: a damaged or hostile file cannot ask for more memory
BUSY = 10.0  # seconds to wait for another program that has the file open
CHUNK = 10_000  # rows read at a time

TABLES = {
    "meta": "CREATE TABLE meta (id INTEGER PRIMARY KEY, dims INTEGER NOT NULL, json TEXT NOT NULL)",
    "points": "CREATE TABLE points (id INTEGER PRIMARY KEY, batch INTEGER, x BLOB NOT NULL)",
    "open": "CREATE TABLE open (id INTEGER PRIMARY KEY, started REAL, attempts INTEGER NOT NULL)",
    "results": "CREATE TABLE results (id INTEGER PRIMARY KEY, state INTEGER NOT NULL, value REAL, "
    "started REAL, finished REAL, attempts INTEGER NOT NULL, error TEXT)",
    "iterations": "CREATE TABLE iterations (batch INTEGER PRIMARY KEY, info TEXT NOT NULL, "
    "z BLOB, density BLOB, noise REAL)",
    "state": "CREATE TABLE state (id INTEGER PRIMARY KEY, asked INTEGER NOT NULL, z BLOB, "
    "density BLOB, noise REAL, together BLOB, lower BLOB, upper BLOB)",
    "trials": "CREATE VIEW trials AS SELECT points.id, batch, "
    "coalesce(state, open.started IS NOT NULL) AS state, value, "
    "coalesce(results.started, open.started) AS started, finished, "
    "coalesce(results.attempts, open.attempts) AS attempts, error, x FROM points "
    "LEFT JOIN results ON results.id = points.id LEFT JOIN open ON open.id = points.id",
}


class TrialState(IntEnum):
    """What has become of a trial; the numbers are those in the file."""

    WAITING = 0
    RUNNING = 1
    DONE = 2
    FAILED = 3
    TIMED_OUT = 4
    LOST = 5

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")

    @classmethod
    def of(cls, name: str) -> TrialState:
        """The state that `str` shows as `name`."""
        return cls[name.upper().replace(" ", "_")]

    @property
    def finished(self) -> bool:
        """Whether nothing more will come of it."""
        return self >= TrialState.DONE


ENDS = tuple(state for state in TrialState if state.finished)


class StudyError(Exception):
    """Something about a study that its user can understand and mend."""


class NotAStudyError(StudyError):
    """The file is something else."""


class DamagedStudyError(StudyError):
    """The file was a study once."""


class NewerStudyError(StudyError):
    """The file is of a version to come."""


class LockedStudyError(StudyError):
    """Somebody else writes."""


class Finish(NamedTuple):
    """How a trial ended.

    value: finite where `state` is done, else None. started, attempts: None for what `start` noted.
    """

    id: int
    state: TrialState
    value: float | None = None
    started: float | None = None
    finished: float | None = None
    attempts: int | None = None
    error: str | None = None


@dataclass(frozen=True)
class Trial:
    """All about one trial; times are seconds since 1970, None where there is nothing."""

    id: int
    batch: int | None
    x: Floats
    state: TrialState
    value: float | None
    started: float | None
    finished: float | None
    attempts: int
    error: str | None


class Store:
    """An open study file; from `Store.create` or `Store.open`, and closed by `close` or `with`.

    path: the file. dims: D. meta: what the caller gave to `create`. read_only: as opened. All
    threads of a process may use it.
    """

    def __init__(self, path: str, connection: sqlite3.Connection, lock: Lock | None) -> None:
        """Not to be called: use `Store.create` or `Store.open`."""
        self.path, self.read_only = path, lock is None
        self._connection: sqlite3.Connection | None = connection
        self._lock, self._pid, self._mutex = lock, os.getpid(), threading.RLock()
        _check_file(connection, path)
        with self._reading() as db:
            (self.dims, text), *more = db.execute("SELECT dims, json FROM meta").fetchall()
            self.meta: dict[str, Any] = json.loads(text)
            sound = isinstance(self.meta, dict) and isinstance(self.dims, int) and not more
            if not sound or not 1 <= self.dims <= LONGEST // 8:
                raise ValueError("meta")

    @classmethod
    def create(cls, path: str | os.PathLike[str], dims: int, meta: Mapping[str, Any]) -> Store:
        """A new study of points with `dims` coordinates, open for writing; `meta` must fit JSON.

        It is there whole or not at all, also after a crash.
        """
        if isinstance(dims, bool) or not 1 <= int(dims) <= LONGEST // 8:
            raise ValueError(f"dims is {dims!r}; give a whole number of at least 1")
        text, real = _json(dict(meta)), os.path.realpath(path)
        _refuse_existing(real)
        with _locked(real) as lock:
            _refuse_existing(real)
            try:
                for suffix in ("-wal", "-shm", "-journal"):  # left by a study deleted since: SQLite
                    with suppress(FileNotFoundError):  # would take them for the new one's
                        os.unlink(real + suffix)
                _build(f"{real}.new", int(dims), text)
                os.rename(f"{real}.new", real)
                _sync_directory(os.path.dirname(real))
            except (OSError, sqlite3.Error) as error:
                raise StudyError(f"{real} cannot be created: {error}") from error
            return cls._opened(real, lock)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, read_only: bool = False) -> Store:
        """A study that exists; for writing unless `read_only`, which works while another writes."""
        real = os.path.realpath(path)
        if not os.path.exists(real):
            raise StudyError(f"there is no study at {real}; check the name, or create it")
        if not os.path.isfile(real):
            raise NotAStudyError(f"{real} is not a file; give the file of a study")
        if read_only:
            return cls._opened(real, None)
        with _locked(real) as lock:
            return cls._opened(real, lock)

    @classmethod
    def _opened(cls, path: str, lock: Lock | None) -> Store:
        with _decoding(path):
            connection = _connect(path, "mode=rw") if lock is not None else _connect_reader(path)
            try:
                store = cls(path, connection, lock)
                if lock is not None:  # only now that it is known to be a study
                    _set_up(connection)
                return store
            except BaseException:
                connection.close()
                raise

    def close(self) -> None:
        """Close the file and let other writers in; a second time nothing happens."""
        if os.getpid() != self._pid:
            return  # SQLite forbids even closing what was opened before a fork
        with self._mutex:
            connection, self._connection = self._connection, None
            try:
                if connection is not None:
                    connection.close()
            finally:
                if self._lock is not None:
                    self._lock.release()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # What writes: each one transaction, on the disk when the call returns.

    def add_batch(self, X: ArrayLike, state: State, info: Mapping[str, Any]) -> Ints:
        """Points X (n, D) that were asked for, now waiting; their ids.

        state: of the optimiser after the ask. Its `asked` numbers the batches, from 0: each once.
        info: what the ask tells, as JSON.
        """
        points, text, row = self._points(X), _json(dict(info)), _state_row(state)
        batch = row[0] - 1
        with self._writing() as db:
            if db.execute("SELECT 1 FROM iterations WHERE batch = ?", (batch,)).fetchone():
                raise StudyError(
                    f"batch {batch} is in {self.path} already; restore the state first"
                )
            ids = self._add_points(db, points, batch)
            db.executemany("INSERT INTO open VALUES (?, NULL, 0)", ((i,) for i in ids.tolist()))
            _, z, density, noise, *_ = row
            db.execute(
                "INSERT INTO iterations VALUES (?, ?, ?, ?, ?)", (batch, text, z, density, noise)
            )
            db.execute("INSERT OR REPLACE INTO state VALUES (0, ?, ?, ?, ?, ?, ?, ?)", row)
        return ids

    def add_told(self, X: ArrayLike, values: ArrayLike, *, time: float | None = None) -> Ints:
        """Points X (n, D) with values (n,), not asked for; failed where not finite; their ids."""
        points, y = self._points(X), np.asarray(values, dtype=np.float64)
        if y.shape != (len(points),):
            raise ValueError(f"values have shape {y.shape} for {len(points)} points")
        good = np.isfinite(y)
        states = np.where(good, TrialState.DONE, TrialState.FAILED).tolist()
        stored, time = np.where(good, y, np.nan).tolist(), _number(time)  # SQLite makes NULL of NaN
        with self._writing() as db:
            ids = self._add_points(db, points, None)
            db.executemany(
                "INSERT INTO results VALUES (?, ?, ?, NULL, ?, 0, NULL)",
                ((i, s, v, time) for i, s, v in zip(ids.tolist(), states, stored, strict=True)),
            )
        return ids

    def start(self, ids: ArrayLike, time: float) -> None:
        """Note that trials run since `time`, one attempt more; those that finished are refused."""
        rows = [(float(time), i) for i in _ids(ids)]
        with self._writing() as db:
            update = "UPDATE open SET started = ?, attempts = attempts + 1 WHERE id = ?"
            if rows and db.executemany(update, rows).rowcount != len(rows):
                self._refuse(db, [i for _, i in rows])

    def finish(self, finishes: Iterable[Finish | tuple[Any, ...]]) -> Floats:
        """Note how trials ended, all or none; one that has ended before is refused. Their X."""
        rows = [_finish_row(Finish(*finish)) for finish in finishes]
        ids = [row[-1] for row in rows]
        insert = (
            "INSERT INTO results SELECT id, ?, ?, coalesce(?, started), ?, "
            "coalesce(?, attempts), ? FROM open WHERE id = ?"
        )
        with self._writing() as db:
            if len(set(ids)) < len(ids):
                self._refuse(db, ids)
            db.executemany(insert, rows)
            gone = db.executemany("DELETE FROM open WHERE id = ?", [(i,) for i in ids])
            if ids and gone.rowcount != len(ids):
                self._refuse(db, ids)
            point = "SELECT x FROM points WHERE id = ?"
            return _joined([db.execute(point, (i,)).fetchone()[0] for i in ids], self.dims)

    def reset_running(self) -> int:
        """Make running trials wait again, after a crash; how many there were."""
        with self._writing() as db:
            update = "UPDATE open SET started = NULL WHERE started IS NOT NULL"
            return db.execute(update).rowcount

    # What reads: each a snapshot of the last commit.

    def trials(self) -> dict[str, NDArray[Any]]:
        """All trials by column: id, batch (-1 for none), state, value, started, finished, attempts
        and X (n, D); numbers that are not there are NaN."""
        with self._reading() as db:
            n = self._count(db)
            if db.execute("SELECT count(*), coalesce(min(id), 0) FROM points").fetchone() != (n, 0):
                raise ValueError("ids")
            X, batch, at = np.empty((n, self.dims)), np.empty(n, dtype=np.int64), 0
            for batches, blobs in _chunks(db, "SELECT batch, x FROM points"):
                rows = slice(at, at + len(blobs))
                X[rows] = _joined(blobs, self.dims)
                batch[rows] = [-1 if b is None else b for b in batches]
                at += len(blobs)
            state, attempts = np.full(n, -1, dtype=np.int8), np.zeros(n, dtype=np.int64)
            value, started, finished = (np.full(n, np.nan) for _ in range(3))
            for columns in _chunks(
                db, "SELECT id, state, value, started, finished, attempts FROM results"
            ):
                at_rows = self._rows(columns[0], state)
                state[at_rows] = columns[1]
                value[at_rows], started[at_rows] = _floats(columns[2]), _floats(columns[3])
                finished[at_rows], attempts[at_rows] = _floats(columns[4]), columns[5]
            if not np.isin(state, [-1, *ENDS]).all():
                raise ValueError("state")
            for columns in _chunks(
                db, "SELECT id, started IS NOT NULL, started, attempts FROM open"
            ):
                at_rows = self._rows(columns[0], state)
                state[at_rows], attempts[at_rows] = columns[1], columns[3]
                started[at_rows] = _floats(columns[2])
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

    def trial(self, id: int) -> Trial:
        """One trial."""
        columns = "id, batch, x, state, value, started, finished, attempts, error"
        (wanted,) = _ids([id])
        with self._reading() as db:
            row = db.execute(f"SELECT {columns} FROM trials WHERE id = ?", (wanted,)).fetchone()
            if row is not None:
                i, batch, x, state, value, started, finished, attempts, error = row
                return Trial(
                    i,
                    None if batch is None else int(batch),
                    _joined([x], self.dims)[0],
                    TrialState(state),
                    _number(value),
                    _number(started),
                    _number(finished),
                    int(attempts),
                    None if error is None else str(error),
                )
            n = self._count(db)
        known = f"the last is {n - 1}" if n else "there are none yet"
        raise StudyError(f"there is no trial {id} in {self.path}; {known}")

    def waiting(self) -> tuple[Ints, Floats]:
        """The trials that wait to be evaluated: ids (n,), in order, and X (n, D)."""
        with self._reading() as db:
            rows = db.execute(
                "SELECT open.id, x FROM open LEFT JOIN points ON points.id = open.id "
                "WHERE started IS NULL ORDER BY open.id"
            ).fetchall()
            X = _joined([blob for _, blob in rows], self.dims)
        return np.array([i for i, _ in rows], dtype=np.int64), X

    def errors(self, ids: ArrayLike | None = None) -> dict[int, str]:
        """The errors of all trials, or of some, by id, where there are any."""
        query = "SELECT id, error FROM results WHERE error IS NOT NULL"
        wanted = None if ids is None else _ids(ids)
        with self._reading() as db:
            if wanted is None:
                return {i: str(error) for i, error in db.execute(query)}
            each = (db.execute(f"{query} AND id = ?", (i,)).fetchone() for i in wanted)
            return {row[0]: str(row[1]) for row in each if row is not None}

    def counts(self) -> dict[TrialState, int]:
        """How many trials are in each state; all states are there."""
        found = dict.fromkeys(TrialState, 0)
        with self._reading() as db:
            for table, state in (("results", "state"), ("open", "started IS NOT NULL")):
                for number, count in db.execute(
                    f"SELECT {state}, count(*) FROM {table} GROUP BY 1"
                ):
                    found[TrialState(number)] += count
        return found

    def iterations(self) -> list[dict[str, Any]]:
        """What every ask told, in order, with `batch` and the z, density and noise that it learned.

        These are None where nothing was learned, as in a batch of initial points.
        """
        query = "SELECT batch, info, z, density, noise FROM iterations ORDER BY batch"
        with self._reading() as db:
            return [
                {
                    **json.loads(info),
                    "batch": batch,
                    "z": None if z is None else _array(z, "<i8"),
                    "density": None if density is None else _array(density, "<f8"),
                    "noise": _number(noise),
                }
                for batch, info, z, density, noise in db.execute(query)
            ]

    def state(self) -> State:
        """What the optimiser needs to go on, as of the last batch."""
        with self._reading() as db:
            query = "SELECT asked, z, density, noise, together, lower, upper FROM state"
            row = db.execute(query).fetchone()
            return State() if row is None else _state(*row)

    def begins_with_data(self) -> bool:
        """Whether values were told before anything was asked for."""
        with self._reading() as db:
            first = db.execute("SELECT batch FROM points WHERE id = 0").fetchone()
            return bool(first == (None,))

    def check(self) -> None:
        """Read everything and look for damage, which is a `DamagedStudyError`."""
        with self._reading() as db:
            found = [row[0] for row in db.execute("PRAGMA integrity_check(3)")]
            if found != ["ok"]:
                _damaged(self.path, "; ".join(found))
        self.trials()
        self.iterations()
        self.state()
        self.errors()

    # Inside.

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is committed at the end, or undone by any exception."""
        if self.read_only:
            raise StudyError(f"{self.path} was opened to be read; open it without read_only")
        db = self._usable()
        with self._mutex, _decoding(self.path):
            try:
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """A snapshot; whatever cannot be read as it was written is damage."""
        db = self._usable()
        with self._mutex, _decoding(self.path):
            try:
                db.execute("BEGIN")
                yield db
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def _usable(self) -> sqlite3.Connection:
        if os.getpid() != self._pid:
            raise StudyError(
                f"{self.path} was opened by process {self._pid} and is used in process "
                f"{os.getpid()}, forked from it; use it there, or open it anew with read_only"
            )
        if self._connection is None:
            raise StudyError(f"{self.path} is closed; open it again")
        return self._connection

    def _points(self, X: ArrayLike) -> Floats:
        points = np.asarray(X, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.dims:
            raise ValueError(f"X has shape {points.shape}, expected (n, {self.dims})")
        if not np.isfinite(points).all():
            raise ValueError("X is not finite everywhere; a point of a space is")
        return points

    def _add_points(self, db: sqlite3.Connection, points: Floats, batch: int | None) -> Ints:
        first = self._count(db)
        packed, width = memoryview(_packed(points, "<f8")), 8 * self.dims
        db.executemany(
            "INSERT INTO points VALUES (?, ?, ?)",
            ((first + i, batch, packed[i * width : (i + 1) * width]) for i in range(len(points))),
        )
        return np.arange(first, first + len(points))

    def _count(self, db: sqlite3.Connection) -> int:
        """Number of trials, from the last id, in no time; never more than the file can hold."""
        n = int(db.execute("SELECT coalesce(max(id), -1) + 1 FROM points").fetchone()[0])
        if not 0 <= n * self.dims * 8 <= _size(db):
            raise ValueError(f"{n} trials")
        return n

    def _rows(self, ids: Sequence[int], state: NDArray[np.int8]) -> Ints:
        """Ids as rows, which must be there and must not have a state yet."""
        rows = np.array(ids, dtype=np.int64)
        if rows.min() < 0 or rows.max() >= len(state) or (state[rows] != -1).any():
            raise ValueError("ids")
        return rows

    def _refuse(self, db: sqlite3.Connection, ids: Sequence[int]) -> NoReturn:
        """Say why not all of the ids were open before this transaction."""
        db.execute("ROLLBACK")
        n, seen = self._count(db), set[int]()
        for i in ids:
            row = db.execute("SELECT state FROM results WHERE id = ?", (i,)).fetchone()
            if row is not None:
                raise StudyError(
                    f"trial {i} is finished already ({TrialState(row[0])}); an evaluation is "
                    f"recorded once, and this one was left out with all that came with it"
                )
            if not 0 <= i < n:
                raise StudyError(f"there is no trial {i}; there are {n} trials, counted from 0")
            if i in seen:
                raise StudyError(f"trial {i} is given twice; an evaluation is recorded once")
            seen.add(i)
        _damaged(self.path, "trials that are neither open nor finished")


# Files.


def _connect(path: str, options: str) -> sqlite3.Connection:
    """A connection that begins no transactions by itself and trusts nothing in the file."""
    connection = sqlite3.connect(
        f"file:{urllib.parse.quote(os.fsencode(path))}?{options}",
        timeout=BUSY,
        isolation_level=None,
        check_same_thread=False,
        uri=True,
    )
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def _connect_reader(path: str) -> sqlite3.Connection:
    """A connection that cannot write.

    SQLite puts -shm and -wal beside the file even to read it. Where it may not, as on a read-only
    medium, and there is nothing in a -wal, nobody can be writing: the file alone is all there is.
    """
    connection = _connect(path, "mode=ro")
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise
        if os.path.exists(f"{path}-wal") and os.path.getsize(f"{path}-wal"):
            raise StudyError(
                f"{path} cannot be read where it is: its last part is in {path}-wal, and its "
                f"directory is read-only ({error}); copy both files to another"
            ) from error
        return _connect(path, "immutable=1")
    except BaseException:
        connection.close()
        raise
    return connection


def _set_up(connection: sqlite3.Connection) -> None:
    """Make a connection a writer's."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT}")


def _build(path: str, dims: int, meta: str) -> None:
    """A study without trials at `path`, whatever was there."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            os.unlink(path + suffix)
    with closing(_connect(path, "mode=rwc")) as db:
        db.execute(f"PRAGMA page_size = {PAGE_SIZE}")
        _set_up(db)
        db.execute("BEGIN IMMEDIATE")
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {SCHEMA}")
        for sql in TABLES.values():
            db.execute(sql)
        db.execute("INSERT INTO meta VALUES (0, ?, ?)", (dims, meta))
        db.execute("COMMIT")


def _check_file(db: sqlite3.Connection, path: str) -> None:
    """Raise what is wrong with a file, as far as that can be told soon."""
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        what = "belongs to another program" if os.path.getsize(path) else "is empty"
        raise NotAStudyError(f"{path} is not a study: it {what}; give the file of a study")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA:
        raise NewerStudyError(
            f"{path} was made by a newer ebo (schema {version}; this one knows up to "
            f"{SCHEMA}): upgrade ebo"
        )
    names = "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    if version != SCHEMA or dict(db.execute(names)) != TABLES:
        _damaged(path, f"its tables are not those of schema {SCHEMA}")
    if _size(db) <= CHECKED_SIZE:
        found = [row[0] for row in db.execute("PRAGMA quick_check(3)")]
        if found != ["ok"]:
            _damaged(path, "; ".join(found))


def _size(db: sqlite3.Connection) -> int:
    """Bytes of the file, with what is still in the -wal."""
    pages, size = (db.execute(f"PRAGMA page_{what}").fetchone()[0] for what in ("count", "size"))
    return int(pages) * int(size)


def _refuse_existing(path: str) -> None:
    if os.path.lexists(path):
        raise StudyError(
            f"{path} exists already; open it to continue (ebo.Study.open), or give another name"
        )


@contextmanager
def _locked(path: str) -> Iterator[Lock]:
    """The writer's lock, given back if the body fails."""
    try:
        lock = Lock(f"{path}.lock")
    except HeldError as held:
        raise LockedStudyError(
            f"{path} is in use by {held}; wait for it, stop it, or open the study read-only"
        ) from None
    except OSError as error:
        raise StudyError(
            f"{path} cannot be locked for writing: {error}; check the directory, or open the "
            f"study read-only"
        ) from error
    try:
        yield lock
    except BaseException:
        lock.release()
        raise


def _sync_directory(path: str) -> None:
    """Wait until the names in a directory are on the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def _decoding(path: str) -> Iterator[None]:
    """What is read must be what was written; arguments are checked before."""
    try:
        yield
    except sqlite3.Error as error:
        _explain(error, path)
    # Among them UnicodeDecodeError: SQLite's messages quote what they complain of.
    except (ValueError, TypeError, OverflowError, IndexError, RecursionError) as error:
        _damaged(path, f"{type(error).__name__}: {error}", error)


def _explain(error: sqlite3.Error, path: str) -> NoReturn:
    """An error of SQLite's as one of ours, which says what to do."""
    if isinstance(error, sqlite3.ProgrammingError):
        raise error  # ours, not the file's
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        raise NotAStudyError(
            f"{path} is not a study, or its beginning is damaged ({error}); give the file of a "
            f"study, or restore it from a copy"
        ) from error
    if code == sqlite3.SQLITE_BUSY:
        raise LockedStudyError(
            f"{path} is in use by another program ({error}); close that first"
        ) from error
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY):
        raise StudyError(
            f"{path} could not be written or read ({error}); make room, or check the disk and "
            f"its permissions. All that was recorded before is safe"
        ) from error
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        raise StudyError(
            f"{path} cannot be opened ({error}); check the permissions of it and its directory"
        ) from error
    _damaged(path, str(error), error)


def _damaged(path: str, what: str, cause: Exception | None = None) -> NoReturn:
    raise DamagedStudyError(
        f"{path} is damaged ({what[:300]}); restore it from a copy, or save what can be read with "
        f"`sqlite3 {os.path.basename(path)} .recover`"
    ) from cause


# Values.


def _packed(array: ArrayLike, dtype: str) -> bytes:
    return np.ascontiguousarray(array, dtype=dtype).tobytes()


def _array(blob: bytes, dtype: str) -> NDArray[Any]:
    """A BLOB as a vector of the machine's own numbers."""
    if not isinstance(blob, bytes):
        raise TypeError("not an array")
    values = np.frombuffer(blob, dtype=dtype)
    return values.astype(values.dtype.newbyteorder("="))


def _joined(blobs: Sequence[bytes], dims: int) -> Floats:
    """Rows of D float64 as (n, D)."""
    if any(len(blob) != 8 * dims for blob in blobs):
        raise ValueError("a point of another length")
    return _array(b"".join(blobs), "<f8").reshape(len(blobs), dims)


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array(values, dtype=np.float64)  # NaN for None


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


def _chunks(db: sqlite3.Connection, query: str) -> Iterator[tuple[Sequence[Any], ...]]:
    """The columns of the rows of a table in the order of their ids, some thousand at a time."""
    cursor = db.execute(f"{query} ORDER BY id")
    while rows := cursor.fetchmany(CHUNK):
        yield tuple(zip(*rows, strict=True))


def _ids(ids: ArrayLike) -> list[int]:
    array = np.atleast_1d(np.asarray(ids))
    if array.size and (array.dtype.kind != "i" or array.ndim != 1):
        raise StudyError(f"ids are {ids!r}; give whole numbers")
    return [int(i) for i in array]


def _finish_row(finish: Finish) -> tuple[Any, ...]:
    """The parameters of the statement in `Store.finish`."""
    (i,), state, value = _ids([finish.id]), TrialState(finish.state), finish.value
    if not state.finished:
        raise ValueError(f"trial {i} cannot end as {state}")
    if state is TrialState.DONE and (value is None or not np.isfinite(value)):
        raise ValueError(f"trial {i} is done with the value {value!r}; give a finite one")
    kept = float(value) if state is TrialState.DONE and value is not None else None
    error = finish.error
    if error:
        error = str(error).encode("utf-8", "replace").decode()  # SQLite takes no lone surrogates
    times = _number(finish.started), _number(finish.finished)
    attempts = None if finish.attempts is None else int(finish.attempts)
    return state.value, kept, *times, attempts, error or None, i


def _state_row(state: State) -> tuple[Any, ...]:
    """asked, z, density, noise, together, lower, upper."""
    s = state.structure
    if s is None:
        if state.leaves is not None:
            raise ValueError("a state with leaves has a structure too")
        return int(state.asked), None, None, None, None, None, None
    free = len(s.z)
    boxes = [None, None] if state.leaves is None else [_packed(b, "<f8") for b in state.leaves]
    row = int(state.asked), _packed(s.z, "<i8"), _packed(s.density, "<f8"), float(s.noise)
    together = _packed(s.together, "<f8")
    if len(row[2]) != 8 * free or len(together) != 8 * free * free:
        raise ValueError("z, density and together of a structure do not fit each other")
    return *row, together, *boxes


def _state(
    asked: int,
    z: bytes | None,
    density: bytes,
    noise: float,
    together: bytes,
    lower: bytes | None,
    upper: bytes | None,
) -> State:
    """The inverse of `_state_row`; what does not fit is a ValueError or TypeError."""
    if not isinstance(asked, int) or asked < 0:
        raise ValueError("asked")
    if z is None:
        return State(asked)
    groups = _array(z, "<i8")
    free = len(groups)
    widths = _array(density, "<f8")
    if len(widths) != free:
        raise ValueError("density")
    counted = _array(together, "<f8").reshape(free, free)
    structure = Structure(groups, widths, float(noise), counted)
    if lower is None or upper is None:
        return State(asked, structure)
    low, high = _array(lower, "<f8").reshape(-1, free), _array(upper, "<f8").reshape(-1, free)
    if low.shape != high.shape:
        raise ValueError("leaves")
    return State(asked, structure, (low, high))


def _json(value: Mapping[str, Any]) -> str:
    def plain(item: Any) -> Any:
        if isinstance(item, np.generic | np.ndarray):
            return item.tolist()
        raise TypeError(f"{item!r} ({type(item).__name__}) does not fit JSON")

    return json.dumps(value, default=plain)
