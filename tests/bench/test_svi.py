"""BO-SVI and BO-Add-SVI: kernel, bound and posterior against plain formulas, and what they find."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ebo
from ebo.bench import baselines
from ebo.bench.additive import sample_values
from ebo.bench.baselines import svi
from ebo.bench.baselines.base import Floats
from ebo.bench.baselines.svi import Ints
from ebo.space import Space
from ebo.tilegp.kernel import Laplace, members

pytest.importorskip("torch")
import torch

from ebo.bench.baselines import exact_gp, sparse_gp

THETA = np.log([0.7, 1.3, 0.05])


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with exact_gp.one_thread():  # many tests at once: more would only wait for each other
        yield


def unit(dims: int) -> Space:
    return ebo.box([0.0] * dims, [1.0] * dims)


def sphere(X: Floats) -> Floats:
    values: Floats = -np.sum((X - 0.3) ** 2, axis=1)
    return values


def naive_kernel(T: Floats, T2: Floats, z: Ints, ell: float) -> Floats:
    groups = [[d for d in range(len(z)) if z[d] == label] for label in sorted(set(z.tolist()))]
    gram = np.zeros((len(T), len(T2)))
    for i, t in enumerate(T):
        for j, t2 in enumerate(T2):
            for group in groups:
                gram[i, j] += np.exp(-sum(abs(t[d] - t2[d]) for d in group) / ell) / len(groups)
    return gram


def converged(T: Floats, y: Floats, Z: Floats, z: Ints) -> sparse_gp.SparseGP:
    """Full batches at fixed parameters: one natural gradient step of length one is exact."""
    process = sparse_gp.SparseGP(Z, members(z), THETA)
    with torch.no_grad():
        A = process._whitened(torch.from_numpy(T))
        for _ in range(400):
            process._natural_step(A, torch.from_numpy(y), len(y))
    return process


def small() -> tuple[Floats, Floats, Ints]:
    rng = np.random.default_rng(0)
    T = rng.random((25, 3))
    return T, np.sin(5.0 * T[:, 0]) + T[:, 1] * T[:, 2], np.array([1, 0, 0])


@pytest.mark.parametrize("z", [[0, 0, 0], [0, 1, 2], [1, 0, 1]])
def test_the_kernel_is_the_formula_and_ebos_own(z: list[int]) -> None:
    rng, labels = np.random.default_rng(0), np.array(z)
    T, T2 = rng.random((4, 3)), rng.random((5, 3))
    distance = sparse_gp.distances(torch.from_numpy(T), torch.from_numpy(T2), members(labels))
    gram = sparse_gp.laplace(distance, torch.tensor(0.4)).numpy()
    np.testing.assert_allclose(gram, naive_kernel(T, T2, labels, 0.4), rtol=1e-6)
    np.testing.assert_allclose(gram, Laplace().gram(T, T2, labels, np.full(3, 2.5)), rtol=1e-6)


def test_with_all_observations_inducing_it_is_the_exact_process() -> None:
    T, y, z = small()
    process = converged(T, y, T, z)
    ell, variance, noise = np.exp(THETA)
    K = variance * naive_kernel(T, T, z, ell)
    exact = np.linalg.solve(K + noise * np.eye(25), y)
    P = np.random.default_rng(1).random((6, 3))
    cross = variance * naive_kernel(P, T, z, ell)
    cuts = np.full(3, 1.0 / ell)
    posterior = svi.SparsePosterior(z, cuts, noise / variance, T, *process.whitener())
    mean, sd = posterior.predict(P)
    np.testing.assert_allclose(np.sqrt(variance) * mean, cross @ exact, atol=1e-3)
    rest = np.linalg.solve(K + noise * np.eye(25), cross.T)
    expected = variance - np.einsum("ij,ji->i", cross, rest)
    np.testing.assert_allclose(variance * sd**2, expected, atol=1e-3)


def test_the_bound_is_the_evidence_where_it_is_tight_and_below_it_elsewhere() -> None:
    T, y, z = small()
    ell, variance, noise = np.exp(THETA)
    K = variance * naive_kernel(T, T, z, ell) + noise * np.eye(25)
    _, logdet = np.linalg.slogdet(2.0 * np.pi * K)
    evidence = -0.5 * (y @ np.linalg.solve(K, y) + logdet)
    np.testing.assert_allclose(converged(T, y, T, z).elbo(T, y, len(y)), evidence, atol=0.01)
    assert converged(T, y, T[:10], z).elbo(T, y, len(y)) < evidence - 0.1
    assert sparse_gp.SparseGP(T, members(z), THETA).elbo(T, y, len(y)) < evidence - 1.0


def test_natural_gradients_of_mini_batches_get_near_the_optimum() -> None:
    rng = np.random.default_rng(0)
    T = rng.random((400, 2))
    y = np.sin(5.0 * T[:, 0]) + T[:, 1] + 0.1 * rng.standard_normal(400)
    y -= y.mean()
    process = sparse_gp.SparseGP(T[:60], members([0, 1]), np.log([1.0, 1.0, 0.1]))
    before = process.elbo(T, y, len(y))
    process.fit(T, y, 150, rng, fixed_length=False)
    assert process.elbo(T, y, len(y)) > before + 100.0
    B, w = process.whitener()
    ell, variance, noise = np.exp(process.theta)
    assert noise < 0.1
    posterior = svi.SparsePosterior(
        np.arange(2), np.full(2, 1.0 / ell), noise / variance, T[:60], B, w
    )
    P = rng.random((100, 2))
    truth = np.sin(5.0 * P[:, 0]) + P[:, 1]
    assert np.corrcoef(posterior.predict(P)[0], truth)[0, 1] > 0.98


def test_a_known_length_scale_stays() -> None:
    T, y, z = small()
    process = sparse_gp.SparseGP(T, members(z), THETA)
    process.fit(T, y, 5, np.random.default_rng(0), fixed_length=True)
    assert process.theta[0] == THETA[0]
    assert (process.theta[1:] != THETA[1:]).all()


def test_the_decomposition_with_the_largest_bound_is_kept() -> None:
    rng = np.random.default_rng(0)
    true, wrong = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    T = rng.random((200, 4))
    y = sample_values(T, true, 0.5, rng, noise=0.01)
    optimizer = svi.AdditiveSVI(unit(4), iterations=40)
    optimizer._decompositions = lambda: [wrong, true, wrong]  # type: ignore[method-assign]
    z, _ = optimizer._fitted(T, y, np.arange(100))
    np.testing.assert_array_equal(z, true)


def test_options_are_checked_and_used() -> None:
    optimizer = svi.AdditiveSVI(unit(4), groups=[0, 0, 1, 1], length_scale=0.2, iterations=5)
    X = np.random.default_rng(0).random((30, 4))
    optimizer.tell(X, sphere(X))
    optimizer.ask(3)
    assert optimizer._theta is not None
    assert optimizer._theta[0] == np.log(0.2)
    np.testing.assert_array_equal(optimizer._decompositions(), [[0, 0, 1, 1]])
    z = svi.AdditiveSVI(unit(9), loops=4)._decompositions()
    assert len(z) == 4
    assert max(len(group) for group in members(z[0])) <= 4
    for wrong, message in (
        ({"iterations": 0}, "iterations is 0"),
        ({"length_scale": -1.0}, "length_scale is -1"),
        ({"groups": [0, 1]}, "z has shape"),
        ({"loops": 0}, "loops is 0"),
    ):
        with pytest.raises(ValueError, match=message):
            svi.AdditiveSVI(unit(4), **wrong)


@pytest.mark.parametrize("bound", [0.0, None])
@pytest.mark.parametrize("name", ["bo-svi", "bo-add-svi"])
def test_better_than_random_with_failures_and_batches_of_one(
    name: str, bound: float | None
) -> None:
    def f(X: Floats) -> Floats:
        return np.where(X[:, 1] > 0.8, np.nan, sphere(X))

    found = {}
    for method in (name, "random"):
        options: dict[str, Any] = {} if method == "random" else {"iterations": 40}
        optimizer = baselines.get(method)(unit(3), seed=1, upper_bound=bound, **options)
        for n in (20, 1, 1, 10, 10, 10):
            X = optimizer.ask(n)
            assert X.shape == (n, 3)
            assert ((X >= 0.0) & (X <= 1.0)).all()
            optimizer.tell(X, f(X))
        found[method] = optimizer.best()[1]
    assert found[name] > 0.5 * found["random"]


def test_points_that_are_pending_are_kept_away_from_and_forgotten_when_told() -> None:
    optimizer = svi.SVI(unit(2), iterations=20)
    X = np.random.default_rng(0).random((20, 2))
    optimizer.tell(X, sphere(X))
    X = np.concatenate([optimizer.ask(3), optimizer.ask(3)])
    assert len(np.unique(X, axis=0)) == 6
    assert sorted(optimizer._pending) == list(range(6))
    optimizer.tell(X[1:], sphere(X[1:]))
    assert list(optimizer._pending) == [0]


def test_global_state_of_torch_is_left_alone_and_whole_numbers_are_taken() -> None:
    space = Space(a=ebo.Int(0, 50), b=ebo.Categorical(["s", "m", "l"], ordered=True))
    threads, dtype, state = (
        torch.get_num_threads(),
        torch.get_default_dtype(),
        torch.get_rng_state(),
    )
    runs = []
    for _ in range(2):
        optimizer = svi.AdditiveSVI(space, seed=4, iterations=20)
        for _ in range(3):
            X = optimizer.ask(5)
            np.testing.assert_array_equal(space.check(X), X)
            optimizer.tell(X, -np.abs(X).sum(axis=1))
        runs.append(optimizer.X)
    np.testing.assert_array_equal(runs[0], runs[1])
    assert (torch.get_num_threads(), torch.get_default_dtype()) == (threads, dtype)
    assert torch.equal(torch.get_rng_state(), state)
