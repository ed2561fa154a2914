"""`ebo bench features`: four families of random partitions, and the kernels they tend to.

The paper's appendix on Mondrian kernels and random binning. A layer cuts the plane into cells; κ_L
is the share of L layers on which two points share a cell. Layers are independent, and chi_l is one
with the probability κ that the limit kernel gives. So the root mean square of κ_L - κ, over pairs
of points, is exactly √(mean κ (1 - κ)) / √L on average: the Monte-Carlo rate.

==================  ==================================================  ==========================
family              a layer, for both dimensions together               limit
==================  ==================================================  ==========================
tile coding         k equal cells with a random offset                  Π max(0, 1 - k |x - x'|)
Mondrian grid       Poisson(k) cuts, uniform and independent            exp(-k |x - x'|₁)
random binning      equal cells of width ~ Gamma(2, k), random offset   exp(-k |x - x'|₁)
Mondrian features   a Mondrian process of rate k over the plane         exp(-k |x - x'|₁)
==================  ==================================================  ==========================

Tile coding has one number of cuts for all layers here, as in the sampler's default.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ebo.arrays import Floats
from ebo.bench.experiments.base import Claim, Notes, Result, Rows
from ebo.bench.experiments.features_figure import figures
from ebo.tilegp.features import (
    CellFeatures,
    MondrianFeatures,
    MondrianGrid,
    RandomBinning,
    TileCoding,
)
from ebo.tilegp.kernel import Hat, Laplace, Limit

__all__ = ["SCALES", "claims", "figures", "run", "tables"]


CUTS = 5
TOGETHER = np.array([0, 0])  # z: both dimensions in one group
FAMILIES: dict[str, Limit] = {
    "tile coding": Hat(),
    "Mondrian grid": Laplace(),
    "random binning": Laplace(),
    "Mondrian features": Laplace(),
}
RASTER = 250  # pixels along a side, by which cells are found
SHOWN_LAYERS, SHOWN_SIDE = 50, 61


@dataclass(frozen=True)
class Scale:
    """Numbers of layers, points of which all pairs are compared, and repetitions."""

    layers: tuple[int, ...]
    points: int
    seeds: int


SCALES = {
    "smoke": Scale((4, 16, 64, 256), 40, seeds=10),
    "small": Scale((4, 16, 64, 256, 1_024, 4_096), 60, seeds=20),
    "paper": Scale((4, 16, 64, 256, 1_024, 4_096, 16_384), 60, seeds=50),
}


def run(scale: Scale, seeds: int, notes: Notes) -> Result:
    """Error of every family by layers, and the pictures of one layer and of the kernels."""
    rows: Rows = []
    for family in FAMILIES:
        for layers in scale.layers:
            key = {"family": family, "layers": layers, "points": scale.points, "seeds": seeds}
            compute = partial(deviation, family, layers, scale.points, seeds)
            rows.append({"family": family, "layers": layers, **notes.part(key, compute)})
    slopes = {}
    for family in FAMILIES:
        errors = [row["error"] for row in rows if row["family"] == family]
        slopes[family] = float(np.polyfit(np.log(scale.layers), np.log(errors), 1)[0])
    pictures = {family: picture(family) for family in FAMILIES}
    return {"cuts": CUTS, "rows": rows, "slopes": slopes, "pictures": pictures}


def draw(family: str, layers: int, rng: np.random.Generator) -> tuple[CellFeatures, Floats]:
    """A family's layers in the plane, and their cuts, (2,) or (2, L)."""
    same = np.full(2, float(CUTS))
    if family == "tile coding":
        return TileCoding.draw(2, layers, rng), same
    if family == "Mondrian grid":
        cuts = rng.poisson(CUTS, (2, layers)).astype(np.float64)
        return MondrianGrid.draw(2, layers, rng, max_cuts=int(max(1, cuts.max()))), cuts
    if family == "random binning":
        return RandomBinning.draw(2, layers, rng), same
    return MondrianFeatures.draw(2, layers, rng), same


