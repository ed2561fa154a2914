"""Every code block of CONTRIBUTING.md is run, in order."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import cast
from unittest.mock import patch

import numpy as np
import pytest

import ebo
from ebo.acquisition import ACQUISITIONS
from ebo.bench.experiments.base import Experiment, perform
from ebo.strategies import STRATEGIES
from ebo.tilegp.families import FAMILIES

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.M | re.S)
COMMANDS = [
    line.split("#")[0].strip()
    for language, block in BLOCKS
    if language == "sh"
    for line in block.splitlines()
]


def test_all_blocks_are_of_a_kind_that_is_tested() -> None:
    assert {language for language, _ in BLOCKS} == {"python", "sh"}


def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ModuleType("contributing")
    monkeypatch.setitem(sys.modules, "contributing", page)  # where dataclasses look
    with patch.dict(ACQUISITIONS), patch.dict(FAMILIES), patch.dict(STRATEGIES["moves"]):
        for language, block in BLOCKS:
            if language == "python":
                if "study.storage.memory" in block and not find_spec("ebo.study.storage.memory"):
                    continue  # to come
                exec(compile(block, "CONTRIBUTING.md", "exec"), vars(page))
                if "settings = " in block:
                    asks(page.settings)
    report = perform(cast(Experiment, page), "mine", "smoke", None, tmp_path, lambda text: None)
    assert report["claims"][0]["holds"]
    assert page.tables(report["result"])["Values"]


def asks(settings: ebo.Settings) -> None:
    """The settings that a block has made can be used."""
    optimizer = ebo.Optimizer(ebo.box([-1] * 4, [1] * 4), settings=settings)
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (40, 4))
    optimizer.tell(X, -np.sum(X**2, axis=1))
    assert optimizer.ask(4).shape == (4, 4)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_are_there(command: str) -> None:
    """Those of make as a dry run, files of tests, modules."""
    program, *words = shlex.split(command)
    if program == "make":
        line = ["make", "--dry-run", *words]
        assert subprocess.run(line, cwd=ROOT, capture_output=True, check=False).returncode == 0
    elif words[:2] == ["-m", "pytest"]:
        assert (ROOT / words[-1]).exists()
    else:
        assert [program, words[0]] == ["python", "-m"]
        assert find_spec(words[1])
