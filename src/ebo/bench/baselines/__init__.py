"""Other optimisers behind the interface of `ebo.Optimizer`: `get(name)` gives a factory.

    optimizer = baselines.get("cem")(space, seed=0)
    X = optimizer.ask(100)
    optimizer.tell(X, values)
    optimizer.best()

A factory takes a space and the keyword arguments `seed`, `direction`, `upper_bound`, `lower_bound`
and `workers` of `ebo.Optimizer`; what it has no use for it leaves alone. A user's own comes by
"module:factory". A new method is a file of its own with a subclass of `base.Baseline`, and a line
below; nothing is imported before it is asked for.

A method that has `Settings` may be named with changes of them behind it, each after a plus sign:
"ebo+mixture=None+candidates=1.0+kernel=hat". Names are those of `Settings.changed`; a value is a
Python literal, or else a string.
"""

from __future__ import annotations

import ast
from functools import partial
from typing import Any

from ebo.bench.baselines.base import AskTell, Baseline, Factory
from ebo.bench.baselines.imported import imported
from ebo.settings import Settings

__all__ = ["AskTell", "Baseline", "Factory", "get", "names", "options"]

HERE = "ebo.bench.baselines"
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "ebo": ("ebo.optimizer:Optimizer", {"settings": Settings()}),
    "ebo-paper": ("ebo.optimizer:Optimizer", {"settings": Settings.paper()}),
    "ebo-paper-push": (
        "ebo.optimizer:Optimizer",
        {"settings": Settings.paper().changed(max_leaves=200, leaf_size=150, beta=(5.0, 5.0))},
    ),
    "pbo": ("ebo.optimizer:Optimizer", {"settings": Settings.paper().changed(fixed=True)}),
    "random": (f"{HERE}.uniform:Random", {}),
    "sobol": (f"{HERE}.uniform:Sobol", {}),
    "cem": (f"{HERE}.cem:CEM", {}),
    "cem-full": (f"{HERE}.cem:CEM", {"full": True}),
    "cma": (f"{HERE}.cma:CMA", {}),
    "cma-batch": (f"{HERE}.cma:CMA", {"whole_batch": True}),
    "de": (f"{HERE}.de:DifferentialEvolution", {}),
    "tpe": (f"{HERE}.optuna:TPE", {}),
    "optuna-cma": (f"{HERE}.optuna:OptunaCMA", {}),
    "turbo-1": (f"{HERE}.turbo:TuRBO", {"regions": 1}),
    "turbo-5": (f"{HERE}.turbo:TuRBO", {"regions": 5}),
    "bo-svi": (f"{HERE}.svi:SVI", {}),
    "bo-add-svi": (f"{HERE}.svi:AdditiveSVI", {}),
    "skl": (f"{HERE}.skl:SKL", {}),
    "add-gp-ucb": (f"{HERE}.add_ucb:AddGPUCB", {}),
    "add-mes-r": (f"{HERE}.add_mes:AddMESR", {}),
    "add-mes-g": (f"{HERE}.add_mes:AddMESG", {}),
    "block-opt": (f"{HERE}.block_opt:BlockOpt", {}),
}


def names() -> list[str]:
    """All names."""
    return list(METHODS)


def get(name: str) -> Factory:
    """A method by its name, with changed settings or without; a user's own by "module:factory"."""
    target, given = _target_and_options(name)
    return partial(imported(target), **given)


def options(name: str) -> dict[str, Any]:
    """What sets a method apart from others of its class, in words and numbers."""
    return {
        key: value.as_dict() if isinstance(value, Settings) else value
        for key, value in _target_and_options(name)[1].items()
    }


def _target_and_options(name: str) -> tuple[str, dict[str, Any]]:
    """The class or function behind a name, as "module:name", and what it is called with."""
    method, *changes = name.split("+")
    if method not in METHODS and ":" not in method:
        raise ValueError(
            f"unknown method {method!r}; choose one of {', '.join(names())}, or give "
            f"'module:factory'"
        )
    target, given = METHODS.get(method, (method, {}))
    if not changes:
        return target, given
    if "settings" not in given:
        able = ", ".join(other for other, (_, has) in METHODS.items() if "settings" in has)
        raise ValueError(
            f"{name!r} changes settings, and {method!r} has none; give it without, or one of {able}"
        )
    values: dict[str, Any] = {}
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals:
            raise ValueError(f"{change!r} in {name!r} is no change; give setting=value after a +")
        if key in values:
            raise ValueError(f"{name!r} changes {key!r} twice; give it once")
        values[key] = _literal(value)
    settings: Settings = given["settings"]
    try:
        settings = settings.changed(values)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name!r}: {error}") from None
    return target, {**given, "settings": settings}


def _literal(text: str) -> Any:
    """What a Python literal says; the text itself where it is none."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError):
        return text
