"""The command line, `ebo`."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO

import typer
from rich.console import Console
from rich.table import Table

import ebo
from ebo.bench.commands import AsJson, bench
from ebo.display import escaped
from ebo.interrupt import Interruptible

if TYPE_CHECKING:  # else by `_load`
    from ebo.study.config import STARTER, Config, read_config
    from ebo.study.loop import AllFailedError
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
        from ebo.study import config, loop, progress, study
        from ebo.study.storage import base

    progress.log_to_standard_error()

    for module, names in (
        (config, ("STARTER", "Config", "read_config")),
        (loop, ("AllFailedError",)),
        (base, ("StudyError",)),
        (study, ("Study",)),
    ):
        globals().update({name: getattr(module, name) for name in names})


def _show_version(wanted: bool) -> None:
    if wanted:
        _say(f"ebo {ebo.__version__}")
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
    _say(f"Wrote {path}. Edit it, then: ebo run {path}")


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
    if config.warning:
        errors.print(escaped(f"warning: {config.warning}"), style="yellow", markup=False)
    # Processes even for one worker: what dies in one of them does not end the run.
    how = {} if config.vectorized else {"workers": None, "how": "processes"}
    with _created(config) as study:
        before = study.counts()
        try:
            result = study.run(objective, vectorized=config.vectorized, **{**how, **config.run})
        except KeyboardInterrupt:
            done = study.counts()["done"]
            message = f"Interrupted; {done} evaluations are kept. Go on with: ebo run {path}"
            errors.print(escaped(message), markup=False)
            raise typer.Exit(130) from None
        except AllFailedError as error:
            raise StudyError(
                f"{error.summary}. Repair the objective, then: ebo retry "
                f"{shlex.quote(str(config.study))} and again: ebo run {shlex.quote(str(path))}. "
                f'Or give on_error = "continue" in [evaluate]'
            ) from None
        counts = study.counts()
    if as_json:
        best_value = result.best_value if math.isfinite(result.best_value) else None
        print(json.dumps({"best_value": best_value, "evaluations": len(result.y), **counts}))
        return
    if counts == before:
        _say(f"Nothing to do: the study has all its {len(result.y)} evaluations.")
    _say(f"Best value {result.best_value:.6g} in {len(result.y)} evaluations.")
    _say(f"ebo best {config.study}      shows the point")
    _say(f"ebo report {config.study}    draws the pictures")


@app.command()
def retry(
    path: StudyPath,
    state: Annotated[
        str | None, typer.Option(help="Of failed, lost, timed-out; all three if left out.")
    ] = None,
    ids: Annotated[str | None, typer.Option(help="Their numbers; all if left out.")] = None,
) -> None:
    """Put evaluations that failed back to waiting; the next `ebo run` begins with them.

    Example: ebo retry study.ebo --state failed,lost
    """
    try:
        numbers = None if ids is None else [int(part) for part in ids.split(",")]
    except ValueError:
        raise StudyError(f"--ids is {ids!r}; give whole numbers, such as 3,7") from None
    with _opened(path) as study:
        chosen = study.retry(None if state is None else state.split(","), numbers)
    if not len(chosen):
        _say("Nothing to try again: no trial failed like that.")
        return
    _say(f"{len(chosen)} trials wait again; the next `ebo run` begins with them.")


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
    spreadsheet: Annotated[
        bool,
        typer.Option(
            "--spreadsheet",
            help="Put an apostrophe before text that begins like a formula (= + - @ tab), so that "
            "a spreadsheet does not run it. Numbers stay numbers.",
        ),
    ] = False,
) -> None:
    """All trials as CSV, exactly, so that `ebo import` can read them.

    Text in it may begin like a formula, which a spreadsheet runs when it opens the file: give
    --spreadsheet for one that you do not trust.

    Example: ebo export study.ebo -o trials.csv
    """
    with _opened(path, read_only=True) as study:
        if out is None:
            with _to_terminal() as file:
                study.write_csv(file, spreadsheet=spreadsheet)
        else:
            count = study.export_csv(out, spreadsheet=spreadsheet)
            _say(f"Wrote {count} trials to {out}.")


@app.command("import")
def import_(
    path: StudyPath, table: Annotated[Path, typer.Argument(help="CSV with a column `value`.")]
) -> None:
    """Take observations from a CSV file in: all, or none and a list of what is wrong.

    Example: ebo import study.toml earlier.csv
    """
    with _opened(path) as study:
        _say(f"Took {study.import_csv(table)} observations in.")


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
        with _to_terminal() as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["id", *study.space.names, "value"])
            for number, params in zip(ids.tolist(), study.space.to_dicts(X), strict=True):
                writer.writerow([number, *params.values(), ""])


@app.command()
def tell(
    path: StudyPath,
    table: Annotated[Path, typer.Argument(help="CSV with the columns id and value.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace values that were told otherwise before.")
    ] = False,
) -> None:
    """Take the values of points that were asked for in; nan says that one failed.

    A file may be told again with more of it filled: what is there already is skipped. Values that
    differ from those there are listed and left, or taken with --overwrite; the file of the study
    keeps the old ones.

    Example: ebo tell study.ebo points.csv
    """
    from ebo.study.table import first_of, read_values
    from ebo.study.telling import compare

    values, lines = read_values(table)
    with _opened(path) as study:
        told = compare(study.storage, values)
        left = {} if overwrite else told.different
        study.tell_trials({i: values[i] for i in values if i not in left}, overwrite=overwrite)
        waiting = study.counts()["waiting"]
    before = f"; {len(told.same)} were there before" if told.same else ""
    if left:
        listed = first_of([f"line {lines[i]}: {told.words[i]}" for i in left])
        raise StudyError(
            f"{table}: took {len(told.new)} values in{before}; {len(left)} differ from what is "
            f"there and were left:\n{listed}\nTo take them: ebo tell --overwrite"
        )
    replaced = f", {len(told.different)} of them anew" if told.different else ""
    taken = len(told.new) + len(told.different)
    _say(f"Took {taken} values in{replaced}{before}; {waiting} are still waited for.")


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
    _say(f"Wrote {out}.")


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
    """Text that is shown and not obeyed, neither by rich (brackets) nor by a terminal."""
    from rich.text import Text

    return Text(escaped(text))


def _say(text: str) -> None:
    """Print a line for people."""
    print(escaped(text))


@contextmanager
def _to_terminal() -> Iterator[TextIO]:
    """Standard output: exact into a file or a pipe, and escaped where it is a terminal."""
    if not sys.stdout.isatty():
        yield sys.stdout
        return
    with io.StringIO() as file:
        yield file
        print(escaped(file.getvalue()), end="")


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
        mistakes = (
            StudyError,
            ValueError,
            TypeError,
            OverflowError,
            RuntimeError,
            OSError,
            ImportError,
        )
        if not isinstance(error, mistakes) or os.environ.get("EBO_DEBUG"):
            raise
        errors.print(escaped(f"error: {error}"), style="red", markup=False)
        sys.exit(1)
    sys.exit(0)
