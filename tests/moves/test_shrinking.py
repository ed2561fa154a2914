"""Polish: when there is any, how long its steps are, and that it ends nearer to the summit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from ebo import Categorical, Float, Int, Optimizer, Settings, Space, box
from ebo.acquisition import ACQUISITIONS, Goal
from ebo.arrays import Floats
from ebo.learning.base import Data, Structure, condition
from ebo.learning.model import Model
from ebo.moves.shrinking import (
    ENOUGH,
    KNOWN,
    LEAST,
    NEAREST,
    SHORTEST,
    SHRINK,
    TURNS,
    Shrinking,
)
from ebo.partition import Partition
from ebo.tilegp.smooth import Smooth

DIMS = 6
SUMMIT = np.linspace(0.35, 0.6, DIMS)
CUBE = box([0.0] * DIMS, [1.0] * DIMS)


@dataclass(frozen=True)
class Known:
    """What is known, and how polish answers."""

    data: Data
    structure: Structure
    space: Space = CUBE
    polishes: float = 1.0  # most of a batch

    def polish(self, n: int, pending: Floats | None = None, seed: int = 0) -> Floats:
        best = float(self.data.u.max())
        none = np.empty((0, self.data.T.shape[1]))
        return Shrinking(share=self.polishes).points(
            self.data,
            self.structure,
            ACQUISITIONS["ei"],
            Goal(best, best + 1.0),
            n,
            none if pending is None else pending,
            self.space.snap,
            np.random.default_rng(seed),
        )

    @property
    def best(self) -> Floats:
        return np.asarray(self.data.T[self.data.u.argmax()])

    def with_more(self, T: Floats) -> Known:
        """The same with observations that are no better than any."""
        u = np.append(self.data.u, np.full(len(T), self.data.u.min()))
        T = np.concatenate([self.data.T, T])
        return replace(self, data=replace(self.data, T=T, u=u))


def known(
    n: int = 60,
    spread: float = 0.05,
    share: float | None = 0.9,
    space: Space = CUBE,
    leaf_size: int | None = None,
    polishes: float = 1.0,
) -> Known:
    """n observations about a summit with a kink, which no smooth model knows."""
    rng = np.random.default_rng(5)
    T = space.snap(np.clip(SUMMIT + spread * rng.standard_normal((n, DIMS)), 0.0, 1.0))
    u = -3.0 * np.abs(T - SUMMIT).sum(axis=1)
    partition = Partition(leaf_size=leaf_size or n // 2)
    smooth = None if share is None else Smooth(share, np.full(DIMS, 2.0), 1e-3)
    structure = Structure(np.arange(DIMS), np.full(DIMS, 3.0), 1e-3, np.eye(DIMS), smooth)
    data = Data(T, u, space.categorical, partition, Model())
    return Known(data, structure, space, polishes)


def steps(about: Known, P: Floats) -> Floats:
    """How far points are from the best observation."""
    return np.asarray(np.linalg.norm(P - about.best, axis=1))


@pytest.mark.parametrize("spread", [0.1, 0.01])
def test_first_steps_are_as_long_as_the_nearest_observations_are_far(
    monkeypatch: pytest.MonkeyPatch, spread: float
) -> None:
    monkeypatch.setattr("ebo.moves.shrinking.ROUNDS", 1)
    hill = known(spread=spread)
    reach = np.sort(steps(hill, hill.data.T))[NEAREST]
    length = steps(hill, hill.polish(200))
    assert len(length) in (160, 161)  # (2 ω - 1) of them
    assert length.max() <= reach * (1 + 1e-9)
    assert length.min() >= SHORTEST * reach * (1 - 1e-9)
    short = np.mean(length < np.sqrt(SHORTEST) * reach)  # half, evenly on the scale of logarithms
    assert 0.35 < short < 0.65


def test_further_rounds_find_better_points_and_stay_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a ridge that is seen well, across all axes: hardly any straight step is along it."""
    along = np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0]) / np.sqrt(DIMS)

    def height(T: Floats) -> Floats:
        off = (T - SUMMIT) - np.outer((T - SUMMIT) @ along, along)
        return np.asarray(T @ along - 200.0 * np.sum(off**2, axis=1))

    hill = known(n=200, leaf_size=100)
    hill = replace(hill, data=replace(hill.data, u=height(hill.data.T)))
    reach = np.sort(steps(hill, hill.data.T))[NEAREST]
    many = hill.polish(60)
    assert steps(hill, many).max() <= reach / (1.0 - SHRINK)
    monkeypatch.setattr("ebo.moves.shrinking.ROUNDS", 1)
    gains = [np.quantile(height(P) - hill.data.u.max(), 0.5) for P in (many, hill.polish(60))]
    assert gains[0] > gains[1] + 0.01


