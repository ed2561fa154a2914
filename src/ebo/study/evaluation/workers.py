"""Worker processes that may be killed: one process, one pipe, one thing at a time.

The standard library's pools break as a whole when one of their processes dies, and none of them
ends a call that takes too long. Here each worker is on its own: it can hang, be killed or end
itself, and nothing but what it was working on is concerned.

- A worker leads a process group of its own, so that whatever it has started is killed with it, and
  Ctrl-C on the terminal reaches the parent only. What has left the group, by `setsid`, is found
  from the worker where it has to be killed, on Linux (`descendants.py`).
- Nothing outlives the parent, not even after kill -9: a `Warden`, a tiny process that waits for the
  parent's end of a pipe to close, kills the groups that are left. (Linux could signal a worker when
  its parent dies, but only the worker and not the command that it runs, and also when no more
  than the parent's thread that had started it ends.)
- What a fork inherits of the parent's ends of all these pipes it closes at once; otherwise nobody
  would see them close.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import multiprocessing.reduction
import multiprocessing.util  # its hook at exit waits for our workers, so ours must come first
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings
from atexit import register
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from types import FrameType
from typing import Any
from weakref import WeakSet

import numpy as np

from ebo.study.evaluation.descendants import kill_descendants

READY = "ready"  # what a worker says when it has started,
BEGUN = "begun"  # and when it has got something to work on
PATIENCE = 1.0  # seconds that workers have to end by themselves when nothing is left to do

_inside = False
_workers: WeakSet[Worker] = WeakSet()  # of this process
_wardens: WeakSet[Warden] = WeakSet()


def inside() -> bool:
    """Whether this process is a worker, whose whole group is killed with it."""
    return _inside


class Worker:
    """A process that applies a function to one thing at a time; what comes back must be small.

    It has started when it has sent `READY`. To every `send` it answers `BEGUN`, then what the
    function returned. If it dies before it has begun, it was not for what it was sent.
    """

    def __init__(self, function: Callable[[Any], Any], method: str, warden: Warden) -> None:
        context: Any = multiprocessing.get_context(method)
        self._warden = warden
        self._pidfd: int | None = None
        self._connection: Connection
        self._connection, theirs = context.Pipe()
        _workers.add(self)  # before the fork, which closes its copy
        self._process = context.Process(target=_serve, args=(function, theirs), name="ebo worker")
        try:
            with warnings.catch_warnings():
                # Python 3.12 warns of forks beside threads. Ours hold no lock that a worker needs.
                warnings.simplefilter("ignore", DeprecationWarning)
                self._process.start()
        except BaseException:
            self._connection.close()
            raise
        finally:
            theirs.close()
        self.pid: int = self._process.pid
        with contextlib.suppress(OSError):  # it does so itself too; who comes first wins
            os.setpgid(self.pid, self.pid)
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                self._pidfd = os.pidfd_open(self.pid)
        warden.watch(self.pid)

    @property
    def handles(self) -> Sequence[Connection | int]:
        """What becomes readable when it sends something or dies; for `wait`."""
        # Children that it forked can keep multiprocessing's sentinel open, but not this one.
        death = self._process.sentinel if self._pidfd is None else self._pidfd
        return self._connection, death

    def dead(self) -> bool:
        """Whether it has died; it may still have to be read out."""
        return bool(wait([self.handles[1]], 0))

    def send(self, item: Any) -> None:
        """Give it something to work on; OSError if it is gone, else what pickling raises."""
        try:
            packed = multiprocessing.reduction.ForkingPickler.dumps(item)
        except Exception as error:
            raise pickle.PicklingError(f"cannot be sent to a worker: {error}") from error
        self._connection.send_bytes(packed)

    def receive(self) -> tuple[list[Any], bool]:
        """What it has sent by now, and whether its pipe is closed."""
        messages = []
        try:
            while self._connection.poll():
                messages.append(self._connection.recv())
        except (EOFError, OSError):
            return messages, True
        return messages, False

    def dismiss(self) -> None:
        """Let it end by itself, once it is idle."""
        self._connection.close()

    def end(self, patience: float = 0.0) -> str:
        """Kill it and all that it has started, unless it ends in time; how it ended.

        Of one that has ended by itself, only what is in its group.
        """
        if patience > 0:
            wait([self.handles[1]], patience)
        if not self.dead():
            kill_descendants(self.pid)  # also those that have left its group
        # All before the process is waited for: until then nobody else can get its number.
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(OSError):
                kill(self.pid, signal.SIGKILL)
        self._warden.forget(self.pid)
        self._process.join(5.0)  # at once, unless the system itself hangs
        how = _how_ended(self._process.exitcode)
        with contextlib.suppress(ValueError):  # somebody else has waited for it
            self._process.close()
        self._connection.close()
        self._close_pidfd()
        _workers.discard(self)
        return how

    def disown(self) -> None:
        """Close this process's copies of the parent's ends, after a fork."""
        self._connection.close()
        self._close_pidfd()

    def _close_pidfd(self) -> None:
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None


def end_all(workers: Iterable[Worker], patience: float = PATIENCE) -> None:
    """End all these workers, together no longer than `patience`."""
    workers = list(workers)
    for worker in workers:
        worker.dismiss()
    last = time.monotonic() + patience
    for worker in workers:
        worker.end(last - time.monotonic())


_WARDEN = """
import os, signal, sys
for name in ("SIGINT", "SIGTERM", "SIGHUP"):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
groups = set()
for line in sys.stdin:
    group = int(line)
    groups.add(group) if group > 0 else groups.discard(-group)
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


