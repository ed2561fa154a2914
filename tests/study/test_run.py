"""One loop, with the same arguments and the same meaning wherever it is called."""

from __future__ import annotations

import inspect
import math
import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ebo
from ebo import Result, Settings, Space, Study, box, maximize, minimize
from ebo.arrays import Floats
from ebo.space import Categorical, Float
from ebo.study import AllFailedError, ObjectiveError
from ebo.study.config import ConfigError, read_config
from ebo.study.evaluation.processes import usable_cores

loose: Any = ebo
SMALL = Settings().changed(leaf_size=20, block_size=20, learn_from=60)
CUBE = box([0.0] * 3, [1.0] * 3)
RUN: dict[str, Any] = {"batch_size": 4, "iterations": 2}


def f(x: Floats) -> float:
    return -float(((x - 0.3) ** 2).sum())


def broken(x: Floats) -> float:
    raise ZeroDivisionError(f"at {x[0]}")


def study(path: Path | None = None) -> Study:
    return Study.create(path, CUBE, settings=SMALL)


def test_the_arguments_are_the_same_everywhere() -> None:
    def arguments(function: Callable[..., Any]) -> dict[str, object]:
        return {name: p.default for name, p in inspect.signature(function).parameters.items()}

    wanted = arguments(Study.run)
    del wanted["self"]
    for function, bound in ((maximize, "upper_bound"), (minimize, "lower_bound")):
        others = {"space": inspect.Parameter.empty, bound: None, "seed": 0}
        assert arguments(function) == {**wanted, **others, "settings": None, "study": None}


class Later:
    """Not an executor of the standard library, but with its `submit`."""

    def __init__(self) -> None:
        self.count = 0

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        self.count += 1
        future: Future[Any] = Future()
        future.set_result(function(*arguments))
        return future


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"workers": 2},
        {"workers": None},
        {"timeout": 60.0},
        {"how": "threads", "workers": 3},
        {"executor": Later()},
        {"retries": 2},
    ],
    ids=range(7),
)
@pytest.mark.parametrize("kept", [False, True])
def test_one_seed_one_run_however_it_is_evaluated(
    tmp_path: Path, how: dict[str, Any], kept: bool
) -> None:
    path = tmp_path / "s.ebo" if kept else None
    expected = maximize(f, CUBE, settings=SMALL, **RUN)
    result = maximize(f, CUBE, settings=SMALL, **RUN, **how, study=path)
    np.testing.assert_array_equal(result.X, expected.X)
    np.testing.assert_array_equal(result.y, expected.y)


def test_where_it_is_evaluated() -> None:
    def pid(x: Floats) -> int:
        return os.getpid()

    def pids(**how: Any) -> set[float]:
        return set(study().run(pid, batch_size=6, iterations=0, **how).y.tolist())

    assert pids() == pids(workers=1) == pids(how="threads") == {float(os.getpid())}
    for how in ({"workers": 2}, {"timeout": 60.0}, {"how": "processes"}):
        assert os.getpid() not in pids(**how)
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


def test_an_executor_has_its_own_workers() -> None:
    executor = Later()
    study().run(f, executor=executor, **RUN)  # type: ignore[arg-type]
    assert executor.count == 12
    wrong: list[dict[str, Any]] = [{"workers": 2}, {"workers": None}, {"how": "threads"}]
    for more in wrong:
        with pytest.raises(ValueError, match="executor has its own workers; leave workers and how"):
            loose.maximize(f, CUBE, executor=executor, **more)
    with pytest.raises(TypeError, match=r"executor is 3; give one of concurrent\.futures"):
        loose.maximize(f, CUBE, executor=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_error": "ignore"}, "on_error is 'ignore'; give 'stop', 'continue' or 'raise'"),
        ({"vectorized": True, "how": "threads"}, "leave how='threads'"),
        ({"vectorized": True, "workers": 2}, "leave timeout, workers and executor out"),
        ({"vectorized": True, "timeout": 2.0}, "leave timeout, workers and executor out"),
        ({"timeout": -1.0}, "timeout is -1.0; give a positive number"),
        ({"retries": -1}, "retries is -1; give"),
        ({"how": "magic"}, "how is 'magic'; give"),
        ({"initial": (1, 2, 3)}, "initial has 3 parts"),
    ],
)
def test_mistakes_are_found_before_there_is_a_file(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        loose.maximize(f, CUBE, study=tmp_path / "s.ebo", **options)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match=message):
        study().run(f, **options)


