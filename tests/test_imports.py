"""What importing costs, told by the modules that are loaded, and Ctrl-C while it lasts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import ebo

SLOW = {
    "scipy.special",
    "scipy.linalg",
    "scipy.sparse",
    "scipy.optimize",
    "scipy.stats",
    "matplotlib",
    "typer",
    "rich",
    "multiprocessing",
    "concurrent.futures.thread",
}


def loaded_by(code: str) -> set[str]:
    """The modules that are loaded when the code has run in a process of its own."""
    told = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_the_package_loads_nothing_slow() -> None:
    assert not loaded_by("import ebo") & {*SLOW, "numpy"}


def test_nor_do_its_names_before_they_are_used() -> None:
    code = "import ebo\nebo.Optimizer(ebo.box([0], [1])), ebo.Study, ebo.maximize"
    found = loaded_by(code)
    assert "numpy" in found
    assert not found & SLOW


def test_help_does_without_numpy() -> None:
    found = loaded_by("from ebo.cli import app\napp(['--help'], standalone_mode=False)")
    assert "typer" in found
    assert not found & {"numpy", "scipy", "matplotlib", "multiprocessing"}


def test_all_names_are_there_and_no_others() -> None:
    for name in ebo.__all__:
        assert getattr(ebo, name).__name__ == name
    assert set(ebo.__all__) | {"__version__"} <= set(dir(ebo))
    code = "import ebo\nassert ebo.acquisition.register and ebo.study.AllFailedError"
    assert "ebo.acquisition" in loaded_by(code)
    for name in ("nothing", "_nothing", "__path_hooks__"):
        with pytest.raises(AttributeError, match=name):
            getattr(ebo, name)


@pytest.mark.parametrize("module", ["typer", "numpy"])  # of the command line, and of a command
def test_ctrl_c_while_modules_are_imported(tmp_path: Path, module: str) -> None:
    code = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(5)\n"
    (tmp_path / f"{module}.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "ebo", "status", "study.ebo"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
