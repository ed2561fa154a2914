"""Points of a user's own: told as dicts, enqueued, and given to begin with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ebo
from ebo.settings import Settings
from ebo.space import Categorical, Float, Int, Space, box
from ebo.study.study import Study

SMALL = Settings().changed(leaf_size=20, block_size=20, learn_from=60)
SPACE = Space(x=Float(-1.0, 1.0), n=Int(1, 5), kind=Categorical(["a", "b"]))
OWN = [{"x": 0.5, "n": 2, "kind": "b"}, {"x": -0.25, "n": 5, "kind": "a"}]
RUN: dict[str, Any] = {"batch_size": 4, "iterations": 2}


def f(params: dict[str, Any]) -> float:
    return float(-(params["x"] ** 2) - params["n"] / 9 + (params["kind"] == "a"))


def noting(order: list[Any]) -> Callable[[dict[str, Any]], float]:
    """f, with a list of the points that it was called at."""

    def noted(params: dict[str, Any]) -> float:
        order.append(params)
        return f(params)

    return noted


def new(path: Path | None, **options: Any) -> Study:
    return Study.create(path, SPACE, **{"settings": SMALL, **options})


def points(study: Study) -> list[dict[str, Any]]:
    return SPACE.to_dicts(study.storage.trials()["X"])


def rows(study: Study) -> list[str]:
    table = study.trials()
    names = ("batch", "state", "value", *SPACE.names)
    return [repr(row) for row in zip(*(table[name].tolist() for name in names), strict=True)]


# Dicts.


def makers() -> list[Any]:
    return [ebo.Optimizer(SPACE, settings=SMALL), new(None)]


@pytest.mark.parametrize("study", [False, True])
def test_dicts_are_told(study: bool) -> None:
    one = makers()[study]
    one.tell(OWN[0], 0.5)
    one.tell(OWN[1], [0.25])
    one.tell(OWN, [1.0, np.nan])
    one.tell(tuple(OWN), (2.0, 3.0))
    one.tell(OWN[0], np.float64(1.5))
    optimizer = one.optimizer if study else one
    assert SPACE.to_dicts(optimizer.X) == [*OWN, *OWN, *OWN, OWN[0]]
    np.testing.assert_array_equal(optimizer.y, [0.5, 0.25, 1.0, np.nan, 2.0, 3.0, 1.5])


@pytest.mark.parametrize("study", [False, True])
def test_what_was_asked_is_told_as_dicts(study: bool) -> None:
    one = makers()[study]
    asked = SPACE.to_dicts(one.ask(5))
    one.tell(asked[0], f(asked[0]))
    one.tell(asked[1:], [f(params) for params in asked[1:]])
    optimizer = one.optimizer if study else one
    assert len(optimizer.y) == 5
    assert len(optimizer.pending) == 0


WRONG: list[Any] = [
    ({"x": 0.5, "n": 2}, 1.0, ValueError, "no value for 'kind'; give all of 'x', 'n', 'kind'"),
    ({**OWN[0], "x": 3}, 1.0, ValueError, r"parameter 'x': 3.0 is outside \[-1.0, 1.0\]; clip it"),
    ({**OWN[0], "kind": "c"}, 1.0, ValueError, "'c' .str. is not a choice; give one of 'a', 'b'"),
    ([OWN[0], 7], [1.0, 2.0], TypeError, "row 1 is 7, not a mapping from names.*; give a dict"),
    (OWN[0], "1", ValueError, "y is '1'; give numbers, NaN for"),
    (OWN[0], None, ValueError, "y is None; give numbers, NaN for"),
    (OWN[0], [1.0, 2.0], ValueError, r"y has shape \(2,\) for 1 points; give \(1,\)"),
    (OWN, 1.0, ValueError, r"y has shape \(\) for 2 points; give \(2,\)"),
]


@pytest.mark.parametrize("study", [False, True])
@pytest.mark.parametrize(("X", "y", "error", "message"), WRONG)
def test_wrong_dicts(study: bool, X: Any, y: Any, error: type[Exception], message: str) -> None:
    one = makers()[study]
    with pytest.raises(error, match=message):
        one.tell(X, y)
    assert len((one.optimizer if study else one).y) == 0


# Points that are enqueued.


@pytest.mark.parametrize("given", [OWN, OWN[0], SPACE.from_dicts(OWN)])
def test_enqueued_points_wait_and_are_evaluated_first(tmp_path: Path, given: Any) -> None:
    with new(tmp_path / "s.ebo") as study:
        ids = study.enqueue(given)
        assert study.counts()["waiting"] == len(ids)
        assert points(study) == OWN[: len(ids)]
        study.run(f, **RUN)
        # The first batch is filled up, and both are evaluated before anything is learned.
        assert np.bincount(study.trials()["batch"]).tolist() == [len(ids), 4 - len(ids), 4, 4]
        assert [entry["z"] is None for entry in study.iterations()] == [True, True, False, False]
        assert set(study.trials()["state"]) == {"done"}
        study.run(f, **RUN)
        assert len(study) == 12


def test_later_points_come_on_top_and_before_others() -> None:
    study = new(None)
    study.run(f, **{**RUN, "iterations": 1})
    study.enqueue(OWN)
    order: list[Any] = []
    study.run(noting(order), **RUN)
    assert order[:2] == OWN
    assert len(study) == 4 + 4 + 2 + 4


def test_in_the_end_it_is_one_trajectory(tmp_path: Path) -> None:
    """Whatever the order of telling, and wherever the study was closed."""

    def made(name: str, reopened: bool, turned: bool) -> list[str]:
        study = new(tmp_path / name)

        def step() -> None:
            nonlocal study
            if reopened:
                study.close()
                study = Study.open(tmp_path / name)

        def tell(ids: Any) -> None:
            params = points(study)
            for i in reversed(ids) if turned else ids:
                study.tell_trials({int(i): f(params[i])})
                step()

        tell(study.ask_trials(4)[0])
        open_ids = [*study.enqueue([OWN[0], OWN[0], OWN[1]])]
        step()
        tell(open_ids[:1])  # the same point is still waited for
        open_ids += [*study.ask_trials(4)[0]]
        step()
        open_ids += [*study.enqueue(OWN[1])]
        step()
        open_ids += [*study.ask_trials(4)[0]]
        tell(open_ids[1:])
        study.ask(4)
        found = rows(study)
        study.close()
        return found

    straight = made("a", False, False)
    assert made("b", True, False) == straight
    assert made("c", False, True) == straight
    assert made("d", True, True) == straight


def test_a_point_enqueued_twice_is_pending_until_it_is_told_twice() -> None:
    optimizer = ebo.Optimizer(SPACE, settings=SMALL)
    X = optimizer.enqueue([OWN[0], OWN[0]])
    optimizer.tell(X[:1], [1.0])
    assert SPACE.to_dicts(optimizer.pending) == [OWN[0]]
    optimizer.tell(X[:1], [1.0])
    assert len(optimizer.pending) == 0


@pytest.mark.parametrize("study", [False, True])
def test_wrong_points_are_not_enqueued(study: bool) -> None:
    one = makers()[study]
    with pytest.raises(ValueError, match=r"parameter 'n': 9.0 is outside .*; clip it, or widen"):
        one.enqueue([OWN[0], {**OWN[0], "n": 9}])
    with pytest.raises(ValueError, match="there are 0 points; give at least 1"):
        one.enqueue(np.empty((0, 3)))
    optimizer = one.optimizer if study else one
    assert len(optimizer.pending) == optimizer.state.asked == 0


# A run that begins with points.


@pytest.mark.parametrize("given", [OWN, tuple(OWN), SPACE.from_dicts(OWN)])
def test_maximize_begins_with_points(given: Any) -> None:
    order: list[Any] = []
    result = ebo.maximize(
        noting(order),
        SPACE, initial=given, settings=SMALL, **RUN,
    )  # fmt: skip
    assert order[:2] == OWN
    assert len(result.y) == 12


def test_maximize_with_dicts_as_data() -> None:
    y = [f(params) for params in OWN]
    order: list[Any] = []
    result = ebo.maximize(
        noting(order),
        SPACE, initial=(OWN, y), settings=SMALL, **RUN,
    )  # fmt: skip
    assert len(order) == 8
    assert result.y[:2].tolist() == y


def test_as_many_points_as_a_batch_or_more_are_the_first_batch() -> None:
    square = box([0.0, 0.0], [1.0, 1.0])
    X = np.random.default_rng(0).random((5, 2))
    for n in (4, 5):
        result = ebo.maximize(lambda x: -float(x @ x), square, initial=X[:n], settings=SMALL, **RUN)
        np.testing.assert_array_equal(result.X[:n], X[:n])
        assert len(result.y) == n + 8


@pytest.mark.parametrize("initial", [[], [[[0.5]], [1.0]], [0.5, 1.0], np.zeros(3)])
def test_wrong_points_to_begin_with(initial: Any) -> None:
    with pytest.raises(ValueError, match=r"initial is .*; give a number of points, points as"):
        ebo.maximize(f, SPACE, initial=initial, **RUN)


KILLED = """
import os, signal, sys
from tests.study.test_enqueue import OWN, RUN, SMALL, SPACE, f
import ebo

calls = 0

def g(params):
    global calls
    calls += 1
    if calls == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return f(params)

if sys.argv[2] == "0":  # between the points and the rest of the first batch
    ebo.Optimizer.ask = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
ebo.maximize(g, SPACE, initial=OWN, settings=SMALL, study=sys.argv[1], **RUN)
"""


@pytest.mark.parametrize("at", [0, 1, 2, 4, 7])
def test_points_survive_kill_9(tmp_path: Path, at: int) -> None:
    options: dict[str, Any] = {"initial": OWN, "settings": SMALL, **RUN}
    ebo.maximize(f, SPACE, study=tmp_path / "whole.ebo", **options)
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "s.ebo"), str(at)],
        cwd=Path(__file__).parents[2], env={**os.environ}, check=False,
    )  # fmt: skip
    assert ended.returncode == -signal.SIGKILL
    ebo.maximize(f, SPACE, study=tmp_path / "s.ebo", **options)
    with Study.open(tmp_path / "s.ebo") as study, Study.open(tmp_path / "whole.ebo") as whole:
        assert rows(study) == rows(whole)
