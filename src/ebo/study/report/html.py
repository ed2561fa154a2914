"""Text for the report: everything from a study is escaped here, and numbers are told in words.

Names, choices, settings and error texts are whatever somebody wrote; they come into the page
through `escape` or `short` and by no other way.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, tzinfo

# Control characters, those that turn the direction of text, lone surrogates, non-characters.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff\ud800-\udfff]"
)


def escape(text: object) -> str:
    """Any text as HTML that shows it, also within an attribute; unseen characters as codes."""
    return html.escape(_UNSEEN.sub(lambda m: f"\\u{ord(m[0]):04x}", str(text)), quote=True)


def short(text: object, length: int) -> str:
    """The same, long text cut in its middle."""
    whole = str(text)
    if len(whole) > length:
        tail = (length - 1) // 3
        whole = f"{whole[: length - 1 - tail]}…{whole[len(whole) - tail :]}"
    return escape(whole)


def named(text: object, length: int = 28) -> str:
    """A name that may be cut, with the whole of it to be seen under the pointer."""
    whole = str(text)
    title = f' title="{short(whole, 300)}"' if len(whole) > 12 else ""
    return f"<bdi{title}>{short(whole, length)}</bdi>"


def number(value: float, digits: int = 6) -> str:
    """A number to read: 6 digits, thousands set apart, exponents only where they are shorter."""
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    size = abs(value)
    if 1e4 <= size < 1e9 and (value == round(value) or size >= 10**digits):
        return f"{value:,.0f}".replace("-", "−")
    told = re.sub(r"e([+-])0*(\d)", lambda m: f"e{m[1].strip('+')}{m[2]}", f"{value:.{digits}g}")
    return told.replace("-", "−")


def count(n: int, noun: str, plural: str | None = None) -> str:
    """`1 batch`, `2 batches`."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def percent(share: float) -> str:
    """A share; small ones are not rounded to nothing, nor nearly all to all."""
    if 0.0 < share < 0.01:
        return "under 1\N{NO-BREAK SPACE}%"
    return f"{min(round(100 * share), 99 if share < 1.0 else 100)}\N{NO-BREAK SPACE}%"


def duration(seconds: float) -> str:
    """A time span in its two largest units."""
    if not math.isfinite(seconds):
        return "–"
    if seconds < 0.9995:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} days {hours} h" if hours else f"{days} days"


def moment(seconds: float, zone: tzinfo | None) -> str:
    """A time of the clock; empty if it is none."""
    try:
        return datetime.fromtimestamp(seconds, tz=zone).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table of cells that are HTML already; a head that begins with > is of numbers."""
    numeric = [cell.startswith(">") for cell in head]
    right = [' class="r"' if is_number else "" for is_number in numeric]
    top = "".join(f"<th{r}>{cell.lstrip('>')}</th>" for cell, r in zip(head, right, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{r}>{cell}</td>" for cell, r in zip(row, right, strict=True))
        + "</tr>"
        for row in rows
    )
    return f'<table class="{kind}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'


def figure(title: str, body: str, caption: str, kind: str = "", key: str = "") -> str:
    """A figure with its title and key above, and below what to see in it."""
    legend = f'<div class="key">{key}</div>' if key else ""
    told = f"<figcaption>{caption}</figcaption>" if caption else ""
    return f'<figure class="{kind}"><h3>{title}</h3>{legend}{body}{told}</figure>'


def key(*entries: tuple[str, str]) -> str:
    """A legend: pairs of a mark's class and what it stands for."""
    return "".join(f'<span><i class="{mark}"></i>{text}</span>' for mark, text in entries)


def ramp(low: str, high: str, kind: str = "viridis") -> str:
    """A legend of a range of colours."""
    return f'<span>{low}<i class="ramp {kind}"></i>{high}</span>'


def section(anchor: str, title: str, body: str, lead: str = "") -> str:
    """A section of the page."""
    told = f'<p class="lead">{lead}</p>' if lead else ""
    return f'<section id="{anchor}"><h2>{title}</h2>{told}{body}</section>'
