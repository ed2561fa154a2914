"""How the search went: the headline, the best value over evaluations and time, batch by batch."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebo.arrays import Floats, Ints
from ebo.study.report.chart import ROOM, Axis, Plot, linear, logarithmic, time_axis
from ebo.study.report.data import FAILURES, Facts
from ebo.study.report.html import (
    count,
    duration,
    escape,
    figure,
    key,
    moment,
    number,
    percent,
)
from ebo.study.report.image import ramp, scatter

DOTS = 4_000  # evaluations shown behind a line
BOXES = 60  # batches drawn as boxes; more are drawn as bands
GROUPS = 200  # batches drawn at all; more are put together
PAYING = 0.02  # of the gain in the last tenth: a fifth of an even share
WIDE_RATIO = 50.0  # of bad values to the best, from which on a log axis is used


def value_axis(facts: Facts, reach: ArrayLike = (), tail: float = 1.5, most: int = 6) -> Axis:
    """An axis for values: to the best, and down to the bad ones but not to the far outliers.

    reach: values that must be on it; tail: how far it goes below the lower quartile, as a multiple
    of the distance from there to the best. Values of one sign that come close to 0 as they get
    better are on a log axis.
    """
    log = is_log(facts)

    def goodness(y: ArrayLike) -> Floats:
        values = np.asarray(y, dtype=np.float64)
        result: Floats = -np.log(np.maximum(np.abs(values), 1e-300)) if log else facts.sign * values
        return result

    u = goodness(facts.y)
    best, quarter = float(u.max()), float(np.quantile(u, 0.25))
    low = float(max(u.min(), quarter - tail * (best - quarter)))
    low = min([low, *goodness(reach).tolist()])
    high = best
    bound = known_bound(facts)
    if bound is not None and not (log and bound * facts.sign >= 0):
        aim = float(goodness(bound))
        if best < aim <= best + (best - low):
            high = aim
    pad = 0.04 * (high - low)
    ends = [low - pad, high + pad]
    if log:
        side = -1.0 if facts.maximize else 1.0
        first, last = sorted(side * math.exp(np.clip(-e, -690.0, 690.0)) for e in ends)
        return logarithmic(first, last, most)
    first, last = sorted(facts.sign * e for e in ends)
    return linear(first, last, most)


def is_log(facts: Facts) -> bool:
    """If values are better told by their logarithm."""
    size = np.abs(facts.y)
    one_sign = bool((facts.goodness < 0).all())
    return one_sign and float(np.quantile(size, 0.9)) > WIDE_RATIO * float(size[facts.best])


def known_bound(facts: Facts) -> float | None:
    """The bound, if it was given and not only estimated."""
    bound = facts.data.upper_bound
    if bound is None or not facts.data.upper_bound_known or not math.isfinite(bound):
        return None
    return float(bound)


def upward(facts: Facts) -> str:
    """What the axis of values is."""
    better = "higher is better ↑" if facts.maximize else "lower is better ↓"
    return f"<b>value</b>{', log scale' if is_log(facts) else ''} · {better}"


def headline(facts: Facts) -> str:
    """Four numbers: the best value, the evaluations, the time, the failures."""
    data, counts = facts.data, facts.counts
    finished = counts["done"] + facts.failures
    cards = []
    if len(facts.y):
        row = facts.done[facts.best]
        where = f"evaluation {facts.best + 1:,} of {len(facts.y):,} (trial {facts.ids[row]:,}), "
        where += "imported" if data.batch[row] < 0 else f"batch {data.batch[row]}"
        bound = known_bound(facts)
        if bound is not None:
            where += f"; the bound is {number(bound)}"
        best = float(data.value[row])
        cards.append(("best", f"Best value, {data.direction}d", number(best), where, repr(best)))
    else:
        cards.append(("best", "Best value", "none yet", "no evaluation is done", ""))
    imported = int((np.asarray(data.batch) < 0).sum())
    batches = len(np.unique(np.asarray(data.batch)[np.asarray(data.batch) >= 0]))
    told = [count(batches, "batch", "batches"), count(len(data.names), "parameter")]
    told += [f"{imported:,} imported"] if imported else []
    told += [f"{counts[s]:,} {s}" for s in ("running", "waiting") if counts[s]]
    cards.append(("", "Evaluations", f"{finished:,}", ", ".join(told), ""))
    cards.append(("", "Time", *_time_told(facts), ""))
    if facts.failures:
        parts = ", ".join(f"{counts[s]:,} {s}" for s in FAILURES if counts[s])
        parts += f"; {percent(facts.failures / finished)} of all"
    else:
        parts = "none failed, timed out or was lost" if finished else "nothing has finished yet"
    bad = "bad" if facts.failures else ""
    cards.append((bad, "Failures", f"{facts.failures:,}", parts, ""))
    return (
        '<div class="cards">'
        + "".join(
            f'<div class="card {kind}"><h2>{title}</h2><p class="big" title="{exact}">{big}</p>'
            f"<p>{small}</p></div>"
            for kind, title, big, small, exact in cards
        )
        + "</div>"
    )


def convergence(facts: Facts) -> str:
    """The best value so far against evaluations and against time."""
    n = len(facts.y)
    after = min(n - 1, max(9, n // 100))
    axis = value_axis(facts, [facts.best_so_far[after]])
    across = linear(0, ROOM * n, whole=True)
    plot = Plot(across, axis, about=f"best value so far over {n} evaluations", kind="tall")
    rows = np.sort(facts.thinned(DOTS))
    _cloud(plot, (rows + 1).astype(np.float64), facts.y[rows])
    _best_line(plot, np.arange(1, n + 1), facts.best_so_far, n)
    _bound_line(plot, facts)
    plot.dots([facts.best + 1], [facts.y[facts.best]], "dot best")
    first = figure(
        "Best value against evaluations",
        plot.html("evaluations that have a value", upward(facts)),
        _improvement(facts) + _cut_off(facts, axis),
        "",
        _marks(plot, facts),
    )
    return f'<div class="pair">{first}{_over_time(facts, axis)}</div>'


def _over_time(facts: Facts, axis: Axis) -> str:
    title = "Best value against time"
    finished = np.asarray(facts.data.finished, dtype=np.float64)[facts.done]
    known = np.flatnonzero(np.isfinite(finished))
    if not known.size:
        return figure(title, '<p class="none">No times are recorded.</p>', "")
    begin, end = period(facts)
    order = known[np.argsort(finished[known], kind="stable")]
    seconds = finished[order] - begin
    before = facts.goodness[~np.isfinite(finished)].max(initial=-np.inf)
    best = facts.sign * np.maximum.accumulate(np.maximum(facts.goodness[order], before))
    across, unit, size = time_axis(end - begin)
    plot = Plot(across, axis, about=f"best value so far over {unit}", kind="tall")
    shown = np.isin(order, facts.thinned(DOTS))
    _cloud(plot, seconds[shown] / size, facts.y[order[shown]])
    _best_line(plot, seconds / size, best, (end - begin) / size)
    _bound_line(plot, facts)
    top = int(np.argmax(facts.goodness[order]))
    if facts.goodness[order[top]] >= before:
        plot.dots([seconds[top] / size], [facts.y[order[top]]], "dot best")
    reached = seconds[top] if facts.goodness[order[top]] >= before else 0.0
    rate = known.size / max(end - begin, 1e-9)
    pace = f"{number(rate, 3)} a second" if rate > 1 else f"{number(rate * 60, 3)} a minute"
    if rate * 60 < 1:
        pace = f"{number(rate * 3600, 3)} an hour"
    caption = f"The best value came after {duration(float(reached))}. On average {pace} got a value"
    caption += ", pauses included."
    return figure(
        title,
        plot.html(f"{unit} since the first evaluation began", upward(facts)),
        caption,
        "",
        _marks(plot, facts),
    )


def batches(facts: Facts) -> str:
    """Each batch's distribution."""
    batch = np.asarray(facts.data.batch)[facts.done]
    bins = Bins.of(batch[batch >= 0])
    if not bins.count:
        return ""
    label = bins.label(batch)
    per: list[Floats] = []
    for i in range(bins.count):
        per.append(np.quantile(facts.y[label == i], [0.0, 0.25, 0.5, 0.75, 1.0]))
    low, first, median, third, high = np.array(per).T
    before = facts.goodness[batch < 0].max(initial=-np.inf)
    extreme = high if facts.maximize else low
    so_far = facts.sign * np.maximum.accumulate(np.maximum(facts.sign * extreme, before))
    axis = value_axis(facts, [median[0]])
    across = linear(bins.first[0] - 0.6, bins.last[-1] + 0.6, whole=True)
    plot = Plot(across, axis, about="distribution of the values of each batch", kind="tall")
    middle = (bins.first + bins.last) / 2.0
    if bins.count <= BOXES:
        half = 0.32 * (bins.last - bins.first + 1)
        nothing = np.zeros(bins.count)
        for end, to in ((low, first), (third, high)):
            plot.bars(middle - nothing, middle + nothing, end, to, "whisker")
        plot.bars(middle - half, middle + half, first, third, "quartiles")
        for m, h, v in zip(middle, half, median, strict=True):
            plot.line([m - h, m + h], [v, v], "median")
        plot.dots(middle, low, "dot extreme")
        plot.dots(middle, high, "dot extreme")
    else:
        plot.band(middle, low, high, "extremes")
        plot.band(middle, first, third, "quartiles")
        plot.line(middle, median, "median")
    plot.line(middle, so_far, "so-far")
    _bound_line(plot, facts)
    caption = "What one batch's values are like: half of them lie within the box or band. "
    if bins.count > 2:
        way = (
            "improved" if facts.sign * (median[-1] - median[0]) > 0 else "did not improve: it went"
        )
        caption += (
            f"The median {way} from {number(float(median[0]), 4)} to "
            f"{number(float(median[-1]), 4)}. "
        )
    caption += "A wide spread means that the search still explores, a narrow one that it refines."
    if bins.together > 1:
        caption += f" Every point stands for up to {bins.together} batches."
    if (batch < 0).any():
        caption += " Imported evaluations are in no batch."
    marks = key(
        ("l so-far", "best so far"),
        ("l median", "median"),
        ("b quartiles", "middle half"),
        ("b extremes", "worst to best") if bins.count > BOXES else ("l whisker", "worst to best"),
    )
    return figure(
        "Distribution of each batch", plot.html("batch", upward(facts)), caption, "", marks
    )


