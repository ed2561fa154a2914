"""TuRBO: the trust region's shape and life, its process against GPyTorch, and what it proposes."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ebo
from ebo.arrays import Floats
from ebo.bench import baselines
from ebo.bench.baselines import turbo
from ebo.space import Space

pytest.importorskip("torch")
import torch

from ebo.bench.baselines import exact_gp


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with exact_gp.one_thread():  # many tests at once: more would only wait for each other
        yield


def unit(dims: int) -> Space:
    return ebo.box([0.0] * dims, [1.0] * dims)


def sphere(X: Floats) -> Floats:
    values: Floats = -np.sum((X - 0.3) ** 2, axis=1)
    return values


def data(n: int, dims: int, seed: int = 0) -> tuple[Floats, Floats, np.random.Generator]:
    rng = np.random.default_rng(seed)
    T = rng.random((n, dims))
    return T, np.sin(4.0 * T @ rng.standard_normal(dims)), rng


def naive_matern(T: Floats, T2: Floats, length_scales: Floats) -> Floats:
    gram = np.empty((len(T), len(T2)))
    for i, t in enumerate(T):
        for j, t2 in enumerate(T2):
            r = np.sqrt(5.0 * np.sum(((t - t2) / length_scales) ** 2))
            gram[i, j] = (1.0 + r + r**2 / 3.0) * np.exp(-r)
    return gram


def test_torch_is_not_imported_before_it_is_asked_for() -> None:
    code = (
        "import sys, ebo.bench.baselines as b; b.names(); b.get('cem'); b.options('turbo-1');"
        "assert 'torch' not in sys.modules;"
        "import ebo.bench.baselines.turbo, ebo.bench.baselines.svi;"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_posterior_is_that_of_the_formula() -> None:
    T, y, rng = data(12, 3)
    theta = exact_gp.first_parameters(3) + 0.3 * rng.standard_normal(6)
    process = exact_gp.ExactGP(T, y, theta)
    P = rng.random((5, 3))
    ell, variance = np.exp(theta[3:]), np.exp(theta[2])
    K = variance * naive_matern(T, T, ell) + np.exp(theta[1]) * np.eye(12)
    cross = variance * naive_matern(P, T, ell)
    mean, covariance = process.predict(P)
    expected = theta[0] + cross @ np.linalg.solve(K, y - theta[0])
    np.testing.assert_allclose(mean, expected, rtol=1e-8)
    expected = variance * naive_matern(P, P, ell) - cross @ np.linalg.solve(K, cross.T)
    np.testing.assert_allclose(covariance, expected, atol=1e-9)


def test_likelihood_and_gradient_are_those_of_gpytorch() -> None:
    gpytorch: Any = pytest.importorskip("gpytorch")
    T, y, rng = data(30, 4)
    theta = exact_gp.first_parameters(4) + 0.3 * rng.standard_normal(7)
    parameters = torch.from_numpy(theta.copy()).requires_grad_()
    kernel = gpytorch.kernels.MaternKernel(2.5).double()
    kernel.lengthscale = 1.0
    scaled = torch.from_numpy(T) / parameters[3:].exp()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gram = parameters[2].exp() * kernel(scaled).to_dense()
        covariance = gram + parameters[1].exp() * torch.eye(30).double()
        law = gpytorch.distributions.MultivariateNormal(parameters[0].expand(30), covariance)
        expected = -law.log_prob(torch.from_numpy(y)) / 30
        expected.backward()
    value, gradient = exact_gp.ExactGP(T, y, theta).loss()
    prior, slope = exact_gp.length_penalty(theta[3:])
    assert parameters.grad is not None
    both = parameters.grad.numpy() + np.concatenate([np.zeros(3), slope / 30])
    np.testing.assert_allclose(gradient, both, atol=1e-7)
    constant = 0.5 * np.log(2.0 * np.pi)
    np.testing.assert_allclose(value + constant, expected.item() + prior / 30, rtol=1e-6)


def test_a_fit_is_likelier_and_finds_what_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    T = rng.random((80, 4))
    y = np.sin(6.0 * T[:, 0])
    start = exact_gp.first_parameters(4)
    process = exact_gp.ExactGP.fit(T, y, start, 40)
    assert process.loss()[0] < exact_gp.ExactGP(T, y, start).loss()[0] - 0.1
    assert process.length_scales[0] < 0.5 * process.length_scales[1:].min()


def test_functions_drawn_have_the_posterior_law() -> None:
    T, y, rng = data(15, 2)
    process = exact_gp.ExactGP(T, y, exact_gp.first_parameters(2))
    P = rng.random((6, 2))
    drawn = np.concatenate([process.draw(P, 500, rng) for _ in range(20)])  # other features each
    mean, covariance = process.predict(P)
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.03)
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.03)


def test_the_box_has_sides_in_proportion_to_length_scales() -> None:
    region = turbo.Region(3)
    region.add(np.array([[0.5, 0.5, 0.9], [0.1, 0.1, 0.1]]), np.array([1.0, np.nan]))
    region.length = 0.2
    ell = np.array([0.1, 0.4, 0.2])
    lower, upper = region.box(ell)
    sides = ell / np.prod(ell) ** (1.0 / 3.0) * 0.2
    np.testing.assert_allclose(np.prod(sides), 0.2**3)
    np.testing.assert_allclose(lower, np.array([0.5, 0.5, 0.9]) - sides / 2)
    np.testing.assert_allclose(upper, np.minimum(np.array([0.5, 0.5, 0.9]) + sides / 2, 1.0))


def test_a_region_grows_after_three_successes_and_shrinks_after_failures() -> None:
    region = turbo.Region(6)
    better, worse = np.array([0.0, 2.0]), np.array([0.5, np.nan])
    for expected in (0.8, 0.8, 1.6, 1.6, 1.6, 1.6):  # never above 1.6
        region.judge(better, 1.0)
        assert region.length == expected
    region.judge(np.array([1.0005]), 1.0)  # no improvement worth the name
    assert (region.successes, region.failures) == (0, 1)
    region.judge(worse, 1.0)
    region.judge(worse, 1.0)
    assert (region.length, region.failures) == (1.6, 5)
    region.judge(better, 1.0)  # starts the count anew
    for expected in (1.6, 1.6, 0.8):  # six evaluations, as many as dimensions
        region.judge(worse, 1.0)
        assert region.length == expected


def test_a_region_that_is_too_small_starts_anew() -> None:
    region = turbo.Region(2)
    region.add(np.full((1, 2), 0.5), np.ones(1))
    region.missing = 0
    halvings = 0
    while region.life == 1:
        region.judge(np.zeros(4), 1.0)
        halvings += 1
    assert halvings == 7  # 0.8/2**7 is below 0.5**7
    assert (region.length, region.missing, len(region.u)) == (0.8, 4, 0)


def test_first_points_are_dealt_out_by_value() -> None:
    optimizer = turbo.TuRBO(unit(3), regions=3)
    X = np.random.default_rng(0).random((31, 3))
    y = sphere(X)
    y[7] = np.nan
    optimizer.tell(X, y)
    optimizer.ask(2)
    order = np.argsort(-y)
    for i, region in enumerate(optimizer.regions):
        np.testing.assert_array_equal(region.centre, X[order[i]])
    assert sorted(len(region.u) for region in optimizer.regions) == [10, 10, 11]
    assert not any(region.missing for region in optimizer.regions)


def test_values_go_to_the_region_that_asked_and_others_to_the_nearest() -> None:
    optimizer = turbo.TuRBO(unit(2), regions=2)
    near, far = [[0.1, 0.1], [0.2, 0.1], [0.1, 0.2], [0.2, 0.2]], [0.9, 0.8, 0.7, 0.6]
    X = [point for pair in zip(near, [[x, x] for x in far], strict=True) for point in pair]
    optimizer.tell(X, [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0])
    asked = optimizer.ask(12)
    owners = [optimizer._origin[number][0] for number in range(12)]
    optimizer.tell(asked[::-1], np.full(12, -5.0))  # no success
    optimizer.tell([[0.85, 0.8]], [2.5])  # not asked for
    optimizer.ask(1)
    for i, region in enumerate(optimizer.regions):
        assert (region.u == -5.0).sum() == owners.count(i)
        assert region.length == (0.4 if owners.count(i) >= 4 else 0.8)
    assert [2.5 in region.u for region in optimizer.regions] == [False, True]


def test_a_restart_asks_for_points_spread_over_the_cube() -> None:
    optimizer = turbo.TuRBO(unit(3))
    X = np.random.default_rng(0).random((20, 3))
    optimizer.tell(X, sphere(X))
    region = optimizer.regions[0]
    region.length = turbo.SHORTEST
    late = optimizer.ask(1)
    X = optimizer.ask(5)
    optimizer.tell(X, np.full(5, -9.0))  # fails, so that the region ends
    X = optimizer.ask(4)
    assert (region.life, region.missing, region.length) == (2, 2, 0.8)
    optimizer.tell(X, sphere(X))
    optimizer.tell(late, [5.0])  # of the region's former life
    X = optimizer.ask(10)  # two more, and eight by the model
    assert [optimizer._origin[number][2] for number in range(10, 20)] == [False] * 2 + [True] * 8
    assert len(region.u) == 4
    assert optimizer.best()[1] == 5.0


def test_candidates_move_some_coordinates_of_the_centre_within_the_box() -> None:
    optimizer = turbo.TuRBO(unit(40))
    X = np.random.default_rng(0).random((50, 40))
    optimizer.tell(X, sphere(X))
    optimizer.ask(1)
    region = optimizer.regions[0]
    ell = np.linspace(0.2, 1.0, 40)
    P = optimizer._perturbed(region, ell)
    assert P.shape == (4_000, 40)
    moved = region.centre != P
    assert 19.0 < moved.sum(axis=1).mean() < 21.0
    assert moved.any(axis=1).all()
    lower, upper = region.box(ell)
    assert ((lower <= P) & (upper >= P)).all()


def test_the_model_learns_from_the_nearest() -> None:
    region = turbo.Region(2)
    T = np.random.default_rng(0).random((100, 2))
    region.add(T, sphere(T))
    distance = np.linalg.norm(T - region.centre, axis=1)
    assert set(region.nearest(30)) == set(np.argsort(distance)[:30])


@pytest.mark.parametrize("regions", [1, 3])
def test_better_than_random_with_failures_and_batches_of_one(regions: int) -> None:
    def f(X: Floats) -> Floats:
        return np.where(X[:, 1] > 0.8, np.nan, sphere(X))

    found = {}
    for name, optimizer in (
        ("turbo", turbo.TuRBO(unit(6), seed=1, regions=regions)),
        ("random", baselines.get("random")(unit(6), seed=1)),
    ):
        for n in (20, 1, 1, 10, 10, 10, 10, 10):
            X = optimizer.ask(n)
            assert X.shape == (n, 6)
            assert ((X >= 0.0) & (X <= 1.0)).all()
            optimizer.tell(X, f(X))
        found[name] = optimizer.best()[1]
    assert found["turbo"] > 0.3 * found["random"]


def test_whole_numbers_are_not_proposed_twice_while_others_are_left() -> None:
    space = Space(a=ebo.Int(0, 5), b=ebo.Categorical(["s", "m", "l"], ordered=True))
    optimizer = turbo.TuRBO(space)
    seen: set[tuple[float, ...]] = set()
    for n in (4, 4, 4, 4):
        X = optimizer.ask(n)
        seen |= {tuple(x) for x in X}
        optimizer.tell(X, -np.abs(X).sum(axis=1))
    assert optimizer.best()[1] == 0.0
    X = optimizer.ask(30)  # more than there are
    np.testing.assert_array_equal(space.check(X), X)


def test_global_state_of_torch_is_left_alone() -> None:
    threads, dtype, state = (
        torch.get_num_threads(),
        torch.get_default_dtype(),
        torch.get_rng_state(),
    )
    runs = []
    for _ in range(2):
        optimizer = turbo.TuRBO(unit(3), seed=4)
        X = np.random.default_rng(0).random((20, 3))
        optimizer.tell(X, sphere(X))
        runs.append(optimizer.ask(5))
    np.testing.assert_array_equal(runs[0], runs[1])
    assert (torch.get_num_threads(), torch.get_default_dtype()) == (threads, dtype)
    assert torch.equal(torch.get_rng_state(), state)
