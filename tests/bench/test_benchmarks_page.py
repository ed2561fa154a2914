"""docs/make_benchmarks.py: a page out of what `ebo bench` left."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from ebo.cli import app

SCRIPT = Path(__file__).parents[2] / "docs" / "make_benchmarks.py"


@pytest.fixture
def page(tmp_path: Path) -> ModuleType:
    """The script, writing into a folder of its own."""
    spec = importlib.util.spec_from_file_location("make_benchmarks", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder = tmp_path / "docs"
    folder.mkdir()
    module.PAGE, module.FIGURES = folder / "benchmarks.md", folder / "figures"  # type: ignore[attr-defined]
    module.REMARKS = folder / "remarks.md"  # type: ignore[attr-defined]
    module.REMARKS.write_text("# Benchmarks\n\nBefore all.\n\n## crossover\n\nAs it should be.\n")
    return module


def run(*arguments: str) -> None:
    result = CliRunner().invoke(app, ["bench", *arguments])
    assert result.exit_code == 0, result.output


def test_an_experiment_and_a_comparison(page: ModuleType, tmp_path: Path) -> None:
    run("crossover", "--scale", "smoke", "--out", str(tmp_path / "crossover-smoke"))
    out = tmp_path / "compare"
    few = ("--initial", "5", "--batches", "4", "--batch-size", "2", "--seeds", "2")
    run("compare", "--problems", "branin", "--methods", "random,cem", *few, "--out", str(out))
    page.main([tmp_path / "crossover-smoke", out])
    text = page.PAGE.read_text(encoding="utf-8")
    assert text.startswith("# Benchmarks\n\nBefore all.")
    assert "## crossover" in text
    assert "`ebo bench crossover --scale smoke --seeds 1`" in text
    assert "As it should be." in text
    assert "| should hold | found | |" in text
    command = "--problems branin --methods random,cem --seeds 2 --initial 5 --batches 4"
    assert f"`ebo bench compare {command} --batch-size 2`" in text
    assert "| cem |" in text
    figures = sorted(file.name for file in page.FIGURES.iterdir())
    assert "compare-branin.png" in figures
    assert all(f"](figures/{name})" in text for name in figures)


def test_other_sections_stay(page: ModuleType, tmp_path: Path) -> None:
    run("crossover", "--scale", "smoke", "--out", str(tmp_path / "crossover-smoke"))
    page.main([tmp_path / "crossover-smoke"])
    before = page.PAGE.read_text(encoding="utf-8")
    page.REMARKS.write_text(page.REMARKS.read_text().replace("As it should be.", "As hoped."))
    page.main([tmp_path])  # nothing new
    after = page.PAGE.read_text(encoding="utf-8")
    assert after == before.replace("As it should be.", "As hoped.")
    assert "As hoped." in after


def test_remarks_on_what_was_not_run(page: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="remarks on what was not run: crossover"):
        page.main([tmp_path])
