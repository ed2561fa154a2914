"""Hills: which there are, and that a large batch is shared by climbs on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ebo import Categorical, Float, Optimizer, Settings, Space, box
from ebo.hills import Hill, far, find_hills
from ebo.learn import Data, Structure, condition_leaves, learn_smooth
from ebo.observations import Observations
from ebo.optimizer import State
from ebo.tilegp.smooth import Smooth

Floats = NDArray[np.float64]
DIMS = 8
CUBE = box([0.0] * DIMS, [1.0] * DIMS)
HIGH, LOW = np.full(DIMS, 0.25), np.full(DIMS, 0.75)
SMALL: dict[str, Any] = {"leaf_size": 40, "block_samples": 20, "block_size": 40, "learn_from": 80}


def two_bumps(T: Floats) -> Floats:
    """A higher and a lower summit, far apart."""
    high, low = (np.sum((T - x) ** 2, axis=1) for x in (HIGH, LOW))
    values: Floats = np.exp(-4.0 * high) + 0.8 * np.exp(-4.0 * low)
    return values


def structure(dims: int = DIMS) -> Structure:
    smooth = Smooth(0.95, np.full(dims, 1.0), 1e-3)
    return Structure(np.arange(dims), np.full(dims, 3.0), 1e-3, np.eye(dims), smooth)


def steps(T: Floats) -> Floats:
    """A rough function of each dimension, added up."""
    values: Floats = np.sin(40.0 * T).sum(axis=1)
    return values


def begun(
    f: Callable[[Floats], Floats] = two_bumps, seed: int = 0, workers: int = 1, **changes: Any
) -> Optimizer:
    """An optimizer that has seen both bumps, and took the function for smooth."""
    settings = Settings(**{**SMALL, "climb_size": 10, "probes": 0.0, **changes})
    optimizer = Optimizer(CUBE, seed=seed, settings=settings, workers=workers)
    rng = np.random.default_rng(3)
    near = [x + 0.1 * rng.standard_normal((60, DIMS)) for x in (HIGH, LOW)]
    X = np.concatenate([rng.random((100, DIMS)), *near]).clip(0.0, 1.0)
    optimizer.tell(X, f(X))
    optimizer.restore(State(1, structure()))
    return optimizer


# What is near.


@pytest.mark.parametrize("place", ["middle", "corner", "anywhere"])
@pytest.mark.parametrize("dims", [10, 60])
def test_about_a_fortieth_of_the_cube_is_near(dims: int, place: str) -> None:
    rng = np.random.default_rng(0)
    x = {"middle": np.full(dims, 0.5), "corner": np.zeros(dims), "anywhere": rng.random(dims)}[
        place
    ]
    near = 1.0 - far(x, rng.random((20_000, dims))).mean()
    assert 0.01 < near < 0.04


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_in_few_dimensions_little_is_near_but_not_nothing(dims: int) -> None:
    x = np.full(dims, 0.5)
    assert not far(x, x[None, :] + 0.02).any()
    assert far(x, x[None, :] + 0.2).all()


# Which hills there are.


def test_hills_are_apart_and_the_highest_come_first() -> None:
    rng = np.random.default_rng(1)
    T = rng.random((400, DIMS))
    u = two_bumps(T)
    hills = find_hills(T, u, 4, 20)
    assert len(hills) == 4
    np.testing.assert_array_equal(hills[0].rows, np.arange(400))
    assert hills[0].higher == ()
    summits = [hill.rows[u[hill.rows].argmax()] for hill in hills]
    assert (np.diff(u[summits]) <= 0).all()
    for i, hill in enumerate(hills):
        assert [x.tolist() for x in hill.higher] == T[summits[:i]].tolist()
        slow = [all(far(T[s], T[row : row + 1])[0] for s in summits[:i]) for row in range(400)]
        np.testing.assert_array_equal(hill.rows, np.flatnonzero(slow))
        np.testing.assert_array_equal(hill.holds(T), slow)


def test_a_hill_needs_observations() -> None:
    T = np.concatenate([np.tile(HIGH, (50, 1)), np.tile(LOW, (10, 1))])
    u = np.append(np.ones(50), np.zeros(10))
    assert [len(hill.rows) for hill in find_hills(T, u, 5, 9)] == [60, 10]
    assert [len(hill.rows) for hill in find_hills(T, u, 5, 10)] == [60]
    assert [len(hill.rows) for hill in find_hills(T, u, 1, 0)] == [60]


# What becomes of a batch.


def nearer_to_the_lower(X: Floats) -> int:
    high, low = (np.linalg.norm(X - x, axis=1) for x in (HIGH, LOW))
    return int(np.sum(low < high))


def test_a_large_batch_is_shared_and_the_higher_hill_has_more() -> None:
    X = begun().ask(20)
    assert 5 <= nearer_to_the_lower(X) <= 9  # a third, and some of the highest's that are apart
    assert nearer_to_the_lower(begun(climb_size=1000).ask(20)) < 4
    assert len(np.unique(X, axis=0)) == 20


@pytest.mark.parametrize(("n", "f"), [(19, two_bumps), (40, steps)], ids=["small", "additive"])
def test_a_small_batch_or_an_additive_function_has_one_climb(
    n: int, f: Callable[[Floats], Floats]
) -> None:
    np.testing.assert_array_equal(begun(f).ask(n), begun(f, climb_size=1000).ask(n))


def test_a_climb_has_a_smooth_part_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Structure] = []

    def watched(*arguments: Any) -> Any:
        seen.append(arguments[3])
        return condition_leaves(*arguments)

    monkeypatch.setattr("ebo.optimizer.condition_leaves", watched)
    optimizer = begun()
    before = structure()
    T, u, _ = optimizer._data.standardised()
    optimizer.ask(20)
    (told,), (_, hill) = seen, find_hills(T, u, 2, 0)
    data = Data(T[hill.rows], u[hill.rows], np.zeros(DIMS, dtype=np.bool_), optimizer.settings)
    expected = learn_smooth(data, before.z, before.density, before.smooth)
    assert told.smooth is not None
    np.testing.assert_allclose(told.smooth.rates, expected.rates, rtol=1e-6)
    learned = optimizer.state.structure
    assert learned is not None
    assert learned.smooth is not None
    assert not np.allclose(told.smooth.rates, learned.smooth.rates)
    np.testing.assert_array_equal(told.z, learned.z)


def test_what_a_hill_has_no_candidates_for_goes_to_the_highest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Hill, "holds", lambda self, P: np.zeros(len(P), dtype=np.bool_))
    monkeypatch.setattr(Observations, "_any", lambda *arguments: pytest.fail("a random point"))
    assert begun().ask(20).shape == (20, DIMS)


def test_one_seed_one_batch_whatever_the_workers() -> None:
    X = begun().ask(40)
    np.testing.assert_array_equal(X, begun(workers=3).ask(40))
    assert not np.array_equal(X, begun(seed=1).ask(40))


def test_all_stages_are_timed_once() -> None:
    optimizer = begun()
    optimizer.ask(40)
    (told,) = optimizer.history
    assert set(told.seconds) == {"partition", "learn", "search", "filter"}
    assert min(told.seconds.values()) > 0.0


def test_polish_may_take_the_whole_batch() -> None:
    optimizer = begun(polish=1.0, leaf_size=10)
    assert optimizer.ask(40).shape == (40, DIMS)


def test_a_fixed_partition_and_labels_have_hills_too() -> None:
    space = Space(kind=Categorical(["a", "b", "c"]), **{f"x{i}": Float(0, 1) for i in range(5)})
    settings = Settings(**SMALL, climb_size=5, fixed_partition=True)
    optimizer = Optimizer(space, settings=settings, workers=1)
    X = optimizer.ask(120)
    optimizer.tell(X, np.sin(3.0 * space.to_unit(X).sum(axis=1)))
    optimizer.restore(replace(optimizer.state, structure=structure(6)))
    for _ in range(2):
        X = optimizer.ask(20)
        np.testing.assert_array_equal(space.check(X), X)
        assert len(np.unique(X, axis=0)) == 20
        optimizer.tell(X, np.sin(3.0 * space.to_unit(X).sum(axis=1)))
