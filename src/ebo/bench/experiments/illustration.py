"""`ebo bench illustration`: ten iterations in two dimensions.

Appendix A of the paper: a sample of a TileGP with z = [0, 1], k = [10, 10] and σ = 0.01 on the unit
square (`ebo.bench.illustration`) is searched in 10 batches of 20, by leaves of at most 20
observations, of which there are at most 50. `paper` has the paper's settings and is told f*, which
η needs; `default` has ours, and is told nothing. The first batch is Sobol's, since nothing is known
then. A picture of an iteration shows the leaves it searched, what was observed before it (orange)
and what it selected (blue).

`regret` is how far the best point observed falls short of the maximum, over the function's range;
`batch` is the same for the mean of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ebo.bench.experiments.base import Claim, Notes, Result, Rows
from ebo.bench.illustration import Illustration
from ebo.optimizer import Optimizer
from ebo.settings import Settings

LEAF_SIZE, MAX_LEAVES = 20, 50
PRESETS = {
    "paper": Settings.paper().changed(leaf_size=LEAF_SIZE, max_leaves=MAX_LEAVES),
    # For batches as large as these it doubles: leaves hold as many as those of the paper's preset.
    "default": Settings().changed(leaf_size=LEAF_SIZE, max_leaves=MAX_LEAVES, grows=False),
}
BLUE, ORANGE = "#0072b2", "#e69f00"
COLUMNS = 5  # of pictures


@dataclass(frozen=True)
class Scale:
    """Iterations, points of each, pixels of the function along a side."""

    iterations: int
    batch_size: int
    side: int
    seeds: int


SCALES = {
    "smoke": Scale(10, 20, 60, seeds=1),
    "small": Scale(10, 20, 100, seeds=10),
    "paper": Scale(10, 20, 100, seeds=50),
}


def run(scale: Scale, seeds: int, notes: Notes) -> Result:
    """Both presets on as many functions as there are seeds; pictures of the first."""
    runs: dict[str, list[dict[str, Any]]] = {preset: [] for preset in PRESETS}
    for preset, seed in product(PRESETS, range(seeds)):
        key = {"preset": preset, "seed": seed}
        key |= {"iterations": scale.iterations, "batch size": scale.batch_size}
        runs[preset].append(notes.part(key, partial(search, scale, preset, seed)))
    f, t = Illustration(0), (np.arange(scale.side) + 0.5) / scale.side
    surface = f.exact(np.stack(np.meshgrid(t, t), axis=-1).reshape(-1, 2))
    return {
        "surface": np.round(surface, 3).reshape(scale.side, -1).tolist(),
        "maximum": highest(f),
        "leaf_size": LEAF_SIZE,
        **{
            name: {p: np.median([part[name] for part in runs[p]], axis=0).tolist() for p in runs}
            for name in ("regret", "batch")
        },
        "iterations": {preset: parts[0]["iterations"] for preset, parts in runs.items()},
    }


def highest(f: Illustration) -> list[float]:
    """Where the function is highest: a sum of parts is where each of them is."""
    t = np.linspace(0.0, 1.0, 20_001)
    lines = [np.where(np.arange(f.dims) == d, t[:, None], 0.5) for d in range(f.dims)]
    return [round(float(t[np.argmax(f.exact(line))]), 5) for line in lines]


def search(scale: Scale, preset: str, seed: int) -> dict[str, Any]:
    """One run: regrets by iteration, and for the first seed what every iteration did."""
    f = Illustration(seed)
    bound = f.maximum if preset == "paper" else None
    optimizer = Optimizer(f.space, seed=seed, settings=PRESETS[preset], upper_bound=bound)
    iterations, regret, batch = [], [], []
    for _ in range(scale.iterations):
        seen = len(optimizer.y)
        X = optimizer.ask(scale.batch_size)
        leaves = optimizer.leaves
        optimizer.tell(X, f(X))
        boxes = [[*leaf.lower, *leaf.upper] for leaf in leaves] or [[0.0, 0.0, 1.0, 1.0]]
        iterations.append(
            {
                "boxes": np.round(boxes, 4).tolist(),
                "fullest": max((len(leaf.rows) for leaf in leaves), default=0),
                "observed": seen,
                "selected": np.round(X, 4).tolist(),
            }
        )
        regret.append(f.regret(optimizer.best()[0]))
        batch.append(float(np.mean([f.regret(x) for x in X])))
    return {"regret": regret, "batch": batch, "iterations": iterations if seed == 0 else None}


def tables(result: Result) -> dict[str, Rows]:
    """Leaves and regrets by iteration."""
    found = {}
    for preset, iterations in result["iterations"].items():
        found[f"{preset} settings, median regret over the seeds, leaves of the first"] = [
            {
                "iteration": i + 1,
                "observations": iteration["observed"],
                "leaves": len(iteration["boxes"]),
                "best observed": result["regret"][preset][i],
                "mean of the batch": result["batch"][preset][i],
            }
            for i, iteration in enumerate(iterations)
        ]
    return found


def claims(result: Result) -> list[Claim]:
    """What the appendix says of its picture."""
    found = []
    for preset, iterations in result["iterations"].items():
        regret, batch = result["regret"][preset], result["batch"][preset]
        later = float(np.mean(batch[1:]))
        counts = [len(iteration["boxes"]) for iteration in iterations]
        fullest = max(iteration["fullest"] for iteration in iterations)
        drawn = [str(iteration["boxes"]) for iteration in iterations if len(iteration["boxes"]) > 1]
        found += [
            Claim(
                f"{preset}: partitions begin once there are more than {LEAF_SIZE} observations, "
                "and each is another",
                f"leaves {', '.join(map(str, counts))}; at most {fullest} observations in one",
                counts[0] == 1 and fullest <= LEAF_SIZE and len(set(drawn)) == len(drawn) > 0,
            ),
            Claim(
                f"{preset}: the region of the maximum is found, regret below a tenth of the range",
                f"{regret[0]:.3f} after the first iteration, {regret[-1]:.3f} in the end",
                regret[-1] < 0.1,
            ),
            Claim(
                f"{preset}: later selections are better than the first, which are spread evenly",
                f"a batch falls short by {batch[0]:.2f} first, by {later:.2f} on average later",
                later < 0.95 * batch[0],
            ),
        ]
    return found


def figures(result: Result, folder: Path) -> list[Path]:
    """A grid of pictures for every preset."""
    files = []
    for preset, iterations in result["iterations"].items():
        rows = -(-len(iterations) // COLUMNS)
        drawing = Figure(figsize=(13, 2.75 * rows + 0.7), dpi=120, layout="constrained")
        axes = drawing.subplots(rows, COLUMNS, sharex=True, sharey=True, squeeze=False)
        seen: list[list[float]] = []
        for i, (ax, iteration) in enumerate(zip(axes.ravel(), iterations, strict=False)):
            shade = ax.imshow(
                result["surface"], origin="lower", extent=(0, 1, 0, 1), cmap="Greys_r", alpha=0.5
            )
            draw_iteration(ax, iteration["boxes"], seen, iteration["selected"])
            ax.plot(
                *result["maximum"],
                "+",
                color="#d55e00",
                markersize=13,
                markeredgewidth=2.2,
                label="maximum of f",
            )
            leaves = len(iteration["boxes"])
            title = f"iteration {i + 1}, {leaves} {'leaf' if leaves == 1 else 'leaves'}"
            ax.set_title(title, fontsize=10)
            seen = seen + iteration["selected"]
        for ax in axes.ravel()[len(iterations) :]:
            ax.set_visible(False)
        drawing.colorbar(shade, ax=axes, shrink=0.8, label="f")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        drawing.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        drawing.suptitle(f"{len(iterations)} iterations with the {preset} settings")
        files.append(folder / f"illustration-{preset}.png")
        drawing.savefig(files[-1])
    return files


def draw_iteration(
    ax: Axes, boxes: list[list[float]], seen: list[list[float]], selected: list[list[float]]
) -> None:
    """The leaves, what was observed before, and the batch."""
    patches = [Rectangle((l, b), r - l, t - b) for l, b, r, t in boxes]  # noqa: E741
    ax.add_collection(PatchCollection(patches, facecolor="none", edgecolor="black", linewidth=1.1))
    for points, colour, name in ((seen, ORANGE, "observed"), (selected, BLUE, "selected")):
        x, y = np.array(points).reshape(-1, 2).T
        ax.plot(
            x,
            y,
            "o",
            color=colour,
            markersize=5,
            markeredgecolor="white",
            markeredgewidth=0.6,
            label=name,
        )
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
    ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
