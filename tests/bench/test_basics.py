"""`ebo bench basics`: the illustrated function against brute force, and tiny runs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ebo import problems
from ebo.bench import basics
from ebo.bench.basics import Case
from ebo.bench.illustration import NOISE, Illustration
from ebo.optimizer import Optimizer


def naive_value(f: Illustration, x: tuple[float, ...]) -> float:
    """f at one point: the cell of a layer is how many of its cuts are not above the point."""
    total = 0.0
    for d, t in enumerate(x):
        k = int(f.cuts[d])
        for layer, u in enumerate(f.features.uniforms[d]):
            cell = sum((u + j) / k <= t for j in range(k))
            total += f.weights[d, layer, cell]
    return float(total / np.sqrt(len(x) * f.features.layers))


def test_the_illustrated_function_is_its_naive_twin() -> None:
    f = Illustration(0)
    X = np.random.default_rng(1).random((20, 2))
    expected = [naive_value(f, (x, y)) for x, y in X]
    np.testing.assert_allclose(f.exact(X), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_its_extremes_are_those_of_a_fine_grid(seed: int) -> None:
    f = Illustration(seed, cuts=(3, 2), layers=4)
    t = (np.arange(700) + 0.5) / 700
    grid = np.stack(np.meshgrid(t, t), axis=-1).reshape(-1, 2)
    values = f.exact(grid)
    assert f.maximum == pytest.approx(values.max(), abs=1e-12)
    assert f.minimum == pytest.approx(values.min(), abs=1e-12)
    assert f.regret(grid[values.argmax()]) == pytest.approx(0.0, abs=1e-12)
    assert f.regret(grid[values.argmin()]) == pytest.approx(1.0, abs=1e-12)


def test_at_full_size_no_point_of_a_grid_is_better() -> None:
    f = Illustration(5)
    t = np.linspace(0.0, 1.0, 500)
    lines = [f.exact(np.column_stack([t, np.full(500, y)])) for y in t[::5]]
    assert np.max(lines) <= f.maximum + 1e-12
    assert np.max(lines) > f.maximum - 0.1 * (f.maximum - f.minimum)
    assert np.min(lines) >= f.minimum - 1e-12


def test_it_has_the_variance_of_its_prior_and_noise_of_its_own() -> None:
    X = np.array([[0.31, 0.72]])
    values = [float(Illustration(seed).exact(X)[0]) for seed in range(400)]
    assert np.mean(values) == pytest.approx(0.0, abs=0.2)
    assert np.var(values) == pytest.approx(1.0, abs=0.25)
    f = Illustration(0)
    many = np.repeat(X, 2_000, axis=0)
    noise = f(many) - f.exact(many)
    assert noise.std() == pytest.approx(NOISE, rel=0.1)
    assert np.array_equal(Illustration(0)(many) - f.exact(many), noise)


def test_a_tiny_run_has_all_figures() -> None:
    said: list[str] = []
    cases = Case("branin", 12, 4, seeds=1), Case("ackley3", 8, 4, seeds=3)
    result = basics.run(2, said.append, Case("illustration", 12, 4, seeds=1), cases)
    json.dumps(result)

    shown = result["illustration"]
    assert [row["seed"] for row in shown["seeds"]] == [0, 1]
    for preset in ("default", "paper"):
        regrets = [row[preset] for row in shown["seeds"]]
        assert all(0.0 <= regret <= 1.0 for regret in regrets)
        assert shown["median_regret"][preset] == np.median(regrets)

    assert list(result["problems"]) == ["branin", "ackley3"]
    for case in result["problems"].values():
        rows = case["seeds"]
        assert len(rows) == 2
        for search in ("ebo", "random", "sobol"):
            assert case[search] == np.mean([row[search] for row in rows])
            assert all(row[search] <= row["maximum"] for row in rows)
        wins = [row["ebo"] > row["random"] and row["ebo"] > row["sobol"] for row in rows]
        assert case["better_than_both"] == sum(wins)
    assert "branin, seed 0, 12 of 12" in said
    assert "illustration, paper, seed 1, 12 of 12" in said


def test_without_a_number_of_seeds_each_case_has_its_own() -> None:
    result = basics.run(
        None, lambda text: None, Case("illustration", 4, 4, seeds=2), (Case("branin", 4, 4, 3),)
    )
    assert len(result["illustration"]["seeds"]) == 2
    assert len(result["problems"]["branin"]["seeds"]) == 3


@pytest.mark.parametrize("points", [basics.random_points, basics.sobol_points])
@pytest.mark.parametrize("n", [1, 7, 8])
def test_baselines_are_seeded_and_within_the_bounds(points: basics.Search, n: int) -> None:
    problem = problems.get("branin")
    X = points(problem, n, 3)
    assert X.shape == (n, 2)
    assert (problem.lower <= X).all()
    assert (problem.upper >= X).all()
    assert np.array_equal(points(problem, n, 3), X)
    assert not np.array_equal(points(problem, n, 4), X)


def test_the_optimiser_begins_with_the_same_sobol_points() -> None:
    problem = problems.get("hartmann6")
    X = Optimizer(problem.space, seed=2).ask(6)
    np.testing.assert_allclose(basics.sobol_points(problem, 20, 2)[:6], X, atol=1e-12)


def test_uniform_points_fill_the_box() -> None:
    problem = problems.get("branin")
    for points in (basics.random_points, basics.sobol_points):
        X = points(problem, 2_000, 0)
        middle = (problem.lower + problem.upper) / 2
        assert np.abs((X.mean(axis=0) - middle) / (problem.upper - problem.lower)).max() < 0.03
