"""A run that is stopped by signals at any moment, again and again, comes to the same end."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ebo.study import Study

OBJECTIVE = """
import time

def f(p):
    time.sleep(0.02)
    return p["y"] - (p["x"] - 0.3) ** 2
"""
TOML = """
[objective]
python = "quick:f"
[space]
x = {float = [0, 1]}
y = {float = [0, 1]}
[search]
batch_size = 8
iterations = 3
leaf_size = 20
[evaluate]
workers = 2
"""
TOTAL = 32


def begin(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ebo", "run", "s.toml"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def trials(folder: Path) -> tuple[dict[str, int], np.ndarray, np.ndarray]:
    with Study.open(folder / "s.ebo", read_only=True) as study:
        table = study.trials()
        return study.counts(), np.column_stack([table["x"], table["y"]]), table["value"]


def stopped_again_and_again(folder: Path, kind: signal.Signals, rounds: int) -> None:
    """Send the signal at random moments, then let the run come to its end."""
    rng, ends = random.Random(int(kind)), []
    for place in (folder / "whole", folder / "stopped"):
        place.mkdir()
        (place / "quick.py").write_text(OBJECTIVE)
        (place / "s.toml").write_text(TOML)
    whole = begin(folder / "whole")
    _, err = whole.communicate(timeout=120)
    assert whole.returncode == 0, err
    for _ in range(rounds):
        process = begin(folder / "stopped")
        time.sleep(rng.uniform(0.0, 2.5))
        process.send_signal(kind)
        _, err = process.communicate(timeout=60)
        assert "Traceback" not in err
        ends.append(process.returncode)
    assert set(ends) <= {0, 130, -kind}
    process = begin(folder / "stopped")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    counts, X, value = trials(folder / "stopped")
    assert counts == {**dict.fromkeys(counts, 0), "done": TOTAL}
    _, expected, values = trials(folder / "whole")
    np.testing.assert_array_equal(X, expected)
    np.testing.assert_array_equal(value, values)


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_a_run_stopped_twice_ends_as_if_it_had_not_been(
    tmp_path: Path, kind: signal.Signals
) -> None:
    stopped_again_and_again(tmp_path, kind, 2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_a_run_stopped_twenty_times_ends_as_if_it_had_not_been(
    tmp_path: Path, kind: signal.Signals
) -> None:
    stopped_again_and_again(tmp_path, kind, 20)
