"""`ebo bench store` on the smallest sizes that it takes."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from ebo.bench import store


def test_everything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "against_optuna", lambda *_: {"asked": True})
    monkeypatch.setattr(store, "find_spec", lambda name: name == "optuna")
    said: list[str] = []
    result = store.run(said.append, rows=450, dims=3, batch=100, optuna_trials=100)
    json.dumps(result)
    assert result["rows"] == 450  # the last batch is a smaller one
    assert (result["dims"], result["batch"], result["compared_batches"]) == (3, 100, 2)
    ratio = result["last_batches_seconds"] / result["first_batches_seconds"]
    assert result["last_over_first"] == ratio
    for name in ("write_rows_per_second", "load_rows_per_second", "load_seconds", "file_mb"):
        assert result[name] > 0
    for name in ("write_peak_mb", "load_peak_mb"):
        assert 10 < result[name] < 2000
    assert result["optuna"] == {"asked": True}
    assert said == ["writing 450 rows", "loading 450 rows"]


def test_without_optuna_the_rest_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "find_spec", lambda name: None)
    monkeypatch.setattr(store, "_apart", in_this_process)
    result = store.run(lambda _: None, rows=10, dims=2, batch=10, optuna_trials=10)
    assert "pip install optuna" in result["optuna"]


@pytest.mark.skipif(find_spec("optuna") is None, reason="optuna is not installed")
@pytest.mark.filterwarnings("ignore")  # Optuna's own
def test_optuna_beside_it(tmp_path: Path) -> None:
    result = store.against_optuna(lambda _: None, tmp_path, 20, 2, 10)
    json.dumps(result)
    ours = result["ebo_rows_per_second"]
    for kind in ("sqlite", "journal"):
        theirs = result[f"{kind}_rows_per_second"]
        ratio = result[f"ebo_over_{kind}"]
        assert ratio["write"] == ours["write"] / theirs["write"]
        assert ratio["write_by_parameter"] == ours["write"] / theirs["write_by_parameter"]
        assert ratio["load"] == ours["load"] / theirs["load"]


def test_less_than_a_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="rows is 5; give at least one batch of 10"):
        store.run(lambda _: None, rows=5, batch=10)


def in_this_process(function: str, *arguments: object) -> dict[str, float]:
    return {**getattr(store, function)(*arguments), "peak_mb": 1.0}
