"""`ebo bench compare` at its smallest: figures, going on after an interruption, failures."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from ebo import Space, box, problems
from ebo.arrays import Floats
from ebo.bench import baselines, compare
from ebo.bench.baselines.uniform import Random
from ebo.bench.compare import Plan, Record, Task
from ebo.bench.compare_command import command as told
from ebo.bench.compare_command import register, tables
from ebo.bench.compare_figure import figure
from ebo.problems import Problem

HERE = __name__
TINY = Plan(
    problems=("ackley3", "hartmann6"),
    methods=("random", "cem", "de"),
    seeds=2,
    initial=12,
    batches=4,
    batch_size=5,
)


class Raises(Random):
    """A method that fails in its second batch."""

    def ask(self, n: int) -> Floats:
        if self.asked:
            raise RuntimeError("no more ideas")
        return super().ask(n)


class Portions(Random):
    """A method that would rather be asked for three points; it notes what it is given."""

    told: list[tuple[str, Any]] = []  # noqa: RUF012

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.told.append(("options", options))

    @property
    def portion(self) -> int | None:
        return 3

    def ask(self, n: int) -> Floats:
        self.told.append(("ask", n))
        return super().ask(n)


class Bowl(Problem):
    """A problem of the user; NaN where x is beyond `edge`."""

    def __init__(self, seed: int, edge: float = 2.0) -> None:
        super().__init__("bowl", [0.0, 0.0], [1.0, 1.0], 0.0)
        self.centre, self.edge = np.random.default_rng(seed).random(2), edge

    def _values(self, X: Floats) -> Floats:
        values = -np.sum((X - self.centre) ** 2, axis=1)
        return np.where(X[:, 0] > self.edge, np.nan, values)


def hopeless(seed: int) -> Bowl:
    return Bowl(seed, edge=-1.0)


def nothing(done: int, text: str) -> None:
    pass


def run(plan: Plan, folder: Path, **options: Any) -> dict[str, Any]:
    return compare.run(plan, folder, nothing, **options)


def stable(value: Any) -> Any:
    """The same without what the clock and the number of processes say."""
    if isinstance(value, dict):
        skip = "seconds", "seconds_a_batch", "workers", "jobs"
        return {key: stable(part) for key, part in value.items() if key not in skip}
    return value


def test_all_figures_are_there_and_agree(tmp_path: Path) -> None:
    steps: list[int] = []
    result = compare.run(TINY, tmp_path, lambda done, text: steps.append(done))
    assert sum(steps) == 2 * 3 * 2 * 4
    assert json.loads(json.dumps(result)) == result
    assert set(result["problems"]) == {"ackley3", "hartmann6"}
    assert result["cores"] >= 1
    records = compare.read(tmp_path / "compare.jsonl")
    assert len(records) == 12
    for name, problem in result["problems"].items():
        assert problem["initial"] == 12
        rows = problem["methods"]
        assert list(rows) == list(TINY.methods)
        for method, row in rows.items():
            runs = [r["best"] for r in records if (r["problem"], r["method"]) == (name, method)]
            assert np.shape(runs) == (2, 5)
            assert (np.diff(runs) >= 0).all()
            mean = np.mean(runs, axis=0)
            expected = dict(zip(("25", "50", "100"), mean[[1, 2, 4]].tolist(), strict=True))
            assert row["best"] == pytest.approx(expected)
            assert row["seeds"] == {"0": runs[0][-1], "1": runs[1][-1]}
            assert row["curve"]["mean"] == pytest.approx(mean.tolist())
            assert row["curve"]["low"] == np.min(runs, axis=0).tolist()
            assert row["curve"]["high"] == np.max(runs, axis=0).tolist()
            assert row["failed"] == {}
            share = row["best"]["100"] / problem["maximum"] if name == "hartmann6" else None
            assert row["share_of_bound"] == (share if share is None else pytest.approx(share))
            assert 0 < row["seconds_a_batch"] < 1
        ends = sorted((row["best"]["100"] for row in rows.values()), reverse=True)
        assert [ends[row["rank"] - 1] for row in rows.values()] == [
            row["best"]["100"] for row in rows.values()
        ]
    for method, rank in result["mean_rank"].items():
        found = [problem["methods"][method]["rank"] for problem in result["problems"].values()]
        assert rank == np.mean(found)


def test_first_points_are_the_same_for_all_methods_and_others_for_every_seed(
    tmp_path: Path,
) -> None:
    run(TINY, tmp_path)
    firsts: dict[tuple[str, int], set[float]] = {}
    for record in compare.read(tmp_path / "compare.jsonl"):
        place = record["problem"], record["seed"]
        firsts.setdefault(place, set()).add(record["best"][0])
    assert all(len(values) == 1 for values in firsts.values())
    assert len(set.union(*firsts.values())) == 4


def interrupt_after(n: int) -> Callable[[Record], None]:
    count = 0

    def finished(record: Record) -> None:
        nonlocal count
        count += 1
        if count == n:
            raise KeyboardInterrupt

    return finished


def test_an_interrupted_run_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(TINY, tmp_path / "whole")
    folder = tmp_path / "parts"
    with pytest.raises(KeyboardInterrupt):
        run(TINY, folder, finished=interrupt_after(5))
    file = folder / "compare.jsonl"
    assert file.read_text().count("\n") == 5
    with file.open("a") as stream:
        stream.write('{"problem": "ackley3", "met')  # torn by the interruption

    performed: list[Task] = []
    perform = compare.perform

    def noted(task: Task, *arguments: Any) -> Record:
        performed.append(task)
        return perform(task, *arguments)

    monkeypatch.setattr(compare, "perform", noted)
    steps: list[int] = []
    result = compare.run(TINY, folder, lambda done, text: steps.append(done))
    assert performed == TINY.tasks()[5:]
    assert steps[0] == 5 * 4
    assert sum(steps) == 12 * 4
    assert stable(result) == stable(whole)
    assert len(compare.read(file)) == 12

    again = run(TINY, folder)
    assert len(performed) == 7
    assert again == result
    more = run(replace(TINY, seeds=3, methods=("cem", "sobol")), folder)  # only what is new
    assert [(task.method, task.seed) for task in performed[7:]] == [
        ("sobol", 0),
        ("sobol", 1),
        ("cem", 2),
        ("sobol", 2),
    ] * 2
    old = result["problems"]["ackley3"]["methods"]["cem"]["seeds"]
    assert old.items() <= more["problems"]["ackley3"]["methods"]["cem"]["seeds"].items()


@pytest.mark.parametrize(
    "change",
    [{"initial": 13}, {"batches": 3}, {"batch_size": 4}, {"problem_seed": 1}, {"upper_bound": 0}],
)
def test_other_parameters_are_other_results(tmp_path: Path, change: dict[str, Any]) -> None:
    plan = replace(TINY, problems=("ackley3",), methods=("random",), seeds=1)
    run(plan, tmp_path)
    run(replace(plan, **change), tmp_path)
    assert len(compare.read(tmp_path / "compare.jsonl")) == 2


def test_a_layout_is_known_by_what_is_in_its_file(tmp_path: Path) -> None:
    layouts = [tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "c.csv"]
    for file, text in zip(layouts, ("0.5,0.5\n", "0.5,0.5\n", "0.4,0.5\n"), strict=True):
        file.write_text(text)
    plan = Plan(("rover60", "ackley2"), ("random",), 1, initial=3, batches=1, batch_size=2)
    for n, file in zip((2, 2, 3), layouts, strict=True):
        run(replace(plan, obstacles=str(file)), tmp_path)
        assert len(compare.read(tmp_path / "compare.jsonl")) == n


def test_a_method_that_raises_is_recorded_and_tried_again(tmp_path: Path) -> None:
    plan = replace(TINY, problems=("ackley3",), methods=("random", f"{HERE}:Raises", "cem"))
    steps: list[int] = []
    result = compare.run(plan, tmp_path, lambda done, text: steps.append(done))
    assert sum(steps) == 3 * 2 * 4
    rows = result["problems"]["ackley3"]["methods"]
    failed = rows[f"{HERE}:Raises"]
    message = "RuntimeError: no more ideas"
    assert failed["failed"] == {"0": message, "1": message}
    assert failed["rank"] is failed["best"]["100"] is failed["seconds_a_batch"] is None
    assert sorted(row["rank"] for row in rows.values() if row["rank"]) == [1, 2]
    assert result["mean_rank"][f"{HERE}:Raises"] is None
    records = compare.read(tmp_path / "compare.jsonl")
    assert len([r for r in records if r["error"] == message and len(r["best"]) == 2]) == 2
    run(plan, tmp_path)
    assert len(compare.read(tmp_path / "compare.jsonl")) == 6 + 2


def test_a_problem_of_the_user_and_one_whose_evaluations_all_fail(tmp_path: Path) -> None:
    plan = replace(TINY, problems=(f"{HERE}:Bowl", f"{HERE}:hopeless"), methods=("cem",))
    result = run(plan, tmp_path)
    bowl, none = (result["problems"][name]["methods"]["cem"] for name in plan.problems)
    assert -0.5 < bowl["best"]["100"] <= 0.0
    assert none["failed"]["0"] == "no evaluation has succeeded"
    assert none["rank"] is None


@dataclass
class Plain:
    """A problem of the user that has no more than it must."""

    seed: int
    space: Space = field(default_factory=lambda: box([0.0, 0.0], [1.0, 1.0]))

    def __call__(self, X: Floats) -> Floats:
        return np.asarray(-np.sum((X - 0.3) ** 2, axis=1))


@dataclass
class Endless(Plain):
    upper_bound: float | None = math.inf


@pytest.mark.parametrize("problem", ["Plain", "Endless"])
@pytest.mark.parametrize("told", [True, False])
def test_an_upper_bound_need_not_be_known(tmp_path: Path, problem: str, told: bool) -> None:
    name = f"{HERE}:{problem}"
    plan = replace(TINY, problems=(name,), methods=("ebo", "cem"), upper_bound=told)
    result = run(plan, tmp_path)
    found = result["problems"][name]
    assert found["maximum"] is None
    assert not any(row["failed"] for row in found["methods"].values())
    assert "upper bound -" in next(iter(tables(result)))
    assert figure(name, found, result).axes


@pytest.mark.parametrize("option", ["--problems", "--methods"])
def test_nothing_is_not_the_default(tmp_path: Path, option: str) -> None:
    """As of a shell's variable that is not set."""
    result = CliRunner().invoke(command(), ["compare", option, "", "--out", str(tmp_path)])
    assert isinstance(result.exception, ValueError)
    assert "at least one" in str(result.exception)