@pytest.mark.parametrize(("rounds", "longest"), [(1, 0.01), (8, 0.01 / (1.0 - SHRINK))])
def test_steps_that_failed_make_the_next_ones_shorter(
    monkeypatch: pytest.MonkeyPatch, rounds: int, longest: float
) -> None:
    monkeypatch.setattr("ebo.moves.shrinking.ROUNDS", rounds)
    hill = known()
    failed = hill.best + 0.01 / np.sqrt(DIMS) * np.random.default_rng(1).uniform(
        -1.0, 1.0, (NEAREST, DIMS)
    )
    before, after = (steps(each, each.polish(50)).max() for each in (hill, hill.with_more(failed)))
    assert after < longest
    assert before > 0.03


def test_none_before_the_hill_is_known_nor_after_it_is_as_sharp_as_can_be() -> None:
    assert len(known(leaf_size=31).polish(100)) == 0  # twice that is more than there are
    assert len(known(leaf_size=30).polish(100)) > 0
    assert len(known(leaf_size=31).with_more(np.zeros((20, DIMS))).polish(100)) == 0  # far away
    assert len(known(leaf_size=31).with_more(np.tile(SUMMIT, (2, 1))).polish(100)) > 0
    assert len(known(spread=LEAST / 100).polish(100)) == 0
    assert len(known(n=NEAREST, leaf_size=1).polish(100)) == 0


def test_a_hill_of_few_dimensions_is_known_sooner() -> None:
    enough = ENOUGH * KNOWN * DIMS
    assert len(known(n=enough, leaf_size=500).polish(100)) > 0
    assert len(known(n=enough - 1, leaf_size=500).polish(100)) == 0


@pytest.mark.parametrize(("share", "low", "high"), [(0.95, 90, 91), (0.6, 20, 21), (0.5, 0, 0)])
def test_as_much_as_the_smooth_part_outweighs_the_other(share: float, low: int, high: int) -> None:
    assert low <= len(known(share=share).polish(100)) <= high


def test_none_without_a_smooth_part_or_when_switched_off() -> None:
    assert len(known(share=None).polish(100)) == 0
    assert len(known(polishes=0.0).polish(100)) == 0


def test_single_points_are_polished_as_often_as_their_share() -> None:
    hill = known(polishes=0.25)
    made = sum(len(hill.polish(1, seed=seed)) for seed in range(200))
    assert 20 < made < 60  # 0.25 · 0.8 of 200


def test_chosen_by_what_they_are_worth() -> None:
    """Of a plane, points uphill; random ones would go either way."""
    hill = known()
    slope = np.linspace(1.0, 2.0, DIMS)
    plane = replace(hill, data=replace(hill.data, u=hill.data.T @ slope))
    gain = plane.polish(60) @ slope - plane.data.u.max()
    assert np.mean(gain > 0) > 0.9


@pytest.mark.parametrize(
    ("leaf_size", "dims", "expected"),
    [(60, DIMS, KNOWN * DIMS), (40, DIMS, 40), (10, DIMS, NEAREST + 1), (500, 1, NEAREST + 1)],
)
def test_the_model_is_of_the_nearest_observations(
    monkeypatch: pytest.MonkeyPatch, leaf_size: int, dims: int, expected: int
) -> None:
    """So many for each dimension, no more than a leaf has, and all those that steps go by."""
    given: list[Any] = []

    def spy(data: Data, rows: Any, *arguments: Any) -> Any:
        given.append(rows)
        return condition(data, rows, *arguments)

    monkeypatch.setattr("ebo.moves.shrinking.condition", spy)
    hill = known(n=1_000, leaf_size=leaf_size)
    data = replace(hill.data, T=hill.data.T[:, :dims], categorical=hill.data.categorical[:dims])
    smooth = Smooth(0.9, np.full(dims, 2.0), 1e-3)
    structure = Structure(np.arange(dims), np.full(dims, 3.0), 1e-3, np.eye(dims), smooth)
    line = box([0.0] * dims, [1.0] * dims)
    assert len(Known(data, structure, line).polish(20))
    best = data.T[data.u.argmax()]
    nearest = np.argsort(np.linalg.norm(data.T - best, axis=1), kind="stable")[:expected]
    assert sorted(given[0]) == sorted(nearest)


