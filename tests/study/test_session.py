"""`ebo` as from a shell."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import typer.main
from typer.testing import CliRunner

from ebo.cli import app, main
from ebo.settings import Settings
from ebo.space import Categorical, Float, Int, Space
from ebo.study.loop import AllFailedError
from ebo.study.storage.base import StudyError
from ebo.study.storage.trial import Evaluation, TrialState
from ebo.study.study import Study

SMALL = Settings().changed(leaf_size=20, block_size=20, learn_from=60)
SPACE = Space(gain=Float(1e-3, 10.0, log=True), steps=Int(1, 50), mode=Categorical(["slow", "[b]"]))
COMMANDS = (
    "init",
    "run",
    "status",
    "best",
    "show",
    "export",
    "import",
    "ask",
    "tell",
    "report",
    "retry",
)

OBJECTIVE = """
import math
def evaluate(p):
    return -abs(math.log10(p["gain"])) - abs(p["steps"] - 20) / 20 + (p["mode"] == "fast")
"""


LOGGED = re.compile(r"[-\d]+ [:\d]+ batch \d+ of \d+: [\d,]+ of [\d,]+ evaluations, .*").fullmatch


class Ended(NamedTuple):
    code: int
    out: str
    err: str


class Shell:
    """Commands in this process, which is the same and faster."""

    def __init__(self, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._patch, self._capsys = patch, capsys

    def __call__(self, *arguments: object) -> Ended:
        self._patch.setattr("sys.argv", ["ebo", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = self._capsys.readouterr()
        told = [line for line in err.splitlines(True) if not LOGGED(line.rstrip())]
        return Ended(int(ended.value.code or 0), out, "".join(told))

    def good(self, *arguments: object) -> str:
        code, out, err = self(*arguments)
        assert (code, err) == (0, ""), (out, err)
        return out

    def bad(self, *arguments: object, code: int = 1) -> str:
        ended = self(*arguments)
        assert ended.code == code, ended
        assert "Traceback" not in ended.err
        if code == 1:
            assert ended.err.startswith("error: ")
            assert ended.out == ""
        return ended.err


@pytest.fixture
def ebo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    monkeypatch.chdir(tmp_path)
    return Shell(monkeypatch, capsys)


def f(params: dict[str, Any]) -> float:
    return -abs(math.log10(params["gain"])) - abs(float(params["steps"]) - 20) / 20


@pytest.fixture(scope="module")
def finished_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """18 evaluations, and two points that are waited for."""
    path = tmp_path_factory.mktemp("finished") / "s.ebo"
    with Study.create(path, SPACE, settings=SMALL) as study:
        study.run(f, batch_size=6, iterations=2, how="threads", workers=1)
        study.ask(2)
    return path


def test_every_command_has_help_with_an_example() -> None:
    command: Any = typer.main.get_command(app)
    assert set(COMMANDS) <= set(command.commands)
    for name, one in command.commands.items():
        if not hasattr(one, "commands"):
            shown = CliRunner().invoke(app, [name, "--help"])
            assert shown.exit_code == 0
            assert f"Example: ebo {name}" in " ".join(shown.output.split())
    for name in ("run", "status", "best", "show"):
        assert "--json" in CliRunner().invoke(app, [name, "--help"], terminal_width=200).output


def test_a_session(ebo: Shell, tmp_path: Path) -> None:
    assert ebo.good("init", "mine.toml") == "Wrote mine.toml. Edit it, then: ebo run mine.toml\n"
    text = Path("mine.toml").read_text()
    text = text.replace("objective:evaluate", "session_objective:evaluate")
    text = text.replace("batch_size = 100", "batch_size = 6").replace("= 20 ", "= 2 ")
    Path("mine.toml").write_text(text + "workers = 2\n")
    Path("session_objective.py").write_text(OBJECTIVE)

    out = ebo.good("run", "mine.toml")
    assert "in 18 evaluations" in out
    assert "Nothing to do" not in out
    assert Path("mine.ebo").exists()

    for name in ("mine.toml", "mine.ebo"):
        status = json.loads(ebo.good("status", name, "--json"))
        assert status["done"] == status["evaluations"] == 18
        assert (status["batches"], status["parameters"], status["failed"]) == (3, 3, 0)
    best = json.loads(ebo.good("best", "mine.ebo", "--json"))
    assert best["value"] == status["best_value"]
    assert set(best["params"]) == {"gain", "steps", "mode"}
    assert "done" in ebo.good("status", "mine.ebo")
    assert "gain" in ebo.good("best", "mine.ebo")
    shown = json.loads(ebo.good("show", "mine.ebo", 3, "--json"))
    assert (shown["id"], shown["state"], shown["batch"]) == (3, "done", 0)
    assert shown["attempts"] == 1
    assert "attempts" in ebo.good("show", "mine.ebo", 3)

    assert ebo.good("export", "mine.ebo", "-o", "all.csv") == "Wrote 18 trials to all.csv.\n"
    assert ebo.good("export", "mine.ebo") == Path("all.csv").read_text()
    rows = list(csv.DictReader(io.StringIO(Path("all.csv").read_text())))
    assert max(float(row["value"]) for row in rows) == best["value"]

    asked = ebo.good("ask", "mine.ebo", "-n", 4)
    points = list(csv.DictReader(io.StringIO(asked)))
    assert list(points[0]) == ["id", "gain", "steps", "mode", "value"]
    assert [point["id"] for point in points] == ["18", "19", "20", "21"]
    values = ["2.5", "nan", "", "0.5"]
    with Path("points.csv").open("w") as file:
        writer = csv.DictWriter(file, list(points[0]))
        writer.writeheader()
        writer.writerows({**point, "value": v} for point, v in zip(points, values, strict=True))
    told = ebo.good("tell", "mine.ebo", "points.csv")
    assert told == "Took 3 values in; 1 are still waited for.\n"
    assert json.loads(ebo.good("best", "mine.ebo", "--json"))["value"] == 2.5
    told = ebo.good("tell", "mine.ebo", "points.csv")
    assert told == "Took 0 values in; 3 were there before; 1 are still waited for.\n"

    earlier = "gain,steps,mode,value\n1,20,fast,9.5\n0.5,3,slow,\n"
    Path("earlier.csv").write_text(earlier)
    assert ebo.good("import", "mine.toml", "earlier.csv") == "Took 2 observations in.\n"
    status = json.loads(ebo.good("status", "mine.ebo", "--json"))
    assert (status["done"], status["failed"], status["waiting"]) == (21, 2, 1)
    assert status["best_value"] == 9.5

    assert ebo.good("report", "mine.ebo", "-o", "r.html") == "Wrote r.html.\n"
    assert "<html" in Path("r.html").read_text()[:200]


def test_the_same_by_processes(tmp_path: Path) -> None:
    """The installed command itself, once."""
    (tmp_path / "processes_objective.py").write_text(OBJECTIVE)

    def shell(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*EBO, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )

    assert shell("init").returncode == 0
    text = (tmp_path / "study.toml").read_text()
    text = text.replace("objective:evaluate", "processes_objective:evaluate")
    text = text.replace("batch_size = 100", "batch_size = 4").replace("= 20 ", "= 1 ")
    (tmp_path / "study.toml").write_text(text)
    ended = shell("run", "study.toml", "--json")
    assert (ended.returncode, [*map(bool, map(LOGGED, ended.stderr.splitlines()))]) == (
        0,
        [True] * 2,
    )
    assert json.loads(ended.stdout)["done"] == 8
    ended = shell("status", "none.ebo")
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: there is no study at")


EBO = [sys.executable, "-c", "from ebo.cli import main; main()"]


def toml(folder: Path, more: str = "", command: str = "echo {x}") -> Path:
    path = folder / "s.toml"
    path.write_text(
        f"[objective]\ncommand = {json.dumps(command)}\n"
        "[space]\nx = {float = [0, 1]}\ny = {float = [0, 1]}\n"
        f"[search]\nbatch_size = 3\niterations = 1\nleaf_size = 20\n{more}"
    )
    return path


def test_a_finished_study_says_so(ebo: Shell, tmp_path: Path) -> None:
    toml(tmp_path)
    assert "Nothing to do" not in ebo.good("run", "s.toml")
    before = Path("s.ebo").read_bytes()
    out = ebo.good("run", "s.toml")
    assert "Nothing to do: the study has all its 6 evaluations." in out
    assert "Best value" in out
    assert json.loads(ebo.good("run", "s.toml", "--json"))["evaluations"] == 6
    assert Path("s.ebo").read_bytes() == before
    text = Path("s.toml").read_text().replace("iterations = 1", "iterations = 2")
    Path("s.toml").write_text(text)
    assert "in 9 evaluations" in ebo.good("run", "s.toml")


def test_a_run_that_only_evaluates_what_was_left_did_something(ebo: Shell, tmp_path: Path) -> None:
    toml(tmp_path)
    for _ in range(2):
        ebo.good("ask", "s.toml", "-n", 3)
    out = ebo.good("run", "s.toml")
    assert "in 6 evaluations" in out
    assert "Nothing to do" not in out


def test_a_batch_that_fails_entirely(ebo: Shell, tmp_path: Path) -> None:
    toml(tmp_path, command="false {x}")
    message = ebo.bad("run", "s.toml")
    assert "all 3 evaluations of a batch failed" in message
    assert "exit status 1" in message
    status = json.loads(ebo.good("status", "s.toml", "--json"))
    assert (status["failed"], status["best_value"]) == (3, None)
    assert "has no value yet" in ebo.bad("best", "s.toml")
    assert "exit status 1" in json.loads(ebo.good("show", "s.ebo", 0, "--json"))["error"]
    ebo.good("report", "s.ebo")


def test_repair_the_objective_and_try_again(ebo: Shell, tmp_path: Path) -> None:
    toml(tmp_path, command="sh ./objective {x}")
    Path("objective").write_text("exit 1\n")
    message = ebo.bad("run", "s.toml")
    assert "ebo retry s.ebo and again: ebo run s.toml" in message
    assert "study.retry()" not in message
    assert "Nothing to try again" in ebo.good("retry", "s.ebo", "--state", "lost,timed-out")
    Path("objective").write_text("echo $1\n")
    assert ebo.good("retry", "s.toml", "--ids", "2,0").startswith("2 trials wait again")
    assert "trial 0 is waiting; only what failed" in ebo.bad("retry", "s.ebo", "--ids", "0")
    assert ebo.good("retry", "s.ebo", "--state", "failed").startswith("1 trials wait again")
    assert json.loads(ebo.good("run", "s.toml", "--json"))["done"] == 6
    assert "trial 0 is done; only what failed" in ebo.bad("retry", "s.ebo", "--ids", "0,1")
    assert "there is no trial 99" in ebo.bad("retry", "s.ebo", "--ids", "99")
    assert "give whole numbers" in ebo.bad("retry", "s.ebo", "--ids", "a")
    assert "give one of failed, timed-out, lost" in ebo.bad("retry", "s.ebo", "--state", "done")
    assert "Nothing to try again" in ebo.good("retry", "s.ebo")


def test_a_retried_study_is_as_one_that_never_failed(tmp_path: Path) -> None:
    def failing(params: dict[str, Any]) -> float:
        raise OSError("no disk")

    run: dict[str, Any] = {"batch_size": 4, "iterations": 2}
    kept = []
    for fails in (False, True):
        with Study.create(tmp_path / f"{fails}.ebo", SPACE, settings=SMALL) as study:
            if fails:
                with pytest.raises(AllFailedError, match=r"no disk.*study\.retry\(\)"):
                    study.run(failing, **run)
                assert study.retry().tolist() == [0, 1, 2, 3]
            kept.append(study.run(f, **run))
    np.testing.assert_array_equal(kept[0].X, kept[1].X)
    np.testing.assert_array_equal(kept[0].y, kept[1].y)


def test_json_is_json_where_there_is_no_value(ebo: Shell, tmp_path: Path) -> None:
    toml(tmp_path, "[evaluate]\non_error = 'continue'\n", command="false {x}")

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    told = json.loads(ebo.good("run", "s.toml", "--json"), parse_constant=refuse)
    assert (told["best_value"], told["failed"]) == (None, 6)


def test_brackets_are_shown_as_they_are(ebo: Shell, finished_study: Path) -> None:
    with Study.open(finished_study, read_only=True) as study:
        number = int(np.flatnonzero(study.trials()["mode"] == "[b]")[0])
    assert "[b]" in ebo.good("show", finished_study, number)


def test_while_another_process_writes(ebo: Shell, tmp_path: Path) -> None:
    toml(tmp_path)
    ebo.good("ask", "s.toml", "-n", 2)
    with Study.open(tmp_path / "s.ebo"):
        for command in ("status", "export", "report"):
            ebo.good(command, "s.toml")
        Path("t.csv").write_text("id,x,y,value\n0,0.5,0.5,1\n")
        for arguments in (("run", "s.toml"), ("ask", "s.toml"), ("tell", "s.ebo", "t.csv")):
            assert "in use by" in ebo.bad(*arguments)


def test_a_table_that_is_told_again(ebo: Shell, tmp_path: Path) -> None:
    toml(tmp_path)
    ebo.good("ask", "s.toml", "-n", 5)

    def tell(*values: str) -> None:
        rows = "".join(f"{i},{value}\n" for i, value in enumerate(values))
        Path("t.csv").write_text("id,value\n" + rows)

    tell("1.5", "nan")
    ebo.good("tell", "s.ebo", "t.csv")
    tell("1.5", "nan", "2.5", "")
    told = ebo.good("tell", "s.ebo", "t.csv")
    assert told == "Took 1 values in; 2 were there before; 2 are still waited for.\n"
    tell("1.25", "7", "2.5", "0.5")
    message = ebo.bad("tell", "s.ebo", "t.csv")
    assert "took 1 values in; 1 were there before; 2 differ" in message
    assert "line 2: trial 0 is finished already (done) with 1.5; now given is 1.25\n" in message
    assert "line 3: trial 1 is finished already (failed); now given is 7.0\n" in message
    assert "ebo tell --overwrite" in message

    def values() -> list[float]:
        rows = csv.DictReader(io.StringIO(ebo.good("export", "s.ebo")))
        return [float(row["value"]) for row in rows]

    np.testing.assert_array_equal(values(), [1.5, math.nan, 2.5, 0.5, math.nan])
    told = ebo.good("tell", "s.ebo", "t.csv", "--overwrite")
    assert told.startswith("Took 2 values in, 2 of them anew; 2 were there before; 1 are still")
    np.testing.assert_array_equal(values(), [1.25, 7, 2.5, 0.5, math.nan])
    with Study.open("s.ebo") as study:
        first, second = study.storage.revisions()
        assert (first.id, first.state, first.value) == (0, TrialState.DONE, 1.5)
        assert (second.id, second.state, second.error) == (1, TrialState.FAILED, "told as failed")
        assert sorted(study.optimizer.y) == [0.5, 1.25, 2.5, 7.0]
        with pytest.raises(StudyError, match=r"trial 0 .*1\.25.*\n.*overwrite=True"):
            study.tell_trials({0: 3.0, 4: 1.0})
        assert study.counts()["waiting"] == 1
        assert [*study.tell_trials({0: 3.0, 4: 1.0}, overwrite=True).new] == [4]
        assert sorted(study.optimizer.y) == [0.5, 1.0, 2.5, 3.0, 7.0]


def test_an_export_for_a_spreadsheet(ebo: Shell, tmp_path: Path) -> None:
    formulas = ["=cmd|' /C calc'!A0", "+1+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\uff1d1"]
    harmless_ones = ["-1.5", "+3", "-1e-3", "a=b", "'quoted"]
    kind = Categorical([*formulas, *harmless_ones])
    space = Space({"=name": kind, "low": Float(-9.0, -1.0), "n": Int(-5, -1)})
    with Study.create("s.ebo", space) as study:
        X = [[i, -2.5, -3] for i in range(len(kind.choices))]
        study.tell(X, [-float(i) for i in range(len(X))])
        ids, _ = study.ask_trials(1)
        study.end_trials({int(ids[0]): Evaluation(TrialState.FAILED, error="=1+1")})
    exact = ebo.good("export", "s.ebo")
    table = list(csv.DictReader(io.StringIO(exact, newline="")))
    assert [row["=name"] for row in table[:-1]] == [*kind.choices]
    ebo.good("export", "s.ebo", "--spreadsheet", "-o", "s.csv")
    with Path("s.csv").open(newline="") as file:
        safe = list(csv.DictReader(file))
    quoted = [f"'{text}" for text in formulas]
    assert [row["'=name"] for row in safe[:-1]] == [*quoted, *harmless_ones]
    for name in ("low", "n", "value", "id", "state", "started", "finished"):
        assert [row[name] for row in safe] == [row[name] for row in table]
    assert safe[1]["value"] == "-1.0"
    ebo.good("export", "s.ebo", "--spreadsheet")
    assert "apostrophe" in CliRunner().invoke(app, ["export", "--help"]).output


def test_another_setting_is_told_alone(ebo: Shell, tmp_path: Path) -> None:
    toml(tmp_path)
    ebo.good("ask", "s.toml", "-n", 2)
    text = Path("s.toml").read_text()
    Path("s.toml").write_text(text.replace("leaf_size = 20", "leaf_size = 30\ndeviations = 3.0"))
    message = ebo.bad("run", "s.toml")
    assert "other settings: it has partition.leaf_size = 20, now given is 30; deviations = " in (
        message
    )
    assert "Settings(" not in message
    assert len(message) < 300
    Path("s.toml").write_text(text.replace("leaf_size = 20", "leaf_size = 20\nsearch = 'printed'"))
    message = ebo.bad("run", "s.toml")
    assert "search" in message
    assert "nothing" in message
    assert "Settings(" not in message
    Path("s.toml").write_text(text + "seed = 4\n")
    assert "another seed: it has 0, now given is 4" in ebo.bad("run", "s.toml")


def test_a_study_in_the_place_of_its_description(ebo: Shell, finished_study: Path) -> None:
    message = ebo.bad("run", finished_study)
    assert "s.ebo is a study, and a run needs its description; give the .toml" in message


def test_a_command_without_placeholders(ebo: Shell, tmp_path: Path) -> None:
    toml(tmp_path, command="echo 1")
    ended = ebo("run", "s.toml")
    assert ended.code == 0
    assert ended.err.startswith("warning: [objective] command is 'echo 1', without a placeholder")
    toml(tmp_path, command="echo {{x}} 1")
    assert "without a placeholder" in ebo("run", "s.toml").err
    toml(tmp_path, command="echo {x}")
    assert ebo("run", "s.toml").err == ""


def hostile() -> list[str]:
    """200 texts that a terminal would obey, or that look like something else on it."""
    known = [
        "\x1b[2J", "\x1b]0;title\x07", "\x1b]8;;http://a.b\x1b\\", "\x1bc", "\x9b2J",
        "\x9d0;t\x9c", "\u202egnp.exe", "\u2066a\u2069", "\u200f", "\u200e", "\u061c", "a\rb",
        "\b\b\b", "\x7f", "\x00", "\x0e", "\u2028", "\x85", "[red]x[/red]", "\x1bP1$r\x1b\\",
    ]  # fmt: skip
    rng = random.Random(0)
    controls = [*range(1, 9), *range(11, 32), *range(127, 160), 0x61C, 0x200E, 0x200F,
                *range(0x2028, 0x202F), *range(0x2066, 0x206A), 91, 93, 59, 109, 65]  # fmt: skip
    while len(known) < 200:
        known.append("".join(chr(rng.choice(controls)) for _ in range(rng.randrange(1, 12))))
    return known


def harmless(text: str) -> None:
    """A terminal shows the text, and obeys nothing in it but newlines and tabs."""
    marks = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    for character in set(text) - {"\n", "\t"}:
        assert unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp"), ascii(character)
        assert unicodedata.bidirectional(character) not in marks, ascii(character)
        assert character not in "\u200e\u200f\u061c", ascii(character)


def test_no_text_of_a_study_is_obeyed_by_a_terminal(
    ebo: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = hostile()
    assert len(texts) == 200
    for first in range(0, 200, 40):
        some = texts[first : first + 40]
        space = Space(
            {f"p{i}{text}": Categorical([f"c{text}", "b"]) for i, text in enumerate(some)}
        )
        name = some[0].replace("/", "").replace("\0", "") + f"{first}.ebo"
        with Study.create(tmp_path / name, space, settings=SMALL) as study:
            ids, _ = study.ask_trials(41)
            study.tell_trials({40: 1.0})
            study.end_trials(
                {i: Evaluation(TrialState.FAILED, error=some[i]) for i in ids.tolist()[:40]}
            )
        for arguments in (("status", name), ("best", name), ("show", name, 99)):
            harmless("".join(ebo(*arguments)[1:]))
        for i in range(first % 3, 40, 3):
            harmless(ebo.good("show", name, i))
        exact = ebo.good("export", name)
        with pytest.raises(AssertionError):
            harmless(exact)  # into a pipe or a file: as it is
        with monkeypatch.context() as patch:
            patch.setattr(sys.stdout, "isatty", lambda: True)
            harmless(ebo.good("export", name))
            harmless(ebo.good("ask", name, "-n", 2))
        harmless(ebo.bad("status", "none" + some[0].replace("\0", "")))
        harmless(ebo.good("retry", name))


def test_nothing_that_a_command_says_is_obeyed_by_a_terminal(ebo: Shell, tmp_path: Path) -> None:
    texts = hostile()
    toml(tmp_path, "[evaluate]\nhow = 'threads'\nworkers = 1\n", command="sh ./fails {x}")
    Path("fails").write_text("cat all >&2\nexit 1\n")
    for first in range(0, 200, 5):
        some = [text.replace("\n", "") for text in texts[first : first + 5]]
        Path("all").write_text(" ".join(some))
        Path("s.ebo").unlink(missing_ok=True)
        message = ebo.bad("run", "s.toml")
        assert "evaluations of a batch failed" in message
        harmless(message)
        harmless(ebo.good("show", "s.ebo", 0))


# Mistakes.


def test_usage(ebo: Shell, finished_study: Path) -> None:
    for arguments in (
        ["nothing"],
        ["run"],
        ["run", "a.toml", "--what"],
        ["ask", finished_study, "-n", "0"],
        ["ask", finished_study, "-n", "many"],
        ["show", finished_study, "first"],
        ["tell", finished_study],
    ):
        ebo.bad(*arguments, code=2)


def test_files_that_are_not_there_or_something_else(
    ebo: Shell, tmp_path: Path, finished_study: Path
) -> None:
    Path("text.ebo").write_text("hello\n" * 1000)
    Path("empty.ebo").touch()
    Path("folder.ebo").mkdir()
    Path("t.csv").write_text("id,x,value\n0,1,1\n")
    with closing(sqlite3.connect("other.ebo")) as db, db:
        db.execute("CREATE TABLE a (b)")
    for name, message in {
        "none.ebo": "there is no study at",
        "text.ebo": "is not a study",
        "empty.ebo": "is not a study: it is empty",
        "other.ebo": "is not a study: it belongs to another program",
        "folder.ebo": "is not a file",
        "none.toml": "there is no file none.toml; `ebo init none.toml` writes one",
    }.items():
        before = Path(name).read_bytes() if Path(name).is_file() else None
        for command in ("status", "best", "export", "report", "ask"):
            assert message in ebo.bad(command, name), (command, name)
        assert message in ebo.bad("show", name, 0)
        assert message in ebo.bad("tell", name, "t.csv")
        assert message in ebo.bad("import", name, "t.csv")
        assert not Path(name).is_file() or Path(name).read_bytes() == before
    assert not Path("report.html").exists()
    assert "none.csv: " in ebo.bad("tell", finished_study, "none.csv")
    assert "none.csv: " in ebo.bad("import", finished_study, "none.csv")
    assert "No such file" in ebo.bad("export", finished_study, "-o", "none/x.csv")
    assert "No such file" in ebo.bad("report", finished_study, "-o", "none/x.html")
    assert "No such file" in ebo.bad("init", "none/x.toml")
    assert "exists; give another name" in ebo.bad("init", "text.ebo")
    assert "there is no trial 99" in ebo.bad("show", finished_study, 99)
    ebo.bad("show", finished_study, 2**70)


def test_a_newer_study(ebo: Shell, tmp_path: Path) -> None:
    Study.create(tmp_path / "s.ebo", SPACE).close()
    with closing(sqlite3.connect("s.ebo")) as db, db:
        db.execute("PRAGMA user_version = 99")
    assert "was made by a newer ebo" in ebo.bad("status", "s.ebo")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "lacks the columns"),
        (b"gain,steps,mode\n1,2,slow\n", "lacks the column 'value'"),
        (b"gain,steps,mode,value\n", "no rows"),
        (b'gain,steps,mode,value\n1,2,"slow,1\n', "unexpected end of data"),
        (b"gain,steps,mode,value\n1,2,sl\0ow,1\n", "mode is 'sl"),
        (b"gain,steps,mode,value\n1e999,2,slow,1\n", "gain is 1e999, outside"),
        (b"gain,steps,mode,value\n1,2,slow\n", "line 2: 3 fields for 4 columns"),
        (b"gain,steps,mode,value\n1,2,slow,one\n", "value is 'one'"),
        (b"\xff\xfe\x00gain", "codec can't decode"),
        (b",".join(b"c%d" % i for i in range(1_000_000)), "has 1000000 columns"),
        (b"gain,steps,mode,value\n" + b"[red]" * 50_000, "field larger than field limit"),
        (b"\n\n\n", "lacks the columns"),
    ],
    ids=range(12),
)
def test_hostile_tables(
    ebo: Shell, tmp_path: Path, finished_study: Path, text: bytes, message: str
) -> None:
    before = ebo.good("export", finished_study)
    Path("t.csv").write_bytes(text)
    assert message in ebo.bad("import", finished_study, "t.csv")
    ebo.bad("tell", finished_study, "t.csv")
    assert ebo.good("export", finished_study) == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,value\nx,1\n", "id is 'x'; give a whole number"),
        ("id,value\n18,1\n18,2\n", "id 18 is there twice"),
        ("id,value\n0,1\n", "trial 0 is finished already"),
        ("id,value\n99,1\n", "there is no trial 99"),
        ("id,value\n-1,1\n", "there is no trial -1"),
        (f"id,value\n{10**30},1\n", "give whole numbers"),
        (f"id,value\n{2**63},1\n", "give whole numbers"),
        ("id,value\n18,x\n", "value is 'x'"),
        ("value\n18\n", "lacks the column 'id'"),
    ],
)
def test_wrong_values(ebo: Shell, finished_study: Path, text: str, message: str) -> None:
    Path("t.csv").write_text(text)
    assert message in ebo.bad("tell", finished_study, "t.csv")


# Damage. Whatever is in the file: an answer, or one line that begins with "error:".

LOOKS: tuple[tuple[object, ...], ...] = (
    ("status", "m.ebo"),
    ("best", "m.ebo", "--json"),
    ("show", "m.ebo", 3),
    ("export", "m.ebo"),
    ("ask", "m.ebo", "-n", 1),
)


def look(ebo: Shell, content: bytes, commands: tuple[tuple[object, ...], ...] = LOOKS) -> int:
    """How many commands complain of a file with this content."""
    wrong = 0
    for command in commands:
        for suffix in ("", "-wal", "-shm", ".lock"):
            Path(f"m.ebo{suffix}").unlink(missing_ok=True)
        Path("m.ebo").write_bytes(content)
        ended = ebo(*command)
        assert ended.code in (0, 1), command
        if ended.code:
            wrong += 1
            assert ended.err.startswith("error: "), command
            assert ended.out == ""
    return wrong


def test_truncated_studies(ebo: Shell, finished_study: Path) -> None:
    content, rng = finished_study.read_bytes(), random.Random(0)
    for length in (1, 15, 16, 99, 100, 4096, *(rng.randrange(len(content)) for _ in range(10))):
        assert look(ebo, content[:length]) == len(LOOKS)


def test_flipped_bits(ebo: Shell, finished_study: Path) -> None:
    content, rng, wrong = finished_study.read_bytes(), random.Random(1), 0
    used = [i for i, byte in enumerate(content) if byte]
    for count in (1, 1, 1, 10, 100) * 10:
        damaged = bytearray(content)
        for _ in range(count):
            damaged[rng.choice(used)] ^= 1 << rng.randrange(8)
        wrong += look(ebo, bytes(damaged), rng.sample(LOOKS, 2))  # type: ignore[arg-type]
    assert wrong > 10


@pytest.mark.slow
def test_a_thousand_damaged_files(ebo: Shell, finished_study: Path) -> None:
    """Bits flipped, bytes replaced, pieces cut out, doubled or exchanged."""
    content, rng, wrong = finished_study.read_bytes(), random.Random(3), 0
    for _ in range(1_000):
        damaged = bytearray(content)
        at, length = rng.randrange(len(content)), rng.choice((1, 8, 100, 4096))
        change = rng.randrange(5)
        if change == 0:
            damaged[at] ^= 1 << rng.randrange(8)
        elif change == 1:
            damaged[at : at + length] = rng.randbytes(len(damaged[at : at + length]))
        elif change == 2:
            del damaged[at : at + length]
        elif change == 3:
            damaged[at:at] = damaged[at : at + length]
        else:
            other = rng.randrange(len(content))
            damaged[at : at + length] = content[other : other + len(damaged[at : at + length])]
        wrong += look(ebo, bytes(damaged), rng.sample(LOOKS, 1))  # type: ignore[arg-type]
    assert wrong > 300


def test_flipped_bits_of_what_describes_the_study(ebo: Shell, finished_study: Path) -> None:
    content, rng, wrong = finished_study.read_bytes(), random.Random(2), 0
    begin = content.index(b'{"space"')
    last = content.index(b'"settings"')
    for _ in range(100):
        damaged = bytearray(content)
        damaged[rng.randrange(begin, last)] ^= 1 << rng.randrange(8)
        wrong += look(ebo, bytes(damaged), rng.sample(LOOKS, 1))  # type: ignore[arg-type]
    assert wrong > 10


HOSTILE: dict[str, str] = {
    "meta is empty": "UPDATE meta SET json = '{}'",
    "meta is a list": "UPDATE meta SET json = '[]'",
    "meta is deep": f"UPDATE meta SET json = '{'[' * 10_000}'",
    "space is a list": "UPDATE meta SET json = json_set(json, '$.space', json('[]'))",
    "parameters are a list": (
        "UPDATE meta SET json = json_set(json, '$.space.parameters', json('[1]'))"
    ),
    "settings are a word": "UPDATE meta SET json = json_set(json, '$.settings', 'x')",
    "bounds are a list": "UPDATE meta SET json = json_set(json, '$.bounds', json('[1]'))",
    "bounds are words": (
        "UPDATE meta SET json = json_set(json, '$.bounds', json('{\"upper_bound\": \"x\"}'))"
    ),
    "seed is a word": "UPDATE meta SET json = json_set(json, '$.seed', 'x')",
    "direction is a number": "UPDATE meta SET json = json_set(json, '$.direction', 3)",
    "fewer parameters": "UPDATE meta SET json = json_remove(json, '$.space.parameters.gain')",
    "another number of them": "UPDATE meta SET dims = 2",
    "points are NaN": "UPDATE points SET x = zeroblob(0) || x'000000000000f87f' || "
    "x'000000000000f87f' || x'000000000000f87f'",
    "points are far outside": "UPDATE points SET x = x'000000000000f07f000000000000f07f' || "
    "x'000000000000f03f'",
    "a choice that is not there": "UPDATE points SET x = substr(x, 1, 16) || x'000000000000f040'",
    "a state that is not there": "UPDATE results SET state = 77",
    "values are words": "UPDATE results SET value = 'x'",
    "done without a value": "UPDATE results SET value = NULL",
    "values are infinite": "UPDATE results SET value = 9e999",
    "errors are numbers": "UPDATE results SET error = 5, state = 3",
    "iterations are words": "UPDATE iterations SET info = 'x'",
    "iterations are lists": "UPDATE iterations SET info = '[]'",
    "iterations are empty": "UPDATE iterations SET info = '{}'",
    "iterations have words": "UPDATE iterations SET info = "
    "json_set(info, '$.seconds', 'x', '$.best', 'y', '$.leaves', 'z')",
    "z is short": "UPDATE state SET z = x'00'",
    "groups that are not there": "UPDATE state SET z = x'ffffffffffffff7f' || x'ffffffffffffff7f' "
    "|| x'ffffffffffffff7f'",
    "cuts are NaN": "UPDATE state SET density = x'000000000000f87f' || x'000000000000f87f' || "
    "x'000000000000f87f'",
    "fewer dimensions learned": "UPDATE state SET z = substr(z, 1, 16), "
    "density = substr(density, 1, 16), together = substr(together, 1, 32)",
    "noise is a word": "UPDATE state SET noise = 'x'",
    "asked is negative": "UPDATE state SET asked = -5",
    "a view that does harm": "DROP VIEW trials; CREATE VIEW trials AS SELECT load_extension('x')",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON points BEGIN DELETE FROM results; END",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_studies(ebo: Shell, finished_study: Path, what: str) -> None:
    Path("m.ebo").write_bytes(finished_study.read_bytes())
    with closing(sqlite3.connect("m.ebo")) as db, db:
        db.executescript(HOSTILE[what].replace("zeroblob(0) || ", ""))
        # `||` makes text of BLOBs.
        for table, columns in (("points", ["x"]), ("state", ["z", "density", "together"])):
            for column in columns:
                db.execute(
                    f"UPDATE {table} SET {column} = CAST({column} AS BLOB) "
                    f"WHERE typeof({column}) = 'text'"
                )
    look(ebo, Path("m.ebo").read_bytes(), (*LOOKS, ("report", "m.ebo", "-o", "r.html")))


# Ctrl-C.

IMPORTS = "from ebo.cli import main; from ebo.study.evaluation import base as e"
SLOW = """
import os, time
from pathlib import Path

