"""Space and settings as plain data, for the study file and for TOML: no code is stored or loaded.

lr    = {float = [1e-5, 1e-1], log = true}
depth = {int = [2, 12]}
act   = {choices = ["relu", "gelu"]}          # ordered = true where neighbours are alike
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ebo.settings import Settings
from ebo.space import Space, box
from ebo.space.parameters import Categorical, Float, Int, Parameter

FORMS = "{float = [low, high]}, {int = [low, high]} (both may have log = true) or {choices = [...]}"


def describe_space(space: Space) -> dict[str, Any]:
    """A space as JSON data."""
    return {
        "named": space.named,
        "parameters": {name: _describe(name, p) for name, p in space.parameters.items()},
    }


def read_space(data: Mapping[str, Any]) -> Space:
    """The space that `describe_space` described."""
    parameters = read_parameters(data["parameters"])
    if data["named"]:
        return Space(parameters)
    bounds = [(p.low, p.high) for p in parameters.values() if isinstance(p, Float)]
    return box([low for low, _ in bounds], [high for _, high in bounds], list(parameters))


def read_parameters(table: Mapping[str, Any]) -> dict[str, Parameter]:
    """Parameters by name, of a JSON or TOML table."""
    return {name: _read(name, entry) for name, entry in table.items()}


def describe_settings(settings: Settings) -> dict[str, Any]:
    """Settings as JSON data."""
    return settings.as_dict()


def read_settings(data: Mapping[str, Any], preset: str = "default") -> Settings:
    """Settings by name on top of a preset; an unknown name is an error that shows what is near."""
    known = [field.name for field in fields(Settings)]
    for name in data:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
            raise ValueError(f"there is no setting {name!r}{hint}")
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in data.items()
    }
    if preset not in ("default", "paper"):
        raise ValueError(f"preset is {preset!r}; choose 'default' or 'paper'")
    return Settings(**values) if preset == "default" else Settings.paper(**values)


def migrate_settings(data: dict[str, Any], schema: int) -> dict[str, Any]:
    """Settings as the study file has them today, from those in a file of an earlier schema."""
    if schema < 3:  # from before there were probes: it goes on without
        return {"probes": 0.0, **data}
    return data


def _describe(name: str, parameter: Parameter) -> dict[str, Any]:
    if isinstance(parameter, Categorical):
        for choice in parameter.choices:
            if choice is not None and not isinstance(choice, str | int | float | bool):
                raise ValueError(
                    f"parameter {name!r}: a study cannot store the choice {choice!r}; "
                    f"use strings, numbers, booleans or None"
                )
        return {"choices": list(parameter.choices), "ordered": parameter.ordered}
    kind = "float" if isinstance(parameter, Float) else "int"
    return {kind: [parameter.low, parameter.high], "log": parameter.log}


def _read(name: str, entry: Any) -> Parameter:
    """One parameter; what is wrong with it is said with its name."""
    if not isinstance(entry, Mapping):
        raise ValueError(f"parameter {name!r} is {entry!r}; give {FORMS}")
    options = dict(entry)
    kinds = [kind for kind in ("float", "int", "choices") if kind in options]
    if len(kinds) != 1:
        raise ValueError(f"parameter {name!r} is {entry!r}; give {FORMS}")
    kind = kinds[0]
    value = options.pop(kind)
    allowed = "ordered" if kind == "choices" else "log"
    flag = options.pop(allowed, False)
    if options:
        raise ValueError(
            f"parameter {name!r} has {', '.join(map(repr, options))}; beside {kind!r} there may "
            f"only be {allowed!r}"
        )
    try:
        if kind == "choices":
            return Categorical(value, ordered=flag)
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise ValueError(f"{kind} is {value!r}; give [low, high]")
        return (Float if kind == "float" else Int)(value[0], value[1], log=flag)
    except (TypeError, ValueError) as error:
        raise ValueError(f"parameter {name!r}: {error}") from None
