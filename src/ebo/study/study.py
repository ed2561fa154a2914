"""A study: an optimisation that lasts, in one file.

`Study.run` is the loop of Alg. 1 with every step written down before the next is made: a batch is
stored, with what the optimizer needs to go on, before any of it is evaluated, and each value as it
comes. So a process that is killed at any instant loses no value that has come, and the next `run`
goes on from there as if nothing had happened.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebo.arrays import Floats, Ints
from ebo.checks import check_count
from ebo.iteration import Learned
from ebo.learning.base import Structure
from ebo.observations import check_values, row_keys
from ebo.optimizer import Optimizer
from ebo.result import Result, make_result
from ebo.settings import Settings
from ebo.space import Space
from ebo.study.describe import describe_space, migrate_settings, read_space
from ebo.study.evaluation.base import INTERRUPTED, Evaluation
from ebo.study.evaluation.processes import evaluator
from ebo.study.evaluation.summary import all_failed
from ebo.study.progress import progress_bar
from ebo.study.report.data import ReportData, numbers_of
from ebo.study.storage.file import StudyError
from ebo.study.storage.sqlite import Store
from ebo.study.table import check_names, read_csv, write_rows
from ebo.study.trial import Finish, TrialState
from ebo.tilegp.kernel import MOST_CUTS

# What reading data that are not as they should be may raise.
WRONG = (LookupError, ArithmeticError, TypeError, ValueError, AttributeError)
STATES = {str(state): state for state in TrialState}


class AllFailedError(StudyError):
    """A whole batch failed; the message has the counts and the most frequent errors."""


class Study:
    """Observations and the optimizer's state in a file; made by `create` or `open`."""

    def __init__(self, store: Store, *, read_only: bool = False) -> None:
        self._store, self._read_only = store, read_only
        self.path = store.path
        self._optimizer: Optimizer | None = None
        try:
            meta = store.meta
            self.space = read_space(meta["space"])
            self.direction = str(meta["direction"])
            # A study from before there were probes goes on without.
            self.settings = Settings.from_dict(
                migrate_settings(meta["settings"], 3 if "partition" not in meta["settings"] else 4)
            )
            self.seed: int = meta["seed"]
            self.bounds: dict[str, float] = dict(meta["bounds"])
            self._new_optimizer()
            if store.dims != self.space.dims:
                raise ValueError(f"points of {store.dims} parameters for {self.space.dims}")
            if not read_only:
                store.reset_running()  # what ran when an earlier process died waits again
        except WRONG as error:
            store.close()
            raise self._damaged(error) from None
        except BaseException:
            store.close()
            raise

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        space: Space,
        *,
        direction: str = "maximize",
        upper_bound: float | None = None,
        lower_bound: float | None = None,
        seed: int = 0,
        settings: Settings | None = None,
        exist_ok: bool = False,
    ) -> Self:
        """A new study in a new file; see `Optimizer` for what the options mean.

        With `exist_ok`, a file that is there is opened, if it was made with the same.
        """
        check_names(space)
        given: dict[str, Any] = {"upper_bound": upper_bound, "lower_bound": lower_bound}
        # The optimizer checks them all, before there is a file.
        optimizer = Optimizer(space, seed=seed, direction=direction, settings=settings, **given)
        meta = {
            "space": describe_space(space),
            "direction": direction,
            "bounds": {name: float(value) for name, value in given.items() if value is not None},
            "seed": optimizer.seed,
            "settings": optimizer.settings.as_dict(),
        }
        if not (exist_ok and Path(path).exists()):
            return cls(Store.create(Path(path), space.dims, meta))
        study = cls.open(path)
        for name, wanted in {**meta, "space": space, "settings": optimizer.settings}.items():
            stored = getattr(study, name)
            if wanted != stored:
                study.close()
                raise StudyError(
                    f"{path} was made with another {name}: it has {stored!r}, now given is "
                    f"{wanted!r}. Give the same, or another file"
                )
        return study

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, read_only: bool = False) -> Self:
        """A study that exists; `read_only` to look at it while another process writes."""
        return cls(Store.open(Path(path), read_only=read_only), read_only=read_only)

    def close(self) -> None:
        """Let go of the file; it can be opened again."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return sum(self._store.counts().values())

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer, with all that is known."""
        if self._optimizer is not None:
            return self._optimizer
        optimizer = self._restored()
        if not self._read_only:  # somebody else may write: read anew each time
            self._optimizer = optimizer
        return optimizer

    def ask(self, n: int) -> Floats:
        """n points (n, D) to evaluate next, which are waited for from now on."""
        return self.ask_trials(n)[1]

    def ask_trials(self, n: int) -> tuple[Ints, Floats]:
        """The same with the trials' numbers, (n,), for `tell_trials`."""
        optimizer = self.optimizer
        before = len(optimizer.history)
        try:
            X = optimizer.ask(n)
            info = asdict(optimizer.history[-1]) if len(optimizer.history) > before else {}
            ids = self._store.add_batch(X, optimizer.state, info)
        except BaseException:
            self._optimizer = None  # what is in memory may be ahead of the file: read it anew
            raise
        return ids, X

    def tell(self, X: ArrayLike, y: ArrayLike) -> None:
        """Values y (n,) of points X (n, D), asked for or not; NaN says that one failed."""
        points = self.space.check(X)
        values = check_values(y, len(points))
        ids, waiting = self._store.waiting()
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
        self.tell_trials(asked)
        if others:
            self._add_told(points[others], values[others])

    def tell_trials(self, values: Mapping[int, float]) -> None:
        """Values of waiting trials by their number; NaN says that one failed."""
        if not values:
            return
        now = time.time()
        told = {
            i: Evaluation("done", value, "", now, now, 1)
            if np.isfinite(value)
            else Evaluation("failed", np.nan, "told as failed", now, now, 1)
            for i, value in values.items()
        }
        self._finish(told)

    def best(self) -> tuple[Any, float]:
        """The best point, a dict or an array as the objective takes it, and its value."""
        x, value = self.optimizer.best()
        return (self.space.to_dicts(x[None, :])[0] if self.space.named else x), value

    def structure(self) -> Learned:
        """The groups and cuts learned, and how sure they are."""
        return self.optimizer.structure()

    def counts(self) -> dict[str, int]:
        """Number of trials by state."""
        return {str(state): count for state, count in self._store.counts().items()}

    def report_data(self) -> ReportData:
        """What a report shows."""
        columns = self._columns()
        learned = self.structure() if self.optimizer.state.structure is not None else None
        names = np.array([str(state) for state in TrialState], dtype=object)
        bounds = list(self.bounds.values())
        return ReportData(
            title=Path(self.path).stem,
            direction=self.direction,
            names=self.space.names,
            parameters=tuple(self.space.parameters.values()),
            X=columns["X"],
            value=columns["value"],
            state=names[columns["state"]],
            batch=columns["batch"],
            started=columns["started"],
            finished=columns["finished"],
            ids=columns["id"],
            errors=self._store.errors(),
            upper_bound=bounds[0] if bounds else None,
            upper_bound_known=bool(bounds),
            settings=self.settings.flat(),
            certainty=None if learned is None else learned.certainty,
            groups=() if learned is None else learned.groups,
            cuts={} if learned is None else learned.cuts,
            iterations=[numbers_of(row) for row in self.iterations()],
            generated=datetime.now(),
            version=version("ebo"),
        )

    def trials(self) -> dict[str, NDArray[Any]]:
        """All trials as columns: id, batch, state, value, times, and one for each parameter.

        `pandas.DataFrame(study.trials())` makes a table of them.
        """
        columns = self._columns()
        X = columns.pop("X")
        names = np.array([str(state) for state in TrialState], dtype=object)
        table: dict[str, NDArray[Any]] = {**columns, "state": names[columns["state"]]}
        for d, (name, parameter) in enumerate(self.space.parameters.items()):
            choices = getattr(parameter, "choices", None)
            column = X[:, d]
            if choices is not None:
                kinds = np.empty(len(choices), dtype=object)
                kinds[:] = choices
                table[name] = kinds[column.astype(np.int64)]
            else:
                table[name] = column
        return table

    def iterations(self) -> list[dict[str, Any]]:
        """What every `ask` did: the fields of `ebo.Iteration`, z and density."""
        return self._store.iterations()

    def trial(self, number: int) -> dict[str, Any]:
        """All about one trial; its parameters are the entry `params`."""
        trial = self._store.trial(number)
        params = self.space.to_dicts(trial.x[None, :])[0]
        about = {
            key: getattr(trial, key) for key in ("id", "batch", "value", "started", "finished")
        }
        state = {"state": str(trial.state), "attempts": trial.attempts, "error": trial.error}
        return {**about, **state, "params": params}

    def run(
        self,
        f: Callable[[Any], Any],
        *,
        batch_size: int = 100,
        iterations: int = 20,
        initial: int | None = None,
        vectorized: bool = False,
        workers: int | Executor | None = None,
        how: str = "processes",
        timeout: float | None = None,
        retries: int = 0,
        stop_when_all_fail: bool = True,
        callback: Callable[[Study], bool | None] | None = None,
        progress: bool | None = None,
    ) -> Result:
        """Evaluate until the study has `initial` points and `iterations` batches.

        Batches of earlier runs count, so that a run that was interrupted goes on, and a finished
        one has nothing left to do. Data imported before the first batch take the place of the
        initial points. See `ebo.maximize` for f, and
        `ebo.study.evaluation` for how it is called.
        """
        check_count("batch_size", batch_size, 1)
        check_count("iterations", iterations, 0)
        first = batch_size if initial is None else initial
        check_count("initial", first, 1)
        sizes = self._sizes(first, batch_size, iterations)
        waiting = self._store.waiting()[0]
        with (
            progress_bar(len(self) + sum(sizes), progress, len(self) - len(waiting)) as bar,
            evaluator(
                f,
                workers=workers,
                how="vectorized" if vectorized else how,
                timeout=timeout,
                retries=retries,
            ) as evaluate,
        ):
            for size in [0, *sizes]:  # first what an earlier run left waiting
                ids, X = self.ask_trials(size) if size else self._store.waiting()
                if not len(ids):
                    continue
                finished = self._evaluate(evaluate, ids, X, bar)
                error = all_failed(list(finished.values()))
                if error and stop_when_all_fail and not self._any_done(int(ids[0])):
                    raise AllFailedError(f"{error}, or run with stop_when_all_fail=False")
                if callback is not None and callback(self):
                    break
        return make_result(self.optimizer)

    def import_csv(self, path: str | os.PathLike[str]) -> int:
        """Add observations of a CSV file with a column for each parameter and `value`.

        All of them or, with the lines that are wrong, none.
        """
        X, y = read_csv(Path(path), self.space)
        self._add_told(X, y)
        return len(y)

    def export_csv(self, path: str | os.PathLike[str]) -> int:
        """Write all trials to a CSV file; returns how many."""
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            return self.write_csv(file)

    def write_csv(self, file: TextIO) -> int:
        """The same to an open file."""
        return write_rows(file, self.trials(), self.space)

    def _restored(self) -> Optimizer:
        """An optimizer as it was when the last batch was stored."""
        optimizer = self._new_optimizer()
        columns = self._columns()
        state = self._store.state()
        if state.structure is not None and not _fits(state.structure, int(self.space.free.sum())):
            raise self._damaged("what was learned does not fit the space")
        told = columns["state"] >= TrialState.DONE
        waiting = ~told
        errors = self._store.errors(columns["id"][columns["state"] == TrialState.LOST])
        told[[i for i, error in errors.items() if error == INTERRUPTED]] = False  # nothing known
        optimizer.tell(columns["X"][told], columns["value"][told])
        optimizer.restore(state, columns["X"][waiting])
        return optimizer

    def _new_optimizer(self) -> Optimizer:
        return Optimizer(
            self.space,
            seed=self.seed,
            direction=self.direction,
            upper_bound=self.bounds.get("upper_bound"),
            lower_bound=self.bounds.get("lower_bound"),
            settings=self.settings,
        )

    def _columns(self) -> dict[str, NDArray[Any]]:
        """The trials' columns, whose points must be of the space."""
        columns = self._store.trials()
        try:
            columns["X"] = self.space.check(columns["X"])
        except ValueError as error:
            raise self._damaged(error) from None
        return columns

    def _damaged(self, why: object) -> StudyError:
        return StudyError(f"{self.path} is damaged ({why}); restore it from a copy")

    def _any_done(self, trial: int) -> bool:
        """Whether any trial of the same batch is done: a part of it may have been left to us."""
        columns = self._store.trials()
        same = columns["batch"] == columns["batch"][trial]
        return bool(np.any(columns["state"][same] == TrialState.DONE))

    def _add_told(self, X: Floats, y: Floats) -> None:
        """Store observations that were not asked for, then tell the optimizer."""
        optimizer = self.optimizer  # read before the file changes: nothing is told twice
        self._store.add_told(X, y, time=time.time())
        optimizer.tell(X, y)

    def _evaluate(
        self, evaluate: Any, ids: Ints, X: Floats, bar: Callable[[int, Optimizer], None]
    ) -> dict[int, Evaluation]:
        """Evaluate waiting trials, and store each value as it comes."""
        points: Any = self.space.to_dicts(X) if self.space.named else X.copy()
        finished: dict[int, Evaluation] = {}

        def take(results: Sequence[tuple[int, Evaluation]]) -> None:
            new = {int(ids[index]): evaluation for index, evaluation in results}
            self._finish(new)
            finished.update(new)
            bar(len(new), self.optimizer)

        self._store.start(ids, time.time())
        try:
            for index, evaluation in evaluate.evaluate(points):
                take([(index, evaluation)])
        except KeyboardInterrupt:
            with suppress(KeyboardInterrupt):
                take(evaluate.interrupt())
            self._store.reset_running()  # what had not begun waits again
            self._optimizer = None  # it waits for points that are lost: read it anew
            raise
        return finished

    def _finish(self, evaluations: Mapping[int, Evaluation]) -> None:
        """Store evaluations of waiting trials, then tell the optimizer."""
        optimizer = self.optimizer  # read before the file changes: nothing is told twice
        X = self._store.finish(
            Finish(
                number,
                STATES[e.state],
                e.value if e.state == "done" else None,
                e.started,
                e.finished,
                e.attempts,
                e.error or None,
            )
            for number, e in evaluations.items()
        )
        told = [e.error != INTERRUPTED for e in evaluations.values()]
        values = np.array([e.value for e in evaluations.values()], dtype=np.float64)
        optimizer.tell(X[told], values[told])

    def _sizes(self, initial: int, batch_size: int, iterations: int) -> list[int]:
        """Sizes of the batches that are still to be asked."""
        asked = self._store.state().asked
        planned = [batch_size] * iterations
        if not self._store.begins_with_data():
            planned.insert(0, initial)
        return planned[asked:]


def _fits(structure: Structure, dims: int) -> bool:
    """Whether what was learned can be used."""
    z, density, together = structure.z, structure.density, structure.together
    return bool(
        z.shape == (dims,)
        and density.shape == (dims,)
        and together.shape == (dims, dims)
        and np.all((z >= 0) & (z < dims))
        and np.all((density >= 0) & (density <= MOST_CUTS))
        and np.all((together >= 0) & (together <= 1))
        and 0 < structure.noise < np.inf
        and (structure.pair is None or np.all((structure.pair >= 0) & (structure.pair <= 1)))
    )
