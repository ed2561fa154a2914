"""`ebo bench starvation`: Fourier features run out of variance, a TileGP in partitions does not.

Fig. 1 of the paper. f ~ GP(0, κ) with κ(x, x') = exp(-(x - x')²/2ℓ²) on [-10, 10] is observed in
[-10, 0.5] only. The exact posterior stands beside three that have finitely many features:

fourier               1,000 features, all observations
fourier in leaves     1,000 features, in every leaf of a Mondrian partition those that it holds
tilegp in leaves      tile coding in the same leaves, of at most 100 observations

=========  =========================================================================================
figure     meaning, over the points x in [1.5, 10], away from all observations
=========  =========================================================================================
`ratio`    mean of σ(x) over the σ(x) of the exact process with the same kernel on all observations
`least`    the smallest of these
`error`    root mean square of (f(x) - μ(x))/σ(x): one if the model knows how little it knows
=========  =========================================================================================

What `ratio` compares with. For Fourier features the exact process is that of the squared
exponential kernel. A TileGP tends to another kernel as its layers become many, the hat, and its
exact process is that of the hat *on all observations*. (A leaf sees fewer, and for a given kernel
fewer observations never mean less variance: the ratio can fall below one only because layers are
finite.) The hat has the width at which both kernels are one half at the same distance. `error`
needs no such choice: f is the same for all. Cells are local: farther from the data than one cell
nothing was observed, and the ratio of a TileGP is exactly one there.

The partition cuts the observed range only, and its last leaf goes on to 10. Of the whole range,
Mondrian cuts would mostly fall beyond the data, and leave an empty leaf there, in which every model
has the variance of its prior: that starves least, and shows nothing.

How much the variance starves depends on ℓ, which the paper does not tell. Where ℓ is long, few
directions of the features matter, σ shrinks by some per cent only, and what starves is "the
variance scale compared to the mean scale", as the paper defines it: see `error`. Where the
observed range has about as many length-scales as there are features, σ itself falls to 0.6. The
noise, 0.01, is our choice too: with 0.1 and ℓ of 0.1 or more, hardly anything starves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ebo.arrays import Floats
from ebo.bench.experiments.base import Claim, Notes, Result, Rows
from ebo.bench.experiments.starvation_figure import figures
from ebo.bench.experiments.starvation_models import (
    AWAY,
    HALF,
    LAYERS,
    LOWER,
    NOISE,
    OBSERVED,
    UPPER,
    SquaredExponential,
    draw,
    in_leaves,
    partition,
    predict,
)
from ebo.tilegp.features import FourierFeatures, TileCoding
from ebo.tilegp.kernel import Hat

__all__ = ["SCALES", "claims", "figures", "run", "tables"]

MODELS = ("fourier", "fourier in leaves", "tilegp in leaves")
SHOWN = 120  # observations in a picture


@dataclass(frozen=True)
class Scale:
    """Features, observations, length-scales (the first is drawn), points of the grid."""

    features: int
    observations: tuple[int, ...]
    length_scales: tuple[float, ...]
    grid: int
    seeds: int


SCALES = {
    "smoke": Scale(200, (20, 200, 1_000), (1.0, 0.05), 201, seeds=1),
    "small": Scale(1_000, (100, 1_000, 5_000), (1.0, 0.1, 0.01), 401, seeds=2),
    "paper": Scale(1_000, (100, 1_000, 5_000), (1.0, 0.1, 0.01), 401, seeds=10),
}


def run(scale: Scale, seeds: int, notes: Notes) -> Result:
    """Every length-scale and seed; pictures of the first."""
    import scipy.linalg  # noqa: F401  its threads must be there to be limited

    parts = []
    for i, (length, seed) in enumerate(product(scale.length_scales, range(seeds))):
        key: dict[str, Any] = {"length-scale": length, "seed": seed, "features": scale.features}
        key |= {"observations": list(scale.observations), "grid": scale.grid, "picture": i == 0}
        with threadpool_limits(1):  # two threads that wait for a core are far slower than one
            parts.append(notes.part(key, partial(starve, scale, length, seed, picture=i == 0)))
    found = [row for part in parts for row in part["rows"]]
    rows = [
        _summary([row for row in found if all(row[name] == what[name] for name in what)])
        for what in (
            {"length_scale": length, "model": model, "observations": n}
            for length, model, n in product(scale.length_scales, MODELS, scale.observations)
        )
    ]
    return {"features": scale.features, "rows": rows, "picture": parts[0]["picture"]}


def starve(scale: Scale, length: float, seed: int, picture: bool = False) -> dict[str, Any]:
    """All models on one function, with more and more of the same observations."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(round(1e6 * length),)))
    grid = np.linspace(LOWER, UPPER, scale.grid)
    X = rng.uniform(LOWER, OBSERVED, max(scale.observations))
    f = draw(np.concatenate([X, grid]), length, rng)
    y, truth = f[: len(X)] + NOISE * rng.standard_normal(len(X)), f[len(X) :]
    rate = (UPPER - LOWER) / length
    cuts = round(rate / HALF)
    fourier = FourierFeatures.draw(1, scale.features // 2, rng)  # a cosine and a sine each
    away = grid >= AWAY
    rows, panels = [], []
    for n in scale.observations:
        data = X[:n], y[:n]
        exact = predict(SquaredExponential(), rate, *data, grid)
        hat = predict(Hat(), cuts, *data, grid)
        edges, leaves = partition(X[:n], rng)
        tiles = [TileCoding.draw(1, LAYERS, rng) for _ in leaves]
        found = {
            "fourier": predict(fourier, rate, *data, grid, form="features"),
            "fourier in leaves": in_leaves(lambda j: fourier, rate, leaves, edges, *data, grid),
            "tilegp in leaves": in_leaves(tiles.__getitem__, cuts, leaves, edges, *data, grid),
        }
        for model, (mean, sd) in found.items():
            ratio = (sd / (hat if model.startswith("tilegp") else exact)[1])[away]
            error = np.sqrt(np.mean(((truth - mean) / sd)[away] ** 2))
            numbers = {"ratio": ratio.mean(), "least": ratio.min(), "error": error}
            row = {"length_scale": length, "model": model, "observations": n}
            rows.append(row | {name: round(float(value), 5) for name, value in numbers.items()})
        predictions = {"exact": exact, **found}
        curves = {name: [_rounded(part) for part in both] for name, both in predictions.items()}
        panels.append({"observations": n, "edges": _rounded(edges), **curves})
    shown = {"x": grid, "f": truth, "X": X[:SHOWN], "y": y[:SHOWN]}
    drawn: dict[str, Any] = {name: _rounded(values) for name, values in shown.items()}
    drawn |= {"panels": panels, "length_scale": length}
    return {"rows": rows, "picture": drawn if picture else None}


def tables(result: Result) -> dict[str, Rows]:
    """Ratio and error by length-scale, model and observations."""
    title = f"σ(x) over that of the exact process, {result['features']:,} Fourier features"
    return {title: result["rows"]}


def claims(result: Result) -> list[Claim]:
    """Starvation, its remedy, and what the TileGP does."""
    rows = result["rows"]
    lengths = sorted({row["length_scale"] for row in rows})
    long, short = lengths[-1], lengths[0]

    def path(model: str, length: float, figure: str) -> list[float]:
        keys = (model, length)
        return [row[figure] for row in rows if (row["model"], row["length_scale"]) == keys]

    def told(values: list[float]) -> str:
        return ", ".join(f"{value:.3g}" for value in values)

    ratios = {length: path("fourier", length, "ratio") for length in lengths}
    errors = path("fourier", long, "error")
    tiled = [path("tilegp in leaves", length, "ratio") for length in lengths]
    parted = [path("fourier in leaves", length, "ratio")[-1] for length in lengths]
    tiled_errors = [path("tilegp in leaves", length, "error")[-1] for length in lengths]
    return [
        Claim(
            "Away from the data σ of Fourier features, over the exact one, falls with observations",
            "; ".join(f"ℓ = {length:g}: {told(ratios[length])}" for length in lengths),
            all(all(np.diff(path) < 0) for path in ratios.values()),
        ),
        Claim(
            "With about as many length-scales observed as features, it falls below 0.7",
            f"ℓ = {short:g}: {ratios[short][-1]:.3g}",
            ratios[short][-1] < 0.7,
        ),
        Claim(
            "The variance starves beside the mean: errors grow from about one σ to many",
            f"ℓ = {long:g}: {told(errors)}",
            errors[-1] > 3.0 and errors[-1] > 1.5 * errors[0],
        ),
        Claim(
            "A TileGP in partitions does not starve: its mean σ, over the exact one, is near one",
            f"from {min(map(min, tiled)):.3g} to {max(map(max, tiled)):.3g}",
            min(map(min, tiled)) > 0.95,
        ),
        Claim(
            "and its errors are about one σ, with all observations",
            told(tiled_errors),
            max(tiled_errors) < 2.0,
        ),
        Claim(
            "Partitions help Fourier features too: more features than observations in a leaf",
            f"σ over the exact one {told(parted)}, without partitions "
            f"{told([ratios[length][-1] for length in lengths])}",
            all(p > ratios[length][-1] for p, length in zip(parted, lengths, strict=True)),
        ),
    ]


def _summary(rows: Rows) -> dict[str, Any]:
    """Means over the seeds; of errors the median, which one bad extrapolation does not carry."""
    first = {name: rows[0][name] for name in ("length_scale", "model", "observations")}
    return first | {
        "ratio": float(np.mean([row["ratio"] for row in rows])),
        "least": float(np.min([row["least"] for row in rows])),
        "error": float(np.median([row["error"] for row in rows])),
    }


def _rounded(values: Floats) -> list[float]:
    return [round(float(value), 4) for value in values]
