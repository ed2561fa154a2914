"""The laws of the Mondrian partition (Alg. 3)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ebo.arrays import Floats
from ebo.partition import NARROWEST, Leaf, Partition, _cut, mondrian, refill


def cut_of(leaves: list[Leaf]) -> tuple[int, float]:
    """Dimension and place of the only cut of two leaves."""
    d = int(np.flatnonzero(leaves[0].upper < 1.0)[0])
    return d, float(leaves[0].upper[d])


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(0, 300),
    dims=st.integers(1, 5),
    max_leaves=st.integers(1, 40),
    leaf_size=st.integers(1, 50),
    seed=st.integers(0, 2**32),
)
def test_leaves_tile_the_cube_and_hold_each_point_once(
    n: int, dims: int, max_leaves: int, leaf_size: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    T = rng.random((n, dims))
    leaves = mondrian(T, max_leaves=max_leaves, leaf_size=leaf_size, rng=rng)
    assert 1 <= len(leaves) <= max_leaves
    assert np.isclose(sum(np.prod(leaf.upper - leaf.lower) for leaf in leaves), 1.0)
    rows = np.concatenate([leaf.rows for leaf in leaves])
    assert np.array_equal(np.sort(rows), np.arange(n))
    for leaf in leaves:
        assert np.all(T[leaf.rows] >= leaf.lower)
        assert np.all(T[leaf.rows] <= leaf.upper)
        others = np.setdiff1d(np.arange(n), leaf.rows)
        inside = np.all((T[others] > leaf.lower) & (T[others] < leaf.upper), axis=1)
        assert not inside.any()
    if len(leaves) < max_leaves:
        assert max(len(leaf.rows) for leaf in leaves) <= leaf_size


def bounds(leaves: list[Leaf]) -> tuple[Floats, Floats]:
    return np.array([leaf.lower for leaf in leaves]), np.array([leaf.upper for leaf in leaves])


def test_small_leaves_are_never_cut() -> None:
    rng = np.random.default_rng(1)
    assert len(mondrian(rng.random((20, 3)), max_leaves=50, leaf_size=20, rng=rng)) == 1
    assert len(mondrian(rng.random((21, 3)), max_leaves=50, leaf_size=20, rng=rng)) > 1


def test_first_cut_is_uniform_over_dimensions_and_places() -> None:
    rng = np.random.default_rng(2)
    T = rng.random((50, 4))
    cuts = [cut_of(mondrian(T, max_leaves=2, leaf_size=1, rng=rng)) for _ in range(4000)]
    counts = np.bincount([d for d, _ in cuts], minlength=4)
    assert stats.chisquare(counts).pvalue > 1e-4
    assert stats.kstest([at for _, at in cuts], "uniform").pvalue > 1e-4


def test_a_dimension_is_cut_in_proportion_to_its_length() -> None:
    rng = np.random.default_rng(3)
    leaf = Leaf(np.array([0.0, 0.5, 0.3]), np.array([0.1, 1.0, 0.7]), np.arange(5))
    T = rng.random((5, 3))
    counts, places = np.zeros(3), []
    for _ in range(5000):
        left, _ = _cut(leaf, T, 0.0, rng)
        d = int(np.flatnonzero(left.upper != leaf.upper)[0])
        counts[d] += 1
        places.append((left.upper[d] - leaf.lower[d]) / (leaf.upper[d] - leaf.lower[d]))
    assert stats.chisquare(counts, 5000 * np.array([0.1, 0.5, 0.4])).pvalue > 1e-4
    assert stats.kstest(places, "uniform").pvalue > 1e-4


def test_leaves_are_chosen_by_length_and_surplus() -> None:
    """After a first cut in the middle, the leaf with all surplus points is the one cut next."""
    rng = np.random.default_rng(4)
    T = np.vstack([rng.random((100, 1)) * 0.01, [[0.999]]])
    leaves = mondrian(T, max_leaves=30, leaf_size=5, rng=rng)
    first_cut_right = [leaf for leaf in leaves if len(leaf.rows) == 1 and leaf.upper[0] == 1.0]
    assert len(first_cut_right) == 1  # a leaf without surplus stays as it is


def test_one_seed_one_partition() -> None:
    T = np.random.default_rng(5).random((500, 3))
    first, second = (
        mondrian(T, max_leaves=20, leaf_size=30, rng=np.random.default_rng(6)) for _ in range(2)
    )
    for a, b in zip(first, second, strict=True):
        assert np.array_equal(a.lower, b.lower)
        assert np.array_equal(a.rows, b.rows)


@pytest.mark.parametrize(("max_leaves", "leaf_size"), [(0, 10), (10, 0)])
def test_bad_sizes(max_leaves: int, leaf_size: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        mondrian(
            np.zeros((3, 2)),
            max_leaves=max_leaves,
            leaf_size=leaf_size,
            rng=np.random.default_rng(0),
        )


@pytest.mark.parametrize("overlap", [-0.1, np.nan, np.inf])
def test_bad_overlap(overlap: float) -> None:
    with pytest.raises(ValueError, match=f"overlap is {overlap}"):
        mondrian(
            np.zeros((3, 2)),
            max_leaves=2,
            leaf_size=1,
            rng=np.random.default_rng(0),
            overlap=overlap,
        )


# Overlap, and a partition that is kept.


def naive_rows(leaf: Leaf, T: Floats, overlap: float) -> list[int]:
    """Rows of the points in the box: [lower, upper), closed at 1, or all sides ε farther out."""
    rows = []
    for i, t in enumerate(T):
        inside = True
        for d in range(len(t)):
            low, high = leaf.lower[d], leaf.upper[d]
            if overlap:
                inside &= low - overlap <= t[d] <= high + overlap
            else:
                inside &= low <= t[d] and (t[d] < high or high == 1.0)
        if inside:
            rows.append(i)
    return rows


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(0, 60),
    dims=st.integers(1, 4),
    overlap=st.sampled_from([0.0, 1e-6, 0.05, 0.3, 1.0]),
    seed=st.integers(0, 2**32),
)
def test_a_leaf_sees_the_points_near_its_box(n: int, dims: int, overlap: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    T = rng.random((n, dims))
    T[rng.random((n, dims)) < 0.1] = 1.0
    T[rng.random((n, dims)) < 0.1] = 0.0
    leaves = mondrian(T, max_leaves=12, leaf_size=5, rng=rng, overlap=overlap)
    for leaf in leaves:
        assert leaf.rows.tolist() == naive_rows(leaf, T, overlap)
    seen = np.bincount(np.concatenate([leaf.rows for leaf in leaves]), minlength=n)
    assert (seen == 1).all() if overlap == 0 else (seen >= 1).all()


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(0, 60),
    dims=st.integers(1, 4),
    overlap=st.sampled_from([0.0, 1e-6, 0.05, 0.3, 1.0]),
    seed=st.integers(0, 2**32),
)
def test_refilled_leaves_keep_their_boxes(n: int, dims: int, overlap: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    leaves = mondrian(rng.random((40, dims)), max_leaves=12, leaf_size=5, rng=rng)
    T = rng.random((n, dims))
    T[rng.random((n, dims)) < 0.1] = 1.0
    if n and len(leaves) > 1:
        T[0] = leaves[-1].lower  # on the edge of several leaves
    filled = refill(*bounds(leaves), T, overlap=overlap)
    for old, new in zip(leaves, filled, strict=True):
        np.testing.assert_array_equal(new.lower, old.lower)
        np.testing.assert_array_equal(new.upper, old.upper)
        assert new.rows.tolist() == naive_rows(new, T, overlap)
    rows = np.concatenate([leaf.rows for leaf in filled])
    if overlap == 0:
        assert np.array_equal(np.sort(rows), np.arange(n))


@pytest.mark.parametrize("overlap", [0.0, 0.1])
def test_refilling_with_the_same_points_changes_nothing(overlap: float) -> None:
    rng = np.random.default_rng(7)
    T = rng.random((200, 3))
    leaves = mondrian(T, max_leaves=30, leaf_size=20, rng=rng, overlap=overlap)
    for old, new in zip(leaves, refill(*bounds(leaves), T, overlap=overlap), strict=True):
        np.testing.assert_array_equal(new.rows, old.rows)


def test_more_overlap_shows_more() -> None:
    rng = np.random.default_rng(8)
    T = rng.random((300, 2))
    leaves = mondrian(T, max_leaves=20, leaf_size=20, rng=rng)
    before = [leaf.rows for leaf in leaves]
    for overlap in (0.01, 0.1, 0.5, 1.0):
        after = [leaf.rows for leaf in refill(*bounds(leaves), T, overlap=overlap)]
        for few, many in zip(before, after, strict=True):
            assert np.isin(few, many).all()
        before = after
    assert all(len(rows) == 300 for rows in before)  # ε = 1: every leaf sees everything


# The strategy.


@pytest.mark.parametrize(
    ("batch", "size"), [(1, 500), (250, 500), (251, 502), (500, 1000), (501, 1000), (9000, 1000)]
)
def test_leaves_hold_two_large_batches_and_at_most_twice_their_size(batch: int, size: int) -> None:
    partition = Partition(leaf_size=500, overlap=0.1)
    assert partition.for_batch(batch) == Partition(leaf_size=size, overlap=0.1)
    fixed = Partition(leaf_size=500, grows=False)
    assert fixed.for_batch(batch) == fixed


@pytest.mark.parametrize("overlap", [0.0, 0.1])
def test_a_new_partition_is_drawn_or_the_one_that_is_kept_refilled(overlap: float) -> None:
    T = np.random.default_rng(12).random((200, 3))
    partition = Partition(max_leaves=9, leaf_size=20, overlap=overlap)
    leaves = partition.draw(T, None, np.random.default_rng(1))
    expected = mondrian(
        T, max_leaves=9, leaf_size=20, rng=np.random.default_rng(1), overlap=overlap
    )
    for a, b in zip(leaves, expected, strict=True):
        np.testing.assert_array_equal(a.lower, b.lower)
        np.testing.assert_array_equal(a.upper, b.upper)
        np.testing.assert_array_equal(a.rows, b.rows)
    assert partition.keep(leaves) is None
    kept = Partition(max_leaves=9, leaf_size=20, overlap=overlap, fixed=True).keep(leaves)
    assert kept is not None
    again = partition.draw(T[:50], kept, np.random.default_rng(2))
    for a, b in zip(again, refill(*bounds(leaves), T[:50], overlap=overlap), strict=True):
        np.testing.assert_array_equal(a.lower, b.lower)
        np.testing.assert_array_equal(a.upper, b.upper)
        np.testing.assert_array_equal(a.rows, b.rows)


# The boxes.


@pytest.mark.parametrize("dims", [1, 2, 20])
@pytest.mark.parametrize("overlap", [0.0, 0.2])
def test_any_point_falls_into_one_box(dims: int, overlap: float) -> None:
    rng = np.random.default_rng(9)
    T = rng.random((400, dims))
    leaves = mondrian(T, max_leaves=60, leaf_size=10, rng=rng, overlap=overlap)
    assert sum(np.prod(leaf.upper - leaf.lower) for leaf in leaves) == pytest.approx(1.0)
    points = np.vstack([rng.random((100, dims)), np.zeros(dims), np.ones(dims)])
    holders = np.zeros(len(points))
    for leaf in leaves:
        holders[naive_rows(leaf, points, 0.0)] += 1
    assert (holders == 1).all()


def test_one_dimension_is_a_row_of_intervals() -> None:
    rng = np.random.default_rng(10)
    leaves = mondrian(rng.random((500, 1)), max_leaves=60, leaf_size=3, rng=rng)
    ends = sorted((float(leaf.lower[0]), float(leaf.upper[0])) for leaf in leaves)
    assert ends[0][0] == 0.0
    assert ends[-1][1] == 1.0
    assert [high for _, high in ends[:-1]] == [low for low, _ in ends[1:]]


@pytest.mark.parametrize("place", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("dims", [1, 3])
def test_points_that_cannot_be_parted(place: float, dims: int) -> None:
    """It ends, though one leaf keeps too many points; no box has a side of length zero."""
    T = np.full((50, dims), place)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        leaves = mondrian(T, max_leaves=1000, leaf_size=10, rng=rng)
        assert len(leaves) < 1000
        sizes = sorted(len(leaf.rows) for leaf in leaves)
        assert sizes == [0] * (len(leaves) - 1) + [50]
        full = next(leaf for leaf in leaves if len(leaf.rows))
        assert (full.upper - full.lower <= NARROWEST).all()
        for leaf in leaves:
            assert (leaf.upper > leaf.lower).all()


def test_pairs_of_equal_points_are_parted_from_the_others() -> None:
    rng = np.random.default_rng(11)
    T = np.repeat(rng.random((40, 2)), 3, axis=0)
    leaves = mondrian(T, max_leaves=5000, leaf_size=3, rng=rng)
    assert max(len(leaf.rows) for leaf in leaves) == 3
    for leaf in leaves:
        assert len(leaf.rows) in (0, 3)


def test_no_points_one_leaf() -> None:
    leaves = mondrian(np.empty((0, 2)), max_leaves=9, leaf_size=1, rng=np.random.default_rng(0))
    assert len(leaves) == 1
    assert leaves[0].rows.size == 0
    assert len(refill(*bounds(leaves), np.full((4, 2), 0.5))[0].rows) == 4
