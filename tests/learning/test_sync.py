"""Combining groups, and the indices by which groupings are compared."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ebo.arrays import Floats, Ints
from ebo.learning.sync import (
    adjusted_rand_index,
    co_membership,
    combine_cuts,
    combine_groups,
    rand_index,
)
from tests.naive import partitions


def test_co_membership_counts_pairs() -> None:
    frequency = co_membership([[0, 0, 1], [0, 1, 1], [0, 0, 0]])
    expected = np.array([[3, 2, 1], [2, 3, 2], [1, 2, 3]]) / 3
    np.testing.assert_allclose(frequency, expected)


def test_no_samples() -> None:
    with pytest.raises(ValueError, match="at least one"):
        co_membership(np.zeros((0, 3)))


def test_leaves_that_all_say_separate_stay_separate() -> None:
    z = np.tile(np.arange(8), (50, 1))
    assert combine_groups(co_membership(z)).tolist() == list(range(8))


def test_a_clear_majority_is_found_through_noise() -> None:
    rng = np.random.default_rng(0)
    truth = np.array([0, 0, 1, 1, 1, 2, 3, 3])
    samples = [np.where(rng.random(8) < 0.2, rng.integers(0, 8, 8), truth) for _ in range(200)]
    assert adjusted_rand_index(combine_groups(co_membership(samples)), truth) == 1.0


def test_group_limit_is_kept() -> None:
    z = combine_groups(np.ones((7, 7)), group_limit=3)
    assert np.bincount(z).max() <= 3


def test_local_optimum_is_nearly_the_best_by_enumeration() -> None:
    rng = np.random.default_rng(1)
    worst = 0.0
    for _ in range(30):
        samples = rng.integers(0, 3, (4, 6))
        frequency = co_membership(samples)

        def score(z: Ints, frequency: Floats = frequency) -> float:
            pairs = itertools.combinations(range(6), 2)
            return float(sum(frequency[i, j] - 0.5 for i, j in pairs if z[i] == z[j]))

        best = max(score(np.asarray(z)) for z in partitions(6))
        worst = max(worst, best - score(combine_groups(frequency)))
    assert worst <= 0.5


def test_rand_indices_of_known_cases() -> None:
    assert rand_index([0, 0, 1, 1], [5, 5, 2, 2]) == 1.0
    assert adjusted_rand_index([0, 0, 1, 1], [5, 5, 2, 2]) == 1.0
    assert rand_index([0, 0, 1, 1], [0, 1, 0, 1]) == pytest.approx(1 / 3)
    assert adjusted_rand_index([0, 0, 1, 1], [0, 1, 0, 1]) == pytest.approx(-0.5)
    assert adjusted_rand_index([0, 1, 2], [0, 0, 0]) == 0.0
    assert adjusted_rand_index([0], [3]) == rand_index([0], [3]) == 1.0


def test_adjusted_rand_index_is_zero_on_average_at_random() -> None:
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 4, 20)
    values = [adjusted_rand_index(rng.permutation(truth), truth) for _ in range(3000)]
    assert abs(np.mean(values)) < 4 * np.std(values) / np.sqrt(len(values))


def naive_cuts(cuts: Ints, widths: Floats) -> list[int]:
    """Cuts (J, D) of leaves with sides (J, D): the rounded mean of their densities."""
    leaves, dims = cuts.shape
    return [
        round(sum(cuts[j, d] / widths[j, d] for j in range(leaves)) / leaves) for d in range(dims)
    ]


def test_cuts_are_the_rounded_mean_of_densities() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        shape = int(rng.integers(1, 8)), int(rng.integers(1, 6))
        cuts, widths = rng.integers(0, 9, shape), rng.uniform(0.05, 1.0, shape)
        combined = combine_cuts(cuts / widths)
        assert combined.dtype == np.float64
        assert combined.tolist() == naive_cuts(cuts, widths)


def test_leaves_of_different_width_that_agree() -> None:
    """Eight cuts on the whole range are four on its half and one on its eighth."""
    cuts = np.array([[8, 3], [4, 3], [1, 3]])
    widths = np.array([[1.0, 1.0], [0.5, 1.0], [0.125, 1.0]])
    assert combine_cuts(cuts / widths).tolist() == [8.0, 3.0]


def test_one_leaf_speaks_for_itself() -> None:
    assert combine_cuts(np.array([[0.0, 2.4, 2.6, 1e9]])).tolist() == [0.0, 2.0, 3.0, 1e9]


@pytest.mark.parametrize("dims", [1, 4])
def test_no_cuts(dims: int) -> None:
    with pytest.raises(ValueError, match="at least one leaf"):
        combine_cuts(np.empty((0, dims)))
