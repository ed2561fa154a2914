"""What every storage must do: the file, memory, and one that is written here, from outside."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from ebo import Settings, box, maximize
from ebo.arrays import Floats, Ints
from ebo.optimizer import State
from ebo.study import Evaluation, Storage, Study, StudyError, TrialState
from ebo.study.storage.memory import MemoryStorage
from ebo.study.storage.sqlite import SQLiteStorage
from ebo.study.storage.trial import Revision, Trial
from tests.study.storage.test_sqlite import same, structure

NOW = 1_700_000_000.25
DONE, FAILED, LOST = TrialState.DONE, TrialState.FAILED, TrialState.LOST


class Journal:
    """Every change is a new list of trials at the end of a list. Slow, and plainly right."""

    name, read_only = "the journal", False

    def __init__(self, dims: int, meta: Mapping[str, Any]) -> None:
        self.dims, self.meta = dims, json.loads(json.dumps(meta))
        self._versions: list[list[dict[str, Any]]] = [[]]
        self._batches: list[tuple[State, str]] = []
        self._kept: list[Revision] = []
        self._mutex = threading.RLock()

    def _rows(self) -> list[dict[str, Any]]:
        return [dict(row) for row in self._versions[-1]]

    def _add(self, X: ArrayLike, batch: int, ends: list[dict[str, Any]]) -> Ints:
        points, rows = np.array(X, dtype=np.float64), self._rows()
        if points.shape[1:] != (self.dims,) or not np.isfinite(points).all():
            raise ValueError(f"X has shape {points.shape} or is not finite")
        for x, end in zip(points, ends, strict=True):
            empty = {"value": math.nan, "started": math.nan, "finished": math.nan, "attempts": 0}
            rows.append({"batch": batch, "X": x, "error": "", **empty, **end})
        self._versions.append(rows)
        return np.arange(len(rows) - len(points), len(rows))

    def add_batch(self, X: ArrayLike, state: State, info: Mapping[str, Any]) -> Ints:
        text, number = json.dumps(info), state.asked - 1
        if any(known.asked == state.asked for known, _ in self._batches):
            raise StudyError(f"batch {number} is in {self.name} already")
        ids = self._add(X, number, [{"state": TrialState.WAITING} for _ in np.asarray(X)])
        self._batches.append((state, text))
        return ids

    def add_told(self, X: ArrayLike, values: ArrayLike, *, time: float | None = None) -> Ints:
        y = np.array(values, dtype=np.float64)
        if y.shape != (len(np.asarray(X)),):
            raise ValueError(f"values have shape {y.shape}")
        finished = math.nan if time is None else time
        good = {"state": DONE, "finished": finished}
        bad = {"state": FAILED, "finished": finished}
        return self._add(X, -1, [{**good, "value": v} if np.isfinite(v) else bad for v in y])

    def _unfinished(self, rows: list[dict[str, Any]], id: int) -> dict[str, Any]:
        if id != int(id) or not 0 <= id < len(rows):
            raise StudyError(f"there is no trial {id}")
        if rows[int(id)]["state"] >= DONE:
            raise StudyError(f"trial {id} is finished already")
        return rows[int(id)]

    def start(self, ids: ArrayLike, time: float) -> None:
        running = {"state": TrialState.RUNNING, "started": time}
        with self._mutex:
            rows = self._rows()
            for i in np.asarray(ids).tolist():
                row = self._unfinished(rows, i)
                row |= {**running, "attempts": row["attempts"] + 1}
            self._versions.append(rows)

    def finish(self, evaluations: Mapping[int, Evaluation]) -> Floats:
        ended = []
        with self._mutex:
            rows = self._rows()
            for i, e in evaluations.items():
                row = self._unfinished(rows, i)
                row |= {"state": e.state, "value": e.value, "error": e.error}
                row["finished"] = math.nan if e.finished is None else e.finished
                row["started"] = row["started"] if e.started is None else e.started
                row["attempts"] = row["attempts"] if e.attempts is None else e.attempts
                ended.append(row["X"])
            self._versions.append(rows)
        return np.array(ended).reshape(-1, self.dims)

    def reset_running(self) -> int:
        rows = self._rows()
        running = [row for row in rows if row["state"] == TrialState.RUNNING]
        for row in running:
            row |= {"state": TrialState.WAITING, "started": math.nan}
        self._versions.append(rows)
        return len(running)

    def retry(self, ids: ArrayLike, *, time: float | None = None) -> None:
        rows, before = self._rows(), list(self._kept)
        for i in np.asarray(ids).tolist():
            if i != int(i) or not 0 <= i < len(rows) or rows[int(i)]["state"] <= DONE:
                self._kept = before
                raise StudyError(f"trial {i} has not failed")
            self._kept.append(self._revision(rows[int(i)], int(i), time))
            nothing = {"started": math.nan, "finished": math.nan, "error": ""}
            rows[int(i)] |= {"state": TrialState.WAITING, **nothing}
        self._versions.append(rows)

    def _revision(self, row: dict[str, Any], i: int, time: float | None) -> Revision:
        value = row["value"] if np.isfinite(row["value"]) else None
        return Revision(i, TrialState(row["state"]), value, row["error"] or None, time)

    def overwrite(
        self, evaluations: Mapping[int, Evaluation], *, time: float | None = None
    ) -> None:
        rows, kept = self._rows(), list(self._kept)
        for i, e in evaluations.items():
            if not 0 <= i < len(rows) or rows[i]["state"] < DONE:
                raise StudyError(f"trial {i} has not finished")
            row = rows[i]
            kept.append(self._revision(row, i, time))
            row |= {"state": e.state, "value": e.value, "error": e.error}
            row["finished"] = math.nan if e.finished is None else e.finished
            row["started"] = row["started"] if e.started is None else e.started
            row["attempts"] = row["attempts"] if e.attempts is None else e.attempts
        self._kept = kept
        self._versions.append(rows)

    def revisions(self) -> list[Revision]:
        return list(self._kept)

    def trials(self) -> dict[str, NDArray[Any]]:
        rows = self._rows()
        kinds: dict[str, Any] = {"batch": int, "state": int, "attempts": int}
        names = ("batch", "state", "value", "started", "finished", "attempts")
        columns = {n: np.array([row[n] for row in rows], kinds.get(n, float)) for n in names}
        X = np.array([row["X"] for row in rows]).reshape(-1, self.dims)
        return {"id": np.arange(len(rows)), **columns, "X": X}

    def trial(self, id: int) -> Trial:
        row: dict[str, Any]
        rows = self._rows()
        if not 0 <= id < len(rows):
            raise StudyError(f"there is no trial {id}; there are {len(rows)}")
        row = {key: None if value != value else value for key, value in rows[id].items()
               if key != "X"}  # fmt: skip
        batch = None if row["batch"] == -1 else row["batch"]
        x, error = rows[id]["X"], row["error"] or None
        times = row["started"], row["finished"]
        return Trial(id, batch, x, row["state"], row["value"], *times, row["attempts"], error)

    def waiting(self) -> tuple[Ints, Floats]:
        columns = self.trials()
        ids = np.flatnonzero(columns["state"] == TrialState.WAITING)
        return ids, columns["X"][ids]

    def errors(self) -> dict[int, str]:
        return {i: row["error"] for i, row in enumerate(self._rows()) if row["error"]}

    def counts(self) -> dict[TrialState, int]:
        states = [row["state"] for row in self._rows()]
        return {state: states.count(state) for state in TrialState}

    def iterations(self) -> list[dict[str, Any]]:
        return [
            json.loads(text)
            | {"batch": state.asked - 1}
            | {name: getattr(state.structure, name, None) for name in ("z", "density", "noise")}
            for state, text in sorted(self._batches, key=lambda batch: batch[0].asked)
        ]

    def state(self) -> State:
        return self._batches[-1][0] if self._batches else State()

    def close(self) -> None:
        pass


Make = Callable[[int, Mapping[str, Any]], Storage]


@pytest.fixture(params=["sqlite", "memory", "journal"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    opened: list[Storage] = []

    def new(dims: int, meta: Mapping[str, Any]) -> Storage:
        storage: Storage
        if request.param == "sqlite":
            storage = SQLiteStorage.create(tmp_path / f"{len(opened)}.ebo", dims, meta)
        else:
            storage = (MemoryStorage if request.param == "memory" else Journal)(dims, meta)
        opened.append(storage)
        return storage

    yield new
    for storage in opened:
        storage.close()
        storage.close()


def done(value: float, **times: Any) -> Evaluation:
    return Evaluation(DONE, value, **times)


def snapshot(storage: Storage) -> str:
    """All that can be read."""
    columns = {name: column.tolist() for name, column in storage.trials().items()}
    told = storage.errors(), storage.counts(), storage.iterations(), storage.revisions()
    return repr((columns, *told))


def test_a_new_one_is_empty(make: Make) -> None:
    meta = {"space": ["a", None, 2.5], "note": "grüße", "deep": {"x": [1, [True]]}}
    storage = make(3, meta)
    assert (storage.dims, storage.meta, storage.read_only) == (3, meta, False)
    assert storage.name
    columns = storage.trials()
    assert columns.pop("X").shape == (0, 3)
    assert {column.shape for column in columns.values()} == {(0,)}
    assert list(columns) == [
        "id", "batch", "state", "value", "started", "finished", "attempts",
    ]  # fmt: skip
    ids, X = storage.waiting()
    assert (ids.shape, X.shape) == ((0,), (0, 3))
    assert (storage.errors(), storage.iterations()) == ({}, [])
    assert storage.counts() == dict.fromkeys(TrialState, 0)
    assert same(storage.state(), State())
    with pytest.raises(StudyError, match="no trial 0"):
        storage.trial(0)


def test_a_trial_from_its_ask_to_its_end(make: Make) -> None:
    storage = make(2, {})
    told = storage.add_told([[0.5, 1.0], [1e300, -0.0]], [3.25, np.nan], time=NOW)
    X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
    ids = storage.add_batch(X, State(1), {"best": None, "seconds": {"learn": 2.0}})
    assert (told.tolist(), ids.tolist()) == ([0, 1], [2, 3, 4, 5])
    storage.start(ids[:3], NOW)
    storage.start(ids[:1], NOW + 1)
    storage.start([], NOW)
    points = storage.finish(
        {
            4: Evaluation(LOST, error="naïve\n  ✗", started=NOW + 2, finished=NOW + 3, attempts=7),
            2: done(-1.5, finished=NOW + 4),
        }
    )
    assert points.tolist() == [[5, 6], [1, 2]]
    assert storage.finish({}).shape == (0, 2)
    columns = storage.trials()
    assert columns["id"].tolist() == list(range(6))
    assert columns["batch"].tolist() == [-1, -1, 0, 0, 0, 0]
    assert [str(TrialState(s)) for s in columns["state"]] == [
        "done", "failed", "done", "running", "lost", "waiting",
    ]  # fmt: skip
    nan = math.nan
    np.testing.assert_array_equal(columns["value"], [3.25, nan, -1.5, nan, nan, nan])
    np.testing.assert_array_equal(columns["started"] - NOW, [nan, nan, 1, 0, 2, nan])
    np.testing.assert_array_equal(columns["finished"] - NOW, [0, 0, 4, nan, 3, nan])
    assert columns["attempts"].tolist() == [0, 0, 2, 1, 7, 0]
    assert columns["X"].tolist() == [[0.5, 1.0], [1e300, -0.0], *X.tolist()]
    assert storage.errors() == {4: "naïve\n  ✗"}
    assert list(storage.counts().values()) == [1, 1, 2, 1, 0, 1]
    waiting, left = storage.waiting()
    assert (waiting.tolist(), left.tolist()) == ([5], [[7, 8]])
    trial = storage.trial(4)
    assert (trial.id, trial.batch, trial.state, trial.value) == (4, 0, LOST, None)
    assert (trial.started, trial.finished, trial.attempts) == (NOW + 2, NOW + 3, 7)
    assert (trial.error, trial.x.tolist()) == ("naïve\n  ✗", [5, 6])
    trial = storage.trial(1)
    assert (trial.batch, trial.value, trial.error, trial.finished) == (None, None, None, NOW)
    assert storage.reset_running() == 1
    assert storage.reset_running() == 0
    assert storage.waiting()[0].tolist() == [3, 5]
    assert storage.trial(3).started is None
    assert storage.trial(3).attempts == 1  # it was tried


def test_what_failed_waits_again(make: Make) -> None:
    storage = make(1, {})
    storage.add_told([[9.0]], [np.nan], time=NOW)
    storage.add_batch([[1.0], [2.0], [3.0], [4.0]], State(1), {})
    ends: dict[str, Any] = {"started": NOW, "finished": NOW + 1, "attempts": 3}
    storage.finish(
        {
            1: Evaluation(FAILED, error="no", **ends),
            2: Evaluation(LOST, error="gone", **ends),
            3: done(1.0),
        }
    )
    before = snapshot(storage)
    for wrong in ([1, 3], [1, 4], [1, 5], [-1], [0.5]):
        with pytest.raises(StudyError):
            storage.retry(wrong)
        assert snapshot(storage) == before
    storage.retry([])
    assert snapshot(storage) == before
    storage.retry([2, 0, 1], time=NOW + 5)
    assert [r.id for r in storage.revisions()] == [2, 0, 1]
    assert storage.revisions()[0] == Revision(2, LOST, None, "gone", NOW + 5)
    ids, X = storage.waiting()
    assert (ids.tolist(), X.ravel().tolist()) == ([0, 1, 2, 4], [9, 1, 2, 4])
    assert storage.errors() == {}
    trial = storage.trial(2)
    assert (trial.state, trial.value, trial.error) == (TrialState.WAITING, None, None)
    assert (trial.started, trial.finished, trial.attempts) == (None, None, 3)
    storage.start([2], NOW + 2)
    storage.finish({2: done(5.0)})
    trial = storage.trial(2)
    assert (trial.value, trial.started, trial.attempts) == (5.0, NOW + 2, 4)
    storage.retry([])


def test_what_is_overwritten_is_kept(make: Make) -> None:
    storage = make(1, {})
    storage.add_batch([[1.0], [2.0], [3.0]], State(1), {})
    storage.finish({0: done(1.0, started=NOW, finished=NOW, attempts=2), 1: done(2.0)})
    before = snapshot(storage)
    for wrong in (2, 3, -1):
        with pytest.raises(StudyError):
            storage.overwrite({0: done(9.0), wrong: done(9.0)}, time=NOW)
        assert snapshot(storage) == before
    storage.overwrite({})
    storage.overwrite({0: Evaluation(FAILED, error="no", finished=NOW + 1)}, time=NOW + 2)
    storage.overwrite({0: done(4.0), 1: done(5.0)})
    assert storage.revisions() == [
        Revision(0, DONE, 1.0, None, NOW + 2),
        Revision(0, FAILED, None, "no", None),
        Revision(1, DONE, 2.0, None, None),
    ]
    np.testing.assert_array_equal(storage.trials()["value"], [4, 5, np.nan])
    trial = storage.trial(0)
    assert (trial.started, trial.attempts, trial.error) == (NOW, 2, None)
    assert storage.waiting()[0].tolist() == [2]


def test_states_and_what_was_learned(make: Make) -> None:
    storage = make(3, {})
    leaves = np.zeros((2, 3)), np.ones((2, 3))
    states = [State(1), State(2, structure(3, 0), leaves), State(3, structure(3, 1)),
              State(4, structure(3, 3))]  # fmt: skip
    for state in states:
        storage.add_batch(np.zeros((1, 3)), state, {"iteration": state.asked, "list": [1, 2.5]})
        assert same(storage.state(), state)
    told = storage.iterations()
    assert [entry["batch"] for entry in told] == [0, 1, 2, 3]
    assert [entry["iteration"] for entry in told] == [1, 2, 3, 4]
    assert told[0]["z"] is told[0]["density"] is told[0]["noise"] is None
    for entry, state in zip(told[1:], states[1:], strict=True):
        assert state.structure is not None
        assert entry["list"] == [1, 2.5]
        assert entry["z"].tolist() == state.structure.z.tolist()
        assert entry["density"].tolist() == state.structure.density.tolist()
        assert entry["noise"] == state.structure.noise


def test_what_is_wrong_changes_nothing(make: Make) -> None:
    storage = make(2, {})
    storage.add_batch([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], State(1), {})
    storage.finish({1: done(1.0)})
    before = snapshot(storage)
    wrong: list[Callable[[], Any]] = [
        lambda: storage.finish({0: done(1.0), 1: done(2.0)}),
        lambda: storage.finish({0: done(1.0), 3: done(2.0)}),
        lambda: storage.finish({0: done(1.0), -1: done(2.0)}),
        lambda: storage.start([0, 1], NOW),
        lambda: storage.start([2, 7], NOW),
        lambda: storage.start([0.5], NOW),
        lambda: storage.add_told([[0.0, 1.0]], [1.0, 2.0]),
        lambda: storage.add_told([[0.0, 1.0, 2.0]], [1.0]),
        lambda: storage.add_told([[0.0, np.inf]], [1.0]),
        lambda: storage.add_batch([[0.0, np.nan]], State(2), {}),
        lambda: storage.add_batch([[0.0, 1.0]], State(1), {}),
        lambda: storage.add_batch([[0.0, 1.0]], State(2), {"a": object()}),
        lambda: storage.trial(-1),
        lambda: storage.trial(3),
    ]
    for call in wrong:
        with pytest.raises((StudyError, ValueError, TypeError)):
            call()
        assert snapshot(storage) == before
    assert storage.waiting()[0].tolist() == [0, 2]


def test_what_is_given_may_be_changed_afterwards(make: Make) -> None:
    storage = make(2, {})
    X, info = np.zeros((2, 2)), {"a": [1]}
    storage.add_batch(X, State(1), info)
    X += 7
    info["a"].append(2)
    before = snapshot(storage)
    storage.trials()["X"][:] = 9
    storage.waiting()[1][:] = 9
    assert snapshot(storage) == before
    assert storage.iterations()[0]["a"] == [1]


def test_threads_may_share_it(make: Make) -> None:
    storage = make(1, {})
    storage.add_batch(np.zeros((80, 1)), State(1), {})

    def work(first: int) -> None:
        for i in range(first, 80, 4):
            storage.start([i], NOW)
            storage.finish({i: done(float(i))})

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    columns = storage.trials()
    assert columns["value"].tolist() == list(range(80))
    assert columns["attempts"].tolist() == [1] * 80


# A study on any of them.


def test_a_study_asks_for_the_same_points_on_each(make: Make) -> None:
    space, settings = box([0.0] * 3, [1.0] * 3), Settings().changed(leaf_size=20, block_size=20)
    run: dict[str, Any] = {"batch_size": 5, "iterations": 3}

    def f(x: Floats) -> float:
        if x[1] < 0.2:
            raise ValueError("too low")
        return -float(((x - 0.3) ** 2).sum())

    expected = maximize(f, space, seed=4, settings=settings, **run)
    kept: list[Storage] = []

    def keeping(dims: int, meta: Mapping[str, Any]) -> Storage:
        kept.append(make(dims, meta))
        return kept[-1]

    study = Study.create(keeping, space, seed=4, settings=settings)
    study.run(f, callback=lambda study: True, **run)
    ids, X = study.ask_trials(5)
    study.tell_trials({int(ids[0]): -float(((X[0] - 0.3) ** 2).sum())} if X[0, 1] > 0.2 else {})
    again = Study(kept[0])  # as another process would find it
    assert (again.seed, again.settings, again.space) == (4, settings, space)
    result = again.run(f, **run)
    np.testing.assert_array_equal(result.X, expected.X)
    np.testing.assert_array_equal(result.y, expected.y)
    assert again.counts() == {
        **dict.fromkeys(again.counts(), 0),
        "done": int(np.isfinite(result.y).sum()),
        "failed": int(np.isnan(result.y).sum()),
    }
