"""The filter: many candidates become one batch that is good and diverse (Section 3.3).

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
from ebo.tilegp.kernel import Limit, members

LEAST_VARIANCE = 1e-6  # of a candidate, whatever rounding says
# Noise of the points chosen. Without it rounding errors would grow from one to the next.
JITTER = 1e-4


def select(
    P: Floats,
    value: Floats,
    batch_size: int,
    kernel: Limit,
    z: Ints,
    cuts: Floats,
    pending: Floats,
) -> Ints:
    """Rows of the batch that greedily maximises ξ(X) = log det K_X + Σ value.

    Pending points are in K from the start. The gain of a candidate is the log of its variance,
    given the points chosen so far, plus its value. Each point chosen takes one row of a Cholesky
    factor over all candidates: O(C (B + D)).
    """
    points = np.concatenate([pending, P])
    taken = len(pending)
    groups = members(z)
    total = min(taken + batch_size, len(points))
    kernel_row = kernel.rows(cuts, points.T)
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
