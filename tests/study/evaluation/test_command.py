from __future__ import annotations

import math
import os
import pickle
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebo.study.evaluation.command import TAIL, Command, CommandError
from ebo.study.evaluation.processes import evaluator
from ebo.study.storage.trial import Evaluation
from tests.study.evaluation.test_evaluate import alive, all_of, children, soon

loose: Any = Command
PYTHON = f"'{sys.executable}' -c"
HOSTILE = [
    "; touch hacked",
    "&& touch hacked",
    "| touch hacked",
    "$(touch hacked)",
    "`touch hacked`",
    "${IFS}touch${IFS}hacked",
    "' ; touch hacked ; '",
    '" ; touch hacked ; "',
    "'\"'\"'",
    "\ntouch hacked\n",
    "> hacked",
    "back\\slash \\",
    "two  spaces\tand a tab",
    "*",
    "~",
    "#",
    "-n",
    "{x}",
    "{{x}}",
    "\ue0000\ue001",
    "$EBO_PARAMETER_0",
    "日本 é \U0001f600",
    "",
]


def one(command: Command, parameters: dict[str, Any], **how: Any) -> Evaluation:
    with evaluator(command, **{"how": "processes", **how}) as evaluate:
        return all_of(evaluate, [parameters])[0]


# Values go in.


@pytest.mark.parametrize("shell", [False, True])
@pytest.mark.parametrize("value", HOSTILE)
def test_values_cannot_break_out(
    value: str, shell: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    show = tmp_path / "show"
    show.write_text(
        f"#!{sys.executable}\nimport sys\nopen('seen', 'w').write('\\0'.join(sys.argv[1:]))\n"
        f"print(0.5)\n"
    )
    show.chmod(0o755)
    command = Command("./show {x} --x={x}/{y} 'a b'", shell=shell)
    assert command({"x": value, "y": 1}) == 0.5
    assert (tmp_path / "seen").read_bytes().decode().split("\0") == [value, f"--x={value}/1", "a b"]
    assert sorted(os.listdir(tmp_path)) == ["seen", "show"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1 + 0.2, "0.30000000000000004"),
        (1e-300, "1e-300"),
        (3.0, "3.0"),
        (np.float64(0.1), "0.1"),
        (np.int64(7), "7"),
        (12, "12"),
        (True, "True"),
        (None, "None"),
        ("relu", "relu"),
        ((1, "a"), "(1, 'a')"),
    ],
)
def test_texts_of_values(value: Any, text: str) -> None:
    assert Command("run {x}").arguments({"x": value})[0] == ["run", text]


def test_templates() -> None:
    command = Command("run  'a {b c}' {{x}} \"{x}{x}\" --json={{{x}}}")
    assert command.names == ("b c", "x")
    words, variables = command.arguments({"x": "1 2", "b c": 3, "more": 4})
    assert words == ["run", "a 3", "{x}", "1 21 2", "--json={1 2}"]
    assert variables == {}
    assert pickle.loads(pickle.dumps(command)) == command


def test_a_shell_is_used_where_asked() -> None:
    assert Command("echo {x} 7 | tr ' ' '\\n' | sort -n | tail -1", shell=True)({"x": 3}) == 7.0
    assert Command("n={x}; echo $((n + 1))", shell=True)({"x": 3}) == 4.0
    assert Command("f() {{ echo {x}; }}; f 1 2", shell=True)({"x": 3}) == 3.0


