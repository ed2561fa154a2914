"""The pictures of `starvation`: Fig. 1 of the paper with two panels more, and the figures by n."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ebo.bench.compare_figure import COLOURS, plain

BLUE, RED, GREEN, *_ = COLOURS
MARKS = {"fourier": "o-", "fourier in leaves": "^--", "tilegp in leaves": "s:"}
NAMES = {
    "fourier": "Fourier features",
    "fourier in leaves": "Fourier features in leaves",
    "tilegp in leaves": "TileGP in leaves",
}


def figures(result: dict[str, Any], folder: Path) -> list[Path]:
    """Two PNG files: the predictions, and ratio and error against observations."""
    files = [folder / "starvation.png", folder / "starvation-ratio.png"]
    _panels(result).savefig(files[0])
    _lines(result).savefig(files[1])
    return files


def _panels(result: dict[str, Any]) -> Figure:
    """Fourier features with more and more data; then the exact process and the two remedies."""
    picture, few = result["picture"], f"{result['features']:,} Fourier features"
    *_, last = picture["panels"]
    n = f"{last['observations']:,} observations"
    shown = [
        (panel, "fourier", f"{panel['observations']:,} observations, {few}")
        for panel in picture["panels"]
    ]
    shown += [
        (last, "exact", f"{n}, exact"),
        (last, "tilegp in leaves", f"{n}, TileGP in leaves"),
        (last, "fourier in leaves", f"{n}, Fourier features in leaves"),
    ]
    drawing = Figure(figsize=(13, 6.6), dpi=120, layout="constrained")
    axes = drawing.subplots(2, 3, sharex=True, sharey=True).ravel()
    for i, (ax, (panel, model, title)) in enumerate(zip(axes, shown, strict=True)):
        _prediction(ax, picture, panel, model)
        ax.set_title(f"({'abcdef'[i]}) {title}", fontsize=10, loc="left")
        if model.endswith("leaves"):
            ax.vlines(
                panel["edges"][1:-1],
                0.0,
                0.05,
                color="#444444",
                linewidth=0.7,
                transform=ax.get_xaxis_transform(),
                label="cuts of the partition",
            )
    axes[0].set_ylim(-5.0, 5.0)
    axes[0].set_xlim(picture["x"][0], picture["x"][-1])
    axes[0].set_xticks([-10, -5, 0, 5, 10])
    for ax in axes[3:]:
        ax.set_xlabel("x")
    handles, labels = axes[4].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False)
    drawing.suptitle(
        f"Variance starvation: a function of length-scale {picture['length_scale']:g}, "
        "observed left of 0.5 only"
    )
    return drawing


def _prediction(ax: Axes, picture: dict[str, Any], panel: dict[str, Any], model: str) -> None:
    """μ and μ ± 2σ, the function and some of its observations."""
    x = np.array(picture["x"])
    mean, sd = (np.array(part) for part in panel[model])
    n = panel["observations"]
    ax.fill_between(x, mean - 2 * sd, mean + 2 * sd, color=BLUE, alpha=0.2, lw=0, label="μ ± 2σ")
    ax.plot(x, picture["f"], color=RED, linewidth=1.2, label="f")
    ax.plot(
        picture["X"][:n],
        picture["y"][:n],
        "o",
        color=RED,
        markersize=3.5,
        fillstyle="none",
        markeredgewidth=0.6,
        label=f"observations (at most {len(picture['X'])} drawn)",
    )
    ax.plot(x, mean, color=BLUE, linewidth=1.4, label="μ")
    ax.spines[["top", "right"]].set_visible(False)


def _lines(result: dict[str, Any]) -> Figure:
    """Ratio and error against the number of observations."""
    rows = result["rows"]
    lengths = list(dict.fromkeys(row["length_scale"] for row in rows))
    drawing = Figure(figsize=(10, 4.6), dpi=120, layout="constrained")
    axes = drawing.subplots(1, 2)
    for ax, figure in zip(axes, ("ratio", "error"), strict=True):
        for length, colour in zip(lengths, COLOURS, strict=False):
            for model, mark in MARKS.items():
                these = [r for r in rows if (r["length_scale"], r["model"]) == (length, model)]
                ax.plot(
                    [r["observations"] for r in these],
                    [r[figure] for r in these],
                    mark,
                    color=colour,
                    label=f"ℓ = {length:g}, {NAMES[model]}",
                    linewidth=1.6,
                    markersize=5,
                )
        ax.axhline(1.0, color="#999999", linewidth=1.0, zorder=0)
        counts = sorted({row["observations"] for row in rows})
        ax.set_xscale("log")
        ax.set_xticks(counts, [f"{n:,}" for n in counts])
        ax.minorticks_off()
        ax.set_xlabel("observations")
        plain(ax)
    axes[0].set_ylim(bottom=0.0)
    axes[0].set_title("σ over that of the exact process", fontsize=10)
    axes[1].set_yscale("log")
    axes[1].set_yticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
    axes[1].minorticks_off()
    axes[1].set_title("error in units of σ, root mean square", fontsize=10)
    handles, labels = axes[0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    drawing.suptitle("Away from the data, x from 1.5 to 10")
    return drawing
