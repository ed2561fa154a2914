"""BO-SVI and BO-Add-SVI: their process against plain formulas and GPyTorch, what they find."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ebo
from ebo.arrays import Floats, Ints
from ebo.bench import baselines
from ebo.bench.additive import sample_values
from ebo.bench.baselines import svi
from ebo.bench.baselines.imported import quiet
from ebo.space import Space
from ebo.tilegp.kernel import Laplace, members
from ebo.tilegp.posterior import Posterior

pytest.importorskip("torch")
import torch

with quiet():
    pytest.importorskip("gpytorch")
    from gpytorch.mlls import VariationalELBO
    from gpytorch.variational import VariationalStrategy

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
    """All observations and fixed parameters: one natural gradient step of length one is exact."""
    process = sparse_gp.SparseGP(Z, members(z), THETA)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_gp, "STEP", 1.0)
        patch.setattr(sparse_gp, "RATE", 0.0)
        process.fit(T, y, 1, np.random.default_rng(0), fixed_length=True)
    return process


def as_posterior(process: sparse_gp.SparseGP, Z: Floats, z: Ints) -> Posterior:
    ell, variance, noise = np.exp(process.theta)
    cuts = np.full(len(z), 1.0 / ell)
    return Posterior(Laplace(), members(z), cuts, noise / variance, Z, *process.whitener())


def small() -> tuple[Floats, Floats, Ints]:
    rng = np.random.default_rng(0)
    T = rng.random((25, 3))
    return T, np.sin(5.0 * T[:, 0]) + T[:, 1] * T[:, 2], np.array([1, 0, 0])


@pytest.mark.parametrize("z", [[0, 0, 0], [0, 1, 2], [1, 0, 1]])
def test_the_kernel_is_the_formula_and_ebos_own(z: list[int]) -> None:
    rng, labels = np.random.default_rng(0), np.array(z)
    T, T2 = rng.random((4, 3)), rng.random((5, 3))
    kernel = sparse_gp.LaplaceKernel(torch.from_numpy(T), members(labels)).double()
    kernel.lengthscale = 0.4
    first, second = torch.from_numpy(T), torch.from_numpy(T2)
    with torch.no_grad():
        gram = kernel(first, second).to_dense().numpy()
        among = kernel(first).to_dense().numpy()
    np.testing.assert_allclose(among, naive_kernel(T, T, labels, 0.4), rtol=1e-6)
    np.testing.assert_allclose(gram, naive_kernel(T, T2, labels, 0.4), rtol=1e-6)
    np.testing.assert_allclose(gram, Laplace().gram(T, T2, labels, np.full(3, 2.5)), rtol=1e-6)
    kernel.lengthscale = 0.4
    kernel(first, second).to_dense().square().sum().backward()
    ell = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    distance = sparse_gp.distances(first, second, members(labels))
    (slope,) = torch.autograd.grad(torch.exp(-distance / ell).mean(0).square().sum(), ell)
    np.testing.assert_allclose(kernel.raw_lengthscale.grad.item(), 0.4 * slope.item())


def fitted() -> tuple[sparse_gp.SparseGP, Floats, Floats, Ints]:
    rng, z = np.random.default_rng(0), np.array([0, 0, 1, 1, 1])
    T = rng.random((300, 5))
    y = np.sin(5.0 * T[:, 0]) + T[:, 1] * T[:, 2]
    process = sparse_gp.SparseGP(T[:40], members(z), THETA)
    process.fit(T, y - y.mean(), 60, rng, fixed_length=False)
    return process, T, y - y.mean(), z


def test_the_search_sees_the_prediction_of_gpytorch() -> None:
    process, T, _, z = fitted()
    P = np.concatenate([T[:100], np.random.default_rng(1).random((100, 5))])
    mean, sd = as_posterior(process, T[:40], z).predict(P)
    variance = np.exp(process.theta[1])
    expected, square = process.predict(P)
    assert np.ptp(expected) > 1.0
    np.testing.assert_allclose(np.sqrt(variance) * mean, expected, atol=1e-8)
    np.testing.assert_allclose(variance * sd**2 + sparse_gp.JITTER, square, atol=1e-8)


def test_bound_and_gradient_of_a_mini_batch_are_those_of_gpytorch_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process, T, y, _ = fitted()
    found = []
    for forward in (sparse_gp.Strategy.forward, VariationalStrategy.forward):
        monkeypatch.setattr(sparse_gp.Strategy, "forward", forward)
        process.model.train()
        bound = VariationalELBO(process.likelihood, process.model, num_data=300)
        parameters = [*process.model.parameters(), process.likelihood.raw_noise]
        with quiet():
            loss = bound(process.model(torch.from_numpy(T[200:230])), torch.from_numpy(y[200:230]))
        found.append([loss, *torch.autograd.grad(loss, parameters)])
    assert len(found[0]) == 6
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours.detach(), theirs.detach(), rtol=1e-7, atol=1e-9)


def test_with_all_observations_inducing_it_is_the_exact_process() -> None:
    T, y, z = small()
    process = converged(T, y, T, z)
    ell, variance, noise = np.exp(THETA)
    K = variance * naive_kernel(T, T, z, ell)
    exact = np.linalg.solve(K + noise * np.eye(25), y)
    P = np.random.default_rng(1).random((6, 3))
    cross = variance * naive_kernel(P, T, z, ell)
    mean, sd = as_posterior(process, T, z).predict(P)
    np.testing.assert_allclose(np.sqrt(variance) * mean, cross @ exact, atol=1e-4)
    rest = np.linalg.solve(K + noise * np.eye(25), cross.T)
    expected = variance - np.einsum("ij,ji->i", cross, rest)
    np.testing.assert_allclose(variance * sd**2, expected, atol=1e-4)


def test_the_bound_is_the_evidence_where_it_is_tight_and_below_it_elsewhere() -> None:
    T, y, z = small()
    ell, variance, noise = np.exp(THETA)
    K = variance * naive_kernel(T, T, z, ell) + noise * np.eye(25)
    _, logdet = np.linalg.slogdet(2.0 * np.pi * K)
    evidence = -0.5 * (y @ np.linalg.solve(K, y) + logdet)
    np.testing.assert_allclose(converged(T, y, T, z).elbo(T, y, len(y)), evidence, atol=1e-3)
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
    assert np.exp(process.theta[2]) < 0.1
    posterior = as_posterior(process, T[:60], np.arange(2))
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

    found: dict[str, list[float]] = {name: [], "random": []}
    for method, values in found.items():
        options: dict[str, Any] = {} if method == "random" else {"iterations": 40}
        for seed in range(6):  # one alone is luck
            optimizer = baselines.get(method)(unit(3), seed=seed, upper_bound=bound, **options)
            for n in (20, 1, 1, 10, 10, 10):
                X = optimizer.ask(n)
                assert X.shape == (n, 3)
                assert ((X >= 0.0) & (X <= 1.0)).all()
                optimizer.tell(X, f(X))
            values.append(optimizer.best()[1])
    assert np.mean(found[name]) > 0.6 * np.mean(found["random"])


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
