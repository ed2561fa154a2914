from __future__ import annotations

import json
import math
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ebo
from ebo.settings import Settings
from ebo.space import Categorical, Float, Int, Space, box
from ebo.study.loop import AllFailedError
from ebo.study.storage.base import StudyError
from ebo.study.storage.file import LockedStudyError
from ebo.study.study import Study

SMALL = Settings().changed(leaf_size=20, block_size=20, learn_from=60)
SPACE = Space(
    rate=Float(1e-3, 1.0, log=True),
    depth=Int(1, 5),
    kind=Categorical(["a", None, 2.5, True]),
    x=Float(-1.0, 1.0),
)
BATCH, ITERATIONS = 6, 3
TOTAL = BATCH * (1 + ITERATIONS)
RUN: dict[str, Any] = {"batch_size": BATCH, "iterations": ITERATIONS, "how": "threads"}


def f(params: dict[str, Any]) -> float:
    bonus = 1.0 if params["kind"] == "a" else 0.0
    return float(
        bonus - (math.log10(params["rate"]) + 1) ** 2 - params["x"] ** 2 - params["depth"] / 9
    )


def some_fail(params: dict[str, Any]) -> float:
    if params["depth"] == 2:
        raise ArithmeticError("two is too few")
    return math.nan if params["x"] > 0.7 else f(params)


def broken(params: dict[str, Any]) -> float:
    raise ValueError("no licence")


def new(folder: Path, name: str = "s.ebo", **options: Any) -> Study:
    return Study.create(folder / name, SPACE, **{"settings": SMALL, **options})


def rows(study: Study) -> list[tuple[Any, ...]]:
    """All that was evaluated, in an order that does not depend on when."""
    columns = study.trials()
    names = ("batch", *SPACE.names, "value", "state")
    return sorted(map(repr, zip(*(columns[name].tolist() for name in names), strict=True)))  # type: ignore[arg-type]


def finished(study: Study) -> int:
    return sum(study.counts()[state] for state in ("done", "failed", "timed out", "lost"))


# Asking and telling.


def test_a_study_is_made_and_found_again(tmp_path: Path) -> None:
    with new(tmp_path, seed=7, direction="minimize", lower_bound=-3) as study:
        assert len(study) == 0
        assert study.counts() == dict.fromkeys(study.counts(), 0)
        assert list(study.counts()) == ["waiting", "running", "done", "failed", "timed out", "lost"]
    with Study.open(tmp_path / "s.ebo") as study:
        assert (study.space, study.settings, study.seed) == (SPACE, SMALL, 7)
        assert (study.direction, study.bounds) == ("minimize", {"lower_bound": -3.0})
    with pytest.raises(StudyError, match=r"exists already; open it to continue"):
        new(tmp_path)
    with pytest.raises(StudyError, match="there is no study at"):
        Study.open(tmp_path / "none.ebo")


