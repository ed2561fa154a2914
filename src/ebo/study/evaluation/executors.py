"""Evaluators without worker processes of our own: executors, threads, and this process itself."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np

from ebo.study.evaluation.base import (
    BaseEvaluator,
    Batch,
    Objective,
    check_picklable,
    clean,
    copied,
    described,
    judged,
    lost,
    measured,
    raised,
    timed_out,
)
from ebo.study.evaluation.workers import Hold
from ebo.study.storage.trial import Evaluation
from ebo.values import check_values, shown

POLL = 0.05  # seconds between looks at an executor's futures, where there is a time-out


# Executors, and threads.


@dataclass
class _Call:
    """A point that an executor has."""

    index: int
    submitted: float
    began: float | None = None  # seen running, on the monotonic clock


class ByExecutor(BaseEvaluator):
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
            check_picklable(f, "an executor's processes")
        self._function = partial(measured, f)
        self._executor, self._timeout, self._own = executor, timeout, own
        # No more at once than it can run, so that a call's time is not spent in a queue.
        self._slots: float = getattr(executor, "_max_workers", None) or math.inf
        self._calls: dict[Future[Evaluation], _Call] = {}
        self._stuck: dict[Future[Evaluation], None] = {}  # given up, but still in a worker
        self._event = threading.Event()
        self._moved = time.monotonic()  # when something last began or ended

    def _busy(self) -> bool:
        return bool(self._calls)

    def _advance(self, batch: Batch, hold: Hold, longest: float | None = None) -> None:
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

    def _submit(self, batch: Batch) -> None:
        while batch.waiting and len(self._calls) + len(self._stuck) < self._slots:
            index, now = batch.take(), time.time()
            try:
                future = self._executor.submit(self._function, copied(batch.points[index]))
            except BrokenExecutor as error:
                batch.settle(index, lost(now, described(error, False)))
                continue
            self._calls[future] = _Call(index, now)
            future.add_done_callback(lambda _: self._event.set())

    def _collect(self, batch: Batch) -> None:
        now = time.monotonic()
        for future in [future for future in self._stuck if future.done()]:
            del self._stuck[future]
            self._moved = now
        for future, call in list(self._calls.items()):
            if future.done():
                del self._calls[future]
                self._moved = now
                batch.settle(call.index, _result(future, call.submitted))
            elif self._timeout is None or not future.running():
                continue
            elif call.began is None:
                call.began = self._moved = now
            elif now - call.began > self._timeout:
                del self._calls[future]
                self._stuck[future] = None
                note = "; its executor cannot kill it, and it still runs"
                batch.settle(call.index, timed_out(call.submitted, self._timeout, note))
        self._despair(batch, now)

    def _despair(self, batch: Batch, now: float) -> None:
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
                batch.settle(call.index, lost(call.submitted, error), final=True)
        while batch.waiting:
            batch.settle(batch.take(), lost(time.time(), error), final=True)

    def _hold_back(self, batch: Batch) -> None:
        super()._hold_back(batch)
        for future in [future for future in self._calls if future.cancel()]:
            del self._calls[future]

    def _abandon(self, batch: Batch) -> None:
        self._hold_back(batch)
        self._collect(batch)
        self._stuck |= dict.fromkeys(self._calls)
        self._calls.clear()

    def _end(self) -> None:
        if self._own:
            self._executor.shutdown(wait=False, cancel_futures=True)


def _result(future: Future[Evaluation], submitted: float) -> Evaluation:
    try:
        return future.result()
    except (BrokenExecutor, CancelledError) as error:
        return lost(submitted, described(error, False))
    except BaseException as error:  # on the way there or back
        return raised(error, submitted, trace=False)


class Threads(Executor):
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


# In this process.


class _Here(BaseEvaluator):
    """Calls in this thread. Ctrl-C comes in the middle of one, which then has not been made."""

    def __init__(self, f: Objective, retries: int) -> None:
        super().__init__(retries)
        self._f = f

    def _busy(self) -> bool:
        return False

    def _abandon(self, batch: Batch) -> None:
        pass


class OneByOne(_Here):
    """One call for each point."""

    def _advance(self, batch: Batch, hold: Hold, longest: float | None = None) -> None:
        index = batch.take()
        with hold.allowed():
            evaluation = measured(self._f, copied(batch.points[index]))
        if isinstance(evaluation.exception, KeyboardInterrupt):
            raise evaluation.exception
        batch.settle(index, evaluation)


class Vectorized(_Here):
    """One call for all points."""

    def _advance(self, batch: Batch, hold: Hold, longest: float | None = None) -> None:
        running = [batch.take() for _ in range(len(batch.waiting))]
        points: Any = batch.points
        if isinstance(points, np.ndarray):
            points = points[running]
        else:
            points = [copied(points[index]) for index in running]
        started = time.time()
        try:
            with hold.allowed():
                returned = self._f(points)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            evaluations = [raised(error, started)] * len(running)
        else:
            evaluations = [judged(value, started) for value in _each(returned, len(running))]
        for index, evaluation in zip(running, evaluations, strict=True):
            batch.settle(index, evaluation)


def _each(returned: Any, n: int) -> Any:
    """What was returned for n points, if it is that; else it is a mistake, which ends the run."""
    try:
        check_values(returned, n)
    except ValueError as error:
        raise ValueError(
            f"with vectorized=True f must return ({n},) numbers for {n} points; it returned "
            f"{clean(shown(returned))} ({error})"
        ) from None
    return returned
