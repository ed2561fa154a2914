"""Charts that fit any screen: marks in an SVG that stretches, all text around it in HTML.

The SVG has coordinates 0 to `GRID` both ways and no fixed shape; lines keep their width however it
is stretched, and a dot is a line of no length with round ends. So labels are as large on a phone as
on a desk, and no script is needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ebo.arrays import Floats
from ebo.study.report.html import escape, number

GRID = 2000
ROOM = 1.015  # of what is shown, so that a mark at its end is whole


@dataclass(frozen=True)
class Axis:
    """A linear or log axis from `low` to `high`; `flipped` log is for values below 0.

    ticks: places in the axis's own units, with their labels, which are HTML already.
    """

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    log: bool = False
    flipped: bool = False

    def at(self, values: ArrayLike) -> Floats:
        """Where on the axis, 0 to 1; a little outside for all that is outside."""
        u, ends = np.asarray(values, dtype=np.float64), np.array([self.low, self.high])
        if self.log:
            u, ends = self._log(u), self._log(ends)
        place: Floats = np.clip((u - ends[0]) / (ends[1] - ends[0]), -0.5, 1.5)
        return place

    def grid(self, values: ArrayLike) -> list[int]:
        """The same in the coordinates of the SVG, from left to right."""
        scaled: list[int] = np.rint(GRID * self.at(values)).astype(np.int64).tolist()
        return scaled

    def _log(self, values: Floats) -> Floats:
        sign = -1.0 if self.flipped else 1.0
        tiny = np.finfo(np.float64).tiny
        logs: Floats = sign * np.log(np.maximum(sign * values, tiny))
        return logs


def linear(low: float, high: float, most: int = 6, whole: bool = False) -> Axis:
    """An axis with at most `most` round numbers on it."""
    if not high > low:
        pad = abs(low) * 0.05 or 1.0
        low, high = low - pad, high + pad
    return Axis(low, high, [(v, label) for v, label in _round_numbers(low, high, most, whole)])


def logarithmic(low: float, high: float, most: int = 6) -> Axis:
    """A log axis, both ends above 0 or both below."""
    if not high > low:
        low, high = min(low / 1.5, low * 1.5), max(low / 1.5, low * 1.5)
    flipped = high < 0
    small, large = sorted((abs(low), abs(high)))
    first, last = math.log10(small), math.log10(large)
    decades = [10.0**k for k in range(math.ceil(first - 1e-9), math.floor(last + 1e-9) + 1)]
    if last - first < 1.5:
        fine = [m * 10.0**k for k in range(math.floor(first), math.ceil(last)) for m in (1, 2, 5)]
        decades = [v for v in fine if small * (1 - 1e-9) <= v <= large * (1 + 1e-9)]
    if len(decades) < 2:
        decades = [small, large]
    step = math.ceil(len(decades) / most)
    sign = -1.0 if flipped else 1.0
    ticks = [(sign * v, _power(sign * v)) for v in decades[::step]]
    return Axis(low, high, ticks, log=True, flipped=flipped)


def slots(labels: Sequence[str], most: int = 6, length: int = 7) -> Axis:
    """An axis of choices, side by side; where they are many, not all are labelled."""
    step = math.ceil(len(labels) / most)
    ticks = [(float(i), _cut(labels[i], length)) for i in range(0, len(labels), step)]
    return Axis(-0.5, len(labels) - 0.5, ticks)


def time_axis(seconds: float) -> tuple[Axis, str, float]:
    """An axis of time from 0, the name of its unit, and how many seconds that is."""
    units = [(120, 1, "seconds"), (7200, 60, "minutes"), (72 * 3600, 3600, "hours")]
    for most, size, name in units:
        if seconds < most:
            return linear(0.0, ROOM * max(seconds / size, 1e-9)), name, size
    return linear(0.0, ROOM * seconds / 86400), "days", 86400


class Plot:
    """Marks between two axes; drawn in the order of the calls."""

    def __init__(self, x: Axis, y: Axis, *, about: str, kind: str = "", columns: bool = True):
        self.x, self.y, self.about, self.kind = x, y, about, kind
        self._marks: list[str] = []
        across = "".join(f"M0 {GRID - v}H{GRID}" for v in y.grid([t for t, _ in y.ticks]))
        down = "".join(f"M{v} 0V{GRID}" for v in x.grid([t for t, _ in x.ticks]))
        self._marks.append(f'<path class="grid" d="{across}{down if columns else ""}"/>')
        self._behind = ""

    def picture(self, uri: str) -> None:
        """A picture that fills the frame, behind the marks."""
        self._behind += f'<img alt="" src="{uri}">'

    def line(self, x: ArrayLike, y: ArrayLike, mark: str) -> None:
        """A line through points; it is broken where y is NaN."""
        path, pen = [], "M"
        px, py = self.x.grid(x), self.y.at(y)
        for i, (a, b) in enumerate(zip(px, py, strict=True)):
            if math.isnan(b):
                pen = "M"
                continue
            if pen == "L" and i + 1 < len(px) and px[i - 1] == a == px[i + 1]:
                continue  # not to be seen
            path.append(f"{pen}{a} {round(GRID * (1.0 - b))}")
            pen = "L"
        self._path(mark, "".join(path))

    def steps(self, x: ArrayLike, y: ArrayLike, mark: str, end: float) -> None:
        """A line of steps that holds each y from its x to the next, and the last one to `end`."""
        xs, ys = self.x.grid(x), _down(self.y, y)
        if not xs:
            return
        path, height = [f"M{xs[0]} {ys[0]}"], ys[0]
        last = len(xs) - 1
        for i in range(1, len(xs)):
            if ys[i] != height and (i == last or xs[i + 1] > xs[i]):
                path.append(f"H{xs[i]}V{ys[i]}")
                height = ys[i]
        path.append(f"H{self.x.grid([end])[0]}")
        self._path(mark, "".join(path))

    def band(self, x: ArrayLike, low: ArrayLike, high: ArrayLike, mark: str) -> None:
        """The area between two lines."""
        xs, lows, highs = self.x.grid(x), _down(self.y, low), _down(self.y, high)
        there = [f"{a} {b}" for a, b in zip(xs, highs, strict=True)]
        back = [f"{a} {b}" for a, b in zip(reversed(xs), reversed(lows), strict=True)]
        self._path(mark, f"M{'L'.join(there + back)}z")

    def bars(
        self, x0: ArrayLike, x1: ArrayLike, low: ArrayLike, high: ArrayLike, mark: str
    ) -> None:
        """Upright boxes from x0 to x1 and from low to high."""
        sides = self.x.grid(x0), self.x.grid(x1), _down(self.y, low), _down(self.y, high)
        boxes = zip(*sides, strict=True)
        self._path(mark, "".join(f"M{a} {c}V{d}H{b}V{c}z" for a, b, c, d in boxes if c != d))

    def dots(self, x: ArrayLike, y: ArrayLike, mark: str) -> None:
        """Round dots."""
        places = zip(self.x.grid(x), _down(self.y, y), strict=True)
        self._path(mark, "".join(f"M{a} {b}h0" for a, b in places))

    def level(self, y: float, mark: str) -> None:
        """A line across at y."""
        self._path(mark, f"M0 {_down(self.y, [y])[0]}H{GRID}")

    def html(self, across: str, upward: str) -> str:
        """The chart, with what its two axes are."""
        rows = [
            f'<span style="bottom:{_share(at)}">{label}</span>'
            for at, label in _placed(self.y)
            if -0.001 <= at <= 1.001
        ]
        columns = [
            f'<span class="{_edge(at, label)}" style="left:{_share(at)}">{label}</span>'
            for at, label in _placed(self.x)
            if -0.001 <= at <= 1.001
        ]
        widest = max((label for _, label in self.y.ticks), key=_seen, default="")
        top = f'<div class="up">{upward}</div>' if upward else ""
        below = f'<div class="across">{across}</div>' if across else ""
        return (
            f'<div class="plot {self.kind}" role="img" aria-label="{escape(self.about)}">{top}'
            f'<div class="y"><b>{widest}</b>{"".join(rows)}</div>'
            f'<div class="area">{self._behind}'
            f'<svg viewBox="0 0 {GRID} {GRID}" preserveAspectRatio="none">'
            f"{''.join(self._marks)}</svg></div>"
            f'<div class="x">{"".join(columns)}</div>{below}</div>'
        )

    def _path(self, mark: str, path: str) -> None:
        if path:
            self._marks.append(f'<path class="{mark}" d="{path}"/>')


def _down(axis: Axis, values: ArrayLike) -> list[int]:
    """SVG counts from the top."""
    return [GRID - v for v in axis.grid(values)]


def _placed(axis: Axis) -> list[tuple[float, str]]:
    places = axis.at([v for v, _ in axis.ticks]).tolist()
    return list(zip(places, (label for _, label in axis.ticks), strict=True))


def _share(at: float) -> str:
    return f"{100 * at:.4g}%"


def _edge(at: float, label: str) -> str:
    """Long labels at an end stay within the frame."""
    if _seen(label) <= 5:
        return ""
    return "first" if at < 0.04 else "last" if at > 0.96 else ""


def _seen(label: str) -> int:
    """About how many characters a label shows; marks and codes of HTML count little."""
    return len(label.split("<sup>")[0]) + len(label) // 20


def _cut(label: str, length: int) -> str:
    cut = label if len(label) <= length else label[: length - 1] + "…"
    return f'<bdi title="{escape(label[:200])}">{escape(cut)}</bdi>'


def _round_numbers(low: float, high: float, most: int, whole: bool) -> list[tuple[float, str]]:
    """Multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 1e-300 else rough
    step = next(power * m for m in (1, 2, 5, 10, 20) if (high - low) / (power * m) <= most + 0.5)
    if whole:
        step = max(1.0, round(step))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    if abs(first) > 2**50 or last - first > 100:  # steps that are too small for these numbers
        return [(low, number(low)), (high, number(high))]
    values = [k * step for k in range(first, last + 1)]
    largest = max(abs(low), abs(high))
    if largest >= 1e7 or largest < 1e-3:
        return [(v, _power(v)) for v in values]
    decimals = min(12, max(0, -math.floor(math.log10(step) + 1e-9)))
    return [(v, f"{v:,.{decimals}f}".replace("-", "−")) for v in values]


def _power(value: float) -> str:
    """A number with its power of ten set as such; near 1, as it is."""
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        return number(value, 5)
    exponent = math.floor(math.log10(abs(value)) + 1e-9)
    mantissa = f"{value / 10.0**exponent:.3g}" if exponent > -300 else f"{value:.3g}"
    if exponent <= -300:
        return mantissa
    lead = {"1": "", "-1": "−"}.get(mantissa, mantissa.replace("-", "−") + "·")
    return f"{lead}10<sup>{exponent}</sup>".replace("<sup>-", "<sup>−")
