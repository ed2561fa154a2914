from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from ebo.arrays import Floats
from ebo.tilegp import model
from ebo.tilegp.box import Box
from ebo.tilegp.features import (
    FourierFeatures,
    MondrianFeatures,
    MondrianGrid,
    RandomBinning,
    TileCoding,
)
from ebo.tilegp.kernel import Hat, Kernel, Laplace
from ebo.tilegp.model import TileGP
from tests import naive

FORMS = ("kernel", "features", "sparse")
FAMILIES = ("tile", "grid", "binning", "mondrian", "fourier")


def draw(family: str, dims: int, layers: int, rng: np.random.Generator, mask: ArrayLike) -> Kernel:
    if family == "tile":
        return TileCoding.draw(dims, layers, rng, mask)
    if family == "grid":
        return MondrianGrid.draw(dims, layers, rng, 8, mask)
    if family == "binning":
        return RandomBinning.draw(dims, layers, rng, mask)
    if family == "mondrian":
        return MondrianFeatures.draw(dims, layers, rng, mask)
    return FourierFeatures.draw(dims, layers, rng)


def random_points(box: Box, n: int, rng: np.random.Generator) -> Floats:
    X = rng.uniform(box.lower, box.upper, (n, box.dims))
    X = np.where([kind != "continuous" for kind in box.kinds], np.round(X), X)
    if n > 2:
        X[1] = X[0]  # a duplicate
    return X


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 25), exponent=st.integers(-4, 1))
def test_all_forms_match_the_naive_twin(family: str, seed: int, n: int, exponent: int) -> None:
    rng = np.random.default_rng(seed)
    dims, layers, noise = int(rng.integers(1, 6)), int(rng.integers(1, 9)), 10.0**exponent
    kinds = rng.choice(["continuous", "integer", "categorical"], dims)
    if family == "fourier":
        kinds = np.where(kinds == "categorical", "integer", kinds)
    box = Box(np.full(dims, -1.0), np.full(dims, 3.0), tuple(kinds))
    kernel = draw(family, dims, layers, rng, box.categorical)
    z, cuts = rng.integers(0, 3, dims), rng.integers(0, 9, dims)
    X, X2 = random_points(box, n, rng), random_points(box, 6, rng)
    X2[0] = X[0]
    y = rng.standard_normal(n)

    T, T2 = box.to_unit(X), box.to_unit(X2)
    K = kernel.gram(T, T, z, cuts)
    expected = naive.posterior(K, kernel.gram(T2, T, z, cuts), y, noise)
    likelihood = naive.log_likelihood(K, y, noise)
    for form in FORMS:
        gp = TileGP(kernel, box, z, cuts, noise, form).fit(X, y)
        mean, variance = gp.predict(X2)
        np.testing.assert_allclose(mean, expected[0], rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(variance, expected[1], atol=1e-8)
        assert gp.log_likelihood() == pytest.approx(likelihood, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("noise", [1e-8, 1e-6, 1e-3])
def test_the_forms_agree_for_tiny_noise_and_contradicting_duplicates(
    family: str, noise: float
) -> None:
    rng = np.random.default_rng(3)
    kernel = draw(family, 5, 16, rng, np.zeros(5, dtype=bool))
    X, X2, y = rng.random((60, 5)), rng.random((20, 5)), rng.standard_normal(60)
    X[10:20] = X2[:10] = X[:10]
    results = []
    for form in FORMS:
        gp = TileGP(kernel, Box.unit(5), np.array([0, 0, 1, 1, 2]), [3, 0, 5, 2, 8], noise, form)
        gp.fit(X, y)
        results.append(np.append(gp.predict(X2), gp.log_likelihood()))
    # The condition number is about n/noise, so the last digits go as the noise does.
    tolerance = 1e-8 if noise >= 1e-6 else 1e-5
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kernel", [Hat(), Laplace()])
def test_limits_match_the_naive_twin(kernel: Hat | Laplace) -> None:
    rng = np.random.default_rng(5)
    X, X2, y = rng.random((30, 4)), rng.random((7, 4)), rng.standard_normal(30)
    z, cuts = np.array([0, 1, 1, 0]), np.array([2.5, 1, 0, 4])
    gp = TileGP(kernel, Box.unit(4), z, cuts, 0.05).fit(X, y)
    assert gp.used_form == "kernel"
    K = kernel.gram(X, X, z, cuts)
    mean, variance = naive.posterior(K, kernel.gram(X2, X, z, cuts), y, 0.05)
    np.testing.assert_allclose(gp.predict(X2)[0], mean, atol=1e-10)
    np.testing.assert_allclose(gp.predict(X2)[1], variance, atol=1e-10)
    assert gp.log_likelihood() == pytest.approx(naive.log_likelihood(K, y, 0.05))


@pytest.mark.parametrize("form", ["auto", *FORMS])
def test_no_observations_give_the_prior(form: str) -> None:
    kernel = TileCoding.draw(2, 4, np.random.default_rng(0))
    gp = TileGP(kernel, Box.unit(2), np.array([0, 1]), [3, 3], 0.1, form)
    gp.fit(np.empty((0, 2)), np.empty(0))
    mean, variance = gp.predict(np.full((3, 2), 0.5))
    assert (mean == 0).all()
    assert (variance == 1).all()
    assert gp.log_likelihood() == 0
    assert gp.predict(np.empty((0, 2)))[0].shape == (0,)


@pytest.mark.parametrize("form", FORMS)
def test_one_observation(form: str) -> None:
    kernel = TileCoding.draw(1, 4, np.random.default_rng(0))
    gp = TileGP(kernel, Box.unit(1), np.array([0]), [100], 0.25, form).fit([[0.5]], [2.0])
    mean, variance = gp.predict([[0.5], [0.1]])  # the same cells, and no common cell
    np.testing.assert_allclose(mean, [2 / 1.25, 0], atol=1e-15)
    np.testing.assert_allclose(variance, [1 - 1 / 1.25, 1], atol=1e-15)
    expected = -0.5 * (4 / 1.25 + np.log(2 * np.pi * 1.25))
    assert gp.log_likelihood() == pytest.approx(expected)


@pytest.mark.parametrize("form", FORMS)
def test_equal_points_and_constant_values(form: str) -> None:
    kernel = MondrianGrid.draw(3, 5, np.random.default_rng(0), 4)
    gp = TileGP(kernel, Box.unit(3), np.array([0, 1, 0]), [4, 4, 4], 1e-8, form)
    gp.fit(np.full((50, 3), 0.3), np.full(50, 7.0))
    mean, variance = gp.predict(np.full((2, 3), 0.3))
    np.testing.assert_allclose(mean, 7.0, rtol=1e-6)
    assert ((variance >= 0) & (variance < 1e-6)).all()
    assert np.isfinite(gp.log_likelihood())
    gp.fit(np.random.default_rng(1).random((20, 3)), np.zeros(20))
    assert np.abs(gp.predict(np.full((1, 3), 0.5))[0]).max() == 0


@pytest.mark.parametrize("form", ["auto", *FORMS])
def test_three_hundred_dimensions(form: str) -> None:
    rng = np.random.default_rng(0)
    kernel = TileCoding.draw(300, 2, rng)
    X, y = rng.random((40, 300)), rng.standard_normal(40)
    gp = TileGP(kernel, Box.unit(300), np.arange(300), np.full(300, 2), 0.1, form).fit(X, y)
    K = kernel.gram(X, X, np.arange(300), np.full(300, 2))
    assert gp.log_likelihood() == pytest.approx(naive.log_likelihood(K, y, 0.1), rel=1e-8)
    mean, variance = gp.predict(X)
    assert np.isfinite(mean).all()
    assert ((variance > 0) & (variance < 1)).all()


def test_y_is_used_as_it_is() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((20, 2)), rng.standard_normal(20)
    gp = TileGP(Hat(), Box.unit(2), np.array([0, 1]), [3, 3], 0.1)
    one = gp.fit(X, y).predict(X)
    ten = gp.fit(X, 10 * y).predict(X)
    np.testing.assert_allclose(ten[0], 10 * one[0])
    np.testing.assert_allclose(ten[1], one[1])


def test_huge_values_stay_finite() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((20, 2)), 1e100 * rng.choice([-1.0, 1.0], 20)
    for form in FORMS:
        gp = TileGP(TileCoding.draw(2, 5, rng), Box.unit(2), np.array([0, 1]), [3, 3], 1e-8, form)
        gp.fit(X, y)
        assert np.isfinite(gp.predict(X)).all()
        assert np.isfinite(gp.log_likelihood())


def test_predictions_do_not_depend_on_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X, X2, y = rng.random((20, 2)), rng.random((33, 2)), rng.standard_normal(20)
    for form in FORMS:
        kernel = RandomBinning.draw(2, 5, rng)
        gp = TileGP(kernel, Box.unit(2), np.array([0, 1]), [3, 3], 0.1, form).fit(X, y)
        whole = gp.predict(X2)
        with monkeypatch.context() as patch:
            patch.setattr(model, "BLOCK", 100)
            parts = gp.predict(X2)
        np.testing.assert_allclose(whole, parts, atol=1e-13)


def test_auto_chooses_by_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((200, 3)), rng.standard_normal(200)
    together, apart = np.zeros(3, dtype=int), np.arange(3)

    def used(kernel: Kernel, z: NDArray[np.int64], k: int) -> str:
        gp = TileGP(kernel, Box.unit(3), z, np.full(3, k), 0.1).fit(X, y)
        other = TileGP(kernel, Box.unit(3), z, np.full(3, k), 0.1, form="kernel").fit(X, y)
        assert gp.log_likelihood() == pytest.approx(other.log_likelihood(), rel=1e-8)
        return gp.used_form

    tile = TileCoding.draw(3, 4, rng)
    assert used(tile, apart, 3) == "kernel"
    monkeypatch.setattr(model, "DENSE_POINTS", 100)
    assert used(tile, apart, 3) == "features"  # few cells, all shared
    assert used(tile, together, 30) == "sparse"  # nearly a cell for each point
    assert used(Hat(), apart, 3) == "kernel"
    assert used(FourierFeatures.draw(3, 20, rng), apart, 3) == "features"
    monkeypatch.setattr(model, "DENSE_FEATURES", 10)
    assert used(tile, apart, 3) == "sparse"


def test_a_fitted_model_can_be_sent_to_another_process() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((20, 2)), rng.standard_normal(20)
    for form in ("kernel", "features"):
        kernel = TileCoding.draw(2, 5, rng)
        gp = TileGP(kernel, Box.unit(2), np.array([0, 1]), [3, 3], 0.1, form).fit(X, y)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(gp)).predict(X), gp.predict(X))


