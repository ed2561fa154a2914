"""One z out of many: what leaves, or the sweeps of a chain, agree on (Alg. 1, line 13).

Two dimensions belong together if most samples put them into one group. This is correlation
clustering of the frequencies P: it maximises the sum of P_ij - 1/2 over the pairs put together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ebo.arrays import Floats, Ints
from ebo.tilegp.gibbs import canonical


def co_membership(z: ArrayLike) -> Floats:
    """How often, (D, D), two dimensions share a group in samples z (S, D)."""
    samples = np.atleast_2d(np.asarray(z))
    if len(samples) == 0:
        raise ValueError("no samples of z; give at least one")
    together = np.zeros((samples.shape[1], samples.shape[1]))
    for row in samples:
        together += row[:, None] == row[None, :]
    return together / len(samples)


def combine_groups(frequency: Floats, group_limit: int | None = None) -> Ints:
    """Groups (D,) by correlation clustering of co-membership frequencies (D, D).

    It starts with all dimensions apart, and moves one dimension at a time to where it gains most,
    in their order, until none gains anything. The result is a local optimum; nothing is random.
    """
    dims = len(frequency)
    limit = group_limit or dims
    affinity = frequency - 0.5
    np.fill_diagonal(affinity, 0.0)
    z = np.arange(dims)
    moved = True
    while moved:
        moved = False
        for d in range(dims):
            gain = np.bincount(z, weights=affinity[d], minlength=dims)
            size = np.bincount(z, minlength=dims)
            size[z[d]] -= 1
            gain[size >= limit] = -np.inf
            best = int(gain.argmax())
            if gain[best] > gain[z[d]] + 1e-12:
                z[d] = best
                moved = True
    return canonical(z)


def combine_cuts(densities: Floats) -> Floats:
    """Cuts of the whole range (D,): the rounded mean of the densities of the leaves (J, D).

    A density is a leaf's number of cuts over its width. So wide and narrow leaves can be compared.
    """
    if len(densities) == 0:
        raise ValueError("no cuts to combine; give those of at least one leaf")
    mean: Floats = np.rint(np.mean(densities, axis=0))
    return mean


def rand_index(z: ArrayLike, truth: ArrayLike) -> float:
    """Share of pairs of dimensions on which two groupings agree."""
    together = [
        np.equal.outer(a, a)[np.triu_indices(len(a), 1)] for a in map(np.asarray, (z, truth))
    ]
    return float(np.mean(together[0] == together[1])) if together[0].size else 1.0


def adjusted_rand_index(z: ArrayLike, truth: ArrayLike) -> float:
    """Rand index, scaled so that random groupings have 0 on average, and equal ones have 1."""
    a, b = canonical(z), canonical(truth)
    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), 1.0)

    def pairs(counts: Floats) -> float:
        return float(np.sum(counts * (counts - 1.0)) / 2.0)

    both, in_a, in_b = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    expected = in_a * in_b / max(1.0, len(a) * (len(a) - 1) / 2)
    most = (in_a + in_b) / 2.0
    return 1.0 if most == expected else (both - expected) / (most - expected)
