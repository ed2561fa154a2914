"""What `ebo status`, `ebo show` and exports tell."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ebo import Float, Int, Space, Study
from ebo.cli import app
from ebo.study.status import status_of
from ebo.study.storage.memory import MemoryStorage
from ebo.study.storage.sqlite import SQLiteStorage

SPACE = Space({"x": Float(0.0, 1.0), "n": Int(1, 50)})
TOML = """
[objective]
command = "sh -c 'sleep 30; echo {x} {n}'"
[space]
x = {float = [0, 1]}
n = {int = [1, 50]}
[search]
batch_size = 4
iterations = 2
initial = 3
[evaluate]
workers = 2
"""


def status(*arguments: object) -> dict[str, Any]:
    outcome = CliRunner().invoke(app, ["status", *map(str, arguments), "--json"])
    assert outcome.exit_code == 0, outcome.output
    found: dict[str, Any] = json.loads(outcome.stdout)
    return found


def test_after_kill_9_nothing_runs(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(TOML)
    run = subprocess.Popen(
        [sys.executable, "-m", "ebo", "run", "s.toml"], cwd=tmp_path, stderr=subprocess.DEVNULL
    )
    study, again = tmp_path / "s.ebo", "interrupted, will be tried again"
    try:
        end = time.monotonic() + 60
        while not (study.exists() and status(study)["running"]) and time.monotonic() < end:
            time.sleep(0.1)
        found = status(study)
        assert found["running"] == found["evaluations"] == 3
        assert again not in found
    finally:
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
    found = status(study)
    assert (found["running"], found[again], found["evaluations"]) == (0, 3, 3)
    assert found["target"] == status(tmp_path / "s.toml")["target"] == 3 + 2 * 4


def test_rate_and_time_left(tmp_path: Path) -> None:
    study = Study.create(tmp_path / "s.ebo", SPACE)
    (tmp_path / "s.toml").write_text(TOML)
    ids, _ = study.ask_trials(3)
    study.storage.start(ids, 1e9)
    assert "evaluations_per_second" not in status(tmp_path / "s.ebo")
    study.tell_trials({0: 1.0})
    time.sleep(0.1)
    study.tell_trials({1: 2.0})
    found = status(tmp_path / "s.ebo")
    rate = found["evaluations_per_second"]
    assert 0 < rate <= 10
    assert found["seconds_left"] == pytest.approx(9 / rate)
    assert found["best_value"] == 2.0
    study.close()
    assert "seconds_left" not in status(tmp_path / "s.ebo")


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_the_points_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, direction: str
) -> None:
    with Study.create(tmp_path / "s.ebo", SPACE, direction=direction) as study:
        study.tell([[0.5, 3], [0.25, 4], [0.1, 5]], [3.0, 1.0, np.nan])
        slow = study.best()[1]
    memory = Study.create(None, SPACE, direction=direction)
    memory.tell([[0.5, 3], [0.25, 4], [0.1, 5]], [3.0, 1.0, np.nan])
    assert isinstance(memory.storage, MemoryStorage)
    assert status_of(memory)["best_value"] == slow

    monkeypatch.delattr(SQLiteStorage, "trials")
    found = status(tmp_path / "s.ebo")
    assert (found["best_value"], found["failed"], found["done"]) == (slow, 1, 2)


def test_times_are_iso_and_whole_numbers_whole(tmp_path: Path) -> None:
    with Study.create(tmp_path / "s.ebo", SPACE) as study:
        study.tell([[0.5, 49]], [1.0])
        study.storage.add_told([[0.5, 2]], [1.0], time=1795015400.25)
        study.storage.add_told([[0.5, 3]], [1.0], time=1e300)
        study.ask(1)
        table, file = study.trials(), io.StringIO()
        study.write_csv(file)
    assert table["n"].dtype == np.int64
    assert table["finished"].dtype == "datetime64[ms]"
    assert np.isnat(table["finished"]).tolist() == [False, False, True, True]
    rows = [*csv.DictReader(io.StringIO(file.getvalue()))]
    assert rows[0]["n"] == "49"
    assert [row["finished"] for row in rows[1:]] == ["2026-11-18T15:23:20.250Z", "", ""]
    outcome = CliRunner().invoke(app, ["show", str(tmp_path / "s.ebo"), "1", "--json"])
    assert json.loads(outcome.stdout)["finished"] == "2026-11-18T15:23:20.250+00:00"
