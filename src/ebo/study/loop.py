"""The loop of Alg. 1, with every step kept before the next is made.

A batch is stored, with what the optimizer needs to go on, before any of it is evaluated, and each
value as it comes. So whatever ends a run loses no value that has come, and the next run goes on as
if nothing had happened.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

from numpy.typing import ArrayLike

from ebo.arrays import Floats, Ints
from ebo.checks import check_count
from ebo.result import Result, make_result
from ebo.study.evaluation.summary import all_failed
from ebo.study.progress import Progress, showing
from ebo.study.storage.base import StudyError
from ebo.study.storage.trial import FAILURES, Evaluation, TrialState

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ebo.study.evaluation.base import Evaluator, Objective, Results
    from ebo.study.study import Study

Initial: TypeAlias = int | tuple[ArrayLike, ArrayLike]
Callback: TypeAlias = Callable[["Study"], bool | None]


class AllFailedError(StudyError):
    """A whole batch failed; the message has the counts and the most frequent errors."""


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
        if isinstance(self.initial, tuple) and not len(study):
            study.tell(*self.initial)
        sizes = self._sizes(study)
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
                    raise AllFailedError(f"{error}, or run with on_error='continue'")
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
        return self._planned(study)[study.storage.state().asked :]

    def _planned(self, study: Study) -> list[int]:
        """Sizes of all batches."""
        planned = [self.batch_size] * self.iterations
        # Data told before the first batch take the place of the initial points.
        if not len(study) or study.storage.trial(0).batch is not None:
            planned.insert(
                0, self.initial if isinstance(self.initial, Integral) else self.batch_size
            )
        return planned

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


def _check_initial(initial: object) -> None:
    if isinstance(initial, tuple):
        if len(initial) != 2:
            raise ValueError(
                f"initial has {len(initial)} parts; give (X, y), or a number of points"
            )
    elif initial is not None:
        if not isinstance(initial, Integral):
            raise ValueError(f"initial is {initial!r}; give a number of points, or data (X, y)")
        check_count("initial", initial, 1)


def _any_done(study: Study, trial: int) -> bool:
    """Whether any trial of the same batch is done: an earlier run may have left us its rest."""
    columns = study.storage.trials()
    same = columns["batch"] == columns["batch"][trial]
    return bool((columns["state"][same] == TrialState.DONE).any())
