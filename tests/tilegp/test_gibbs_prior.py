"""Canonical labels, and draws from the prior against its laws."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ebo.tilegp.box import Box
from ebo.tilegp.features import MondrianGrid, TileCoding
from ebo.tilegp.gibbs import ChainState, Prior, canonical
from ebo.tilegp.kernel import Hat, SampledKernel
from tests import naive


def test_canonical_labels_are_in_order_of_appearance() -> None:
    assert canonical([3, 3, 0, 7, 0]).tolist() == [0, 0, 1, 2, 1]
    assert canonical([0]).tolist() == [0]
    rows = np.array([[[2, 1, 1], [0, 1, 2]], [[5, 5, 5], [1, 0, 1]]])
    expected = [[[0, 1, 1], [0, 1, 2]], [[0, 0, 0], [0, 1, 0]]]
    assert canonical(rows).tolist() == expected


@given(st.lists(st.integers(0, 9), min_size=1, max_size=10))
def test_canonical_labels_name_the_same_groups(z: list[int]) -> None:
    named = canonical(z).tolist()
    for a, b in itertools.combinations(range(len(z)), 2):
        assert (z[a] == z[b]) == (named[a] == named[b])
    assert list(dict.fromkeys(named)) == list(range(max(named) + 1))
    assert canonical(named).tolist() == named


def draws(
    prior: Prior, dims: int, count: int, kernel: SampledKernel | None = None
) -> list[ChainState]:
    rng = np.random.default_rng(8)
    return [prior.draw(Box.unit(dims), kernel or Hat(), rng) for _ in range(count)]


@pytest.mark.parametrize("alpha", [0.4, 1.0, 3.0])
def test_groups_are_drawn_from_the_prior(alpha: float) -> None:
    count = 8_000
    seen = [tuple(state.z.tolist()) for state in draws(Prior(alpha=alpha), 4, count)]
    partitions = list(naive.partitions(4))
    weights = np.exp([naive.log_prior_partition(z, alpha, 4) for z in partitions])
    counts = [seen.count(z) for z in partitions]
    assert stats.chisquare(counts, count * weights / weights.sum()).pvalue > 1e-4


def test_labels_are_drawn_from_the_prior() -> None:
    alpha = np.array([0.5, 1.0, 2.5])
    z = np.array([state.z for state in draws(Prior(alpha=alpha), 3, 8_000)])
    for d in range(3):
        share = np.bincount(z[:, d], minlength=3) / len(z)
        np.testing.assert_allclose(share, alpha / alpha.sum(), atol=0.02)
    # Two dimensions share a label with probability Σ α (α + 1) / (Σα (Σα + 1)).
    assert (z[:, 0] == z[:, 1]).mean() == pytest.approx(
        (alpha * (alpha + 1)).sum() / (4.0 * 5.0), abs=0.022
    )


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_drawn_groups_keep_to_the_limit(limit: int) -> None:
    states = draws(Prior(group_limit=limit), 6, 300)
    sizes = [np.bincount(state.z).max() for state in states]
    assert max(sizes) == limit


def test_drawn_cuts_have_the_moments_of_their_law() -> None:
    rate, shape = 0.5, 3.0
    kernel = TileCoding.draw(2, 4, np.random.default_rng(0))
    shared = np.array([state.cuts for state in draws(Prior(), 2, 8_000, kernel)])
    assert shared.shape == (8_000, 2)
    assert shared.mean() == pytest.approx(shape / rate, rel=0.03)
    assert shared.var() == pytest.approx(shape / rate + shape / rate**2, rel=0.06)
    layers = np.array([s.cuts for s in draws(Prior(per_layer=True), 2, 8_000, kernel)])
    assert layers.shape == (8_000, 2, 4)
    assert layers.mean() == pytest.approx(shape / rate, rel=0.03)
    # Layers of a dimension share their rate, dimensions do not.
    assert np.cov(layers[:, 0, 0], layers[:, 0, 1])[0, 1] == pytest.approx(shape / rate**2, rel=0.1)
    assert abs(np.cov(layers[:, 0, 0], layers[:, 1, 0])[0, 1]) < 1.0


def test_drawn_cuts_go_by_the_width_and_keep_to_what_there_is() -> None:
    rng = np.random.default_rng(0)
    box, kernel = Box.unit(2), MondrianGrid.draw(2, 3, rng, 5)
    cuts = np.array([Prior(beta=(0.1, 3.0)).draw(box, kernel, rng).cuts for _ in range(50)])
    assert cuts.max() == 5
    widths = [1.0, 0.1]
    states = [Prior().draw(box, Hat(), rng, widths=widths) for _ in range(5_000)]
    means = np.mean([state.cuts for state in states], axis=0)
    np.testing.assert_allclose(means, [6.0, 0.6], rtol=0.08)


def test_each_noise_is_drawn_as_often() -> None:
    given = np.array([0.01, 0.1, 1.0])
    noises = np.array([state.noise for state in draws(Prior(noise=given), 1, 3_000)])
    for noise in given:
        assert (noises == noise).mean() == pytest.approx(1 / 3, abs=0.04)
