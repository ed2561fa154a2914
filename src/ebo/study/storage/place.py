"""Whether a study's file is still where it was opened, and a copy of it where it is not.

A file that is removed or moved while it is open lives on without its name: SQLite goes on writing
to it without an error, and nobody will ever find what it wrote. So every transaction looks, with a
`stat` of each file, which costs microseconds where the disk takes some hundred.

What is lost has not gone yet: the open connection still has it. `rescue` copies it.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress

from ebo.study.storage.file import (
    LostStudyError,
    check_file,
    connect,
    damaged,
    file_size,
    refuse_existing,
    sync_directory,
)

COMPANIONS = {"": "it", "-wal": "its -wal", "-shm": "its -shm"}
WAL_HEADER, FRAME_HEADER = 32, 24  # bytes, of https://www.sqlite.org/fileformat.html
MOST_COPIES = 100  # of one study; then something is wrong that one more will not mend


class Place:
    """The files of an open study, as they were when it was opened for writing."""

    def __init__(self, path: str, db: sqlite3.Connection) -> None:
        self._path, self._db = path, db
        self._were = {}
        for suffix in COMPANIONS:
            with suppress(FileNotFoundError):  # where there is no WAL there is no companion
                self._were[suffix] = os.stat(path + suffix)
        if "" not in self._were:
            raise LostStudyError(f"{path} was removed while it was opened; restore it from a copy")
        self._size = self._were[""].st_size
        self._wal = 0  # bytes of the -wal after our last transaction

    def lost(self, *, after: bool = False) -> str | None:
        """What happened to the files, in words; None if they are what they were.

        after: a transaction of ours. The sizes that it left are what is expected from now on.
        """
        sizes = {}
        for suffix, was in self._were.items():
            what = COMPANIONS[suffix]
            try:
                found = os.stat(self._path + suffix)
            except (FileNotFoundError, NotADirectoryError):
                return f"{what} was removed or moved while the study was open"
            except OSError as error:
                return f"{what} cannot be reached any more ({error.strerror})"
            if not os.path.samestat(was, found):
                return f"{what} was replaced by another file while the study was open"
            sizes[suffix] = found.st_size
        if sizes[""] < self._size and self._was_cut(sizes[""]):
            return f"it was cut from {self._size} to {sizes['']} bytes while the study was open"
        wal = sizes.get("-wal", 0)
        if not after and wal < self._wal and self._wal_was_cut(wal):
            return f"its -wal was cut from {self._wal} to {wal} bytes while the study was open"
        self._size, self._wal = sizes[""], wal
        return None

    def _was_cut(self, size: int) -> bool:
        """Whether the file lacks something: another program may have made it smaller (VACUUM)."""
        try:
            return not 0 < file_size(self._db) <= size
        except sqlite3.Error:
            return True

    def _wal_was_cut(self, size: int) -> bool:
        """Whether the -wal lacks something: another program may have emptied it as it should."""
        try:
            _, frames, _ = self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            (page,) = self._db.execute("PRAGMA page_size").fetchone()
        except sqlite3.Error:
            return True
        return bool(frames > 0 and size < WAL_HEADER + frames * (FRAME_HEADER + page))


def rescue(db: sqlite3.Connection, path: str) -> str:
    """Copy what an open connection has to a file of its own beside `path`; returns its path.

    What goes wrong is an OSError, sqlite3.Error or StudyError. Then there is no such file.
    """
    copy = _free_name(path)
    new = f"{copy}.new"
    size = file_size(db)
    try:
        with closing(connect(new, "mode=rwc")) as target:
            db.backup(target)
            check_file(target, new)
            if file_size(target) != size:
                damaged(new, "a part is missing")
            found = [row[0] for row in target.execute("PRAGMA quick_check(3)")]
            if found != ["ok"]:  # as after a file was cut: what SQLite had in memory was not all
                damaged(new, "; ".join(found))
        refuse_existing(copy)
        os.rename(new, copy)
        sync_directory(os.path.dirname(copy))
    except BaseException:
        for suffix in ("", "-wal", "-shm", "-journal"):
            with suppress(OSError):
                os.unlink(new + suffix)
        raise
    return copy


def _free_name(path: str) -> str:
    """`NAME.rescued.ebo`, or with a number, in the nearest directory that takes it."""
    stem, ending = os.path.splitext(os.path.basename(path))
    for directory in _directories(path):
        for number in range(1, MOST_COPIES + 1):
            mark = "rescued" if number == 1 else f"rescued-{number}"
            name = os.path.join(directory, f"{stem}.{mark}{ending or '.ebo'}")
            if not os.path.lexists(name):
                return name
    raise FileExistsError(f"there are {MOST_COPIES} rescued copies of it already")


def _directories(path: str) -> Iterator[str]:
    """Where to put a copy: beside the file, where its directory was, the place for all else."""
    directory = os.path.dirname(path)
    while True:
        if os.path.isdir(directory) and os.access(directory, os.W_OK | os.X_OK):
            yield directory
        if directory == os.path.dirname(directory):
            break
        directory = os.path.dirname(directory)
    yield tempfile.gettempdir()
