"""Checks of what users give. An error names the argument, its value, and what to give."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real


def check_count(name: str, value: object, least: int, otherwise: str = "") -> None:
    """Refuse what is not a whole number of at least `least`; `otherwise` is allowed, too."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        also = f", {otherwise}" if otherwise else ""
        raise ValueError(f"{name} is {value!r}; give a whole number of at least {least}{also}")


def check_number(name: str, value: object, low: float, high: float) -> None:
    """Refuse what is not a number in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= float(value) <= high:
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
