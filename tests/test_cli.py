"""The commands, run as a person would, on the smallest data that they take."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ebo
from ebo.bench import ask, basics, gibbs, structure
from ebo.cli import app, main


def test_help_names_the_commands_and_gives_examples() -> None:
    runner = CliRunner()
    assert "bench" in runner.invoke(app, ["--help"]).output
    for command in ("gibbs", "structure", "ask", "basics"):
        output = runner.invoke(app, ["bench", command, "--help"]).output
        assert "Example: ebo bench" in output


def test_bench_gibbs_prints_one_json_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gibbs, "CANDIDATE_SIZES", (20,))
    monkeypatch.setattr(gibbs, "SWEEP_SIZES", (100, 200))
    monkeypatch.setattr(gibbs, "SKL_SIZE", 60)
    monkeypatch.setattr(gibbs, "ROUNDS", 1)
    outcome = CliRunner().invoke(app, ["bench", "gibbs", "--json"])
    assert outcome.exit_code == 0, outcome.output
    result = json.loads(outcome.stdout)
    assert result["candidate_us_n20"] > 0
    assert result["scipy_cholesky_us_n20"] > 0
    assert set(result["sweep_seconds"]) == {"100", "200"}
    assert result["skl_ratio_n60"] > 0
    assert result["two_threads_bit_identical"] is True


def test_bench_structure_prints_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structure, "POINTS", 60)
    monkeypatch.setattr(structure, "CASES", (structure.Case("tiny", 2, 0.3, ((30, 2), (60, 2))),))
    outcome = CliRunner().invoke(app, ["bench", "structure", "--seeds", "1"])
    assert outcome.exit_code == 0, outcome.output
    assert "pooled_adjusted_rand" in outcome.stdout


def tiny_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = ask.Sizes(
        dims=(2,),
        observations=(20, 40),
        batch_size=3,
        filter_dims=2,
        filter_candidates=20,
        filter_batch=5,
        partition_points=100,
        partition_dims=2,
    )
    monkeypatch.setattr(ask, "FULL", tiny)


def test_bench_ask_prints_one_json_object(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_ask(monkeypatch)
    outcome = CliRunner().invoke(app, ["bench", "ask", "--json", "--seed", "3"])
    assert outcome.exit_code == 0, outcome.output
    result = json.loads(outcome.stdout)
    assert set(result["seconds"]["2"]) == {"20", "40"}
    assert result["growth"]["2"] > 0
    assert result["filter_seconds"] > 0
    assert result["partition_seconds"] > 0


def test_bench_ask_prints_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_ask(monkeypatch)
    outcome = CliRunner().invoke(app, ["bench", "ask"])
    assert outcome.exit_code == 0, outcome.output
    for word in ("partition", "search", "total", "growth 2", "filter_seconds"):
        assert word in outcome.stdout


@pytest.mark.parametrize("options", [["--json"], []])
def test_bench_basics_prints_an_object_or_tables(
    monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.setattr(basics, "ILLUSTRATION", basics.Case("illustration", 8, 4, 1))
    monkeypatch.setattr(basics, "PROBLEMS", (basics.Case("branin", 8, 4, 1),))
    outcome = CliRunner().invoke(app, ["bench", "basics", "--seeds", "1", *options])
    assert outcome.exit_code == 0, outcome.output
    if options:
        result = json.loads(outcome.stdout)
        assert set(result["illustration"]["median_regret"]) == {"default", "paper"}
        assert len(result["problems"]["branin"]["seeds"]) == 1
    else:
        for word in ("median", "branin", "sobol"):
            assert word in outcome.stdout


def test_the_demonstration_finds_the_groups_and_draws_them(tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "examples" / "structure.py"
    done = subprocess.run(
        [sys.executable, str(script), "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "adjusted Rand index 1.00" in done.stdout
    assert (tmp_path / "structure.png").stat().st_size > 10_000


def test_the_readme_examples_run() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    examples = [part.split("```")[0] for part in readme.split("```python\n")[1:]]
    assert len(examples) == 2
    optimised: dict[str, Any] = {}
    exec(compile(examples[0], "README.md", "exec"), optimised)
    assert optimised["result"].best_x["act"] == "gelu"
    assert optimised["opt"].best()[1] > -1.0
    learned: dict[str, Any] = {}
    exec(compile(examples[1], "README.md", "exec"), learned)
    z = learned["state"].z
    assert z[0] == z[2] != z[1]


def test_the_version() -> None:
    outcome = CliRunner().invoke(app, ["--version"])
    assert (outcome.exit_code, outcome.output) == (0, f"ebo {ebo.__version__}\n")


def ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[Any, str, str]:
    monkeypatch.setattr("sys.argv", ["ebo", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    return caught.value.code, *capsys.readouterr()


@pytest.mark.parametrize(
    ("package", "arguments"),
    [
        ("Box2D", ("push", "--scale", "smoke")),
        ("cma", ("compare", "--problems", "branin", "--methods", "random,cma")),
        ("ioh", ("compare", "--problems", "bbob1-2", "--methods", "random")),
    ],
)
def test_a_missing_package_is_an_error(
    package: str,
    arguments: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    small = ("--initial", "4", "--batches", "1", "--batch-size", "2", "--seeds", "1")
    more = small if arguments[0] == "compare" else ()
    code, out, err = ended(monkeypatch, capsys, "bench", *arguments, *more)
    assert code == 1
    assert out == ""
    assert "pip install 'ebo[bench]'" in err
    assert package in err
    assert "Traceback" not in err


def test_the_template_of_a_comparison_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = ended(monkeypatch, capsys, "bench", "compare", "--template")
    assert code == 0
    Path("mine_template.py").write_text(out)
    words = "bench compare --problems mine_template:problem --methods random,mine_template:method"
    small = ("--initial", "4", "--batches", "2", "--batch-size", "3", "--seeds", "1", "--json")
    code, out, err = ended(monkeypatch, capsys, *words.split(), *small)
    assert code == 0, err
    (compared,) = json.loads(out)["problems"].values()
    for name in ("random", "mine_template:method"):
        assert compared["methods"][name]["failed"] == {}
    monkeypatch.setenv("COLUMNS", "200")
    shown = CliRunner().invoke(app, ["bench", "compare", "--help"]).output
    for word in ("ask(n)", "tell(X, y)", "--template"):
        assert word in shown
