"""How far a study is, without reading its points: a moment, also for very many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ebo.arrays import Floats
from ebo.study.storage.held import is_held
from ebo.study.storage.trial import TrialState

if TYPE_CHECKING:
    from ebo.study.config import Config
    from ebo.study.study import Study

RECENT = 1_000  # evaluations that the rate is of: it may change while a study lasts


def status_of(study: Study, config: Config | None = None) -> dict[str, Any]:
    """The state of a study that is open to be read; `config` says how much is planned."""
    counts = study.counts()
    # The file says what was begun. Where nobody writes it, its writer was killed.
    interrupted = 0 if is_held(study.name) else counts["running"]
    counts["running"] -= interrupted
    best, finished = _results(study)
    ended = sum(count for state, count in counts.items() if state not in ("running", "waiting"))
    summary: dict[str, Any] = {
        "study": str(study.name),
        "direction": study.direction,
        "parameters": study.space.dims,
        "batches": study.storage.state().asked,
        "evaluations": sum(counts.values()) + interrupted,
        **counts,
    }
    if interrupted:
        summary["interrupted, will be tried again"] = interrupted
    summary["best_value"] = best
    target = None if config is None else _target(study, config)
    if target is not None:
        summary["target"] = target
    rate = _rate(finished)
    if rate is not None:
        summary["evaluations_per_second"] = rate
        if target is not None and counts["running"] and target > ended:
            summary["seconds_left"] = (target - ended) / rate
    return summary


def _results(study: Study) -> tuple[float | None, Floats]:
    """The best value, and when the last evaluations ended."""
    read = getattr(study.storage, "results", None)  # a storage of somebody's own may not have it
    if read is not None:
        least, most, finished = read(RECENT)
    else:
        columns = study.storage.trials()
        values = columns["value"][columns["state"] == TrialState.DONE]
        least, most = (values.min(), values.max()) if len(values) else (None, None)
        times = columns["finished"]
        finished = times[np.isfinite(times)][-RECENT:]
    best = most if study.direction == "maximize" else least
    return None if best is None else float(best), np.asarray(finished, dtype=np.float64)


def _rate(finished: Floats) -> float | None:
    """Evaluations a second."""
    span = float(np.ptp(finished)) if len(finished) > 1 else 0.0
    return (len(finished) - 1) / span if span > 0 else None


def _target(study: Study, config: Config) -> int:
    """How many evaluations a run by this description makes in all."""
    size, batches = config.run.get("batch_size", 100), config.run.get("iterations", 20)
    initial = config.run.get("initial", size)
    told = study.storage.trial(0).batch is None if len(study) else False  # instead of the initial
    return int(size * batches + (0 if told else initial))
