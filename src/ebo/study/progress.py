"""How far long work is: a bar on a terminal or in a notebook, elsewhere a line of the log a batch.

Lines go to the logger "ebo" at the level INFO. As of any library, nobody sees them until somebody
asks for them: the command line does, from Python `logging.basicConfig(level="INFO")` does.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from importlib import import_module
from typing import Any

from ebo.study.report.html import duration
from ebo.study.storage.trial import Evaluation, TrialState

log = logging.getLogger("ebo")

INTERVAL = 0.2  # seconds between changes of a notebook's bar, each of which is a message to it


class Progress:
    """What is done and what is to come.

    total, done: evaluations that there will be, and those that ended before. These do not count
        for the rate.
    failed: how many of those before failed.
    best: the best value before, None if there is none.
    """

    def __init__(
        self, total: int, done: int, failed: int, best: float | None, maximize: bool
    ) -> None:
        self.total, self.done, self.failed, self.best = total, done, failed, best
        self._better = max if maximize else min
        self._before, self._began = done, time.monotonic()
        self.shown: Callable[[], None] | None = None  # redraws a bar, if there is one

    def advance(self, evaluations: Sequence[Evaluation]) -> None:
        """Evaluations have ended."""
        values = [e.value for e in evaluations if e.state is TrialState.DONE]
        self.done += len(evaluations)
        self.failed += len(evaluations) - len(values)
        if values:
            self.best = self._better([*values, *([] if self.best is None else [self.best])])
        if self.shown is not None:
            self.shown()

    def batch_ended(self, batch: int, batches: int) -> None:
        """So many of the batches have ended: a line of the log, unless there is a bar."""
        if self.shown is None:
            log.info("batch %s of %s: %s", f"{batch:,}", f"{batches:,}", ", ".join(self.told()))

    @property
    def rate(self) -> float:
        """Evaluations a second; 0 before the first."""
        return (self.done - self._before) / max(time.monotonic() - self._began, 1e-9)

    def told(self) -> list[str]:
        """All of it in words."""
        rate, left = self.rate, self.total - self.done
        words = [
            f"{self.done:,} of {self.total:,} evaluations",
            "no value yet" if self.best is None else f"best {self.best:.6g}",
            f"{self.failed:,} failed",
        ]
        if rate > 0:
            words.append(f"{rate:.3g}/s")
            words += [f"{duration(left / rate)} left"] if left else []
        return words


@contextmanager
def showing(progress: Progress, show: bool | None) -> Iterator[None]:
    """A bar, on standard error or in a notebook. None shows it only where somebody looks."""
    if show is False:
        yield
    elif in_notebook():
        with _in_notebook(progress):
            yield
    elif show or sys.stderr.isatty():
        with _on_terminal(progress):
            yield
    else:
        yield


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


@contextmanager
def _in_notebook(progress: Progress) -> Iterator[None]:
    """By what every kernel has: output that can be changed later."""

    def drawn() -> dict[str, str]:
        text = " · ".join(progress.told())
        bar = f'<progress value="{progress.done}" max="{progress.total}"></progress>'
        return {"text/plain": text, "text/html": f"{bar} {escape(text)}"}

    display: Any = import_module("IPython.display").display
    handle = display(drawn(), raw=True, display_id=True)
    last = time.monotonic()

    def update() -> None:
        nonlocal last
        if time.monotonic() - last >= INTERVAL or progress.done >= progress.total:
            handle.update(drawn(), raw=True)
            last = time.monotonic()

    progress.shown = update
    try:
        yield
    finally:
        handle.update(drawn(), raw=True)


@contextmanager
def _on_terminal(progress: Progress) -> Iterator[None]:
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TextColumn("{task.fields[rate]}"),
        rich.TimeElapsedColumn(),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True), redirect_stdout=False) as bar:
        task = bar.add_task("evaluating", total=progress.total, completed=progress.done, rate="")

        def update() -> None:
            best = "all failed" if progress.best is None else f"best {progress.best:.6g}"
            bar.update(task, completed=progress.done, description=best)
            speed = bar.tasks[task].speed
            if speed:
                bar.update(task, rate=f"{speed:.3g}/s")

        progress.shown = update
        yield


class ToStandardError(logging.StreamHandler[Any]):
    """Lines of the log with their time, to what standard error is at that moment."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write it."""
        self.stream = sys.stderr
        super().emit(record)


def log_to_standard_error() -> None:
    """Show the log, as the command line does; a second time nothing happens."""
    if not any(isinstance(handler, ToStandardError) for handler in log.handlers):
        log.addHandler(ToStandardError())
        log.setLevel(logging.INFO)
