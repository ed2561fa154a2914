"""Differential evolution: SciPy's, generation by generation, and what happens out of step."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from scipy.optimize import Bounds, differential_evolution

import ebo
from ebo.arrays import Floats
from ebo.bench.baselines import de
from tests.bench.test_baselines import sphere


@pytest.mark.parametrize("edge", [1.0, 0.5])
def test_de_is_scipys(edge: float) -> None:
    """The points that its solver evaluates, from the best of the first; failures replace none."""
    space = ebo.box([0.0] * 4, [1.0] * 4)
    X = np.random.default_rng(0).random((40, 4))
    X[:, 0] *= edge
    best = X[np.argsort(-sphere(X))[:10]]
    visited: list[Floats] = []

    def loss(T: Any) -> Any:
        visited.append(T.T.copy())
        return np.where(T[0] > edge, np.inf, -sphere(T.T))

    def value(X: Floats) -> Floats:
        return np.where(X[:, 0] > edge, np.nan, sphere(X))

    rng = np.random.default_rng(3).spawn(1)[0]
    solution = differential_evolution(
        loss,
        Bounds(np.zeros(4), np.ones(4)),
        init=best,
        maxiter=12,
        polish=False,
        updating="deferred",
        vectorized=True,
        tol=0.0,
        seed=rng,
    )
    optimizer = de.DifferentialEvolution(space, seed=3)
    optimizer.tell(X, sphere(X))
    asked = []
    for i in range(12):
        asked.append(optimizer.ask(10))
        order = np.random.default_rng(i).permutation(10)
        optimizer.tell(asked[-1][order], value(asked[-1][order]))
    assert np.any(np.array(asked)[..., 0] > edge) == (edge < 1.0)
    np.testing.assert_allclose(visited, [best, *asked], atol=1e-12)
    assert optimizer.best()[1] == pytest.approx(-float(solution.fun))


def test_de_asked_out_of_step() -> None:
    """Parts of a generation, and points beyond it, which are random."""
    space = ebo.box([0.0] * 4, [1.0] * 4)
    optimizer = de.DifferentialEvolution(space)
    X = np.random.default_rng(0).random((40, 4))
    optimizer.tell(X, sphere(X))
    assert optimizer.portion is None
    some = optimizer.ask(10)
    assert optimizer.portion == 10
    beyond = optimizer.ask(5)
    optimizer.tell(beyond, np.full(5, 100.0))  # nobody's
    optimizer.tell(some[:6], sphere(some[:6]))
    generation = optimizer._trials
    np.testing.assert_array_equal(generation, some)
    optimizer.tell(some[6:], sphere(some[6:]))
    assert not np.array_equal(optimizer._trials, generation)  # the next
    part = optimizer.ask(4)
    assert optimizer.portion == 6
    np.testing.assert_array_equal(np.concatenate([part, optimizer.ask(6)]), optimizer._trials)


def test_de_goes_on_where_values_never_come() -> None:
    """After as many random points as a generation has; on a flat function, too."""
    space = ebo.box([0.0] * 3, [1.0] * 3)
    optimizer = de.DifferentialEvolution(space)
    X = np.random.default_rng(0).random((20, 3))
    optimizer.tell(X, np.zeros(20))
    asked = optimizer.ask(10)
    optimizer.tell(asked[1:], np.zeros(9))
    generation = optimizer._trials
    for _ in range(2):
        asked = optimizer.ask(5)
        optimizer.tell(asked, np.zeros(5))
        np.testing.assert_array_equal(optimizer._trials, generation)
    asked = optimizer.ask(10)
    assert not np.array_equal(optimizer._trials, generation)
    np.testing.assert_array_equal(asked, optimizer._trials)


def test_de_tells_what_ended_its_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(values: Any, bounds: Any, init: Any, **options: Any) -> None:
        values(init.T)
        raise ValueError("out of order")

    monkeypatch.setattr("scipy.optimize.differential_evolution", failing)
    optimizer = de.DifferentialEvolution(ebo.box([0.0] * 3, [1.0] * 3))
    X = np.random.default_rng(0).random((20, 3))
    optimizer.tell(X, sphere(X))
    for _ in range(2):
        with pytest.raises(ValueError, match="out of order"):
            optimizer.ask(10)


def test_de_does_not_care_for_the_order_of_telling() -> None:
    space = ebo.Space(a=ebo.Int(0, 3), b=ebo.Int(0, 3), c=ebo.Int(0, 3))
    X = space.from_unit(np.random.default_rng(0).random((60, 3)))
    y = X.max(axis=1)
    both = []
    for order in (np.arange(60), np.random.default_rng(1).permutation(60)):
        optimizer = de.DifferentialEvolution(space)
        optimizer.tell(X[order], y[order])
        both.append(optimizer.ask(10))
    np.testing.assert_array_equal(both[0], both[1])


def test_de_leaves_no_thread_behind() -> None:
    optimizer = de.DifferentialEvolution(ebo.box([0.0] * 2, [1.0] * 2))
    X = np.random.default_rng(0).random((20, 2))
    optimizer.tell(X, sphere(X))
    optimizer.ask(10)
    assert optimizer._solver is not None
    thread = optimizer._solver.thread
    assert thread.is_alive()
    del optimizer
    gc.collect()
    thread.join(60.0)
    assert not thread.is_alive()
