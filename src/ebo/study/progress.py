"""The progress bar of long work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from ebo.optimizer import Optimizer
from ebo.study.storage.trial import Evaluation, TrialState

Advance: TypeAlias = Callable[[Sequence[Evaluation]], None]


@contextmanager
def progress_bar(
    show: bool | None, total: int, done: int, optimizer: Optimizer
) -> Iterator[Advance]:
    """A line on standard error: evaluations, best value, rate, remaining time.

    show: None shows it only on a terminal.
    done: how many of the total were evaluated before. They do not count for the rate.
    optimizer: knows the best value so far. The bar gets the others with what it is told.
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield lambda evaluations: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), redirect_stdout=False)
    better = max if optimizer.direction == "maximize" else min
    values = [optimizer.best()[1]] if optimizer.any_value else []
    with bar:
        task = bar.add_task("evaluating", total=total, completed=done, rate="")

        def advance(evaluations: Sequence[Evaluation]) -> None:
            values.extend(e.value for e in evaluations if e.state is TrialState.DONE)
            values[:] = [better(values)] if values else []
            best = f"best {values[0]:.6g}" if values else "all failed"
            bar.update(task, advance=len(evaluations), description=best)
            speed = bar.tasks[task].speed
            if speed:
                bar.update(task, rate=f"{speed:.3g}/s")

        yield advance