def test_data_to_begin_with_are_told_once(tmp_path: Path) -> None:
    X = np.random.default_rng(0).random((9, 3))
    data = X, [f(x) for x in X]
    expected = maximize(f, CUBE, settings=SMALL, initial=data, **RUN)
    for iterations in (1, 2, 2):
        with Study.create(tmp_path / "s.ebo", CUBE, settings=SMALL, exist_ok=True) as kept:
            result = kept.run(f, initial=data, batch_size=4, iterations=iterations)
    np.testing.assert_array_equal(result.X, expected.X)
    assert len(result.y) == 17


# Failures.


@pytest.mark.parametrize("workers", [1, 2])
def test_a_batch_that_fails_entirely(workers: int) -> None:
    kept = study()
    with pytest.raises(AllFailedError, match=r"all 4 .* failed .*4 failed.*ZeroDivisionError"):
        kept.run(broken, workers=workers, **RUN)
    assert kept.counts()["failed"] == len(kept) == 4
    result = study().run(broken, workers=workers, on_error="continue", **RUN)
    assert np.isnan(result.y).all()
    assert len(result.y) == 12


@pytest.mark.parametrize("workers", [1, 2])
def test_the_first_exception_can_be_raised_again(tmp_path: Path, workers: int) -> None:
    with study(tmp_path / "s.ebo") as kept:
        with pytest.raises(ZeroDivisionError if workers == 1 else ObjectiveError) as caught:
            kept.run(broken, workers=workers, on_error="raise", **RUN)
        assert "at 0." in str(caught.value)
        if workers == 2:
            assert "ZeroDivisionError: at 0." in str(caught.value)
            assert "in broken" in str(caught.value)  # with the place
        counts = kept.counts()
    assert counts["failed"] >= 1
    assert counts["failed"] + counts["waiting"] == 4
    with Study.open(tmp_path / "s.ebo") as kept:
        assert kept.counts() == counts


def test_with_raise_failures_without_an_exception_do_not_end_the_run() -> None:
    def sometimes(x: Floats) -> float:
        if x[0] > 0.7:
            time.sleep(60)
        return math.nan if x[1] > 0.7 else f(x)

    kept = study()
    kept.run(sometimes, workers=4, timeout=0.5, on_error="raise", batch_size=12, iterations=0)
    assert kept.counts()["failed"] > 0
    assert kept.counts()["timed out"] > 0
    with pytest.raises(AllFailedError):
        study().run(lambda x: math.nan, on_error="raise", **RUN)


def test_retries_come_before_an_exception_is_raised() -> None:
    calls: list[Floats] = []

    def at_second_try(x: Floats) -> float:
        calls.append(x)
        if len(calls) <= 5:  # each once
            raise OSError("not yet")
        return f(x)

    result = study().run(at_second_try, retries=1, on_error="raise", batch_size=5, iterations=0)
    assert np.isfinite(result.y).all()


class EndError(Exception):
    pass


@pytest.mark.parametrize("path", [None, "s.ebo"])
def test_all_that_was_evaluated_is_kept_whatever_ends_the_run(
    tmp_path: Path, path: str | None
) -> None:
    expected = maximize(f, CUBE, settings=SMALL, **RUN)
    kept = study(None if path is None else tmp_path / path)
    batches: list[int] = []

    def ends(x: Floats) -> float:
        if len(kept) == 8 and kept.counts()["done"] == 6:
            raise KeyboardInterrupt
        return f(x)

    def callback(one: Study) -> None:
        assert one is kept
        batches.append(len(one))
        raise EndError

    with pytest.raises(EndError):
        kept.run(f, callback=callback, **RUN)
    assert batches == [4]
    with pytest.raises(KeyboardInterrupt):
        kept.run(ends, **RUN)
    assert kept.counts() == {**dict.fromkeys(kept.counts(), 0), "done": 6, "waiting": 2}
    assert len(kept.optimizer.y) == 6
    result = kept.run(f, **RUN)
    np.testing.assert_array_equal(result.X, expected.X)
    kept.close()


