"""Probes: what they are made of, when they are asked for, and that they tell the groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ebo import Categorical, Float, Int, Optimizer, Settings, Space, box
from ebo.arrays import Floats
from ebo.learning.base import Data, Structure
from ebo.learning.model import Model
from ebo.learning.per_leaf import PerLeaf
from ebo.learning.pooled import Pooled, are_probes
from ebo.moves.probes import FAR, FROM_B, NEAR, draw_probes, new_pair
from ebo.partition import Partition

MIXED = Space(
    rate=Float(1e-3, 10.0, log=True),
    kind=Categorical(["a", "b", "c"]),
    depth=Int(0, 6),
    flag=Categorical([False, True]),
    shift=Float(-2.0, 6.0),
    units=Int(1, 40, log=True),
    pair=Int(1, 2, log=True),  # the slot of 1 has two thirds of the range
)
ADDITIVE = Settings().changed(mixture=None)
GROUPS = ((0, 3, 5), (1, 4), (2,), (6, 7))


def rough(T: Floats) -> Floats:
    """A sum over GROUPS of functions that no sum over single dimensions comes close to."""
    total = np.zeros(len(T))
    for m, group in enumerate(GROUPS):
        rates = 8.0 + 3.0 * np.arange(len(group))
        total += np.sin(40.0 * np.prod(0.3 + T[:, group], axis=1) + m) + np.cos(T[:, group] @ rates)
    return total


def test_a_pair_is_the_best_point_and_one_far_from_it_in_every_dimension() -> None:
    rng = np.random.default_rng(0)
    for space in (box([0.0] * 5, [1.0] * 5), MIXED):
        for _ in range(50):
            T = space.snap(rng.random((20, len(space.levels))))
            u = rng.standard_normal(20)
            a, b = new_pair(T, u, space.snap, rng)
            assert a.tolist() == T[u.argmax()].tolist()
            assert b.tolist() == space.snap(b[None, :])[0].tolist()
            away = np.abs(a - b)
            assert np.all(away > 0.0)
            smooth = space.levels == 0
            away = np.minimum(away, 1.0 - away)[smooth]  # a circle
            assert np.all((away >= NEAR - 1e-12) & (away <= 0.5))
    assert NEAR + FAR == 1.0


def test_probes_take_few_coordinates_of_b_and_are_known_again() -> None:
    rng = np.random.default_rng(1)
    for dims in (1, 2, 6, 60):
        pair = np.stack([rng.random(dims), rng.random(dims)])
        P = draw_probes(pair, 4000, rng)
        from_b = pair[1] == P
        assert np.all(from_b | (pair[0] == P))
        assert from_b.any(axis=1).all()
        share = max(FROM_B, min(0.5, 2.0 / dims))
        assert from_b.mean() == pytest.approx(share + (1.0 - share) / dims, abs=0.03)
        others = rng.random((50, dims))
        half = P[:50].copy()
        half[:, 0] = others[:, 0]  # one coordinate of neither
        assert are_probes(P, pair).all()
        assert not are_probes(np.concatenate([others, half]), pair).any()
        assert are_probes(P + 1e-12, pair).all()  # rounded on the way to the user's units and back


def test_probes_come_back_from_the_users_units() -> None:
    rng = np.random.default_rng(2)
    T = MIXED.snap(rng.random((20, 7)))
    pair = new_pair(T, rng.random(20), MIXED.snap, rng)
    X = MIXED.from_unit(draw_probes(pair, 200, rng))
    assert are_probes(MIXED.to_unit(X), pair).all()


def test_probes_are_known_again_where_units_are_coarse() -> None:
    """Times in seconds, of which the last digits of a float are a good part of the range."""
    space = box([1.7e9] * 8, [1.7e9 + 10.0] * 8)
    optimizer = Optimizer(space, seed=3, settings=ADDITIVE, workers=1)
    X = space.from_unit(np.random.default_rng(4).random((200, 8)))
    optimizer.tell(X, rough(space.to_unit(X)))
    counts = []
    for _ in range(5):
        X = optimizer.ask(30)
        optimizer.tell(X, rough(space.to_unit(X)))
        structure = optimizer.state.structure
        assert structure is not None
        assert structure.pair is not None
        counts.append(int(are_probes(space.to_unit(optimizer.X), structure.pair).sum()))
    assert counts[-3:] == [40, 40, 40]


def told(n: int, **changes: Any) -> Optimizer:
    """An optimiser in 8 dimensions with n random observations."""
    optimizer = Optimizer(
        box([0.0] * 8, [1.0] * 8), seed=3, settings=ADDITIVE.changed(**changes), workers=1
    )
    X = np.random.default_rng(4).random((n, 8))
    optimizer.tell(X, rough(X))
    return optimizer


def count(optimizer: Optimizer) -> int:
    """Probes among the points told."""
    structure = optimizer.state.structure
    assert structure is not None
    if structure.pair is None:
        return 0
    return int(are_probes(optimizer.X, structure.pair).sum())


def test_half_of_a_batch_until_there_are_enough() -> None:
    optimizer, counts = told(200), []
    for _ in range(5):
        X = optimizer.ask(30)
        assert len(np.unique(X, axis=0)) == 30
        optimizer.tell(X, rough(X))
        counts.append(count(optimizer))
    assert counts == [16, 31, 40, 40, 40]  # the first point of all is an observation: a itself


def test_probes_that_are_pending_count() -> None:
    optimizer = told(200)
    batches = [optimizer.ask(30) for _ in range(4)]
    structure = optimizer.state.structure
    assert structure is not None
    assert structure.pair is not None
    asked = [int(are_probes(X, structure.pair).sum()) for X in batches]
    assert asked == [15, 15, 9, 0]


def test_single_points_are_probes_half_of_the_time() -> None:
    optimizer = told(200, leaf_size=50, candidates=1.0)
    for _ in range(24):
        X = optimizer.ask(1)
        optimizer.tell(X, rough(X))
    assert 5 <= count(optimizer) - 1 <= 19


@pytest.mark.parametrize(
    "changes",
    [
        {"probes": None},
        {"per_dimension": 0.0},
        {"learning": PerLeaf(sweeps=1)},
        {"sweeps": 0},
        {"group_limit": 1},
    ],
)
def test_none_where_they_are_switched_off_or_could_teach_nothing(
    changes: dict[str, Any],
) -> None:
    optimizer = told(200, **changes)
    optimizer.ask(10)
    structure = optimizer.state.structure
    assert structure is not None
    assert structure.pair is None


def test_none_in_one_dimension() -> None:
    optimizer = Optimizer(box([0.0], [1.0]), seed=3, settings=ADDITIVE, workers=1)
    X = np.linspace(0.0, 1.0, 30)[:, None]
    optimizer.tell(X, X[:, 0])
    optimizer.ask(10)
    structure = optimizer.state.structure
    assert structure is not None
    assert structure.pair is None


def test_none_before_there_are_four_times_as_many_observations() -> None:
    optimizer = told(159)
    X = optimizer.ask(1)
    assert count(optimizer) == 0
    optimizer.tell(X, rough(X))
    optimizer.ask(30)
    structure = optimizer.state.structure
    assert structure is not None
    assert structure.pair is not None


def test_none_while_the_smooth_part_is_believed() -> None:
    """On a function that is all smooth and not additive, hardly any evaluation goes to probes."""

    def bowl(X: Floats) -> Floats:
        return np.asarray(-np.sqrt(np.sum((X - 0.4) ** 2, axis=1) + 0.01))

    optimizer = Optimizer(box([0.0] * 8, [1.0] * 8), seed=3, workers=1)
    X = np.random.default_rng(4).random((200, 8))
    optimizer.tell(X, bowl(X))
    for _ in range(3):
        X = optimizer.ask(20)
        optimizer.tell(X, bowl(X))
    structure = optimizer.state.structure
    assert structure is not None
    assert structure.smooth is not None
    assert structure.smooth.share > 0.9
    assert count(optimizer) == 0


def test_a_small_discrete_space_runs_out_of_probes() -> None:
    space = Space(a=Int(0, 1), b=Int(0, 1), c=Int(0, 9))
    optimizer = Optimizer(space, seed=1, settings=ADDITIVE, workers=1)
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, (60, 2)), rng.integers(0, 10, 60)]).astype(np.float64)
    optimizer.tell(X, X.sum(axis=1))
    for _ in range(3):
        X = optimizer.ask(10)
        assert X.shape == (10, 3)
        optimizer.tell(X, X.sum(axis=1))


def test_probes_tell_the_groups_where_random_points_do_not() -> None:
    """As many evaluations, at random or as probes: who acts together is learned from the latter."""
    truth = {(i, j) for group in GROUPS for i in group for j in group if i < j}
    missed: dict[str, list[int]] = {"random": [], "probes": []}
    for how, numbers in missed.items():
        for seed in range(3):
            rng = np.random.default_rng(seed)
            T = rng.random((200, 8))
            pair = new_pair(T, rough(T), box([0.0] * 8, [1.0] * 8).snap, rng)
            if how == "probes":
                T = np.concatenate([T[:140], draw_probes(pair, 60, rng)])
            u = (rough(T) - rough(T).mean()) / rough(T).std()
            data = Data(T, u, np.zeros(8, dtype=np.bool_), Partition(), Model())
            start = Structure(np.arange(8), np.full(8, 6.0), 1.0, np.eye(8), pair=pair)
            rng = np.random.default_rng(1)
            z = Pooled(sweeps=20).structure(data, start, False, rng, 1).z
            found = {(i, j) for i in range(8) for j in range(i + 1, 8) if z[i] == z[j]}
            numbers.append(len(truth ^ found))
    assert max(missed["probes"]) <= 1
    assert min(missed["random"]) >= 3


def test_the_pair_is_handed_on() -> None:
    optimizer = told(200)
    optimizer.tell(*[(X := optimizer.ask(10)), rough(X)])
    first = optimizer.state.structure
    assert first is not None
    optimizer.ask(10)
    second = optimizer.state.structure
    assert second is not None
    assert first.pair is not None
    assert second.pair is not None
    assert first.pair.tolist() == second.pair.tolist()
    again = told(200)
    again.tell(optimizer.X[200:], optimizer.y[200:])
    again.restore(replace(optimizer.state, asked=1, structure=first))
    np.testing.assert_array_equal(again.ask(10), optimizer.pending)
