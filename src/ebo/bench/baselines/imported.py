"""Functions by "module:name", and libraries that are not needed otherwise."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def imported(target: str) -> Callable[..., Any]:
    """The function or class "module:name", searched for in the current folder too."""
    module_name, colon, name = target.partition(":")
    if not (module_name and colon and name):
        raise ValueError(f"{target!r} does not name a function; give 'module:factory'")
    folder = os.getcwd()
    sys.path.append(folder)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ValueError(
            f"{target!r}: cannot import {module_name!r} ({error}); it is looked for in {folder} "
            f"and where Python looks"
        ) from None
    finally:
        sys.path.pop()
    function = getattr(module, name, None)
    if not callable(function):
        raise ValueError(f"{target!r}: module {module_name!r} has no function {name!r}")
    return function  # type: ignore[no-any-return]


def library(name: str, method: str) -> Any:
    """A library; an error that tells how to install it where it is not there."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{method} needs {name}: pip install 'ebo[bench]'") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings of libraries, of what is experimental or deprecated in them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
