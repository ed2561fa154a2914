"""Whether somebody writes a study, without taking its lock."""

from __future__ import annotations

import fcntl
import os
import struct
import sys

from ebo.study.storage import lock


def is_held(path: str) -> bool:
    """Whether the writer's lock of a study is held, by this process or another one."""
    side = os.path.realpath(f"{os.path.realpath(path)}.lock")
    if side in lock._held:  # ours; to open and close the file would give it up
        return True
    try:
        fd = os.open(side, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # it cannot be known: what the file says is taken as it stands
    try:
        if sys.platform == "linux":  # elsewhere `struct flock` has another order
            asked = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            found = fcntl.fcntl(fd, fcntl.F_GETLK, asked)
            return bool(struct.unpack("hhqqi0q", found)[0] != fcntl.F_UNLCK)
        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # for a moment
        return False
    except OSError:
        return True
    finally:
        os.close(fd)
