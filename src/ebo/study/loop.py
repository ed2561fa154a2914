"""The loop of Alg. 1, with every step kept before the next is made.

A batch is stored, with what the optimizer needs to go on, before any of it is evaluated, and each
value as it comes. So whatever ends a run loses no value that has come, and the next run goes on as
if nothing had happened.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ebo.arrays import Floats, Ints
from ebo.checks import check_count
from ebo.result import Result, make_result
from ebo.space import Points
from ebo.study.evaluation.summary import all_failed
from ebo.study.progress import Progress, showing
from ebo.study.storage.base import StudyError
from ebo.study.storage.trial import FAILURES, Evaluation, TrialState

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ebo.study.evaluation.base import Evaluator, Objective, Results
    from ebo.study.study import Study

Initial: TypeAlias = int | tuple[Points, ArrayLike] | Points
Callback: TypeAlias = Callable[["Study"], bool | None]
ENQUEUED = "enqueued"  # how many points of a user's own a batch has, in what is stored of it


class AllFailedError(StudyError):
    """A whole batch failed; `summary` has the counts and the most frequent errors."""

    def __init__(self, summary: str) -> None:
        super().__init__(
            f"{summary}. Repair the objective, put them back to waiting by study.retry(), and run "
            f"again. Or run with on_error='continue'"
        )
        self.summary = summary


@dataclass(frozen=True)
class Run:
    """What `Study.run` was asked to do. It is checked when it is made, and done when called."""

    f: Objective
    batch_size: int
    iterations: int
    initial: Initial | None
    vectorized: bool
    workers: int | None
    executor: Executor | None
    how: str | None
    timeout: float | None
    retries: int
    on_error: str
    callback: Callback | None
    progress: bool | None

    def __post_init__(self) -> None:
        check_count("batch_size", self.batch_size, 1)
        check_count("iterations", self.iterations, 0)
        _check_initial(self.initial)
        if self.on_error not in ("stop", "continue", "raise"):
            raise ValueError(f"on_error is {self.on_error!r}; give 'stop', 'continue' or 'raise'")
        if self.callback is not None and not callable(self.callback):
            raise TypeError(f"callback is {self.callback!r}; give a function of the study, or None")
        if self.vectorized and self.how is not None:
            raise ValueError(f"a vectorized f is one call in this process; leave how={self.how!r}")
        self._evaluator().close()  # checks the rest

    def __call__(self, study: Study) -> Result:
        """Evaluate what waits, then ask for the batches that are still to come."""
        if not len(study):
            if _is_data(self.initial):
                study.tell(*self.initial)  # type: ignore[misc]
            elif _is_points(self.initial):
                study.enqueue(self.initial)  # type: ignore[arg-type]
        sizes = self._sizes(study)
        if self._begins(study) and sizes:
            study.ask_trials(sizes.pop(0))  # before a value is known, so that it is of the sequence
        progress, batches = self._progress(study, sum(sizes)), len(self._planned(study))
        with showing(progress, self.progress), self._evaluator() as evaluate:
            for size in [None, *sizes]:  # None: what an earlier run left waiting
                ids, X = study.storage.waiting() if size is None else study.ask_trials(size)
                if not len(ids):
                    continue
                ended = self._evaluate(study, evaluate, ids, X, progress)
                progress.batch_ended(study.storage.state().asked, batches)
                error = all_failed(ended)
                if error and self.on_error != "continue" and not _any_done(study, int(ids[0])):
                    raise AllFailedError(error)
                if self.callback is not None and self.callback(study):
                    break
        return make_result(study.optimizer)

    def _evaluate(
        self, study: Study, evaluate: Evaluator, ids: Ints, X: Floats, progress: Progress
    ) -> list[Evaluation]:
        """Evaluate waiting trials, and keep each value as it comes."""
        points: Any = study.space.to_dicts(X) if study.space.named else X.copy()
        ended: list[Evaluation] = []

        def keep(results: Results) -> BaseException | None:
            evaluations = [evaluation for _, evaluation in results]
            study.end_trials({int(ids[index]): evaluation for index, evaluation in results})
            # Without the exceptions, which keep alive all that the objective had in hand.
            ended.extend(replace(e, exception=None) for e in evaluations)
            progress.advance(evaluations)
            return next((e.exception for e in evaluations if e.exception is not None), None)

        try:
            study.storage.start(ids, time.time())
            for results in evaluate.evaluate(points):
                exception = keep(results)
                if self.on_error == "raise" and exception is not None:
                    keep(evaluate.interrupt(0.0))
                    raise exception
        except KeyboardInterrupt:
            with suppress(KeyboardInterrupt):
                keep(evaluate.interrupt())
            raise
        finally:
            if len(ended) < len(ids):
                study.storage.reset_running()  # what has not ended waits again
        return ended

    def _evaluator(self) -> Evaluator:
        from ebo.study.evaluation.processes import evaluator  # slow to import, with its processes

        return evaluator(
            self.f,
            workers=self.workers,
            executor=self.executor,
            how="vectorized" if self.vectorized else self.how,
            timeout=self.timeout,
            retries=self.retries,
        )

    def _sizes(self, study: Study) -> list[int]:
        """Sizes of the batches that are still to be asked."""
        asked = _enqueued(study).count(0)  # batches that were asked for, not enqueued
        return self._planned(study)[asked:]

    def _planned(self, study: Study) -> list[int]:
        """Sizes of all batches."""
        planned = [self.batch_size] * self.iterations
        enqueued = _enqueued(study)
        # Data told before the first batch take the place of the initial points.
        if not len(study) or study.storage.trial(0).batch is not None:
            first = int(self.initial) if isinstance(self.initial, Integral) else self.batch_size
            # Points enqueued before it do so too, as far as they go. All others come on top.
            first -= sum(takewhile(bool, enqueued))
            planned[:0] = [first] if first > 0 else []
        return planned

    def _begins(self, study: Study) -> bool:
        """Whether nothing is there but points of the user's own, and fewer than a first batch."""
        enqueued = _enqueued(study)
        first = int(self.initial) if isinstance(self.initial, Integral) else self.batch_size
        alone = 0 < sum(enqueued) == len(study) and all(enqueued)
        return alone and sum(enqueued) < first and not study.optimizer.any_value

    def _progress(self, study: Study, coming: int) -> Progress:
        """Of what waits and of so many evaluations that are still to come."""
        counts, optimizer = study.storage.counts(), study.optimizer
        return Progress(
            len(study) + coming,
            done=len(study) - counts[TrialState.WAITING],
            failed=sum(counts[state] for state in FAILURES),
            best=optimizer.best()[1] if optimizer.any_value else None,
            maximize=study.direction == "maximize",
        )


