"""What a study needs of the place where it is kept: `Storage`, which anybody may implement.

A study is a list of trials, numbered from 0 without gaps, and the state of the optimiser after the
last batch. A storage keeps facts and judges nothing. `tests/study/storage/test_contract.py` has the
tests that every storage must pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebo.arrays import Floats, Ints
from ebo.optimizer import State
from ebo.study.storage.trial import Evaluation, Revision, Trial, TrialState


class StudyError(Exception):
    """Something about a study that its user can understand and mend."""


class Storage(Protocol):
    """The trials of one study. All threads of a process may use it.

    Every call that writes is kept as a whole or not at all, whatever happens in the middle of it.
    When it has returned, it is kept. A call that cannot be right raises `StudyError` or
    `ValueError` and changes nothing.
    """

    @property
    def name(self) -> str:
        """What messages call the study, such as the path of its file."""
        ...

    @property
    def dims(self) -> int:
        """The number of coordinates of a point, D."""
        ...

    @property
    def meta(self) -> Mapping[str, Any]:
        """The description of the study, as JSON data. It is given once and does not change."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether somebody else may be writing. Then calls that write raise `StudyError`."""
        ...

    # Calls that write.

    def add_batch(self, X: ArrayLike, state: State, info: Mapping[str, Any]) -> Ints:
        """Add points X (n, D) that were asked for, and that wait now. Returns their ids (n,).

        state: of the optimiser after the ask; it takes the place of the last one. The batch's
            number is `state.asked - 1`. A number that was there before is refused.
        info: what the ask tells, as JSON data.
        """
        ...

    def add_told(self, X: ArrayLike, values: ArrayLike, *, time: float | None = None) -> Ints:
        """Add points X (n, D) that nobody asked for, with their values (n,). Returns their ids.

        A value that is not finite is a failed evaluation. `time` is when they were told.
        """
        ...

    def start(self, ids: ArrayLike, time: float) -> None:
        """Note that trials run since `time`, one attempt more. Refuse those that have finished."""
        ...

    def finish(self, evaluations: Mapping[int, Evaluation]) -> Floats:
        """Note how waiting or running trials ended, by id. Returns their points (n, D).

        A trial that has finished before is refused, with all others of the same call. Where
        `started` or `attempts` of an evaluation is None, what `start` noted stays.
        """
        ...

    def reset_running(self) -> int:
        """Make all running trials wait again. Returns how many there were."""
        ...

    def retry(self, ids: ArrayLike, *, time: float | None = None) -> None:
        """Make trials that failed wait again, with the attempts that they have had.

        One that is done, or has not finished, is refused, with all others of the same call. How
        they had ended is in `revisions` from then on, `time` being when they were replaced.
        """
        ...

    def overwrite(
        self, evaluations: Mapping[int, Evaluation], *, time: float | None = None
    ) -> None:
        """Note that finished trials ended otherwise, by id; what was noted goes to `revisions`.

        One that has not finished is refused, with all others of the same call.
        """
        ...

    # Calls that read.

    def trials(self) -> dict[str, NDArray[Any]]:
        """All trials as columns in the order of ids.

        id, batch (-1 where not asked for), state (numbers of `TrialState`), value, started,
        finished (floats, NaN where there is nothing), attempts, and X (n, D).
        """
        ...

    def trial(self, id: int) -> Trial:
        """One trial; `StudyError` if there is none with this id."""
        ...

    def waiting(self) -> tuple[Ints, Floats]:
        """The trials that wait to be evaluated: ids (n,) in rising order, and X (n, D)."""
        ...

    def errors(self) -> dict[int, str]:
        """The error texts by id, of those trials that have one."""
        ...

    def revisions(self) -> list[Revision]:
        """What was replaced, in the order in which it was."""
        ...

    def counts(self) -> dict[TrialState, int]:
        """How many trials are in each state; all states are there."""
        ...

    def iterations(self) -> list[dict[str, Any]]:
        """The `info` of every batch in order, with `batch` and the learned z, density and noise.

        These three are None where nothing was learned yet.
        """
        ...

    def state(self) -> State:
        """The state of the last batch; `State()` before the first."""
        ...

    def close(self) -> None:
        """Let go of everything; a second time nothing happens."""
        ...


# Makes a storage for a new study, of `dims` and `meta`.
NewStorage: TypeAlias = Callable[[int, Mapping[str, Any]], Storage]


# Checks that every storage of ours makes.


def check_points(X: ArrayLike, dims: int) -> Floats:
    """Points as (n, D) floats."""
    points = np.asarray(X, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != dims:
        raise ValueError(f"X has shape {points.shape}, expected (n, {dims})")
    if not np.isfinite(points).all():
        raise ValueError("X is not finite everywhere; a point of a space is")
    return points


def whole_ids(ids: ArrayLike) -> list[int]:
    """Ids as ints; what is not whole is an error."""
    array = np.atleast_1d(np.asarray(ids))
    if array.size and (array.dtype.kind != "i" or array.ndim != 1):
        raise StudyError(f"ids are {ids!r}; give whole numbers")
    return [int(i) for i in array]


def refuse_finished(id: int, state: TrialState) -> NoReturn:
    """Raise that a trial cannot be started or finished again."""
    raise StudyError(
        f"trial {id} is finished already ({state}); an evaluation is recorded once, and this one "
        f"was left out with all that came with it"
    )


def refuse_retry(id: int, state: TrialState) -> NoReturn:
    """Raise that a trial has not failed."""
    raise StudyError(
        f"trial {id} is {state}; only what failed can be tried again. None was changed"
    )


def refuse_overwrite(id: int, state: TrialState) -> NoReturn:
    """Raise that a trial has not finished."""
    raise StudyError(f"trial {id} is {state}; only what has finished can be overwritten")


def refuse_unknown(id: int, n: int, name: str) -> NoReturn:
    """Raise that there is no such trial among n."""
    known = f"the last is {n - 1}" if n else "there are none yet"
    raise StudyError(f"there is no trial {id} in {name}; {known}")


def refuse_batch(batch: int, name: str) -> NoReturn:
    """Raise that a batch is there already."""
    raise StudyError(f"batch {batch} is in {name} already; restore the state first")
