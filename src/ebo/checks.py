"""Checks of input that many places need."""

from __future__ import annotations

from numbers import Integral


def check_count(name: str, value: object, least: int) -> None:
    """Refuse what is not a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} is {value!r}; give a whole number of at least {least}")
