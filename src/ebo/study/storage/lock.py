"""One writer at a time: a lock on a side file, which says who holds it.

The lock is the kernel's, not the file's: it ends with the process that holds it, however that ends,
so a file left behind by a crash is in nobody's way. It is a POSIX lock (`fcntl.lockf`), which
belongs to a process; `flock` belongs to an open file, which forked processes share, so that one
worker that outlives a killed run would keep a study locked. The price of POSIX locks is paid here:

- A process is never refused by itself. `_held` knows what this process holds.
- Closing *any* descriptor of the file gives the lock up. So it is not the study's own file that is
  locked, which SQLite opens and closes as it likes, and nothing else opens the side file.

A clean release removes the file while the lock is held. Whoever opened it before and locks it after
has locked a file that is gone: it looks again.

Another name of the study, a hard link, has another side file. `inode.py` locks the study itself.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
import time

_held: set[str] = set()
_guard = threading.Lock()  # of `_held`


def _forget() -> None:
    """In a forked process, which holds none of its parent's locks."""
    global _guard
    _guard = threading.Lock()  # another thread may have had it when the process was forked
    _held.clear()


os.register_at_fork(after_in_child=_forget)


class HeldError(Exception):
    """The lock is held; the message says by whom."""


class Lock:
    """Holds the lock of `path`, a file of its own, from now on until `release`.

    Refused at once with `HeldError` where it is held already. Other troubles are `OSError`.
    """

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)
        self._pid = os.getpid()
        with _guard:
            if self._path in _held:
                raise HeldError(f"this process (process {self._pid}), which has it open already")
            self._fd = _acquire(self._path)
            _held.add(self._path)

    def release(self) -> None:
        """Give the lock up; a second time, or in a forked process, nothing happens."""
        if os.getpid() != self._pid:
            return
        with _guard:
            if self._fd < 0:
                return
            try:
                if _is_at(self._fd, self._path):
                    os.unlink(self._path)
            except OSError:
                pass  # a file that stays is in nobody's way
            os.close(self._fd)
            self._fd = -1
            _held.discard(self._path)


def _acquire(path: str) -> int:
    """A descriptor of the file at `path`, which is locked by it and names this process."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):  # POSIX allows EAGAIN and EACCES
                raise HeldError(_holder(fd)) from None
            if _is_at(fd, path):
                who = {"pid": os.getpid(), "host": socket.gethostname(), "time": time.time()}
                os.ftruncate(fd, 0)
                os.pwrite(fd, json.dumps(who).encode(), 0)
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def _is_at(fd: int, path: str) -> bool:
    """Whether the open file is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def _holder(fd: int) -> str:
    """Who holds the lock, as the file says."""
    try:
        who = json.loads(os.pread(fd, 4096, 0))
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(who["time"]))
        return f"process {int(who['pid'])} on {str(who['host'])[:100]} since {since}"
    except (ValueError, TypeError, KeyError, OverflowError, OSError, RecursionError):
        return "another process"  # which has not written its name yet