def test_a_mistake_of_a_vectorized_objective_leaves_its_batch_waiting() -> None:
    kept = study()
    with pytest.raises(ValueError, match="f must return"):
        kept.run(lambda X: 1.0, vectorized=True, **RUN)
    assert kept.counts()["waiting"] == len(kept) == 4
    result = kept.run(f, **RUN)
    np.testing.assert_array_equal(result.X, maximize(f, CUBE, settings=SMALL, **RUN).X)


def test_many_trials_in_memory() -> None:
    """Were every value told by itself to an optimizer that waits for all, this would take hours."""
    result = maximize(lambda x: float(x[0]), CUBE, initial=50_000, iterations=0)
    assert len(np.unique(result.X, axis=0)) == len(result.y) == 50_000
    np.testing.assert_array_equal(result.y, result.X[:, 0])


def test_in_memory_a_space_may_have_what_no_file_could_keep(tmp_path: Path) -> None:
    space = Space(value=Float(0, 1), kind=Categorical([(1, 2), "a", 1, "1"]))
    result = maximize(lambda p: p["value"] + (p["kind"] == (1, 2)), space, settings=SMALL, **RUN)
    assert result.best_value > 0.5
    with pytest.raises(ValueError, match="cannot"):
        maximize(lambda p: 0.0, space, study=tmp_path / "s.ebo")
    with Study.create(None, space) as kept, pytest.raises(ValueError, match="called 'value'"):
        kept.trials()  # a column would be there twice


def test_in_toml(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    objective = '[objective]\ncommand = "echo {x}"\n[space]\nx = {float = [0, 1]}\n[evaluate]\n'
    for said, message in (
        ("stop_when_all_fail = false", r'on_error now; write on_error = "continue" for false'),
        ('on_error = "never"', r"on_error is 'never'; give 'stop', 'continue' or 'raise'"),
        ("on_error = true", "on_error is True"),
    ):
        path.write_text(objective + said)
        with pytest.raises(ConfigError, match=message):
            read_config(path)
    path.write_text(objective + 'on_error = "continue"')
    assert read_config(path).run == {"on_error": "continue"}


# What a prompt and a notebook show.


def test_a_study_and_a_result_are_shown_in_short(tmp_path: Path) -> None:
    space = Space({"x": Float(0, 1), "c": Categorical(["<b>", "a"])})
    path = tmp_path / "<i>.ebo"
    with Study.create(path, space, direction="minimize", settings=SMALL) as kept:
        assert "minimize" in repr(kept)
        result = kept.run(
            lambda p: math.nan if p["c"] == "a" else p["x"], batch_size=6, iterations=1
        )
        counts = kept.counts()
        for shown in (repr(kept), kept._repr_html_(), repr(result), result._repr_html_()):
            assert f"{result.best_value:.6g}" in shown
            assert "minimize" in shown
            assert str(counts["done"]) in shown
            assert str(counts["failed"]) in shown
            assert len(shown) < 1500
        for html in (kept._repr_html_(), result._repr_html_()):
            assert html.startswith("<table>")
            assert "<b>" not in html
            assert "<i>" not in html
        assert "&lt;i&gt;.ebo" in kept._repr_html_()
        assert repr(path.name)[1:-1] in repr(kept)
    assert "is closed" in repr(kept)
    assert "is closed" in kept._repr_html_()


def test_a_result_of_many_parameters_is_short_too() -> None:
    X = np.random.default_rng(0).random((3, 500))
    space = box([0.0] * 500, [1.0] * 500)
    result: Result = maximize(lambda x: 0.0, space, initial=(X, X[:, 0]), iterations=0)
    assert len(repr(result)) < 400


def test_the_version() -> None:
    assert ebo.__version__ == "0.1.0"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        loose.nothing  # noqa: B018
