"""A study described in TOML: objective, space, search, evaluation.

Every mistake is reported with its key and what is allowed there.
"""

from __future__ import annotations

import difflib
import importlib
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ebo.checks import check_count
from ebo.optimizer import MOST_POINTS
from ebo.settings import Settings
from ebo.space import Space
from ebo.strategies import UnknownSettingError
from ebo.study.storage.describe import read_parameters, read_settings

SECTIONS = ("study", "objective", "space", "search", "evaluate")
OBJECTIVE = ("python", "command", "problem", "seed", "shell", "value", "vectorized", "direction")
SQLITE = b"SQLite format 3\0"  # how the file of a study begins
BOUNDS = ("upper_bound", "lower_bound")
SEARCH = ("batch_size", "iterations", "initial", "seed", "preset")
EVALUATE = ("workers", "how", "timeout", "retries", "on_error")

ONE_OF = 'give one of python = "module:function", command = "..." or problem = "name"'

STARTER = """\
# A study: `ebo run {name}` starts it, or goes on where it stopped.

[objective]
# One of: a Python function "module:function", which gets a dict of parameters and returns a number;
# a command that prints its value on the last line; or a problem that comes with ebo.
python = "objective:evaluate"
# command = "./simulate --gain {{gain}} --steps {{steps}}"
# problem = "rover60"
direction = "maximize"          # or "minimize"
# upper_bound = 5.0             # a value that cannot be exceeded, if known (lower_bound: below)

[space]                         # not needed with a problem
gain = {{float = [1e-3, 1e1], log = true}}
steps = {{int = [1, 50]}}       # a float may have steps: {{float = [0, 1], step = 0.1}}
mode = {{choices = ["slow", "fast"]}}

[search]
batch_size = 100                # evaluations proposed at once
iterations = 20                 # batches, after the initial points
# initial = 100                 # points of a Sobol sequence to begin with; one batch if left out
seed = 0
# preset = "paper"              # the algorithm as printed; or leave it, and change single settings:
# leaf_size = 800

[evaluate]
# workers = 8                   # processes; as many as there are cores if left out
# timeout = 60.0                # seconds; what takes longer is stopped and counts as failed
# retries = 1                   # times that a failed evaluation is tried again
# on_error = "continue"         # else "stop": the run ends where a whole batch failed; or "raise"
"""


class ConfigError(ValueError):
    """A mistake in the TOML file; the message names the key and what is allowed."""


@dataclass(frozen=True)
class Config:
    """What a TOML file says."""

    study: Path
    space: Space
    direction: str
    bounds: dict[str, float]
    vectorized: bool
    settings: Settings
    seed: int
    run: dict[str, Any]  # arguments of `Study.run`
    load: Callable[[], Callable[[Any], Any]]
    warning: str = ""  # of what is allowed, and hardly meant

    def objective(self) -> Callable[[Any], Any]:
        """The function to evaluate; only now is a module imported."""
        try:
            return self.load()
        except (ValueError, TypeError) as error:
            raise ConfigError(str(error)) from None


def read_config(path: Path) -> Config:
    """Read a TOML file; Python objectives are imported from its folder as well."""
    try:
        with path.open("rb") as file:
            if file.read(len(SQLITE)) == SQLITE:
                raise ConfigError(
                    f"{path} is a study, and a run needs its description; give the .toml file that "
                    f"it was made from. `ebo init` writes a new one, and [study] file = "
                    f'"{path.name}" in it goes on with this study'
                )
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}; `ebo init {path}` writes one") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: lists or tables are nested too deep") from None
    try:
        return _config(data, path)
    except (ValueError, TypeError, OverflowError) as error:
        raise ConfigError(f"{path}: {error}") from None


def _config(data: Mapping[str, Any], path: Path) -> Config:
    _known("section", data, SECTIONS)
    parts = {name: _table(name, data.get(name, {})) for name in SECTIONS}
    _known("[study]", parts["study"], ("file",))
    objective, search, evaluate = parts["objective"], parts["search"], parts["evaluate"]
    _known("[objective]", objective, (*OBJECTIVE, *BOUNDS))
    if "stop_when_all_fail" in evaluate:
        raise ValueError(
            "[evaluate] stop_when_all_fail is called on_error now; write on_error = "
            '"continue" for false, and leave it out for true'
        )
    _known("[evaluate]", evaluate, EVALUATE)
    # A built-in problem takes all points at once, unless it is said how to evaluate it.
    vectorized = objective.get("vectorized", "problem" in objective and not evaluate)
    load, space, known_bounds = _objective(objective, parts["space"], path, vectorized)
    settings = _settings(search)
    _check(search, evaluate, objective, parts["study"])
    run = {key: search[key] for key in ("batch_size", "iterations", "initial") if key in search}
    bounds = {key: float(objective[key]) for key in BOUNDS if key in objective}
    direction = objective.get("direction", "maximize")
    if direction != "maximize":
        known_bounds = {}
    return Config(
        study=path.parent / parts["study"].get("file", path.with_suffix(".ebo").name),
        space=space,
        direction=direction,
        bounds=bounds or known_bounds,
        vectorized=vectorized,
        settings=settings,
        seed=search.get("seed", 0),
        run={**run, **evaluate},
        load=load,
        warning=_warning(objective),
    )


def _warning(objective: Mapping[str, Any]) -> str:
    """What is hardly meant: a command that no parameter reaches."""
    from ebo.study.evaluation.command import Command

    template = objective.get("command")
    if template is None or Command(template, shell=objective.get("shell", False)).names:
        return ""
    return (
        f"[objective] command is {template!r}, without a placeholder: it does the same for every "
        f"point. Put the parameters in, such as {{name}}"
    )


