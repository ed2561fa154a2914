"""Experiments that are comparisons on one problem: what `push` and `rover` have in common."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ebo.bench import compare
from ebo.bench.compare_figure import write_figures
from ebo.bench.experiments.base import Claim, Notes, Result, Rows
from ebo.bench.show import as_text


@dataclass(frozen=True)
class Race:
    """Methods on a problem: so many first points, batches after them, and seeds."""

    problem: str
    methods: tuple[str, ...]
    seeds: int
    initial: int
    batches: int
    batch_size: int


def run(scale: Race, seeds: int, notes: Notes) -> Result:
    """The comparison of one problem."""
    plan = compare.Plan(
        problems=(scale.problem,),
        methods=scale.methods,
        seeds=seeds,
        initial=scale.initial,
        batches=scale.batches,
        batch_size=scale.batch_size,
    )
    return compared(plan, notes)


def compared(plan: compare.Plan, notes: Notes) -> Result:
    """A comparison, as `ebo bench compare` does it; runs side by side on all cores."""
    tasks, done = len(plan.tasks()), 0

    def advance(batches: int, text: str) -> None:
        nonlocal done
        done += batches
        notes.say(f"{done / (tasks * plan.batches):.0%}; {text}")

    return compare.run(plan, notes.folder, advance, jobs=min(os.cpu_count() or 1, tasks))


def tables(result: Result) -> dict[str, Rows]:
    """Best values at shares of the batches, the median and deviation at the end, and seconds."""
    (name, problem), *_ = result["problems"].items()
    seeds = "one seed" if result["seeds"] == 1 else f"mean of {result['seeds']} seeds"
    title = (
        f"{name}: best value, {seeds}; {problem['initial']:,} random points, then "
        f"{result['batches']} batches of {result['batch_size']}; upper bound "
        f"{as_text(problem['maximum'])}"
    )
    rows = []
    for method, row in problem["methods"].items():
        ends = list(row["seeds"].values())
        rows.append(
            {
                "method": method,
                **{f"{share} %": value for share, value in row["best"].items()},
                "median": float(np.median(ends)) if ends else None,
                "highest": max(ends, default=None),
                "deviation": float(np.std(ends)) if len(ends) > 1 else None,
                "s a batch": row["seconds_a_batch"],
            }
        )
    return {title: sorted(rows, key=lambda row: -(row["100 %"] or -np.inf))}


def figures(result: Result, folder: Path) -> list[Path]:
    """The best value against batches."""
    return write_figures(result, folder)


def claims(result: Result, paper_preset: str) -> list[Claim]:
    """The paper's preset before the sparse GPs, as in the paper; the default before all.

    CMA-ES learns from every generation of a batch before it goes on, so that it stands by itself;
    as one would run it on as many machines as a batch has points, it is `cma-batch`.
    """
    median, mean = (_at_the_end(result, of) for of in (np.median, np.mean))
    against = {
        "all others that learn batch by batch": [n for n in mean if n not in ("ebo", "cma")],
        "cma, told by generations": [n for n in mean if n == "cma"],
    }
    return [
        *(
            _claim(f"{paper_preset} above {name} (median)", median, paper_preset, [name])
            for name in ("bo-svi", "bo-add-svi")
            if name in median
        ),
        *(
            _claim(f"the default preset above {words} (mean)", mean, "ebo", others)
            for words, others in against.items()
            if others
        ),
    ]


def comparable(result: Result, one: str, other: str) -> Claim:
    """That the median of one is nine tenths of the other's, or more."""
    text = f"{one} comparable with {other}, or better (nine tenths of its median)"
    median = _at_the_end(result, np.median)
    if one not in median or other not in median:
        return Claim(text, "failed", False)
    found = f"{one} {median[one]:.4g}, {other} {median[other]:.4g}"
    return Claim(text, found, median[one] >= 0.9 * median[other])


def _at_the_end(result: Result, of: Callable[..., Any]) -> dict[str, float]:
    """By method, over the seeds; without those that failed."""
    (problem,) = result["problems"].values()
    ends = {name: list(row["seeds"].values()) for name, row in problem["methods"].items()}
    return {name: float(of(values)) for name, values in ends.items() if values}


def _claim(text: str, values: dict[str, float], one: str, others: list[str]) -> Claim:
    """That one has a higher value than all others."""
    known: dict[str, Any] = {name: values[name] for name in (one, *others) if name in values}
    found = ", ".join(f"{name} {value:.4g}" for name, value in known.items())
    if one not in values or any(name not in values for name in others):
        return Claim(text, f"{found} (others failed)", False)
    return Claim(text, found, all(values[one] > values[other] for other in others))
