"""Files of results, one JSON object a line, that survive an interruption while writing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read(file: Path, fields: tuple[str, ...]) -> list[dict[str, Any]]:
    """All objects of a file, each with these fields; the last line counts only if it is whole."""
    if not file.exists():
        return []
    objects = []
    for i, line in enumerate(file.read_text(encoding="utf-8").split("\n")[:-1], start=1):
        try:
            value = json.loads(line)
            if not all(field in value for field in fields):
                raise ValueError
        except (ValueError, TypeError):
            raise ValueError(
                f"{file}, line {i} is no result of this command; remove it, or write elsewhere"
            ) from None
        objects.append(value)
    return objects


def append(file: Path, value: dict[str, Any]) -> None:
    """One line more; what an interruption left of a line is removed."""
    with file.open("a+b") as stream:
        stream.seek(0)
        stream.truncate(stream.read().rfind(b"\n") + 1)
        stream.write(json.dumps(value, allow_nan=False).encode() + b"\n")
