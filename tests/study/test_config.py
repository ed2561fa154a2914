from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ebo.cli import main
from ebo.learning import PerLeaf
from ebo.moves import Printed
from ebo.settings import Settings
from ebo.space import Categorical, Float, Int, Space
from ebo.study.config import STARTER, ConfigError, read_config
from ebo.study.study import Study
from tests.study.test_session import LOGGED

SPACE = "[space]\nx = {float = [0, 1]}\n"
COMMAND = '[objective]\ncommand = "echo {x}"\n'
SEARCH = "[search]\nbatch_size = 2\niterations = 1\n"
HUGE = "1" + "0" * 400  # a whole number that no float can hold


def write(folder: Path, text: str | bytes, name: str = "s.toml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def run(
    folder: Path, text: str, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    """`ebo run` as from a shell: exit code, standard output, standard error without the log."""
    path = write(folder, text)
    patch.setattr("sys.argv", ["ebo", "run", str(path)])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    told = [line for line in err.splitlines(True) if not LOGGED(line.rstrip())]
    return int(ended.value.code or 0), out, "".join(told)


# What is right.


def test_all_that_a_file_may_say(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        [study]
        file = "results/mine.ebo"
        [objective]
        command = "sim --rate={rate} --n {n} --kind {kind}"
        value = "json:score"
        direction = "minimize"
        lower_bound = 0
        [space]
        rate = {float = [1e-3, 1e1], log = true}
        n = {int = [1, 50]}
        kind = {choices = ["slow", "fast", 3, 2.5, true], ordered = true}
        [search]
        batch_size = 7
        iterations = 3
        initial = 9
        seed = 4
        leaf_size = 20
        beta = [1.0, 2.0]
        [evaluate]
        workers = 2
        how = "threads"
        retries = 1
        on_error = "continue"
        """,
    )
    config = read_config(path)
    assert config.study == tmp_path / "results" / "mine.ebo"
    assert config.space == Space(
        rate=Float(1e-3, 10.0, log=True),
        n=Int(1, 50),
        kind=Categorical(["slow", "fast", 3, 2.5, True], ordered=True),
    )
    assert (config.direction, config.bounds, config.seed) == ("minimize", {"lower_bound": 0.0}, 4)
    assert config.settings == Settings().changed(leaf_size=20, beta=(1.0, 2.0))
    assert config.run == {
        "batch_size": 7, "iterations": 3, "initial": 9, "workers": 2, "how": "threads",
        "retries": 1, "on_error": "continue",
    }  # fmt: skip
    assert not config.vectorized
    assert callable(config.objective())


def test_the_study_is_beside_the_file_wherever_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").mkdir()
    path = write(tmp_path / "there", COMMAND + SPACE)
    assert read_config(path).study == tmp_path / "there" / "s.ebo"
    monkeypatch.chdir(tmp_path)
    assert read_config(Path("there/s.toml")).study.resolve() == tmp_path / "there" / "s.ebo"
    absolute = write(tmp_path, f'[study]\nfile = "{tmp_path}/abs.ebo"\n{COMMAND}{SPACE}', "t.toml")
    assert read_config(absolute).study == tmp_path / "abs.ebo"


def test_the_paper_with_changes(tmp_path: Path) -> None:
    path = write(tmp_path, f'{COMMAND}{SPACE}[search]\npreset = "paper"\nleaf_size = 30\n')
    assert read_config(path).settings == Settings.paper().changed(leaf_size=30)


@pytest.mark.parametrize(
    ("lines", "changes"),
    [
        ("leaf_size = 800", {"leaf_size": 800}),
        ("partition.leaf_size = 800", {"leaf_size": 800}),
        ('"partition.leaf_size" = 800', {"leaf_size": 800}),
        ("[search.partition]\nleaf_size = 800\noverlap = 0", {"leaf_size": 800, "overlap": 0}),
        ("crossover.share = 0.5", {"crossover.share": 0.5}),
        ("additive.crossover.share = 0.5", {"additive.crossover.share": 0.5}),
        (
            "[search.search]\npasses = 9\n[search.mixture.crossover]\nshare = 0.5",
            {"passes": 9, "mixture.crossover.share": 0.5},
        ),
        ('tries = 9\nsearch = "printed"', {"search": Printed(tries=9)}),
        ('[search.search]\nkind = "printed"\npasses = 3', {"search": Printed(passes=3)}),
        ('[search.learning]\nkind = "per-leaf"', {"learning": PerLeaf()}),
        ('mixture = "none"\nprobes = "none"', {"mixture": None, "probes": None}),
        ('group_limit = "none"\nbeta = [1, 2]', {"group_limit": None, "beta": (1, 2)}),
        ('per_layer = true\nkernel = "tile-coding"', {"kernel": "tile-coding", "per_layer": True}),
        ("[search.partition]", {}),
    ],
)
def test_settings_by_name_with_dots_and_in_tables(
    tmp_path: Path, lines: str, changes: dict[str, Any]
) -> None:
    path = write(tmp_path, f"{COMMAND}{SPACE}{SEARCH}{lines}\n")
    config = read_config(path)
    assert config.settings == Settings().changed(changes)
    assert config.run == {"batch_size": 2, "iterations": 1}


def test_a_problem_has_its_own_space_and_bound(tmp_path: Path) -> None:
    config = read_config(write(tmp_path, '[objective]\nproblem = "branin"\n'))
    assert config.vectorized
    assert config.space.dims == 2
    assert set(config.bounds) == {"upper_bound"}
    assert len(config.objective()(config.space.from_unit([[0.5, 0.5]]))) == 1


def test_points_may_be_evaluated_elsewhere(tmp_path: Path) -> None:
    config = read_config(write(tmp_path, SPACE))
    with pytest.raises(ConfigError, match=r'nothing to evaluate; give one of python = "module'):
        config.objective()


def test_python_objectives_are_found_beside_the_file(tmp_path: Path) -> None:
    write(tmp_path, "from beside_b import g\ndef f(p):\n    return g(p)\n", "beside_a.py")
    write(tmp_path, "def g(p):\n    return 2 * p['x']\n", "beside_b.py")
    config = read_config(write(tmp_path, f'[objective]\npython = "beside_a:f"\n{SPACE}'))
    assert config.objective()({"x": 3.0}) == 6.0


def test_they_may_import_what_is_beside_them_when_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "def f(p):\n    from late_b import g\n    return g(p)\n", "late_a.py")
    write(tmp_path, "def g(p):\n    return 2 * p['x']\n", "late_b.py")
    text = f'[objective]\npython = "late_a:f"\n{SPACE}{SEARCH}'
    code, _, err = run(tmp_path, text, monkeypatch, capsys)
    assert (code, err) == (0, "")


def test_a_module_is_imported_only_to_evaluate(tmp_path: Path) -> None:
    write(tmp_path, "raise SystemExit('imported')\n", "never.py")
    read_config(write(tmp_path, f'[objective]\npython = "never:f"\n{SPACE}'))


def test_the_starter_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = STARTER.format(name="s.toml")
    config = read_config(write(tmp_path, text))
    assert config.space.names == ("gain", "steps", "mode")
    assert config.settings == Settings()
    assert config.run == {"batch_size": 100, "iterations": 20}
    write(
        tmp_path,
        "def evaluate(p):\n    return p['gain'] * p['steps'] + (p['mode'] == 'fast')\n",
        "starter_objective.py",
    )
    text = text.replace("objective:evaluate", "starter_objective:evaluate")
    text = text.replace("batch_size = 100", "batch_size = 4").replace("= 20 ", "= 1 ")
    code, out, err = run(tmp_path, text, monkeypatch, capsys)
    assert (code, err) == (0, "")
    assert "in 8 evaluations" in out


def test_what_the_starter_comments_out_is_right_too(tmp_path: Path) -> None:
    text = STARTER.format(name="s.toml")
    options = re.sub(r"(?m)^# (\w+ = )", r"\1", text)
    assert options != text
    single = re.sub(r"(?m)^(python|problem|preset|timeout) = .*\n", "", options)
    config = read_config(write(tmp_path, single))
    assert config.bounds == {"upper_bound": 5.0}
    assert config.settings == Settings().changed(leaf_size=800)
    assert config.run["workers"] == 8


# What is wrong: the message has the file, the key and what is allowed.

MISTAKES: dict[str, tuple[str, str]] = {
    "unknown section": (f"[serch]\n{SPACE}", "section 'serch' is not known; did you mean 'search'"),
    "strange section": (
        f"[zzz]\n{SPACE}",
        "section 'zzz' is not known; allowed are study, objective, space, search, evaluate",
    ),
    "not a section": ("search = 3\n", r"search is 3; give a section \[search\]"),
    "study key": (f'[study]\nfil = "a"\n{SPACE}', r"\[study\] 'fil' is not known.*'file'"),
    "objective key": (
        f'[objective]\ncomand = "a"\n{SPACE}',
        r"\[objective\] 'comand' is not known; did you mean 'command'",
    ),
    "search key": (
        f"{COMMAND}{SPACE}[search]\nbatchsize = 3\n",
        r"\[search\] 'batchsize' is not known; did you mean 'batch_size'",
    ),
    "setting": (
        f"{COMMAND}{SPACE}[search]\nleafsize = 3\n",
        r"\[search\] 'leafsize' is not known; did you mean 'leaf_size'",
    ),
    "setting far off": (
        f"{COMMAND}{SPACE}[search]\nzzz = 3\n",
        r"\[search\] 'zzz' is not known; allowed are batch_size, iterations, initial, seed, "
        "preset, and the settings acquisition, additive, alpha, apart, beta, ",
    ),
    "search key far off": (
        f"{COMMAND}{SPACE}[search]\nitertions = 3\n",
        r"\[search\] 'itertions' is not known; did you mean 'iterations'",
    ),
    "setting with a dot": (
        f"{COMMAND}{SPACE}[search]\npartition.leafsize = 3\n",
        r"\[search\] 'partition.leafsize' is not known; did you mean 'partition.leaf_size'",
    ),
    "setting in a table": (
        f"{COMMAND}{SPACE}[search.partition]\nleafsize = 3\n",
        r"\[search\] 'partition.leafsize' is not known; did you mean 'partition.leaf_size'",
    ),
    "table": (
        f"{COMMAND}{SPACE}[search.partitions]\nleaf_size = 3\n",
        r"\[search\] 'partitions.leaf_size' is not known; did you mean 'partition.leaf_size'",
    ),
    "empty table": (
        f"{COMMAND}{SPACE}[search.partitions]\n",
        r"\[search\] 'partitions' is not known; did you mean 'partition'",
    ),
    "kind of no strategy": (
        f'{COMMAND}{SPACE}[search.zzz]\nkind = "a"\n',
        r"\[search\] 'zzz' is not known; allowed are",
    ),
    "setting of many": (
        f"{COMMAND}{SPACE}[search]\nshare = 0.5\n",
        r"\[search\] there is more than one setting 'share'; give 'crossover.share' or 'diff",
    ),
    "setting of what is not there": (
        f'{COMMAND}{SPACE}[search]\npreset = "paper"\nlearn_from = 3\n',
        r"\[search\] there is no setting 'learn_from' here; it comes with learning='pooled'",
    ),
    "setting twice": (
        f"{COMMAND}{SPACE}[search]\nleaf_size = 3\npartition.leaf_size = 4\n",
        r"\[search\] 'leaf_size' and 'partition.leaf_size' are one setting; give it once",
    ),
    "evaluate key": (
        f"{COMMAND}{SPACE}[evaluate]\nqqq = 3\n",
        r"\[evaluate\] 'qqq' is not known; allowed are workers, how, timeout, retries",
    ),
    "two objectives": (
        f'[objective]\npython = "a:b"\ncommand = "c"\n{SPACE}',
        "has python and command; give one of",
    ),
    "objective type": (f"[objective]\npython = 3\n{SPACE}", "python is 3; give a string"),
    "problem": (
        '[objective]\nproblem = "brann"\n',
        "unknown problem 'brann'; choose one of push14",
    ),
    "problem and space": (
        f'[objective]\nproblem = "branin"\n{SPACE}',
        r"\[space\] is given, but a problem has its own",
    ),
    "no space": (COMMAND, r"\[space\] is empty; give the parameters"),
    "bounds": (f"{COMMAND}[space]\nx = {{float = [1, 0]}}\n", "parameter 'x'.*low is above high"),
    "one bound": (
        f"{COMMAND}[space]\nx = {{float = [1]}}\n",
        r"parameter 'x': float is \[1\]; give \[low, high\]",
    ),
    "nan bound": (f"{COMMAND}[space]\nx = {{float = [nan, 1]}}\n", "parameter 'x'.*not finite"),
    "words": (f'{COMMAND}[space]\nx = {{int = ["a", "b"]}}\n', "parameter 'x'.*give"),
    "halves": (f"{COMMAND}[space]\nx = {{int = [0.5, 3]}}\n", "parameter 'x'.*not whole"),
    "log of zero": (
        f"{COMMAND}[space]\nx = {{float = [0, 1], log = true}}\n",
        "parameter 'x'.*(log|low)",
    ),
    "log word": (
        f'{COMMAND}[space]\nx = {{float = [1, 2], log = "yes"}}\n',
        "parameter 'x'.*log is 'yes'",
    ),
    "no kind": (f"{COMMAND}[space]\nx = [0, 1]\n", r"parameter 'x' is \[0, 1\]; give \{float ="),
    "two kinds": (
        f"{COMMAND}[space]\nx = {{float = [0, 1], int = [0, 1]}}\n",
        "parameter 'x'.*give",
    ),
    "more": (
        f"{COMMAND}[space]\nx = {{float = [0, 1], depth = 2}}\n",
        "parameter 'x' has 'depth'; beside 'float' there may only be 'log' or 'step'",
    ),
    "no choices": (f"{COMMAND}[space]\nx = {{choices = []}}\n", "parameter 'x': choices are empty"),
    "one choice": (
        f'{COMMAND}[space]\nx = {{choices = "ab"}}\n',
        "parameter 'x': choices are 'ab'",
    ),
    "placeholder": (
        f'[objective]\ncommand = "echo {{y}}"\n{SPACE}',
        r"has \{y\}, which is not a parameter.*are x",
    ),
    "empty placeholder": (f'[objective]\ncommand = "echo {{}}"\n{SPACE}', r"write \{name\}"),
    "open brace": (f'[objective]\ncommand = "echo {{x"\n{SPACE}', r"write \{name\}"),
    "empty command": (f'[objective]\ncommand = ""\n{SPACE}', "give a string such as"),
    "pipe": (f'[objective]\ncommand = "echo {{x}} | cat"\n{SPACE}', "only a shell understands"),
    "value": (f'{COMMAND}value = "xml"\n{SPACE}', "value is 'xml'; give 'last line', 'json'"),
    "preset": (f'{COMMAND}{SPACE}[search]\npreset = "papr"\n', "choose 'default' or 'paper'"),
    "setting type": (
        f'{COMMAND}{SPACE}[search]\nleaf_size = "big"\n',
        r"\[search\] leaf_size is 'big'; give a whole number",
    ),
    "setting type with a dot": (
        f'{COMMAND}{SPACE}[search]\npartition.leaf_size = "big"\n',
        r"\[search\] partition.leaf_size is 'big'; give a whole number",
    ),
    "setting type in a table": (
        f"{COMMAND}{SPACE}[search.mixture.crossover]\nshare = 3\n",
        r"\[search\] mixture.crossover.share is 3; give a number from 0 to 1",
    ),
    "setting of a huge size": (
        f"{COMMAND}{SPACE}[search]\npasses = {2**63}\n",
        r"\[search\] passes is 9223372036854775808; give a whole number of at least 1, at most",
    ),
    "setting without none": (
        f'{COMMAND}{SPACE}[search]\nleaf_size = "none"\n',
        r"\[search\] leaf_size is None; give a whole number",
    ),
    "strategy": (
        f'{COMMAND}{SPACE}[search]\nsearch = "prnted"\n',
        r"\[search\] search is 'prnted'; choose one of climbing, printed",
    ),
    "strategy type": (
        f"{COMMAND}{SPACE}[search]\nsearch = 3\n",
        r"\[search\] search is 3; give Climbing or Printed",
    ),
    "strategy without none": (
        f'{COMMAND}{SPACE}[search]\nsearch = "none"\n',
        r"\[search\] search is None; give Climbing or Printed",
    ),
    "kind": (
        f'{COMMAND}{SPACE}[search.search]\nkind = "prnted"\n',
        r"\[search\] search is 'prnted'; choose one of climbing, printed",
    ),
    "setting choice": (
        f'{COMMAND}{SPACE}[search]\nkernel = "rbf"\n',
        r"\[search\] kernel is 'rbf'; choose one of tile-coding",
    ),
    "setting pair": (
        f"{COMMAND}{SPACE}[search]\nbeta = [1]\n",
        r"\[search\] beta is \(1,\); give a pair",
    ),
    "not toml": ("[space\n", r"s\.toml: .*line 1"),
    "twice": (f"{SPACE}{SPACE}", r"s\.toml: .*space"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(tmp_path: Path, mistake: str) -> None:
    text, message = MISTAKES[mistake]
    with pytest.raises(ConfigError, match=message) as caught:
        read_config(write(tmp_path, text))
    assert str(tmp_path / "s.toml") in str(caught.value)


def test_not_utf_8(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"s\.toml: .*utf-8"):
        read_config(write(tmp_path, b"\xff\xfe[space]"))


def test_no_file_and_no_text_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no file .*none\.toml; `ebo init"):
        read_config(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="Is a directory"):
        read_config(tmp_path)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nowhere_to_be_found:f", "cannot import 'nowhere_to_be_found'.*looked for in"),
        ("math:nothing", "module 'math' has no function 'nothing'"),
        ("math:pi", "module 'math' has no function 'pi'"),
        ("math", "python is 'math'; give \"module:function\""),
        (":f", 'give "module:function"'),
        ("math:", 'give "module:function"'),
    ],
)
def test_functions_that_are_not_there(tmp_path: Path, target: str, message: str) -> None:
    config = read_config(write(tmp_path, f'[objective]\npython = "{target}"\n{SPACE}'))
    with pytest.raises(ConfigError, match=message):
        config.objective()


# From the shell: a line that begins with "error:", and no traceback.

WRONG_TYPES: dict[str, tuple[str, str]] = {
    "batch_size": ('[search]\nbatch_size = "many"\n', "batch_size is 'many'; give a whole number"),
    "batch_size of too many": (
        "[search]\nbatch_size = 1_000_000_000_000\n",
        r"\[search\] batch_size is 1000000000000; give a whole number of at least 1, at most 100",
    ),
    "initial of too many": (
        "[search]\ninitial = 1_000_001\n",
        r"\[search\] initial is 1000001; give a whole number of at least 1, at most 1000000\n",
    ),
    "batch_size half": ("[search]\nbatch_size = 2.5\n", "batch_size is 2.5; give a whole number"),
    "iterations": ("[search]\niterations = -1\n", "iterations is -1; give"),
    "initial": ("[search]\ninitial = true\n", "initial is True; give"),
    "seed": ('[search]\nseed = "x"\n', "seed is 'x'; give a whole number"),
    "timeout": ('[evaluate]\ntimeout = "x"\n', "timeout is 'x'; give a number of seconds"),
    "workers": ("[evaluate]\nworkers = 0\n", "workers is 0; give"),
    "retries": ("[evaluate]\nretries = 1.5\n", "retries is 1.5; give"),
    "how": ('[evaluate]\nhow = "magic"\n', "how is 'magic'; give 'processes'"),
}


@pytest.mark.parametrize("key", WRONG_TYPES)
def test_wrong_types_in_search_and_evaluate(
    tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text, message = WRONG_TYPES[key]
    code, out, err = run(tmp_path, f"{COMMAND}{SPACE}{text}", monkeypatch, capsys)
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert re.search(message, err)


@pytest.mark.parametrize("key", WRONG_TYPES)
def test_they_are_noticed_before_a_study_is_made(
    tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text, _ = WRONG_TYPES[key]
    _, _, err = run(tmp_path, f"{COMMAND}{SPACE}{text}", monkeypatch, capsys)
    assert "s.toml" in err
    assert not (tmp_path / "s.ebo").exists()


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        ('direction = "up"', "direction is 'up'; give 'maximize' or 'minimize'"),
        ('upper_bound = "high"', "upper_bound is 'high'; give a number"),
        ("lower_bound = 1.0", "give upper_bound"),
    ],
)
def test_wrong_types_in_objective(
    tmp_path: Path,
    objective: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, err = run(tmp_path, f"{COMMAND}{objective}\n{SPACE}", monkeypatch, capsys)
    assert code == 1
    assert err.startswith("error: ")
    assert message in err
    assert not (tmp_path / "s.ebo").exists()


@pytest.mark.parametrize(
    ("section", "line", "key"),
    [
        ("objective", 'vectorized = "no"', "vectorized"),
        ("objective", 'shell = "no"', "shell"),
        ("study", "file = 5", "file"),
    ],
)
def test_words_for_true_or_false_are_mistakes(
    tmp_path: Path,
    section: str,
    line: str,
    key: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`"no"` must not be taken for true."""
    objective = COMMAND + (f"{line}\n" if section == "objective" else "")
    other = f"[{section}]\n{line}\n" if section != "objective" else ""
    code, _, err = run(tmp_path, f"{objective}{SPACE}{SEARCH}{other}", monkeypatch, capsys)
    assert code == 1
    assert err.startswith("error: ")
    assert re.search(rf"\b{key} is .*give", err)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{COMMAND}upper_bound = {HUGE}\n{SPACE}{SEARCH}", id="bound"),
        pytest.param(f"{COMMAND}{SPACE}{SEARCH}alpha = {HUGE}\n", id="alpha"),
        pytest.param(
            f"{COMMAND}{SPACE}{SEARCH}[evaluate]\ntimeout = {HUGE}\n",
            id="timeout",
        ),
        pytest.param(f"{COMMAND}[space]\nx = {{int = [0, {HUGE}]}}\n", id="int"),
        pytest.param(f"{COMMAND}[space]\nx = {{float = [0, {HUGE}]}}\n", id="float"),
        pytest.param(f"{COMMAND}{SPACE}[search]\nbatch_size = {HUGE}\n", id="batch"),
        pytest.param(f"{COMMAND}{SPACE}[search]\ninitial = {2**62}\n", id="initial"),
        pytest.param("x = " + "[" * 5000, id="nested"),
        pytest.param("x" + ".x" * 5000 + " = 1", id="dotted"),
        pytest.param(f"{COMMAND}{SPACE}[search]\nseed = {'9' * 5000}\n", id="seed"),
    ],
)
def test_hostile_files(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(tmp_path, text, monkeypatch, capsys)
    assert code == 1
    assert err.startswith("error: ")


@pytest.mark.parametrize(
    ("name", "source"),
    [("bad_syntax", "def f(p: return"), ("bad_import", "1 / 0"), ("bad_name", "f = undefined")],
)
def test_a_module_that_cannot_be_imported(
    tmp_path: Path,
    name: str,
    source: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(tmp_path, source, f"{name}.py")
    text = f'[objective]\npython = "{name}:f"\n{SPACE}{SEARCH}'
    code, _, err = run(tmp_path, text, monkeypatch, capsys)
    assert code == 1
    assert "error: " in err
    assert name in err


def test_a_problem_may_be_minimised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its upper bound is then of no use, and not the user's mistake."""
    text = f'[objective]\nproblem = "branin"\ndirection = "minimize"\n{SEARCH}'
    code, _, err = run(tmp_path, text, monkeypatch, capsys)
    assert (code, err) == (0, "")


def test_a_problem_may_be_evaluated_by_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f'[objective]\nproblem = "branin"\n{SEARCH}[evaluate]\nworkers = 2\n'
    code, _, err = run(tmp_path, text, monkeypatch, capsys)
    assert (code, err) == (0, "")


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ("[0, 1]", "[0, 2]", "space"),
        ("seed = 0", "seed = 1", "seed"),
        ("leaf_size = 20", "leaf_size = 30", "setting"),
        ('"maximize"', '"minimize"', "direction"),
        ("upper_bound = 2", "upper_bound = 3", "bounds"),
    ],
)
def test_a_study_goes_on_only_with_what_it_was_made_with(
    tmp_path: Path,
    before: str,
    after: str,
    what: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bound = "upper_bound = 2\n" if what == "bounds" else ""
    text = (
        f'{COMMAND}direction = "maximize"\n{bound}{SPACE}'
        "[search]\nbatch_size = 2\niterations = 0\nseed = 0\nleaf_size = 20\n"
    )
    assert run(tmp_path, text, monkeypatch, capsys)[0] == 0
    assert run(tmp_path, text, monkeypatch, capsys)[0] == 0
    code, _, err = run(tmp_path, text.replace(before, after), monkeypatch, capsys)
    assert code == 1
    assert f"was made with another {what}" in err
    assert "Give the same, or another file" in err
    with Study.open(tmp_path / "s.ebo") as study:  # and the study is not kept locked
        assert len(study) == 2


def test_hostile_toml_runs_no_code(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    texts: list[Any] = [
        f"[space]\n\"__import__('os').mkdir('{mark}')\" = {{float = [0, 1]}}\n",
        f'[space]\nx = {{choices = ["$(mkdir {mark})", "`mkdir {mark}`"]}}\n',
    ]
    for i, text in enumerate(texts):
        config = read_config(write(tmp_path, text, f"{i}.toml"))
        with Study.create(config.study, config.space) as study:
            study.ask(2)
    assert not mark.exists()