def test_what_is_wrong_is_said_before_there_is_a_file(tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = [
        {"seed": -1},
        {"direction": "up"},
        {"upper_bound": math.nan},
        {"lower_bound": 0.0},
    ]
    for options in wrong:
        with pytest.raises(ValueError, match="give"):
            new(tmp_path, **options)
    with pytest.raises(ValueError, match=r"cannot store the choice \(1, 2\)"):
        Study.create(tmp_path / "s.ebo", Space(a=Categorical([(1, 2), "b"])))
    assert list(tmp_path.iterdir()) == []


def test_ask_and_tell(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        X = study.ask(4)
        assert X.shape == (4, 4)
        assert study.counts()["waiting"] == 4
        study.tell(X[[2, 0]], [1.0, 5.0])  # a part, in another order
        assert (study.counts()["waiting"], study.counts()["done"]) == (2, 2)
        study.tell(X[1:2], [math.nan])  # failed
        assert study.counts()["failed"] == 1
        other = SPACE.check([[0.5, 3, 0, 0.25]])
        study.tell(np.concatenate([other, X[3:]]), [7.0, math.inf])  # one not asked for
        assert study.counts() == {
            "waiting": 0, "running": 0, "done": 3, "failed": 2, "timed out": 0, "lost": 0,
        }  # fmt: skip
        assert len(study) == 5
        assert study.best() == ({"rate": 0.5, "depth": 3, "kind": "a", "x": 0.25}, 7.0)
        columns = study.trials()
        np.testing.assert_array_equal(columns["value"], [5.0, np.nan, 1.0, np.nan, 7.0])
        assert columns["batch"].tolist() == [0, 0, 0, 0, -1]
        assert study.trial(1)["error"] == "told as failed"
        assert len(study.optimizer.y) == 5


def test_what_is_told_is_told_once_after_opening_again(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        X = study.ask(4)
    with Study.open(tmp_path / "s.ebo") as study:
        study.tell(X, np.arange(4.0))
        assert len(study.optimizer.y) == 4
        assert len(study.optimizer.pending) == 0
    with Study.open(tmp_path / "s.ebo") as study:
        study.tell(SPACE.check([[0.5, 3, 0, 0.25]]), [7.0])
        assert sorted(study.optimizer.y) == [0.0, 1.0, 2.0, 3.0, 7.0]


def test_trials_are_told_by_number_and_once(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        ids, _ = study.ask_trials(3)
        assert ids.tolist() == [0, 1, 2]
        study.tell_trials({1: 2.0, 2: math.nan})
        study.tell_trials({})
        before = rows(study)
        with pytest.raises(StudyError, match=r"trial 1 is finished already \(done\)"):
            study.tell_trials({0: 1.0, 1: 3.0})
        with pytest.raises(StudyError, match="there is no trial 17"):
            study.tell_trials({0: 1.0, 17: 3.0})
        assert rows(study) == before  # all or none
        assert study.optimizer.y.tolist() == pytest.approx([2.0, math.nan], nan_ok=True)
        study.tell_trials({0: 1.0})
        assert study.best()[1] == 2.0


def test_wrong_points_and_values_change_nothing(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        X = study.ask(2)
        wrong: list[tuple[Any, Any]] = [
            (X, [1.0]),
            (X[:, :3], [1.0, 2.0]),
            (X + 100, [1.0, 2.0]),
            (X, ["a", "b"]),
        ]
        for points, values in wrong:
            with pytest.raises(ValueError, match=r"give|expected|outside"):
                study.tell(points, values)
        with pytest.raises(ValueError, match="at least 1"):
            study.ask(0)
        assert study.counts()["waiting"] == len(study) == 2


def test_no_best_before_a_value(tmp_path: Path) -> None:
    with new(tmp_path) as study, pytest.raises(RuntimeError, match="no value is known yet"):
        study.best()


def test_arrays_on_a_box(tmp_path: Path) -> None:
    space = box([0.0, -1.0], [1.0, 1.0])
    with Study.create(tmp_path / "s.ebo", space, direction="minimize", settings=SMALL) as study:
        result = study.run(lambda x: float(x @ x), workers=1, **RUN)
        x, value = study.best()
        assert isinstance(x, np.ndarray)
        assert value == result.best_value == np.nanmin(result.y) == x @ x
    with Study.open(tmp_path / "s.ebo") as study:
        assert not study.space.named
        assert study.best()[1] == value


def test_points_that_ran_when_the_process_died_can_be_told(tmp_path: Path) -> None:
    copies: list[Path] = []
    with new(tmp_path) as study:
        study.run(snapshots(tmp_path / "s.ebo", copies, at={2}), workers=1, **RUN)
    with Study.open(copies[0]) as study:
        columns = study.trials()
        open_ones = np.flatnonzero(~np.isin(columns["state"], ["done"]))
        X = study.optimizer.pending
        assert len(X) == len(open_ones) == BATCH - 1
        study.tell(X, np.zeros(len(X)))
        assert len(study) == BATCH, "told points are there twice"
        assert study.counts()["done"] == BATCH


# Looking.


def test_columns(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        result = study.run(f, workers=1, **RUN)
        columns = study.trials()
    kinds = {name: column.dtype.kind for name, column in columns.items()}
    assert kinds == {
        "id": "i", "batch": "i", "state": "O", "value": "f", "started": "M", "finished": "M",
        "attempts": "i", "rate": "f", "depth": "i", "kind": "O", "x": "f",
    }  # fmt: skip
    assert {len(column) for column in columns.values()} == {TOTAL}
    assert columns["id"].tolist() == list(range(TOTAL))
    assert columns["batch"].tolist() == [i // BATCH for i in range(TOTAL)]
    assert set(columns["state"]) == {"done"}
    assert (columns["attempts"] == 1).all()
    assert (columns["finished"] >= columns["started"]).all()
    for i in range(TOTAL):
        params = {name: columns[name][i] for name in SPACE.names}
        assert f(params) == columns["value"][i]
        assert repr(params["kind"]) in ("'a'", "None", "2.5", "True")
    assert result.best_value == columns["value"].max()


def test_columns_fit_pandas(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    with new(tmp_path) as study:
        study.run(f, workers=1, batch_size=4, iterations=0, how="threads")
        frame = pandas.DataFrame(study.trials())
    assert frame.shape == (4, 11)


def test_an_empty_study_can_be_looked_at(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        assert {len(column) for column in study.trials().values()} == {0}
        assert study.iterations() == []
        assert study.export_csv(tmp_path / "all.csv") == 0
        with pytest.raises(StudyError, match="there are none yet"):
            study.trial(0)
    assert (tmp_path / "all.csv").read_text().startswith('"id","batch","state","value",')


def test_iterations_tell_what_was_learned(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        result = study.run(f, workers=1, **RUN)
    with Study.open(tmp_path / "s.ebo", read_only=True) as study:
        told = study.iterations()
        learned = study.structure()
    assert [entry["batch"] for entry in told] == [0, 1, 2, 3]
    assert told[0]["z"] is None
    for entry, iteration in zip(told[1:], result.history, strict=True):
        assert entry["observations"] == iteration.observations
        assert entry["best"] == iteration.best
        assert set(entry["seconds"]) == {"partition", "learn", "search", "filter"}
        assert entry["z"].shape == entry["density"].shape == (4,)
    assert sorted(name for group in learned.groups for name in group) == sorted(SPACE.names)
    assert learned.cuts == result.optimizer.structure().cuts
    np.testing.assert_array_equal(learned.certainty, result.optimizer.structure().certainty)


def test_a_parameter_may_not_take_the_name_of_a_column(tmp_path: Path) -> None:
    """Else a table of trials has its values in the place of the study's own."""
    for name in ("value", "id", "state", "batch"):
        path = tmp_path / f"{name}.ebo"
        try:
            study = Study.create(path, Space({name: Float(0, 1), "x": Float(0, 1)}))
        except ValueError as error:
            assert name in str(error)  # noqa: PT017 - refusing it is one way
            continue
        with study:
            study.tell([[0.25, 0.5]], [42.0])
            study.export_csv(tmp_path / f"{name}.csv")
            assert 42.0 in study.trials()["value"]
        with Study.create(tmp_path / f"{name}2.ebo", study.space) as again:
            again.import_csv(tmp_path / f"{name}.csv")
            assert again.best()[1] == 42.0


# CSV.


def test_what_is_exported_can_be_imported(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        study.run(some_fail, workers=1, **RUN)
        assert study.counts()["failed"] > 0
        assert study.export_csv(tmp_path / "all.csv") == TOTAL
        columns = study.trials()
    with new(tmp_path, "t.ebo") as again:
        assert again.import_csv(tmp_path / "all.csv") == TOTAL
        copied = again.trials()
        for name in ("value", *SPACE.names):
            np.testing.assert_array_equal(columns[name], copied[name], name)
        assert set(copied["batch"]) == {-1}
        assert len(again.optimizer.y) == TOTAL
        assert again.best() == study_best(tmp_path / "s.ebo")


def study_best(path: Path) -> tuple[Any, float]:
    with Study.open(path, read_only=True) as study:
        return study.best()


@pytest.mark.parametrize(
    "choices",
    [
        pytest.param(["a", None], id="none"),
        pytest.param(["", None], id="empty"),
        pytest.param(["a", "b\rc"], id="return"),
        pytest.param(["a,b", 'q"', "two\nlines", " space ", "\u20ac"], id="quoted"),
    ],
)
def test_choices_come_back_as_they_were(tmp_path: Path, choices: list[Any]) -> None:
    space = Space(c=Categorical(choices), x=Float(0, 1))
    X = np.column_stack([np.arange(len(choices)), np.linspace(0, 1, len(choices))])
    with Study.create(tmp_path / "s.ebo", space) as study:
        study.tell(X, np.arange(len(choices)))
        study.export_csv(tmp_path / "all.csv")
    with Study.create(tmp_path / "t.ebo", space) as again:
        again.import_csv(tmp_path / "all.csv")
        np.testing.assert_array_equal(again.optimizer.X, X)


def test_choices_that_look_alike_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'c': two choices of \[1, '1'\] look the same as text"):
        Study.create(tmp_path / "s.ebo", Space(c=Categorical([1, "1"])))
    assert not (tmp_path / "s.ebo").exists()


def test_waiting_trials_of_an_export_are_not_failures(tmp_path: Path) -> None:
    space = box([0.0], [1.0])
    with Study.create(tmp_path / "s.ebo", space) as study:
        X = study.ask(3)
        study.tell(X[:1], [1.0])
        study.export_csv(tmp_path / "all.csv")
    with Study.create(tmp_path / "t.ebo", space) as again:
        again.import_csv(tmp_path / "all.csv")
        assert again.counts()["failed"] == 0


def test_an_import_that_fails_leaves_nothing(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("rate,depth,kind,x,value\n0.5,2,a,0,1\n0.5,9,a,0,1\n")
    with new(tmp_path) as study:
        with pytest.raises(ValueError, match=r"line 3: depth is 9, outside \[1, 5\]"):
            study.import_csv(table)
        assert len(study) == 0
        table.write_text("rate,depth,x,value\n0.5,2,0,1\n")
        with pytest.raises(ValueError, match="lacks the column 'kind'"):
            study.import_csv(table)
        assert len(study) == len(study.optimizer.y) == 0


def test_imported_data_take_the_place_of_the_initial_points(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = SPACE.from_unit(rng.random((10, 4)))
    X[:, 2] = 0
    y = [f(params) for params in SPACE.to_dicts(X)]
    with new(tmp_path, "s.ebo") as study:
        study.tell(X, y)
        study.export_csv(tmp_path / "all.csv")
    with new(tmp_path, "t.ebo") as study:
        study.import_csv(tmp_path / "all.csv")
        result = study.run(f, workers=1, **RUN)
        assert len(result.y) == len(study) == 10 + BATCH * ITERATIONS
        assert all(entry["z"] is not None for entry in study.iterations())
        whole = rows(study)
    with new(tmp_path, "u.ebo") as study:  # the same in two sittings
        study.import_csv(tmp_path / "all.csv")
    with Study.open(tmp_path / "u.ebo") as study:
        study.run(f, workers=1, **{**RUN, "iterations": 1})
    with Study.open(tmp_path / "u.ebo") as study:
        study.run(f, workers=1, **RUN)
        assert rows(study) == whole


# Running.


@pytest.mark.parametrize("how", ["processes", "threads", "vectorized", "executor"])
def test_every_way_to_evaluate_gives_the_same_points(tmp_path: Path, how: str) -> None:
    options: dict[str, Any] = {"batch_size": BATCH, "iterations": ITERATIONS}
    objective: Callable[[Any], Any] = f
    with new(tmp_path) as study:
        if how == "vectorized":
            options["vectorized"] = True

            def objective(points: Any) -> Any:
                return [f(point) for point in points]

        elif how == "executor":
            options["executor"] = ThreadPoolExecutor(2)
        else:
            options |= {"how": how, "workers": 2}
        result = study.run(objective, **options)
        assert rows(study) == reference()
        assert len(result.y) == TOTAL
        assert result.best_value == max(result.y) == f(result.best_x)
        assert len(result.history) == ITERATIONS


def test_a_finished_run_has_nothing_to_do_and_a_longer_one_goes_on(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        first = study.run(f, workers=1, **{**RUN, "iterations": 1})
        assert len(first.y) == 2 * BATCH
    calls = []

    def counted(params: dict[str, Any]) -> float:
        calls.append(params)
        return f(params)

    with Study.open(tmp_path / "s.ebo") as study:
        again = study.run(counted, workers=1, **{**RUN, "iterations": 1})
        assert calls == []
        assert (again.best_value, len(again.y)) == (first.best_value, 2 * BATCH)
        study.run(counted, workers=1, **RUN)
        assert len(calls) == TOTAL - 2 * BATCH
        assert rows(study) == reference()


def test_failures_are_recorded_with_their_errors(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        study.run(some_fail, workers=2, **RUN)
        columns = study.trials()
        for i in range(TOTAL):
            params = {name: columns[name][i] for name in SPACE.names}
            error = study.trial(i)["error"]
            if params["depth"] == 2:
                assert columns["state"][i] == "failed"
                assert error.endswith("ArithmeticError: two is too few")
            elif params["x"] > 0.7:
                assert (columns["state"][i], error) == ("failed", "returned nan")
            else:
                assert (columns["state"][i], error) == ("done", None)
                assert columns["value"][i] == f(params)


def test_retries_and_attempts(tmp_path: Path) -> None:
    tried = tmp_path / "tried"
    tried.mkdir()

    def flaky(x: NDArray[np.float64]) -> float:
        mark = tried / repr(x.tolist())
        if mark.exists():
            return float(x[0])
        mark.touch()
        raise OSError("not yet")

    with Study.create(tmp_path / "s.ebo", box([0.0], [1.0]), settings=SMALL) as study:
        study.run(flaky, retries=1, workers=2, batch_size=5, iterations=0)
        assert study.counts()["done"] == 5
        assert study.trials()["attempts"].tolist() == [2] * 5


def test_time_outs(tmp_path: Path) -> None:
    def slow(x: NDArray[np.float64]) -> float:
        if x[0] > 0.5:
            time.sleep(60)
        return float(x[0])

    with Study.create(tmp_path / "s.ebo", box([0.0], [1.0]), settings=SMALL) as study:
        study.run(slow, timeout=0.5, workers=4, batch_size=6, iterations=0)
        columns = study.trials()
        late = columns["x0"] > 0.5 if "x0" in columns else columns[study.space.names[0]] > 0.5
        assert (columns["state"] == np.where(late, "timed out", "done")).all()
        assert 0 < late.sum() < 6
        i = int(np.flatnonzero(late)[0])
        assert study.trial(i)["error"] == "took longer than 0.5 s"


def test_a_callback_stops_the_run(tmp_path: Path) -> None:
    seen: list[int] = []

    def stop(study: Study) -> bool:
        seen.append(finished(study))
        return len(seen) == 2

    with new(tmp_path) as study:
        study.run(f, workers=1, callback=stop, **RUN)
        assert seen == [BATCH, 2 * BATCH]
        assert len(study) == 2 * BATCH


def test_a_batch_that_fails_entirely_stops_the_run(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        with pytest.raises(AllFailedError) as caught:
            study.run(broken, workers=1, **RUN)
        message = str(caught.value)
        assert "all 6 evaluations of a batch failed (6 failed): 6 x ValueError: no licence" in (
            message
        )
        assert "on_error='continue'" in message
        assert (len(study), study.counts()["failed"]) == (BATCH, BATCH)
        # Repaired, it goes on, with other points.
        study.run(f, workers=1, **RUN)
        assert study.counts()["done"] == BATCH * ITERATIONS
        assert len({repr(x) for x in study.optimizer.X.tolist()}) == TOTAL


def test_unless_told_not_to(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        result = study.run(broken, workers=1, on_error="continue", **RUN)
        assert study.counts()["failed"] == len(result.y) == TOTAL
        assert math.isnan(result.best_value)


def test_the_rest_of_a_batch_that_fails_is_not_a_batch_that_fails(tmp_path: Path) -> None:
    """Five of six were done before the crash; the sixth fails, as it would have without it."""
    with new(tmp_path) as study:
        ids, X = study.ask_trials(BATCH)
        values = [f(params) for params in SPACE.to_dicts(X)]
        study.tell_trials(dict(zip(ids[:-1].tolist(), values, strict=False)))
        last = SPACE.to_dicts(X)[-1]

    def objective(params: dict[str, Any]) -> float:
        return math.nan if params == last else f(params)

    with Study.open(tmp_path / "s.ebo") as study:
        study.run(objective, workers=1, **RUN)
        assert study.counts()["done"] == TOTAL - 1


def test_wrong_arguments_of_run(tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = [
        {"batch_size": 0},
        {"iterations": -1},
        {"initial": 0},
        {"batch_size": 2.5},
        {"workers": 0},
        {"timeout": -1},
        {"retries": -1},
        {"how": "magic"},
    ]
    with new(tmp_path) as study:
        for options in wrong:
            with pytest.raises(ValueError, match=f"{next(iter(options))} is .*; give"):
                study.run(f, **options)
        nothing: Any = None
        with pytest.raises(TypeError, match="give a function"):
            study.run(nothing)
        assert len(study) == 0


# One writer, many readers.


def test_a_study_can_be_read_while_it_runs(tmp_path: Path) -> None:
    path, seen = tmp_path / "s.ebo", []

    def looking(params: dict[str, Any]) -> float:
        with Study.open(path, read_only=True) as reader:
            seen.append(finished(reader))
            reader.trials()
            if seen[-1]:
                assert reader.best()[1] == max(reader.optimizer.y)
        return f(params)

    with new(tmp_path) as study:
        study.run(looking, workers=1, **RUN)
        assert study.counts()["done"] == TOTAL
        assert seen == list(range(TOTAL))


def test_a_reader_that_stays_open_sees_what_comes(tmp_path: Path) -> None:
    with new(tmp_path) as study, Study.open(tmp_path / "s.ebo", read_only=True) as reader:
        study.tell([[0.5, 3, 0, 0.25]], [1.0])
        assert (reader.counts()["done"], reader.best()[1]) == (1, 1.0)
        study.tell([[0.5, 3, 0, 0.5]], [2.0])
        assert (reader.counts()["done"], reader.best()[1]) == (2, 2.0)


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    new(tmp_path).close()
    (tmp_path / "t.csv").write_text("rate,depth,kind,x,value\n0.5,2,a,0,1\n")
    with Study.open(tmp_path / "s.ebo", read_only=True) as reader:
        calls: list[Callable[[], Any]] = [
            lambda: reader.ask(1),
            lambda: reader.tell([[0.5, 2, 0, 0.0]], [1.0]),
            lambda: reader.run(f),
            lambda: reader.import_csv(tmp_path / "t.csv"),
        ]
        for call in calls:
            with pytest.raises(StudyError, match="was opened to be read"):
                call()
        assert len(reader) == 0


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    with new(tmp_path):
        with pytest.raises(LockedStudyError, match="in use by this process"):
            Study.open(tmp_path / "s.ebo")
        script = f"""
from ebo.study.study import Study
try:
    Study.open({str(tmp_path / "s.ebo")!r})
except Exception as error:
    print(type(error).__name__, error)
"""
        told = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
        ).stdout
        assert "LockedStudyError" in told
        assert "is in use by process" in told
    Study.open(tmp_path / "s.ebo").close()


def test_a_study_that_cannot_be_opened_is_not_kept_locked(tmp_path: Path) -> None:
    new(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "s.ebo")) as db, db:
        (good,) = db.execute("SELECT json FROM meta").fetchone()
        broken_meta = {**json.loads(good), "direction": "sideways", "space": {}}
        db.execute("UPDATE meta SET json = ?", (json.dumps(broken_meta),))
    with pytest.raises((StudyError, ValueError)):
        Study.open(tmp_path / "s.ebo")
    with closing(sqlite3.connect(tmp_path / "s.ebo")) as db, db:
        db.execute("UPDATE meta SET json = ?", (good,))
    Study.open(tmp_path / "s.ebo").close()


# Trajectories: however a run is interrupted, it evaluates what it would have without.

SETTINGS = {
    "default": SMALL,
    "paper": Settings.paper().changed(leaf_size=8, layers=10, sweeps=1, tries=20),
    "fixed": Settings().changed(leaf_size=8, block_size=20, learn_from=60, fixed=True),
}


@cache
def reference(settings: str = "default", failing: bool = False) -> list[tuple[Any, ...]]:
    """An uninterrupted run."""
    import tempfile

    with (
        tempfile.TemporaryDirectory() as folder,
        new(Path(folder), settings=SETTINGS[settings]) as study,
    ):
        study.run(some_fail if failing else f, workers=1, **RUN)
        return rows(study)


def snapshots(path: Path, copies: list[Path], at: set[int]) -> Callable[[dict[str, Any]], float]:
    """An objective that copies the study, as it is on the disk at that moment, at some calls."""
    calls = []

    def objective(params: dict[str, Any]) -> float:
        calls.append(params)
        if len(calls) in at:
            copies.append(path.with_name(f"copy{len(calls)}.ebo"))
            with (
                closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as source,
                closing(sqlite3.connect(copies[-1])) as copy,
            ):
                source.backup(copy)
        return f(params)

    return objective


def test_another_seed_is_another_trajectory(tmp_path: Path) -> None:
    with new(tmp_path, seed=1) as study:
        study.run(f, workers=1, **RUN)
        assert rows(study) != reference()


def test_a_study_evaluates_what_maximize_does(tmp_path: Path) -> None:
    result = ebo.maximize(f, SPACE, batch_size=BATCH, iterations=ITERATIONS, seed=0, settings=SMALL)
    with new(tmp_path) as study:
        mine = study.run(f, workers=1, **RUN)
    np.testing.assert_array_equal(
        np.unique(np.column_stack([mine.X, mine.y]), axis=0),
        np.unique(np.column_stack([result.X, result.y]), axis=0),
    )


@pytest.mark.parametrize("settings", SETTINGS)
def test_stopped_after_every_batch(tmp_path: Path, settings: str) -> None:
    new(tmp_path, settings=SETTINGS[settings]).close()
    for _ in range(1 + ITERATIONS):
        with Study.open(tmp_path / "s.ebo") as study:
            study.run(f, workers=1, callback=lambda study: True, **RUN)
    with Study.open(tmp_path / "s.ebo") as study:
        assert rows(study) == reference(settings)


@pytest.mark.parametrize("settings", SETTINGS)
def test_stopped_in_the_middle_of_every_batch(tmp_path: Path, settings: str) -> None:
    rng = np.random.default_rng(0)
    with new(tmp_path, settings=SETTINGS[settings]) as study:
        ids, X = study.ask_trials(BATCH)
    for batch in range(1 + ITERATIONS):
        told = rng.permutation(BATCH)[: batch + 1]  # some, in any order
        with Study.open(tmp_path / "s.ebo") as study:
            for i in told:
                params = SPACE.to_dicts(X[i : i + 1])[0]
                study.tell_trials({int(ids[i]): f(params)})
        with Study.open(tmp_path / "s.ebo") as study:
            study.run(f, workers=1, callback=lambda study: True, **RUN)
            assert finished(study) == BATCH * (batch + 1)
            if batch < ITERATIONS:
                ids, X = study.ask_trials(BATCH)
    with Study.open(tmp_path / "s.ebo") as study:
        assert rows(study) == reference(settings)


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_file_as_it_is_at_any_moment_is_enough(tmp_path: Path, settings: str) -> None:
    copies: list[Path] = []
    with new(tmp_path, settings=SETTINGS[settings]) as study:
        at = set(range(1, TOTAL + 1, 4 if settings == "default" else 9))
        study.run(snapshots(tmp_path / "s.ebo", copies, at), workers=1, **RUN)
        assert rows(study) == reference(settings)
    assert len(copies) == len(at)
    for copy in copies:
        with Study.open(copy) as study:
            result = study.run(f, workers=1, **RUN)
            assert rows(study) == reference(settings)
            assert len(result.y) == TOTAL


def test_with_failures_too(tmp_path: Path) -> None:
    new(tmp_path).close()
    for _ in range(1 + ITERATIONS):
        with Study.open(tmp_path / "s.ebo") as study:
            study.run(some_fail, workers=2, callback=lambda study: True, **RUN)
    with Study.open(tmp_path / "s.ebo") as study:
        assert rows(study) == reference(failing=True)


def test_the_same_object_goes_on_after_an_exception(tmp_path: Path) -> None:
    class StopError(Exception):
        pass

    def callback(study: Study) -> bool:
        raise StopError

    with new(tmp_path) as study:
        for _ in range(1 + ITERATIONS):
            with pytest.raises(StopError):
                study.run(f, workers=1, callback=callback, **RUN)
        assert rows(study) == reference()


def test_an_interrupted_ask_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while a batch is being worked out, and on with the same object."""
    from ebo.observations import Observations

    with new(tmp_path) as study:
        study.run(f, workers=1, callback=lambda study: True, **RUN)

        def interrupted(self: Observations, X: NDArray[np.float64]) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Observations, "ask", interrupted)
            with pytest.raises(KeyboardInterrupt):
                study.run(f, workers=1, **RUN)
        study.run(f, workers=1, **RUN)
        assert rows(study) == reference()


def stopped_and_gone_on(tmp_path: Path, objective: Callable[[Any], Any], **run: Any) -> None:
    """A run that Ctrl-C ends evaluates in the end what it would have without."""
    for name in ("same.ebo", "again.ebo"):
        study = new(tmp_path, name)
        with pytest.raises(KeyboardInterrupt):
            study.run(objective, batch_size=BATCH, iterations=ITERATIONS, **run)
        counts = study.counts()
        assert counts["waiting"] + counts["done"] == len(study)
        live, pending = study.optimizer, study.optimizer.pending
        if name == "again.ebo":
            study.close()
            study = Study.open(tmp_path / name)
            np.testing.assert_array_equal(study.optimizer.pending, pending)
            np.testing.assert_array_equal(study.optimizer.X, live.X)
        study.run(objective, batch_size=BATCH, iterations=ITERATIONS, **run)
        assert rows(study) == reference()
        study.close()


def test_after_ctrl_c_in_a_vectorized_call(tmp_path: Path) -> None:
    calls: list[int] = []

    def objective(points: Any) -> Any:
        calls.append(len(points))
        if len(calls) in (2, 7):
            raise KeyboardInterrupt
        return [f(point) for point in points]

    stopped_and_gone_on(tmp_path, objective, vectorized=True)


def test_after_ctrl_c_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    calls: list[Any] = []

    def objective(point: Any) -> float:
        calls.append(point)
        if len(calls) in (9, 40):
            raise KeyboardInterrupt
        return f(point)

    stopped_and_gone_on(tmp_path, objective)


@pytest.mark.parametrize("how", ["processes", "threads"])
def test_an_objective_that_raises_keyboard_interrupt_itself(tmp_path: Path, how: str) -> None:
    """Ctrl-C does not reach workers: it is one more exception, a failed evaluation."""

    def objective(params: dict[str, Any]) -> float:
        if params["depth"] == 2:
            raise KeyboardInterrupt
        return f(params)

    run: dict[str, Any] = {**RUN, "how": how, "workers": 2}
    with new(tmp_path, "live.ebo") as study:
        study.run(objective, **run)
        live = rows(study)
        assert study.counts()["failed"] > 0
        assert study.counts()["failed"] + study.counts()["done"] == TOTAL
    new(tmp_path).close()
    for _ in range(1 + ITERATIONS):
        with Study.open(tmp_path / "s.ebo") as study:
            study.run(objective, callback=lambda study: True, **run)
    with Study.open(tmp_path / "s.ebo") as study:
        assert rows(study) == live


# One call.


def test_maximize_saves_and_continues(tmp_path: Path) -> None:
    options: dict[str, Any] = {"batch_size": BATCH, "settings": SMALL, "study": tmp_path / "s.ebo"}
    first = ebo.maximize(f, SPACE, iterations=1, **options)
    assert len(first.y) == 2 * BATCH
    result = ebo.maximize(f, SPACE, iterations=ITERATIONS, **options)
    assert len(result.y) == TOTAL
    with Study.open(tmp_path / "s.ebo", read_only=True) as study:
        assert rows(study) == reference()
    with pytest.raises(StudyError, match="was made with another seed: it has 0, now given is 5"):
        ebo.maximize(f, SPACE, seed=5, **options)


def test_minimize_saves_too(tmp_path: Path) -> None:
    path = tmp_path / "s.ebo"
    options: dict[str, Any] = {"batch_size": 4, "iterations": 1, "settings": SMALL, "study": path}
    result = ebo.minimize(f, SPACE, **options)
    assert result.best_value == min(result.y)
    with pytest.raises(StudyError, match="was made with another direction"):
        ebo.maximize(f, SPACE, **options)


def test_a_vectorised_function_can_be_saved(tmp_path: Path) -> None:
    result = ebo.maximize(
        lambda X: X.sum(axis=1), box([0.0, 0.0], [1.0, 1.0]), batch_size=4, iterations=1,
        vectorized=True, settings=SMALL, study=tmp_path / "s.ebo",
    )  # fmt: skip
    assert len(result.y) == 8


def test_data_to_begin_with_are_saved(tmp_path: Path) -> None:
    X = SPACE.from_unit(np.random.default_rng(0).random((8, 4)))
    y = np.array([f(params) for params in SPACE.to_dicts(X)])
    options: dict[str, Any] = {"batch_size": 4, "iterations": 1, "settings": SMALL}
    for _ in range(2):  # the second time there is nothing to do
        result = ebo.maximize(f, SPACE, initial=(X, y), study=tmp_path / "s.ebo", **options)
        assert len(result.y) == 12
