"""The pictures of `features`: a layer and the kernel of every family, and the rate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ebo.bench.compare_figure import COLOURS, plain

SHADES = ("#dbe9f6", "#fdebd0", "#e3f1e3", "#f3e3ef", "#fdf6d8", "#e8e8e8")
MARKS = ("o", "s", "^", "D")


def figures(result: dict[str, Any], folder: Path) -> list[Path]:
    """Two PNG files."""
    files = [folder / "features.png", folder / "features-rate.png"]
    _families(result["pictures"], result["cuts"]).savefig(files[0])
    _rates(result).savefig(files[1])
    return files


def _families(pictures: dict[str, Any], cuts: int) -> Figure:
    """Columns are families; rows are a layer, the kernel of some layers, and its limit."""
    drawing = Figure(figsize=(12.4, 8.6), dpi=120, layout="constrained")
    axes = drawing.subplots(3, len(pictures), sharex=True, sharey=True)
    for (family, picture), column in zip(pictures.items(), axes.T, strict=True):
        draw_boxes(column[0], picture["boxes"])
        column[0].set_title(family, fontsize=12)
        for ax, name in zip(column[1:], ("finite", "limit"), strict=True):
            shade = ax.imshow(
                picture[name], origin="lower", extent=(0, 1, 0, 1), cmap="cividis", vmin=0, vmax=1
            )
            ax.plot(0.5, 0.5, "+", color="white", markersize=9)
        column[-1].set_xlabel("x₁")
        for ax in column:
            ax.set_xlim(0, 1)
            ax.set_ylim(0, 1)
            ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
            ax.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
            ax.set_aspect("equal")
        layers = picture["layers"]
    for ax, text in zip(
        axes[:, 0], ("one layer", f"κ of {layers} layers", "limit of κ"), strict=True
    ):
        ax.set_ylabel(f"{text}\n\nx₂")
    drawing.colorbar(shade, ax=axes[1:], shrink=0.7, label="κ(x, +)")
    drawing.suptitle(f"Random partitions of the plane, {cuts} cuts a dimension on average")
    return drawing


def draw_boxes(ax: Axes, boxes: list[list[float]]) -> None:
    """Boxes, each of another pale shade than most of its neighbours."""
    order = np.random.default_rng(0).integers(len(SHADES), size=len(boxes))
    for (left, low, right, high), shade in zip(boxes, order, strict=True):
        ax.add_patch(
            Rectangle(
                (left, low),
                right - left,
                high - low,
                facecolor=SHADES[shade],
                edgecolor="#333333",
                linewidth=0.9,
            )
        )


def _rates(result: dict[str, Any]) -> Figure:
    """Error against layers, with what independent layers give on average."""
    drawing = Figure(figsize=(7.6, 5.2), dpi=120, layout="constrained")
    ax = drawing.add_subplot()
    for (family, slope), colour, mark in zip(
        result["slopes"].items(), COLOURS, MARKS, strict=False
    ):
        these = [row for row in result["rows"] if row["family"] == family]
        layers = [row["layers"] for row in these]
        ax.loglog(layers, [row["rate"] for row in these], "-", color=colour, linewidth=0.9)
        ax.loglog(
            layers,
            [row["error"] for row in these],
            mark,
            color=colour,
            markersize=6,
            fillstyle="none",
            markeredgewidth=1.6,
            label=f"{family}, slope {slope:.3f}",
        )
    ax.plot([], [], "-", color="#666666", linewidth=0.9, label="independent layers, slope -1/2")
    ax.set_xlabel("layers L")
    ax.set_ylabel("root mean square of $\\kappa_L - \\kappa$")
    ax.set_title("Finite kernels tend to their limits at the Monte-Carlo rate", fontsize=11)
    plain(ax)
    ax.legend(frameon=False)
    return drawing
