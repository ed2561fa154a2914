"""Objective values of any size and shape -> standardised values, and back."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ebo.arrays import Floats
from ebo.standardisation import FAILED_QUANTILE, HIGH, LOW, UNIT, Standardisation


def naive_standard(y: Floats) -> Floats:
    """The map by its definition, one value at a time; for values of ordinary size, none failed."""
    quartiles = np.percentile(y, [25, 50, 75])
    scale = (quartiles[2] - quartiles[0]) / (stats.norm.ppf(0.75) - stats.norm.ppf(0.25))
    u = []
    for value in y:
        t = (value - quartiles[1]) / scale
        if t > HIGH:
            t = HIGH + math.log(1.0 + t - HIGH)
        elif t < -LOW:
            t = -LOW - math.log(1.0 - t - LOW)
        u.append(t)
    return np.array(u)


def heavy(seed: int, n: int = 101) -> Floats:
    return np.random.default_rng(seed).standard_cauchy(n)


CASES = {
    "normal": np.random.default_rng(0).normal(5.0, 3.0, 101),
    "cauchy": heavy(1),
    "exponentials": np.exp(5.0 * np.random.default_rng(2).standard_normal(101)),
    "huge": 1e300 * np.random.default_rng(3).uniform(-1.0, 1.0, 101),
    "the largest": 1.7e308 * np.random.default_rng(4).uniform(-1.0, 1.0, 101),
    "two signs": np.array([1e300, -1e300, 1e300, -1e300, 5.0]),
    "tiny": 1e-300 * np.random.default_rng(5).uniform(-1.0, 1.0, 101),
    "huge and tiny": np.array([1e300, 1e-300, -1e300, 0.0, 1.0, -1.0, 1e10]),
    "far from zero": 1e9 + np.random.default_rng(6).standard_normal(101),
    "equal": np.full(7, 3.25),
    "zero": np.zeros(7),
    "one": np.array([-2.5]),
    "two": np.array([1.0, 2.0]),
    "half equal": np.concatenate([np.zeros(60), np.random.default_rng(7).standard_normal(40)]),
    "one differs": np.append(np.full(99, 1.0), 2.0),
}


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(3, 60), size=st.integers(-6, 6))
def test_equals_the_definition(seed: int, n: int, size: int) -> None:
    y = 10.0**size * (heavy(seed, n) + 1.0)
    np.testing.assert_allclose(
        Standardisation.fit(y).to_standard(y), naive_standard(y), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("name", CASES)
def test_rising_finite_and_without_warnings(name: str) -> None:
    y = CASES[name]
    fitted = Standardisation.fit(y)
    u = fitted.to_standard(y)
    assert u.shape == y.shape
    assert np.isfinite(u).all()
    order = np.argsort(y)
    assert (np.diff(u[order]) >= 0).all()
    assert np.isfinite([fitted.centre, fitted.scale]).all()
    assert fitted.scale > 0


@pytest.mark.parametrize("name", CASES)
def test_there_and_back(name: str) -> None:
    y = CASES[name]
    fitted = Standardisation.fit(y)
    back = fitted.from_standard(fitted.to_standard(y))
    np.testing.assert_allclose(back, y, rtol=1e-12, atol=1e-14 * np.abs(y).max())


@pytest.mark.parametrize("name", CASES)
def test_the_median_is_zero(name: str) -> None:
    y = CASES[name]
    assert float(Standardisation.fit(y).to_standard(np.median(y))) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_an_upper_bound_stays_one(name: str) -> None:
    y = CASES[name]
    fitted = Standardisation.fit(y)
    u = fitted.to_standard(y)
    for bound in (y.max(), y.max() + 1e-3 * abs(y.max()), 1.05 * abs(y).max()):
        assert float(fitted.to_standard(bound)) >= u.max()


def test_a_bound_far_above_is_drawn_in() -> None:
    fitted = Standardisation.fit(CASES["normal"])
    assert HIGH < float(fitted.to_standard(1e300)) < 1000.0
    assert -1000.0 < float(fitted.to_standard(-1e300)) < -LOW


@pytest.mark.parametrize("y", [[1.0, 2.0], [1e-300, 2e-300], [-1.0, -1.0 - 1e-10, -1.0 - 2e-10]])
def test_a_bound_of_any_size_stays_one(y: list[float]) -> None:
    values = np.array(y)
    fitted = Standardisation.fit(values)
    assert float(fitted.to_standard(1.7e308)) > fitted.to_standard(values).max()


@settings(max_examples=100, deadline=None)
@given(
    y=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=12),
    seed=st.integers(0, 2**32),
)
def test_rising_on_any_numbers(y: list[float], seed: int) -> None:
    values = np.sort(np.array(y))
    u = Standardisation.fit(np.random.default_rng(seed).permutation(values)).to_standard(values)
    assert np.isfinite(u).all()
    assert (np.diff(u) >= 0).all()


def test_smooth_at_the_joints() -> None:
    """Value and slope are continuous where the tails begin; between them the map is a line."""
    fitted = Standardisation(0.0, 1.0 / UNIT)
    step = 1e-5
    for joint in (HIGH, -LOW):
        below, at, above = fitted.to_standard([joint - step, joint, joint + step])
        assert at == joint
        assert (at - below) / step == pytest.approx(1.0, abs=2 * step)
        assert (above - at) / step == pytest.approx(1.0, abs=2 * step)
    inside = np.linspace(-LOW, HIGH, 101)
    np.testing.assert_array_equal(fitted.to_standard(inside), inside)
    everywhere = np.linspace(-50.0, 50.0, 2001)
    assert (np.diff(fitted.to_standard(everywhere)) > 0).all()


def test_the_inverse_on_a_grid() -> None:
    fitted = Standardisation.fit(CASES["normal"])
    u = np.linspace(-20.0, 20.0, 801)
    np.testing.assert_allclose(fitted.to_standard(fitted.from_standard(u)), u, atol=1e-10)


def test_normal_values_become_standard_normal() -> None:
    y = np.random.default_rng(8).normal(-40.0, 1e-5, 4000)
    u = Standardisation.fit(y).to_standard(y)
    inside = u[(u > -LOW) & (u < HIGH)]
    assert stats.kstest(inside, "norm").pvalue > 1e-4
    assert abs(u.mean()) < 0.1
    assert u.std() == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("factor", [1e-290, 1e-3, 7.0, 1e290])
@pytest.mark.parametrize("shift", [0.0, 2.0, -1000.0])
def test_units_do_not_matter(factor: float, shift: float) -> None:
    y = heavy(9)
    u = Standardisation.fit(y).to_standard(y)
    moved = factor * (y + shift)
    np.testing.assert_allclose(
        Standardisation.fit(moved).to_standard(moved), u, rtol=1e-9, atol=1e-9
    )


def test_heavy_tails_leave_the_middle_spread_out() -> None:
    y = np.random.default_rng(10).standard_cauchy(5000)
    u = Standardisation.fit(y).to_standard(y)
    assert np.abs(u).max() < 20.0
    assert float(stats.iqr(u)) == pytest.approx(1.349, abs=1e-3)


@pytest.mark.parametrize("wild", [1e4, -1e4, 1e8, -1e8])
def test_a_wild_value_changes_nothing(wild: float) -> None:
    check_wild(wild)


@pytest.mark.parametrize("wild", [1e10, -1e10, 1e20, -1e20, 1e200, -1e300])
def test_a_wilder_value_changes_nothing(wild: float) -> None:
    """As when a user tells -1e10 for what went wrong."""
    check_wild(wild)


def check_wild(wild: float) -> None:
    y = np.random.default_rng(11).standard_normal(100)
    u = Standardisation.fit(np.append(y, wild)).to_standard(y)
    np.testing.assert_allclose(u, Standardisation.fit(y).to_standard(y), atol=0.1)


@pytest.mark.parametrize("wild", [1e4, -1e10])
def test_a_wild_value_among_equal_ones_does_not_hide_the_rest(wild: float) -> None:
    y = np.concatenate([np.zeros(60), np.random.default_rng(12).standard_normal(40), [wild]])
    assert np.ptp(Standardisation.fit(y).to_standard(y[:-1])) > 0.5


def test_equal_values_are_zero() -> None:
    for y in (np.full(5, 1e300), np.full(5, -1e-300), np.zeros(3), np.array([7.0])):
        assert Standardisation.fit(y).to_standard(y).tolist() == [0.0] * len(y)


def test_more_than_half_equal_still_tells_the_others_apart() -> None:
    y = np.append(np.full(99, 1.0), 2.0)
    u = Standardisation.fit(y).to_standard(y)
    assert np.all(u[:99] == 0.0)
    assert u[99] > 0.5


def test_failed_evaluations_are_as_bad_as_the_lowest_tenth() -> None:
    y = np.random.default_rng(12).standard_normal(101)
    failed = np.concatenate([[np.nan], y, [np.nan, -np.inf]])
    fitted = Standardisation.fit(failed)
    assert fitted == Standardisation.fit(y)
    u = fitted.to_standard(failed)
    np.testing.assert_array_equal(u[1:-2], fitted.to_standard(y))
    np.testing.assert_allclose(u[[0, -2, -1]], np.quantile(u[1:-2], FAILED_QUANTILE))
    assert (u[1:-2] < u[0]).mean() == pytest.approx(0.1, abs=0.01)


def test_all_failed_and_none() -> None:
    for y in (np.full(3, np.nan), np.empty(0)):
        fitted = Standardisation.fit(y)
        assert fitted == Standardisation(0.0, 1.0 / UNIT)
        assert fitted.to_standard(y).tolist() == [0.0] * len(y)


def test_the_values_given_are_left_alone() -> None:
    y = np.array([1.0, np.nan, 3.0])
    Standardisation.fit(y).to_standard(y)
    np.testing.assert_array_equal(y, [1.0, np.nan, 3.0])
