"""`ebo bench crossover`: an additive process expects its maxima where good parts cross.

The paper's figure on evolutionary algorithms. f = f₁(x₁) + f₂(x₂) with the kernel
κ(x, x') = Σ_m exp(-2 (x_m - x'_m)²) was observed to be good at (-1, 0), then at (2, 2) as well.
Each part is blind to the other coordinate, so that the exchange of coordinates, (-1, 2) and
(2, 0), is expected to be as good, and is more uncertain: there the upper confidence bound
μ(x) + 0.1 σ(x) has its maxima.

=========  ========  ====================================================================
name       shape     meaning
=========  ========  ====================================================================
X, y       (n, 2)    observations, the value 1 at each; noise of variance `NOISE`
P          (S, 2)    points of the square [-3, 4]²
=========  ========  ====================================================================

Nothing is random here; seeds change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ebo.arrays import Floats
from ebo.bench.experiments.base import Claim, Notes, Result, Rows

OBSERVED = np.array([[-1.0, 0.0], [2.0, 2.0]])
CROSSED = np.array([[-1.0, 2.0], [2.0, 0.0]])
VALUE, NOISE, DEVIATIONS = 1.0, 1e-4, 0.1
LOWER, UPPER = -3.0, 4.0
NEAR = 0.1  # a maximum so close to a point is at the point
NAMES = {"mean": "posterior mean μ", "ucb": f"upper confidence bound μ + {DEVIATIONS:g} σ"}


@dataclass(frozen=True)
class Scale:
    """Points of the picture along each side."""

    side: int
    seeds: int = 1


SCALES = {"smoke": Scale(57), "small": Scale(113), "paper": Scale(113)}


def run(scale: Scale, seeds: int, notes: Notes) -> Result:
    """Both functions on a grid, after one observation and after two, with their local maxima."""
    t = np.linspace(LOWER, UPPER, scale.side)
    P = np.stack(np.meshgrid(t, t), axis=-1).reshape(-1, 2)
    stages = []
    for n in (1, 2):
        values = surfaces(OBSERVED[:n], P)
        at = surfaces(OBSERVED[:n], np.concatenate([OBSERVED, CROSSED]))
        stage: dict[str, Any] = {"observations": n}
        for name in NAMES:
            surface = values[name].reshape(scale.side, scale.side)
            stage[name] = {
                "surface": np.round(surface, 4).tolist(),
                "maxima": np.round(local_maxima(surface, t), 6).tolist(),
                "observed": np.round(at[name][:2], 6).tolist(),
                "crossed": np.round(at[name][2:], 6).tolist(),
            }
        stages.append(stage)
    return {"t": np.round(t, 6).tolist(), "stages": stages}


def kernel(X: Floats, X2: Floats) -> Floats:
    """κ (n, n2): the sum of one squared exponential for each coordinate."""
    similarity: Floats = np.exp(-2.0 * (X[:, None, :] - X2[None, :, :]) ** 2).sum(axis=2)
    return similarity


def surfaces(X: Floats, P: Floats) -> dict[str, Floats]:
    """μ and μ + 0.1 σ at the points P, given the observations at X (Eqs. 2.1 and 2.2)."""
    K, across = kernel(X, X) + NOISE * np.eye(len(X)), kernel(X, P)
    weights = np.linalg.solve(K, across)
    mean = weights.T @ np.full(len(X), VALUE)
    variance = 2.0 - np.einsum("ij,ij->j", across, weights)  # κ(x, x) = 2, a one for each part
    return {"mean": mean, "ucb": mean + DEVIATIONS * np.sqrt(np.maximum(variance, 0.0))}


def local_maxima(surface: Floats, t: Floats) -> Floats:
    """Points (k, 2) of the grid whose eight neighbours are all lower, the highest first."""
    padded = np.pad(surface, 1, constant_values=-np.inf)
    n = len(t)
    around = [(i, j) for i in range(3) for j in range(3) if (i, j) != (1, 1)]
    higher = [surface > padded[i : i + n, j : j + n] for i, j in around]
    rows, columns = np.nonzero(np.logical_and.reduce(higher))
    order = np.argsort(-surface[rows, columns], kind="stable")
    return np.column_stack([t[columns], t[rows]])[order]


def tables(result: Result) -> dict[str, Rows]:
    """The values at the points observed and at the exchanged ones, after both observations."""
    last = result["stages"][-1]
    rows = []
    for kind, points in (("observed", OBSERVED), ("crossed", CROSSED)):
        for i, (x, y) in enumerate(points):
            values = {name: last[name][kind][i] for name in NAMES}
            rows.append({"point": f"({x:g}, {y:g})", "kind": kind, **values})
    return {"An additive process after two good observations": rows}


def claims(result: Result) -> list[Claim]:
    """The exchanged points are local maxima of both functions; of the bound, the highest."""
    last, found = result["stages"][-1], []
    step = result["t"][1] - result["t"][0]
    for name, title in NAMES.items():
        away = [distance(point, last[name]["maxima"]) for point in CROSSED]
        found.append(
            Claim(
                f"The {title} has local maxima at (-1, 2) and (2, 0)",
                f"{max(away):.2g} away at most, on a grid of step {step:g}",
                max(away) < NEAR,
            )
        )
    top = [distance(point, last["ucb"]["maxima"][:2]) for point in CROSSED]
    least, most = min(last["ucb"]["crossed"]), max(last["ucb"]["observed"])
    found.append(
        Claim(
            "and the two highest of the bound are there, above those at the points observed",
            f"{max(top):.2g} away at most; {least:.3f} beside {most:.3f}",
            max(top) < NEAR and least > most,
        )
    )
    gap = min(last["mean"]["crossed"]) / max(last["mean"]["observed"])
    found.append(
        Claim(
            "The mean is as high at the exchanged points as at those observed",
            f"{gap:.4f} times",
            gap > 0.999,
        )
    )
    return found


def distance(point: Floats, maxima: list[list[float]]) -> float:
    """How far the nearest maximum is."""
    return float(np.min(np.linalg.norm(np.array(maxima).reshape(-1, 2) - point, axis=1)))


def figures(result: Result, folder: Path) -> list[Path]:
    """The paper's four panels: mean and bound after one observation, and after two."""
    drawing = Figure(figsize=(9.6, 8.4), dpi=120, layout="constrained")
    axes = drawing.subplots(2, 2, sharex=True, sharey=True)
    top = max(np.max(stage[name]["surface"]) for stage in result["stages"] for name in NAMES)
    levels = 0.12 * np.arange(np.ceil(top / 0.12) + 1.0)  # none at the plateau of 0.5
    panels = [(stage, name) for stage in result["stages"] for name in NAMES]
    for ax, letter, (stage, name) in zip(axes.ravel(), "abcd", panels, strict=True):
        n = stage["observations"]
        surface = np.array(stage[name]["surface"])
        shade = ax.contourf(result["t"], result["t"], surface, levels, cmap="cividis")
        ax.contour(result["t"], result["t"], surface, levels[1:], colors="white", linewidths=0.3)
        ax.plot(
            *OBSERVED[:n].T,
            "o",
            color="white",
            markeredgecolor="black",
            markersize=9,
            label="observed",
        )
        if n > 1:
            ax.plot(
                *CROSSED.T,
                "P",
                color="#d55e00",
                markeredgecolor="white",
                markersize=12,
                label="coordinates exchanged",
            )
        ax.set_title(f"({letter}) {NAMES[name]}, {n} observation{'s' * (n > 1)}", fontsize=10)
        ax.set_aspect("equal")
    for ax in axes[-1]:
        ax.set_xlabel("x₁")
    for ax in axes[:, 0]:
        ax.set_ylabel("x₂")
    drawing.colorbar(shade, ax=axes, shrink=0.7, ticks=[0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    handles, labels = axes[-1, -1].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    file = folder / "crossover.png"
    drawing.savefig(file)
    return [file]
