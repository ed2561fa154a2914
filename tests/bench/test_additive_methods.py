"""Methods on an exact additive GP: their numerics by slow twins, and what they propose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ebo
from ebo.arrays import Floats
from ebo.bench import baselines
from ebo.bench.baselines import additive, components, skl
from ebo.bench.baselines.add_mes import sample_components
from ebo.bench.baselines.additive_gp import AdditiveGP
from ebo.problems.additive import Additive
from ebo.tilegp.gibbs import sample

METHODS = ("add-gp-ucb", "add-mes-r", "add-mes-g", "block-opt")
GROUPS = [[0, 2], [1], [3, 4]]
Z = np.array([0, 1, 0, 2, 2])
RATES = np.array([2.0, 5.0, 3.0, 10.0, 1.0])
NOISE = 1e-2


def naive_kernel(P: Floats, Q: Floats, group: list[int]) -> Floats:
    """One group's Laplace kernel, a pair at a time, its share of a variance of one."""
    kernel = np.empty((len(P), len(Q)))
    for i, p in enumerate(P):
        for j, q in enumerate(Q):
            kernel[i, j] = np.exp(-sum(RATES[d] * abs(p[d] - q[d]) for d in group)) / len(GROUPS)
    return kernel


def naive_posterior(
    T: Floats, y: Floats, P: Floats, groups: list[list[int]]
) -> tuple[Floats, Floats]:
    """Mean and covariance of the sum of some components, from K⁻¹."""
    K = sum((naive_kernel(T, T, group) for group in GROUPS), NOISE * np.eye(len(T)))
    cross = sum((naive_kernel(P, T, group) for group in groups), np.zeros((len(P), len(T))))
    prior = sum((naive_kernel(P, P, group) for group in groups), np.zeros((len(P), len(P))))
    inverse = np.linalg.inv(K)
    return cross @ inverse @ y, prior - cross @ inverse @ cross.T


def data(n: int = 12, seed: int = 0) -> tuple[Floats, Floats, Floats]:
    rng = np.random.default_rng(seed)
    return rng.random((n, 5)), rng.standard_normal(n), rng.random((7, 5))


