"""The file of a study: every point, every evaluation, and what the optimiser needs to go on.

One SQLite file, one writer (`lock.py`), one transaction for every call that writes. Nothing in it
is executable: numbers, text, JSON, and arrays as little-endian BLOBs whose lengths are checked. A
row is written once and never grows; what is still open is a small table of its own. So a batch
costs the same in a study of a million trials as in an empty one, and that an evaluation is there
once is a primary key.

Trials are numbered from 0 without gaps: a trial's id is its row in `trials()`. The tables, what may
be lost, and who may read while a run writes are in `file.py`.

A connection must not cross a fork: a forked process that uses the store is refused.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebo.arrays import Floats, Ints
from ebo.optimizer import State
from ebo.study.storage import history
from ebo.study.storage.access import Access
from ebo.study.storage.base import (
    StudyError,
    check_points,
    refuse_batch,
    refuse_finished,
    refuse_unknown,
    whole_ids,
)
from ebo.study.storage.encoding import (
    finish_row,
    float_or_none,
    joined,
    pack,
    read_state,
    read_trial,
    read_trials,
    state_row,
    to_json,
    unpack,
)
from ebo.study.storage.file import (
    LONGEST,
    NotAStudyError,
    build,
    check_file,
    connect,
    connect_reader,
    damaged,
    decoding,
    file_size,
    locked,
    refuse_existing,
    set_up,
    sync_directory,
)
from ebo.study.storage.inode import Inode, using
from ebo.study.storage.lock import Lock
from ebo.study.storage.migration import in_memory, migrate
from ebo.study.storage.trial import Evaluation, Revision, Trial, TrialState
from ebo.values import check_values


class SQLiteStorage:
    """An open study file, from `create` or `open`; see `Storage`. Closed by `close` or `with`."""

    def __init__(
        self, path: str, connection: sqlite3.Connection, inode: Inode, lock: Lock | None
    ) -> None:
        """Not to be called: use `SQLiteStorage.create` or `SQLiteStorage.open`."""
        self.read_only = lock is None
        self._access = Access(path, connection, inode, lock)
        self._writing, self._reading = self._access.writing, self._access.reading
        with self._reading() as db:
            (self.dims, text), *more = db.execute("SELECT dims, json FROM meta").fetchall()
            self.meta: dict[str, Any] = json.loads(text)
            sound = isinstance(self.meta, dict) and isinstance(self.dims, int) and not more
            if not sound or not 1 <= self.dims <= LONGEST // 8:
                raise ValueError("meta")

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], dims: int, meta: Mapping[str, Any]
    ) -> SQLiteStorage:
        """A new study of points with `dims` coordinates, open for writing; `meta` must fit JSON.

        It is there whole or not at all, also after a crash.
        """
        if isinstance(dims, bool) or not 1 <= int(dims) <= LONGEST // 8:
            raise ValueError(f"dims is {dims!r}; give a whole number of at least 1")
        text, real = to_json(dict(meta)), os.path.realpath(path)
        refuse_existing(real)
        with locked(real) as lock:
            refuse_existing(real)
            try:
                for suffix in ("-wal", "-shm", "-journal"):  # left by a study deleted since: SQLite
                    with suppress(FileNotFoundError):  # would take them for the new one's
                        os.unlink(real + suffix)
                build(f"{real}.new", int(dims), text)
                os.rename(f"{real}.new", real)
                sync_directory(os.path.dirname(real))
            except (OSError, sqlite3.Error) as error:
                raise StudyError(f"{real} cannot be created: {error}") from error
            return cls._opened(real, lock)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, read_only: bool = False) -> SQLiteStorage:
        """A study that exists; for writing unless `read_only`, which works while another writes.

        A file of an earlier schema is migrated first. With `read_only` it stays as it is: then what
        is read is a copy in memory of what it was when it was opened.
        """
        real = os.path.realpath(path)
        if not os.path.exists(real):
            raise StudyError(f"there is no study at {real}; check the name, or create it")
        if not os.path.isfile(real):
            raise NotAStudyError(f"{real} is not a file; give the file of a study")
        if read_only:
            return cls._opened(real, None)
        with locked(real) as lock:
            return cls._opened(real, lock)

    @classmethod
    def _opened(cls, path: str, lock: Lock | None) -> SQLiteStorage:
        with using(path, writer=lock is not None) as inode, decoding(path):
            connection = connect(path, "mode=rw") if lock is not None else connect_reader(path)
            try:
                old = check_file(connection, path)
                if lock is not None:  # only now that it is known to be a study
                    set_up(connection)
                elif old:
                    connection = in_memory(connection)
                if old:
                    migrate(connection)
                return cls(path, connection, inode, lock)
            except BaseException:
                connection.close()
                raise

    @property
    def name(self) -> str:
        """The path of the file."""
        return self._access.path

    def close(self) -> None:
        """Close the file and let other writers in; a second time nothing happens."""
        self._access.close()

    def __enter__(self) -> SQLiteStorage:
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
        points, text, row = check_points(X, self.dims), to_json(info), state_row(state)
        batch = row[0] - 1
        with self._writing() as db:
            if db.execute("SELECT 1 FROM iterations WHERE batch = ?", (batch,)).fetchone():
                refuse_batch(batch, self.name)
            ids = self._add_points(db, points, batch)
            db.executemany("INSERT INTO open VALUES (?, NULL, 0)", ((i,) for i in ids.tolist()))
            db.execute("INSERT INTO iterations VALUES (?, ?, ?, ?, ?)", (batch, text, *row[1:4]))
            db.execute(f"INSERT OR REPLACE INTO state VALUES (0{', ?' * len(row)})", row)
        return ids

    def add_told(self, X: ArrayLike, values: ArrayLike, *, time: float | None = None) -> Ints:
        """Points X (n, D) with values (n,), not asked for; failed where not finite; their ids."""
        points = check_points(X, self.dims)
        y = check_values(values, len(points))
        states = np.where(np.isnan(y), TrialState.FAILED, TrialState.DONE).tolist()
        time = float_or_none(time)
        with self._writing() as db:
            ids = self._add_points(db, points, None)
            db.executemany(
                "INSERT INTO results VALUES (?, ?, ?, NULL, ?, 0, NULL)",
                ((i, s, v, time) for i, s, v in zip(ids.tolist(), states, y.tolist(), strict=True)),
            )
        return ids

    def start(self, ids: ArrayLike, time: float) -> None:
        """Note that trials run since `time`, one attempt more; those that finished are refused."""
        rows = [(float(time), i) for i in whole_ids(ids)]
        with self._writing() as db:
            update = "UPDATE open SET started = ?, attempts = attempts + 1 WHERE id = ?"
            if rows and db.executemany(update, rows).rowcount != len(rows):
                self._refuse(db, [i for _, i in rows])

    def finish(self, evaluations: Mapping[int, Evaluation]) -> Floats:
        """Note how trials ended, all or none; one that has ended before is refused. Their X."""
        ids = whole_ids([*evaluations])
        rows = [finish_row(i, evaluations[i]) for i in ids]
        insert = (
            "INSERT INTO results SELECT id, ?, ?, coalesce(?, started), ?, "
            "coalesce(?, attempts), ? FROM open WHERE id = ?"
        )
        with self._writing() as db:
            db.executemany(insert, rows)
            gone = db.executemany("DELETE FROM open WHERE id = ?", [(i,) for i in ids])
            if ids and gone.rowcount != len(ids):
                self._refuse(db, ids)
            point = "SELECT x FROM points WHERE id = ?"
            return joined([db.execute(point, (i,)).fetchone()[0] for i in ids], self.dims)

    def reset_running(self) -> int:
        """Make running trials wait again, after a crash; how many there were."""
        with self._writing() as db:
            update = "UPDATE open SET started = NULL WHERE started IS NOT NULL"
            return db.execute(update).rowcount

    def retry(self, ids: ArrayLike, *, time: float | None = None) -> None:
        """Make trials that failed wait again; if any of them did not fail, none."""
        wanted = list(dict.fromkeys(whole_ids(ids)))
        with self._writing() as db:
            history.retry(db, wanted, self._count(db), self.name, float_or_none(time))

    def overwrite(
        self, evaluations: Mapping[int, Evaluation], *, time: float | None = None
    ) -> None:
        """Note that finished trials ended otherwise; if any of them has not finished, none."""
        rows = {i: finish_row(i, evaluations[i]) for i in whole_ids([*evaluations])}
        with self._writing() as db:
            history.overwrite(db, rows, self._count(db), self.name, float_or_none(time))

    # What reads: each a snapshot of the last commit.

    def trials(self) -> dict[str, NDArray[Any]]:
        """All trials by column: id, batch (-1 for none), state, value, started, finished, attempts
        and X (n, D); numbers that are not there are NaN."""
        with self._reading() as db:
            return read_trials(db, self._count(db), self.dims)

    def trial(self, id: int) -> Trial:
        """One trial."""
        columns = "id, batch, x, state, value, started, finished, attempts, error"
        (wanted,) = whole_ids([id])
        with self._reading() as db:
            row = db.execute(f"SELECT {columns} FROM trials WHERE id = ?", (wanted,)).fetchone()
            if row is not None:
                return read_trial(*row, dims=self.dims)
            n = self._count(db)
        refuse_unknown(wanted, n, self.name)

    def waiting(self) -> tuple[Ints, Floats]:
        """The trials that wait to be evaluated: ids (n,), in order, and X (n, D)."""
        with self._reading() as db:
            rows = db.execute(
                "SELECT open.id, x FROM open LEFT JOIN points ON points.id = open.id "
                "WHERE started IS NULL ORDER BY open.id"
            ).fetchall()
            X = joined([blob for _, blob in rows], self.dims)
        return np.array([i for i, _ in rows], dtype=np.int64), X

    def errors(self) -> dict[int, str]:
        """The errors of all trials by id, where there are any."""
        with self._reading() as db:
            found = db.execute("SELECT id, error FROM results WHERE error IS NOT NULL")
            return {i: str(error) for i, error in found}

    def revisions(self) -> list[Revision]:
        """What was overwritten or tried again, in that order."""
        with self._reading() as db:
            return history.revisions(db)

    def results(self, recent: int) -> tuple[float | None, float | None, list[float]]:
        """The least and the largest value, and when the most recent evaluations ended."""
        with self._reading() as db:
            query = "SELECT min(value), max(value) FROM results WHERE state = ?"
            least, most = db.execute(query, (int(TrialState.DONE),)).fetchone()
            last = db.execute("SELECT finished FROM results ORDER BY id DESC LIMIT ?", (recent,))
            finished = [float(time) for (time,) in last if time is not None]
        return float_or_none(least), float_or_none(most), finished

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
                    "z": None if z is None else unpack(z, "<i8"),
                    "density": None if density is None else unpack(density, "<f8"),
                    "noise": float_or_none(noise),
                }
                for batch, info, z, density, noise in db.execute(query)
            ]

    def state(self) -> State:
        """What the optimiser needs to go on, as of the last batch."""
        with self._reading() as db:
            row = db.execute("SELECT * FROM state").fetchone()
            return State() if row is None else read_state(*row[1:])

    def check(self) -> None:
        """Read everything and look for damage, which is a `DamagedStudyError`."""
        with self._reading() as db:
            found = [row[0] for row in db.execute("PRAGMA integrity_check(3)")]
            if found != ["ok"]:
                damaged(self.name, "; ".join(found))
        self.trials()
        self.iterations()
        self.state()
        self.errors()
        self.revisions()

    # Inside.

    def _add_points(self, db: sqlite3.Connection, points: Floats, batch: int | None) -> Ints:
        first = self._count(db)
        packed, width = memoryview(pack(points, "<f8")), 8 * self.dims
        db.executemany(
            "INSERT INTO points VALUES (?, ?, ?)",
            ((first + i, batch, packed[i * width : (i + 1) * width]) for i in range(len(points))),
        )
        return np.arange(first, first + len(points))

    def _count(self, db: sqlite3.Connection) -> int:
        """Number of trials, from the last id, in no time; never more than the file can hold."""
        n = int(db.execute("SELECT coalesce(max(id), -1) + 1 FROM points").fetchone()[0])
        if not 0 <= n * self.dims * 8 <= file_size(db):
            raise ValueError(f"{n} trials")
        return n

    def _refuse(self, db: sqlite3.Connection, ids: Sequence[int]) -> NoReturn:
        """Say why not all of the ids were open before this transaction."""
        db.execute("ROLLBACK")
        n = self._count(db)
        for i in ids:
            row = db.execute("SELECT state FROM results WHERE id = ?", (i,)).fetchone()
            if row is not None:
                refuse_finished(i, TrialState(row[0]))
            if not 0 <= i < n:
                refuse_unknown(i, n, self.name)
        damaged(self.name, "trials that are neither open nor finished")
