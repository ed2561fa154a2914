"""The filter against a greedy search that starts afresh each step."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebo.arrays import Floats, Ints
from ebo.batch.filter import JITTER, LEAST_VARIANCE, select
from ebo.tilegp.kernel import Hat, Laplace, Limit


def naive_select(
    P: Floats,
    value: Floats,
    batch_size: int,
    kernel: Limit,
    z: Ints,
    cuts: Floats,
    pending: Floats,
) -> list[int]:
    """Variances from scratch each step."""

    def gain(x: Floats) -> float:
        if not basis:
            return 0.0
        X = np.array(basis)
        K = kernel.gram(X, X, z, cuts) + JITTER * np.eye(len(X))
        kappa = kernel.gram(X, x[None, :], z, cuts)[:, 0]
        return math.log(max(1.0 - float(kappa @ np.linalg.solve(K, kappa)), LEAST_VARIANCE))

    basis = list(pending)
    chosen: list[int] = []
    while len(chosen) < min(batch_size, len(P)):
        score = [-np.inf if c in chosen else gain(P[c]) + value[c] for c in range(len(P))]
        best = score.index(max(score))
        basis.append(P[best])
        chosen.append(best)
    return chosen


def nothing(dims: int) -> Floats:
    return np.empty((0, dims))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    candidates=st.integers(1, 12),
    batch_size=st.integers(1, 14),
    waiting=st.integers(0, 4),
    hat=st.booleans(),
)
def test_equals_greedy_from_scratch(
    seed: int, candidates: int, batch_size: int, waiting: int, hat: bool
) -> None:
    rng = np.random.default_rng(seed)
    dims = int(rng.integers(1, 5))
    categorical = rng.random(dims) < 0.3
    kernel = Hat(categorical) if hat else Laplace(categorical)
    z, cuts = rng.integers(0, 3, dims), rng.uniform(0.5, 4.0, dims)
    P, pending = rng.random((candidates, dims)), rng.random((waiting, dims))
    P[:, categorical] = np.round(P[:, categorical])
    pending[:, categorical] = np.round(pending[:, categorical])
    if rng.random() < 0.5:  # a candidate twice, and one that is pending
        P[-1] = P[0]
        if waiting:
            P[candidates // 2] = pending[0]
    value = rng.normal(0.0, 2.0, candidates)
    chosen = select(P, value, batch_size, kernel, z, cuts, pending)
    assert chosen.dtype == np.int64
    expected = naive_select(P, value, batch_size, kernel, z, cuts, pending)
    assert chosen.tolist() == expected
    assert len(chosen) == min(batch_size, candidates)
    assert len(set(chosen.tolist())) == len(chosen)


def test_the_first_is_the_best_and_far_away_the_order_is_by_value() -> None:
    P = np.linspace(0.0, 1.0, 6)[:, None]
    value = np.array([0.3, 2.0, -1.0, 0.5, 7.0, 1.0])
    chosen = select(P, value, 6, Hat(), np.array([0]), np.array([5.0]), nothing(1))
    assert chosen.tolist() == [4, 1, 5, 3, 0, 2]


def test_a_batch_is_diverse() -> None:
    rng = np.random.default_rng(1)
    P = rng.random((200, 2))
    chosen = select(P, np.zeros(200), 9, Laplace(), np.array([0, 0]), np.full(2, 3.0), nothing(2))

    def nearest(rows: Ints) -> float:
        distance = np.abs(P[rows][:, None] - P[rows][None]).sum(axis=2)
        return float((distance + 9.0 * np.eye(len(rows))).min())

    at_random = [nearest(rng.permutation(200)[:9]) for _ in range(200)]
    assert nearest(chosen) > max(at_random)


def test_a_copy_is_taken_last() -> None:
    P = np.array([[0.5], [0.5], [0.9], [0.1], [0.5]])
    value = np.array([7.0, 7.0, 0.0, -1.0, 6.0])
    chosen = select(P, value, 5, Laplace(), np.array([0]), np.array([4.0]), nothing(1))
    assert chosen.tolist() == [0, 2, 3, 1, 4]


@pytest.mark.parametrize("kernel", [Hat(), Laplace()])
def test_pending_points_push_away(kernel: Limit) -> None:
    P = np.linspace(0.0, 1.0, 101)[:, None]
    value = -np.abs(P[:, 0] - 0.5)  # the best is in the middle, where one is pending
    z, cuts = np.array([0]), np.array([3.0])
    assert select(P, value, 1, kernel, z, cuts, nothing(1)).tolist() == [50]
    first = select(P, value, 1, kernel, z, cuts, np.array([[0.5]]))[0]
    assert abs(P[first, 0] - 0.5) > 0.1
    both = select(P, value, 2, kernel, z, cuts, np.array([[0.5]]))
    assert (P[both[0], 0] - 0.5) * (P[both[1], 0] - 0.5) < 0  # one on each side


def test_many_copies_of_few_points() -> None:
    rng = np.random.default_rng(2)
    P = rng.random((5, 3))[rng.integers(0, 5, 60)]
    pending = np.repeat(P[:1], 10, axis=0)
    chosen = select(P, np.zeros(60), 60, Hat(), np.array([0, 1, 1]), np.full(3, 2.0), pending)
    assert sorted(chosen.tolist()) == list(range(60))
    first = {P[i].tobytes() for i in chosen[:4]}
    assert len(first) == 4
    assert P[0].tobytes() not in first


def test_no_cuts_at_all() -> None:
    """All points are one to such a kernel: then the values alone decide."""
    value = np.array([1.0, 3.0, 2.0])
    P = np.random.default_rng(3).random((3, 2))
    chosen = select(P, value, 3, Laplace(), np.array([0, 1]), np.zeros(2), nothing(2))
    assert chosen.tolist() == [1, 2, 0]


def test_nothing_to_choose_from() -> None:
    z, cuts = np.array([0, 1]), np.ones(2)
    for pending in (nothing(2), np.full((3, 2), 0.5)):
        assert select(nothing(2), np.empty(0), 4, Hat(), z, cuts, pending).tolist() == []
        assert select(np.full((3, 2), 0.1), np.zeros(3), 0, Hat(), z, cuts, pending).size == 0


def test_values_of_any_size() -> None:
    P = np.random.default_rng(4).random((30, 2))
    value = np.random.default_rng(5).standard_normal(30) * 1e12
    chosen = select(P, value, 30, Laplace(), np.array([0, 0]), np.full(2, 5.0), nothing(2))
    assert chosen.tolist() == np.argsort(-value).tolist()


def test_a_worthless_candidate_is_taken_once() -> None:
    P = np.random.default_rng(6).random((3, 2))
    value = np.array([1.0, -np.inf, -np.inf])
    pending = np.array([[0.1, 0.1]])
    chosen = select(P, value, 3, Hat(), np.array([0, 1]), np.ones(2), pending)
    assert sorted(chosen.tolist()) == [0, 1, 2]


def test_the_arrays_given_are_left_alone() -> None:
    P, value, pending = np.full((4, 2), 0.3), np.arange(4.0), np.full((2, 2), 0.7)
    before = P.copy(), value.copy(), pending.copy()
    select(P, value, 3, Laplace(), np.array([0, 1]), np.ones(2), pending)
    for a, b in zip((P, value, pending), before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_pending_points_of_two_levels_in_every_dimension() -> None:
    """Many points that hardly add anything to each other: rounding errors must not grow."""
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 8))
    pending = np.where(rng.random((100, 8)) < 0.25, b, a)
    P = np.concatenate([rng.random((30, 8)), np.where(rng.random((30, 8)) < 0.5, b, a)])
    for cuts in (0.1, 1.0, 5.0):
        given = Laplace(), np.arange(8) // 2, np.full(8, cuts)
        chosen = select(P, np.zeros(60), 30, *given, pending)
        assert chosen.tolist() == naive_select(P, np.zeros(60), 30, *given, pending)


class Gauss(Limit):
    """A limit kernel of one's own, which the core does not have."""

    def profile(self, distance: Floats) -> Floats:
        return np.asarray(np.exp(-(distance**2)))


def test_a_kernel_that_the_core_does_not_have() -> None:
    rng = np.random.default_rng(7)
    P, pending, value = rng.random((40, 3)), rng.random((4, 3)), rng.standard_normal(40)
    given = Gauss(), np.array([0, 1, 1]), np.array([1.0, 2.0, 3.0]), pending
    chosen = select(P, value, 20, *given)
    assert chosen.tolist() == naive_select(P, value, 20, *given)
