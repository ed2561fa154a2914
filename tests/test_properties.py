"""What holds for every space, every seed and every order of asking and telling."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ebo import Float, Int, Optimizer, Settings, Space, box
from ebo.arrays import Floats
from tests.space.test_space import draw, spaces
from tests.test_optimizer import (
    BY_LEAF,
    CHOICES,
    assert_all_different,
    assert_finite_history,
    assert_points,
)

TINY: dict[str, Any] = {"leaf_size": 6}
PRESETS = st.sampled_from(
    [
        Settings().changed(TINY, block_size=6, learn_from=20),
        Settings().changed(TINY).changed(BY_LEAF),
        Settings.paper().changed(TINY, layers=4, sweeps=1, tries=12),
        Settings().changed(TINY, block_size=6, fixed=True, overlap=0.1, acquisition="mes"),
    ]
)
seeds = st.integers(0, 2**64)
sizes = st.floats(1e-300, 1e300)
values = st.one_of(
    sizes, sizes.map(lambda y: -y), st.sampled_from([0.0, -0.0, 1.0, np.nan, np.inf, -np.inf])
)


def many_values(n: int) -> st.SearchStrategy[list[float]]:
    return st.lists(values, min_size=n, max_size=n)


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(spaces, seeds, PRESETS, st.lists(st.integers(1, 7), min_size=2, max_size=4), st.data())
def test_any_values_on_any_space(
    space: Space, seed: int, chosen: Settings, batches: list[int], data: st.DataObject
) -> None:
    optimizer = Optimizer(space, seed=seed, settings=chosen, workers=1)
    for n in batches:
        X = optimizer.ask(n)
        assert_points(space, X, n)
        optimizer.tell(X, data.draw(many_values(n)))
    assert_points(space, optimizer.ask(1), 1)
    assert_finite_history(optimizer)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    spaces,
    seeds,
    st.sampled_from(list(CHOICES.values())),
    st.permutations(range(24)),
    st.sets(st.integers(1, 23)),
    st.integers(1, 3),
    st.sampled_from(["maximize", "minimize"]),
)
def test_neither_order_nor_workers_nor_direction_matter(
    space: Space,
    seed: int,
    chosen: Settings,
    order: list[int],
    ends: set[int],
    workers: int,
    direction: str,
) -> None:
    one = Optimizer(space, seed=seed, settings=chosen, workers=1)
    other = Optimizer(space, seed=seed, settings=chosen, workers=workers, direction=direction)
    sign = 1.0 if direction == "maximize" else -1.0
    X = draw(space, seed % 2**32, 24)
    y = np.random.default_rng(seed).standard_normal(24)
    y[5:8] = np.nan
    one.tell(X, y)
    for part in np.split(np.array(order), sorted(ends)):
        other.tell(X[part], sign * y[part])
    for n in (3, 2):  # the second with points pending
        np.testing.assert_array_equal(one.ask(n), other.ask(n))
    if space.free.any():
        np.testing.assert_array_equal(one.structure().certainty, other.structure().certainty)
    assert one.best()[1] == sign * other.best()[1]


class Telling(RuleBasedStateMachine):
    """Any way to ask and tell; beside it, plain lists of what must be known."""

    @initialize(
        space=st.sampled_from(
            [
                box([0, -1], [1, 9]),
                box([5], [6]),
                Space(a=Float(1e-3, 1, log=True), b=Int(0, 3), c=Float(2, 2), d=Float(-1, 1)),
            ]
        ),
        chosen=PRESETS,
        seed=seeds,
    )
    def begin(self, space: Space, chosen: Settings, seed: int) -> None:
        self.space = space
        self.optimizer = Optimizer(space, seed=seed, settings=chosen, workers=1)
        self.told = np.empty((0, space.dims))
        self.values: list[float] = []
        self.pending = np.empty((0, space.dims))
        self.iterations = 0

    @rule(n=st.integers(1, 5))
    def ask(self, n: int) -> None:
        self.iterations += bool(np.isfinite(self.values).any())
        X = self.optimizer.ask(n)
        assert_points(self.space, X, n)
        assert_all_different(np.unique(self.told, axis=0), self.pending, X)
        self.pending = np.concatenate([self.pending, X])

    @precondition(lambda self: len(self.pending) > 0)
    @rule(data=st.data())
    def tell_some(self, data: st.DataObject) -> None:
        every = range(len(self.pending))
        rows = data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=6, unique=True))
        self.tell(self.pending[rows], data.draw(many_values(len(rows))))
        self.pending = np.delete(self.pending, rows, axis=0)

    @rule(seed=st.integers(0, 2**32 - 1), data=st.data())
    def tell_of_others(self, seed: int, data: st.DataObject) -> None:
        n = data.draw(st.integers(0, 4))
        X = draw(self.space, seed, n)
        self.tell(X, data.draw(many_values(n)))
        taken = (self.pending[:, None] == X).all(axis=2).any(axis=1)
        self.pending = self.pending[~taken]

    @precondition(lambda self: len(self.told) > 0)
    @rule(data=st.data())
    def tell_again(self, data: st.DataObject) -> None:
        rows = data.draw(st.lists(st.sampled_from(range(len(self.told))), min_size=1, max_size=4))
        self.tell(self.told[rows], data.draw(many_values(len(rows))))

    @rule(data=st.data())
    def make_a_mistake(self, data: st.DataObject) -> None:
        X = self.space.upper[None, :].copy()
        bad: list[tuple[Any, Any]] = [(X + 1, [1]), (X, [1, 2]), (X * np.nan, [1]), (X, ["x"])]
        try:
            self.optimizer.tell(*data.draw(st.sampled_from(bad)))
        except ValueError:
            return
        raise AssertionError("taken without an error")

    @invariant()
    def nothing_is_lost(self) -> None:
        if not hasattr(self, "optimizer"):
            return
        np.testing.assert_array_equal(self.optimizer.X, self.told)
        np.testing.assert_array_equal(self.optimizer.y, self.values)
        np.testing.assert_array_equal(self.optimizer.pending, self.pending)
        assert len(self.optimizer.history) == self.iterations
        if np.isfinite(self.values).any():
            assert self.optimizer.best()[1] == np.nanmax(self.values)

    def tell(self, X: Floats, y: list[float]) -> None:
        self.optimizer.tell(X, y)
        self.told = np.concatenate([self.told, X])
        self.values.extend(np.where(np.isfinite(y), y, np.nan).tolist())


TestTelling = Telling.TestCase
TestTelling.settings = settings(
    max_examples=25, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)