@pytest.mark.parametrize("told", [True, False])
def test_portions_and_upper_bounds(tmp_path: Path, told: bool) -> None:
    Portions.told.clear()
    method = f"{HERE}:Portions"
    plan = replace(TINY, problems=("hartmann6",), methods=(method,), seeds=1, upper_bound=told)
    plan = replace(plan, batches=1, batch_size=8)
    run(plan, tmp_path)
    (_, options), *asked = Portions.told
    bound = options["upper_bound"]
    assert bound == pytest.approx(3.32237, abs=1e-4) if told else bound is None
    assert asked == [("ask", 3), ("ask", 3), ("ask", 2)]


def problem_of(name: str, seed: int, problem_seed: int = 0) -> Any:
    plan = Plan((name,), ("random",), seed + 1, initial=4, problem_seed=problem_seed)
    return compare.make_problem(plan.tasks()[seed])


def test_a_rover_keeps_its_layout_and_has_noise_of_its_own() -> None:
    a, again, b = (problem_of("rover60", seed) for seed in (0, 0, 1))
    X = np.random.default_rng(0).uniform(a.lower, a.upper, (3, 60))
    first = a(X)
    assert np.array_equal(again(X), first)
    assert not np.array_equal(a(X), first)
    assert np.array_equal(a.centres, b.centres)
    other = b(X)
    assert 0 < np.abs(other - first).max() < 0.5
    assert not np.array_equal(problem_of("rover60", 0, 5).centres, a.centres)