def test_names_are_checked() -> None:
    command = Command("run {rate} {layers}")
    command.check(["rate", "layers", "more"])
    with pytest.raises(ValueError, match=r"\{layers\}.* Did you mean \{layer\}\? .*rate, layer;"):
        command.check(["rate", "layer"])
    with pytest.raises(ValueError, match=r"no value for \{layers\}"):
        command({"rate": 1.0})
    with pytest.raises(TypeError, match="named parameters"):
        loose("run")(np.zeros(2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"template": ""}, "give a string"),
        ({"template": 3}, "give a string"),
        ({"template": "run {}"}, "without a name"),
        ({"template": "run {x"}, "without a name"),
        ({"template": "run }"}, "without a name"),
        ({"template": "run 'x"}, "No closing quotation"),
        ({"template": "run\0"}, "NUL"),
        ({"template": "run {x} | tail -1"}, r"has '\|', which only a shell understands"),
        ({"template": "run {x} > out"}, "has '>', which only a shell understands"),
        ({"template": "run $HOME"}, r"has '\$', which only a shell understands"),
        ({"template": "run '{x}'", "shell": True}, "within quotes"),
        ({"template": 'sh -c "run {x}"', "shell": True}, "within quotes"),
        ({"template": "run", "value": "first line"}, "give 'last line', 'json' or 'json:key'"),
        ({"template": "run", "value": 1}, "give 'last line', 'json' or 'json:key'"),
        ({"template": "run", "shell": "yes"}, "give True or False"),
    ],
)
def test_mistakes(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        loose(**arguments)


def test_quoted_operators_are_literal() -> None:
    assert Command("run 'a|b' \"c>d\" e\\;f").arguments({})[0] == ["run", "a|b", "c>d", "e;f"]


# Values come out.


@pytest.mark.parametrize(
    ("output", "value", "expected"),
    [
        ("1.5", "last line", 1.5),
        ("loss 3\n  -2e-3  \n\n\n", "last line", -0.002),
        ("7\r\n", "last line", 7.0),
        ("inf", "last line", math.inf),
        ("3", "json", 3.0),
        ("{\n  'a': 1,\n  'score': 0.25\n}", "json:score", 0.25),
        ("starting\n{'score': 4}", "json:score", 4.0),
        ("1" + "0" * 400, "json", math.inf),
    ],
)
def test_output(output: str, value: str, expected: float) -> None:
    output = output.replace("'", '"')
    assert Command("printf '%s' {o}", value=value)({"o": output}) == expected


@pytest.mark.parametrize(
    ("output", "value", "message"),
    [
        ("", "last line", "it printed nothing"),
        (" \n \n", "json", "it printed nothing"),
        ("1.5\nfinished", "last line", "the last line of its output is 'finished'"),
        ("value 1.5", "last line", "the last line of its output is 'value 1.5'"),
        ("nothing", "json", "is not JSON; the last line is 'nothing'"),
        ('{"a": 1}', "json", "not a number; name the value's key"),
        ('{"a": 1}', "json:b", "without the key 'b'"),
        ("[1]", "json:b", "without the key 'b'"),
        ('"1.5"', "json", "not a number"),
        ("true", "json", "not a number"),
        ("[" * 100_000, "json", "is not JSON"),
    ],
)
def test_output_without_a_value(output: str, value: str, message: str) -> None:
    with pytest.raises(CommandError, match=message):
        Command("printf '%s' {o}", value=value)({"o": output})


def test_a_lot_of_output() -> None:
    command = Command(f"{PYTHON} 'print(\"x\" * 10_000_000); print(3)'")
    assert command({}) == 3.0


def test_an_exit_status() -> None:
    script = 'import sys; print(1); print("a" * 5000, "the end", file=sys.stderr); sys.exit(3)'
    with pytest.raises(CommandError, match="exit status 3") as caught:
        Command(f"{PYTHON} {{script}}")({"script": script})
    assert caught.value.stderr.endswith("aaa the end")
    assert len(caught.value.stderr) == TAIL
    with pytest.raises(CommandError, match="killed by SIGTERM"):
        Command("kill $$", shell=True)({})


def test_it_cannot_be_run(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot run '/no/such': No such file"):
        Command("/no/such {x}")({"x": 1})
    with pytest.raises(CommandError, match="cannot run 'echo': embedded null byte"):
        Command("echo {x}")({"x": "\0"})


# With an evaluator.


def test_failures_are_told() -> None:
    result = one(Command("echo one >&2; echo two >&2; exit {x}", shell=True), {"x": 4})
    assert (str(result.state), result.error) == (
        "failed",
        "one\ntwo\nCommandError: exit status 4: two",
    )
    assert one(Command("echo nan"), {}).error == "returned nan"


@pytest.mark.parametrize("how", ["processes", "threads"])
def test_commands_side_by_side(how: str) -> None:
    with evaluator(Command("echo {x}"), workers=4, how=how) as evaluate:
        points = [{"x": i / 3} for i in range(20)]
        assert [r.value for r in all_of(evaluate, points)] == [p["x"] for p in points]


def test_a_time_out_kills_all_of_it(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = Command("(echo $$; sleep 60 & echo $!; sleep 61) > {file}; echo 1", shell=True)
    result = one(command, {"file": str(pids)}, timeout=0.5)
    assert str(result.state) == "timed out"
    found = [int(pid) for pid in pids.read_text().split()]
    assert len(found) == 2
    assert soon(lambda: not any(map(alive, found)))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux finds them")
@pytest.mark.parametrize(
    "script",
    [
        "setsid sh -c {own} & sleep 61",
        "(setsid sh -c {own} &); sleep 61",  # an orphan at once
        "setsid sh -c {own} & setsid setsid sleep 62; sleep 61",
    ],
)
def test_a_time_out_kills_what_has_left_the_group(tmp_path: Path, script: str) -> None:
    pids = tmp_path / "pids"
    own = f"echo $$ > {pids}.new; mv {pids}.new {pids}; sleep 60 & echo $! >> {pids}; wait"
    result = one(Command(script, shell=True), {"own": own}, timeout=1.0)
    assert str(result.state) == "timed out"
    found = [int(pid) for pid in pids.read_text().split()]
    assert len(found) == 2
    assert soon(lambda: not any(map(alive, found)))


def left_zombies(parameters: dict[str, Any]) -> float:
    """Children of a worker after some commands that leave something behind."""
    for _ in range(5):
        Command("(setsid sleep 0.05 &); echo 1", shell=True)({})
    time.sleep(0.3)
    Command("echo 1")({})
    return float(len(children()))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere they are not ours")
def test_what_is_left_behind_leaves_no_zombies() -> None:
    with evaluator(left_zombies, how="processes") as evaluate:
        assert [result.value for result in all_of(evaluate, [{}])] == [0.0]


def test_what_stays_in_the_background_is_not_waited_for() -> None:
    start = time.monotonic()
    assert one(Command("sleep 30 & echo 2", shell=True), {}).value == 2.0
    assert time.monotonic() - start < 10
