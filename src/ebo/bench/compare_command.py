"""The command `ebo bench compare`, and its tables."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from ebo.bench.scales import ScaleName
from ebo.bench.show import as_text, print_rows
from ebo.display import escaped

if TYPE_CHECKING:
    from ebo.bench.compare import Plan

PEERS = "ebo,turbo-1,cma,cem,de,random"
# Without SKL and the additive ones, for which thousands of observations are too many, the sparse
# ones, which have experiments of their own, and variants.
LARGE = "ebo,ebo-paper,turbo-1,turbo-5,cma,optuna-cma,tpe,cem,cem-full,de,sobol,random"
STANDARD = "branin,hartmann6,levy20,rastrigin20,rosenbrock20,griewank20,ackley50"


@dataclass(frozen=True)
class Scale:
    """What is compared where nothing else is said."""

    problems: str
    methods: str
    seeds: int
    initial: int | None  # None for 2,000 on a rover, else 1,000
    batches: int
    batch_size: int


SCALES = {
    ScaleName.smoke: Scale("hartmann6,add10", "ebo,cem,random", 1, 40, 2, 20),
    ScaleName.small: Scale("rover60,push14,add50", PEERS, 2, None, 10, 100),
    ScaleName.paper: Scale("rover60,push14,add50", LARGE, 5, None, 40, 100),
}


def register(bench: typer.Typer) -> None:
    """Add the command to those of `ebo bench`."""
    bench.command("compare")(bench_compare)


def _show_template(wanted: bool) -> None:
    if wanted:
        print((Path(__file__).parent / "template.py").read_text(encoding="utf-8"), end="")
        raise typer.Exit


def bench_compare(
    scale: Annotated[
        ScaleName, typer.Option(help="Half a minute, some minutes, or all peers for hours.")
    ] = ScaleName.small,
    problems: Annotated[
        str | None,
        typer.Option(
            help="Names, with commas between, or all; your own as module:factory. The factory is "
            "called with seed=; the problem has a space, maybe an upper_bound, and is called on "
            "points (n, D) for values (n,), which are maximised."
        ),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Names, with commas between, or all; other settings as "
            "ebo+mixture=None; your own as module:factory. The factory is called with a space and "
            "seed=, upper_bound= and workers=; the method has ask(n), which returns points (n, D), "
            "tell(X, y), and best(), which returns the best point and its value."
        ),
    ] = None,
    template: Annotated[
        bool,
        typer.Option(
            "--template",
            callback=_show_template,
            is_eager=True,
            help="Print a module with a problem and a method of your own, which runs, and end.",
        ),
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Runs of each method on each problem.")
    ] = None,
    initial: Annotated[
        int | None,
        typer.Option(min=1, help="Random points to begin with; by default 2000 (rover) or 1000."),
    ] = None,
    batches: Annotated[int | None, typer.Option(min=1, help="Batches after those.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Evaluations a batch.")] = None,
    obstacles: Annotated[
        Path | None, typer.Option(help="CSV of the centres of a rover's obstacles.")
    ] = None,
    problem_seed: Annotated[int, typer.Option(min=0, help="Seed of layouts and functions.")] = 0,
    upper_bound: Annotated[
        bool, typer.Option(help="Whether methods are told the problem's upper bound.")
    ] = True,
    jobs: Annotated[int, typer.Option(min=1, help="Processes, one run each at a time.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder of results and pictures.")] = Path(
        "out/compare"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Methods on problems with the same first points: best values, ranks, seconds.

    The scale is for what no other option says: small is ten batches of 100 on three problems.
    Results are kept in the folder run by run: the same command goes on where it was interrupted.

    Example: ebo bench compare --problems hartmann6,add10 --methods ebo,cem,cma --batches 10
    """
    from ebo.bench import baselines, compare
    from ebo.bench.compare_figure import write_figures
    from ebo.bench.machine import circumstances

    usual = SCALES[scale]
    plan = compare.Plan(
        problems=_listed(
            usual.problems if problems is None else problems, f"rover60,push14,add50,{STANDARD}"
        ),
        methods=_listed(usual.methods if methods is None else methods, ",".join(baselines.names())),
        seeds=seeds or usual.seeds,
        initial=initial or usual.initial,
        batches=batches or usual.batches,
        batch_size=batch_size or usual.batch_size,
        problem_seed=problem_seed,
        obstacles=None if obstacles is None else str(obstacles),
        upper_bound=upper_bound,
    )
    result = _run(plan, out, jobs)
    files = write_figures(result, out)
    result = {**circumstances(command(plan)), "figures": [file.name for file in files], **result}
    (out / "compare.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if as_json:
        print(json.dumps(result))
        return
    print_tables(result, Console())
    for file in files:
        print(f"Wrote {file}.")


def _run(plan: Plan, out: Path, jobs: int) -> dict[str, Any]:
    """Do the plan, and show how far it is and what comes out."""
    from ebo.bench import compare

    errors = Console(stderr=True, soft_wrap=True, highlight=False)
    columns = TextColumn("{task.description}", markup=False), BarColumn()
    bar = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=errors)
    bar.disable = not errors.is_terminal
    with bar:
        task = bar.add_task("compare", total=len(plan.tasks()) * plan.batches)

        def advance(done: int, text: str) -> None:
            bar.update(task, advance=done, description=text)

        def finished(record: dict[str, Any]) -> None:
            errors.print(Text(escaped(_outcome(record))))

        try:
            return compare.run(plan, out, advance, finished, jobs)
        except KeyboardInterrupt:
            errors.print(f"Interrupted; what was finished is in {out}. The same command goes on.")
            raise typer.Exit(130) from None


