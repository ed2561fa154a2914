"""The command line, `ebo`."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Ensemble Bayesian optimisation."
)
bench = typer.Typer(no_args_is_help=True, help="Measure speed and quality on this machine.")
app.add_typer(bench, name="bench")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

progress = Console(stderr=True)


@app.callback()
def root() -> None:
    """Ensemble Bayesian optimisation."""


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
        _print_table("Gibbs sampler", result)


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
            _print_table(f"{name}, mean of {seeds} seeds", {**case, "seeds": seeds})


def _print_table(title: str, values: dict[str, Any]) -> None:
    table = Table(title=title, show_header=False)
    for key, value in values.items():
        parts = value.items() if isinstance(value, dict) else [("", value)]
        for part, number in parts:
            text = f"{number:.4g}" if isinstance(number, float) else str(number)
            table.add_row(f"{key} {part}".strip(), text)
    Console().print(table)


def main() -> None:
    """Entry point of the `ebo` command."""
    app()