def test_functions_that_are_random_differ_by_seed() -> None:
    for name, dims in (("ackley3", 3), ("add2", 2)):
        x = np.full((1, dims), 0.2)
        zero, one, next_zero = (problem_of(name, *at)(x)[0] for at in ((0, 0), (1, 0), (0, 1)))
        assert zero != one == next_zero


def test_defaults_of_the_first_points() -> None:
    plan = Plan(("rover60", "rover60-exact", "add50"), ("random",), seeds=1)
    assert [task.initial for task in plan.tasks()] == [2_000, 2_000, 1_000]


def test_mistakes_are_told_before_anything_runs(tmp_path: Path) -> None:
    for problem in ("akley3", "push15", "add", "ackley03"):
        with pytest.raises(ValueError, match=f"unknown problem '{problem}'"):
            replace(TINY, problems=(problem,))
    with pytest.raises(ValueError, match="unknown method 'cen'"):
        replace(TINY, methods=("cen",))
    with pytest.raises(ValueError, match="give each once"):
        replace(TINY, methods=("cem", "cem"))
    with pytest.raises(ValueError, match="at least one"):
        replace(TINY, problems=())
    with pytest.raises(ValueError, match="batches is 0"):
        replace(TINY, batches=0)
    with pytest.raises(ValueError, match="which is no file"):
        replace(TINY, obstacles="no/such/file.csv")
    with pytest.raises(ValueError, match="jobs is 0"):
        run(TINY, tmp_path, jobs=0)
    for name in ("add50", "add50-separate", "push14", "rover60-exact", "branin", "levy20"):
        replace(TINY, problems=(name,))


