"""The posterior by groups and its table, against TileGP and against fitting afresh."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from ebo.acquisition import ACQUISITIONS, Acquisition, Aim, Goal
from ebo.arrays import Floats, Ints
from ebo.tilegp.box import Box
from ebo.tilegp.features import MondrianGrid, TileCoding
from ebo.tilegp.kernel import Hat, Laplace, SampledKernel
from ebo.tilegp.model import TileGP
from ebo.tilegp.posterior import Posterior, Walk
from ebo.tilegp.smooth import LEAST_NOISE, Smooth
from tests.naive import smooth_gram as naive_smooth

FAMILIES = ("hat", "laplace", "tile", "grid")
KERNELS = (*FAMILIES, "laplace+smooth", "tile+smooth")
SIZES = (0, 1, 40)
SINGLE = 1e-3  # tables are in single precision, and the noise here is as low as 1e-6


@dataclass
class Case:
    """A kernel with its structure, observations T, y, and other points P."""

    box: Box
    kernel: SampledKernel
    z: Ints
    cuts: Ints
    noise: float
    X: Floats
    T: Floats
    y: Floats
    P: Floats
    rng: np.random.Generator
    smooth: Smooth | None

    def posterior(self) -> Posterior:
        return self.fit(self.T, self.y)

    def fit(self, T: Floats, y: Floats) -> Posterior:
        return Posterior.of(self.kernel, self.z, self.cuts, self.noise, T, y, self.smooth)

    def gram(self, T: Floats, T2: Floats) -> Floats:
        """The kernel, its smooth part in loops."""
        additive = self.kernel.gram(T, T2, self.z, self.cuts)
        if self.smooth is None:
            return additive
        return (1.0 - self.smooth.share) * additive + naive_smooth(
            self.smooth, T, T2, self.kernel.categorical
        )

    def textbook(self, T: Floats, y: Floats, P: Floats) -> tuple[Floats, Floats]:
        """Mean and covariance at P by the inverse of K + σ² I."""
        K = self.gram(T, T) + self.noise * np.eye(len(T))
        cross, prior = self.gram(P, T), self.gram(P, P)
        inverse = np.linalg.inv(K)
        return cross @ inverse @ y, prior - cross @ inverse @ cross.T


def draw(family: str, n: int, seed: int, per_layer: bool = False) -> Case:
    rng = np.random.default_rng(seed)
    family, _, more = family.partition("+")
    kinds = ("continuous", "categorical", "continuous", "integer", "continuous", "categorical")
    dims, layers = len(kinds), 9
    box = Box(np.full(dims, -1.0), np.full(dims, 3.0), kinds)
    mask = box.categorical
    kernel: SampledKernel
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
    noise, smooth = 10.0 ** rng.uniform(-5, 0), None
    if more:
        noise = max(noise, LEAST_NOISE)
        smooth = Smooth(rng.random(), 10.0 ** rng.uniform(-2, 1, dims), noise)
    return Case(box, kernel, z, cuts, noise, X, unit[:n], y, unit[n:], rng, smooth)


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


@pytest.mark.parametrize("family", KERNELS)
@pytest.mark.parametrize("n", SIZES)
def test_covariance_is_the_textbook_formula(family: str, n: int) -> None:
    case = draw(family, n, 2)
    posterior = case.posterior()
    mean, covariance = case.textbook(case.T, case.y, case.P)
    np.testing.assert_allclose(posterior.covariance(case.P), covariance, atol=1e-9)
    mu, sd = posterior.predict(case.P)
    np.testing.assert_allclose(mu, mean, atol=1e-8)
    np.testing.assert_allclose(sd**2, np.diag(posterior.covariance(case.P)), atol=1e-9)


@pytest.mark.parametrize("family", KERNELS)
def test_whitened_points(family: str) -> None:
    case = draw(family, 40, 3)
    posterior = case.posterior()
    assert len(posterior.groups) == 3
    walk = Walk(posterior, room=0)
    v = np.array([walk.whitened(x) for x in case.P], dtype=np.float64)
    K = case.gram(case.T, case.T) + case.noise * np.eye(40)
    cross = case.gram(case.P, case.T)
    np.testing.assert_allclose(v @ v.T, cross @ np.linalg.solve(K, cross.T), atol=SINGLE)


def test_without_observations_it_is_the_prior() -> None:
    for family in KERNELS:
        case = draw(family, 0, 4)
        mean, sd = case.posterior().predict(case.P)
        assert mean.tolist() == [0.0] * 15
        assert sd.tolist() == [1.0] * 15


def test_a_known_point_has_some_deviation_left() -> None:
    """Two hundred observations of one point at almost no noise: never zero, never NaN."""
    T = np.full((200, 2), 0.4)
    posterior = Posterior.of(Laplace(), np.array([0, 1]), np.ones(2), 1e-8, T, np.ones(200))
    mean, sd = posterior.predict(T[:1])
    assert mean[0] == pytest.approx(1.0, abs=1e-4)
    assert 0.0 < sd[0] < 1e-3


# One block at a time, and points that are added.


@pytest.mark.parametrize("family", KERNELS)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("seed", [10, 11])
def test_a_block_moves_as_the_whole_posterior_says(family: str, n: int, seed: int) -> None:
    case = draw(family, n, seed)
    posterior = case.posterior()
    walk, P = Walk(posterior, room=0), case.P.copy()
    v = walk.whitened(P[0])
    for m in (0, 2, 1, 0):
        group = posterior.groups[m]
        points = np.repeat(P[:1], len(P), axis=0)
        points[:, group] = P[:, group]
        expected_mean, expected_sd = posterior.predict(points)
        mean, sd, moved = walk.vary(m, v, P)
        np.testing.assert_allclose(mean, expected_mean, atol=SINGLE)
        np.testing.assert_allclose(sd**2, expected_sd**2, atol=SINGLE)
        new = int(case.rng.integers(len(P)))
        P[0, group], v = P[new, group], moved[new]
    np.testing.assert_allclose(v, walk.whitened(P[0]), atol=SINGLE)


@pytest.mark.parametrize("family", KERNELS)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", ACQUISITIONS)
def test_climbing_is_block_after_block_to_the_best(family: str, n: int, kind: str) -> None:
    case = draw(family, n, 12)
    posterior = case.posterior()
    walk, P, order = Walk(posterior, room=0), case.P.copy(), np.array([2, 0, 1, 0])
    goal = Goal(0.3, 2.0, maxima=np.array([0.9, 1.5]))
    aim = Aim(ACQUISITIONS[kind], goal, mean=0.2, scale=1.3)
    start = v = walk.whitened(P[0])
    expected = []
    for m in order:
        mean, sd, moved = walk.vary(m, v, P)
        expected.append(int(aim.worth(mean, sd).argmax()))
        group = posterior.groups[m]
        P[0, group], v = P[expected[-1], group], moved[expected[-1]]
    rows, climbed = walk.climb(order, start, case.P, aim)
    assert rows.tolist() == expected
    np.testing.assert_array_equal(climbed, v)
    assert kind != "ucb" or n < 40 or any(expected)  # it does not just stay where it is


@pytest.mark.parametrize("family", KERNELS)
def test_climbing_by_a_function_that_the_core_does_not_have(family: str) -> None:
    case = draw(family, 40, 12)
    walk, P, order = Walk(case.posterior(), room=0), case.P, np.array([2, 0, 1, 0])
    known = Aim(ACQUISITIONS["ucb"], Goal(0.3, 2.0), mean=0.2, scale=1.3)
    own = Aim(
        Acquisition(lambda mean, sd, goal: mean + goal.deviations * sd), Goal(0.3, 2.0), 0.2, 1.3
    )
    assert own.core is None
    rows, v = walk.climb(order, walk.whitened(P[0]), P, own)
    expected_rows, expected_v = walk.climb(order, walk.whitened(P[0]), P, known)
    assert rows.tolist() == expected_rows.tolist()
    np.testing.assert_array_equal(v, expected_v)
    assert any(rows)


@pytest.mark.parametrize("family", KERNELS)
@pytest.mark.parametrize("n", SIZES)
def test_adding_equals_fitting_afresh_with_the_point_at_its_mean(family: str, n: int) -> None:
    case = draw(family, n, 10)
    walk, T, y = Walk(case.posterior(), room=3), case.T, case.y
    for x in case.P[:3]:
        walk.add(x, walk.whitened(x))
        mean = case.fit(T, y).predict(x[None, :])[0]
        T, y = np.concatenate([T, x[None, :]]), np.concatenate([y, mean])
    afresh = case.fit(T, y)
    P = case.P[3:]
    points = np.repeat(P[:1], len(P), axis=0)
    points[:, afresh.groups[1]] = P[:, afresh.groups[1]]
    mean, sd, _ = walk.vary(1, walk.whitened(P[0]), P)
    expected_mean, expected_sd = afresh.predict(points)
    np.testing.assert_allclose(mean, expected_mean, atol=SINGLE)
    np.testing.assert_allclose(sd**2, expected_sd**2, atol=SINGLE)


def test_adding_one_point_many_times_at_almost_no_noise() -> None:
    case = draw("laplace", 40, 7)
    case.noise = 1e-8
    walk = Walk(case.posterior(), room=50)
    for _ in range(50):
        walk.add(case.P[0], walk.whitened(case.P[0]))
        mean, sd, _ = walk.vary(1, walk.whitened(case.P[0]), case.P)
        assert np.isfinite(mean).all()
        assert (sd > 0).all()
    assert sd[0] < 0.05


def test_the_scale_that_fits_best_makes_the_values_most_likely() -> None:
    case = draw("laplace+smooth", 40, 12)
    case.y *= 7.0
    posterior = case.posterior()
    mean, sd = posterior.predict(case.P)
    deviation = posterior.fit_scale(0.0)
    covariance = case.gram(case.T, case.T) + case.noise * np.eye(40)

    def log_likelihood(scale: float) -> float:
        _, log_det = np.linalg.slogdet(scale**2 * covariance)
        return float(-log_det - case.y @ np.linalg.solve(scale**2 * covariance, case.y))

    assert all(log_likelihood(deviation) > log_likelihood(f * deviation) for f in (0.99, 1.01))
    scaled_mean, same_sd = posterior.predict(case.P)
    np.testing.assert_allclose(scaled_mean * deviation, mean)
    assert same_sd.tolist() == sd.tolist()
    assert case.fit(case.T[:0], case.y[:0]).fit_scale(4) == 1
