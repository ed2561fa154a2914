"""A study in memory: as fast as lists and dicts are, and gone with the process."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebo.arrays import Floats, Ints
from ebo.optimizer import State
from ebo.study.storage.base import (
    check_points,
    refuse_batch,
    refuse_finished,
    refuse_overwrite,
    refuse_retry,
    refuse_unknown,
    whole_ids,
)
from ebo.study.storage.encoding import floats, to_json
from ebo.study.storage.trial import FAILURES, Evaluation, Revision, Trial, TrialState
from ebo.values import check_values


class MemoryStorage:
    """See `Storage`. A call that writes costs as much as the trials that it names, not as all."""

    name = "the study in memory"
    read_only = False

    def __init__(self, dims: int, meta: Mapping[str, Any]) -> None:
        self.dims = dims
        self.meta: dict[str, Any] = json.loads(to_json(meta))
        self._trials: list[Trial] = []
        self._open: dict[int, None] = {}  # ids of the trials that have not finished
        self._revisions: list[Revision] = []
        self._iterations: dict[int, dict[str, Any]] = {}  # by batch
        self._state = State()
        self._mutex = RLock()

    def add_batch(self, X: ArrayLike, state: State, info: Mapping[str, Any]) -> Ints:
        """See `Storage`."""
        points, told, batch = check_points(X, self.dims), json.loads(to_json(info)), state.asked - 1
        learned = state.structure
        with self._mutex:
            if batch in self._iterations:
                refuse_batch(batch, self.name)
            ids = self._added(points, batch, TrialState.WAITING)
            self._open |= dict.fromkeys(ids.tolist())
            self._iterations[batch] = told | {
                "batch": batch,
                "z": None if learned is None else learned.z,
                "density": None if learned is None else learned.density,
                "noise": None if learned is None else learned.noise,
            }
            self._state = state
        return ids

    def add_told(self, X: ArrayLike, values: ArrayLike, *, time: float | None = None) -> Ints:
        """See `Storage`."""
        points = check_points(X, self.dims)
        y = check_values(values, len(points)).tolist()
        with self._mutex:
            ids = self._added(points, None, TrialState.FAILED)
            for i, value in zip(ids.tolist(), y, strict=True):
                trial = replace(self._trials[i], finished=time)
                if np.isfinite(value):
                    trial = replace(trial, state=TrialState.DONE, value=value)
                self._trials[i] = trial
        return ids

    def start(self, ids: ArrayLike, time: float) -> None:
        """See `Storage`."""
        with self._mutex:
            started = {i: self._unfinished(i) for i in whole_ids(ids)}
            for i, trial in started.items():
                self._trials[i] = replace(
                    trial, state=TrialState.RUNNING, started=time, attempts=trial.attempts + 1
                )

    def finish(self, evaluations: Mapping[int, Evaluation]) -> Floats:
        """See `Storage`."""
        with self._mutex:
            ended = {
                i: _ended(self._unfinished(i), evaluations[i]) for i in whole_ids([*evaluations])
            }
            for i, trial in ended.items():
                self._trials[i] = trial
                del self._open[i]
        return self._points(list(ended.values()))

    def reset_running(self) -> int:
        """See `Storage`."""
        with self._mutex:
            running = [i for i in self._open if self._trials[i].state is TrialState.RUNNING]
            for i in running:
                self._trials[i] = replace(self._trials[i], state=TrialState.WAITING, started=None)
        return len(running)

    def retry(self, ids: ArrayLike, *, time: float | None = None) -> None:
        """See `Storage`."""
        with self._mutex:
            failed = {i: self._known(i) for i in whole_ids(ids)}
            for i, trial in failed.items():
                if trial.state not in FAILURES:
                    refuse_retry(i, trial.state)
            self._keep(failed.values(), time)
            for i, trial in failed.items():
                waits = replace(trial, state=TrialState.WAITING, started=None, finished=None)
                self._trials[i] = replace(waits, error=None)
            self._open |= dict.fromkeys(failed)

    def overwrite(
        self, evaluations: Mapping[int, Evaluation], *, time: float | None = None
    ) -> None:
        """See `Storage`."""
        with self._mutex:
            finished = {i: self._known(i) for i in whole_ids([*evaluations])}
            for i, trial in finished.items():
                if not trial.state.finished:
                    refuse_overwrite(i, trial.state)
            self._keep(finished.values(), time)
            for i, trial in finished.items():
                self._trials[i] = _ended(trial, evaluations[i])

    def trials(self) -> dict[str, NDArray[Any]]:
        """See `Storage`."""
        with self._mutex:
            trials = list(self._trials)
        return {
            "id": np.arange(len(trials)),
            "batch": np.array([-1 if t.batch is None else t.batch for t in trials], dtype=np.int64),
            "state": np.array([t.state for t in trials], dtype=np.int8),
            "value": floats([t.value for t in trials]),
            "started": floats([t.started for t in trials]),
            "finished": floats([t.finished for t in trials]),
            "attempts": np.array([t.attempts for t in trials], dtype=np.int64),
            "X": self._points(trials),
        }

    def trial(self, id: int) -> Trial:
        """See `Storage`."""
        (i,) = whole_ids([id])
        trial = self._known(i)
        return replace(trial, x=trial.x.copy())

    def waiting(self) -> tuple[Ints, Floats]:
        """See `Storage`."""
        with self._mutex:
            trials = [self._trials[i] for i in sorted(self._open)]
        waiting = [trial for trial in trials if trial.state is TrialState.WAITING]
        return np.array([trial.id for trial in waiting], dtype=np.int64), self._points(waiting)

    def errors(self) -> dict[int, str]:
        """See `Storage`."""
        return {trial.id: trial.error for trial in self._trials if trial.error}

    def revisions(self) -> list[Revision]:
        """See `Storage`."""
        with self._mutex:
            return list(self._revisions)

    def counts(self) -> dict[TrialState, int]:
        """See `Storage`."""
        with self._mutex:
            found = Counter(trial.state for trial in self._trials)
        return {state: found[state] for state in TrialState}

    def iterations(self) -> list[dict[str, Any]]:
        """See `Storage`."""
        with self._mutex:
            return [dict(self._iterations[batch]) for batch in sorted(self._iterations)]

    def state(self) -> State:
        """See `Storage`."""
        return self._state

    def close(self) -> None:
        """See `Storage`; the trials stay as long as this object."""

    def _added(self, points: Floats, batch: int | None, state: TrialState) -> Ints:
        first = len(self._trials)
        self._trials += [
            Trial(first + i, batch, x, state, None, None, None, 0, None)
            for i, x in enumerate(points.copy())
        ]
        return np.arange(first, first + len(points))

    def _keep(self, trials: Iterable[Trial], time: float | None) -> None:
        self._revisions += [Revision(t.id, t.state, t.value, t.error, time) for t in trials]

    def _known(self, id: int) -> Trial:
        if not 0 <= id < len(self._trials):
            refuse_unknown(id, len(self._trials), self.name)
        return self._trials[id]

    def _unfinished(self, id: int) -> Trial:
        trial = self._known(id)
        if trial.state.finished:
            refuse_finished(id, trial.state)
        return trial

    def _points(self, trials: list[Trial]) -> Floats:
        return np.array([trial.x for trial in trials], dtype=np.float64).reshape(-1, self.dims)


def _ended(trial: Trial, evaluation: Evaluation) -> Trial:
    e = evaluation
    return replace(
        trial,
        state=e.state,
        value=e.value if e.state is TrialState.DONE else None,
        started=trial.started if e.started is None else e.started,
        finished=e.finished,
        attempts=trial.attempts if e.attempts is None else e.attempts,
        error=e.error or None,
    )
