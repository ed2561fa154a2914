"""The command line, `ebo`."""

from __future__ import annotations

import csv
import json
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

import ebo
from ebo.bench.commands import AsJson, bench
from ebo.interrupt import Interruptible

if TYPE_CHECKING:  # else by `_load`
    from ebo.study.config import STARTER, Config, read_config
    from ebo.study.storage.base import StudyError
    from ebo.study.study import Study

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Ensemble Bayesian optimisation.",
)
app.add_typer(bench, name="bench")

StudyPath = Annotated[
    Path, typer.Argument(help="The study: its file (.ebo), or its description (.toml).")
]

errors = Console(stderr=True, soft_wrap=True, highlight=False)


def _load() -> None:
    """Import what commands use of studies. It takes NumPy, which help can do without."""
    with Interruptible():
        from ebo.study import config, progress, study
        from ebo.study.storage import base

    progress.log_to_standard_error()

    for module, names in (
        (config, ("STARTER", "Config", "read_config")),
        (base, ("StudyError",)),
        (study, ("Study",)),
    ):
        globals().update({name: getattr(module, name) for name in names})


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"ebo {ebo.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Ensemble Bayesian optimisation."""
    _load()


@app.command()
def init(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("study.toml"),
) -> None:
    """Write a commented TOML file to begin with.

    Example: ebo init study.toml
    """
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(STARTER.format(name=path.name))
    except FileExistsError:
        raise StudyError(f"{path} exists; give another name") from None
    print(f"Wrote {path}. Edit it, then: ebo run {path}")


@app.command()
def run(
    path: Annotated[Path, typer.Argument(help="The study's description (.toml).")],
    as_json: AsJson = False,
) -> None:
    """Start a study, or go on with it where it stopped.

    Example: ebo run study.toml
    """
    config = read_config(path)
    objective = config.objective()
    # Processes even for one worker: what dies in one of them does not end the run.
    how = {} if config.vectorized else {"workers": None, "how": "processes"}
    with _created(config) as study:
        before = study.counts()
        try:
            result = study.run(objective, vectorized=config.vectorized, **{**how, **config.run})
        except KeyboardInterrupt:
            done = study.counts()["done"]
            message = f"Interrupted; {done} evaluations are kept. Go on with: ebo run {path}"
            errors.print(message, markup=False)
            raise typer.Exit(130) from None
        counts = study.counts()
    if as_json:
        best_value = result.best_value if math.isfinite(result.best_value) else None
        print(json.dumps({"best_value": best_value, "evaluations": len(result.y), **counts}))
        return
    if counts == before:
        print(f"Nothing to do: the study has all its {len(result.y)} evaluations.")
    print(f"Best value {result.best_value:.6g} in {len(result.y)} evaluations.")
    print(f"ebo best {config.study}      shows the point")
    print(f"ebo report {config.study}    draws the pictures")


@app.command()
def status(path: StudyPath, as_json: AsJson = False) -> None:
    """How far a study is; also while it runs.

    Example: ebo status study.ebo
    """
    from ebo.study.status import status_of

    with _opened(path, read_only=True) as study:
        summary = status_of(study, _described(path))
    _show(summary, as_json)


@app.command()
def best(path: StudyPath, as_json: AsJson = False) -> None:
    """The best point and its value.

    Example: ebo best study.ebo --json
    """
    with _opened(path, read_only=True) as study:
        if not study.optimizer.any_value:
            raise StudyError(f"{study.name} has no value yet")
        x, value = study.optimizer.best()
        params = study.space.to_dicts(x[None, :])[0]
    _show({"value": value, **({"params": params} if as_json else params)}, as_json)


@app.command()
def show(
    path: StudyPath,
    number: Annotated[int, typer.Argument(metavar="ID", help="The trial's number.")],
    as_json: AsJson = False,
) -> None:
    """One trial: state, value, times, parameters, and the error if it failed.

    Example: ebo show study.ebo 17
    """
    from ebo.study.table import iso_time

    with _opened(path, read_only=True) as study:
        trial = study.trial(number)
    params = trial.pop("params")
    trial |= {key: iso_time(trial[key]) for key in ("started", "finished")}
    _show({**trial, **({"params": params} if as_json else params)}, as_json)


