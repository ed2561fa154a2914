"""The commands `ebo bench NAME` of the experiments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from ebo.bench.experiments import EXPERIMENTS
from ebo.bench.scales import ScaleName
from ebo.bench.show import print_rows


def register(bench: typer.Typer) -> None:
    """Add a command for every experiment."""
    for name, title in EXPERIMENTS.items():
        help = f"{title}.\n\nExample: ebo bench {name} --scale smoke"
        bench.command(name, help=help, rich_help_panel="Experiments")(_command(name))


def _command(name: str) -> Any:
    def command(
        scale: Annotated[
            ScaleName, typer.Option(help="Half a minute, ten minutes, or as in the paper.")
        ] = ScaleName.small,
        seeds: Annotated[
            int | None, typer.Option(min=1, help="Number of seeds; by default that of the scale.")
        ] = None,
        out: Annotated[
            Path | None,
            typer.Option(help="Folder of results and pictures; by default out/NAME-SCALE."),
        ] = None,
        as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    ) -> None:
        run(name, scale.value, seeds, out or Path("out") / f"{name}-{scale.value}", as_json)

    return command


def run(name: str, scale: str, seeds: int | None, folder: Path, as_json: bool) -> None:
    """Do the experiment, and print what came out."""
    from ebo.bench.experiments import get
    from ebo.bench.experiments.base import perform

    errors = Console(stderr=True, soft_wrap=True, highlight=False)
    with errors.status(name) as status:
        try:
            experiment = get(name)
            report = perform(
                experiment,
                name,
                scale,
                seeds,
                folder,
                lambda text: status.update(Text(f"{name}: {text}")),
            )
        except KeyboardInterrupt:
            status.stop()
            errors.print(
                f"Interrupted; what was finished is in {folder}. The same command goes on."
            )
            raise typer.Exit(130) from None
    if as_json:
        print(json.dumps(report))
        return
    for title, rows in experiment.tables(report["result"]).items():
        print_rows(title, rows)
    console = Console(highlight=False)
    for claim in report["claims"]:
        mark, style = ("holds", "green") if claim["holds"] else ("does not hold", "red")
        console.print(Text(f"{claim['text']}: {claim['found']}: "), Text(mark, style=style), sep="")
    for file in report["figures"]:
        print(f"Wrote {folder / file}.")