@pytest.mark.parametrize("noise", [0.0, -1.0, 1e-9, np.nan, np.inf])
def test_bad_noise(noise: float) -> None:
    with pytest.raises(ValueError, match=f"noise is {noise}; give a finite variance of at least"):
        TileGP(Hat(), Box.unit(1), np.array([0]), [1], noise)


def test_bad_models() -> None:
    box = Box(np.zeros(2), np.ones(2), ("continuous", "categorical"))
    z, rng = np.array([0, 1]), np.random.default_rng(0)
    with pytest.raises(ValueError, match="unknown form 'dense'; choose one of auto"):
        TileGP(Hat(), Box.unit(2), z, [1, 1], 0.1, form="dense")
    with pytest.raises(ValueError, match=r"Hat is a limit.*use form='kernel'"):
        TileGP(Hat(), Box.unit(2), z, [1, 1], 0.1, form="sparse")
    with pytest.raises(ValueError, match=r"dimension 1 is categorical.*categorical=box"):
        TileGP(Hat(), box, z, [1, 1], 0.1)
    with pytest.raises(ValueError, match=r"dimension 0 is continuous in the box but categorical"):
        TileGP(Hat([True, True]), box, z, [1, 1], 0.1)
    with pytest.raises(ValueError, match="the kernel has 3 dimensions and the box 2"):
        TileGP(TileCoding.draw(3, 2, rng), box, z, [1, 1], 0.1)
    with pytest.raises(ValueError, match=r"cuts have shape \(3,\)"):
        TileGP(Hat(), Box.unit(2), z, [1, 1, 1], 0.1)
    with pytest.raises(ValueError, match="cuts of dimension 0: 5, but only 4 were drawn"):
        TileGP(MondrianGrid.draw(2, 3, rng, 4), Box.unit(2), z, [5, 1], 0.1)
    with pytest.raises(ValueError, match=r"z has shape|points have shape"):
        TileGP(Hat(), Box.unit(2), np.array([0]), [1], 0.1)


