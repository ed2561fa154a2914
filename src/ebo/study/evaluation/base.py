"""What all evaluators share: how one call of the objective ends, and results as they come.

An evaluation ends in one of four states, and none of them ends the run:

=============  ==================================================================================
`done`         a finite number
`failed`       an exception, NaN, an infinity, or something that is not a number
`timed out`    no answer after `timeout` seconds; the worker was killed
`lost`         the worker died, or Ctrl-C came before it had finished (error "interrupted")
=============  ==================================================================================

Every evaluator works in the same way (`BaseEvaluator`): results are handed out as they come, and
Ctrl-C is raised only while it waits for them, not in the middle of anything, nor while the caller
stores a result.
"""

from __future__ import annotations

import math
import pickle
import reprlib
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ebo.study.evaluation.command import CommandError
from ebo.study.evaluation.workers import Hold

Objective = Callable[[Any], Any]
Points = Sequence[Any] | NDArray[Any]
State = Literal["done", "failed", "timed out", "lost"]

LIMIT = 2_000  # characters of an error text
GRACE = 2.0  # seconds that running evaluations have after Ctrl-C
INTERRUPTED = "interrupted"


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
        return "failed", math.nan, clean(f"returned {shown(returned)}, which is not a number")
    if not math.isfinite(value):
        return "failed", math.nan, f"returned {value}"
    return "done", value, ""


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


def shown(value: Any, show: Callable[[Any], str] = reprlib.repr) -> str:
    """A value as text, whatever its own methods do."""
    try:
        return show(value)
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"


def clean(text: str) -> str:
    """Without what no database or terminal takes."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


# What all evaluators share.


class Batch:
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

    def evaluate(self, points: Points) -> Iterator[tuple[int, Evaluation]]:
        """See `Evaluator`. What is left of an earlier call is given up."""
        if self._closed:
            raise RuntimeError("the evaluator is closed; make another one")
        with Hold():
            self._give_up()
            self._batch = batch = Batch(points, self._retries)
        return self._results(batch)

    def _results(self, batch: Batch) -> Iterator[tuple[int, Evaluation]]:
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
        """End all that is running, as interrupted."""

    def _end(self) -> None:  # noqa: B027 - not all have something to end
        """End the workers."""


def lost(started: float, error: str) -> Outcome:
    """A call whose worker is gone."""
    return Outcome("lost", math.nan, error, started, time.time())


def timed_out(started: float, seconds: float | None, note: str = "") -> Outcome:
    """A call that took too long."""
    error = f"took longer than {seconds:g} s{note}"
    return Outcome("timed out", math.nan, error, started, time.time())


def check_picklable(f: Objective, who: str) -> None:
    """Raise if f cannot be sent to other processes."""
    try:
        pickle.dumps(f)
    except Exception as error:
        raise TypeError(
            f"f cannot be sent to {who}: {error}. Define it at the top level of a module, "
            f"or use how='threads'"
        ) from None
