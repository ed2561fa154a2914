"""Experiments that change settings of the default preset: `ablation` and `robustness`.

Every change is by itself, all else equal: the same functions, first points, noise and seeds. So a
difference is the mean over the seeds that both came to an end with. It is set beside the deviation
of the default over its seeds (that of a sample), which says what luck alone is worth. On problems
that are another function for every seed, such as add50, that is also the deviation of functions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebo.bench import compare
from ebo.bench.experiments.base import Notes, Result, Rows
from ebo.bench.experiments.race import compared

DEFAULT = "ebo"
Changes = dict[str, str]  # by words, the method's name


@dataclass(frozen=True)
class Scale:
    """Changes of the default on problems: so many first points, batches after them, and seeds."""

    problems: tuple[str, ...]
    changes: Changes
    seeds: int
    initial: int | None  # None for 2,000 on a rover, else 1,000
    batches: int
    batch_size: int


def run(scale: Scale, seeds: int, notes: Notes) -> Result:
    """The default and its changes on the problems."""
    plan = compare.Plan(
        problems=scale.problems,
        methods=(DEFAULT, *scale.changes.values()),
        seeds=seeds,
        initial=scale.initial,
        batches=scale.batches,
        batch_size=scale.batch_size,
    )
    return compared(plan, notes)


def table(result: Result, head: str, changes: Changes) -> dict[str, Rows]:
    """A row for the default, with its deviations, and one for every change that was run."""
    problems, seeds = result["problems"], result["seeds"]
    initial = " or ".join(f"{n:,}" for n in sorted({p["initial"] for p in problems.values()}))
    title = (
        f"Best value, {'one seed' if seeds == 1 else f'mean of {seeds} seeds'}; {initial} random "
        f"points, then {result['batches']} batches of {result['batch_size']}; and the difference "
        f"from the default"
    )
    if seeds > 1:
        title += ", in brackets in deviations of the default over its seeds, ± in the first row"
    words = {DEFAULT: "nothing", **{method: text for text, method in changes.items()}}
    rows = []
    for method in next(iter(problems.values()))["methods"]:
        row: dict[str, Any] = {head: words[method]}
        for name, problem in problems.items():
            row[name] = problem["methods"][method]["best"]["100"]
            row[f"{name}: difference"] = _worth(problem, method)
        rows.append(row)
    return {title: rows}


def _worth(problem: dict[str, Any], method: str) -> str | None:
    """The difference from the default in words; of the default itself its deviation."""
    spread = deviation(problem)
    if method == DEFAULT:
        return None if spread is None else f"± {spread:.3g}"
    off = difference(problem, method)
    if off is None or spread is None:
        return None if off is None else f"{off:+.3g}"
    return f"{off:+.3g} ({in_deviations(off, spread):+.2g})"


def difference(problem: dict[str, Any], method: str) -> float | None:
    """How much more a method has than the default at the end; None where no seed has both."""
    ends, usual = (problem["methods"][name]["seeds"] for name in (method, DEFAULT))
    both = [ends[seed] - usual[seed] for seed in ends if seed in usual]
    return float(np.mean(both)) if both else None


def deviation(problem: dict[str, Any]) -> float | None:
    """That of the default over its seeds; None for fewer than two."""
    ends = list(problem["methods"][DEFAULT]["seeds"].values())
    return float(np.std(ends, ddof=1)) if len(ends) > 1 else None


def in_deviations(off: float, spread: float) -> float:
    """A difference in deviations; where all seeds end alike, anything but 0 is infinitely many."""
    if spread > 0.0:
        return off / spread
    return math.copysign(math.inf, off) if off else 0.0
