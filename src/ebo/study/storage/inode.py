"""One writer of a file, by whatever name it is opened: a lock on the file itself.

The lock of `lock.py` is on a name beside the study's, and a hard link is another name. So a writer
also locks one byte of the study, far from those that SQLite locks.

SQLite's own locks are POSIX's, which a process loses when it closes *any* descriptor of the file.
Two things follow. Ours is an OFD lock where there is one (Linux), for it belongs to its descriptor
and outlives what SQLite closes. And our descriptor is closed only when nothing else in this process
uses the file: `_inodes` counts who does.

An OFD lock is shared by forked processes, as that of `flock` is. They let go of it at once, so that
a worker that outlives a killed run does not keep the study locked.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ebo.study.storage.base import StudyError
from ebo.study.storage.file import refuse_locked, refuse_unlockable
from ebo.study.storage.lock import HeldError

BYTE = 2**62  # no file is as long; SQLite locks bytes from 2**30 on


@dataclass
class _Known:
    """A file that this process uses."""

    users: int = 0
    fd: int = -1
    held: bool = False


_inodes: dict[tuple[int, int], _Known] = {}  # by device and number
_guard = threading.Lock()  # of `_inodes`


def _forget() -> None:
    """In a forked process, which uses none of its parent's files."""
    global _guard
    _guard = threading.Lock()
    for known in _inodes.values():
        if known.fd >= 0:
            with suppress(OSError):
                os.close(known.fd)
    _inodes.clear()


os.register_at_fork(after_in_child=_forget)


class Inode:
    """A use of the file at `path`, from before it is opened until after it is closed."""

    def __init__(self, path: str) -> None:
        found = os.stat(path)
        self._path, self._key, self._pid = path, (found.st_dev, found.st_ino), os.getpid()
        self._uses, self._holds = True, False
        with _guard:
            _inodes.setdefault(self._key, _Known()).users += 1

    def hold(self) -> None:
        """Be its one writer until `release`; `HeldError` where there is one already."""
        with _guard:
            known = _inodes[self._key]
            if known.held:
                raise HeldError(f"this process (process {self._pid}), which has it open already")
            if known.fd < 0:
                known.fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            try:
                _lock(known.fd, fcntl.F_WRLCK)
            except (BlockingIOError, PermissionError):  # POSIX allows EAGAIN and EACCES
                raise HeldError(
                    "another process, by another name of the same file (a hard link)"
                ) from None
            known.held = self._holds = True

    def release(self) -> None:
        """Let go; a second time, or in a forked process, nothing happens."""
        if os.getpid() != self._pid:
            return
        with _guard:
            if not self._uses:
                return
            known = _inodes[self._key]
            if self._holds:
                known.held = False
                with suppress(OSError):  # then closing it does that
                    _lock(known.fd, fcntl.F_UNLCK)
            known.users -= 1
            if not known.users:
                if known.fd >= 0:
                    os.close(known.fd)
                del _inodes[self._key]
            self._uses = self._holds = False


@contextmanager
def using(path: str, *, writer: bool) -> Iterator[Inode]:
    """A use of a file, given back if the body fails; `writer` if it is to write."""
    try:
        inode = Inode(path)
        try:
            if writer:
                inode.hold()
        except BaseException:
            inode.release()
            raise
    except HeldError as held:
        refuse_locked(path, held)
    except OSError as error:
        if writer:
            refuse_unlockable(path, error)
        raise StudyError(f"{path} cannot be opened ({error}); check its permissions") from error
    try:
        yield inode
    except BaseException:
        inode.release()
        raise


def _lock(fd: int, kind: int) -> None:
    """Lock or unlock the byte, at once or with a BlockingIOError."""
    if sys.platform == "linux":  # elsewhere `struct flock` has another order
        try:
            whence, length, pid = os.SEEK_SET, 1, 0
            flock = struct.pack("hhqqi0q", kind, whence, BYTE, length, pid)
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, flock)
            return
        except OSError as error:
            if error.errno != errno.EINVAL:  # a file system or a kernel without them
                raise
    command = fcntl.LOCK_UN if kind == fcntl.F_UNLCK else fcntl.LOCK_EX | fcntl.LOCK_NB
    fcntl.lockf(fd, command, 1, BYTE)
