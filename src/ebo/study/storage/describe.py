"""Space and settings as plain data, for the study file and for TOML: no code is stored or loaded.

lr    = {float = [1e-5, 1e-1], log = true}
depth = {int = [2, 12]}
drop  = {float = [0, 0.5], step = 0.1}
act   = {choices = ["relu", "gelu"]}          # ordered = true where neighbours are alike
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ebo.checks import check_flag
from ebo.settings import Settings
from ebo.space import Space, box
from ebo.space.parameters import Categorical, Float, Int, Parameter
from ebo.strategies import STRATEGIES, UnknownSettingError

# What was in force where a study of schema 1 to 3 does not say.
FLAT_DEFAULTS: dict[str, Any] = {
    "max_leaves": 1000,
    "leaf_size": 500,
    "overlap": 0.0,
    "fixed_partition": False,
    "kernel": "laplace",
    "layers": 64,
    "alpha": 1.0,
    "beta": [0.5, 3.0],
    "group_limit": 8,
    "noise": None,
    "per_layer": False,
    "sweeps": 1,
    "pooled": True,
    "block_size": 200,
    "learn_from": 1000,
    "smooth": True,
    "probes": 0.0,
    "acquisition": "ei",
    "deviations": 2.0,
    "block_samples": 40,
    "passes": 2,
    "greedy": True,
    "apart": 0.25,
    "crossed": 0.2,
    "leaping": 0.5,
    "polish": 0.3,
    "candidates": 2.0,
    "pay_by_rank": True,
}
FORMS = (
    "{float = [low, high]}, {int = [low, high]} (both may have log = true, a float may have step) "
    "or {choices = [...]}"
)


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


def read_settings(data: Mapping[str, Any], preset: str = "default") -> Settings:
    """Settings of a TOML table, by name or in tables of their own, on top of a preset.

    A table may say by its `kind` which strategy it is of. "none" is for None, which TOML lacks.
    """
    if preset not in ("default", "paper"):
        raise ValueError(f"preset is {preset!r}; choose 'default' or 'paper'")
    settings = Settings() if preset == "default" else Settings.paper()
    return settings.changed(
        {name: None if value == "none" else value for name, value in _flat(data).items()}
    )


def migrate_settings(data: Mapping[str, Any], schema: int) -> dict[str, Any]:
    """The settings in a study's file as `Settings.from_dict` reads them.

    Up to schema 3 they were a flat table, and one from before there were probes went on without.
    """
    if schema > 3:
        return dict(data)
    for name, value in data.items():
        if name not in FLAT_DEFAULTS:
            raise UnknownSettingError(name, FLAT_DEFAULTS)
        if isinstance(FLAT_DEFAULTS[name], bool):
            check_flag(name, value)
    old = {**FLAT_DEFAULTS, **data}
    pooled, smooth, probes = old["pooled"], old["smooth"] and old["pooled"], old["probes"]
    steps = {"kind": "step", "count": old["block_samples"]}
    crossover = {"kind": "crossover", "share": old["crossed"]}
    leaps = {"kind": "difference", "count": old["block_samples"], "share": old["leaping"]}
    search = {"kind": "printed", "tries": old["block_samples"], "passes": old["passes"]}
    additive: dict[str, Any] = {}
    mixture: dict[str, Any] = {}
    if old["greedy"]:  # else the search makes no moves
        search = {"passes": old["passes"], "starts": {"apart": old["apart"]}}
        additive = {"moves": [steps, crossover]}
        mixture = {"moves": [leaps, {**steps, "shortest": 0.3}, crossover]}
    pool = {name: old[name] for name in ("learn_from", "block_size")}
    boxes = {name: old[name] for name in ("max_leaves", "leaf_size", "overlap")}
    numbers = "kernel", "layers", "alpha", "beta", "group_limit", "noise", "per_layer"
    return {
        "partition": {**boxes, "fixed": old["fixed_partition"], "grows": pooled},
        "model": {name: old[name] for name in numbers},
        "learning": {"sweeps": old["sweeps"], "kind": "pooled" if pooled else "per-leaf"}
        | (pool if pooled else {}),
        "ensemble": {
            "additive": {
                **additive,
                "borrows": pooled,
                "probes": {"per_dimension": probes} if probes and pooled else None,
            },
            "mixture": {
                **mixture,
                "polish": {"share": old["polish"]} if old["polish"] else None,
            }
            if smooth
            else None,
        },
        "acquisition": old["acquisition"],
        "deviations": old["deviations"],
        "search": search,
        "budget": {
            "candidates": old["candidates"],
            "by": "rank" if old["pay_by_rank"] else "volume",
        },
    }


def _flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """Tables in a table as names with dots; the kind of one is the value of its name."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, Mapping) and (value or name in STRATEGIES):
            inner = _flat({key: item for key, item in value.items() if key != "kind"})
            found |= {f"{name}.{key}": item for key, item in inner.items()}
            found |= {name: value["kind"]} if "kind" in value else {}
        else:
            found[name] = value
    return found


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
    steps = {"step": parameter.step} if isinstance(parameter, Float) and parameter.step else {}
    return {kind: [parameter.low, parameter.high], "log": parameter.log, **steps}


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
    steps = {"step": options.pop("step")} if kind == "float" and "step" in options else {}
    if options:
        more = " or 'step'" * (kind == "float")
        raise ValueError(
            f"parameter {name!r} has {', '.join(map(repr, options))}; beside {kind!r} there may "
            f"only be {allowed!r}{more}"
        )
    try:
        if kind == "choices":
            return Categorical(value, ordered=flag)
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise ValueError(f"{kind} is {value!r}; give [low, high]")
        if kind == "float":
            return Float(value[0], value[1], log=flag, **steps)
        return Int(value[0], value[1], log=flag)
    except (TypeError, ValueError) as error:
        raise ValueError(f"parameter {name!r}: {error}") from None
