"""`ebo bench NAME` for every experiment at its smallest; notes; wrong options."""

from __future__ import annotations

import json
import struct
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ebo.bench.experiments import EXPERIMENTS, base, get
from ebo.bench.experiments.base import Claim, Notes, perform
from ebo.cli import app

LARGEST = 2_000_000  # bytes of a JSON file
WITHOUT_CLAIMS = ("ablation",)


def png_size(file: Path) -> tuple[int, int]:
    """Width and height, from the header of a PNG file."""
    data = file.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert data[12:16] == b"IHDR"
    assert data[-8:-4] == b"IEND"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_smoke_by_the_command_line(name: str, tmp_path: Path) -> None:
    # One folder for both calls, so that the second only reads what the first one noted.
    options = ["bench", name, "--scale", "smoke", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, [*options, "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    stored = (tmp_path / f"{name}.json").read_text(encoding="utf-8")
    assert json.loads(stored) == report
    assert len(stored) < LARGEST

    assert (report["experiment"], report["scale"]) == (name, "smoke")
    assert report["seeds"] == get(name).SCALES["smoke"].seeds
    assert report["command"].startswith(f"ebo bench {name} ")
    assert report["figures"]
    for file in report["figures"]:
        width, height = png_size(tmp_path / file)
        assert 400 <= width <= 4_000, file
        assert 250 <= height <= 4_000, file
    assert bool(report["claims"]) == (name not in WITHOUT_CLAIMS)
    for claim in report["claims"]:
        assert set(claim) == {"text", "found", "holds"}
        assert claim["text"]
        assert claim["found"]
        assert isinstance(claim["holds"], bool)

    table = CliRunner().invoke(app, options)
    assert table.exit_code == 0, table.output
    titles = get(name).tables(report["result"])
    assert titles
    assert all(rows for rows in titles.values())
    assert "┃" in table.stdout
    assert ("hold" in table.stdout) == bool(report["claims"])  # holds, or does not hold
    for file in report["figures"]:
        assert file in table.stdout.replace("\n", "")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_three_scales(name: str) -> None:
    experiment = get(name)
    assert list(experiment.SCALES) == ["smoke", "small", "paper"]
    assert all(scale.seeds >= 1 for scale in experiment.SCALES.values())
    for function in ("run", "tables", "figures", "claims"):
        assert callable(getattr(experiment, function))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--scale", "huge"], "huge"),
        (["--seeds", "0"], "seeds"),
        (["--seeds", "-3"], "seeds"),
        (["--seeds", "many"], "integer"),
    ],
)
def test_wrong_options(options: list[str], said: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["bench", "crossover", "--out", str(tmp_path), *options])
    assert result.exit_code == 2
    assert said in result.output
    assert not list(tmp_path.iterdir())


class Counted:
    """An experiment of numbered parts, one of which Ctrl-C may interrupt."""

    class Scale:
        seeds = 3

    SCALES: dict[str, Any] = {"smoke": Scale()}  # noqa: RUF012

    def __init__(self, stop_at: int | None = None) -> None:
        self.stop_at, self.done = stop_at, list[int]()

    def run(self, scale: Any, seeds: int, notes: Notes) -> dict[str, Any]:
        def part(i: int) -> dict[str, int]:
            if i == self.stop_at:
                raise KeyboardInterrupt
            self.done.append(i)
            return {"square": i * i}

        return {"parts": [notes.part({"number": i}, partial(part, i)) for i in range(seeds)]}

    def tables(self, result: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
        return {"Squares": result["parts"]}

    def figures(self, result: dict[str, Any], folder: Path) -> list[Path]:
        return []

    def claims(self, result: dict[str, Any]) -> list[Claim]:
        return [Claim("squares", "are squares", True)]


def performed(experiment: Counted, folder: Path) -> dict[str, Any]:
    return perform(experiment, "counted", "smoke", None, folder, lambda text: None)


def test_parts_are_not_done_twice(tmp_path: Path) -> None:
    first, second = Counted(), Counted()
    result = performed(first, tmp_path)["result"]
    assert first.done == [0, 1, 2]
    assert performed(second, tmp_path)["result"] == result
    assert second.done == []
    third = Counted()
    perform(third, "counted", "smoke", 5, tmp_path, lambda text: None)
    assert third.done == [3, 4]


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        performed(Counted(stop_at=1), tmp_path)
    assert not (tmp_path / "counted.json").exists()
    again = Counted()
    report = performed(again, tmp_path)
    assert again.done == [1, 2]
    assert report["result"] == {"parts": [{"square": 0}, {"square": 1}, {"square": 4}]}


def test_ctrl_c_is_told_by_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(base, "perform", interrupted)
    result = CliRunner().invoke(app, ["bench", "crossover", "--out", str(tmp_path / "out")])
    assert result.exit_code == 130
    assert "The same command goes on" in result.output


def test_a_torn_last_line_is_dropped_and_done_again(tmp_path: Path) -> None:
    performed(Counted(), tmp_path)
    file = tmp_path / "counted.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])
    again = Counted()
    performed(again, tmp_path)
    assert again.done == [2]
    assert file.read_bytes() == whole


@pytest.mark.parametrize("line", ["nonsense", '{"key": 1}', "[1, 2]", "3"])
def test_a_broken_line_is_told(line: str, tmp_path: Path) -> None:
    performed(Counted(), tmp_path)
    file = tmp_path / "counted.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines()
    file.write_text("\n".join([lines[0], line, lines[2]]) + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"counted\.jsonl, line 2 is no result"):
        performed(Counted(), tmp_path)


def test_what_a_part_says_and_returns(tmp_path: Path) -> None:
    said: list[str] = []
    notes = Notes(tmp_path / "deep" / "folder", "x", said.append)
    pair: Any = {"pair": (1, 2)}
    key = {"seed": 3, "size": 20}
    assert notes.part(key, lambda: pair) == {"pair": [1, 2]}  # as it is read again
    assert said == ["seed 3, size 20"]
    assert notes.part({"size": 20, "seed": 3}, lambda: None) == {"pair": [1, 2]}
    assert len(said) == 1
    with pytest.raises(ValueError, match="Out of range float"):
        notes.part({"seed": 4}, lambda: float("nan"))
