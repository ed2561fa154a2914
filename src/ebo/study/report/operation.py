"""How the run went as a run: failures, time by stage, settings."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping

import numpy as np

from ebo.study.report.chart import Plot, linear, time_axis
from ebo.study.report.data import FAILURES, STATES, Facts
from ebo.study.report.html import (
    count,
    duration,
    escape,
    figure,
    key,
    named,
    percent,
    short,
    table,
)
from ebo.study.report.progress import Bins, period

MESSAGES = 10  # most frequent ones
KINDS = 20_000  # of messages that are told apart
COLOURS = 6  # of stages


def failures(facts: Facts) -> str:
    """Counts by state and batch, and the most frequent messages."""
    total = max(len(facts.state), 1)
    states = [s for s in STATES if facts.counts[s] or s in ("done", *FAILURES)]
    rows = [
        (
            f'<i class="d {_mark(s)}"></i> {s}',
            f"{facts.counts[s]:,}",
            _bar(facts.counts[s] / total, _mark(s)),
        )
        for s in states
    ]
    by_state = figure("By state", table(("state", ">evaluations", "share"), rows), "")
    if not facts.failures:
        return by_state
    return f'<div class="pair">{by_state}{_by_batch(facts)}</div>{_messages(facts)}'


def _by_batch(facts: Facts) -> str:
    batch = np.asarray(facts.data.batch)
    bad = np.isin(facts.state, FAILURES)
    bins = Bins.of(batch[batch >= 0])
    if not bins.count or not (bad & (batch >= 0)).any():
        return ""
    label = bins.label(batch)
    below = np.zeros(bins.count)
    layers = []
    for state in FAILURES:
        mine = label[(facts.state == state) & (label >= 0)]
        above = below + np.bincount(mine, minlength=bins.count)
        layers.append((state, below, above))
        below = above
    across = linear(bins.first[0] - 0.6, bins.last[-1] + 0.6, whole=True)
    plot = Plot(
        across,
        linear(0, 1.05 * below.max(), 5, whole=True),
        about="failures by batch",
        columns=False,
    )
    gap = 0.4 if bins.count <= 60 else 0.5
    for state, low, high in layers:
        plot.bars(bins.first - gap, bins.last + gap, low, high, f"bar {_mark(state)}")
    worst = int(np.argmax(below))
    of = f"batch {bins.first[worst]}"
    if bins.together > 1:
        of = f"batches {bins.first[worst]} to {bins.last[worst]}"
    size = int((label == worst).sum())
    caption = f"Most in {of}: {int(below[worst]):,} of {size:,}."
    marks = key(*((f"b {_mark(s)}", s) for s in FAILURES if facts.counts[s]))
    return figure("By batch", plot.html("batch", "<b>evaluations</b>"), caption, "", marks)


def _messages(facts: Facts) -> str:
    """Messages that differ only in their numbers are one."""
    seen: Counter[str] = Counter()
    example: dict[str, tuple[int, str]] = {}
    for i, text in facts.data.errors.items():
        lines = [line for line in str(text)[-20_000:].splitlines() if line.strip()]
        line = re.sub(r"\d+(\.\d+)?([eE][+-]?\d+)?", "#", lines[-1][:500]) if lines else ""
        if line not in seen and len(seen) >= KINDS:
            continue
        seen[line] += 1
        example.setdefault(line, (i, str(text)))
    if not seen:
        return ""
    rows = []
    for line, times in seen.most_common(MESSAGES):
        i, text = example[line]
        lines = [part for part in text[-20_000:].splitlines() if part.strip()]
        told = f"<code>{short(lines[-1].strip(), 240) if lines else '(no text)'}</code>"
        if len(lines) > 1 or len(text) > 240:
            body = text if len(text) <= 4_000 else "…" + text[-4_000:]
            told = f"<details><summary>{told}</summary><pre>{escape(body)}</pre></details>"
        rows.append((f"{times:,}", told, escape(i)))
    caption = "The last line of every message; those that differ only in numbers count as one."
    more = len(seen) - len(rows)
    if more > 0:
        caption += f" {count(more, 'rarer kind')} not shown."
    head = (">times", "message", ">first seen in")
    body = f'<div class="slide">{table(head, rows, "messages")}</div>'
    return figure("Most frequent messages", body, caption, "wide")


def stages(facts: Facts) -> str:
    """Time of each iteration by stage, stacked, and the totals."""
    told = [it for it in facts.data.iterations if isinstance(it.get("seconds"), Mapping)]
    told = [it for it in told if it["seconds"] and it.get("batch") is not None]
    if not told:
        return ""
    batch = np.array([int(it["batch"]) for it in told])
    names = list(dict.fromkeys(str(stage) for it in told for stage in it["seconds"]))
    spent = {
        stage: np.array([_seconds(it["seconds"].get(stage)) for it in told]) for stage in names
    }
    bins = Bins.of(batch[batch >= 0])
    if not bins.count:
        return ""
    label = bins.label(batch)
    inside = label >= 0
    size = np.maximum(np.bincount(label[inside], minlength=bins.count), 1)
    below = np.zeros(bins.count)
    layers = []
    for stage in names:
        sums = np.bincount(label[inside], weights=spent[stage][inside], minlength=bins.count)
        layers.append((below, below + sums / size))
        below = layers[-1][1]
    tallest, unit, seconds = time_axis(1.05 * max(float(below.max()), 1e-6))
    across = linear(bins.first[0] - 0.6, bins.last[-1] + 0.6, whole=True)
    plot = Plot(across, tallest, about="time by stage", kind="tall", columns=False)
    gap = 0.4 if bins.count <= 60 else 0.5
    for i, (low, high) in enumerate(layers):
        sides = bins.first - gap, bins.last + gap
        plot.bars(*sides, low / seconds, high / seconds, f"bar s{i % COLOURS}")
    total = sum(float(s.sum()) for s in spent.values())
    rows = []
    for i, stage in enumerate(names):
        colour = f"s{i % COLOURS}"
        mine = float(spent[stage].sum())
        share = mine / total if total else 0.0
        first = f'<i class="d {colour}"></i> {named(stage)}'
        median = duration(float(np.median(spent[stage])))
        rows.append((first, duration(mine), median, _bar(share, colour)))
    caption = "How long ebo itself took to propose each batch"
    caption += ", the mean of neighbouring batches." if bins.together > 1 else "."
    chart = figure(
        "Time of each iteration",
        plot.html("batch", f"<b>{unit}</b>"),
        caption,
        "",
        key(*((f"b s{i % COLOURS}", named(stage)) for i, stage in enumerate(names))),
    )
    begin, end = period(facts)
    note = f"{duration(total)} together"
    if end > begin:
        note += f", {percent(min(1.0, total / (end - begin)))} of the {duration(end - begin)}"
        note += " from the first evaluation to the last"
    head = ("stage", ">total", ">median", "share")
    totals = figure("By stage", table(head, rows), note + "." + _evaluations(facts))
    return f'<div class="pair">{chart}{totals}</div>'


def _evaluations(facts: Facts) -> str:
    """How long evaluations took, and how many ran at once."""
    lengths = facts.lengths
    begin, end = period(facts)
    if not lengths.size or not end > begin:
        return ""
    middle, slow = (duration(float(v)) for v in np.quantile(lengths, [0.5, 0.95]))
    once = float(lengths.sum()) / (end - begin)
    return (
        f" An evaluation took {middle} (median), one in twenty more than {slow}; "
        f"on average {once:.1f} ran at a time."
    )


def settings(facts: Facts) -> str:
    """All settings, as they were given."""
    rows = [(named(k, 40), f"<code>{short(v, 300)}</code>") for k, v in facts.data.settings.items()]
    if not rows:
        return ""
    size = -(-len(rows) // (1 if len(rows) <= 8 else 2))
    parts = [table(("setting", "value"), rows[i : i + size]) for i in range(0, len(rows), size)]
    return f'<div class="tables">{"".join(parts)}</div>'


def _mark(state: str) -> str:
    return "state-" + state.replace(" ", "-")


def _bar(share: float, mark: str) -> str:
    bar = f'<i class="{mark}" style="width:{100 * share:.1f}%"></i>'
    return f'<span class="share">{bar}</span> {percent(share)}'


def _seconds(value: object) -> float:
    if isinstance(value, int | float) and math.isfinite(value):
        return max(float(value), 0.0)
    return 0.0