@dataclass(frozen=True)
class Bins:
    """Batches, or where they are many, neighbouring ones together."""

    first: Ints
    last: Ints
    together: int

    @classmethod
    def of(cls, batch: NDArray[np.integer]) -> Bins:
        """All that occur, in at most `GROUPS` bins."""
        present = np.unique(batch).astype(np.int64)
        together = max(1, math.ceil(len(present) / GROUPS))
        ends = np.minimum(np.arange(together - 1, len(present) + together - 1, together), 2**60)
        return cls(present[::together], present[np.minimum(ends, len(present) - 1)], together)

    @property
    def count(self) -> int:
        """How many bins."""
        return len(self.first)

    def label(self, batch: NDArray[np.integer]) -> Ints:
        """The bin of each batch, -1 for none."""
        label = np.searchsorted(self.first, batch, side="right").astype(np.int64) - 1
        if self.count:
            label[(batch < 0) | (batch > self.last[np.maximum(label, 0)])] = -1
        return label


def _best_line(plot: Plot, x: ArrayLike, best: Floats, end: float) -> None:
    plot.steps(x, best, "so-far halo", end)
    plot.steps(x, best, "so-far", end)


def _bound_line(plot: Plot, facts: Facts) -> None:
    bound = known_bound(facts)
    if bound is not None and plot.y.low <= bound <= plot.y.high:
        plot.level(bound, "bound")


