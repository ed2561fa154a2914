"""Other optimisers behind the interface of `ebo.Optimizer`: `get(name)` gives a factory.

    optimizer = baselines.get("cem")(space, seed=0)
    X = optimizer.ask(100)
    optimizer.tell(X, values)
    optimizer.best()

A factory takes a space and the keyword arguments `seed`, `direction`, `upper_bound`, `lower_bound`
and `workers` of `ebo.Optimizer`; what it has no use for it leaves alone. A user's own comes by
"module:factory". A new method is a file of its own with a subclass of `base.Baseline`, and a line
below; nothing is imported before it is asked for.
"""

from __future__ import annotations

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
        {
            "settings": Settings.paper(
                max_leaves=200, leaf_size=150, overlap=0.05, beta=(5.0, 5.0), noise=0.01
            )
        },
    ),
    "pbo": ("ebo.optimizer:Optimizer", {"settings": Settings.paper(fixed_partition=True)}),
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
    """A method by its name, or a user's own by "module:factory"."""
    if name in METHODS:
        target, given = METHODS[name]
        return partial(imported(target), **given)
    if ":" in name:
        return imported(name)
    raise ValueError(
        f"unknown method {name!r}; choose one of {', '.join(names())}, or give 'module:factory'"
    )


def options(name: str) -> dict[str, Any]:
    """What sets a method apart from others of its class, in words and numbers."""
    given = METHODS[name][1] if name in METHODS else {}
    return {
        key: value.as_dict() if isinstance(value, Settings) else value
        for key, value in given.items()
    }
