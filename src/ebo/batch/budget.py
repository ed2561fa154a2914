"""The budget: how many candidates each leaf proposes (appendix)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ebo.arrays import Floats, Ints
from ebo.checks import check_choice, check_number
from ebo.partition import Leaf

SMALLEST = np.finfo(np.float64).tiny
# A leaf with a smaller share of all candidates gets none: its model would take as long for one
# candidate as for many. By rank there are then at most eight leaves.
LEAST_SHARE = 0.04


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How many candidates there are, and which leaves propose them.

    candidates: the number of candidates of all leaves together, over the batch size. With more,
        the filter has more to choose from, and the search takes longer in proportion.
    by: "rank" pays leaves by the rank of their best value, so that few leaves get most of the
        candidates. "volume" pays them by their volume and their best value, as in the appendix.
    """

    candidates: float = 2.0
    by: str = "rank"

    def __post_init__(self) -> None:
        check_number("candidates", self.candidates, 1.0, 1000.0)
        check_choice("by", self.by, ("rank", "volume"))

    def pay(self, leaves: Sequence[Leaf], u: Floats, n: int) -> Ints:
        """How many candidates (J,) each leaf proposes for a batch of n, given the values u."""
        total = int(np.ceil(self.candidates * n))
        best = np.array([u[leaf.rows].max(initial=-np.inf) for leaf in leaves])
        if self.by == "rank":
            return budget_by_rank(best, total)
        volume = np.array([np.prod(leaf.upper - leaf.lower) for leaf in leaves])
        return budget_by_volume(volume, best, total)


def budget_by_volume(volume: Floats, best: Floats, total: int) -> Ints:
    """How many candidates each leaf proposes, by volume + best value.

    Each leaf proposes one at least, and all together `total` at least. Volume and value are shares
    that sum to one, so that neither drowns the other: in many dimensions volumes are tiny numbers.
    A leaf without observations, best = -inf, is paid for its volume alone.
    """
    known = np.isfinite(best)
    worth = np.zeros(len(best))
    if known.any():
        worth[known] = best[known] - best[known].min()
        if worth.sum() == 0:
            worth[known] = 1.0
        worth /= worth.sum()
    share = volume / max(float(volume.sum()), SMALLEST) + worth
    counts: Ints = np.maximum(apportion(share, total), 1)
    return counts


def budget_by_rank(best: Floats, total: int) -> Ints:
    """The same by rank: the r-th best leaf has a share of 1/r, a tiny share counts as none."""
    rank = np.empty(len(best))
    rank[np.argsort(-best, kind="stable")] = np.arange(1, len(best) + 1)
    share = 1.0 / rank
    return apportion(np.where(share >= LEAST_SHARE * share.sum(), share, 0.0), total)


def apportion(share: Floats, total: int) -> Ints:
    """Whole numbers in proportion to the shares that sum to the total, by largest remainders."""
    if share.sum() <= 0:
        share = np.ones(len(share))
    exact = share / share.sum() * total
    counts: Ints = np.floor(exact).astype(np.int64)
    rest = total - int(counts.sum())
    order = np.argsort(counts - exact, kind="stable")
    counts[order[:rest]] += 1
    return counts
