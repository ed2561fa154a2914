"""Calling the objective at many points side by side, whatever it does.

An evaluation ends in one of four states, and none of them ends the run:

=============  ==================================================================================
`done`         a finite number
`failed`       an exception, NaN, an infinity, or something that is not a number
`timed out`    no answer after `timeout` seconds; the worker was killed
`lost`         the worker died, or Ctrl-C came before it had finished (error "interrupted")
=============  ==================================================================================

Every evaluator works in the same way (`_Evaluator`): results are handed out as they come, and
Ctrl-C is raised only while it waits for them, not in the middle of anything, nor while the caller
stores a result. What differs is how a point gets to the objective: by worker processes of our own,
by an executor, or all at once.
"""

from __future__ import annotations

import math
import os
import pickle
import reprlib
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import wait
from queue import SimpleQueue
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ebo.study.command import CommandError
from ebo.study.workers import BEGUN, READY, Hold, Warden, Worker, end_all, start_method

Objective = Callable[[Any], Any]
Points = Sequence[Any] | NDArray[Any]
State = Literal["done", "failed", "timed out", "lost"]

LIMIT = 2_000  # characters of an error text
STILLBORN = 3  # workers in a row that die before they have started: there is no use in more
GRACE = 2.0  # seconds that running evaluations have after Ctrl-C
INTERRUPTED = "interrupted"
POLL = 0.05  # seconds between looks at an executor's futures, where there is a time-out


@dataclass(frozen=True)
class Evaluation:
    """How one evaluation ended.

    value: NaN unless it is done.
    error: what happened, the message last; "" if it is done.
    started, finished: of the last attempt, in seconds since 1970.
    attempts: how often it was tried.
    """

    state: State
    value: float
    error: str
    started: float
    finished: float
    attempts: int = 1


class Evaluator(Protocol):
    """Evaluates points; a context manager that ends its workers."""

    def __enter__(self) -> Evaluator: ...

    def __exit__(self, *exception: object) -> None: ...

    def evaluate(self, points: Points) -> Iterator[tuple[int, Evaluation]]:
        """Results as they come, each once: (index into points, how it ended)."""
        ...

    def interrupt(self, grace: float = GRACE) -> list[tuple[int, Evaluation]]:
        """Stop, after Ctrl-C: the results that `evaluate` has not handed out.

        What runs has `grace` seconds to finish; after that, or at another Ctrl-C, it is lost. What
        has not begun, or waits to be tried again, is not among the results.
        """
        ...

    def close(self) -> None:
        """End all workers."""
        ...


def evaluator(
    f: Objective,
    *,
    workers: int | Executor | None = None,
    how: str = "processes",
    timeout: float | None = None,
    retries: int = 0,
) -> Evaluator:
    """Something that evaluates f at many points; use it by `with`.

    f: takes one point, an array (D,) or a dict, and returns a number; with how="vectorized" it
        takes all of them, an array (n, D) or a list of dicts, and returns (n,).
    workers: a number of processes or threads, by default one a core; or an executor of
        `concurrent.futures`, which stays open.
    how: "processes", "threads" (what f calls should release the interpreter's lock) or
        "vectorized", one call in this process.
    timeout: seconds that one call may take; then its process is killed, with all it has started.
        Threads cannot be killed. Neither can the calls of an executor, which are given up: they go
        on in its workers, and when all of these are taken the other points are lost.
    retries: how often an evaluation that is not done is tried again.

    On Linux processes are forked when first needed: f may be a lambda or a closure, and has the
    state that it had then. Elsewhere, or after `multiprocessing.set_start_method("spawn")`, f
    must be importable. Each process may use all cores for linear algebra; where that is too much,
    set OMP_NUM_THREADS=1 or use threadpoolctl within f. Libraries with threads of GNU OpenMP do not
    survive a fork once used in this process: import them in f, or spawn.
    """
    if not callable(f):
        raise TypeError(f"f is {f!r}; give a function")
    if how not in ("processes", "threads", "vectorized"):
        raise ValueError(f"how is {how!r}; give 'processes', 'threads' or 'vectorized'")
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise ValueError(f"retries is {retries!r}; give a whole number of at least 0")
    if timeout is not None and not (_is_real(timeout) and 0 < timeout < math.inf):
        raise ValueError(f"timeout is {timeout!r}; give a positive number of seconds, or None")
    if how == "vectorized":
        if timeout is not None or workers is not None:
            raise ValueError(
                "how='vectorized' is one call in this process, which can neither be timed out nor "
                "shared; leave timeout and workers out, or use how='processes'"
            )
        return _Vectorized(f, retries)
    if isinstance(workers, Executor):
        return _ByExecutor(f, workers, timeout, retries)
    if workers is None:
        workers = os.cpu_count() or 1
    if isinstance(workers, bool) or not isinstance(workers, int | np.integer) or workers < 1:
        raise ValueError(
            f"workers is {workers!r}; give at least 1, an executor, or None for one a core"
        )
    if how == "processes":
        return _Processes(f, int(workers), timeout, retries)
    if timeout is not None:
        raise ValueError(
            "a thread cannot be killed, so how='threads' has no timeout; use how='processes'"
        )
    return _ByExecutor(f, _Threads(int(workers)), None, retries, own=True)


