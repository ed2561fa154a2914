"""The budget of the leaves, by rank and by volume."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebo.arrays import Floats
from ebo.batch.budget import Budget, apportion, budget_by_rank, budget_by_volume
from ebo.partition import Leaf

NONE = -np.inf


def naive_apportion(share: Floats, total: int) -> list[int]:
    """Everybody's whole part, then one each to the largest remainders, the earlier ones first."""
    exact = [float(s) / float(sum(share)) * total for s in share]
    counts = [int(e) for e in exact]
    for _ in range(total - sum(counts)):
        left = [e - c for e, c in zip(exact, counts, strict=True)]
        counts[left.index(max(left))] += 1
    return counts


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), leaves=st.integers(1, 40), total=st.integers(0, 500))
def test_shares_become_whole_numbers(seed: int, leaves: int, total: int) -> None:
    rng = np.random.default_rng(seed)
    share = np.exp(rng.uniform(0.0, 8.0) * rng.standard_normal(leaves))
    counts = apportion(share, total)
    assert counts.sum() == total
    assert (counts >= 0).all()
    assert (np.abs(counts - share / share.sum() * total) < 1.0 + 1e-9).all()
    assert counts.tolist() == naive_apportion(share, total)


def test_shares_that_come_out_even() -> None:
    assert apportion(np.array([1.0, 2.0, 3.0]), 12).tolist() == [2, 4, 6]
    assert apportion(np.full(4, 0.1), 6).tolist() == [2, 2, 1, 1]
    assert apportion(np.array([0.0, 5.0]), 3).tolist() == [0, 3]
    assert apportion(np.full(3, 1.0 / 3.0), 3).tolist() == [1, 1, 1]
    assert apportion(np.full(1000, 1e-300), 1000).tolist() == [1] * 1000


def test_half_by_volume_half_by_value() -> None:
    volume, best = np.array([0.5, 0.25, 0.25]), np.array([0.0, 1.0, 3.0])
    # Worth (0, 1, 3)/4; shares (0.5 + 0, 0.25 + 0.25, 0.25 + 0.75)/2.
    assert budget_by_volume(volume, best, 40).tolist() == [10, 10, 20]
    assert budget_by_volume(7.0 * volume, 100.0 * best - 50.0, 40).tolist() == [10, 10, 20]


def test_leaves_without_observations_are_paid_for_their_volume() -> None:
    volume = np.array([0.5, 0.25, 0.25])
    assert budget_by_volume(volume, np.array([NONE, 2.0, 1.0]), 40).tolist() == [10, 25, 5]
    assert budget_by_volume(volume, np.full(3, NONE), 40).tolist() == [20, 10, 10]
    assert budget_by_volume(volume, np.array([NONE, NONE, 1.0]), 40).tolist() == [10, 5, 25]


def test_equal_values_share_alike() -> None:
    assert budget_by_volume(np.full(4, 0.25), np.full(4, -3.0), 8).tolist() == [2, 2, 2, 2]
    assert budget_by_volume(
        np.array([0.5, 0.25, 0.25]), np.array([1.0, 1.0, NONE]), 40
    ).tolist() == [
        20,
        15,
        5,
    ]
    assert budget_by_volume(np.ones(1), np.array([5.0]), 7).tolist() == [7]
    assert budget_by_volume(np.ones(1), np.array([NONE]), 7).tolist() == [7]


def test_volumes_of_many_dimensions() -> None:
    """Some leaves' volumes vanish: then it is the others', and the values, that pay."""
    best = np.array([1.0, 2.0, 3.0])
    assert budget_by_volume(np.array([1e-300, 3e-300, 0.0]), best, 24).tolist() == [3, 13, 8]
    sides = np.full((3, 1000), 0.4)
    sides[0] = 1.0
    volume = sides.prod(axis=1)
    assert volume.tolist() == [1.0, 0.0, 0.0]
    counts = budget_by_volume(volume, best, 30)
    assert counts.tolist() == [15, 5, 10]


@pytest.mark.parametrize("best", [[1.0, 2.0, NONE], [NONE, NONE, NONE]])
def test_volumes_that_all_vanish(best: list[float]) -> None:
    counts = budget_by_volume(np.zeros(3), np.array(best), 10)
    assert 10 <= counts.sum() <= 12
    assert (counts >= 1).all()


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), leaves=st.integers(1, 30), total=st.integers(1, 300))
def test_a_budget_is_spent_and_every_leaf_has_one(seed: int, leaves: int, total: int) -> None:
    rng = np.random.default_rng(seed)
    volume = np.exp(100.0 * rng.standard_normal(leaves))
    best = np.sinh(rng.uniform(0.1, 20.0) * rng.standard_normal(leaves))
    best[rng.random(leaves) < 0.3] = NONE
    counts = budget_by_volume(volume, best, total)
    assert (counts >= 1).all()
    assert counts[counts > 1].sum() <= total <= counts.sum()
    ranked = budget_by_rank(best, total)
    assert ranked.sum() == total
    assert (ranked >= 0).all()


def test_the_best_leaves_are_paid_by_rank() -> None:
    best = np.array([0.0, NONE, 3.0, 2.0])
    assert budget_by_rank(best, 25).tolist() == [4, 3, 12, 6]
    many = budget_by_rank(np.arange(1000.0), 200)
    assert many.argmax() == 999
    assert 1 < np.count_nonzero(many) < 20


def test_a_better_or_larger_leaf_never_gets_less() -> None:
    rng = np.random.default_rng(0)
    volume, best = rng.random(50), rng.standard_normal(50)
    for counts in (
        budget_by_volume(np.sort(volume), np.zeros(50), 500),
        budget_by_volume(np.ones(50), np.sort(best), 500),
    ):
        assert (np.diff(counts) >= 0).all()


def leaf(lower: float, upper: float, rows: list[int]) -> Leaf:
    """Two dimensions, of which the first is cut."""
    return Leaf(np.array([lower, 0.0]), np.array([upper, 1.0]), np.array(rows, dtype=np.int64))


@pytest.mark.parametrize(("n", "candidates", "total"), [(20, 2.0, 40), (7, 1.5, 11), (1, 1.0, 1)])
def test_leaves_are_paid_by_their_boxes_and_best_values(
    n: int, candidates: float, total: int
) -> None:
    leaves = [leaf(0.0, 0.5, [0, 2]), leaf(0.5, 0.75, []), leaf(0.75, 1.0, [1, 3])]
    u = np.array([0.5, 2.0, 1.0, -4.0])
    best = np.array([1.0, NONE, 2.0])
    by_rank = Budget(candidates=candidates).pay(leaves, u, n)
    assert by_rank.tolist() == budget_by_rank(best, total).tolist()
    by_volume = Budget(candidates=candidates, by="volume").pay(leaves, u, n)
    expected = budget_by_volume(np.array([0.5, 0.25, 0.25]), best, total)
    assert by_volume.tolist() == expected.tolist()
