"""The experiment on scalability: what it makes of its measurements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ebo.bench import gibbs
from ebo.bench.experiments import Notes, scalability
from ebo.bench.experiments.scalability import SCALES, Scale

TINY = Scale(2, (40, 120), (40, 120), 120, 1, 60.0)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gibbs, "SWEEPS", 1)


def made_up(ratio: float, *, size: int = 1_500, skl_rand: float = 0.96) -> dict[str, Any]:
    """A result in which SKL takes so many times longer than EBO."""
    quality = {"rand": 0.97, "adjusted_rand": 0.0, "leaf_rand": 0.93, "leaves": 20.0}
    skl = {"n": size, "seconds": 0.2 * ratio, "rand": skl_rand, "adjusted_rand": 0.0}
    return {
        "cores": 2,
        "dims": 20,
        "ebo": [
            {"n": size, "seconds": 0.2, **quality},
            {"n": 50_000, "seconds": 9.0, **quality},
        ],
        "skl": [skl],
        "speed": [
            {"threads": 1, "n": 5_000, "seconds": 2.0},
            {"threads": 2, "n": 5_000, "seconds": 1.1},
        ],
        "prior_rand": 0.91,
        "combined_prior_rand": 1.0,
    }


@pytest.mark.usefixtures("quick")
def test_a_run(tmp_path: Path) -> None:
    result = scalability.run(TINY, 2, Notes(tmp_path, "scalability"))
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert [row["n"] for row in result["ebo"]] == [row["n"] for row in result["skl"]] == [40, 120]
    assert result["ebo"][0]["leaves"] == 1
    assert result["ebo"][1]["leaves"] > 1
    assert result["speed"][0]["threads"] == 1
    for row in result["ebo"] + result["skl"]:
        assert row["seconds"] > 0
        assert 0 <= row["rand"] <= 1
    again = scalability.run(TINY, 2, Notes(tmp_path, "scalability"))
    assert again == result, "nothing is measured a second time"
    assert scalability.claims(result)
    assert all(rows for rows in scalability.tables(result).values())
    assert [file.name for file in scalability.figures(result, tmp_path)] == ["scalability.png"]


@pytest.mark.usefixtures("quick")
def test_skl_ends_where_its_time_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {100: 1.0, 200: 8.0, 400: 64.0}
    monkeypatch.setattr(
        scalability,
        "dense",
        lambda n, seed: {"n": n, "seconds": seconds[n], "rand": 1.0, "adjusted_rand": 1.0},
    )
    scale = Scale(1, (100,), (100, 200, 400), 100, 1, 63.0)
    result = scalability.run(scale, 1, Notes(tmp_path, "scalability"))
    assert [row["n"] for row in result["skl"]] == [100, 200]
    assert scalability.expected({"n": 200, "seconds": 8.0}, 400) == 64.0


def test_the_papers_figures() -> None:
    faster, rand, cores, many = scalability.claims(made_up(400.0))
    assert faster.holds
    assert rand.holds
    assert cores.holds
    assert many.holds
    assert "400 times at N = 1,500 on 2 cores: 0.2 s and 80 s" in faster.found
    assert "97.0% (mean of a leaf's own 93.0%) and 96.0%" in rand.found
    assert not scalability.claims(made_up(240.0))[0].holds
    assert not scalability.claims(made_up(400.0, size=1_000))[0].holds, "at another size"
    assert not scalability.claims(made_up(400.0, skl_rand=0.99))[1].holds


def test_numbers_of_cores() -> None:
    assert scalability.core_counts(1) == [1]
    assert scalability.core_counts(2) == [1, 2]
    assert scalability.core_counts(12) == [1, 2, 4, 8, 12]


def test_without_data_a_majority_has_every_dimension_apart() -> None:
    found = scalability.prior_rand()
    assert found["combined_prior_rand"] == 1.0
    assert 0.85 < found["prior_rand"] < 0.98


def test_means_over_seeds() -> None:
    rows = [{"n": 2, "seconds": 1.0}, {"n": 1, "seconds": 5.0}, {"n": 2, "seconds": 3.0}]
    assert scalability.averages(rows, "n") == [
        {"n": 1, "seconds": 5.0},
        {"n": 2, "seconds": 2.0},
    ]


def test_scales_go_as_far_as_the_paper() -> None:
    for name in ("small", "paper"):
        assert SCALES[name].sizes[0] == 100
        assert SCALES[name].sizes[-1] == 50_000
        assert SCALES[name].skl_sizes[-1] == 1_500