def test_a_file_of_something_else_is_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "compare.jsonl"
    file.write_text("hello\n")
    with pytest.raises(ValueError, match="line 1 is no result of this command"):
        run(TINY, tmp_path)
    assert file.read_text() == "hello\n"


def test_ranks() -> None:
    assert compare.ranks({"a": 1.0, "b": 3.0, "c": 1.0, "d": 0.0}) == {
        "a": 2,
        "b": 1,
        "c": 2,
        "d": 4,
    }


def test_figures_name_every_method_the_best_first(tmp_path: Path) -> None:
    for methods in (("random", "cem", "de"), ("random", "cem", "de", "sobol", "cem-full", "ebo")):
        result = run(replace(TINY, problems=("ackley3",), methods=methods), tmp_path)
        problem = result["problems"]["ackley3"]
        (axes,) = figure("ackley3", problem, result).axes
        legend = axes.get_legend()
        assert legend is not None
        shown = [text.get_text().split()[0] for text in legend.get_texts()]
        order = sorted(methods, key=lambda name: -problem["methods"][name]["best"]["100"])
        assert shown == [*order, "upper"]


@pytest.mark.parametrize(
    ("maximum", "end", "by_logarithms"),
    [(2.0, 1.5, False), (2.0, 1.999, True), (2.0, 2.0, True), (2.0, 2.1, True), (None, 2.0, False)],
)
def test_ends_that_a_plain_scale_would_hide_are_shown_by_logarithms(
    maximum: float | None, end: float, by_logarithms: bool
) -> None:
    curve = [-8.0, 1.0, end]
    row = {"curve": {"mean": curve, "low": [-9.0, 0.0, end], "high": curve}, "best": {"100": end}}
    problem = {"maximum": maximum, "initial": 10, "methods": {"one": row, "two": row}}
    (axes,) = figure("any", problem, {"batches": 2, "batch_size": 5, "seeds": 2}).axes
    shown = np.asarray(axes.lines[0].get_ydata(), dtype=np.float64)
    assert axes.get_yscale() == ("log" if by_logarithms else "linear")
    if by_logarithms:
        assert maximum is not None
        np.testing.assert_allclose(shown, [10.0, 1.0, max(2.0 - end, 1e-5)])
        low, high = axes.get_ylim()
        assert low > high  # up is better
        assert "below 2" in axes.get_ylabel()
    else:
        np.testing.assert_array_equal(shown, curve)


