"""Budget of the leaves, and the filter: many candidates -> one batch (Section 3.3, appendix).

=============  ===========  ====================================================================
name           shape        meaning
=============  ===========  ====================================================================
P              (C, D)       candidates, in the unit cube
`value`        (C,)         what each is worth by itself, -η in the paper
`pending`      (Q, D)       points asked for and not told yet
B              scalar       batch size
=============  ===========  ====================================================================
"""

from __future__ import annotations

import numpy as np

from ebo.arrays import Floats, Ints
from ebo.tilegp.kernel import Limit, LimitRows, members

SMALLEST = np.finfo(np.float64).tiny
LEAST_SHARE = 0.04  # of all candidates
LEAST_VARIANCE = 1e-6  # of a candidate, whatever rounding says
# Noise of the points chosen: without, rounding errors would grow from one to the next.
JITTER = 1e-4


def budget(volume: Floats, best: Floats, total: int) -> Ints:
    """How many candidates each leaf proposes by volume + best value: one, and `total`, at least.

    Both are shares of the whole, so that neither drowns the other: in many dimensions volumes are
    tiny numbers. A leaf without observations, best = -inf, is paid for its volume alone.
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
    """The same by rank: the r-th best leaf is paid 1/r, and none that would get hardly anything.

    A leaf's model costs the same for one candidate as for many.
    """
    rank = np.empty(len(best))
    rank[np.argsort(-best, kind="stable")] = np.arange(1, len(best) + 1)
    share = 1.0 / rank
    return apportion(np.where(share >= LEAST_SHARE * share.sum(), share, 0.0), total)


def apportion(share: Floats, total: int) -> Ints:
    """Whole numbers in proportion to the shares, which sum to the total (largest remainders)."""
    if share.sum() <= 0:
        share = np.ones(len(share))
    exact = share / share.sum() * total
    counts: Ints = np.floor(exact).astype(np.int64)
    rest = total - int(counts.sum())
    order = np.argsort(counts - exact, kind="stable")
    counts[order[:rest]] += 1
    return counts


def select(
    P: Floats,
    value: Floats,
    batch_size: int,
    kernel: Limit,
    z: Ints,
    cuts: Floats,
    pending: Floats,
) -> Ints:
    """Rows of the batch that greedily maximises ξ(X) = log det K_X + Σ value, pending points in K.

    The gain of a candidate is log of its variance given the points chosen so far, plus its value.
    A point chosen costs one row of a Cholesky factor over all candidates: O(C (B + D)) each.
    """
    points = np.concatenate([pending, P])
    taken = len(pending)
    groups = members(z)
    total = min(taken + batch_size, len(points))
    kernel_row = LimitRows(kernel, cuts, points.T)
    rows = np.empty((total, len(points)), dtype=np.float32)
    variance = np.ones(len(points))
    score = np.concatenate([np.zeros(taken), np.maximum(value, -1e300)])  # above what is taken
    free = np.ones(len(points), dtype=np.bool_)
    free[:taken] = False
    chosen = []
    for b in range(total):
        gain = np.where(free, np.log(variance) + score, -np.inf)
        i = b if b < taken else int(gain.argmax())
        kappa = kernel_row(points[i : i + 1], groups, 1.0 / len(groups), len(points))[0]
        rows[b] = (kappa - rows[:b, i] @ rows[:b]) / np.sqrt(variance[i] + JITTER)
        variance = np.maximum(variance - rows[b] ** 2, LEAST_VARIANCE)
        free[i] = False
        if b >= taken:
            chosen.append(i - taken)
    return np.array(chosen, dtype=np.int64)
