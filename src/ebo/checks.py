"""Checks of what users give. An error names the argument, its value, and what to give."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any


def check_count(
    name: str, value: Any, least: int, otherwise: str = "", *, most: int | None = None
) -> None:
    """Refuse what is no whole number from `least` to `most`; `otherwise` is allowed, too."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        limit = "" if most is None else f", at most {most}"
        also = f", {otherwise}" if otherwise else ""
        raise ValueError(
            f"{name} is {value!r}; give a whole number of at least {least}{limit}{also}"
        )


def check_number(name: str, value: Any, low: float, high: float) -> None:
    """Refuse what is not a number in [low, high]."""
    # Not as a float: a whole number may be too large for one.
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not low <= value <= high:
        raise ValueError(f"{name} is {value!r}; give a number from {low:g} to {high:g}")


def check_flag(name: str, value: object) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}; give True or False")


def check_choice(name: str, value: object, allowed: Iterable[str]) -> None:
    """Refuse what is not one of the allowed names."""
    names = list(allowed)
    if value not in names:
        raise ValueError(f"{name} is {value!r}; choose one of {', '.join(names)}")
