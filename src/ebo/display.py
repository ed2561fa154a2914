"""Studies and results in a notebook and at a prompt: the essentials, in few lines.

Text that comes from a study or a command goes to a terminal through `escaped`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any

# What a terminal obeys instead of showing it: C0 without newline and tab, DEL, C1; marks that turn
# the direction of text; line ends of Unicode, and halves of characters, which cannot be printed.
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escaped(text: str) -> str:
    """Text that a terminal shows and does not obey, with \\x1b and its like in their place."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


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
    import numpy as np  # the command line shows text without it

    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, np.ndarray):
        return np.array2string(value, precision=6, threshold=10)
    return str(value)
