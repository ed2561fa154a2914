"""`ebo bench compare` in processes: the same results, progress, and interruption at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest

from ebo.arrays import Floats
from ebo.bench import compare
from ebo.bench.baselines.uniform import Random
from tests.bench.test_compare import TINY, Raises, run, stable

HERE = __name__


def test_processes_do_not_show_in_the_results(tmp_path: Path) -> None:
    plan = replace(TINY, problems=("hartmann6",), methods=("random", "cem-full", "ebo"), seeds=1)
    one, two = run(plan, tmp_path / "1"), run(plan, tmp_path / "2", jobs=2)
    assert stable(one) == stable(two)
    records = compare.read(tmp_path / "2" / "compare.jsonl")
    assert {record["jobs"] for record in records} == {2}


def test_processes_tell_how_far_they_are(tmp_path: Path) -> None:
    plan = replace(TINY, methods=("random", f"{Raises.__module__}:Raises"), seeds=1)
    told: list[tuple[int, str]] = []
    compare.run(plan, tmp_path, lambda done, text: told.append((done, text)), jobs=2)
    assert sum(done for done, _ in told) == 2 * 2 * 4
    said = [text for _, text in told]
    for problem in plan.problems:
        assert [f"{problem}, random, seed 0, {i} of 4" in said for i in range(1, 5)] == [True] * 4


class Ponders(Random):
    """A method that takes its time, and leaves word that it has begun."""

    def ask(self, n: int) -> Floats:
        Path(os.environ["EBO_TEST_BEGUN"], str(os.getpid())).touch()
        time.sleep(float(os.environ.get("EBO_TEST_SECONDS", "600")))
        Path(os.environ["EBO_TEST_BEGUN"], "done").touch()
        return super().ask(n)


@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGKILL, -9)]
)
def test_an_end_does_not_wait_for_what_is_being_done(
    tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    """A signal to the command alone, as a supervisor sends it; killed, it can tell nobody."""
    begun = tmp_path / "begun"
    begun.mkdir()
    chosen = ["--problems", "ackley3,hartmann6", "--methods", f"{HERE}:Ponders"]
    words = ["bench", "compare", *chosen, "--seeds", "1", "--jobs", "2", "--out", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-c", "from ebo.cli import main; main()", *words],
        env={**os.environ, "EBO_TEST_BEGUN": str(begun), "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        end = time.monotonic() + 120.0
        while len(list(begun.iterdir())) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        assert len(list(begun.iterdir())) == 2
        process.send_signal(sent)
        # Ends when the workers, who have the other end of the pipe too, are gone; and not in 600 s.
        _, errors = process.communicate(timeout=120.0)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == code
    assert ("The same command goes on" in errors) == (sent == signal.SIGINT)


def test_an_interruption_while_tasks_are_handed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It once waited for those that had been, which waited for someone to hear their reports."""
    handed_out: list[Any] = []

    class Interrupted(ProcessPoolExecutor):
        def submit(self, *arguments: Any, **options: Any) -> Any:
            if handed_out:
                raise KeyboardInterrupt
            handed_out.append(arguments)
            return super().submit(*arguments, **options)

    monkeypatch.setattr(compare, "ProcessPoolExecutor", Interrupted)
    monkeypatch.setenv("EBO_TEST_BEGUN", str(tmp_path))
    monkeypatch.setenv("EBO_TEST_SECONDS", "20")
    plan = replace(TINY, methods=(f"{HERE}:Ponders",), seeds=1, batches=1)
    others = active_children()
    with pytest.raises(KeyboardInterrupt):
        run(plan, tmp_path / "out", jobs=2)
    end = time.monotonic() + 60.0
    while (left := set(active_children()) - set(others)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not left
    assert not (tmp_path / "done").exists()  # they did not go by themselves
