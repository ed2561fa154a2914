"""What counts as a value: numbers that are finite and not masked, whoever gives them."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebo import Optimizer, Settings, Study, box, maximize
from ebo.arrays import Floats
from ebo.values import check_values, number_of

SMALL = Settings().changed(leaf_size=20, block_size=20, learn_from=60)
SQUARE = box([0.0, 0.0], [1.0, 1.0])
MASKED = np.ma.array([1.0, 99.0, 3.0], mask=[False, True, False])


@pytest.mark.parametrize(
    ("returned", "value"),
    [
        (2.5, 2.5),
        (True, 1.0),
        (np.float32(0.5), 0.5),
        (np.array([[4.0]]), 4.0),
        ([7], 7.0),
        (Decimal("1.25"), 1.25),
        (Fraction(1, 4), 0.25),
        (np.ma.array(5.0), 5.0),
        (np.ma.array([6], mask=[False]), 6.0),
    ],
)
def test_values(returned: Any, value: float) -> None:
    assert number_of(returned) == (value, "")


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        (math.nan, "returned nan"),
        (-math.inf, "returned -inf"),
        (None, "returned None, which is not a number"),
        ("1.5", "returned '1.5', which is not a number"),
        (b"1", "returned b'1', which is not a number"),
        (1j, "returned 1j, which is not a number"),
        ([1.0, 2.0], "returned [1.0, 2.0], which is not a number"),
        ([], "returned [], which is not a number"),
        (np.ma.masked, "returned a masked value"),
        (np.ma.array(99.0, mask=True), "returned a masked value"),
        (np.ma.array([99], mask=[True]), "returned a masked value"),
        ([np.ma.masked], "returned nan"),
    ],
)
def test_no_values(returned: Any, why: str) -> None:
    value, said = number_of(returned)
    assert math.isnan(value)
    assert said == why


@pytest.mark.parametrize(
    "y",
    [
        MASKED,
        np.ma.array([1, 99, 3], mask=[False, True, False]),
        [1.0, np.ma.masked, 3.0],
        (1.0, np.ma.array(99.0, mask=True), 3.0),
        [1.0, math.inf, 3.0],
    ],
    ids=range(5),
)
def test_many_values(y: Any) -> None:
    np.testing.assert_array_equal(check_values(y, 3), [1.0, math.nan, 3.0])


def test_masked_values_are_never_told_as_data(tmp_path: Path) -> None:
    X = np.array([[0.1, 0.1], [0.2, 0.2], [0.3, 0.3]])
    optimizer = Optimizer(SQUARE)
    optimizer.tell(X, MASKED)
    assert optimizer.best()[1] == 3.0
    np.testing.assert_array_equal(optimizer.y, [1.0, math.nan, 3.0])
    for path in (None, tmp_path / "s.ebo"):
        with Study.create(path, SQUARE) as study:
            study.tell(X, MASKED)
            ids, _ = study.ask_trials(2)
            masked: Any = np.ma.masked
            study.tell_trials({int(ids[0]): masked, int(ids[1]): 2.0})
            assert study.best()[1] == 3.0
            assert (study.counts()["done"], study.counts()["failed"]) == (3, 2)


@pytest.mark.parametrize("mask", [[[False, True]], True])
def test_a_point_with_a_masked_coordinate_is_refused(mask: Any) -> None:
    optimizer = Optimizer(SQUARE)
    with pytest.raises(ValueError, match=r"row 0, parameter .*nan"):
        optimizer.tell(np.ma.array([[0.1, 0.2]], mask=mask), [1.0])
    optimizer.tell(np.ma.array([[0.1, 0.2]]), [1.0])
    assert optimizer.X.tolist() == [[0.1, 0.2]]


def masked_where_high(x: Floats) -> Any:
    """0 where it has failed would be the best value of all."""
    return np.ma.masked if x[0] > 0.5 else -1.0 - x[0]


def all_masked_where_high(X: Floats) -> Any:
    return np.ma.array(np.where(X[:, 0] > 0.5, 0.0, -1.0 - X[:, 0]), mask=X[:, 0] > 0.5)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"workers": 2},
        {"workers": 2, "how": "threads"},
        {"vectorized": True},
    ],
    ids=["here", "processes", "threads", "vectorized"],
)
def test_masked_values_of_an_objective_are_failed_evaluations(how: dict[str, Any]) -> None:
    f = all_masked_where_high if "vectorized" in how else masked_where_high
    result = maximize(f, SQUARE, batch_size=6, iterations=2, settings=SMALL, **how)
    np.testing.assert_array_equal(np.isnan(result.y), result.X[:, 0] > 0.5)
    assert 0 < np.isnan(result.y).sum() < 18
    assert result.best_value <= -1.0
