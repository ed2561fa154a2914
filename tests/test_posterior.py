"""The posterior by groups and its table, against TileGP and against fitting afresh."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from ebo.tilegp.box import Box
from ebo.tilegp.features import MondrianGrid, TileCoding
from ebo.tilegp.kernel import Hat, Kernel, Laplace
from ebo.tilegp.model import TileGP
from ebo.tilegp.posterior import Posterior, Table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FAMILIES = ("hat", "laplace", "tile", "grid")
SIZES = (0, 1, 40)
SINGLE = 1e-3  # tables are in single precision, and the noise here is as low as 1e-6


@dataclass
class Case:
    """A kernel with its structure, observations T, y, and other points P."""

    box: Box
    kernel: Kernel
    z: Ints
    cuts: Ints
    noise: float
    X: Floats
    T: Floats
    y: Floats
    P: Floats
    rng: np.random.Generator

    def posterior(self) -> Posterior:
        return self.fit(self.T, self.y)

    def fit(self, T: Floats, y: Floats) -> Posterior:
        return Posterior(self.kernel, self.z, self.cuts, self.noise, T, y)

    def textbook(self, T: Floats, y: Floats, P: Floats) -> tuple[Floats, Floats]:
        """Mean and covariance at P by the inverse of K + σ² I."""
        K = self.kernel.gram(T, T, self.z, self.cuts) + self.noise * np.eye(len(T))
        cross = self.kernel.gram(P, T, self.z, self.cuts)
        prior = self.kernel.gram(P, P, self.z, self.cuts)
        inverse = np.linalg.inv(K)
        return cross @ inverse @ y, prior - cross @ inverse @ cross.T


def draw(family: str, n: int, seed: int, per_layer: bool = False) -> Case:
    rng = np.random.default_rng(seed)
    kinds = ("continuous", "categorical", "continuous", "integer", "continuous", "categorical")
    dims, layers = len(kinds), 9
    box = Box(np.full(dims, -1.0), np.full(dims, 3.0), kinds)
    mask = box.categorical
    kernel: Kernel
    if family == "tile":
        kernel = TileCoding.draw(dims, layers, rng, mask)
    elif family == "grid":
        kernel = MondrianGrid.draw(dims, layers, rng, 8, mask)
    else:
        kernel = Hat(mask) if family == "hat" else Laplace(mask)
    X = rng.uniform(-1.0, 3.0, (n + 15, dims))
    X = np.where([kind == "continuous" for kind in kinds], X, np.round(X))
    if n > 2:
        X[1] = X[0]
    if n:
        X[n] = X[0]  # one of the points asked for has been observed
    unit = box.to_unit(X)
    cuts = rng.integers(0, 6, (dims, layers) if per_layer else dims)
    z = np.array([3, 0, 0, 3, 7, 3])
    y = rng.standard_normal(n)
    return Case(box, kernel, z, cuts, 10.0 ** rng.uniform(-5, 0), X, unit[:n], y, unit[n:], rng)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("seed", [8, 9])
def test_equals_tile_gp(family: str, n: int, seed: int) -> None:
    case = draw(family, n, seed)
    gp = TileGP(case.kernel, case.box, case.z, case.cuts, case.noise, form="kernel")
    mean, variance = gp.fit(case.X[:n], case.y).predict(case.X[n:])
    mu, sd = case.posterior().predict(case.P)
    np.testing.assert_allclose(mu, mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(sd**2, variance, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("family", ["tile", "grid"])
def test_cuts_of_every_layer(family: str) -> None:
    case = draw(family, 40, 1, per_layer=True)
    gp = TileGP(case.kernel, case.box, case.z, case.cuts, case.noise, form="kernel")
    mean, variance = gp.fit(case.X[:40], case.y).predict(case.X[40:])
    mu, sd = case.posterior().predict(case.P)
    np.testing.assert_allclose(mu, mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(sd**2, variance, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n", SIZES)
def test_covariance_is_the_textbook_formula(family: str, n: int) -> None:
    case = draw(family, n, 2)
    posterior = case.posterior()
    mean, covariance = case.textbook(case.T, case.y, case.P)
    np.testing.assert_allclose(posterior.covariance(case.P), covariance, atol=1e-9)
    mu, sd = posterior.predict(case.P)
    np.testing.assert_allclose(mu, mean, atol=1e-8)
    np.testing.assert_allclose(sd**2, np.diag(posterior.covariance(case.P)), atol=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_parts_sum_to_the_whole(family: str) -> None:
    case = draw(family, 40, 3)
    posterior = case.posterior()
    assert len(posterior.groups) == 3
    v = np.asarray(np.sum(posterior.parts(case.P), axis=0), dtype=np.float64)
    K = case.kernel.gram(case.T, case.T, case.z, case.cuts) + case.noise * np.eye(40)
    cross = case.kernel.gram(case.P, case.T, case.z, case.cuts)
    np.testing.assert_allclose(v @ v.T, cross @ np.linalg.solve(K, cross.T), atol=SINGLE)


def test_without_observations_it_is_the_prior() -> None:
    for family in FAMILIES:
        case = draw(family, 0, 4)
        mean, sd = case.posterior().predict(case.P)
        assert mean.tolist() == [0.0] * 15
        assert sd.tolist() == [1.0] * 15


def test_a_known_point_has_some_deviation_left() -> None:
    """Two hundred observations of one point at almost no noise: never zero, never NaN."""
    T = np.full((200, 2), 0.4)
    posterior = Posterior(Laplace(), np.array([0, 1]), np.ones(2), 1e-8, T, np.ones(200))
    mean, sd = posterior.predict(T[:1])
    assert mean[0] == pytest.approx(1.0, abs=1e-4)
    assert 0.0 < sd[0] < 1e-3


# The table: recombined points, and points that are added.


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("seed", [10, 11])
def test_vary_and_swap_are_predictions_of_recombined_points(family: str, n: int, seed: int) -> None:
    case = draw(family, n, seed)
    posterior = case.posterior()
    table = Table(posterior, case.P, room=0)
    rows = case.rng.integers(0, 15, 3)
    v, mean = table.whitened(rows), table.mean(rows)
    for m in (0, 2, 1, 0):
        replaced = [np.where(np.arange(3) == m, g, rows) for g in range(15)]
        points = np.array([table.recombine(case.P, row) for row in replaced])
        expected_mean, expected_sd = posterior.predict(points)
        mu, sd = table.vary(m, int(rows[m]), v, mean)
        np.testing.assert_allclose(mu, expected_mean, atol=SINGLE)
        np.testing.assert_allclose(sd**2, expected_sd**2, atol=SINGLE)
        new = int(case.rng.integers(15))
        v, mean = table.swap(m, int(rows[m]), new, v, mean)
        rows[m] = new
        np.testing.assert_allclose(1.0 - v @ v, expected_sd[new] ** 2, atol=SINGLE)
        assert mean == pytest.approx(expected_mean[new], abs=SINGLE)


def test_a_point_is_recombined_block_by_block() -> None:
    case = draw("hat", 1, 5)
    table = Table(case.posterior(), case.P, room=0)
    x = table.recombine(case.P, np.array([4, 1, 9]))  # z = 3 0 0 3 7 3: groups 0, 3, 7 in order
    expected = [case.P[row, d] for d, row in enumerate([1, 4, 4, 1, 9, 1])]
    assert x.tolist() == expected
    other = np.arange(15.0 * 6).reshape(15, 6)  # the same in other coordinates
    assert table.recombine(other, np.array([4, 1, 9])).tolist() == [
        other[row, d] for d, row in enumerate([1, 4, 4, 1, 9, 1])
    ]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("seed", [10, 11])
def test_adding_equals_fitting_afresh_with_the_point_at_its_mean(
    family: str, n: int, seed: int
) -> None:
    case = draw(family, n, seed)
    table = Table(case.posterior(), case.P, room=4)
    T, y, rows = case.T, case.y, np.zeros(3, dtype=np.int64)
    for step in range(4):
        if step != 2:  # then once more the same point
            rows = case.rng.integers(0, 15, 3)
        x = table.recombine(case.P, rows)
        mean = case.fit(T, y).predict(x[None, :])[0]
        table.add(x, table.whitened(rows))
        T, y = np.vstack([T, x]), np.append(y, mean)
        afresh = case.fit(T, y)
        for row in case.rng.integers(0, 15, (2, 3)):
            m = int(case.rng.integers(3))
            v, mu = table.whitened(row), table.mean(row)
            assert len(v) == n + step + 1
            points = np.array(
                [table.recombine(case.P, np.where(np.arange(3) == m, g, row)) for g in range(15)]
            )
            varied, sd = table.vary(m, int(row[m]), v, mu)
            expected_mean, expected_sd = afresh.predict(points)
            np.testing.assert_allclose(varied, expected_mean, atol=SINGLE)
            np.testing.assert_allclose(sd**2, expected_sd**2, atol=SINGLE)


@pytest.mark.parametrize("family", FAMILIES)
def test_adding_leaves_the_mean_and_shrinks_the_deviation(family: str) -> None:
    case = draw(family, 40, 6)
    table = Table(case.posterior(), case.P, room=5)
    rows = np.full(3, 7)
    for i in range(5):
        before = [table.vary(m, 7, table.whitened(rows), table.mean(rows)) for m in range(3)]
        table.add(case.P[i], table.whitened(np.full(3, i)))
        after = [table.vary(m, 7, table.whitened(rows), table.mean(rows)) for m in range(3)]
        for (mean, sd), (mean_after, sd_after) in zip(before, after, strict=True):
            np.testing.assert_allclose(mean_after, mean, atol=SINGLE)
            assert (sd_after <= sd + SINGLE).all()


def test_adding_one_point_many_times_at_almost_no_noise() -> None:
    case = draw("laplace", 40, 7)
    case.noise = 1e-8
    table = Table(case.posterior(), case.P, room=50)
    rows = np.zeros(3, dtype=np.int64)
    for _ in range(50):
        table.add(case.P[0], table.whitened(rows))
        mean, sd = table.vary(1, 0, table.whitened(rows), table.mean(rows))
        assert np.isfinite(mean).all()
        assert (sd > 0).all()
    assert sd[0] < 2e-3
