"""The progress bar of long work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ebo.optimizer import Optimizer


@contextmanager
def progress_bar(
    total: int, show: bool | None, done: int = 0
) -> Iterator[Callable[[int, Optimizer], None]]:
    """A line on standard error: batch, evaluations, best value, rate, remaining time.

    `done` of the total were evaluated before, and do not count for the rate.
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield lambda size, optimizer: None
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
    with bar:
        task = bar.add_task("evaluating", total=total, completed=done, rate="")

        def advance(size: int, optimizer: Optimizer) -> None:
            best = f"best {optimizer.best()[1]:.6g}" if optimizer.any_value else "all failed"
            bar.update(task, advance=size, description=f"batch {optimizer.state.asked}, {best}")
            speed = bar.tasks[task].speed
            if speed:
                bar.update(task, rate=f"{speed:.3g}/s")

        yield advance