# One call.


class Outcome(NamedTuple):
    """How one call ended; small, and of plain types."""

    state: State
    value: float
    error: str
    started: float
    finished: float


def measured(f: Objective, point: Any) -> Outcome:
    """Call f, whatever it does."""
    started = time.time()
    try:
        returned = f(point)
    except KeyboardInterrupt:  # the terminal's Ctrl-C reaches an executor's processes too
        return Outcome("lost", math.nan, INTERRUPTED, started, time.time())
    except BaseException as error:
        return Outcome("failed", math.nan, described(error), started, time.time())
    return Outcome(*judged(returned), started, time.time())


def judged(returned: Any) -> tuple[State, float, str]:
    """State, value and error of what an objective has returned."""
    try:
        array = np.asarray(returned)
        if array.size != 1 or array.dtype.kind not in "fiubO":
            raise TypeError
        item = array.reshape(()).item()
        if isinstance(item, str | bytes) or item is None:
            raise TypeError
        value = float(item)
    except Exception:
        return "failed", math.nan, _clean(f"returned {_shown(returned)}, which is not a number")
    if not math.isfinite(value):
        return "failed", math.nan, f"returned {value}"
    return "done", value, ""


def described(error: BaseException, trace: bool = True) -> str:
    """The end of the traceback, if it is of the objective, then "TypeName: message"."""
    if isinstance(error, CommandError):  # where it was raised says nothing
        said, before = error.summary, error.stderr
    else:
        said = _shown(error, str)
        frames = error.__traceback__.tb_next if trace and error.__traceback__ else None  # not ours
        before = "".join(traceback.format_tb(frames, limit=-20)).rstrip()
    message = _clean(f"{type(error).__name__}: {said}".removesuffix(": "))
    if len(message) > LIMIT // 2:
        message = f"{message[: LIMIT // 2 - 4]} ..."
    before = _clean(before)[-(LIMIT - len(message) - 1) :]
    return f"{before}\n{message}" if before else message


def _shown(value: Any, show: Callable[[Any], str] = reprlib.repr) -> str:
    try:
        return show(value)
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"


