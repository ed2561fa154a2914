"""The experiment on acquisition functions: what it makes of its runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebo.bench.experiments import Notes, acquisition, get
from ebo.bench.experiments.acquisition import METHODS, OURS, SCALES, Scale

TINY = Scale(seeds=2, dims=3, largest_group=2, initial=4, iterations=3, points=60)


def made_up(ours: float, rivals: float) -> dict[str, Any]:
    """A result with given regrets at the end, of three functions."""
    ends = dict.fromkeys(METHODS, rivals) | {OURS: ours, "random": 9.0}
    curves = {method: [[9.0, 9.0, end + 0.1 * i] for i in range(3)] for method, end in ends.items()}
    sizes = {"D": 10, "group": 2, "points": 9, "initial": 4, "iterations": 2, "functions": 3}
    return {**sizes, "regret": curves, "over": [1.5, 1.2, 2.0]}


def test_a_run_is_noted_and_is_the_same_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = acquisition.run(TINY, 2, Notes(tmp_path, "acquisition"))
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    for runs in result["regret"].values():
        assert np.shape(runs) == (2, 4)
        assert (np.diff(runs, axis=1) <= 0).all()
        assert np.min(runs) >= -1e-9
    starts = {tuple(run[0] for run in runs) for runs in result["regret"].values()}
    assert len(starts) == 1, "all begin with the same points"
    assert len(result["over"]) == 2

    def never(*_: object) -> None:
        raise AssertionError("done again")

    monkeypatch.setattr(acquisition, "optimise", never)
    monkeypatch.setattr(acquisition, "function", never)
    assert acquisition.run(TINY, 2, Notes(tmp_path, "acquisition")) == result
    with pytest.raises(AssertionError, match="done again"):  # a function more
        acquisition.run(TINY, 3, Notes(tmp_path, "acquisition"))
    assert [file.stat().st_size > 0 for file in acquisition.figures(result, tmp_path)] == [True]


def test_functions_are_of_the_prior_that_methods_are_told() -> None:
    scale = Scale(seeds=1, dims=8, largest_group=2, initial=4, iterations=3, points=300)
    values = []
    for seed in range(30):
        problem = acquisition.function(scale, seed)
        assert max(len(group) for group in problem.groups) <= 2
        values.append(
            problem(np.random.default_rng(seed).random((5, 8))) / len(problem.groups) ** 0.5
        )
    # An interpolant varies a little less than the process, between its points.
    assert 0.7 < np.mean(np.square(values)) < 1.2


def test_variances_of_components_sum_to_that_of_f_without_data_only() -> None:
    problem = acquisition.function(replace(TINY, dims=6, largest_group=1), 0)
    few = acquisition.overestimate(problem, np.zeros((1, 6)), 0)
    many = acquisition.overestimate(problem, np.random.default_rng(0).random((60, 6)), 0)
    assert 1.0 <= few < 1.1 < many


def test_claims_and_tables() -> None:
    better, variance = acquisition.claims(made_up(1.0, 2.0))
    assert better.holds
    assert variance.holds
    assert "lower on 3 of 3 functions" in better.found
    assert not acquisition.claims(made_up(2.0, 1.0))[0].holds
    assert acquisition.claims(made_up(1.0, 1.0))[0].holds
    ((title, rows),) = acquisition.tables(made_up(1.0, 2.0)).items()
    assert "mean of 3 functions of 10 dimensions" in title
    assert [row["best on"] for row in rows] == [3, 0, 0, 0, 0]
    assert rows[0]["after 2"] == pytest.approx(1.1)


def test_scales() -> None:
    assert get("acquisition").SCALES is SCALES
    assert list(SCALES) == ["smoke", "small", "paper"]
    assert SCALES["small"].seeds >= 10
    assert SCALES["paper"].seeds == 20
