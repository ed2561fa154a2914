"""Studies and results in a notebook and at a prompt: the essentials, in few lines."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np


def as_text(kind: str, facts: Mapping[str, Any]) -> str:
    """Study(file: push.ebo, parameters: 14, ...)."""
    return f"{kind}({', '.join(f'{name}: {_short(value)}' for name, value in facts.items())})"


def as_html(kind: str, facts: Mapping[str, Any]) -> str:
    """A table of two columns."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(_short(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f"<table><caption>{escape(kind)}</caption>{rows}</table>"


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, np.ndarray):
        return np.array2string(value, precision=6, threshold=10)
    return str(value)