def test_f_and_its_components_are_those_of_the_naive_twin() -> None:
    T, y, P = data()
    gp = AdditiveGP(T, y, Z, RATES, NOISE, variance=4.0)
    assert (gp.mean, gp.scale) == (0.0, 2.0)
    mean, covariance = naive_posterior(T, y / 2.0, P, GROUPS)
    for found, expected in zip(gp.predict(P), (mean, np.sqrt(np.diag(covariance))), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    for m, group in enumerate(GROUPS):
        mean, covariance = naive_posterior(T, y / 2.0, P, [group])
        found_mean, found_sd = gp.part_moments(m, P)
        np.testing.assert_allclose(found_mean, mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found_sd, np.sqrt(np.diag(covariance)), rtol=1e-9)
    parts = [gp.part(m, P) for m in range(3)]
    for whole, summed in zip(gp.predict(P), gp.moments(np.sum(parts, axis=0)), strict=True):
        np.testing.assert_allclose(summed, whole, rtol=1e-9)


def test_an_unknown_mean_and_scale_are_the_likeliest() -> None:
    T, y, _ = data()
    gp = AdditiveGP(T, 50.0 + 3.0 * y, Z, RATES, NOISE)
    K = sum((naive_kernel(T, T, group) for group in GROUPS), NOISE * np.eye(len(T)))

    def misfit(mean: float) -> float:
        return float((50.0 + 3.0 * y - mean) @ np.linalg.solve(K, 50.0 + 3.0 * y - mean))

    assert misfit(gp.mean) < min(misfit(gp.mean - 0.01), misfit(gp.mean + 0.01))
    assert gp.scale**2 == pytest.approx(misfit(gp.mean) / (len(y) - 1))
    same = AdditiveGP(T, np.full(len(y), 7.0), Z, RATES, NOISE)
    assert same.scale == 1.0
    assert same.mean == pytest.approx(7.0)


def test_a_point_added_at_its_mean_is_an_observation_of_that_value() -> None:
    T, y, P = data()
    gp = AdditiveGP(T, y, Z, RATES, NOISE, variance=1.0)
    y = np.append(y, gp.predict(P[:1])[0])
    gp.add(P[0])
    other = AdditiveGP(np.concatenate([T, P[:1]]), y, Z, RATES, NOISE, variance=1.0)
    for m in range(3):
        for found, expected in zip(gp.part_moments(m, P), other.part_moments(m, P), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


def test_sampled_components_have_the_moments_of_the_posterior() -> None:
    T, y, P = data()
    gp = AdditiveGP(T, y, Z, RATES, NOISE, variance=1.0)
    rng = np.random.default_rng(0)
    drawn = [sample_components(gp, P, 20, rng) for _ in range(150)]  # new features every time
    for m, group in enumerate(GROUPS):
        values = np.concatenate([draw[m] for draw in drawn], axis=1)
        mean, covariance = naive_posterior(T, y, P, [group])
        np.testing.assert_allclose(values.mean(axis=1), mean, atol=0.06)
        np.testing.assert_allclose(np.cov(values), covariance, atol=0.04)


def test_a_block_is_climbed_to_its_maximum() -> None:
    rng = np.random.default_rng(0)
    P, group = rng.random((50, 4)), np.array([1, 3])
    x = additive.climb(P, group, lambda Q: -((Q[:, 1] - 0.3) ** 2) - (Q[:, 3] - 1.2) ** 2, rng)
    np.testing.assert_allclose(x[group], [0.3, 1.0], atol=0.02)
    assert x[0] in P[:, 0]
    assert x[2] in P[:, 2]


def known(problem: Additive, **more: Any) -> dict[str, Any]:
    """The prior of a problem."""
    groups = [group.tolist() for group in problem.groups]
    return {"groups": groups, "length_scale": 0.1, "variance": float(len(groups)), **more}


def test_each_beats_random_search_on_functions_of_its_prior() -> None:
    ends: dict[str, list[float]] = {name: [] for name in (*METHODS, "random")}
    for seed in range(2):
        problem = Additive("add5", 5, np.random.default_rng(seed), largest_group=1, points=300)
        X = np.random.default_rng([seed, 1]).random((10, 5))
        for name, best in ends.items():
            options = {} if name == "random" else known(problem, upper_bound=problem.maximum)
            optimizer = baselines.get(name)(problem.space, seed=seed, **options)
            optimizer.tell(X, problem(X))
            for _ in range(30):
                asked = optimizer.ask(1)
                optimizer.tell(asked, problem(asked))
            best.append(problem.maximum - optimizer.best()[1])
    regret = {name: float(np.mean(best)) for name, best in ends.items()}
    for name in METHODS:
        assert regret[name] < 0.8 * regret["random"], regret


@pytest.mark.parametrize("name", METHODS)
def test_a_structure_that_is_learned(name: str) -> None:
    rng, space = np.random.default_rng(0), ebo.box([0.0] * 4, [10.0] * 4)

    def value(X: Floats) -> Floats:
        values: Floats = 100.0 - np.abs(X - [2.0, 5.0, 7.0, 3.0]).sum(axis=1)
        return values

    optimizer: Any = baselines.get(name)(space, seed=1)
    X = 10.0 * rng.random((20, 4))
    optimizer.tell(X, value(X))
    first = optimizer.best()[1]
    for _ in range(4):
        X = optimizer.ask(6)
        assert len(np.unique(X, axis=0)) == 6
        optimizer.tell(X, value(X))
    assert 100.0 - optimizer.best()[1] < 0.6 * (100.0 - first)
    assert not optimizer._waiting
    assert optimizer._learned_from == 38  # again and again: a tenth more was known each time


@pytest.mark.parametrize("name", METHODS)
def test_points_waited_for_count_as_observed(name: str) -> None:
    problem = Additive("add3", 3, np.random.default_rng(0), largest_group=1, points=100)
    options = known(problem, upper_bound=problem.maximum)
    optimizer: Any = baselines.get(name)(problem.space, **options)
    X = np.random.default_rng(1).random((8, 3))
    optimizer.tell(X, problem(X))
    one_by_one = np.concatenate([optimizer.ask(1) for _ in range(4)])
    assert len(optimizer._waiting) == 4
    assert len(np.unique(one_by_one, axis=0)) == 4
    asked = np.concatenate([one_by_one, optimizer.ask(3)])
    assert len(np.unique(asked, axis=0)) == 7
    optimizer.tell(asked[:3], [np.nan, *problem(asked[1:3])])  # a failure is no longer waited for
    assert len(optimizer._waiting) == 4


def test_components_grow_bolder_where_they_repeat_a_point(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Additive("add3", 3, np.random.default_rng(0), largest_group=1, points=100)
    X = np.random.default_rng(1).random((8, 3))

    def repeats() -> int:
        optimizer: Any = baselines.get("add-gp-ucb")(problem.space, **known(problem))
        optimizer.tell(X, problem(X))
        count = 0
        for _ in range(25):
            chosen = optimizer._chosen(1)
            count += 1 - len(optimizer._data.new(problem.space.from_unit(chosen)))
            asked = optimizer.ask(1)
            optimizer.tell(asked, problem(asked))
        return count

    bold = repeats()
    monkeypatch.setattr(components, "BOLDNESS", (1.0,))
    assert bold <= 1
    assert repeats() > 5


def test_only_block_optimisation_uses_the_maximum() -> None:
    problem = Additive("add3", 3, np.random.default_rng(0), largest_group=1, points=100)
    X = np.random.default_rng(1).random((8, 3))
    for name in METHODS:
        asked = []
        for bound in (problem.maximum, problem.maximum + 50.0):
            options = known(problem, upper_bound=bound)
            optimizer = baselines.get(name)(problem.space, **options)
            optimizer.tell(X, problem(X))
            asked.append(optimizer.ask(1))
        assert np.array_equal(asked[0], asked[1]) == (name != "block-opt")
    down: Any = baselines.get("block-opt")(problem.space, direction="minimize", lower_bound=-3.0)
    assert down.bound == 3.0


def test_a_known_length_scale_with_unknown_groups() -> None:
    space = ebo.box([0.0] * 3, [1.0] * 3)
    optimizer: Any = baselines.get("add-gp-ucb")(space, length_scale=0.15)
    X = np.random.default_rng(1).random((30, 3))
    optimizer.tell(X, X.sum(axis=1))
    optimizer.ask(1)
    _, rates, _ = optimizer._structure(X, X.sum(axis=1))
    np.testing.assert_allclose(rates, 1.0 / 0.15)
    assert (optimizer._state.cuts == 7).all()


def test_mistakes_are_told() -> None:
    make, space = baselines.get("block-opt"), ebo.box([0.0] * 3, [1.0] * 3)
    with pytest.raises(ValueError, match="without length_scale; give both"):
        make(space, groups=[[0, 1, 2]])
    for groups in ([[0, 1]], [[0, 1], [1, 2]], [[0, 1, 2, 3]]):
        with pytest.raises(ValueError, match="give each of the dimensions 0 to 2 once"):
            make(space, groups=groups, length_scale=0.1)
    with pytest.raises(ValueError, match="length_scale is 0"):
        make(space, length_scale=0.0)
    with pytest.raises(ValueError, match="variance is -1"):
        make(space, variance=-1.0)


def test_skl_learns_from_all_by_one_dense_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also once EBO would have had probes, and taken them for a block of their own."""
    blocks: list[list[int]] = []

    def spy(given: Any, *arguments: Any, **options: Any) -> Any:
        blocks.append([len(T) for T, _ in given])
        return sample(given, *arguments, **options)

    monkeypatch.setattr("ebo.learning.pooled.sample", spy)
    monkeypatch.setattr(skl, "MOST", 120)
    optimizer: Any = baselines.get("skl")(ebo.box([0.0] * 3, [1.0] * 3), workers=1)
    X = np.random.default_rng(0).random((100, 3))
    optimizer.tell(X, -np.abs(X - 0.5).sum(axis=1))
    for _ in range(3):
        X = optimizer.ask(7)
        assert optimizer.history[-1].leaves == 1
        assert optimizer.state.structure.smooth is None
        optimizer.tell(X, -np.abs(X - 0.5).sum(axis=1))
    assert blocks == [[100], [107], [114]]
    with pytest.raises(RuntimeError, match="121 observations, and its cost is cubic"):
        optimizer.ask(1)
