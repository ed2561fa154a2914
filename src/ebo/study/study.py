"""A study: an optimisation that lasts.

Everything is in a storage, most often one file. What is in memory, the optimizer, can be made of it
again at any time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebo.arrays import Floats, Ints
from ebo.display import as_html, as_text
from ebo.iteration import Learned
from ebo.observations import told
from ebo.optimizer import Optimizer
from ebo.result import Result
from ebo.settings import Settings
from ebo.space import Points, Space
from ebo.study.definition import Definition
from ebo.study.loop import ENQUEUED, Callback, Initial, Run
from ebo.study.retry import chosen_failures
from ebo.study.storage.base import NewStorage, Storage, StudyError
from ebo.study.storage.memory import MemoryStorage
from ebo.study.storage.sqlite import SQLiteStorage
from ebo.study.storage.trial import Evaluation, TrialState
from ebo.study.table import check_names, first_of, read_csv, table_of, write_rows
from ebo.study.telling import Told, asked_for, compare, evaluations
from ebo.study.versions import warn_of_others

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ebo.study.evaluation.base import Objective
    from ebo.study.report.data import ReportData

# What reading data that are not as they should be may raise.
WRONG = (LookupError, ArithmeticError, TypeError, ValueError, AttributeError)


class Study:
    """Trials in a storage, and the optimizer that they make; from `create` or `open`.

    space, direction, bounds, seed, settings: as given to `create`.
    storage: where the trials are kept.
    """

    def __init__(self, storage: Storage, *, definition: Definition | None = None) -> None:
        """The study of a storage; `definition` where the storage does not know it."""
        self.storage = storage
        self._optimizer: Optimizer | None = None
        self._news: dict[int, tuple[Floats, float]] = {}  # not told to the optimizer yet, by id
        self._mutex, self._compared = RLock(), False  # its versions with those that are here
        try:
            self._definition = Definition.read(storage.meta) if definition is None else definition
            self.space, self.direction = self._definition.space, self._definition.direction
            self.bounds, self.seed = self._definition.bounds, self._definition.seed
            self.settings = self._definition.settings
            if storage.dims != self.space.dims:
                raise ValueError(f"points of {storage.dims} parameters for {self.space.dims}")
            if not storage.read_only:
                storage.reset_running()  # what ran when an earlier process died waits again
        except WRONG as error:
            storage.close()
            raise self._damaged(error) from None
        except BaseException:
            storage.close()
            raise

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str] | NewStorage | None,
        space: Space,
        *,
        direction: str = "maximize",
        upper_bound: float | None = None,
        lower_bound: float | None = None,
        seed: int = 0,
        settings: Settings | None = None,
        exist_ok: bool = False,
    ) -> Self:
        """A new study; see `Optimizer` for what the options mean.

        path: the new file. None keeps the study in memory. Or a function that makes a storage of
            your own, from the number of parameters and a description to be kept; see `Storage`.
        exist_ok: open a file that is there, if it was made with the same options.
        """
        # The optimizer checks them all, before there is a file.
        definition = Definition.of(
            space,
            direction=direction,
            upper_bound=upper_bound,
            lower_bound=lower_bound,
            seed=seed,
            settings=settings,
        )
        if path is None:
            return cls(MemoryStorage(space.dims, {}), definition=definition)
        check_names(space)
        if callable(path):
            return cls(path(space.dims, definition.describe()))
        if not (exist_ok and Path(path).exists()):
            return cls(SQLiteStorage.create(Path(path), space.dims, definition.describe()))
        study = cls.open(path)
        differs = study._definition.difference(definition)
        if differs:
            study.close()
            raise StudyError(f"{path} was made with {differs}. Give the same, or another file")
        return study

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, read_only: bool = False) -> Self:
        """A study that exists; `read_only` to look at it while another process writes."""
        return cls(SQLiteStorage.open(Path(path), read_only=read_only))

    def close(self) -> None:
        """Let go of the storage; a file can be opened again."""
        self.storage.close()

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
        return sum(self.storage.counts().values())

    def __repr__(self) -> str:
        return as_text("Study", self._facts())

    def _repr_html_(self) -> str:
        return as_html("Study", self._facts())

    @property
    def name(self) -> str:
        """The path of the file, or what else the storage calls itself."""
        return self.storage.name

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer, with all that is known."""
        with self._whole():
            if self._optimizer is None:
                optimizer = self._restored()
                if not self.storage.read_only:  # somebody else may write: read anew each time
                    self._optimizer, self._news = optimizer, {}
                return optimizer
            if self._news:  # told together: one by one is slow where many are pending
                X, y = zip(*(x_and_y for _, x_and_y in sorted(self._news.items())), strict=True)
                self._optimizer.tell(np.array(X), np.array(y))
                self._news = {}
            return self._optimizer

    def ask(self, n: int) -> Floats:
        """n points (n, D) to evaluate next, which are waited for from now on."""
        return self.ask_trials(n)[1]

    def ask_trials(self, n: int) -> tuple[Ints, Floats]:
        """The same with the trials' numbers, (n,), for `tell_trials`."""
        with self._whole():
            optimizer = self.optimizer
            if not self._compared:
                self._compared = True
                warn_of_others(self.name, self.storage.meta)
            before = len(optimizer.history)
            X = optimizer.ask(n)
            info = asdict(optimizer.history[-1]) if len(optimizer.history) > before else {}
            return self.storage.add_batch(X, optimizer.state, info), X

    def enqueue(self, points: Points) -> Ints:
        """Add points of your own, which wait to be evaluated next. Returns their numbers (n,).

        points: an array (n, D), a list of dicts, or one dict. From now on they are as points that
            `ask` gave. The next `run` evaluates them first.
        """
        with self._whole():
            X = self.optimizer.enqueue(points)
            return self.storage.add_batch(X, self.optimizer.state, {ENQUEUED: len(X)})

    def tell(self, X: Points, y: ArrayLike) -> None:
        """Values y (n,) of points X (n, D), asked for or not; NaN says that one failed.

        X may also be a list of dicts, or one dict with one number.
        """
        points, values = told(self.space, X, y)
        asked, others = asked_for(self.storage, points, values)
        self.tell_trials(asked)
        if others:
            self._add_told(points[others], values[others])

    def tell_trials(self, values: Mapping[int, float], *, overwrite: bool = False) -> Told:
        """Values of trials by their number; NaN says that one failed.

        What was told before just like that is skipped. Other values of trials that have finished
        are an error, and nothing is taken in. With `overwrite` they are taken, and what was there
        is kept in `study.storage.revisions()`.
        """
        with self._whole():
            told = compare(self.storage, values)
            if told.different and not overwrite:
                listed = first_of([*told.words.values()])
                raise StudyError(f"{listed}\nNothing was taken in; overwrite=True takes them all")
            now = time.time()
            self.end_trials(evaluations(told.new, now))
            if told.different:
                self.storage.overwrite(evaluations(told.different, now), time=now)
                self._optimizer = None  # made of the storage again, it knows the new values only
            return told

    def end_trials(self, ended: Mapping[int, Evaluation]) -> None:
        """How the evaluations of waiting or running trials ended, by their number."""
        if not ended:
            return
        with self._whole():
            X = self.storage.finish(ended)
            if self._optimizer is not None:  # else it will read them from the storage
                for i, x, evaluation in zip(ended, X, ended.values(), strict=True):
                    self._news[i] = x, evaluation.value

    def retry(
        self,
        states: str | TrialState | Iterable[str | TrialState] | None = None,
        ids: Iterable[int] | None = None,
    ) -> Ints:
        """Make trials that failed wait again; the next run evaluates them first.

        states: of "failed", "lost" and "timed out"; all three if left out.
        ids: their numbers; all if left out. If one of them has not failed, none is changed.
        Returns the numbers of those that wait now.
        """
        with self._whole():
            chosen = chosen_failures(self.storage.trials()["state"], states, ids)
            self.storage.retry(chosen, time=time.time())
            self._optimizer = None  # made of the storage again, it knows of no failure
            return chosen

    def run(
        self,
        f: Objective,
        *,
        batch_size: int = 100,
        iterations: int = 20,
        initial: Initial | None = None,
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
        """Evaluate f until the study has `initial` points and `iterations` batches.

        Batches of earlier runs count, so that a run that was interrupted goes on, and a finished
        one has nothing left to do. Whatever ends a run, all that was evaluated is kept, and what
        was not waits for the next run.

        f: takes an array (D,) on a box, a dict on a space of named parameters, and returns a
            number. An exception, NaN and what is not a number are failed evaluations.
        initial: a number of points to begin with (a Sobol sequence; by default one batch). Or data
            (X, y), which an empty study is told first. Or points without values, an array (n, D) or
            a list of dicts: an empty study evaluates these first, and points of a Sobol sequence
            with them where they are fewer than a batch.
        vectorized: f takes all points at once, (n, D), or a list of dicts, and returns (n,).
        workers: processes that evaluate f side by side, None for as many as there are usable cores.
            1 calls f in this process, unless there is a `timeout`.
        executor: has the workers instead: one of `concurrent.futures`, or anything with its
            `submit`. It stays open.
        how: "processes" or "threads".
        timeout: seconds that an evaluation may take. Then its process is killed.
        retries: how often a failed evaluation is tried again.
        on_error: "stop" ends the run with `AllFailedError` where a whole batch failed. "continue"
            never does. "raise" also raises the first exception of f again; where it happened in
            another process, an `ObjectiveError` with its text.
        callback: gets the study after every batch; return True to end the run.
        progress: a progress bar, on standard error or in a notebook; None shows it only there and
            on a terminal. Without one, every batch is a line of the logger "ebo".

        How processes, threads and executors differ is at `ebo.study.evaluation.processes`.
        """
        return Run(
            f, batch_size, iterations, initial, vectorized, workers, executor, how, timeout,
            retries, on_error, callback, progress,
        )(self)  # fmt: skip

    def best(self) -> tuple[Any, float]:
        """The best point, a dict or an array as the objective takes it, and its value."""
        x, value = self.optimizer.best()
        return (self.space.to_dicts(x[None, :])[0] if self.space.named else x), value

    def structure(self) -> Learned:
        """The groups and cuts learned, and how sure they are."""
        return self.optimizer.structure()

    def counts(self) -> dict[str, int]:
        """Number of trials by state."""
        return {str(state): count for state, count in self.storage.counts().items()}

    def report_data(self) -> ReportData:
        """What a report shows."""
        from ebo.study.report.data import data_of

        return data_of(self)

    def trials(self) -> dict[str, NDArray[Any]]:
        """All trials as columns: id, batch, state, value, times, and one for each parameter.

        Times are datetime64 in UTC, whole numbers int64. `pandas.DataFrame(study.trials())` makes a
        table of them.
        """
        check_names(self.space)  # a study in memory may have any
        return table_of(self.columns(), self.space)

    def iterations(self) -> list[dict[str, Any]]:
        """What every `ask` did: the fields of `ebo.Iteration`, z and density."""
        return self.storage.iterations()

    def trial(self, number: int) -> dict[str, Any]:
        """All about one trial; its parameters are the entry `params`."""
        trial = self.storage.trial(number)
        params = self.space.to_dicts(trial.x[None, :])[0]
        about = {
            key: getattr(trial, key) for key in ("id", "batch", "value", "started", "finished")
        }
        state = {"state": str(trial.state), "attempts": trial.attempts, "error": trial.error}
        return {**about, **state, "params": params}

    def import_csv(self, path: str | os.PathLike[str]) -> int:
        """Add observations of a CSV file with a column for each parameter and `value`.

        All of them or, with the lines that are wrong, none.
        """
        X, y = read_csv(Path(path), self.space)
        self._add_told(X, y)
        return len(y)

    def export_csv(self, path: str | os.PathLike[str], *, spreadsheet: bool = False) -> int:
        """Write all trials to a CSV file, exactly; returns how many.

        spreadsheet: put an apostrophe before text that a spreadsheet would run as a formula.
        """
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            return self.write_csv(file, spreadsheet=spreadsheet)

    def write_csv(self, file: TextIO, *, spreadsheet: bool = False) -> int:
        """The same to an open file."""
        return write_rows(file, self.trials(), self.space, spreadsheet=spreadsheet)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """A step that is made wholly. After an error the optimizer is made of the storage again."""
        with self._mutex:
            try:
                yield
            except BaseException:
                self._optimizer = None
                raise

    def _facts(self) -> dict[str, Any]:
        """The essentials, for people. Nothing is raised: a study that is closed says so."""
        facts = {"study": self.name, "parameters": self.space.dims, "direction": self.direction}
        try:
            facts |= {state: count for state, count in self.counts().items() if count}
            if self.optimizer.any_value:
                facts["best value"] = self.optimizer.best()[1]
        except StudyError as error:
            facts["trials"] = str(error)
        return facts

    def _restored(self) -> Optimizer:
        """An optimizer as it was when the last batch was stored."""
        try:
            return self._definition.restored(self.storage.trials(), self.storage.state())
        except ValueError as error:
            raise self._damaged(error) from None

    def columns(self) -> dict[str, NDArray[Any]]:
        """All trials as the storage has them; `trials` has them as people read them."""
        columns = self.storage.trials()
        try:
            columns["X"] = self.space.check(columns["X"])
        except ValueError as error:
            raise self._damaged(error) from None
        return columns

    def _damaged(self, why: object) -> StudyError:
        return StudyError(f"{self.name} is damaged ({why}); restore it from a copy")

    def _add_told(self, X: Floats, y: Floats) -> None:
        """Store observations that were not asked for, then tell the optimizer."""
        with self._whole():
            optimizer = self.optimizer  # read before the storage changes: nothing is told twice
            self.storage.add_told(X, y, time=time.time())
            optimizer.tell(X, y)
