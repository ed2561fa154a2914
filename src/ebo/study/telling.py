"""Values told by number: what of them is new, what is known, and what is different."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ebo.arrays import Floats
from ebo.observations import row_keys
from ebo.study.storage.base import Storage
from ebo.study.storage.trial import Evaluation, TrialState
from ebo.values import check_values


@dataclass(frozen=True)
class Told:
    """Values by the trial's number, NaN for one that failed.

    new: of trials that have not finished.
    same: of trials that ended just like that; there is nothing to do.
    different: of trials that ended otherwise, with the words to say so.
    """

    new: dict[int, float]
    same: dict[int, float]
    different: dict[int, float]
    words: dict[int, str]


def compare(storage: Storage, values: Mapping[int, float]) -> Told:
    """What these values are to what is stored."""
    numbers = check_values([*values.values()], len(values)).tolist() if values else []
    told = Told({}, {}, {}, {})
    for i, value in zip(values, numbers, strict=True):
        trial = storage.trial(i)
        old = math.nan if trial.value is None else trial.value
        if not trial.state.finished:
            told.new[i] = value
        elif value == old or (math.isnan(value) and math.isnan(old)):
            told.same[i] = value
        else:
            told.different[i] = value
            has = f" with {old!r}" if trial.state is TrialState.DONE else ""
            told.words[i] = (
                f"trial {i} is finished already ({trial.state}){has}; now given is {value!r}"
            )
    return told


def asked_for(
    storage: Storage, points: Floats, values: Floats
) -> tuple[dict[int, float], list[int]]:
    """The values of points that are waited for, by the trial's number, and the rows of others."""
    ids, waiting = storage.waiting()
    open_ids: dict[bytes, list[int]] = {}
    for i, key in zip(ids.tolist(), row_keys(waiting), strict=True):
        open_ids.setdefault(key, []).append(i)
    asked: dict[int, float] = {}
    others = []
    for row, key in enumerate(row_keys(points)):
        waits = open_ids.get(key)
        if waits:
            asked[waits.pop(0)] = float(values[row])
        else:
            others.append(row)
    return asked, others


def evaluations(values: Mapping[int, float], now: float) -> dict[int, Evaluation]:
    """The same as evaluations that somebody else made."""
    return {
        i: Evaluation(TrialState.FAILED, math.nan, "told as failed", now, now, 1)
        if math.isnan(value)
        else Evaluation(TrialState.DONE, value, "", now, now, 1)
        for i, value in values.items()
    }