@app.command()
def export(
    path: StudyPath,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A file; else the terminal.")
    ] = None,
) -> None:
    """All trials as CSV.

    Example: ebo export study.ebo -o trials.csv
    """
    with _opened(path, read_only=True) as study:
        if out is None:
            study.write_csv(sys.stdout)
        else:
            print(f"Wrote {study.export_csv(out)} trials to {out}.")


@app.command("import")
def import_(
    path: StudyPath, table: Annotated[Path, typer.Argument(help="CSV with a column `value`.")]
) -> None:
    """Take observations from a CSV file in: all, or none and a list of what is wrong.

    Example: ebo import study.toml earlier.csv
    """
    with _opened(path) as study:
        print(f"Took {study.import_csv(table)} observations in.")


@app.command()
def ask(
    path: StudyPath,
    n: Annotated[int, typer.Option("-n", min=1, help="How many points.")] = 100,
) -> None:
    """Points to evaluate elsewhere, as CSV with the columns id and value, which is empty.

    Example: ebo ask study.toml -n 100 > points.csv
    """
    with _opened(path) as study:
        ids, X = study.ask_trials(n)
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(["id", *study.space.names, "value"])
        for number, params in zip(ids.tolist(), study.space.to_dicts(X), strict=True):
            writer.writerow([number, *params.values(), ""])


@app.command()
def tell(
    path: StudyPath,
    table: Annotated[Path, typer.Argument(help="CSV with the columns id and value.")],
) -> None:
    """Take the values of points that were asked for in; nan says that one failed.

    Example: ebo tell study.ebo points.csv
    """
    from ebo.study.table import read_values

    values = read_values(table)
    with _opened(path) as study:
        study.tell_trials(values)
        print(f"Took {len(values)} values in; {study.counts()['waiting']} are still waited for.")


@app.command()
def report(
    path: StudyPath,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")] = Path(
        "report.html"
    ),
) -> None:
    """One HTML file with the pictures, which opens without a network.

    Example: ebo report study.ebo -o report.html
    """
    from ebo.study.report.page import write_report

    with _opened(path, read_only=True) as study:
        write_report(study.report_data(), out)
    print(f"Wrote {out}.")


def _opened(path: Path, read_only: bool = False) -> Study:
    """The study of a file; one that is only described so far is made, unless just looked at."""
    if path.suffix != ".toml":
        return Study.open(path, read_only=read_only)
    config = read_config(path)
    return Study.open(config.study, read_only=True) if read_only else _created(config)


def _described(path: Path) -> Config | None:
    """The description of a study: the file itself, or the TOML file beside of the same name."""
    toml = path.with_suffix(".toml")
    if path.suffix != ".toml" and not toml.is_file():
        return None
    try:
        config = read_config(toml)
        return config if path == toml or config.study.samefile(path) else None
    except (ValueError, OSError):
        if path == toml:
            raise
        return None  # nobody asked for it


def _created(config: Config) -> Study:
    """The study that a TOML file describes, made if it is not there."""
    return Study.create(
        config.study,
        config.space,
        direction=config.direction,
        seed=config.seed,
        settings=config.settings,
        exist_ok=True,
        **config.bounds,
    )


def _show(values: dict[str, Any], as_json: bool) -> None:
    """A JSON object, or a table of two columns."""
    if as_json:
        print(json.dumps(values))
        return
    table = Table(show_header=False)
    for key, value in values.items():
        text = f"{value:.8g}" if isinstance(value, float) else str(value)
        table.add_row(_plain(key), _plain(text))
    Console().print(table)


def _plain(text: str) -> Any:
    """Text that is shown as it is, brackets and all."""
    from rich.text import Text

    return Text(text)


def main() -> NoReturn:
    """Entry point of the `ebo` command: mistakes end in a message, not in a traceback.

    EBO_DEBUG=1 in the environment shows the traceback all the same.
    """
    try:
        app(standalone_mode=True)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        _load()
        mistakes = StudyError, ValueError, TypeError, OverflowError, RuntimeError, OSError
        if not isinstance(error, mistakes) or os.environ.get("EBO_DEBUG"):
            raise
        errors.print(f"error: {error}", style="red", markup=False)
        sys.exit(1)
    sys.exit(0)
