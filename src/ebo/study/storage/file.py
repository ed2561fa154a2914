"""The SQLite file of a study: its tables, connections to it, and what can be wrong with it.

============  =====================================================================================
table         a row
============  =====================================================================================
`meta`        the one: D, and the caller's JSON (space, direction, settings, seed, ...)
`points`      a trial's point x, D float64; `batch` numbers the ask, NULL where not asked for
`open`        a trial that is waiting, or running since `started`; `attempts` counts its starts
`results`     a finished trial: state, value (NULL unless done), times, attempts, error
`iterations`  an ask: what it tells (JSON), and the z, density and noise that it learned
`state`       the one: `optimizer.State`, replaced together with the batch that it belongs to
`revisions`   how a trial had ended before it was overwritten or tried again, and when that was
`trials`      a view for people with an SQLite shell: points, open and results together
============  =====================================================================================

The file's header has `application_id`, which tells a study from other SQLite files, and
`user_version`, the schema. Files of earlier schemas are migrated (`migration.py`).

**What may be lost.** Nothing that a call has returned from. Against a killed process (also kill -9)
any setting would do, since the operating system has the writes already. Against a power cut
`synchronous=FULL` waits for the disk at every commit, some 0.3 to 10 ms; NORMAL would keep the file
sound, but lose the last seconds. Evaluations are dear and that is cheap, so it is FULL.

**Reading while a run writes.** WAL: readers see the last commit, and neither waits for the other.
A reader takes no lock of ours. Beside the file there are `-wal` and `-shm` while it is open and
after a crash: they are part of the study, to be copied with it. WAL needs a local file system.
"""

from __future__ import annotations

import os
import sqlite3
import urllib.parse
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import NoReturn

from ebo.study.storage.base import StudyError
from ebo.study.storage.lock import HeldError, Lock

APPLICATION_ID = 0x65626F31  # "ebo1"
SCHEMA = 4  # of the tables below; migration.py brings earlier ones up to it
PAGE_SIZE = 8192  # bytes; rows of some hundred parameters still share a page
WAL_LIMIT = 2**24  # bytes of the -wal file that are kept for use again
CACHE = 2**26  # bytes of a writer's file in memory: what is left of it if somebody cuts the file
CHECKED_SIZE = 2**25  # bytes; files up to it are checked for damage whenever they are opened
LONGEST = 2**28  # bytes of one value: a damaged or hostile file cannot ask for more memory
BUSY = 10.0  # seconds to wait for another program that has the file open

TABLES = {
    "meta": "CREATE TABLE meta (id INTEGER PRIMARY KEY, dims INTEGER NOT NULL, json TEXT NOT NULL)",
    "points": "CREATE TABLE points (id INTEGER PRIMARY KEY, batch INTEGER, x BLOB NOT NULL)",
    "open": "CREATE TABLE open (id INTEGER PRIMARY KEY, started REAL, attempts INTEGER NOT NULL)",
    "results": "CREATE TABLE results (id INTEGER PRIMARY KEY, state INTEGER NOT NULL, value REAL, "
    "started REAL, finished REAL, attempts INTEGER NOT NULL, error TEXT)",
    "iterations": "CREATE TABLE iterations (batch INTEGER PRIMARY KEY, info TEXT NOT NULL, "
    "z BLOB, density BLOB, noise REAL)",
    "state": "CREATE TABLE state (id INTEGER PRIMARY KEY, asked INTEGER NOT NULL, z BLOB, "
    "density BLOB, noise REAL, together BLOB, rates BLOB, share REAL, smooth_noise REAL, "
    "pair BLOB, lower BLOB, upper BLOB)",
    "revisions": "CREATE TABLE revisions (id INTEGER NOT NULL, state INTEGER NOT NULL, value REAL, "
    "error TEXT, replaced REAL)",
    "trials": "CREATE VIEW trials AS SELECT points.id, batch, "
    "coalesce(state, open.started IS NOT NULL) AS state, value, "
    "coalesce(results.started, open.started) AS started, finished, "
    "coalesce(results.attempts, open.attempts) AS attempts, error, x FROM points "
    "LEFT JOIN results ON results.id = points.id LEFT JOIN open ON open.id = points.id",
}

# Of the schemas 1 to 3. They had no `revisions`; nothing else was different in their tables.
OLD_STATE = (
    "CREATE TABLE state (id INTEGER PRIMARY KEY, asked INTEGER NOT NULL, z BLOB, "
    "density BLOB, noise REAL, together BLOB, lower BLOB, upper BLOB)"
)
OLD_TABLES = {name: sql for name, sql in TABLES.items() if name != "revisions"}
OLD_TABLES["state"] = OLD_STATE


class NotAStudyError(StudyError):
    """The file is something else."""


class DamagedStudyError(StudyError):
    """The file was a study once."""


class NewerStudyError(StudyError):
    """The file is of a version to come."""


class LockedStudyError(StudyError):
    """Somebody else writes."""


class LostStudyError(StudyError):
    """The file went away while it was open; the message says where a copy is, if there is one."""


