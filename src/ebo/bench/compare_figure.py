"""The pictures of a comparison: the best value against batches."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ebo.bench.compare import SHARES

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444")
STYLES = ("-", "--", ":")  # one more for every time that the colours are used up
MOST_BANDS = 5  # more would hide each other
ORDERS = 100.0  # times nearer to the upper bound than at first: then by logarithms
LEAST = 1e-6  # of the distance at first: as near as is shown


def write_figures(result: dict[str, Any], folder: Path) -> list[Path]:
    """A PNG for every problem on which a method came to its end."""
    files = []
    for name, problem in result["problems"].items():
        if any(row["curve"]["mean"] for row in problem["methods"].values()):
            files.append(folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)}.png")
            figure(name, problem, result).savefig(files[-1])
    return files


def figure(name: str, problem: dict[str, Any], result: dict[str, Any]) -> Figure:
    """Means over the seeds as lines, from the least to the largest as bands, or bars where many."""
    drawing = Figure(figsize=(9, 5.5), dpi=120, layout="constrained")
    axes = drawing.add_subplot()
    looks = {
        method: (COLOURS[i % len(COLOURS)], STYLES[i // len(COLOURS) % len(STYLES)])
        for i, method in enumerate(problem["methods"])
    }
    done = {m: row for m, row in problem["methods"].items() if row["curve"]["mean"]}
    ends = [math.ceil(share * result["batches"]) for share in SHARES]
    best_first = sorted(done.items(), key=lambda item: -item[1]["best"]["100"])
    maximum, farthest = problem["maximum"], _orders(problem["maximum"], done.values())

    def height(values: list[float]) -> list[float]:
        if not farthest:
            return values
        return [max(maximum - value, LEAST * farthest) for value in values]

    for i, (method, row) in enumerate(best_first):
        colour, style = looks[method]
        curve = {key: height(values) for key, values in row["curve"].items()}
        batches = range(len(curve["mean"]))
        label = f"{method}  {row['best']['100']:.4g}"
        axes.plot(batches, curve["mean"], style, color=colour, label=label, linewidth=1.8)
        if len(done) <= MOST_BANDS:
            axes.fill_between(batches, curve["low"], curve["high"], color=colour, alpha=0.12, lw=0)
        else:
            shift = 0.004 * result["batches"] * (i - len(done))
            for at in ends:
                low, high = curve["low"][at], curve["high"][at]
                axes.vlines(at + shift, low, high, color=colour, linewidth=1.2)
    axes.set_ylabel("best value observed")
    if farthest:
        axes.set_yscale("log")
        axes.invert_yaxis()
        axes.set_ylabel(f"best value observed, how far below {maximum:.4g}")
    elif maximum is not None:
        label = f"upper bound  {maximum:.4g}"
        axes.axhline(maximum, color="#999999", linewidth=1.0, label=label)
    axes.set_xlim(0, result["batches"])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(
        f"batches of {result['batch_size']}, after {problem['initial']:,} random points"
    )
    seeds = result["seeds"]
    axes.set_title(f"{name}: {f'mean and range of {seeds} seeds' if seeds > 1 else 'one seed'}")
    plain(axes)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return drawing


def _orders(maximum: float | None, rows: Iterable[dict[str, Any]]) -> float:
    """The farthest from the maximum that means are, if they come nearer by orders of magnitude.

    A plain scale would hide how they end; else 0.
    """
    if maximum is None:
        return 0.0
    means = [value for row in rows for value in row["curve"]["mean"]]
    farthest, nearest = maximum - min(means), max(maximum - max(means), 0.0)
    return farthest if farthest > ORDERS * nearest else 0.0


def plain(axes: Axes) -> None:
    """A pale grid, and lines only where the scales are."""
    axes.grid(color="#e5e5e5", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
