"""`ebo bench ask` on the smallest sizes that it takes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ebo.arrays import Floats
from ebo.bench import ask
from ebo.optimizer import Optimizer

TINY = ask.Sizes(
    dims=(2, 3),
    observations=(30, 60),
    batch_size=4,
    filter_dims=3,
    filter_candidates=20,
    filter_batch=5,
    partition_points=200,
    partition_dims=2,
    partition_leaf_size=20,
    partition_leaves=20,
)


def test_every_size_is_timed_by_stage_and_its_growth_told() -> None:
    said: list[str] = []
    result = ask.run(0, said.append, TINY)
    json.dumps(result)
    assert set(result["seconds"]) == {"2", "3"}
    for dims in ("2", "3"):
        assert set(result["seconds"][dims]) == {"30", "60"}
        for stages in result["seconds"][dims].values():
            assert set(stages) == {"partition", "learn", "search", "filter", "total"}
            assert all(seconds > 0 for seconds in stages.values())
            assert sum(stages.values()) <= 2 * stages["total"]  # the stages are within the total
        totals = [result["seconds"][dims][n]["total"] for n in ("30", "60")]
        assert result["growth"][dims] == totals[1] / totals[0]
    assert result["filter_seconds"] > 0
    assert result["partition_seconds"] > 0
    assert "2 dimensions, N = 30" in said


def test_the_timed_ask_has_the_observations_it_is_named_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    optimizers: list[Optimizer] = []

    class Kept(Optimizer):
        def ask(self, n: int) -> Floats:
            optimizers.append(self)
            return super().ask(n)

    monkeypatch.setattr(ask, "Optimizer", Kept)
    seconds = ask.iteration_seconds(2, 30, 4, seed=1)
    first, second = optimizers
    assert first is second
    assert [step.observations for step in second.history] == [26, 30]
    assert len(second.pending) == 4  # of the timed ask alone
    assert {**second.history[-1].seconds, "total": seconds["total"]} == seconds


def test_half_of_the_points_are_close_to_the_best_of_the_others() -> None:
    rng = np.random.default_rng(0)
    f = ask.Sines(20, rng)
    X = ask.as_in_a_run(f, 20, 2_001, rng)
    assert X.shape == (2_001, 20)
    assert X.min() >= 0.0
    assert X.max() <= 1.0
    # In 20 dimensions no uniform point comes as close to anything as all of the others are.
    centre = np.median(X, axis=0)
    close = np.abs(X - centre).mean(axis=1) < 0.16
    best = X[close].mean(axis=0)
    assert 950 <= close.sum() <= 1_050
    assert f(np.tile(best, (100, 1))).mean() > f(X[~close]).mean() + 1.0


def test_the_function_has_unit_variance_and_is_seeded() -> None:
    X = np.random.default_rng(0).random((5_000, 30))
    f, g = (ask.Sines(30, np.random.default_rng(4)) for _ in range(2))
    values = f(X)
    assert np.array_equal(values, g(X))
    assert not np.array_equal(values, f(X))  # there is noise
    assert 0.8 < values.std() < 1.2


def test_fewer_observations_than_a_batch_are_refused() -> None:
    with pytest.raises(ValueError, match="4 observations; give more than one batch of 4"):
        ask.iteration_seconds(2, 4, 4, seed=0)
