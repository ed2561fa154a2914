"""What all evaluators share: how one call of the objective ends, and results as they come.

How an evaluation can end is listed at `TrialState`; none of these ends the run. Every evaluator
works in the same way (`BaseEvaluator`). Results are handed out as they come. Ctrl-C is raised only
while the evaluator waits for results: never in the middle of anything else, nor while the caller
stores a result.
"""

from __future__ import annotations

import pickle
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ebo.study.evaluation.command import CommandError
from ebo.study.evaluation.workers import Hold
from ebo.study.storage.trial import Evaluation, TrialState
from ebo.values import number_of, shown

Objective = Callable[[Any], Any]
Points = Sequence[Any] | NDArray[Any]
Results = list[tuple[int, Evaluation]]  # index into the points, and how it ended

LIMIT = 2_000  # characters of an error text: the end of a traceback, and a few lines of output
GRACE = 2.0  # seconds that running evaluations have after Ctrl-C: as long as people wait for it


class Evaluator(Protocol):
    """Evaluates points; a context manager that ends its workers."""

    def __enter__(self) -> Evaluator: ...

    def __exit__(self, *exception: object) -> None: ...

    def evaluate(self, points: Points) -> Iterator[Results]:
        """Results as they come, each once; together those that are there together."""
        ...

    def interrupt(self, grace: float = GRACE) -> Results:
        """Stop: the results that `evaluate` has not handed out.

        What runs has `grace` seconds to finish, until another Ctrl-C. Only values count then: what
        fails may have failed by Ctrl-C itself. All other points have no result, as if they had
        never begun.
        """
        ...

    def close(self) -> None:
        """End all workers."""
        ...


# One call.


def measured(f: Objective, point: Any) -> Evaluation:
    """Call f, whatever it does."""
    started = time.time()
    try:
        returned = f(point)
    except BaseException as error:
        return raised(error, started)
    return judged(returned, started)


def judged(returned: Any, started: float) -> Evaluation:
    """How a call ended that has just returned something."""
    value, error = number_of(returned)
    state = TrialState.FAILED if error else TrialState.DONE
    return Evaluation(state, value, clean(error), started, time.time())


def raised(error: BaseException, started: float, trace: bool = True) -> Evaluation:
    """How a call ended that has just raised an exception."""
    text = described(error, trace)
    return Evaluation(
        TrialState.FAILED, error=text, started=started, finished=time.time(), exception=error
    )


def lost(started: float, error: str) -> Evaluation:
    """How a call ended whose worker is gone."""
    return Evaluation(TrialState.LOST, error=error, started=started, finished=time.time())


def timed_out(started: float, seconds: float | None, note: str = "") -> Evaluation:
    """How a call ended that took too long."""
    error = f"took longer than {seconds:g} s{note}"
    return Evaluation(TrialState.TIMED_OUT, error=error, started=started, finished=time.time())


def described(error: BaseException, trace: bool = True) -> str:
    """The end of the traceback, if it is of the objective, then "TypeName: message"."""
    if isinstance(error, CommandError):  # where it was raised says nothing
        said, before = error.summary, error.stderr
    else:
        said = shown(error, str)
        frames = error.__traceback__.tb_next if trace and error.__traceback__ else None  # not ours
        before = "".join(traceback.format_tb(frames, limit=-20)).rstrip()
    message = clean(f"{type(error).__name__}: {said}".removesuffix(": "))
    if len(message) > LIMIT // 2:
        message = f"{message[: LIMIT // 2 - 4]} ..."
    before = clean(before)[-(LIMIT - len(message) - 1) :]
    return f"{before}\n{message}" if before else message


def clean(text: str) -> str:
    """Without what no database or terminal takes."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


# What all evaluators share.


class Batch:
    """The points of one call of `evaluate`: waiting, with an evaluator, or ready."""

    def __init__(self, points: Points, retries: int) -> None:
        self.points = points
        self.waiting = deque(range(len(points)))
        self.ready: Results = []
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

    def settle(self, index: int, evaluation: Evaluation, final: bool = False) -> None:
        """It has ended; if it may be tried again, it waits."""
        attempts, done = self._attempts[index], evaluation.state is TrialState.DONE
        if not done and attempts <= self._retries and not final:
            self.waiting.append(index)
            return
        self.left -= 1
        self.ready.append((index, replace(evaluation, attempts=attempts)))


class BaseEvaluator(ABC):
    """Results of one batch at a time."""

    def __init__(self, retries: int) -> None:
        self._retries = retries
        self._batch: Batch | None = None
        self._closed = False

    def __enter__(self) -> BaseEvaluator:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def evaluate(self, points: Points) -> Iterator[Results]:
        """See `Evaluator`. What is left of an earlier call is given up."""
        if self._closed:
            raise RuntimeError("the evaluator is closed; make another one")
        with Hold():
            self._give_up()
            self._batch = batch = Batch(points, self._retries)
        return self._results(batch)

    def _results(self, batch: Batch) -> Iterator[Results]:
        with Hold() as hold:
            while batch.left or batch.ready:
                if batch is not self._batch:
                    raise RuntimeError("these evaluations were given up; evaluate again")
                if batch.ready:
                    results, batch.ready = batch.ready, []
                    yield results
                else:
                    self._advance(batch, hold)

    def interrupt(self, grace: float = GRACE) -> Results:
        """See `Evaluator`."""
        batch, end = self._batch, time.monotonic() + grace
        if batch is None:
            return []
        before = len(batch.ready)
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
        late = [result for result in batch.ready[before:] if result[1].state is TrialState.DONE]
        return batch.ready[:before] + late

    def close(self) -> None:
        """See `Evaluator`."""
        with Hold():
            self._closed = True
            self._give_up()
            self._end()

    def _give_up(self) -> None:
        """Have done with the batch, and with what is still running."""
        if self._batch is not None:
            self._abandon(self._batch)
            self._batch = None

    def _hold_back(self, batch: Batch) -> None:
        """Begin nothing more."""
        batch.waiting.clear()

    @abstractmethod
    def _busy(self) -> bool:
        """Whether anything is running."""

    @abstractmethod
    def _advance(self, batch: Batch, hold: Hold, longest: float | None = None) -> None:
        """Begin what can begin, wait until something happens, and settle what has ended."""

    @abstractmethod
    def _abandon(self, batch: Batch) -> None:
        """End all that is running; what has ended just now is settled."""

    def _end(self) -> None:  # noqa: B027 - not all have something to end
        """End the workers."""


def copied(point: Any) -> Any:
    """The objective may change what it gets."""
    return point.copy() if isinstance(point, np.ndarray | dict) else point


def check_picklable(f: Objective, who: str) -> None:
    """Raise if f cannot be sent to other processes."""
    try:
        pickle.dumps(f)
    except Exception as error:
        raise TypeError(
            f"f cannot be sent to {who}: {error}. Define it at the top level of a module, "
            f"or use how='threads'"
        ) from None
