"""Where candidates begin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ebo.moves.base import GOOD
from ebo.moves.starts import Starts, best_of_regions
from tests.moves.cases import DISCRETE, SQUARE, assert_of_the_leaf, draw


def test_the_best_of_regions() -> None:
    """One of each region, which are apart; among them the best of all."""
    region = draw(SQUARE, lower=0.1, upper=0.8, n=200)
    rows = best_of_regions(region, np.random.default_rng(0))
    assert rows[0] == region.u.argmax()
    assert 10 < len(rows) <= GOOD
    assert len(set(rows.tolist())) == len(rows)
    assert (np.diff(region.u[rows]) <= 0).all()
    best = np.argsort(-region.u)[: len(rows)]

    def spread(rows: Any) -> float:
        return float(np.std(region.T[rows], axis=0).mean())

    assert len(set(rows.tolist()) - set(best.tolist())) > len(rows) // 4
    assert spread(rows) > 0.5 * spread(np.arange(200))


@pytest.mark.parametrize("n", [0, 1, 2])
def test_the_best_of_regions_of_few(n: int) -> None:
    region = draw(SQUARE, n=max(n, 1))
    region = replace(region, T=region.T[:n], u=region.u[:n])
    rows = best_of_regions(region, np.random.default_rng(0))
    assert sorted(rows.tolist()) == list(range(n)) or n == 2
    assert len(rows) >= min(n, 1)


@pytest.mark.parametrize(("apart", "low", "high"), [(0.0, 0, 0), (0.25, 30, 75), (1.0, 200, 200)])
def test_a_share_of_the_starts_is_apart(apart: float, low: int, high: int) -> None:
    """The others are at one of the best of all."""
    region, rng = draw(SQUARE, n=60), np.random.default_rng(0)
    hills = region.best[GOOD : 2 * GOOD]  # none of them is good
    starts = Starts(apart=apart)
    rows = []
    for _ in range(200):
        x = starts.draw(region, hills, rng)
        rows.append(int(np.flatnonzero((x == region.T).all(axis=1))[0]))
    assert set(rows) <= set(region.best[: 2 * GOOD].tolist())
    assert low <= np.isin(rows, hills).sum() <= high


def test_any_point_is_a_start_where_there_are_no_observations() -> None:
    region, rng = draw(SQUARE, n=0, lower=0.2, upper=0.4), np.random.default_rng(0)
    starts = [Starts().draw(region, best_of_regions(region, rng), rng) for _ in range(50)]
    assert len(np.unique(starts, axis=0)) == 50
    assert_of_the_leaf(region, np.array(starts))
    assert np.min(starts) < 0.22
    assert np.max(starts) > 0.38


def test_a_start_on_the_face_of_the_leaf_is_a_point_of_the_space() -> None:
    region, rng = draw(DISCRETE, lower=0.37, upper=0.61, overlap=0.25), np.random.default_rng(0)
    outside = np.any((region.T < 0.37) | (region.T > 0.61), axis=1)
    assert outside.any()
    hills = best_of_regions(region, rng)
    starts = np.array([Starts().draw(region, hills, rng) for _ in range(50)])
    assert_of_the_leaf(region, starts)
