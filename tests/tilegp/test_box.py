from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebo.tilegp.box import KINDS, Box
from tests import naive


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(0, 20))
def test_to_unit_matches_its_naive_twin(seed: int, dims: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = tuple(rng.choice(KINDS, size=dims))
    lower = rng.integers(-20, 20, dims).astype(float)
    upper = lower + rng.integers(1, 9, dims).astype(float)
    X = rng.uniform(lower, upper, (n, dims))
    whole = np.array([kind in ("integer", "categorical") for kind in kinds])
    X = np.where(whole, np.round(X), X)
    T = Box(lower, upper, kinds).to_unit(X)
    np.testing.assert_allclose(T, naive.to_unit(lower, upper, kinds, X), rtol=1e-15)
    assert T.dtype == np.float64
    assert ((T >= 0) & (T <= 1)).all()


def test_the_unit_box_changes_nothing() -> None:
    X = np.random.default_rng(0).random((5, 3))
    assert (Box.unit(3).to_unit(X) == X).all()
    assert Box.unit(3).kinds == ("continuous",) * 3


def test_bounds_map_to_the_ends_and_whole_values_to_the_middle_of_their_slots() -> None:
    box = Box(
        np.array([-2.0, 3, 0, 7]),
        np.array([2.0, 6, 2, 7]),
        ("continuous", "integer", "categorical", "integer"),
    )
    T = box.to_unit([[-2, 3, 0, 7], [2, 6, 2, 7]])
    np.testing.assert_array_equal(T, [[0, 1 / 8, 0.5 / 3, 0.5], [1, 7 / 8, 2.5 / 3, 0.5]])
    assert box.categorical.tolist() == [False, False, True, False]


def test_equal_whole_values_have_equal_t_and_others_do_not() -> None:
    box = Box(np.array([-(2.0**40)]), np.array([2.0**40]), ("integer",))
    values = np.array([-(2.0**40), -1, 0, 1, 2.0**40 - 1, 2.0**40])[:, None]
    assert (box.to_unit(values) == box.to_unit(values[::-1])[::-1]).all()
    assert len(np.unique(box.to_unit(values))) == len(values)


def test_extreme_continuous_bounds() -> None:
    assert Box(np.array([0.0]), np.array([5e-324])).to_unit([[5e-324]]) == 1.0
    assert Box(np.array([-8e307]), np.array([8e307])).to_unit([[0.0]]) == 0.5


def test_no_points() -> None:
    assert Box.unit(4).to_unit(np.empty((0, 4))).shape == (0, 4)


def test_a_box_cannot_be_changed() -> None:
    given_lower = np.zeros(2)
    box = Box(given_lower, np.ones(2))
    given_lower[0] = 5.0
    assert box.lower[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        box.lower[0] = 1.0


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([0.5, 0.5], r"shape \(2,\), expected \(n, 2\)"),
        ([[0.5, 0.5, 0.5]], r"shape \(1, 3\), expected \(n, 2\)"),
        ([[0.5, 1], [1.7, 1]], r"point 1, dimension 0: 1.7 is outside \[0, 1\]; clip it or widen"),
        ([[-1e-300, 1]], r"point 0, dimension 0: -1e-300 is outside \[0, 1\]"),
        ([[0.5, np.nan]], "point 0, dimension 1: nan is not finite; drop the point"),
        ([[np.inf, 1]], "point 0, dimension 0: inf is not finite"),
        ([[0.5, 1.5]], "point 0, dimension 1: 1.5 is not a whole number.*integer; round it"),
    ],
)
def test_bad_points(X: list[list[float]], message: str) -> None:
    box = Box(np.array([0.0, 0]), np.array([1.0, 3]), ("continuous", "integer"))
    with pytest.raises(ValueError, match=message):
        box.to_unit(X)


@pytest.mark.parametrize(
    ("lower", "upper", "kinds", "message"),
    [
        ([0.0], [0.0], (), "bounds .0.0, 0.0. are empty; give lower < upper"),
        ([1.0], [0.0], (), "are empty"),
        ([2.0], [1.0], ("integer",), "are empty; give lower <= upper"),
        ([0.0], [np.inf], (), "finite"),
        ([np.nan], [1.0], (), "finite"),
        ([-1.7e308], [1.7e308], (), "too far apart"),
        ([0.5], [2.0], ("integer",), "not whole numbers; round them"),
        ([0.0], [2.5], ("categorical",), "not whole numbers; round them"),
        ([0.0], [2.0**60], ("integer",), "make the dimension continuous"),
        ([0.0], [1.0], ("ordinal",), "unknown kind 'ordinal'; choose one of continuous"),
        ([0.0, 0.0], [1.0], (), "same length"),
        ([], [], (), "at least 1"),
        ([0.0, 0.0], [1.0, 1.0], ("integer",), "1 kinds for 2 dimensions"),
    ],
)
def test_bad_boxes(
    lower: list[float], upper: list[float], kinds: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Box(np.array(lower), np.array(upper), kinds)


def test_labels_are_compared_and_not_moved() -> None:
    box = Box(np.array([0.25, 0.0]), np.array([0.75, 1.0]), ("label", "continuous"))
    assert box.categorical.tolist() == [True, False]
    np.testing.assert_array_equal(box.to_unit([[0.5, 0.5]]), [[0.5, 0.5]])
