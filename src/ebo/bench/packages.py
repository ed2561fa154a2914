"""Whether the packages are there that a comparison needs, before it begins."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from ebo import problems
from ebo.bench import baselines
from ebo.space import box

INSTALL = "pip install 'ebo[bench]'"
NEED_PACKAGES = ("push", "bbob")  # how problems begin that do


def check_packages(problem_names: Iterable[str], methods: Iterable[str]) -> None:
    """ImportError, with what to install, where one of our own problems or methods lacks a package.

    They are made once, small. Whatever else is wrong with one shows in its run.
    """
    space = box([0.0, 0.0], [1.0, 1.0])
    for name in dict.fromkeys([*problem_names, *methods]):
        if ":" in name:
            continue  # a user's own may take long to make
        try:
            with suppress(ValueError, TypeError, RuntimeError):
                if name.startswith(NEED_PACKAGES):
                    problems.get(name, seed=0)
                elif name.partition("+")[0] in baselines.names():
                    baselines.get(name)(space, seed=0)
        except ImportError as error:
            text = str(error)
            told = text if INSTALL in text else f"{name} needs a package ({text}): {INSTALL}"
            raise ImportError(told) from None
