"""`ebo bench robustness`: whether the numbers of the default preset have to be just as they are.

Each is halved and doubled in turn, all else equal; what would be below 1, the least of all of them,
is left out: half a sweep. `max_leaves` is there for completeness: it is a cap that is not reached
at these sizes. There are no layers to change, as the default's kernel is the limit of infinitely
many. The scale small only shows that all work: one seed is no measure of luck.
"""

from __future__ import annotations

from collections.abc import Sequence

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

PAPERS = ("leaf_size", "max_leaves", "candidates", "sweeps")  # the paper has them, too
NUMBERS = (*PAPERS, "learn_from", "block_size", "step.count", "probes.per_dimension")


def halved_and_doubled(name: str) -> Changes:
    """A number of the default preset halved, where that is at least 1, and doubled."""
    (value,) = {v for path, v in Settings().flat().items() if path.endswith(f".{name}")}
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
    "paper": Scale(("rover60", "push14", "add50"), CHANGES, 5, None, 10, 100),
}


def tables(result: Result) -> dict[str, Rows]:
    """What is changed, and what becomes of the best value."""
    return table(result, "changed", CHANGES)


def claims(result: Result) -> list[Claim]:
    """That no change is worth more than luck; of one seed there is none to tell luck by."""
    if result["seeds"] < 2:
        return []
    (methods, *_) = [list(problem["methods"]) for problem in result["problems"].values()]
    papers = [method for method in methods if _changed(method) in PAPERS]
    own = [method for method in methods if method not in (DEFAULT, *papers)]
    return [_claim(result, changes) for changes in (papers, own) if changes]


def _claim(result: Result, changes: Sequence[str]) -> Claim:
    """Of some changes, which is farthest from the default."""
    numbers = dict.fromkeys(map(_changed, changes))
    text = f"within the seed-to-seed deviation of the default: changes of {', '.join(numbers)}"
    found = {}
    for name, problem in result["problems"].items():
        spread = deviation(problem)
        for method in (DEFAULT, *changes):
            off = difference(problem, method)
            if off is None or spread is None or problem["methods"][method]["failed"]:
                return Claim(text, f"{method} failed on {name}", False)
            found[f"{method} on {name}"] = in_deviations(off, spread)
    farthest = max(found, key=lambda what: abs(found[what]))
    return Claim(
        text,
        f"the farthest is {farthest}, {found[farthest]:+.2g} deviations",
        abs(found[farthest]) <= 1.0,
    )


def _changed(method: str) -> str:
    """The number that a method has changed; none for the default."""
    return method.partition("+")[2].partition("=")[0]
