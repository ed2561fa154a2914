"""The open file of a study, for all threads of one process: transactions, one after the other."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ebo.study.storage.base import StudyError
from ebo.study.storage.file import LostStudyError, connect, decoding, locked, set_up
from ebo.study.storage.inode import Inode, using
from ebo.study.storage.lock import Lock
from ebo.study.storage.place import Place, rescue


class Access:
    """A connection with what belongs to it. It must not cross a fork.

    path: of the file; of the copy if the file was lost and could be rescued.
    """

    def __init__(
        self, path: str, connection: sqlite3.Connection, inode: Inode, lock: Lock | None
    ) -> None:
        self.path, self.read_only = path, lock is None
        self.connection: sqlite3.Connection | None = connection
        self._inode, self._lock = inode, lock
        self._pid, self._mutex = os.getpid(), threading.RLock()
        self._place = None if lock is None else Place(path, connection)
        self._lost: LostStudyError | None = None  # what happened to the file, if it was rescued

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is committed at the end, or undone by any exception.

        Where the file was lost it goes to the rescued copy, and all the same ends in an error: a
        value that has just come is kept too.
        """
        if self.read_only:
            raise StudyError(f"{self.path} was opened to be read; open it without read_only")
        self._usable()
        with self._mutex:
            self._look()
            with decoding(self.path):
                db = self._usable()
                try:
                    db.execute("BEGIN IMMEDIATE")
                    yield db
                    db.execute("COMMIT")
                finally:
                    if db.in_transaction:
                        db.execute("ROLLBACK")
            self._look(after=True)
            if self._lost is not None:
                raise self._lost

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A snapshot; whatever cannot be read as it was written is damage."""
        self._usable()
        with self._mutex:
            db = self._usable()
            try:
                with decoding(self.path):
                    try:
                        db.execute("BEGIN")
                        yield db
                    finally:
                        if db.in_transaction:
                            db.execute("ROLLBACK")
            except StudyError:
                self._look()  # is it damaged, or is it not there any more?
                if self._lost is not None:
                    raise self._lost from None
                raise

    def close(self) -> None:
        """Close the file and let other writers in; a second time nothing happens."""
        if os.getpid() != self._pid:
            return  # SQLite forbids even closing what was opened before a fork
        with self._mutex:
            connection, self.connection = self.connection, None
            try:
                if connection is not None:
                    connection.close()
            finally:
                self._inode.release()
                if self._lock is not None:
                    self._lock.release()

    def _usable(self) -> sqlite3.Connection:
        if os.getpid() != self._pid:
            raise StudyError(
                f"{self.path} was opened by process {self._pid} and is used in process "
                f"{os.getpid()}, forked from it; use it there, or open it anew with read_only"
            )
        if self.connection is None:
            raise StudyError(f"{self.path} is closed; open it again")
        return self.connection

    def _look(self, *, after: bool = False) -> None:
        """Go over to a copy if the file has gone; raise if that cannot be."""
        if self._place is None:
            return
        what = self._place.lost(after=after)
        if what is None:
            return
        was, said = self.path, f"{self.path} is no longer the file of this study: {what}"
        try:
            self._go_over(rescue(self._usable(), self.path))
        except (OSError, sqlite3.Error, StudyError) as error:
            raise LostStudyError(
                f"{said}. It could not be saved elsewhere ({error}); restore it from a copy"
            ) from error
        self._lost = LostStudyError(
            f"{said}. All of the study is saved in {self.path}; rename that to {was}, or go on "
            f"with it where it is"
        )

    def _go_over(self, copy: str) -> None:
        """Use a copy from now on, in place of a file that was lost."""
        with locked(copy) as lock, using(copy, writer=True) as inode:
            connection = connect(copy, "mode=rw")
            try:
                set_up(connection)
                place = Place(copy, connection)
            except BaseException:
                connection.close()
                raise
        gone, file, old = self.connection, self._inode, self._lock
        self.path, self.connection, self._place = copy, connection, place
        self._inode, self._lock = inode, lock
        with suppress(sqlite3.Error):  # it has nothing that the copy has not
            if gone is not None:
                gone.close()
        file.release()
        if old is not None:
            old.release()
