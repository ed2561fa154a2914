"""`ebo bench basics`: what the optimiser must at least do.

Illustration   the paper's two-dimensional function (`illustration.py`) in 10 batches of 20, leaves
               of at most 20 points: the simple regret, over the function's range, of the point
               that was observed best. Both presets; the median over 20 functions.
Problems       the default preset, which is not told any upper bound, against random and Sobol
               search with as many evaluations; 10 seeds each.

One seed gives the problem, the optimiser's draws and those of both baselines. The Sobol sequence
is the one that the optimiser begins with, so that its first batch is no advantage to either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebo import problems
from ebo.arrays import Floats
from ebo.bench.gibbs import timed
from ebo.bench.illustration import Illustration
from ebo.optimise import maximize
from ebo.problems import Problem
from ebo.result import Result
from ebo.settings import Settings
from ebo.study import Study

Say = Callable[[str], None]
Search = Callable[[Problem, int, int], Floats]

LEAF_SIZE, MAX_LEAVES = 20, 50  # of the illustration
PRESETS = {
    # For batches as large as these it doubles: leaves hold as many as those of the paper's preset.
    "default": Settings().changed(leaf_size=LEAF_SIZE, max_leaves=MAX_LEAVES, grows=False),
    "paper": Settings.paper().changed(leaf_size=LEAF_SIZE, max_leaves=MAX_LEAVES),
}


@dataclass(frozen=True)
class Case:
    """A problem, and how often it is evaluated."""

    name: str
    evaluations: int
    batch_size: int
    seeds: int


ILLUSTRATION = Case("illustration", 200, 20, seeds=20)
PROBLEMS = (
    Case("branin", 200, 10, seeds=10),
    Case("hartmann6", 200, 10, seeds=10),
    Case("levy20", 2_000, 100, seeds=10),
    Case("ackley50", 2_000, 100, seeds=10),
)


def run(
    seeds: int | None, say: Say, illustration: Case, cases: tuple[Case, ...]
) -> dict[str, dict[str, Any]]:
    """The illustration and all problems, with the figures of each seed.

    `seeds` takes the place of the cases' own numbers; `say` is told what goes on.
    """
    return {
        "illustration": illustrated(illustration, seeds or illustration.seeds, say),
        "problems": {case.name: compared(case, seeds or case.seeds, say) for case in cases},
    }


def illustrated(case: Case, seeds: int, say: Say) -> dict[str, Any]:
    """Simple regret over the range, by preset: the median and every seed's."""
    rows = []
    for seed in range(seeds):
        row: dict[str, float] = {"seed": seed}
        for name, settings in PRESETS.items():
            f = Illustration(seed)
            result = optimised(case, f, seed, settings, f"{case.name}, {name}", say)
            row[name] = f.regret(result.best_x)
        rows.append(row)
    return {
        "evaluations": case.evaluations,
        "batch_size": case.batch_size,
        "median_regret": {name: float(np.median([row[name] for row in rows])) for name in PRESETS},
        "seeds": rows,
    }


def compared(case: Case, seeds: int, say: Say) -> dict[str, Any]:
    """Mean best value of the optimiser, random and Sobol search, and in how many seeds it wins."""
    rows = []
    for seed in range(seeds):
        problem = problems.get(case.name, seed=seed)
        seconds, result = timed(optimised, case, problem, seed, None, case.name, say)
        others = {
            name: float(problem(points(problem, case.evaluations, seed)).max())
            for name, points in BASELINES.items()
        }
        rows.append(
            {
                "seed": seed,
                "maximum": problem.maximum,
                "ebo": result.best_value,
                **others,
                "seconds": seconds,
            }
        )
    averaged = "maximum", "ebo", *BASELINES, "seconds"
    return {
        "evaluations": case.evaluations,
        "batch_size": case.batch_size,
        **{key: float(np.mean([row[key] for row in rows])) for key in averaged},
        "better_than_both": sum(row["ebo"] > max(row[name] for name in BASELINES) for row in rows),
        "seeds": rows,
    }


def optimised(
    case: Case, problem: Problem, seed: int, settings: Settings | None, title: str, say: Say
) -> Result:
    """One run, of which the first batch is Sobol's."""

    def tell(study: Study) -> None:
        say(f"{title}, seed {seed}, {len(study):,} of {case.evaluations:,}")

    return maximize(
        problem,
        problem.space,
        batch_size=case.batch_size,
        iterations=case.evaluations // case.batch_size - 1,
        vectorized=True,
        seed=seed,
        settings=settings,
        callback=tell,
        progress=False,
    )


def random_points(problem: Problem, n: int, seed: int) -> Floats:
    """Uniform points (n, D) within the bounds."""
    rng = np.random.default_rng(seed)
    return rng.uniform(problem.lower, problem.upper, (n, problem.dims))


def sobol_points(problem: Problem, n: int, seed: int) -> Floats:
    """The first n points (n, D) of a scrambled Sobol sequence within the bounds."""
    from scipy.stats import qmc  # slow to import

    sobol = qmc.Sobol(problem.dims, seed=np.random.default_rng(seed))
    T: Floats = np.asarray(sobol.random_base2(max(1, (n - 1).bit_length())))[:n]
    points: Floats = problem.lower + (problem.upper - problem.lower) * T
    return points


BASELINES: dict[str, Search] = {"random": random_points, "sobol": sobol_points}
