"""The commands `ebo bench ...`."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console

from ebo.bench.compare_command import register as register_compare
from ebo.bench.experiment_commands import register as register_experiments
from ebo.bench.show import print_rows, print_values

bench = typer.Typer(no_args_is_help=True, help="Measure speed and quality on this machine.")
register_compare(bench)
register_experiments(bench)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

progress = Console(stderr=True)


@bench.command("gibbs")
def bench_gibbs(
    as_json: AsJson = False,
    seed: Annotated[int, typer.Option(help="Seed of the data and the chains.")] = 0,
) -> None:
    """Speed of the Gibbs sampler: about four minutes on two cores.

    Example: ebo bench gibbs --json
    """
    from ebo.bench import gibbs

    with progress.status("Gibbs sampler") as status:
        result = gibbs.run(seed, lambda text: status.update(f"Gibbs sampler: {text}"))
    if as_json:
        print(json.dumps(result))
    else:
        print_values("Gibbs sampler", result)


@bench.command("structure")
def bench_structure(
    as_json: AsJson = False,
    seeds: Annotated[int, typer.Option(min=1, help="Number of functions a case.")] = 5,
) -> None:
    """How well additive structure is learned, per leaf and pooled: about a quarter of an hour.

    Example: ebo bench structure --seeds 2
    """
    from ebo.bench import structure

    with progress.status("Structure") as status:
        result = structure.run(seeds, lambda text: status.update(f"Structure: {text}"))
    if as_json:
        print(json.dumps(result))
    else:
        for name, case in result.items():
            print_values(f"{name}, mean of {seeds} seeds", {**case, "seeds": seeds})


@bench.command("ask")
def bench_ask(
    as_json: AsJson = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the data and the optimiser.")] = 0,
) -> None:
    """Seconds of one iteration by stage, up to 50,000 observations: about a minute on two cores.

    Example: ebo bench ask --json
    """
    from ebo.bench import ask

    with progress.status("Iteration") as status:
        result = ask.run(seed, lambda text: status.update(f"Iteration: {text}"), ask.FULL)
    if as_json:
        print(json.dumps(result))
        return
    rows = [
        {"dimensions": dims, "observations": n, **stages}
        for dims, sizes in result.pop("seconds").items()
        for n, stages in sizes.items()
    ]
    print_rows(f"Seconds of an iteration, batches of {result['batch_size']}", rows)
    print_values("Growth, filter and partition", result)


@bench.command("basics")
def bench_basics(
    as_json: AsJson = False,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Number of seeds; by default 20 for the illustration, else 10."),
    ] = None,
) -> None:
    """The paper's illustration, and four problems against random and Sobol search: half an hour.

    Example: ebo bench basics --seeds 2
    """
    from ebo.bench import basics

    with progress.status("Basics") as status:
        result = basics.run(
            seeds,
            lambda text: status.update(f"Basics: {text}"),
            basics.ILLUSTRATION,
            basics.PROBLEMS,
        )
    if as_json:
        print(json.dumps(result))
        return
    shown = result["illustration"]
    title = f"Illustration: regret over range, {shown['evaluations']} evaluations"
    print_rows(title, [*shown["seeds"], {"seed": "median", **shown["median_regret"]}])
    rows = [
        {
            "problem": name,
            **{key: case[key] for key in ("evaluations", "maximum", "ebo", "random", "sobol")},
            "better than both": f"{case['better_than_both']} of {len(case['seeds'])}",
        }
        for name, case in result["problems"].items()
    ]
    print_rows("Mean best value", rows)


@bench.command("store")
def bench_store(as_json: AsJson = False) -> None:
    """A million trials written and loaded, and Optuna's storages beside: about ten minutes.

    Example: ebo bench store --json
    """
    from ebo.bench import store

    with progress.status("Store") as status:
        result = store.run(lambda text: status.update(f"Store: {text}"))
    if as_json:
        print(json.dumps(result))
        return
    optuna = result.pop("optuna")
    print_values("Store", result)
    print_values("Beside Optuna", optuna if isinstance(optuna, dict) else {"optuna": optuna})