def test_pending_points_count_as_observed() -> None:
    hill = known()
    first = hill.polish(40)
    assert not np.array_equal(hill.polish(40, pending=first), first)
    far = np.clip(first + 0.9 * np.sign(0.5 - first), 0.0, 1.0)  # these say nothing
    np.testing.assert_array_equal(hill.polish(40, pending=far), first)


def test_pending_points_count_as_far_as_rounds_lead() -> None:
    """Which is further than the first step."""
    hill = known()
    first = hill.polish(40)
    reach = np.sort(steps(hill, hill.data.T))[NEAREST]
    away = np.random.default_rng(3).standard_normal((40, DIMS))
    away /= np.linalg.norm(away, axis=1, keepdims=True)
    assert not np.array_equal(hill.polish(40, pending=hill.best + 1.5 * reach * away), first)
    beyond = hill.best + 1.01 * reach / (1.0 - SHRINK) * away
    np.testing.assert_array_equal(hill.polish(40, pending=beyond), first)


def exhausted(about: Known, x: Floats) -> Known:
    """The same after so many steps from x have failed that all others would be too short."""
    rng = np.random.default_rng(7)
    return about.with_more(x + 0.1 * LEAST * rng.uniform(-1.0, 1.0, (NEAREST + 1, DIMS)))


def test_where_steps_are_too_short_the_next_best_observation_has_its_turn() -> None:
    """The best one may be so by luck of the noise."""
    hill = known()
    first, second, third = hill.data.T[np.argsort(-hill.data.u)[:3]]
    for x in (first, second):
        hill = exhausted(hill, x)
    P = hill.polish(60)
    reach = np.sort(np.linalg.norm(hill.data.T - third, axis=1))[NEAREST]
    assert len(P) > 0
    assert np.linalg.norm(P - third, axis=1).max() <= reach / (1.0 - SHRINK)
    assert np.linalg.norm(P - third, axis=1).mean() < 0.5 * steps(hill, P).mean()


def test_observations_next_to_one_that_is_done_are_done_with_it() -> None:
    """However many they are, and though their own nearest are as close."""
    hill = known(leaf_size=60)
    x = hill.best
    twins = x + 0.1 * LEAST * np.random.default_rng(8).uniform(-1.0, 1.0, (3 * TURNS, DIMS))
    data = hill.data
    u = np.append(data.u, np.full(len(twins), data.u.max()))
    hill = replace(hill, data=replace(data, T=np.concatenate([data.T, twins]), u=u))
    assert len(hill.polish(60)) > 0
    assert steps(hill, hill.polish(60)).min() > LEAST


def test_labels_stay_and_whole_numbers_are_whole() -> None:
    space = Space(
        a=Float(0.0, 1.0),
        b=Int(0, 300),
        kind=Categorical(["x", "y", "z"]),
        c=Float(-1.0, 1.0),
        d=Float(1.0, 2.0),
        e=Categorical([1, 2, 4], ordered=True),
    )
    hill = known(space=space, spread=0.02)
    P = hill.polish(50)
    assert len(P) > 0
    np.testing.assert_array_equal(space.snap(P), P)
    assert set(P[:, 2]) == {hill.best[2]}
    assert len(np.unique(P[:, 0])) == len(P)


def test_a_corner_is_not_left() -> None:
    hill = known()
    T = np.clip(hill.data.T - np.median(hill.data.T, axis=0), 0.0, 1.0)
    P = replace(hill, data=replace(hill.data, T=T, u=-T.sum(axis=1))).polish(50)
    assert len(P) > 0
    assert P.min() >= 0.0
    assert P.max() <= 1.0


def climbed(**changes: Any) -> Optimizer:
    """A run in a curved valley (Rosenbrock's)."""
    few = {"additive.step.count": 10, "mixture.step.count": 10, "difference.count": 10}
    optimizer = Optimizer(
        box([-5.0] * 20, [10.0] * 20),
        settings=Settings().changed(few, leaf_size=100, **changes),
        workers=1,
    )
    for _ in range(20):
        X = optimizer.ask(50)
        assert len(np.unique(X, axis=0)) == 50
        inner, rest = X[:, 1:] - X[:, :-1] ** 2, 1.0 - X[:, :-1]
        optimizer.tell(X, -np.sum(100.0 * inner**2 + rest**2, axis=1))
    return optimizer


def test_a_run_gets_further_with_it_and_is_the_same_until_there_is_any() -> None:
    polished, plain = climbed(), climbed(polish=None)
    same = np.all(polished.X == plain.X, axis=1)
    assert same[:200].all()
    assert not same.all()
    assert polished.best()[1] > 0.3 * plain.best()[1]  # both are below 0