def deviation(family: str, layers: int, points: int, seeds: int) -> dict[str, float]:
    """Root mean square of κ_L - κ over pairs of points and seeds, and what it is on average."""
    squares, expected = [], []
    for seed in range(seeds):
        rng = np.random.default_rng([seed, layers])
        T, T2 = rng.random((points, 2)), rng.random((points, 2))
        features, cuts = draw(family, layers, rng)
        limit = FAMILIES[family].gram(T, T2, TOGETHER, [CUTS, CUTS])
        finite = features.gram(T, T2, TOGETHER, cuts)
        squares.append(np.mean((finite - limit) ** 2))
        expected.append(np.mean(limit * (1.0 - limit)) / layers)
    return {"error": float(np.sqrt(np.mean(squares))), "rate": float(np.sqrt(np.mean(expected)))}


def picture(family: str) -> dict[str, Any]:
    """The boxes of one layer, and κ to the centre: of some layers, and in the limit."""
    features, cuts = draw(family, 1, np.random.default_rng(1))
    t = np.linspace(0.0, 1.0, SHOWN_SIDE)
    grid, centre = np.stack(np.meshgrid(t, t), axis=-1).reshape(-1, 2), np.array([[0.5, 0.5]])
    many, many_cuts = draw(family, SHOWN_LAYERS, np.random.default_rng(2))
    kernels = {
        "finite": many.gram(grid, centre, TOGETHER, many_cuts),
        "limit": FAMILIES[family].gram(grid, centre, TOGETHER, [CUTS, CUTS]),
    }
    shown = {k: np.round(v, 3).reshape(SHOWN_SIDE, -1).tolist() for k, v in kernels.items()}
    return {"boxes": boxes(features, cuts).tolist(), "layers": SHOWN_LAYERS, **shown}


def boxes(features: CellFeatures, cuts: Floats, raster: int = RASTER) -> Floats:
    """The cells of a single layer as boxes (c, 4): left, lower, right and upper edge.

    Cells are boxes in every family; which one a place is in, the features themselves say, pixel by
    pixel. So edges are exact to a pixel, and the boxes cover the square without a gap.
    """
    t = (np.arange(raster) + 0.5) / raster
    places = np.stack(np.meshgrid(t, t), axis=-1).reshape(-1, 2)
    codes = features.cells(places, TOGETHER, cuts)[0][:, 0, :]
    _, cell = np.unique(codes, axis=0, return_inverse=True)
    edges = np.empty((int(cell.max()) + 1, 4))
    edges[:, :2], edges[:, 2:] = 1.0, 0.0
    pixel = np.rint(places * raster - 0.5) / raster
    for d in range(2):
        np.minimum.at(edges[:, d], cell, pixel[:, d])
        np.maximum.at(edges[:, 2 + d], cell, pixel[:, d] + 1.0 / raster)
    return np.round(edges, 6)


def tables(result: Result) -> dict[str, Rows]:
    """Errors by layers, a column for each family, and their slope."""
    rows: dict[int, dict[str, Any]] = {}
    for row in result["rows"]:
        rows.setdefault(row["layers"], {"layers": row["layers"]})[row["family"]] = row["error"]
    return {
        "Root mean square of κ_L - κ": [*rows.values(), {"layers": "slope", **result["slopes"]}]
    }


def claims(result: Result) -> list[Claim]:
    """The Monte-Carlo rate, as slope and as constant."""
    slopes = list(result["slopes"].values())
    over = [row["error"] / row["rate"] for row in result["rows"]]
    return [
        Claim(
            "Every family's kernel tends to its limit as 1/√L: the slope is -0.5",
            ", ".join(f"{family} {slope:.3f}" for family, slope in result["slopes"].items()),
            max(abs(slope + 0.5) for slope in slopes) < 0.08,
        ),
        Claim(
            "with the constant of independent layers, √(mean κ (1 - κ))",
            f"from {min(over):.3f} to {max(over):.3f} times that",
            min(over) > 0.8 and max(over) < 1.25,
        ),
    ]