def _enqueued(study: Study) -> list[int]:
    """How many points of each batch are a user's own: all of them, or 0."""
    return [int(info.get(ENQUEUED, 0)) for info in study.storage.iterations()]


def _is_points(initial: object) -> bool:
    """Whether these are points without values: dicts, or rows of numbers."""
    if isinstance(initial, Mapping):
        return True
    if isinstance(initial, list | tuple) and any(isinstance(p, Mapping) for p in initial):
        # A tuple with a dict in it may also be data, ([{...}], [1.0]) or ({...}, 1.0).
        return isinstance(initial, list) or all(isinstance(p, Mapping) for p in initial)
    try:
        return isinstance(initial, list | np.ndarray) and np.ndim(initial) == 2
    except ValueError:  # rows of different lengths
        return False


def _is_data(initial: object) -> bool:
    return isinstance(initial, tuple) and not _is_points(initial)


def _check_initial(initial: object) -> None:
    if isinstance(initial, tuple) and _is_data(initial):
        if len(initial) != 2:
            raise ValueError(
                f"initial has {len(initial)} parts; give (X, y), or a number of points"
            )
    elif initial is not None and not _is_points(initial):
        if not isinstance(initial, Integral):
            raise ValueError(
                f"initial is {initial!r}; give a number of points, points as an array (n, D) or a "
                f"list of dicts, or data (X, y)"
            )
        check_count("initial", initial, 1)


def _any_done(study: Study, trial: int) -> bool:
    """Whether any trial of the same batch is done: an earlier run may have left us its rest."""
    columns = study.storage.trials()
    same = columns["batch"] == columns["batch"][trial]
    return bool((columns["state"][same] == TrialState.DONE).any())
