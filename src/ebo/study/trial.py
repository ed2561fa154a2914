"""One trial of a study: what has become of it, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from ebo.arrays import Floats


class TrialState(IntEnum):
    """What has become of a trial; the numbers are those in the file."""

    WAITING = 0
    RUNNING = 1
    DONE = 2
    FAILED = 3
    TIMED_OUT = 4
    LOST = 5

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")

    @classmethod
    def of(cls, name: str) -> TrialState:
        """The state that `str` shows as `name`."""
        return cls[name.upper().replace(" ", "_")]

    @property
    def finished(self) -> bool:
        """Whether nothing more will come of it."""
        return self >= TrialState.DONE


ENDS = tuple(state for state in TrialState if state.finished)


class Finish(NamedTuple):
    """How a trial ended.

    value: finite where `state` is done, else None. started, attempts: None for what `start` noted.
    """

    id: int
    state: TrialState
    value: float | None = None
    started: float | None = None
    finished: float | None = None
    attempts: int | None = None
    error: str | None = None


@dataclass(frozen=True)
class Trial:
    """All about one trial; times are seconds since 1970, None where there is nothing."""

    id: int
    batch: int | None
    x: Floats
    state: TrialState
    value: float | None
    started: float | None
    finished: float | None
    attempts: int
    error: str | None
