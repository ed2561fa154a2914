"""Which trials are tried again."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ebo.arrays import Ints
from ebo.study.storage.base import StudyError, refuse_retry, whole_ids
from ebo.study.storage.trial import FAILURES, TrialState


def chosen_failures(
    state: NDArray[np.int8],
    states: str | TrialState | Iterable[str | TrialState] | None,
    ids: Iterable[int] | None,
) -> Ints:
    """The numbers of the trials with one of these states, of all or of some, in rising order.

    state: of every trial.
    """
    wanted = FAILURES if states is None else _read_states(states)
    failed = np.flatnonzero(np.isin(state, wanted))
    if ids is None:
        return failed
    given = sorted(set(whole_ids([*ids])))
    for i in given:
        if not 0 <= i < len(state):
            raise StudyError(f"there is no trial {i}; there are {len(state)}, counted from 0")
        if state[i] not in FAILURES:
            refuse_retry(i, TrialState(state[i]))
    return np.intersect1d(np.array(given, dtype=np.int64), failed)


def _read_states(states: str | TrialState | Iterable[str | TrialState]) -> list[TrialState]:
    names = {str(state): state for state in FAILURES}
    listed = [states] if isinstance(states, str | TrialState) else [*states]
    found: list[TrialState] = []
    for item in listed:
        name = str(item).strip().replace("-", " ").replace("_", " ")
        if name not in names:
            allowed = ", ".join(key.replace(" ", "-") for key in names)
            raise ValueError(f"state {str(item)!r} cannot be tried again; give one of {allowed}")
        found.append(names[name])
    return found
