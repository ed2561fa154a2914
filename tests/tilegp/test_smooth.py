"""The smooth part of the kernel: its density, gradient and fit, and the core's rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from ebo import native
from ebo.arrays import Floats
from ebo.tilegp.kernel import Laplace
from ebo.tilegp.smooth import LEAST_NOISE, LENGTH, NOISE, Smooth, SmoothRows, fit, objective
from tests.naive import smooth_gram

MIXED = np.array([False, False, True, False, True])


def draw(n: int, seed: int = 0) -> tuple[Floats, Floats, Floats]:
    """Points with two categorical dimensions, an additive kernel of theirs, and values."""
    rng = np.random.default_rng(seed)
    T = rng.random((n, 5))
    T[:, 2] = (rng.integers(3, size=n) + 0.5) / 3
    T[:, 4] = (rng.integers(2, size=n) + 0.5) / 2
    additive = Laplace(MIXED).gram(T, T, np.array([0, 0, 1, 2, 2]), np.full(5, 4.0))
    return T, additive, rng.standard_normal(n)


def theta_of(smooth: Smooth) -> Floats:
    odds = smooth.share / (1.0 - smooth.share)
    return np.concatenate([np.log(smooth.rates), np.log([odds, smooth.noise])])


@pytest.mark.parametrize("seed", range(3))
def test_gram_is_the_one_in_loops(seed: int) -> None:
    T, _, _ = draw(12, seed)
    smooth = Smooth(0.3, 10.0 ** np.random.default_rng(seed).uniform(-2, 1, 5), 0.1)
    for mask in (MIXED, None):
        expected = smooth_gram(smooth, T, T[:4], mask)
        np.testing.assert_allclose(smooth.gram(T, T[:4], mask), expected, atol=1e-7)


@pytest.mark.parametrize("seed", range(5))
def test_gradient_is_that_of_differences(seed: int) -> None:
    T, additive, y = draw(30, seed)
    theta = np.random.default_rng(seed).normal(0.0, 0.7, 7)
    value, gradient = objective(theta, additive, T, y, MIXED)

    def only_value(t: Floats) -> float:
        return objective(t, additive, T, y, MIXED)[0]

    expected = approx_fprime(theta, only_value, 1e-7)
    assert np.isfinite(value)
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-4)


def test_objective_is_the_density_with_the_best_scale() -> None:
    T, additive, y = draw(20)
    theta = np.random.default_rng(1).normal(0.0, 0.7, 7)
    share = 1.0 / (1.0 + np.exp(-theta[5]))
    smooth = Smooth(share, np.exp(theta[:5]), np.exp(theta[6]))
    K = (1 - share) * additive + smooth_gram(smooth, T, T, MIXED) + smooth.noise * np.eye(20)
    scales = np.geomspace(0.01, 100.0, 20_001)
    quadratic, log_det = y @ np.linalg.solve(K, y), np.linalg.slogdet(K)[1]
    best = np.min(0.5 * (20 * np.log(scales) + log_det + quadratic / scales))
    off = np.append(theta[:5] + np.log(LENGTH), np.array([theta[5], theta[6] - np.log(NOISE)]) / 3)
    expected = best - 10.0 + 0.5 * off @ off  # y'K⁻¹y / 2c is n/2 at the best scale
    assert objective(theta, additive, T, y, MIXED)[0] == pytest.approx(expected, abs=1e-6)


def test_fit_finds_what_is_smooth_and_which_dimensions_matter() -> None:
    rng = np.random.default_rng(0)
    T = rng.random((150, 6))
    y = np.sin(4.0 * (T[:, 0] + T[:, 1] - T[:, 2]) * (1.0 + T[:, 3]))
    y -= y.mean()
    additive = Laplace().gram(T, T, np.arange(6), np.full(6, 4.0))
    smooth = fit(additive, T, y, None, None)
    assert smooth.share > 0.5
    assert smooth.rates[:3].min() > 3 * smooth.rates[4:].max()
    assert LEAST_NOISE <= smooth.noise < 0.01
    again = fit(additive, T, y, None, smooth)
    before, after = (objective(theta_of(s), additive, T, y, None)[0] for s in (smooth, again))
    assert after <= before


def test_fit_leaves_to_the_additive_part_what_is_additive_and_rough() -> None:
    rng = np.random.default_rng(1)
    T = rng.random((200, 4))
    additive = Laplace().gram(T, T, np.arange(4), np.full(4, 10.0))
    y = np.linalg.cholesky(additive + 1e-6 * np.eye(200)) @ rng.standard_normal(200)
    assert fit(additive, T, y - y.mean(), None, None).share < 0.2


@pytest.mark.parametrize("n", [1, 2, 5])
def test_fit_of_little_or_constant_data_stays_near_the_prior(n: int) -> None:
    T, additive, y = draw(n)
    for values in (y, np.zeros(n), np.full(n, 1e-300)):
        smooth = fit(additive, T, values, MIXED, None)
        assert 0.0 < smooth.share < 1.0
        assert np.isfinite(smooth.rates).all()
        assert (smooth.rates > 0).all()
        assert LEAST_NOISE <= smooth.noise <= 1.0


def test_fit_goes_on_from_a_part_outside_its_bounds() -> None:
    T, additive, y = draw(20)
    wild = Smooth(1.0 - 1e-15, np.array([1e-9, 1e9, 1.0, 1.0, 1.0]), 1e-30)
    assert fit(additive, T, y, MIXED, wild).noise >= LEAST_NOISE


def test_rows_of_the_core_take_a_block_from_each_point() -> None:
    rng = np.random.default_rng(2)
    T, _, _ = draw(40)
    P, _, _ = draw(9, seed=5)
    smooth = Smooth(0.7, 10.0 ** rng.uniform(-1, 1, 5), 0.1)
    rows = SmoothRows(smooth, T.T, MIXED)
    for group in ([0], [2, 4], [1, 2, 3], [0, 1, 2, 3, 4], []):
        points = np.repeat(P[:1], 9, axis=0)
        points[:, group] = P[:, group]
        expected = smooth_gram(smooth, points, T[:33], MIXED)
        found = rows(P, np.array(group, dtype=np.int64), 33)
        np.testing.assert_allclose(found, expected, atol=3e-6)


def test_the_core_refuses_arrays_that_do_not_fit() -> None:
    P, T = np.zeros((2, 3), np.float32), np.zeros((3, 5), np.float32)
    group, rates, mask = np.array([0]), np.ones(3, np.float32), np.zeros(3, np.bool_)
    for changed in (
        {"P": P[:0]},
        {"T": T[:2]},
        {"rates": rates[:2]},
        {"categorical": mask[:1]},
        {"columns": 6},
        {"group": np.array([3])},
        {"group": np.array([-1])},
    ):
        given: dict[str, Any] = {
            "P": P, "T": T, "columns": 5, "group": group, "rates": rates, "categorical": mask,
            "scale": 1.0,
        }  # fmt: skip
        with pytest.raises(ValueError, match=r"dimension"):
            native.smooth_gram(**{**given, **changed})