def command(plan: Plan) -> str:
    """The command that does a plan."""
    words = ["ebo", "bench", "compare"]
    for field in fields(plan):
        value = getattr(plan, field.name)
        if field.name == "upper_bound":
            words += [] if value else ["--no-upper-bound"]
        elif value:
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            if field.name == "obstacles":
                text = Path(text).name  # where it lies is the machine's own affair
            words += [f"--{field.name.replace('_', '-')}", text]
    return shlex.join(words)


def tables(result: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """By title, a table for every problem, the best method first, and one of the mean ranks."""
    found = {}
    for name, problem in result["problems"].items():
        title = (
            f"{name}: best value, {problem['initial']:,} random points, then {result['batches']} "
            f"batches of {result['batch_size']}; upper bound {as_text(problem['maximum'])}"
        )
        found[title] = [
            {
                "method": method,
                **{f"{share} %": row["best"][share] for share in ("25", "50", "100")},
                "each seed at the end": ", ".join(as_text(end) for end in row["seeds"].values()),
                "rank": row["rank"],
                "s a batch": row["seconds_a_batch"],
            }
            for method, row in sorted(problem["methods"].items(), key=lambda item: _order(item[1]))
        ]
    if len(result["problems"]) > 1:
        order = sorted(result["mean_rank"].items(), key=lambda item: (item[1] is None, item[1]))
        ranks = [{"method": method, "rank": rank} for method, rank in order]
        found["Mean rank over the problems"] = ranks
    return found


def print_tables(result: dict[str, Any], console: Console) -> None:
    """The tables, what failed, and on what machine."""
    for title, rows in tables(result).items():
        print_rows(title, rows, console)
    for problem in result["problems"].values():
        for method, row in problem["methods"].items():
            for seed, error in row["failed"].items():
                text = escaped(f"{method}, seed {seed} failed: {error}")
                console.print(Text(text, style="red"))
    console.print(
        f"{result['seeds']} seeds, {result['cores']} cores, {result['instruction_set']}. "
        f"Seconds are those of ask and tell."
    )


def _order(row: dict[str, Any]) -> tuple[bool, float]:
    end = row["best"]["100"]
    return end is None, -(end or 0.0)


def _outcome(record: dict[str, Any]) -> str:
    what = f"{record['problem']}, {record['method']}, seed {record['seed']}: "
    if record["error"] is not None:
        return what + f"failed, {record['error']}"
    return what + f"{as_text(record['best'][-1])}, {sum(record['seconds']):.1f} s"


def _listed(text: str, every: str) -> tuple[str, ...]:
    if text.strip() == "all":
        text = every
    return tuple(part.strip() for part in text.split(",") if part.strip())
