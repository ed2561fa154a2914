"""Ensemble Bayesian optimisation: maximise expensive functions of many parameters in parallel."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as typing's, which is not imported just for this: it takes long
if TYPE_CHECKING:
    from typing import Any

    from ebo.iteration import Iteration, Learned
    from ebo.optimise import maximize, minimize
    from ebo.optimizer import Optimizer
    from ebo.result import Result
    from ebo.settings import Settings
    from ebo.space import Space, box
    from ebo.space.parameters import Categorical, Float, Int
    from ebo.study import Study

__all__ = [
    "Categorical",
    "Float",
    "Int",
    "Iteration",
    "Learned",
    "Optimizer",
    "Result",
    "Settings",
    "Space",
    "Study",
    "box",
    "maximize",
    "minimize",
]

# Where they are. A module is imported when something of it is first used: most of them need NumPy,
# which alone takes longer than all that `ebo --help` does.
_HOMES = {
    "Categorical": "space.parameters",
    "Float": "space.parameters",
    "Int": "space.parameters",
    "Iteration": "iteration",
    "Learned": "iteration",
    "Optimizer": "optimizer",
    "Result": "result",
    "Settings": "settings",
    "Space": "space",
    "Study": "study",
    "box": "space",
    "maximize": "optimise",
    "minimize": "optimise",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("ebo")
    if name in _HOMES:
        found = getattr(import_module(f"ebo.{_HOMES[name]}"), name)
        globals()[name] = found  # the next time it is there
        return found
    module = f"ebo.{name}"
    if not name.startswith("_"):  # a module of ours, as `ebo.study`; else somebody is probing
        try:
            return import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
    raise AttributeError(f"module 'ebo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
