"""Calling the objective at many points side by side, whatever it does.

How an evaluation can end is listed at `TrialState`, and what all evaluators share is in `base.py`.
What differs is how a point gets to the objective: to worker processes of our own, here; or to an
executor, to threads, or to a call in this process, in `executors.py`.
"""

from __future__ import annotations

import math
import os
import pickle
import sys
import time
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import wait

import numpy as np

from ebo.study.evaluation.base import (
    BaseEvaluator,
    Batch,
    Evaluator,
    Objective,
    check_picklable,
    lost,
    measured,
    raised,
    timed_out,
)
from ebo.study.evaluation.executors import ByExecutor, OneByOne, Threads, Vectorized
from ebo.study.evaluation.workers import BEGUN, READY, Hold, Warden, Worker, end_all, start_method

STILLBORN = 3  # workers in a row that die before they have started: there is no use in more


def evaluator(
    f: Objective,
    *,
    workers: int | None = 1,
    executor: Executor | None = None,
    how: str | None = None,
    timeout: float | None = None,
    retries: int = 0,
) -> Evaluator:
    """Something that evaluates f at many points; use it by `with`.

    f: takes one point, an array (D,) or a dict, and returns a number; with how="vectorized" it
        takes all of them, an array (n, D) or a list of dicts, and returns (n,).
    workers: how many processes or threads; None for as many as there are usable cores.
    executor: has the workers instead. It is anything with the `submit` of `concurrent.futures`,
        and it stays open.
    how: "processes", "threads" (what f calls should release the interpreter's lock) or
        "vectorized", one call in this process. None calls f in this process where there is one
        worker and no timeout, so that f can be anything; else it means processes.
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
    if how not in (None, "processes", "threads", "vectorized"):
        raise ValueError(f"how is {how!r}; give 'processes', 'threads' or 'vectorized'")
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise ValueError(f"retries is {retries!r}; give a whole number of at least 0")
    if timeout is not None and not (_is_real(timeout) and 0 < timeout < math.inf):
        raise ValueError(f"timeout is {timeout!r}; give a positive number of seconds, or None")
    if workers is not None and (
        isinstance(workers, bool) or not isinstance(workers, int | np.integer) or workers < 1
    ):
        raise ValueError(
            f"workers is {workers!r}; give a whole number of at least 1, or None for all cores"
        )
    if how == "vectorized":
        if timeout is not None or workers != 1 or executor is not None:
            raise ValueError(
                "a vectorized f is one call in this process, which can neither be timed out nor "
                "shared; leave timeout, workers and executor out"
            )
        return Vectorized(f, retries)
    if executor is not None:
        if not callable(getattr(executor, "submit", None)):
            raise TypeError(
                f"executor is {executor!r}; give one of concurrent.futures, or anything else that "
                f"has its submit"
            )
        if workers != 1 or how is not None:
            raise ValueError("executor has its own workers; leave workers and how out")
        return ByExecutor(f, executor, timeout, retries)
    count = usable_cores() if workers is None else int(workers)
    if how == "threads":
        if timeout is not None:
            raise ValueError(
                "a thread cannot be killed, so how='threads' has no timeout; use how='processes'"
            )
        return ByExecutor(f, Threads(count), None, retries, own=True)
    if how is None and count == 1 and timeout is None:
        return OneByOne(f, retries)
    return _Processes(f, count, timeout, retries)


def usable_cores() -> int:
    """How many cores this process may use."""
    if sys.platform == "linux":  # where it may have been given some of them only
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _is_real(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


@dataclass(eq=False)
class _Post:
    """One worker and what it is doing."""

    worker: Worker
    ready: bool = False
    begun: bool = False
    index: int | None = None
    started: float = 0.0
    deadline: float = field(default=math.inf)  # on the monotonic clock


class _Processes(BaseEvaluator):
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
            check_picklable(f, "worker processes that are not forked")

    def _busy(self) -> bool:
        return any(post.index is not None for post in self._posts)

    def _advance(self, batch: Batch, hold: Hold, longest: float | None = None) -> None:
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
                batch.settle(post.index, timed_out(post.started, self._timeout))

    def _hire(self, batch: Batch) -> None:
        """As many workers as there is work for."""
        busy = sum(post.index is not None for post in self._posts)
        while len(self._posts) < min(self._count, busy + len(batch.waiting)):
            if self._warden is None:
                self._warden = Warden()
            self._posts.append(_Post(Worker(self._function, self._method, self._warden)))

    def _assign(self, batch: Batch) -> None:
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
                batch.settle(batch.take(), raised(error, now, trace=False), final=True)
                continue
            post.index, post.started, post.begun = batch.take(), now, False
            if self._timeout is not None:
                post.deadline = time.monotonic() + self._timeout

    def _collect(self, batch: Batch, post: _Post) -> None:
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
                batch.settle(post.index, lost(post.started, how))
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

    def _abandon(self, batch: Batch) -> None:
        for post in [post for post in self._posts if post.index is not None]:
            self._dismiss(post)

    def _end(self) -> None:
        end_all(post.worker for post in self._posts)
        self._posts.clear()
        if self._warden is not None:
            self._warden.close()
            self._warden = None
