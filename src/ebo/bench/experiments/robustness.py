"""`ebo bench robustness`: whether the numbers of the default preset have to be just as they are.

Each is halved and doubled in turn, all else equal; what would be below 1, the least of all of them,
is left out: half a sweep. `max_leaves` is there for completeness: it is a cap that is not reached
at these sizes. There are no layers to change, as the default's kernel is the limit of infinitely
many. The scale small only shows that all work: one seed is no measure of luck.
"""

from __future__ import annotations

from ebo.bench.experiments.base import Claim, Result, Rows
from ebo.bench.experiments.changes import (
    DEFAULT,
    Changes,
    Scale,
    deviation,
    difference,
    in_deviations,
    run,
    table,
)
from ebo.bench.experiments.race import figures
from ebo.settings import Settings

__all__ = ["SCALES", "claims", "figures", "run", "tables"]

NUMBERS = (
    "leaf_size",
    "candidates",
    "sweeps",
    "learn_from",
    "block_size",
    "max_leaves",
    "block_samples",
    "probes",
)


def halved_and_doubled(name: str) -> Changes:
    """A number of the default preset halved, where that is at least 1, and doubled."""
    value = getattr(Settings(), name)
    half = value // 2 if isinstance(value, int) else value / 2
    return {
        f"{name} {other} for {value}": f"{DEFAULT}+{name}={other}"
        for other in (half, 2 * value)
        if other >= 1
    }


CHANGES = {words: method for name in NUMBERS for words, method in halved_and_doubled(name).items()}
HALF_A_LEAF = dict(list(CHANGES.items())[:1])
SCALES = {
    "smoke": Scale(("add10",), HALF_A_LEAF, 2, 40, 2, 20),
    "small": Scale(("push14", "add50"), CHANGES, 1, 1_000, 3, 100),
    "paper": Scale(("rover60", "push14", "add50"), CHANGES, 3, None, 10, 100),
}


def tables(result: Result) -> dict[str, Rows]:
    """What is changed, and what becomes of the best value."""
    return table(result, "changed", CHANGES)


def claims(result: Result) -> list[Claim]:
    """That no change is worth more than luck; of one seed there is none to tell luck by."""
    if result["seeds"] < 2:
        return []
    text = "every change stays within the seed-to-seed deviation of the default"
    found = {}
    for name, problem in result["problems"].items():
        spread = deviation(problem)
        for method, row in problem["methods"].items():
            off = difference(problem, method)
            if off is None or spread is None or row["failed"]:
                return [Claim(text, f"{method} failed on {name}", False)]
            if method != DEFAULT:
                found[f"{method} on {name}"] = in_deviations(off, spread)
    farthest = max(found, key=lambda what: abs(found[what]))
    return [
        Claim(
            text,
            f"the farthest is {farthest}, {found[farthest]:+.2g} deviations",
            abs(found[farthest]) <= 1.0,
        )
    ]
