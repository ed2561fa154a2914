"""The two layers of the code: numerics know no files, processes or command line."""

from __future__ import annotations

import ast
from pathlib import Path

import ebo

ROOT = Path(ebo.__file__).parent
UPPER = (
    "ebo.cli",
    "ebo.bench",
    "ebo.study",
    "typer",
    "rich",
    "matplotlib",
    "concurrent",
    "multiprocessing",
)


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def test_numerics_import_nothing_of_the_upper_layer() -> None:
    names = [
        "acquisition",
        "batch",
        "arrays",
        "checks",
        "learn",
        "observations",
        "outcome",
        "partition",
        "search",
        "settings",
        "polish",
        "probe",
        "sync",
        "values",
    ]
    lower = [
        *ROOT.glob("tilegp/*.py"),
        *ROOT.glob("space/*.py"),
        *(ROOT / f"{name}.py" for name in names),
    ]
    assert len(lower) >= 19
    for path in lower:
        for name in imports(path):
            assert not name.startswith(UPPER), f"{path.name} imports {name}"
