"""`ebo bench effectiveness`: additive functions of 50 dimensions, regret against batches and time.

As in the paper the structure is known to all but BO-SVI, whose kernel has none: groups, and the
length-scale of the Laplace kernel. So nothing is learned but the function, and what differs is how
many observations are dealt with: by 200 inducing points (SVI), in one fixed partition (PBO), or in
a new one every iteration (EBO).

The paper gives 4 functions; 200 inducing points and 100 steps an iteration for the sparse GPs; the
same 1,000 leaves in all iterations for PBO; S = 100 and at most 1,000 leaves for EBO, S being the
cap that Alg. 3 makes of it. It does not give first points, batches and their size. At the scale
`paper` they are those of its push experiment: 10,000 random points, then 200 batches of 100. So an
average leaf of PBO holds 10 points at first and 30 in the end.

`small` has a fifth of the points, first and later, and of PBO's leaves, which hold as many then. S
and the inducing points stay: they are what a model can know. A tenth would not do: on the function
tried, with 100 leaves, PBO was just level with BO-Add-SVI then. Batches are of 200, since those of
100, twice as many, would take more than ten minutes. docs/research.md has other sizes.

Two more lines are ours. `PBO, large leaves` cuts its fixed partition as EBO cuts its first, into
leaves of at most 100 points, which then fill up, where those of EBO are cut again. `EBO, learning`
is the default preset, which is told nothing and finds the structure by itself.

Regret is the maximum, which is known, less the best value found; means are over functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ebo import problems
from ebo.bench import baselines
from ebo.bench.compare import one_batch
from ebo.bench.compare_figure import COLOURS, plain
from ebo.bench.experiments.base import Claim, Notes, Result, Rows
from ebo.learning import Structure
from ebo.optimizer import Optimizer, State
from ebo.problems.additive import LENGTH_SCALE, Additive
from ebo.settings import Settings

SVI_STEPS = 100  # of either sparse GP an iteration, as in the paper
NOISE = 1e-3  # of the models, in parts of the values' variance: the functions have none


@dataclass(frozen=True)
class Scale:
    """Functions (`seeds`), their dimensions, first points and batches; leaves of PBO."""

    seeds: int
    dims: int
    initial: int
    batches: int
    batch_size: int
    leaves: int


SCALES = {
    "smoke": Scale(1, 6, 100, 2, 10, 10),
    "small": Scale(4, 50, 2_000, 20, 200, 200),
    "paper": Scale(4, 50, 10_000, 200, 100, 1_000),
}


Make = Callable[[Additive, int, Scale], Any]  # a method for a problem


def ebo(problem: Additive, seed: int, **changes: Any) -> Optimizer:
    """The paper's EBO with the structure of the problem."""
    settings = Settings.paper().changed(kernel="laplace", sweeps=0, noise=NOISE, **changes)
    dims = problem.dims
    structure = Structure(problem.z, np.full(dims, 1.0 / LENGTH_SCALE), NOISE, np.eye(dims))
    optimizer = Optimizer(
        problem.space, seed=seed, upper_bound=problem.upper_bound, settings=settings
    )
    optimizer.restore(State(structure=structure))
    return optimizer


def pbo(problem: Additive, seed: int, leaves: int) -> Optimizer:
    """The same with one partition for all iterations, of so many leaves."""
    return ebo(problem, seed, fixed=True, leaf_size=1, max_leaves=leaves)


def _named(name: str, known: Callable[[Additive], dict[str, Any]]) -> Make:
    """A method by its name, and what it is told of the problem."""

    def make(problem: Additive, seed: int, scale: Scale) -> Any:
        factory, bound = baselines.get(name), problem.upper_bound
        return factory(problem.space, seed=seed, upper_bound=bound, **known(problem))

    return make


METHODS: dict[str, Make] = {
    "BO-SVI": _named("bo-svi", lambda problem: {"iterations": SVI_STEPS}),
    "BO-Add-SVI": _named(
        "bo-add-svi",
        lambda problem: {
            "iterations": SVI_STEPS,
            "groups": problem.z,
            "length_scale": LENGTH_SCALE,
        },
    ),
    "PBO": lambda problem, seed, scale: pbo(problem, seed, scale.leaves),
    "PBO, large leaves": lambda problem, seed, scale: ebo(problem, seed, fixed=True),
    "EBO": lambda problem, seed, scale: ebo(problem, seed),
    "EBO, learning": _named("ebo", lambda problem: {}),
}


