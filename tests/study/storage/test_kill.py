"""Kill -9 at any moment, and go on: nothing that was told is lost, nothing is there twice."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ebo.study.study import Study

BATCH, ITERATIONS, WORKERS = 8, 10, 2
TOTAL = BATCH * (1 + ITERATIONS)

# The evaluations that were told are noted only when `end_trials` has returned, so that all that is
# in `told` must be in the study; and each evaluation before it returns its value, in `evaluated`.
SCRIPT = """
import json, os, sys, time
from collections.abc import Mapping
from pathlib import Path
from ebo.settings import Settings
from ebo.space import box
from ebo.study.study import Study

folder, seed, batch, iterations, workers = Path(sys.argv[1]), *map(int, sys.argv[2:])

def note(name, what):
    fd = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, (json.dumps(what) + "\\n").encode())
    os.close(fd)

class Noted(Study):
    def end_trials(self, evaluations):
        super().end_trials(evaluations)
        for number, evaluation in evaluations.items():
            note("told", [int(number), evaluation.value])

def objective(x):
    time.sleep(0.001 + 0.008 * float(x[0]))
    value = -float(((x - 0.3) ** 2).sum())
    note("evaluated", [x.tolist(), value])
    return value

print("go", flush=True)
path, space = folder / "s.ebo", box([0.0] * 3, [1.0] * 3)
settings = Settings().changed(leaf_size=20, block_size=20, learn_from=60)
study = (
    Noted.open(path) if path.exists() else Noted.create(path, space, seed=seed, settings=settings)
)
with study:
    study.run(objective, batch_size=batch, iterations=iterations, workers=workers)
print("finished", flush=True)
"""

MARK = "EBO_TEST_MARK"


def soon(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return met


def survivors(mark: str) -> list[int]:
    """Processes that were started, by whomever, under a run with this mark."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:  # gone, or somebody else's
                continue
    return found


def start(folder: Path, seed: int, mark: str) -> subprocess.Popen[str]:
    """A run of the study in the folder; it returns when that is about to open the file."""
    numbers = map(str, (seed, BATCH, ITERATIONS, WORKERS))
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder), *numbers],
        stdout=subprocess.PIPE,
        env={**os.environ, MARK: mark, "OMP_NUM_THREADS": "1"},
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    return process


def end(process: subprocess.Popen[str]) -> str:
    """Wait for it; what it printed."""
    return process.communicate(timeout=120)[0]


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def points(folder: Path) -> list[tuple[Any, ...]]:
    with Study.open(folder / "s.ebo", read_only=True) as study:
        columns = study.trials()
    names = ("batch", *study.space.names, "value")
    return sorted(zip(*(columns[name].tolist() for name in names), strict=True))


@cache
def uninterrupted(seed: int) -> list[tuple[Any, ...]]:
    with TemporaryDirectory() as name:
        process = start(Path(name), seed, "reference")
        assert end(process) == "finished\n"
        return points(Path(name))


def check(folder: Path) -> None:
    """What must hold after every kill; the file is looked at as it was left."""
    path = folder / "s.ebo"
    if not path.exists():
        assert not (folder / "told").exists()
        return
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        stored = dict(db.execute("SELECT id, value FROM results").fetchall())
        assert not db.execute("SELECT id FROM results INTERSECT SELECT id FROM open").fetchall()
        assert len(db.execute("SELECT x FROM points").fetchall()) == len(
            set(db.execute("SELECT x FROM points").fetchall())
        )
    told = lines(folder / "told")
    assert len({number for number, _ in told}) == len(told), "told twice"
    for number, value in told:
        assert stored[number] == value
    with Study.open(path, read_only=True) as study:
        assert study.counts()["done"] == len(stored)


def survive(folder: Path, kills: int, seed: int) -> None:
    """Studies killed again and again, until so many kills; each is then finished and compared."""
    rng, done, number = random.Random(seed), 0, 0
    while done < kills:
        number += 1
        here, mark = folder / str(number), f"{folder.name}-{number}-{os.getpid()}"
        here.mkdir()
        killed, over = 0, False
        while done < kills and not over:
            process = start(here, number, mark)
            # Most in the middle, some while the file is made or opened.
            time.sleep(rng.choice([0.02, 0.3, 0.5]) * rng.random())
            process.send_signal(signal.SIGKILL)
            over = "finished" in end(process)
            assert over or process.returncode == -signal.SIGKILL
            assert soon(lambda mark=mark: not survivors(mark)), "processes are left"  # type: ignore[misc]
            check(here)
            if not over:
                done, killed = done + 1, killed + 1
        process = start(here, number, mark)
        assert end(process) == "finished\n"
        check(here)
        assert points(here) == uninterrupted(number)
        assert len(lines(here / "told")) <= TOTAL  # what was stored last may not have been noted
        assert TOTAL - killed <= len(lines(here / "told"))
        # Only what was under way is evaluated again.
        evaluated = lines(here / "evaluated")
        assert TOTAL <= len(evaluated) <= TOTAL + WORKERS * killed
        with Study.open(here / "s.ebo") as study:
            assert study.counts() == {**dict.fromkeys(study.counts(), 0), "done": TOTAL}
        assert sorted(path.name for path in here.iterdir()) == ["evaluated", "s.ebo", "told"]
        assert soon(lambda mark=mark: not survivors(mark))  # type: ignore[misc]


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_five_kills(tmp_path: Path) -> None:
    survive(tmp_path, 5, seed=0)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_thirty_kills(tmp_path: Path, seed: int) -> None:
    survive(tmp_path, 30, seed=seed)
