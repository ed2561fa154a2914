"""The laws of the Mondrian partition (Alg. 3)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ebo.partition import Leaf, _cut, mondrian


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
