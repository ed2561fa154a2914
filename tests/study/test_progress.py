"""How far a run is, for those who look at it: the log, a terminal, a notebook."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import ebo

RUN: dict[str, Any] = {"batch_size": 3, "iterations": 2, "initial": 4}


def f(x: Any) -> float:
    if x[0] > 0.9:
        raise ValueError("too far")
    return float(-x[0])


def run(**options: Any) -> None:
    ebo.maximize(f, ebo.box([0], [1]), **{**RUN, **options})


def test_a_line_a_batch(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ebo")
    run()
    lines = [record.getMessage() for record in caplog.records]
    assert all(record.name == "ebo" for record in caplog.records)
    assert [line.split(",")[0] for line in lines] == [
        "batch 1 of 3: 4 of 10 evaluations",
        "batch 2 of 3: 7 of 10 evaluations",
        "batch 3 of 3: 10 of 10 evaluations",
    ]
    for line in lines:
        assert re.search(r", best -0[.\d]*, [01] failed, [\d.e+]+/s", line)
    assert [line.endswith(" left") for line in lines] == [True, True, False]


def test_python_shows_nothing_unless_it_is_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    code = "import ebo; ebo.maximize(lambda x: x[0], ebo.box([0], [1]), batch_size=2, iterations=1)"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert capfd.readouterr() == ("", "")


def test_the_command_line_with_its_output_in_files(tmp_path: Path) -> None:
    (tmp_path / "o.py").write_text("def f(p):\n    return p['x']\n")
    (tmp_path / "s.toml").write_text(
        "[objective]\npython = 'o:f'\n[space]\nx = {float = [0, 1]}\n"
        "[search]\nbatch_size = 3\niterations = 2\n[evaluate]\nworkers = 1\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "ebo", "run", "s.toml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stderr.splitlines()
    assert len(lines) == 3
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d batch 1 of 3: 3 of 9 evaluations, ", lines[0])
    assert "batch" not in done.stdout


def test_a_bar_in_a_notebook(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "ebo")
    monkeypatch.setattr(logging.getLogger("ebo"), "handlers", [])  # of a command before
    shown: list[dict[str, str]] = []

    class Handle:
        def update(self, data: dict[str, str], raw: bool) -> None:
            assert raw
            shown.append(data)

    def display(data: dict[str, str], raw: bool, display_id: bool) -> Handle:
        assert raw
        assert display_id
        shown.append(data)
        return Handle()

    ipython, module = ModuleType("IPython"), ModuleType("IPython.display")
    shell: Any = SimpleNamespace(kernel=object())
    vars(ipython)["get_ipython"] = lambda: shell
    vars(module)["display"] = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    run()
    assert shown[0]["text/plain"].startswith("0 of 10 evaluations · no value yet")
    assert shown[-1]["text/plain"].startswith("10 of 10 evaluations · best -0")
    assert '<progress value="10" max="10"></progress>' in shown[-1]["text/html"]
    assert not caplog.records

    shown.clear()
    run(progress=False)
    assert not shown
    assert len(caplog.records) == 3

    shell = SimpleNamespace()  # IPython at a prompt
    run()
    assert not shown
    assert capsys.readouterr() == ("", "")
