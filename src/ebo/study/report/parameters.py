"""What the parameters do: the best point, slices, and the best evaluations across parameters."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from ebo.arrays import Floats, Ints
from ebo.space.parameters import Categorical, Float, Int, Parameter
from ebo.study.report.chart import Axis, Plot, linear, logarithmic, slots
from ebo.study.report.data import Facts, span
from ebo.study.report.html import count, escape, figure, named, number, percent, ramp, table
from ebo.study.report.image import SHADES, VIRIDIS, scatter
from ebo.study.report.image import ramp as colours
from ebo.study.report.progress import value_axis

SLICES = 60  # parameters drawn; of more, the most telling ones
POINTS = 2_500  # evaluations in a slice
GOOD = 100  # the best evaluations, for the bands and the parallel coordinates
EDGE = 0.01  # of its range: so near its end a parameter is said to be at it
MARGIN = 0.02  # of its range, to each side of a frame, so that dots at an end are whole
FEW = 20  # whole numbers so few are spread within their slots


def best_point(facts: Facts) -> str:
    """Every parameter of the best point, and where in its range that is."""
    data = facts.data
    row = facts.done[facts.best]
    top = facts.order[-GOOD:]
    rows, at_edge = [], []
    for d, (name, parameter) in enumerate(zip(data.names, data.parameters, strict=True)):
        x = float(data.X[row, d])
        if facts.free[d]:
            at = float(facts.unit(d, np.array([facts.best]))[0])
            low, high = np.quantile(facts.unit(d, top), [0.1, 0.9])
            bar = _range_bar(at, float(low), float(high))
            if _near_end(parameter, x):
                at_edge.append(name)
        else:
            bar = '<span class="fixed">fixed</span>'
        cells = (named(name), f'<span title="{_exact(parameter, x)}">{_told(parameter, x)}</span>')
        rows.append((*cells, bar, f'<span class="soft">{_range(parameter)}</span>'))
    head = ("parameter", ">value", "place in its range", "range")
    parts = 1 if len(rows) <= 8 else 2
    size = -(-len(rows) // parts)
    tables = "".join(table(head, rows[i : i + size], "point") for i in range(0, len(rows), size))
    some = min(GOOD, len(facts.y))
    caption = "The dot is the best point"
    if some > 4:
        caption += (
            f"; the bar is where the best {some} evaluations lie (the middle 80 % of them). "
            "A short bar: the value depends on this parameter, and its good range is found. "
            "A long one: it matters little, or is not settled"
        )
    caption += "."
    if at_edge:
        shown = ", ".join(named(n) for n in at_edge[:8]) + (" …" if len(at_edge) > 8 else "")
        caption += (
            f" <b>{count(len(at_edge), 'parameter is', 'parameters are')} at the very end of the "
            f"range</b>: {shown}. "
            "A wider range may hold better values."
        )
    scroll = " scroll" if len(rows) > 80 else ""
    whole = {
        n: _plain(p, float(x))
        for n, p, x in zip(data.names, data.parameters, data.X[row], strict=True)
    }
    copy = escape(json.dumps(whole, indent=1, default=str, ensure_ascii=False))
    body = f'<div class="tables{scroll}">{tables}</div>'
    body += f"<details><summary>as JSON, to copy</summary><pre>{copy}</pre></details>"
    return figure("", body, caption, "wide")


def slices(facts: Facts) -> tuple[str, str]:
    """Small multiples, value against each parameter; and what to say before them."""
    chosen = facts.by_importance[:SLICES]
    if not chosen.size:
        return "", ""
    axis = value_axis(facts, tail=0.0, most=4)
    rows = facts.thinned(POINTS)
    rows = rows[(facts.y[rows] >= axis.low) & (facts.y[rows] <= axis.high)]
    shade = (rows * SHADES) // max(len(facts.y), 1)
    tiles = [_slice(facts, int(d), axis, rows, shade) for d in chosen]
    lead = (
        "Value against one parameter at a time. Look where the good dots stand: in a narrow peak, "
        "and the parameter matters and is found; all along the frame, and it matters little."
    )
    if (facts.importance > 0).any():
        lead += (
            " The most telling come first: the share is how much of the values' ranking a "
            "parameter explains on its own, as the search happened to sample it."
        )
    if len(facts.by_importance) > len(chosen):
        lead += f" <b>Shown are {len(chosen)} of {len(facts.by_importance):,} parameters.</b>"
    if len(facts.y) > POINTS:
        lead += (
            f" Of {len(facts.y):,} evaluations up to {POINTS:,} are drawn: "
            f"the best {POINTS // 6} and others at random."
        )
    if len(facts.y) > 4:
        lead += " The worst quarter of the values is below the frames."
        lead = lead if facts.maximize else lead.replace("below the frames", "above the frames")
    legend = '<span><i class="d best"></i>best</span>' + ramp("first", "last evaluation")
    return f'<div class="key">{legend}</div><div class="tiles">{"".join(tiles)}</div>', lead


def _slice(facts: Facts, d: int, axis: Axis, rows: Ints, shade: Ints) -> str:
    name, parameter = facts.data.names[d], facts.data.parameters[d]
    plot = Plot(parameter_axis(parameter), axis, about=f"value against {name}", kind="small slice")
    values = np.asarray(facts.data.X, dtype=np.float64)[facts.done, d]
    x = plot.x.at(_spread(parameter, values[rows], 1.0, d))
    y = plot.y.at(facts.y[rows])
    plot.picture(scatter(x, y, shade, colours(VIRIDIS, SHADES), (440, 270), 2.9, 0.95))
    for mark in ("dot best ring", "dot best"):
        plot.dots([values[facts.best]], [facts.y[facts.best]], mark)
    share = facts.importance[d]
    told = f'<span class="soft">{percent(share)}</span>' if facts.importance.any() else ""
    scale = "log scale" if plot.x.log else ""
    return (
        f'<div class="tile"><h4>{named(name, 24)}<span class="soft">{scale}</span>{told}</h4>'
        f"{plot.html('', '')}</div>"
    )


def parallel(facts: Facts) -> str:
    """The best evaluations as lines across all parameters, parameters of a group side by side."""
    order = grouped(facts)
    shown = set(facts.by_importance[:SLICES].tolist())
    columns = [d for d in order if d in shown]
    top = facts.order[-GOOD:]
    if len(columns) < 3 or len(top) < 5:
        return ""
    kinds = [facts.data.parameters[d] for d in columns]
    T = np.stack(
        [
            _spread(p, facts.unit(d, top), 1.0 / max(p.levels, 1), d)
            for p, d in zip(kinds, columns, strict=True)
        ]
    )
    labels = [(float(i), "") for i in range(len(columns))]
    across = Axis(-0.5, len(columns) - 0.5, labels)
    plot = Plot(
        across,
        Axis(-0.03, 1.03, [(0.0, "low"), (1.0, "high")]),
        about="best evaluations",
        kind="high",
    )
    places = np.arange(len(columns))
    for i in range(len(top)):
        mark = "so-far best-line" if i == len(top) - 1 else f"p p{i * 8 // len(top)}"
        plot.line(places, T[:, i], mark)
    names = "".join(f"<span>{named(facts.data.names[d], 18)}</span>" for d in columns)
    wide = 15 * len(columns) + 60
    body = (
        f'<div class="slide"><div style="min-width:{wide}px">{plot.html("", "")}'
        f'<div class="feet">{names}</div></div></div>'
    )
    caption = (
        "Every line is one evaluation; where lines come together, good values need that part of "
        "the range. Parameters that act together stand side by side."
    )
    legend = '<span><i class="l so-far"></i>best</span>'
    legend += ramp(f"rank {len(top)}", "rank 2")
    return figure(
        f"The best {len(top)} evaluations across parameters", body, caption, "wide", legend
    )


def grouped(facts: Facts) -> list[int]:
    """The free parameters, group by group, the larger groups first."""
    place = {name: d for d, name in enumerate(facts.data.names)}
    order: list[int] = []
    for group in sorted(facts.data.groups, key=len, reverse=True):
        order += [place[n] for n in group if n in place and facts.free[place[n]]]
    found = set(order)
    return order + [int(d) for d in np.flatnonzero(facts.free) if int(d) not in found]


def parameter_axis(parameter: Parameter) -> Axis:
    """The axis of a parameter in its own units, for a small frame."""
    if isinstance(parameter, Categorical):
        return slots([str(c) for c in parameter.choices], most=4)
    low, high, log = span(parameter)
    if log:
        pad = (high / low) ** MARGIN
        return replace(logarithmic(low, high, 4), low=low / pad, high=high * pad)
    pad = MARGIN * (high - low)
    axis = linear(low, high, 4, whole=isinstance(parameter, Int))
    return replace(axis, low=low - pad, high=high + pad)


def _spread(parameter: Parameter, x: Floats, slot: float, seed: int) -> Floats:
    """Few distinct values spread within their slots, so that dots do not hide others."""
    few = not isinstance(parameter, Float) and 1 < parameter.levels <= FEW
    if not few or (isinstance(parameter, Int) and parameter.log):
        return x
    return x + slot * np.random.default_rng(seed).uniform(-0.36, 0.36, len(x))


def _range_bar(at: float, low: float, high: float) -> str:
    width = max(100 * (high - low), 1.0)
    return (
        f'<span class="range"><i style="left:{min(100 * low, 99):.1f}%;width:{width:.1f}%"></i>'
        f'<b style="left:{100 * at:.1f}%"></b></span>'
    )


def _near_end(parameter: Parameter, x: float) -> bool:
    if isinstance(parameter, Categorical) or parameter.levels in range(1, 5):
        return False
    if isinstance(parameter, Int):
        return x in (parameter.low, parameter.high)
    if parameter.log:
        x, low, high = np.log(x), np.log(parameter.low), np.log(parameter.high)
    else:
        low, high = parameter.low, parameter.high
    return bool(min(x - low, high - x) <= EDGE * (high - low))


def _plain(parameter: Parameter, x: float) -> object:
    """A value as the user knows it."""
    if isinstance(parameter, Categorical):
        return parameter.choices[int(np.clip(x, 0, parameter.levels - 1))]
    return int(x) if isinstance(parameter, Int) else x


def _told(parameter: Parameter, x: float) -> str:
    value = _plain(parameter, x)
    if isinstance(parameter, Categorical):
        return named(value, 20)
    return f"{value:,}" if isinstance(parameter, Int) else number(x)


def _exact(parameter: Parameter, x: float) -> str:
    return escape(str(_plain(parameter, x))[:300])


def _range(parameter: Parameter) -> str:
    if isinstance(parameter, Categorical):
        return f"{parameter.levels} choices" if parameter.levels > 1 else ""
    if parameter.low == parameter.high:
        return ""
    log = ", log" if parameter.log else ""
    return f"{number(parameter.low, 4)} to {number(parameter.high, 4)}{log}"
