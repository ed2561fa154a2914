"""All that a process has started, wherever it has gone: only Linux lets us find it.

A process group is left by `setsid`, and a parent's number is lost when the parent ends. But Linux
gives orphans to the nearest ancestor that has asked for them (a "child subreaper"). So, while that
one lives, all that it has started can be followed down from it through /proc.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from functools import cache
from typing import Any

LINUX = sys.platform == "linux"
PR_SET_CHILD_SUBREAPER = 36  # of Linux's <sys/prctl.h>: orphans below become ours
PATIENCE = 1.0  # seconds for all of them to die
ENDED = (b"Z", b"X")  # states of what is dead and has only not been waited for


def adopt_orphans() -> None:
    """From now on, what this process has started is its child when it loses its own parent.

    On Linux; elsewhere, and where it is forbidden, nothing happens.
    """
    if LINUX:
        with contextlib.suppress(OSError, AttributeError, ImportError):
            _libc().prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> set[int]:
    """The children of this process; empty where the system does not say."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            with (
                contextlib.suppress(OSError),
                open(f"/proc/self/task/{thread}/children", "rb") as file,
            ):
                found.update(map(int, file.read().split()))
    return found


def kill_descendants(pid: int) -> None:
    """Kill all that a process has started, on Linux. The process itself is stopped, to start no
    more; what is to become of it is left to the caller."""
    if not LINUX:
        return
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGSTOP)
    last = time.monotonic() + PATIENCE
    while found := _descendants(pid):  # again, as what is killed may just have started another
        for one, began in found.items():
            _kill(one, began)
        if time.monotonic() > last:  # somebody else's, or stuck in the system
            return
        time.sleep(0.001)


def _descendants(pid: int) -> dict[int, bytes]:
    """The living ones, and when each began."""
    every = {}
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdecimal() and (about := _about(int(name))):
                every[int(name)] = about
    of: dict[int, list[int]] = {}
    for one, (_, parent, _) in every.items():
        of.setdefault(parent, []).append(one)
    found, left = {}, [pid]
    while left:
        for one in of.get(left.pop(), []):
            left.append(one)
            if every[one][0] not in ENDED:
                found[one] = every[one][2]
    return found


def _about(pid: int) -> tuple[bytes, int, bytes] | None:
    """Its state, its parent and when it began."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
        fields = text[text.rindex(b")") + 2 :].split()  # a name may hold anything
        return fields[0], int(fields[1]), fields[19]
    except (OSError, ValueError, IndexError):
        return None  # it has just ended


def _kill(pid: int, began: bytes) -> None:
    """Kill it, unless its number is another's by now."""
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            about = _about(pid)
            if about is not None and about[2] == began:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


@cache
def _libc() -> Any:
    import ctypes  # needed in workers that run commands only

    return ctypes.CDLL(None)