def _settings(search: Mapping[str, Any]) -> Settings:
    """The settings among the keys of [search]; an unknown one may be meant to be any key there."""
    data = {key: value for key, value in search.items() if key not in SEARCH}
    try:
        return read_settings(data, preset=search.get("preset", "default"))
    except UnknownSettingError as error:
        near = difflib.get_close_matches(error.name, (*SEARCH, *error.known), n=1)
        names = sorted({name.rpartition(".")[2] for name in error.known})
        hint = f"did you mean {near[0]!r}?" if near else f"allowed are {', '.join(SEARCH)}, and "
        hint += "" if near else f"the settings {', '.join(names)}"
        raise ValueError(f"[search] {error.name!r} is not known; {hint}") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"[search] {error}") from None


def _objective(
    table: Mapping[str, Any], space: Mapping[str, Any], path: Path, vectorized: bool
) -> tuple[Callable[[], Callable[[Any], Any]], Space, dict[str, float]]:
    """How to get the function, its space, and its bounds where a problem has them."""
    given = [key for key in ("python", "command", "problem") if key in table]
    if len(given) > 1:
        raise ValueError(f"[objective] has {' and '.join(given)}; {ONE_OF}")
    kind = given[0] if given else ""
    target = table.get(kind, "")
    if not isinstance(target, str):
        raise ValueError(f"[objective] {kind} is {target!r}; give a string")
    if kind == "problem":
        from ebo import problems

        if space:
            raise ValueError("[space] is given, but a problem has its own; leave one of them out")
        problem = problems.get(target, seed=table.get("seed", 0))
        f = problem if vectorized else partial(_at_one_point, problem)
        return lambda: f, problem.space, {"upper_bound": problem.upper_bound}
    if not space:
        raise ValueError("[space] is empty; give the parameters to search")
    parameters = Space(read_parameters(space))
    if kind == "python":
        return lambda: _imported(target, path.parent), parameters, {}
    if not kind:  # points are evaluated elsewhere, by `ebo ask` and `ebo tell`
        return _nothing, parameters, {}
    from ebo.study.evaluation.command import Command  # slow to import, with its processes

    command = Command(
        target, value=table.get("value", "last line"), shell=table.get("shell", False)
    )
    command.check(parameters.names)
    return lambda: command, parameters, {}


def _at_one_point(problem: Callable[[Any], Any], x: Any) -> float:
    return float(problem(x[None, :])[0])


def _nothing() -> Callable[[Any], Any]:
    raise ValueError(f"[objective] has nothing to evaluate; {ONE_OF}")


def _imported(target: str, folder: Path) -> Callable[[Any], Any]:
    """The function "module:function", searched for in the TOML file's folder too."""
    module_name, colon, name = target.partition(":")
    if not (module_name and colon and name):
        raise ValueError(f'[objective] python is {target!r}; give "module:function"')
    sys.path.insert(0, str(folder.resolve()))  # and it stays: the function may import more
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise ValueError(
            f"[objective] python: cannot import {module_name!r} ({type(error).__name__}: {error}); "
            f"it is looked for in {folder.resolve()} and where Python looks"
        ) from None
    function = getattr(module, name, None)
    if not callable(function):
        raise ValueError(f"[objective] python: module {module_name!r} has no function {name!r}")
    return function  # type: ignore[no-any-return]


def _check(
    search: Mapping[str, Any],
    evaluate: Mapping[str, Any],
    objective: Mapping[str, Any],
    study: Mapping[str, Any],
) -> None:
    """Types of what is not checked where it is used, or only when there is a file already."""
    for where, table, names in (
        ("[search]", search, ("batch_size", "iterations", "initial", "seed")),
        ("[evaluate]", evaluate, ("workers", "retries")),
    ):
        for name in names:
            value = table.get(name, 1)
            least = 0 if name in ("iterations", "seed", "retries") else 1
            most = MOST_POINTS if name in ("batch_size", "initial") else None
            check_count(f"{where} {name}", value, least, most=most)
    timeout = evaluate.get("timeout", 1.0)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise ValueError(f"[evaluate] timeout is {timeout!r}; give a number of seconds")
    how = evaluate.get("how", "processes")
    if how not in ("processes", "threads"):
        raise ValueError(f"[evaluate] how is {how!r}; give 'processes' or 'threads'")
    on_error = evaluate.get("on_error", "stop")
    if on_error not in ("stop", "continue", "raise"):
        raise ValueError(f"[evaluate] on_error is {on_error!r}; give 'stop', 'continue' or 'raise'")
    for name in ("vectorized", "shell"):
        if not isinstance(objective.get(name, False), bool):
            raise ValueError(f"[objective] {name} is {objective[name]!r}; give true or false")
    for name in BOUNDS:
        value = objective.get(name, 0.0)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"[objective] {name} is {value!r}; give a number")
    if not isinstance(study.get("file", ""), str):
        raise ValueError(f"[study] file is {study['file']!r}; give the name of a file")


def _table(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} is {value!r}; give a section [{name}]")
    return value


def _known(where: str, table: Mapping[str, Any], allowed: tuple[str, ...]) -> None:
    """Refuse keys that nobody reads, showing what was probably meant."""
    for key in table:
        if key not in allowed:
            near = difflib.get_close_matches(key, allowed, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"allowed are {', '.join(allowed)}"
            raise ValueError(f"{where} {key!r} is not known; {hint}")
