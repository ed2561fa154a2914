"""`ebo bench ablation`: what each mechanism of the default preset is worth.

Each is switched off in turn, all else equal. Not among them is what cannot be switched off by
itself: without pooled learning there is no smooth part either, and one leaf for all observations
would take too long; leaves of another size are in `robustness`. Nothing was ever chosen on the two
functions of the BBOB suite. The scale small only shows that all work: three batches are too few to
tell what a mechanism is worth.
"""

from __future__ import annotations

from ebo.bench.experiments.base import Claim, Result, Rows
from ebo.bench.experiments.changes import Scale, run, table
from ebo.bench.experiments.race import figures

__all__ = ["SCALES", "claims", "figures", "run", "tables"]

SMOOTH = {"the smooth part of the kernel": "ebo+mixture=None"}
CHANGES = {
    **SMOOTH,
    "groups of dimensions": "ebo+group_limit=1",
    "probes": "ebo+probes=None",
    "candidates one after the other": "ebo+search=printed+tries=40+passes=2",
    "blocks of other observations": "ebo+crossover.share=0.0",
    "starts apart": "ebo+apart=0.0",
    "leaps": "ebo+difference.share=0.0",
    "polish": "ebo+polish=None",
    "leaves paid by rank": "ebo+budget.by=volume",
    "the filter": "ebo+candidates=1.0",
    "the second pass": "ebo+passes=1",
}
PROBLEMS = ("rover60", "push14", "add50")
UNSEEN = ("bbob15-40", "bbob20-40")
SCALES = {
    "smoke": Scale(("add10", "hartmann6"), SMOOTH, 1, 40, 2, 20),
    "small": Scale(PROBLEMS, CHANGES, 1, 1_000, 3, 100),
    "paper": Scale((*PROBLEMS, *UNSEEN), CHANGES, 5, None, 40, 100),
}


def tables(result: Result) -> dict[str, Rows]:
    """What is switched off, and what becomes of the best value without it."""
    return table(result, "switched off", CHANGES)


def claims(result: Result) -> list[Claim]:
    """None: that a mechanism should help on every problem is not said anywhere."""
    return []
