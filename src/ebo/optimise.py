"""One call that optimises: a `Study`, in memory or in a file, and its loop."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ebo.result import Result
from ebo.settings import Settings
from ebo.space import Space
from ebo.study.loop import Callback, Initial, Run
from ebo.study.study import Study

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ebo.study.evaluation.base import Objective


def maximize(
    f: Objective,
    space: Space,
    *,
    batch_size: int = 100,
    iterations: int = 20,
    initial: Initial | None = None,
    upper_bound: float | None = None,
    seed: int = 0,
    settings: Settings | None = None,
    study: str | os.PathLike[str] | None = None,
    vectorized: bool = False,
    workers: int | None = 1,
    executor: Executor | None = None,
    how: str | None = None,
    timeout: float | None = None,
    retries: int = 0,
    on_error: str = "stop",
    callback: Callback | None = None,
    progress: bool | None = None,
) -> Result:
    """Maximise f over a space: `initial` points, then `iterations` batches of `batch_size`.

    f: takes an array (D,) on a box, a dict on a space of named parameters, and returns a number.
        An exception, NaN and what is not a number are failed evaluations.
    upper_bound: a value that f cannot exceed, if one is known.
    seed, settings: see `Optimizer`.
    study: a file that keeps everything; if it is there, the run goes on where it stopped. Without
        it all is in memory, where only `callback` gets at it before the end.

    All other arguments are those of `Study.run`.
    """
    run = Run(
        f, batch_size, iterations, initial, vectorized, workers, executor, how, timeout, retries,
        on_error, callback, progress,
    )  # fmt: skip
    options = {"upper_bound": upper_bound, "seed": seed, "settings": settings}
    return _optimize(run, space, study, direction="maximize", **options)


def minimize(
    f: Objective,
    space: Space,
    *,
    batch_size: int = 100,
    iterations: int = 20,
    initial: Initial | None = None,
    lower_bound: float | None = None,
    seed: int = 0,
    settings: Settings | None = None,
    study: str | os.PathLike[str] | None = None,
    vectorized: bool = False,
    workers: int | None = 1,
    executor: Executor | None = None,
    how: str | None = None,
    timeout: float | None = None,
    retries: int = 0,
    on_error: str = "stop",
    callback: Callback | None = None,
    progress: bool | None = None,
) -> Result:
    """Minimise f; all as in `maximize`, with `lower_bound` for a value that f cannot go below."""
    run = Run(
        f, batch_size, iterations, initial, vectorized, workers, executor, how, timeout, retries,
        on_error, callback, progress,
    )  # fmt: skip
    options = {"lower_bound": lower_bound, "seed": seed, "settings": settings}
    return _optimize(run, space, study, direction="minimize", **options)


def _optimize(
    run: Run, space: Space, study: str | os.PathLike[str] | None, **options: Any
) -> Result:
    with Study.create(study, space, exist_ok=True, **options) as kept:
        return run(kept)
