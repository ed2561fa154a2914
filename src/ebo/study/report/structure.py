"""What was learned of the function: which parameters act together, how finely, how sure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ebo.arrays import Floats
from ebo.study.report.chart import Plot, linear
from ebo.study.report.data import Facts, evenly
from ebo.study.report.html import count, figure, named, number, percent, ramp, table
from ebo.study.report.image import BLUES, GLOW, matrix
from ebo.study.report.parameters import grouped

LABELLED = 64  # parameters of a heat map that are named beside it
LISTED = 60  # bars, and groups, that are shown at once
PAIRS = 10
SEVERAL = 3  # iterations that have learned, before which nothing is said of how sure it is
DRAWN = 400  # iterations on a line


def groups(facts: Facts) -> str:
    """Co-membership as a heat map ordered by group, and the groups in words."""
    data = facts.data
    if data.certainty is None:
        return ""
    certainty = np.asarray(data.certainty, dtype=np.float64)
    order = [d for d in grouped(facts) if not math.isnan(certainty[d, d])]
    if len(order) < 2:
        return ""
    shares = certainty[np.ix_(order, order)]
    many = [g for g in data.groups if len(g) > 1]
    size = "lots" if len(order) > 34 else ""
    body = f'<div class="pair structure {size}">'
    body += f'<div class="slide">{_heat_map(facts, order, shares)}</div>'
    body += f"<div>{_in_words(facts, order, shares)}</div></div>"
    sure = shares[np.triu_indices(len(order), 1)]
    settled = float(np.mean((sure < 0.1) | (sure > 0.9)))
    caption = (
        "Every cell tells how often two parameters were found in one group while learning: "
        "the stronger the colour, the more often. Frames are the groups in use"
    )
    caption += f" ({count(len(many), 'group')} of two or more)" if many else ""
    if facts.learned >= SEVERAL:
        caption += (
            f". Over the {facts.learned:,} iterations that have learned, of which the last count "
            f"most, {percent(settled)} of the pairs were together in under 10 % or over 90 % of "
            "the samples; of the others the model is not sure."
        )
    else:
        caption += f". {_too_few(facts)}"
    missing = int((~facts.free).sum())
    if missing:
        caption += f" {count(missing, 'fixed parameter')} left out."
    legend = ramp("never together", "always together", "blues")
    return figure("Which parameters act together", body, caption, "wide", legend)


def _heat_map(facts: Facts, order: Sequence[int], shares: Floats) -> str:
    n = len(order)
    member = {name: i for i, group in enumerate(facts.data.groups) for name in group}
    of = [member.get(facts.data.names[d], -1 - d) for d in order]
    starts = [i for i in range(n) if i == 0 or of[i] != of[i - 1]]
    frames = [(a, b - a) for a, b in zip(starts, [*starts[1:], n], strict=True) if b - a > 1]
    boxes = "".join(f'<rect x="{a}" y="{a}" width="{w}" height="{w}"/>' for a, w in frames)
    small = n <= LABELLED
    names = [named(facts.data.names[d], 14) for d in order] if small else []
    left = "".join(f"<span>{name}</span>" for name in names)
    dark = matrix(shares, GLOW) if n <= 300 else ""
    other = f'<source media="(prefers-color-scheme:dark)" srcset="{dark}">' if dark else ""
    kind = "few" if n <= 16 else "some" if n <= 34 else "lots"
    return (
        f'<div class="heat {kind}" role="img" aria-label="co-membership of {n} parameters">'
        f'<div class="left">{left}</div><div class="square">'
        f'<picture>{other}<img alt="" src="{matrix(shares, BLUES)}"></picture>'
        f'<svg viewBox="0 0 {n} {n}">{boxes}</svg></div>'
        f'<div class="feet">{left}</div></div>'
    )


def _in_words(facts: Facts, order: Sequence[int], shares: Floats) -> str:
    """The groups, how often the parameters of each were together, and the pairs that most were."""
    names = [facts.data.names[d] for d in order]
    place = {name: i for i, name in enumerate(names)}
    rows, alone, sure = [], [], facts.learned >= SEVERAL
    for group in sorted(facts.data.groups, key=len, reverse=True):
        at = [place[name] for name in group if name in place]
        if len(at) == 1:
            alone.append(names[at[0]])
        if len(at) < 2:
            continue
        inside = shares[np.ix_(at, at)][np.triu_indices(len(at), 1)]
        share = percent(float(np.nan_to_num(inside).mean())) if sure else "–"
        rows.append((_chips([names[i] for i in at]), share))
    told = ""
    if rows:
        told = table(("group", ">together"), rows[:LISTED])
        if len(rows) > LISTED:
            told += f'<p class="soft">and {len(rows) - LISTED:,} more groups</p>'
    elif facts.data.groups:
        told = "<p>Every parameter acts on its own: the function is taken as a sum.</p>"
    if alone:
        told += f'<p class="soft">On their own ({len(alone):,}):</p><p>{_chips(alone)}</p>'
    upper = np.triu(np.nan_to_num(shares), 1)
    best = np.argsort(-upper, axis=None, kind="stable")[:PAIRS]
    pairs = [(int(i), int(j)) for i, j in zip(*np.unravel_index(best, upper.shape), strict=True)]
    pairs = [(i, j) for i, j in pairs if upper[i, j] > 0.05]
    if pairs and sure:
        listed = [(_chips([names[i], names[j]]), percent(float(upper[i, j]))) for i, j in pairs]
        told += "<details><summary>the pairs most often together</summary>"
        told += table(("pair", ">together"), listed) + "</details>"
    return told


def _too_few(facts: Facts) -> str:
    """Why nothing is said of how sure it is."""
    n = facts.learned
    learned = (
        f"only {count(n, 'iteration')} {'has' if n == 1 else 'have'}" if n else "no iteration has"
    )
    return f"How sure this is cannot be told yet: {learned} learned from values."


def _chips(names: Sequence[str]) -> str:
    some = names[:LISTED]
    told = " ".join(f'<span class="chip">{named(name, 22)}</span>' for name in some)
    return told + (f" and {len(names) - len(some):,} more" if len(names) > len(some) else "")


def cuts(facts: Facts) -> str:
    """Cuts of each parameter as bars, the finest first."""
    known = [(n, float(facts.data.cuts[n])) for n in facts.data.names if n in facts.data.cuts]
    known = [(name, k) for name, k in known if math.isfinite(k)]
    if not known:
        return ""
    known.sort(key=lambda pair: -pair[1])
    most = max(known[0][1], 1e-9)
    rows = "".join(
        f'<div class="cut">{named(name, 22)}<span><i style="width:{100 * max(k, 0) / most:.1f}%">'
        f"</i></span><b>{number(k, 3)}</b></div>"
        for name, k in known[:LISTED]
    )
    caption = (
        "About how many pieces the range of a parameter falls into: with many cuts the function "
        "changes within a short length of it, with few it is smooth along it or flat."
    )
    if len(known) > LISTED:
        caption += f" Shown are the {LISTED} with the most cuts of {len(known):,}."
    return figure(
        "How finely the function varies", f'<div class="cuts">{rows}</div>', caption, "wide"
    )


def development(facts: Facts) -> str:
    """How the model changed from iteration to iteration, as small lines."""
    told = [it for it in facts.data.iterations if _value(it, "batch") is not None]
    if len(told) < 2:
        return ""
    told = [told[i] for i in evenly(len(told), DRAWN)]
    better = "lower" if not facts.maximize else "upper"
    wanted = [
        ("leaves", "leaves of the partition", "every leaf has a model of its own"),
        ("groups", "groups of parameters", "as many as there are parameters: all act alone"),
        ("noise", "share of noise", "of the variance, as the model sees it"),
        ("upper_bound", f"{better} bound aimed at", "dashed; the line is the best value"),
    ]
    tiles = []
    for field, title, what in wanted:
        at = [(_value(it, "batch"), _value(it, field), _value(it, "best")) for it in told]
        found = [(b, v, s) for b, v, s in at if b is not None and v is not None]
        if len(found) < 2:
            continue
        x, y = [b for b, _, _ in found], [v for _, v, _ in found]
        best = [math.nan if s is None else s for _, _, s in found]
        is_bound = field == "upper_bound"
        ends = [*y, *(s for s in best if is_bound and not math.isnan(s))]
        if field in ("noise", "leaves"):
            ends.append(0.0)
        low, high = min(ends), max(ends)
        pad = 0.06 * (high - low)
        axis = linear(low - (pad if low else 0), high + pad, 4, whole=field in ("leaves", "groups"))
        across = linear(min(x), max(x), 4, whole=True)
        plot = Plot(across, axis, about=title, kind="small")
        if is_bound:
            plot.line(x, best, "so-far")
        plot.line(x, y, "bound" if is_bound else "median")
        tiles.append(
            f'<div class="tile"><h4>{title}</h4>{plot.html("batch", "")}'
            f'<p class="soft">{what}</p></div>'
        )
    if not tiles:
        return ""
    return figure(
        "How the model developed", f'<div class="tiles">{"".join(tiles)}</div>', "", "wide"
    )


def _value(iteration: Mapping[str, Any], field: str) -> float | None:
    value = iteration.get(field)
    if value is None or not math.isfinite(value):
        return None
    return float(np.clip(value, -1e300, 1e300))