def command() -> typer.Typer:
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app)
    return app


def test_the_command(tmp_path: Path) -> None:
    sizes = ["--seeds", "2", "--initial", "12", "--batches", "4", "--batch-size", "5"]
    chosen = ["--problems", "ackley3, hartmann6", "--methods", f"random,cem,{HERE}:Raises"]
    given = ["compare", *chosen, *sizes, "--out", str(tmp_path)]
    table = CliRunner().invoke(command(), given, env={"COLUMNS": "200"})
    assert table.exit_code == 0, table.output
    for text in ("25 %", "each seed at the end", "Mean rank", "no more ideas", "upper bound 3.322"):
        assert text in table.output
    for name in ("ackley3.png", "hartmann6.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    printed = CliRunner().invoke(command(), [*given, "--json"])
    result = json.loads(printed.stdout)
    assert result == json.loads((tmp_path / "compare.json").read_text())
    assert result["problems"]["ackley3"]["methods"]["cem"]["rank"] in (1, 2)


def test_the_command_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(compare, "run", interrupted)
    given = ["compare", "--problems", "ackley3", "--methods", "random", "--out", str(tmp_path)]
    result = CliRunner().invoke(command(), given)
    assert result.exit_code == 130
    assert "The same command goes on" in result.output


def test_the_scale_is_for_what_is_not_said(tmp_path: Path) -> None:
    given = ["compare", "--scale", "smoke", "--problems", "branin", "--out", str(tmp_path)]
    result = CliRunner().invoke(command(), [*given, "--methods", "random,cem", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert list(found["problems"]) == ["branin"]
    assert list(found["problems"]["branin"]["methods"]) == ["random", "cem"]
    assert (found["seeds"], found["batches"], found["batch_size"]) == (1, 2, 20)
    assert found["problems"]["branin"]["initial"] == 40
    said = "--problems branin --methods random,cem --seeds 1 --initial 40 --batches 2"
    assert found["command"] == f"ebo bench compare {said} --batch-size 20"


def test_all_methods_and_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Plan] = []

    def noted(plan: Plan, *arguments: Any) -> None:
        plans.append(plan)
        raise KeyboardInterrupt

    monkeypatch.setattr(compare, "run", noted)
    given = ["compare", "--problems", "all", "--methods", "all", "--out", str(tmp_path)]
    CliRunner().invoke(command(), given)
    (plan,) = plans
    assert plan.methods == tuple(baselines.names())
    kinds = {re.sub("[0-9]+|{D}", "", name) for name in problems.names()}
    assert {re.sub("[0-9]+", "", name) for name in plan.problems} == {
        kind for kind in kinds if "-" not in kind
    }


def test_the_command_that_is_told_says_all_that_the_scale_would_have_chosen(tmp_path: Path) -> None:
    (tmp_path / "boxes.csv").write_text("0.5,0.5\n")
    plan = compare.Plan(("rover60",), ("cem",), obstacles=str(tmp_path / "boxes.csv"))
    sizes = "--seeds 3 --batches 40 --batch-size 100"
    chosen = "--problems rover60 --methods cem"
    assert told(plan) == f"ebo bench compare {chosen} {sizes} --obstacles boxes.csv"


def test_compare_at_smoke(tmp_path: Path) -> None:
    given = ["compare", "--scale", "smoke", "--out", str(tmp_path)]
    result = CliRunner().invoke(command(), given)
    assert result.exit_code == 0, result.output
    assert "Mean rank" in result.output
    assert (tmp_path / "hartmann6.png").exists()
