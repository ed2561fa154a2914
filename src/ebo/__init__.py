"""Ensemble Bayesian optimisation: maximise expensive functions of many parameters in parallel."""

from ebo.iteration import Iteration, Learned
from ebo.maximize import maximize, minimize
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


def __getattr__(name: str) -> str:
    # Only when it is asked for: reading the package's metadata takes longer than a small import.
    if name == "__version__":
        from importlib.metadata import version

        return version("ebo")
    raise AttributeError(f"module 'ebo' has no attribute {name!r}")