def test_bad_observations(monkeypatch: pytest.MonkeyPatch) -> None:
    gp = TileGP(Hat(), Box.unit(2), np.array([0, 1]), [1, 1], 0.1)
    with pytest.raises(RuntimeError, match=r"call fit\(X, y\) first"):
        gp.predict([[0.5, 0.5]])
    with pytest.raises(RuntimeError, match=r"call fit\(X, y\) first"):
        gp.log_likelihood()
    with pytest.raises(ValueError, match=r"y has shape \(1, 1\), expected \(1,\)"):
        gp.fit([[0.5, 0.5]], [[1.0]])
    with pytest.raises(ValueError, match=r"y\[1\] is nan; leave failed evaluations out"):
        gp.fit([[0.5, 0.5], [0.1, 0.1]], [1.0, np.nan])
    with pytest.raises(ValueError, match=r"y\[0\] is -inf"):
        gp.fit([[0.5, 0.5]], [-np.inf])
    with pytest.raises(ValueError, match=r"point 0, dimension 1: 1\.5 is outside"):
        gp.fit([[0.5, 1.5]], [1.0])
    monkeypatch.setattr(model, "MOST_FEATURES", 3)
    kernel = TileCoding.draw(2, 5, np.random.default_rng(0))
    with pytest.raises(ValueError, match="10 features are too many for form='features'"):
        TileGP(kernel, Box.unit(2), np.array([0, 1]), [1, 1], 0.1, "features").fit(
            [[0.5, 0.5]], [1.0]
        )