HERE = Path(__file__).parent

def note(what):
    fd = os.open(HERE / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, f"{what} {os.getpid()}\\n".encode())
    os.close(fd)

def f(p):
    note("begun")
    if p["x"] > 0.5:
        time.sleep(float((HERE / "sleep").read_text()))
    note("ended")
    return p["x"]
"""


def soon(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return met


class Interrupted:
    """A study whose evaluations sleep, as long as the file `sleep` says, in the upper half."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        (folder / f"{name}.py").write_text(SLOW)
        (folder / "s.toml").write_text(
            f'[objective]\npython = "{name}:f"\n[space]\nx = {{float = [0, 1]}}\n'
            "[search]\nbatch_size = 6\niterations = 2\nleaf_size = 20\n[evaluate]\nworkers = 2\n"
        )

    def log(self) -> list[str]:
        path = self.folder / "log"
        return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []

    def pids(self) -> set[int]:
        return {int(line.split()[1]) for line in (self.folder / "log").read_text().splitlines()}

    def run(self, sleep: float, grace: float | None = None) -> subprocess.Popen[str]:
        (self.folder / "sleep").write_text(str(sleep))
        change = f"e.BaseEvaluator.interrupt.__defaults__ = ({grace},)" if grace is not None else ""
        script = f"{IMPORTS}; {change}\nmain()"
        return subprocess.Popen(
            [sys.executable, "-c", script, "run", "s.toml"],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def busy(self) -> bool:
        """Whether both workers sleep."""
        return self.log().count("begun") - self.log().count("ended") == 2

    def counts(self) -> dict[str, int]:
        with Study.open(self.folder / "s.ebo", read_only=True) as study:
            return study.counts()


def dead(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")")[-1].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c(tmp_path: Path, presses: int) -> None:
    session = Interrupted(tmp_path, f"ctrl_c_{presses}")
    process = session.run(sleep=100.0, grace=0.5 if presses == 1 else 60.0)
    assert soon(session.busy)
    process.send_signal(signal.SIGINT)
    if presses == 2:
        time.sleep(0.5)
        assert process.poll() is None  # it gives them a moment
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    done = session.log().count("ended")
    assert err == f"Interrupted; {done} evaluations are kept. Go on with: ebo run s.toml\n"
    assert out == ""
    assert soon(lambda: all(map(dead, session.pids())))
    counts = session.counts()
    assert (counts["waiting"], counts["done"]) == (6 - done, done)  # as after kill -9
    Study.open(tmp_path / "s.ebo").close()  # nobody holds it
    assert not list(tmp_path.glob("s.ebo*.lock"))

    process = session.run(sleep=0.0)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, all(map(LOGGED, err.splitlines()))) == (0, True)
    assert "Best value" in out
    counts = session.counts()
    assert counts["done"] == sum(counts.values()) == 18
    with closing(sqlite3.connect(tmp_path / "s.ebo")) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_after_ctrl_c_nothing_runs(tmp_path: Path) -> None:
    session = Interrupted(tmp_path, "ctrl_c_counts")
    process = session.run(sleep=100.0, grace=0.0)
    assert soon(session.busy)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    counts = session.counts()
    assert counts["running"] == 0, "what had not begun is said to run"
    assert counts["waiting"] == 6 - counts["done"]


def test_what_ends_in_a_moment_is_kept(tmp_path: Path) -> None:
    session = Interrupted(tmp_path, "ctrl_c_grace")
    process = session.run(sleep=1.0, grace=60.0)
    assert soon(session.busy)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert re.match(r"Interrupted; \d+ evaluations are kept", err)
    counts = session.counts()
    assert counts["done"] == session.log().count("ended")


def test_ctrl_c_names_the_file_as_it_is(tmp_path: Path) -> None:
    session = Interrupted(tmp_path, "ctrl_c_name")
    (tmp_path / "s.toml").rename(tmp_path / "s[red].toml")
    (tmp_path / "sleep").write_text("100")
    script = f"{IMPORTS}; e.BaseEvaluator.interrupt.__defaults__ = (0.0,)\n"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{script}main()", "run", "s[red].toml"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert soon(session.busy)
    process.send_signal(signal.SIGINT)
    assert "ebo run s[red].toml" in process.communicate(timeout=20)[1]
