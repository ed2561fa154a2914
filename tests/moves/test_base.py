"""The law of ranks and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from ebo.moves.base import GOOD, good, log_uniform


def assert_log_uniform(draws: np.typing.NDArray[np.int64], n: int) -> None:
    assert draws.min() == 0
    assert draws.max() <= n - 1
    i = np.arange(n)
    law = np.log((i + 2) / (i + 1)) / np.log(n + 1)
    counts, last = np.bincount(draws, minlength=n), min(n, 40) - 1
    lumped = np.append(counts[:last], counts[last:].sum())
    expected = np.append(law[:last], 1.0 - law[:last].sum())
    if n == 1:
        assert lumped.tolist() == [len(draws)]
    else:
        assert stats.chisquare(lumped, len(draws) * expected).pvalue > 1e-4


@pytest.mark.parametrize("n", [1, 2, 3, 20, 300])
def test_numbers_are_uniform_on_a_log_scale(n: int) -> None:
    rng = np.random.default_rng(n)
    assert_log_uniform(np.array([log_uniform(n, rng) for _ in range(20_000)]), n)


def test_the_largest_random_number_is_within_the_range() -> None:
    class Edge(np.random.Generator):
        def random(self, *size: Any, **_: Any) -> Any:
            return np.full(size[0] if size else (), 1.0 - 2.0**-53)

    edge = Edge(np.random.PCG64(0))
    for n in range(1, 2000):
        assert log_uniform(n, edge) == n - 1


@pytest.mark.parametrize("n", [1, 5, GOOD, 300])
def test_good_rows_are_among_the_first(n: int) -> None:
    rng = np.random.default_rng(n)
    order = rng.permutation(n)
    place = np.argsort(order)
    draws = place[[good(order, rng) for _ in range(5000)]]
    assert_log_uniform(draws, min(n, GOOD))
