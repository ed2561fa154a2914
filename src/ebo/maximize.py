"""One call that optimises: a loop over `Optimizer.ask` and `tell`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebo.arrays import Floats
from ebo.checks import check_count
from ebo.observations import check_values
from ebo.optimizer import Optimizer
from ebo.result import Result, make_result
from ebo.settings import Settings
from ebo.space import Space
from ebo.study.progress import progress_bar

Objective = Callable[[Any], Any]
Initial = int | tuple[ArrayLike, ArrayLike]


def maximize(
    f: Objective,
    space: Space,
    *,
    batch_size: int = 100,
    iterations: int = 20,
    initial: Initial | None = None,
    upper_bound: float | None = None,
    vectorized: bool = False,
    seed: int = 0,
    settings: Settings | None = None,
    workers: int = 1,
    study: str | os.PathLike[str] | None = None,
    callback: Callable[[Optimizer], bool | None] | None = None,
    progress: bool | None = None,
) -> Result:
    """Maximise f over a space: `initial` points, then `iterations` batches of `batch_size`.

    f: takes an array (D,) on a box, a dict on a space of named parameters, and returns a number;
        NaN says that the evaluation failed. An exception ends the run; what was told by then is in
        the optimizer that `callback` gets.
    initial: a number of points (a Sobol sequence; by default one batch), or data (X, y) to begin
        with.
    upper_bound: a value that f cannot exceed, if one is known.
    vectorized: f takes all points at once, (n, D), or a list of dicts, and returns (n,).
    seed, settings: see `Optimizer`.
    workers: processes that evaluate f side by side; 1 evaluates in this one. With more, or with a
        study, an exception is a failed evaluation, and only a batch that fails entirely ends the
        run.
    study: a file that keeps everything; if it is there, the run goes on where it stopped.
    callback: called with the optimizer after every batch; return True to stop.
    progress: a progress bar on the terminal; None shows it only if there is one.
    """
    options = {"direction": "maximize", "upper_bound": upper_bound, "lower_bound": None}
    task = _Task(f, space, {**options, "seed": seed, "settings": settings}, vectorized, workers)
    return task.run(batch_size, iterations, initial, study, callback, progress)


def minimize(
    f: Objective,
    space: Space,
    *,
    batch_size: int = 100,
    iterations: int = 20,
    initial: Initial | None = None,
    lower_bound: float | None = None,
    vectorized: bool = False,
    seed: int = 0,
    settings: Settings | None = None,
    workers: int = 1,
    study: str | os.PathLike[str] | None = None,
    callback: Callable[[Optimizer], bool | None] | None = None,
    progress: bool | None = None,
) -> Result:
    """Minimise f; all as in `maximize`, with `lower_bound` for a value that f cannot go below."""
    options = {"direction": "minimize", "upper_bound": None, "lower_bound": lower_bound}
    task = _Task(f, space, {**options, "seed": seed, "settings": settings}, vectorized, workers)
    return task.run(batch_size, iterations, initial, study, callback, progress)


@dataclass(frozen=True)
class _Task:
    """A function to optimise, and how."""

    f: Objective
    space: Space
    options: dict[str, Any]  # of the optimizer
    vectorized: bool
    workers: int

    def run(
        self,
        batch_size: int,
        iterations: int,
        initial: Initial | None,
        study: str | os.PathLike[str] | None,
        callback: Callable[[Optimizer], bool | None] | None,
        progress: bool | None,
    ) -> Result:
        """Check everything, then go: in memory, or in a file."""
        if not callable(self.f):
            raise TypeError(f"f is {self.f!r}; give a function")
        if callback is not None and not callable(callback):
            raise TypeError(f"callback is {callback!r}; give a function of the optimizer, or None")
        check_count("batch_size", batch_size, 1)
        check_count("iterations", iterations, 0)
        check_count("workers", self.workers, 1)
        data = _pair(initial) if isinstance(initial, tuple) else None
        first = batch_size if initial is None or isinstance(initial, tuple) else initial
        if not isinstance(first, Integral):
            raise ValueError(f"initial is {initial!r}; give a number of points, or data (X, y)")
        check_count("initial", first, 1)
        optimizer = Optimizer(self.space, **self.options)  # checks its options
        if study is not None:
            return self._in_file(study, batch_size, iterations, first, data, callback, progress)
        batches = [batch_size] * iterations
        if data is None:
            batches.insert(0, first)
        else:
            optimizer.tell(*data)
        with progress_bar(sum(batches), progress) as advance, self._evaluation() as evaluation:
            for size in batches:
                X = optimizer.ask(size)
                optimizer.tell(X, evaluation(X))
                advance(size, optimizer)
                if callback is not None and callback(optimizer):
                    break
        return make_result(optimizer)

    def _in_file(
        self,
        path: str | os.PathLike[str],
        batch_size: int,
        iterations: int,
        initial: int,
        data: tuple[Any, Any] | None,
        callback: Callable[[Optimizer], bool | None] | None,
        progress: bool | None,
    ) -> Result:
        """The same as a study, new or begun."""
        from ebo.study.study import Study

        with Study.create(path, self.space, exist_ok=True, **self.options) as study:
            if data is not None and not len(study):
                study.tell(*data)
            return study.run(
                self.f,
                batch_size=batch_size,
                iterations=iterations,
                initial=initial,
                vectorized=self.vectorized,
                workers=None if self.vectorized else self.workers,
                callback=None if callback is None else lambda study: callback(study.optimizer),
                progress=progress,
            )

    @contextmanager
    def _evaluation(self) -> Iterator[Callable[[Floats], Floats]]:
        """A function from points X (n, D) to values (n,)."""
        if self.workers == 1 or self.vectorized:
            yield lambda X: evaluate(self.f, self.space, X, self.vectorized)
            return
        from ebo.study.evaluation.processes import evaluator
        from ebo.study.evaluation.summary import all_failed

        with evaluator(self.f, workers=self.workers) as pool:

            def side_by_side(X: Floats) -> Floats:
                points: Any = self.space.to_dicts(X) if self.space.named else X
                results = dict(pool.evaluate(points))
                if error := all_failed(list(results.values())):
                    raise RuntimeError(error)
                return np.array([results[i].value for i in range(len(X))])

            yield side_by_side


def evaluate(f: Objective, space: Space, X: Floats, vectorized: bool) -> Floats:
    """Values (n,) of f at points X (n, D), one after the other or all at once."""
    points: Any = space.to_dicts(X) if space.named else X.copy()  # f may change what it gets
    if not vectorized:
        return np.array([_number(f(point)) for point in points])
    values = f(points)
    try:
        return check_values(values, len(X))
    except ValueError as error:
        raise ValueError(
            f"with vectorized=True f must return ({len(X)},) numbers for {len(X)} points: {error}"
        ) from None


def _number(value: Any) -> float:
    """One value of the objective; None and words are mistakes, not failures."""
    try:
        number = np.asarray(value)
    except ValueError:
        number = np.empty(0)
    if number.size != 1 or number.dtype.kind not in "fiub":
        raise ValueError(
            f"f returned {value!r}; return a number, or NaN where the evaluation failed"
        )
    return float(number.reshape(()))


def _pair(initial: tuple[Any, ...]) -> tuple[Any, Any]:
    if len(initial) != 2:
        raise ValueError(f"initial has {len(initial)} parts; give (X, y), or a number of points")
    return initial[0], initial[1]