def connect(path: str, options: str) -> sqlite3.Connection:
    """A connection that begins no transactions by itself and trusts nothing in the file."""
    connection = sqlite3.connect(
        f"file:{urllib.parse.quote(os.fsencode(path))}?{options}",
        timeout=BUSY,
        isolation_level=None,
        check_same_thread=False,
        uri=True,
    )
    try:
        distrust(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def distrust(connection: sqlite3.Connection) -> None:
    """Make a connection expect anything of its file; before it has read any of it."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
    for pragma, value in (("trusted_schema", 0), ("cell_size_check", 1)):
        connection.execute(f"PRAGMA {pragma} = {value}")
        if connection.execute(f"PRAGMA {pragma}").fetchone() != (value,):  # unknown ones are mute
            raise StudyError(
                f"SQLite {sqlite3.sqlite_version} cannot open studies safely: it has no "
                f"{pragma}; use Python with SQLite 3.31 or later"
            )


def connect_reader(path: str) -> sqlite3.Connection:
    """A connection that cannot write.

    SQLite puts -shm and -wal beside the file even to read it. Where it may not, as on a read-only
    medium, and there is nothing in a -wal, nobody can be writing: the file alone is all there is.
    """
    connection = connect(path, "mode=ro")
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
        return connect(path, "immutable=1")
    except BaseException:
        connection.close()
        raise
    return connection


def set_up(connection: sqlite3.Connection) -> None:
    """Make a connection a writer's."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT}")
    connection.execute(f"PRAGMA cache_size = {-CACHE // 1024}")


def build(path: str, dims: int, meta: str) -> None:
    """A study without trials at `path`, whatever was there."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            os.unlink(path + suffix)
    with closing(connect(path, "mode=rwc")) as db:
        db.execute(f"PRAGMA page_size = {PAGE_SIZE}")
        set_up(db)
        db.execute("BEGIN IMMEDIATE")
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {SCHEMA}")
        for sql in TABLES.values():
            db.execute(sql)
        db.execute("INSERT INTO meta VALUES (0, ?, ?)", (dims, meta))
        db.execute("COMMIT")


def check_file(db: sqlite3.Connection, path: str) -> bool:
    """Raise what is wrong with a file, as far as that can be told soon; whether it is old."""
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        what = "belongs to another program" if os.path.getsize(path) else "is empty"
        raise NotAStudyError(f"{path} is not a study: it {what}; give the file of a study")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA:
        raise NewerStudyError(
            f"{path} was made by a newer ebo (schema {version}; this one knows up to "
            f"{SCHEMA}): upgrade ebo"
        )
    if version < 1 or not _is_ours(db, version):
        damaged(path, f"its tables are not those of schema {version}")
    if not _size_of(f"{path}-wal") and _size_of(path) < file_size(db):
        damaged(path, "its end is missing")
    if version < SCHEMA or file_size(db) <= CHECKED_SIZE:  # a damaged file is not migrated
        found = [row[0] for row in db.execute("PRAGMA quick_check(3)")]
        if found != ["ok"]:
            damaged(path, "; ".join(found))
    return bool(version < SCHEMA)


def _is_ours(db: sqlite3.Connection, version: int) -> bool:
    """Whether the file has our tables and our view, and nothing else.

    All that SQLite would run is in `sqlite_master`: triggers, views, indices on expressions. None
    of our tables needs an index that SQLite makes by itself, so whole rows are compared, whatever
    their names are. Each table has pages of its own.
    """
    found = db.execute("SELECT type, name, tbl_name, sql, rootpage FROM sqlite_master").fetchall()
    tables = TABLES if version == SCHEMA else OLD_TABLES
    wanted = [(sql.split()[1].lower(), name, name, sql) for name, sql in tables.items()]
    roots = {root for kind, *_, root in found if kind == "table" and root}
    # By their text: a hostile file may have anything in any column.
    same = sorted(map(repr, wanted)) == sorted(repr(tuple(row)) for *row, _ in found)
    return same and len(roots) == len(tables) - 1  # the view has none


def _size_of(path: str) -> int:
    """Bytes of a file; 0 where there is none."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def file_size(db: sqlite3.Connection) -> int:
    """Bytes of the file, with what is still in the -wal."""
    pages, size = (db.execute(f"PRAGMA page_{what}").fetchone()[0] for what in ("count", "size"))
    return int(pages) * int(size)


def refuse_existing(path: str) -> None:
    """Raise if there is something at `path`."""
    if os.path.lexists(path):
        raise StudyError(
            f"{path} exists already; open it to continue (ebo.Study.open), or give another name"
        )


def refuse_locked(path: str, held: HeldError) -> NoReturn:
    """Raise that there is another writer."""
    raise LockedStudyError(
        f"{path} is in use by {held}; wait for it, stop it, or open the study read-only"
    ) from None


def refuse_unlockable(path: str, error: OSError) -> NoReturn:
    """Raise that nobody can tell whether there is another writer."""
    raise StudyError(
        f"{path} cannot be locked for writing: {error}; check the directory, or open the study "
        f"read-only"
    ) from error


@contextmanager
def locked(path: str) -> Iterator[Lock]:
    """The writer's lock, given back if the body fails."""
    try:
        lock = Lock(f"{path}.lock")
    except HeldError as held:
        refuse_locked(path, held)
    except OSError as error:
        refuse_unlockable(path, error)
    try:
        yield lock
    except BaseException:
        lock.release()
        raise


def sync_directory(path: str) -> None:
    """Wait until the names in a directory are on the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def decoding(path: str) -> Iterator[None]:
    """What is read must be what was written; arguments are checked before."""
    try:
        yield
    except sqlite3.Error as error:
        _explain(error, path)
    # Among them UnicodeDecodeError: SQLite's messages quote what they complain of.
    except (ValueError, TypeError, OverflowError, IndexError, RecursionError) as error:
        damaged(path, f"{type(error).__name__}: {error}", error)


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
    damaged(path, str(error), error)


def damaged(path: str, what: str, cause: Exception | None = None) -> NoReturn:
    """Raise that the file is damaged, and what to do."""
    raise DamagedStudyError(
        f"{path} is damaged ({what[:300]}); restore it from a copy, or save what can be read with "
        f"`sqlite3 {os.path.basename(path)} .recover`"
    ) from cause