def run(scale: Scale, seeds: int, notes: Notes) -> Result:
    """All methods on all functions."""
    sizes = {name: value for name, value in vars(scale).items() if name != "seeds"}
    runs: dict[str, list[Result]] = {name: [] for name in METHODS}
    for seed in range(seeds):
        for name in METHODS:
            key = {"method": name, "function": seed, **sizes}
            runs[name].append(notes.part(key, partial(raced, name, scale, seed)))
    return {"runs": runs, "initial": scale.initial, "batch_size": scale.batch_size}


@lru_cache(maxsize=1)  # it takes seconds
def _function(dims: int, seed: int) -> Additive:
    return cast(Additive, problems.get(f"add{dims}", seed=seed))


def raced(name: str, scale: Scale, seed: int) -> Result:
    """Regret after the first points and after every batch, and the seconds of every batch."""
    problem = _function(scale.dims, seed)
    method = METHODS[name](problem, seed, scale)
    X = np.random.default_rng([seed, 1]).random((scale.initial, problem.dims))
    method.tell(X, problem(X))
    regret, seconds = [problem.maximum - method.best()[1]], []
    for _ in range(scale.batches):
        seconds.append(one_batch(method, problem, scale.batch_size))
        regret.append(problem.maximum - method.best()[1])
    return {"regret": regret, "seconds": seconds}


def _means(result: Result, key: str) -> dict[str, Any]:
    """By method, the mean over functions of a list."""
    return {
        name: np.mean([run[key] for run in runs], axis=0) for name, runs in result["runs"].items()
    }


def tables(result: Result) -> dict[str, Rows]:
    """Regret on the way and at the end, of every function at the end, and seconds."""
    seconds = _means(result, "seconds")
    rows = []
    for name, regret in _means(result, "regret").items():
        last = len(regret) - 1
        rows.append(
            {
                "method": name,
                "at first": float(regret[0]),
                **{f"{share} %": float(regret[last * share // 100]) for share in (25, 50, 100)},
                "each function": ", ".join(
                    f"{run['regret'][-1]:.3g}" for run in result["runs"][name]
                ),
                "seconds a batch": float(seconds[name].mean()),
            }
        )
    functions = len(result["runs"]["EBO"])
    title = (
        f"Regret, {'one function' if functions == 1 else f'mean of {functions} functions'}; "
        f"{result['initial']:,} random points, then {last} batches of {result['batch_size']}"
    )
    return {title: rows}


def figures(result: Result, folder: Path) -> list[Path]:
    """Mean regret against batches, and against the methods' own seconds."""
    drawing = Figure(figsize=(11, 4.5), dpi=120, layout="constrained")
    by_batch, by_time = drawing.subplots(1, 2, sharey=True)
    seconds = _means(result, "seconds")
    for (name, regret), colour in zip(_means(result, "regret").items(), COLOURS, strict=False):
        style = "--" if "," in name else "-"  # not in the paper
        by_batch.plot(regret, style, color=colour, label=name, linewidth=1.8)
        by_time.plot(np.cumsum(seconds[name]), regret[1:], style, color=colour, linewidth=1.8)
    by_batch.set_xlabel(f"batches of {result['batch_size']}")
    by_batch.xaxis.set_major_locator(MaxNLocator(integer=True))
    by_time.set_xlabel("seconds of the method, evaluations not counted")
    by_time.set_xscale("log")
    by_batch.set_ylabel("regret, mean over functions")
    for axes in (by_batch, by_time):
        plain(axes)
    by_batch.legend(frameon=False)
    file = folder / "effectiveness.png"
    drawing.savefig(file)
    return [file]


def claims(result: Result) -> list[Claim]:
    """EBO below PBO below the sparse GPs, the additive one of which is below the other.

    Of PBO beside BO-Add-SVI the paper's words say nothing; the others of these they do say.
    """
    ends = {name: float(regret[-1]) for name, regret in _means(result, "regret").items()}
    order = ("EBO", "PBO"), ("PBO", "BO-Add-SVI"), ("PBO", "BO-SVI"), ("BO-Add-SVI", "BO-SVI")
    return [
        Claim(
            f"{low} ends with less regret than {high}",
            f"{ends[low]:.3g} and {ends[high]:.3g}",
            ends[low] < ends[high],
        )
        for low, high in order
    ]