def _clean(text: str) -> str:
    """Without what no database or terminal takes."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def _is_real(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


# What all evaluators share.


class _Batch:
    """The points of one call of `evaluate`: waiting, with an evaluator, or ready."""

    def __init__(self, points: Points, retries: int) -> None:
        self.points = points
        self.waiting = deque(range(len(points)))
        self.ready: deque[tuple[int, Evaluation]] = deque()
        self.left = len(points)  # not ready yet
        self.began = time.monotonic()
        self._attempts = [0] * len(points)
        self._retries = retries

    def take(self) -> int:
        """The next that waits; it is tried once more."""
        index = self.waiting.popleft()
        self._attempts[index] += 1
        return index

    def put_back(self, index: int) -> None:
        """It has not been tried after all."""
        self._attempts[index] -= 1
        self.waiting.appendleft(index)

    def settle(self, index: int, outcome: Outcome, final: bool = False) -> None:
        """It has ended; if it may be tried again, it waits."""
        attempts = self._attempts[index]
        if outcome.state != "done" and attempts <= self._retries and not final:
            self.waiting.append(index)
            return
        self.left -= 1
        self.ready.append((index, Evaluation(*outcome, attempts=attempts)))


class _Evaluator(ABC):
    """Results of one batch at a time."""

    def __init__(self, retries: int) -> None:
        self._retries = retries
        self._batch: _Batch | None = None
        self._closed = False

    def __enter__(self) -> _Evaluator:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def evaluate(self, points: Points) -> Iterator[tuple[int, Evaluation]]:
        """See `Evaluator`. What is left of an earlier call is given up."""
        if self._closed:
            raise RuntimeError("the evaluator is closed; make another one")
        with Hold():
            self._give_up()
            self._batch = batch = _Batch(points, self._retries)
        return self._results(batch)

    def _results(self, batch: _Batch) -> Iterator[tuple[int, Evaluation]]:
        with Hold() as hold:
            while batch.left or batch.ready:
                if batch is not self._batch:
                    raise RuntimeError("these evaluations were given up; evaluate again")
                if batch.ready:
                    yield batch.ready.popleft()
                else:
                    self._advance(batch, hold)

    def interrupt(self, grace: float = GRACE) -> list[tuple[int, Evaluation]]:
        """See `Evaluator`."""
        batch, end = self._batch, time.monotonic() + grace
        if batch is None:
            return []
        try:
            with Hold() as hold:
                self._hold_back(batch)
                while self._busy() and (rest := end - time.monotonic()) > 0:
                    self._advance(batch, hold, rest)
                    batch.waiting.clear()  # what has failed would be tried again
        except KeyboardInterrupt:
            pass
        with Hold():
            self._give_up()
        return list(batch.ready)

    def close(self) -> None:
        """See `Evaluator`."""
        with Hold():
            self._closed = True
            self._give_up()
            self._end()

    def _give_up(self) -> None:
        """Have done with the batch; what is still running is lost."""
        if self._batch is not None:
            self._abandon(self._batch)
            self._batch = None

    def _hold_back(self, batch: _Batch) -> None:
        """Begin nothing more."""
        batch.waiting.clear()

    @abstractmethod
    def _busy(self) -> bool:
        """Whether anything is running."""

    @abstractmethod
    def _advance(self, batch: _Batch, hold: Hold, longest: float | None = None) -> None:
        """Begin what can begin, wait until something happens, and settle what has ended."""

    @abstractmethod
    def _abandon(self, batch: _Batch) -> None:
        """End all that is running, as interrupted."""

    def _end(self) -> None:  # noqa: B027 - not all have something to end
        """End the workers."""


def _lost(started: float, error: str) -> Outcome:
    return Outcome("lost", math.nan, error, started, time.time())


def _timed_out(started: float, seconds: float | None, note: str = "") -> Outcome:
    error = f"took longer than {seconds:g} s{note}"
    return Outcome("timed out", math.nan, error, started, time.time())


# Worker processes.


@dataclass(eq=False)
class _Post:
    """One worker and what it is doing."""

    worker: Worker
    ready: bool = False
    begun: bool = False
    index: int | None = None
    started: float = 0.0
    deadline: float = field(default=math.inf)  # on the monotonic clock


class _Processes(_Evaluator):
    """Processes of our own, replaced when they die or have to be killed."""

    def __init__(
        self,
        f: Objective,
        count: int,
        timeout: float | None,
        retries: int,
        method: str | None = None,
    ) -> None:
        super().__init__(retries)
        self._count, self._timeout = count, timeout
        self._function = partial(measured, f)
        self._method = start_method() if method is None else method
        self._posts: list[_Post] = []
        self._warden: Warden | None = None
        self._stillborn = 0
        if self._method != "fork":
            _check_picklable(f, "worker processes that are not forked")

    def _busy(self) -> bool:
        return any(post.index is not None for post in self._posts)

    def _advance(self, batch: _Batch, hold: Hold, longest: float | None = None) -> None:
        known = len(batch.ready)
        self._hire(batch)
        self._assign(batch)
        if len(batch.ready) > known:
            return
        whose = {handle: post for post in self._posts for handle in post.worker.handles}
        deadline = min((post.deadline for post in self._posts), default=math.inf)
        patience = min(deadline - time.monotonic(), math.inf if longest is None else longest)
        with hold.allowed():
            signs = wait(list(whose), None if patience == math.inf else max(0.0, patience))
        touched = {id(whose[sign]): whose[sign] for sign in signs}  # type: ignore[index]
        for post in touched.values():
            self._collect(batch, post)
        now = time.monotonic()
        for post in [post for post in self._posts if post.deadline <= now]:
            if id(post) not in touched:
                self._collect(batch, post)  # it may just have finished
            if post.index is not None and post.deadline <= now:
                self._dismiss(post)
                batch.settle(post.index, _timed_out(post.started, self._timeout))

    def _hire(self, batch: _Batch) -> None:
        """As many workers as there is work for."""
        busy = sum(post.index is not None for post in self._posts)
        while len(self._posts) < min(self._count, busy + len(batch.waiting)):
            if self._warden is None:
                self._warden = Warden()
            self._posts.append(_Post(Worker(self._function, self._method, self._warden)))

    def _assign(self, batch: _Batch) -> None:
        """A point for every worker that has none."""
        for post in self._posts:
            if not batch.waiting:
                return
            if not post.ready or post.index is not None or post.worker.dead():
                continue
            index, now = batch.waiting[0], time.time()
            try:
                post.worker.send(batch.points[index])
            except OSError:
                continue  # it has just died, which `_collect` sees
            except pickle.PicklingError as error:
                outcome = Outcome("failed", math.nan, described(error, False), now, time.time())
                batch.settle(batch.take(), outcome, final=True)
                continue
            post.index, post.started, post.begun = batch.take(), now, False
            if self._timeout is not None:
                post.deadline = time.monotonic() + self._timeout

    def _collect(self, batch: _Batch, post: _Post) -> None:
        """What a worker has sent, or how it died."""
        messages, closed = post.worker.receive()
        for message in messages:
            if message == READY:
                post.ready, self._stillborn = True, 0
            elif message == BEGUN:
                post.begun = True
            elif post.index is not None:
                batch.settle(post.index, message)
                post.index, post.deadline = None, math.inf
        if not (closed or post.worker.dead()):
            return
        how = self._dismiss(post, 0.5 if closed else 0.0)  # the pipe closes before the process ends
        if post.index is not None:
            if post.begun:
                batch.settle(post.index, _lost(post.started, how))
            else:
                batch.put_back(post.index)
            post.index, post.deadline = None, math.inf
        if not post.ready:
            self._stillborn += 1
            if self._stillborn >= STILLBORN:
                self._stillborn = 0
                raise RuntimeError(
                    f"worker processes do not start: {how}. What they wrote to standard error says "
                    f"why; how='threads' does without them"
                )

    def _dismiss(self, post: _Post, patience: float = 0.0) -> str:
        self._posts.remove(post)
        return post.worker.end(patience)

    def _abandon(self, batch: _Batch) -> None:
        for post in [post for post in self._posts if post.index is not None]:
            self._dismiss(post)
            if post.index is not None:
                batch.settle(post.index, _lost(post.started, INTERRUPTED), final=True)

    def _end(self) -> None:
        end_all(post.worker for post in self._posts)
        self._posts.clear()
        if self._warden is not None:
            self._warden.close()
            self._warden = None


def _check_picklable(f: Objective, who: str) -> None:
    try:
        pickle.dumps(f)
    except Exception as error:
        raise TypeError(
            f"f cannot be sent to {who}: {error}. Define it at the top level of a module, "
            f"or use how='threads'"
        ) from None


# Executors, and threads.


@dataclass
class _Call:
    """A point that an executor has."""

    index: int
    submitted: float
    began: float | None = None  # seen running, on the monotonic clock


class _ByExecutor(_Evaluator):
    """An executor of `concurrent.futures`; `own` if it ends with us."""

    def __init__(
        self,
        f: Objective,
        executor: Executor,
        timeout: float | None,
        retries: int,
        own: bool = False,
    ) -> None:
        super().__init__(retries)
        if isinstance(executor, ProcessPoolExecutor):
            _check_picklable(f, "an executor's processes")
        self._function = partial(measured, f)
        self._executor, self._timeout, self._own = executor, timeout, own
        # No more at once than it can run, so that a call's time is not spent in a queue.
        self._slots: float = getattr(executor, "_max_workers", None) or math.inf
        self._calls: dict[Future[Outcome], _Call] = {}
        self._stuck: dict[Future[Outcome], None] = {}  # given up, but still in a worker
        self._event = threading.Event()
        self._moved = time.monotonic()  # when something last began or ended

    def _busy(self) -> bool:
        return bool(self._calls)

    def _advance(self, batch: _Batch, hold: Hold, longest: float | None = None) -> None:
        known = len(batch.ready)
        self._submit(batch)
        if len(batch.ready) > known:
            return
        if self._timeout is not None:
            longest = min(POLL if longest is None else longest, POLL)
        with hold.allowed():
            self._event.wait(longest)
        self._event.clear()
        self._collect(batch)

    def _submit(self, batch: _Batch) -> None:
        while batch.waiting and len(self._calls) + len(self._stuck) < self._slots:
            index, now = batch.take(), time.time()
            try:
                future = self._executor.submit(self._function, _copied(batch.points[index]))
            except BrokenExecutor as error:
                batch.settle(index, _lost(now, described(error, False)))
                continue
            self._calls[future] = _Call(index, now)
            future.add_done_callback(lambda _: self._event.set())

    def _collect(self, batch: _Batch) -> None:
        now = time.monotonic()
        for future in [future for future in self._stuck if future.done()]:
            del self._stuck[future]
            self._moved = now
        for future, call in list(self._calls.items()):
            if future.done():
                del self._calls[future]
                self._moved = now
                batch.settle(call.index, _outcome(future, call.submitted))
            elif self._timeout is None or not future.running():
                continue
            elif call.began is None:
                call.began = self._moved = now
            elif now - call.began > self._timeout:
                del self._calls[future]
                self._stuck[future] = None
                note = "; its executor cannot kill it, and it still runs"
                batch.settle(call.index, _timed_out(call.submitted, self._timeout, note))
        self._despair(batch, now)

    def _despair(self, batch: _Batch, now: float) -> None:
        """Where calls that were given up hold all workers, what waits will never begin."""
        running = any(call.began is not None for call in self._calls.values())
        if self._timeout is None or not self._stuck or running:
            return
        if now - max(self._moved, batch.began) <= 2 * self._timeout:  # their own, and one more
            return
        error = f"no worker is free: {len(self._stuck)} evaluations that timed out still run"
        for future, call in list(self._calls.items()):
            if future.cancel():
                del self._calls[future]
                batch.settle(call.index, _lost(call.submitted, error), final=True)
        while batch.waiting:
            batch.settle(batch.take(), _lost(time.time(), error), final=True)

    def _hold_back(self, batch: _Batch) -> None:
        super()._hold_back(batch)
        for future in [future for future in self._calls if future.cancel()]:
            del self._calls[future]

    def _abandon(self, batch: _Batch) -> None:
        self._hold_back(batch)
        self._collect(batch)
        for future, call in self._calls.items():
            self._stuck[future] = None
            batch.settle(call.index, _lost(call.submitted, INTERRUPTED), final=True)
        self._calls.clear()

    def _end(self) -> None:
        if self._own:
            self._executor.shutdown(wait=False, cancel_futures=True)


def _outcome(future: Future[Outcome], submitted: float) -> Outcome:
    try:
        return Outcome(*future.result())
    except (BrokenExecutor, CancelledError) as error:
        return _lost(submitted, described(error, False))
    except BaseException as error:  # on the way there or back
        return Outcome("failed", math.nan, described(error, False), submitted, time.time())


def _copied(point: Any) -> Any:
    """The objective may change what it gets."""
    return point.copy() if isinstance(point, np.ndarray | dict) else point


class _Threads(Executor):
    """Threads that do not keep the interpreter from ending, as those of the standard library do."""

    def __init__(self, count: int) -> None:
        self._max_workers = count
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._started = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call fn in one of the threads."""
        future: Future[Any] = Future()

        def task() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:
                    future.set_exception(error)

        self._tasks.put(task)
        if self._started < self._max_workers:
            self._started += 1
            threading.Thread(target=self._work, name="ebo worker", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the threads end when they have finished what they do."""
        for _ in range(self._started):
            self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
            del task  # and the point in it


# All at once.


class _Vectorized(_Evaluator):
    """One call for all points."""

    def __init__(self, f: Objective, retries: int) -> None:
        super().__init__(retries)
        self._f = f
        self._running: list[int] = []
        self._started = 0.0

    def _busy(self) -> bool:
        return False  # when Ctrl-C was raised, it was raised in f

    def _advance(self, batch: _Batch, hold: Hold, longest: float | None = None) -> None:
        self._running = [batch.take() for _ in range(len(batch.waiting))]
        self._started = time.time()
        points: Any = batch.points
        if isinstance(points, np.ndarray):
            points = points[self._running]
        else:
            points = [_copied(points[index]) for index in self._running]
        try:
            with hold.allowed():
                returned = self._f(points)
        except Exception as error:
            results: list[tuple[State, float, str]] = [("failed", math.nan, described(error))]
            results *= len(self._running)
        else:
            results = [judged(value) for value in _checked(returned, len(self._running))]
        running, self._running = self._running, []
        for index, result in zip(running, results, strict=True):
            batch.settle(index, Outcome(*result, self._started, time.time()))

    def _abandon(self, batch: _Batch) -> None:
        for index in self._running:
            batch.settle(index, _lost(self._started, INTERRUPTED), final=True)
        self._running = []


def _checked(returned: Any, n: int) -> Any:
    try:
        values = np.asarray(returned)
    except ValueError:  # rows of different lengths
        values = np.empty(0, dtype=np.object_)
    if values.shape != (n,) or values.dtype.kind not in "fiubO":
        raise ValueError(
            f"with how='vectorized' f must return ({n},) numbers for {n} points; it returned "
            f"{_clean(_shown(returned))} of shape {values.shape}"
        )
    return values