class Warden:
    """A process that kills the groups it watches when this process has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if sys.executable:  # else workers end only when they have finished what they do
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _WARDEN],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,
            )
        _wardens.add(self)

    def watch(self, group: int) -> None:
        """Kill this process group too."""
        self._tell(group)

    def forget(self, group: int) -> None:
        """Do not: it is dead, and its number may soon be another's."""
        self._tell(-group)

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self.disown()
            self._process.wait()
        _wardens.discard(self)

    def disown(self) -> None:
        """Close this process's end of the pipe."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def _tell(self, number: int) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):  # it was killed, or closed
                self._process.stdin.write(b"%d\n" % number)


class Hold:
    """While it is entered, Ctrl-C waits: it is raised where it is `allowed`, or at the end.

    So nothing else is left half done, and the part that waits for results can still be left. Who
    presses it a second time is not kept waiting. Outside the main thread nothing is ever raised.
    """

    def __init__(self) -> None:
        self._before: Callable[[int, FrameType | None], Any] | None = None
        self._free = False
        self._came = False

    def __enter__(self) -> Hold:
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread() and callable(before):
            self._before = before
            signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        self._free = True
        if self._before is not None and signal.getsignal(signal.SIGINT) == self._handle:
            with contextlib.suppress(ValueError):  # a generator that another thread has closed
                signal.signal(signal.SIGINT, self._before)
        self._deliver()

    @contextlib.contextmanager
    def allowed(self) -> Iterator[None]:
        """Here Ctrl-C may be raised, also one that came before."""
        self._free = True
        try:
            self._deliver()
            yield
        finally:
            self._free = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self._came = self._came, True
        if self._free or again:
            self._deliver(frame)

    def _deliver(self, frame: FrameType | None = None) -> None:
        if self._came and self._before is not None:
            self._came = False
            self._before(signal.SIGINT, frame)


def start_method() -> str:
    """How workers start: by fork on Linux, unless the user has set "spawn"; elsewhere by spawn.

    A fork takes lambdas, closures and scripts without a `__main__` guard. Elsewhere the system's
    own libraries do not survive it.
    """
    chosen = multiprocessing.get_start_method(allow_none=True)
    return "fork" if sys.platform == "linux" and chosen != "spawn" else "spawn"


# In the worker.


def _serve(function: Callable[[Any], Any], connection: Connection) -> None:
    """The life of a worker."""
    global _inside
    _inside = True
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    _reset_signals()
    _own_streams()
    np.random.seed()  # noqa: NPY002 - after a fork all would draw the same; `random` sees to itself
    os.register_at_fork(after_in_child=connection.close)  # only we may keep it open
    with contextlib.suppress(EOFError, OSError):  # nobody is there any more
        connection.send(READY)
        while True:
            packed = connection.recv_bytes()
            connection.send(BEGUN)
            result = function(pickle.loads(packed))
            _flush()
            connection.send(result)


def _reset_signals() -> None:
    """The parent's handlers are not for us. SIGINT does nothing, which commands do not inherit."""
    with contextlib.suppress(ValueError):
        signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, _nothing)


def _nothing(number: int, frame: FrameType | None) -> None:
    pass


def _own_streams() -> None:
    """Standard output and error anew, on the same files.

    A thread of the parent, of a progress bar perhaps, may have held their locks at the fork, or
    have put something in their place that would draw the bar again. What goes elsewhere stays.
    """
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        try:
            if stream.fileno() != number:
                continue
            fresh = io.TextIOWrapper(
                open(number, "wb", closefd=False),  # noqa: SIM115 - open as long as we live
                encoding=stream.encoding,
                errors=stream.errors or "backslashreplace",
                line_buffering=number == 2 or os.isatty(number),
            )
        except (AttributeError, OSError, ValueError, TypeError, LookupError):
            continue  # closed, or nothing of the system's
        setattr(sys, name, fresh)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def _how_ended(code: int | None) -> str:
    if code is None:
        return "the worker died"
    if code >= 0:
        return f"the worker exited with status {code}"
    hint = " (out of memory?)" if -code == signal.SIGKILL else ""
    return f"the worker was killed by {signal_name(-code)}{hint}"


def signal_name(number: int) -> str:
    """SIGKILL for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# In every process.


def _after_fork() -> None:
    """A child of this process keeps no end of our pipes, and ends no worker of ours."""
    owned: list[Worker | Warden] = [*_workers, *_wardens]
    for one in owned:
        with contextlib.suppress(Exception):
            one.disown()
    _workers.clear()
    _wardens.clear()


def _at_exit() -> None:
    """Evaluators that nobody closed."""
    end_all(_workers, 0.0)
    for warden in list(_wardens):
        warden.close()


os.register_at_fork(after_in_child=_after_fork)
register(_at_exit)
