"""Tables of the measurements."""

from __future__ import annotations

from typing import Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_values(title: str, values: dict[str, Any]) -> None:
    """Names and numbers, one a line; of a number by parts, every part."""
    table = Table(title=title, show_header=False)
    for key, value in values.items():
        parts = value.items() if isinstance(value, dict) else [("", value)]
        for part, number in parts:
            table.add_row(f"{key} {part}".strip(), as_text(number))
    Console().print(table)


def print_rows(title: str, rows: list[dict[str, Any]], console: Console | None = None) -> None:
    """A table with the columns of the first row; words to the left, numbers to the right."""
    table = Table(title=Text(title))
    for i, (key, value) in enumerate(rows[0].items()):
        justify: Literal["left", "right"] = "left" if isinstance(value, str) else "right"
        table.add_column(key.replace("_", " "), justify=justify, no_wrap=i == 0)
    for row in rows:
        table.add_row(*(Text(as_text(value)) for value in row.values()))
    (console or Console()).print(table)


def as_text(value: object) -> str:
    """Four digits of a number; a stroke for what is missing."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
