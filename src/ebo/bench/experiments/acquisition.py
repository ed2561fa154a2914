"""`ebo bench acquisition`: block optimisation on the full GP beside methods of one component each.

The appendix's "Verifying the acquisition function". Functions are drawn from an additive GP with
Laplace kernels (`problems/additive.py`), and all methods know the prior: groups, length-scale and
variance. They begin with the same random points and then evaluate one point an iteration. BlockOpt
also knows the maximum f*, as in the paper; the others have no way of using it. It must be known:
with a guess of f* instead, BlockOpt falls behind the others. These are given a remedy for points
that they would evaluate again and again (`baselines/components.py`), without which they do worse.

============  ==================================================================================
figure        meaning
============  ==================================================================================
regret        f* - best value observed so far
`over`        Σ_m σ_m² over σ², at uniform points, given what BlockOpt has observed: above one,
              the components inferred each by itself seem less known than they are together
============  ==================================================================================

The paper repeats an experiment of Wang and Jegelka (2017); it prints no numbers of it, neither
dimensions nor kernel. What is chosen here is 10 to 20 dimensions in small groups, in which some
hundred evaluations can learn something.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ebo.arrays import Floats
from ebo.bench import baselines
from ebo.bench.baselines.additive import NOISE
from ebo.bench.baselines.additive_gp import AdditiveGP
from ebo.bench.compare_figure import COLOURS, plain
from ebo.bench.experiments.base import Claim, Notes, Result, Rows
from ebo.problems.additive import Additive

OURS = "block-opt"
RIVALS = ("add-gp-ucb", "add-mes-r", "add-mes-g")
METHODS = (OURS, *RIVALS, "random")
LABELS = {
    OURS: "BlockOpt",
    "add-gp-ucb": "Add-GP-UCB",
    "add-mes-r": "Add-MES-R",
    "add-mes-g": "Add-MES-G",
    "random": "random search",
}
PROBES = 500  # uniform points at which variances are compared


@dataclass(frozen=True)
class Scale:
    """Functions (a seed each) and evaluations; `points` make a function, see its module."""

    seeds: int
    dims: int
    largest_group: int
    initial: int
    iterations: int
    points: int = 2_000


SCALES = {
    "smoke": Scale(seeds=1, dims=4, largest_group=2, initial=5, iterations=10, points=200),
    "small": Scale(seeds=10, dims=10, largest_group=2, initial=10, iterations=150),
    "paper": Scale(seeds=20, dims=20, largest_group=3, initial=10, iterations=500),
}


def run(scale: Scale, seeds: int, notes: Notes) -> Result:
    """Every method on every function."""
    runs: dict[str, list[dict[str, Any]]] = {method: [] for method in METHODS}
    sizes = {"D": scale.dims, "group": scale.largest_group, "points": scale.points}
    lengths = {"initial": scale.initial, "iterations": scale.iterations}
    for seed in range(seeds):
        drawn: list[Additive] = []  # made once, and only where something is left to do
        for method in METHODS:
            key = {"function": seed, "method": method, **sizes, **lengths}
            runs[method].append(notes.part(key, partial(_once, scale, method, seed, drawn)))
    return {
        **sizes,
        **lengths,
        "functions": seeds,
        "regret": {method: [one["regret"] for one in runs[method]] for method in METHODS},
        "over": [one["over"] for one in runs[OURS]],
    }


def _once(scale: Scale, method: str, seed: int, drawn: list[Additive]) -> dict[str, Any]:
    if not drawn:
        drawn.append(function(scale, seed))
    return optimise(drawn[0], method, seed, scale.initial, scale.iterations)


def function(scale: Scale, seed: int) -> Additive:
    """A draw from the prior, groups and all."""
    rng = np.random.default_rng([seed, scale.dims])
    return Additive(
        f"add{scale.dims}",
        scale.dims,
        rng,
        largest_group=scale.largest_group,
        points=scale.points,
    )


def optimise(
    problem: Additive, method: str, seed: int, initial: int, iterations: int
) -> dict[str, Any]:
    """The regret before the first iteration and after each, and `over` at the end."""
    prior: dict[str, Any] = {}
    if method in (OURS, *RIVALS):
        groups = [group.tolist() for group in problem.groups]
        prior = {
            "groups": groups,
            "length_scale": problem.length_scale,
            "variance": float(len(groups)),
        }
    bound = problem.upper_bound
    optimizer = baselines.get(method)(problem.space, seed=seed, upper_bound=bound, **prior)
    X = np.random.default_rng([seed, 1]).random((initial, problem.dims))
    optimizer.tell(X, problem(X))
    regret, points = [bound - optimizer.best()[1]], [X]
    for _ in range(iterations):
        X = optimizer.ask(1)
        optimizer.tell(X, problem(X))
        regret.append(bound - optimizer.best()[1])
        points.append(X)
    over = overestimate(problem, np.concatenate(points), seed) if method == OURS else None
    return {"regret": regret, "over": over}


def overestimate(problem: Additive, X: Floats, seed: int) -> float:
    """Σ_m σ_m² over σ², averages over uniform points, given observations at X."""
    rates = np.full(problem.dims, 1.0 / problem.length_scale)
    gp = AdditiveGP(X, np.zeros(len(X)), problem.z, rates, NOISE, variance=1.0)
    P = np.random.default_rng([seed, 2]).random((PROBES, problem.dims))
    parts = sum(float(np.mean(gp.part_moments(m, P)[1] ** 2)) for m in range(len(gp.groups)))
    return parts / float(np.mean(gp.predict(P)[1] ** 2))


def tables(result: Result) -> dict[str, Rows]:
    """Mean regret on the way, its deviation at the end, and on how many functions one is best."""
    last = result["iterations"]
    ends = {method: np.array(runs)[:, -1] for method, runs in result["regret"].items()}
    least = np.min(list(ends.values()), axis=0)
    rows = [
        {
            "method": LABELS[method],
            **{
                f"after {at}": float(np.mean([run[at] for run in runs]))
                for at in sorted({0, last // 4, last // 2, last})
            },
            "deviation": float(ends[method].std()),
            "best on": int(np.sum(ends[method] <= least)),
        }
        for method, runs in result["regret"].items()
    ]
    title = (
        f"Regret, mean of {result['functions']} functions of {result['D']} dimensions in groups of "
        f"1 to {result['group']}"
    )
    return {title: rows}


def figures(result: Result, folder: Path) -> list[Path]:
    """Mean regret against iterations, with bands of a standard error."""
    drawing = Figure(figsize=(8, 5), dpi=120, layout="constrained")
    axes = drawing.add_subplot()
    iterations = np.arange(result["iterations"] + 1)
    count = result["functions"]
    ends = {method: float(np.mean(runs, axis=0)[-1]) for method, runs in result["regret"].items()}
    colours = dict(zip(METHODS, (*COLOURS[: len(METHODS) - 1], "#999999"), strict=True))
    for method in sorted(ends, key=lambda name: -ends[name]):  # in the order of the lines' ends
        runs, colour = np.array(result["regret"][method]), colours[method]
        mean, error = runs.mean(axis=0), runs.std(axis=0) / np.sqrt(len(runs))
        label = f"{LABELS[method]}  {ends[method]:.3g}"
        axes.plot(iterations, mean, color=colour, label=label, linewidth=1.8)
        axes.fill_between(iterations, mean - error, mean + error, color=colour, alpha=0.15, lw=0)
    axes.set_xlim(0, result["iterations"])
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"evaluations after {result['initial']} random ones")
    axes.set_ylabel("regret")
    axes.set_title(
        f"Additive functions of {result['D']} dimensions: "
        + (f"mean of {count} and its standard error" if count > 1 else "one of them")
    )
    plain(axes)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    file = folder / "acquisition.png"
    drawing.savefig(file)
    return [file]


def claims(result: Result) -> list[Claim]:
    """BlockOpt beside the best of the three; variances of components."""
    ends = {method: np.array(runs)[:, -1] for method, runs in result["regret"].items()}
    rival = min(RIVALS, key=lambda method: float(ends[method].mean()))
    behind = ends[OURS] - ends[rival]  # function by function
    error = float(behind.std() / np.sqrt(len(behind)))
    over = np.array(result["over"])
    return [
        Claim(
            "BlockOpt as good as the best of Add-GP-UCB, Add-MES-R and Add-MES-G, or better",
            f"mean regret {ends[OURS].mean():.3g}, {LABELS[rival]} {ends[rival].mean():.3g}, "
            f"difference {behind.mean():+.2g} ± {error:.2g}; lower on {int(np.sum(behind < 0))} "
            f"of {len(behind)} functions",
            bool(behind.mean() <= error),  # as good as: not behind by more than chance
        ),
        Claim(
            "Components inferred each by itself have too much variance",
            f"the sum is {over.mean():.3g} times the variance of f, at least {over.min():.3g}",
            bool(over.min() > 1.0),
        ),
    ]
