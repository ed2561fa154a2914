"""How much of an experiment is done."""

from __future__ import annotations

from enum import StrEnum


class ScaleName(StrEnum):
    """Half a minute, ten minutes on two cores, or as in the paper."""

    smoke = "smoke"
    small = "small"
    paper = "paper"
