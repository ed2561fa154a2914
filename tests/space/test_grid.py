"""Floats with steps."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import ebo
from ebo.space import Categorical, Float, Int, Space, box
from ebo.study.config import read_config
from ebo.study.storage.describe import describe_space, read_parameters, read_space
from ebo.study.study import Study
from ebo.study.table import TableError


def values(parameter: Float) -> list[float]:
    T = (np.arange(parameter.levels) + 0.5) / parameter.levels
    found: list[float] = Space(x=parameter).from_unit(T[:, None])[:, 0].tolist()
    return found


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        (Float(0, 1, step=0.1), [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
        (Float(0, 1, step=0.3), [0.0, 0.3, 0.6, 0.9]),
        (Float(-0.5, 0.55, step=0.25), [-0.5, -0.25, 0.0, 0.25, 0.5]),
        (Float(0.05, 0.3, step=0.1), [0.05, 0.15, 0.25]),
        (Float(0, 0.1 + 0.2, step=0.1), [0.0, 0.1, 0.2, 0.3]),
        (Float(0, 1 - 0.1 - 0.1 - 0.1, step=0.1), [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]),
        (Float(0, 1, step=1 / 3), [0.0, 1 / 3, 2 / 3, 1.0]),
        (Float(1e6, 3e6, step=1e6), [1e6, 2e6, 3e6]),
        (Float(0, 3e-9, step=1e-9), [0.0, 1e-9, 2e-9, 3e-9]),
        (Float(0, 1e300, step=5e299), [0.0, 5e299, 1e300]),
        (Float(2, 2, step=0.1), [2.0]),
    ],
)
def test_values_are_the_shortest_decimals(parameter: Float, expected: list[float]) -> None:
    assert parameter.levels == len(expected)
    assert (parameter.low, parameter.high) == (expected[0], expected[-1])
    if parameter.levels > 1:
        assert values(parameter) == expected


@settings(max_examples=200, deadline=None)
@given(
    st.integers(-(10**6), 10**6), st.integers(1, 10**4), st.integers(1, 200), st.integers(0, 9),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
@example(0, 1, 10, 1, 0)
def test_there_and_back(first: int, each: int, steps: int, digits: int, seed: int) -> None:
    ten = Decimal(10) ** digits
    exact = [float((first + k * each) / ten) for k in range(steps + 1)]
    parameter = Float(exact[0], exact[-1], step=float(each / ten))
    assert values(parameter) == exact
    space = Space(n=Int(1, 3), x=parameter, y=Float(0, 1))
    T = np.random.default_rng(seed).random((20, 3))
    X = space.from_unit(T)
    assert set(X[:, 1].tolist()) <= set(exact)
    assert (space.from_unit(space.to_unit(X))[:, :2] == X[:, :2]).all()
    assert (space.from_unit(space.snap(T))[:, 1] == X[:, 1]).all()
    assert (space.snap(T)[:, 1] == space.to_unit(X)[:, 1]).all()
    assert (space.from_dicts(space.to_dicts(X)) == X).all()
    again = read_space(json.loads(json.dumps(describe_space(space))))
    assert again == space
    sums = exact[0] + np.arange(steps + 1) * float(each / ten)  # as a user would compute them
    given = np.column_stack([np.ones(steps + 1), np.clip(sums, exact[0], exact[-1]), sums * 0])
    assert space.check(given)[:, 1].tolist() == exact


def test_slots_have_equal_shares() -> None:
    space = Space(x=Float(0, 1, step=0.25))
    X = space.from_unit(np.linspace(0, 1, 1001)[:-1, None])[:, 0]
    assert np.unique(X, return_counts=True)[1].tolist() == [200] * 5
    assert space.levels.tolist() == [5]
    assert space.from_unit([[1.0]]) == [[1.0]]


def test_what_it_says_of_itself() -> None:
    assert repr(Float(0, 1, step=0.3)) == "Float(0.0, 0.9, step=0.3)"
    assert Float(0, 1, step=0.3) == Float(0, 0.9, step=0.3)
    assert hash(Float(0, 1, step=0.3)) == hash(Float(0, 0.9, step=0.3))
    assert Float(0, 1, step=0.5) != Float(0, 1)
    assert Float(0, 1, step=np.float64(0.5)) == Float(0, 1, step=0.5)


WRONG: list[Any] = [
    (lambda: Float(0, 1, step=0), ValueError, "step is 0.0; give a positive number"),
    (lambda: Float(0, 1, step=-0.1), ValueError, "step is -0.1; give a positive number"),
    (lambda: Float(0, 1, step=float("nan")), ValueError, "step is nan; give a positive number"),
    (lambda: Float(0, 1, step=float("inf")), ValueError, "step is inf; give a positive number"),
    (lambda: Float(0, 1, step="a"), TypeError, r"step 'a' \(str\) is not a number; give one, or l"),  # type: ignore[arg-type]
    (lambda: Float(0, 1, step=True), TypeError, r"step True \(bool\) is not a number"),
    (lambda: Float(1, 9, step=1, log=True), ValueError, "a log scale has no steps; leave step or"),
    (
        lambda: Float(0, 1, step=2),
        ValueError,
        r"step is above high - low, which leaves only 0.0; give a smaller one \(the last value is",
    ),
    (lambda: Float(0, 1, step=1e-16), ValueError, "neighbours cannot be told apart; give a larger"),
    (lambda: Float(1e9, 2e9, step=1e-7), ValueError, "neighbours cannot be told apart"),
]


@pytest.mark.parametrize(("make", "error", "message"), WRONG)
def test_steps_that_do_not_fit(
    make: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()


def test_points_that_are_no_steps() -> None:
    space = Space(x=Float(0, 1, step=0.3))
    for wrong in ([[0.31]], [[0.299]]):
        with pytest.raises(
            ValueError, match=r"is not a step of Float.*; round it to 0.3, or leave"
        ):
            space.check(wrong)
    with pytest.raises(
        ValueError,
        match=r"1.0 is outside \[0.0, 0.9\], where the steps of Float\(0.0, 0.9, step=0.3\) end",
    ):
        space.from_dicts([{"x": 1}])
    with pytest.raises(ValueError, match="nan is not finite"):
        space.check([[np.nan]])
    assert space.check(np.array([[0.3], [0.9]], dtype=np.float32)).ravel().tolist() == [0.3, 0.9]


def f(params: dict[str, Any]) -> float:
    return float(-((params["x"] - 0.3) ** 2) + (params["kind"] == "a"))


def test_studies_csv_and_toml(tmp_path: Path) -> None:
    toml = tmp_path / "s.toml"
    toml.write_text(
        '[objective]\ncommand = "echo {x}"\n[space]\n'
        'x = {float = [0, 1], step = 0.1}\nkind = {choices = ["a", "b"]}\n'
    )
    space = read_config(toml).space
    assert space == Space(x=Float(0, 1, step=0.1), kind=Categorical(["a", "b"]))
    with Study.create(tmp_path / "s.ebo", space) as study:
        study.run(f, batch_size=6, iterations=1)
        asked = study.trials()["x"]
        assert set(asked.tolist()) <= {k / 10 for k in range(11)}
        study.export_csv(tmp_path / "s.csv")
    with Study.open(tmp_path / "s.ebo") as study:
        assert study.space == space
        assert (study.trials()["x"] == asked).all()
    with Study.create(tmp_path / "t.ebo", space) as study:
        study.import_csv(tmp_path / "s.csv")
        assert (study.trials()["x"] == asked).all()
        wrong = tmp_path / "wrong.csv"
        wrong.write_text("x,kind,value\n0.30000000000000004,a,1\n0.35,a,1\n")
        with pytest.raises(TableError, match=r"line 3: x is 0.35, which is not a step of Float"):
            study.import_csv(wrong)
    with pytest.raises(ValueError, match="beside 'int' there may only be 'log'"):
        read_parameters({"n": {"int": [0, 9], "step": 2}})
    with pytest.raises(ValueError, match=r"parameter 'x': .*step is 0.0; give a positive number"):
        read_parameters({"x": {"float": [0, 1], "step": 0}})


def test_all_steps_are_found() -> None:
    space = Space(x=Float(0, 1, step=0.1), fixed=Float(2, 2, step=1))
    X = ebo.Optimizer(space).ask(11)
    assert sorted(X[:, 0].tolist()) == [k / 10 for k in range(11)]
    assert (X[:, 1] == 2).all()
    assert box([0.0], [1.0]).levels.tolist() == [0]