def _marks(plot: Plot, facts: Facts) -> str:
    bound = known_bound(facts)
    marks = [("l so-far", "best so far"), ("d", "evaluation")]
    if bound is not None and plot.y.low <= bound <= plot.y.high:
        marks.append(("l bound", "bound"))
    return key(*marks)


def _cloud(plot: Plot, x: Floats, y: Floats) -> None:
    """Every evaluation as a dot, behind the line."""
    u, v = plot.x.at(x), plot.y.at(y)
    inside = (v >= 0) & (v <= 1) & (u >= 0) & (u <= 1)
    grey = ramp(("7d8ea3", "7d8ea3"), 2)
    shade = np.zeros(int(inside.sum()), dtype=np.int64)
    plot.picture(scatter(u[inside], v[inside], shade, grey, (1000, 480), 2.6, 0.7))


def _improvement(facts: Facts) -> str:
    """Whether it is worth going on."""
    n, at = len(facts.y), facts.best + 1
    told = "The last improvement came "
    told += f"at {at:,} of {n:,}"
    if n < 20:
        return told + "."
    late = n - n // 10
    if at <= late:
        return (
            told + f"; the last {percent((n - at) / n)} of the evaluations brought no better value."
        )
    # Of all gain after the first tenth, which any search makes: what comes before is luck.
    begin, before, end = (float(facts.sign * facts.best_so_far[i]) for i in (n // 10, late - 1, -1))
    share = (end - before) / (end - begin)
    told += (
        f". The last tenth of the evaluations brought {percent(share)} of the gain since the first"
    )
    if share < PAYING:
        return told + ": it has nearly levelled off."
    return told + ": it was still improving, and going on may pay."


def _cut_off(facts: Facts, axis: Axis) -> str:
    outside = int(((facts.y < axis.low) | (facts.y > axis.high)).sum())
    return f" {count(outside, 'bad value')} beyond the axis." if outside else ""


def period(facts: Facts) -> tuple[float, float]:
    """When the first evaluation began and the last one ended."""
    times = [np.asarray(t, dtype=np.float64) for t in (facts.data.started, facts.data.finished)]
    known = np.concatenate([t[np.isfinite(t)] for t in times])
    return (float(known.min()), float(known.max())) if known.size else (math.nan, math.nan)


def _time_told(facts: Facts) -> tuple[str, str]:
    begin, end = period(facts)
    if math.isnan(begin):
        return "–", "no times are recorded"
    zone = facts.data.generated.tzinfo
    first, last = moment(begin, zone), moment(end, zone)
    when = f"{first} to {last[11:] if last[:10] == first[:10] else last}"
    if facts.lengths.size:
        when += f"; an evaluation takes {duration(float(np.median(facts.lengths)))} (median)"
    elif facts.counts["done"]:
        when += "; evaluated elsewhere"
    return duration(end - begin) if end > begin else "–", escape(when)
