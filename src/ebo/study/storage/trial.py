"""One trial of a study: what has become of it, and how its evaluation ended."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from ebo.arrays import Floats


class TrialState(IntEnum):
    """What has become of a trial. The numbers are those in the file.

    =============  ==============================================================================
    `waiting`      it is to be evaluated
    `running`      its evaluation has begun
    `done`         the objective returned a finite number
    `failed`       it raised an exception, or returned NaN, an infinity or no number
    `timed out`    it gave no answer in the time it had, and was stopped
    `lost`         the process that evaluated it died
    =============  ==============================================================================
    """

    WAITING = 0
    RUNNING = 1
    DONE = 2
    FAILED = 3
    TIMED_OUT = 4
    LOST = 5

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")

    @property
    def finished(self) -> bool:
        """Whether nothing more is to come."""
        return self >= TrialState.DONE


ENDS = tuple(state for state in TrialState if state.finished)
FAILURES = tuple(state for state in ENDS if state is not TrialState.DONE)


class ObjectiveError(RuntimeError):
    """The objective raised an exception in another process; the message has its text."""


@dataclass(frozen=True)
class Evaluation:
    """How an evaluation ended.

    value: a finite number if it is done, else NaN.
    error: what happened, the message in the last line; "" if it is done.
    started, finished: of the last attempt, in seconds since 1970.
    attempts: how often it was tried.
    exception: what the objective raised. From another process it comes as an `ObjectiveError`.

    Where `started` or `attempts` is None, a storage keeps what it noted when the trial began.
    """

    state: TrialState
    value: float = math.nan
    error: str = ""
    started: float | None = None
    finished: float | None = None
    attempts: int | None = None
    exception: BaseException | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.state.finished:
            raise ValueError(f"an evaluation cannot end as {self.state}")
        if math.isfinite(self.value) != (self.state is TrialState.DONE):
            raise ValueError(
                f"an evaluation that is {self.state} has the value {self.value!r}; give a finite "
                f"one if it is done, else NaN"
            )

    def __getstate__(self) -> dict[str, Any]:
        # Not every exception can be sent to another process. Its text always can.
        told = None if self.exception is None else ObjectiveError(self.error)
        return {**self.__dict__, "exception": told}


@dataclass(frozen=True)
class Trial:
    """All about one trial; times are in seconds since 1970, None where there is nothing."""

    id: int
    batch: int | None
    x: Floats
    state: TrialState
    value: float | None
    started: float | None
    finished: float | None
    attempts: int
    error: str | None


@dataclass(frozen=True)
class Revision:
    """How a trial had ended before it was overwritten or tried again; `replaced` is when."""

    id: int
    state: TrialState
    value: float | None
    error: str | None
    replaced: float | None
