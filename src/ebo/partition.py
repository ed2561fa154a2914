"""Random partition of the unit cube by a Mondrian process (Section 3.1, Alg. 3).

Leaves are cut, one at a time, until there are N_p of them or none holds more than S points. So
`leaf_size` S is the most points that a leaf has, unless `max_leaves` N_p is reached first. There is
no least number: a cut may leave any number of points on one side, even none.

=============  ============  ===================================================================
name           shape         meaning
=============  ============  ===================================================================
T              (n, D)        points in the unit cube
`max_leaves`   N_p           the most leaves
`leaf_size`    S             a leaf with at most so many points is not cut
`overlap`      ε             a leaf also sees the points within ε of its box
=============  ============  ===================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ebo.arrays import Floats, Ints
from ebo.checks import check_count, check_flag, check_number

NARROWEST = 1e-9  # a side of this length is not cut: points that agree to here cannot be parted


@dataclass(frozen=True)
class Leaf:
    """A box [lower, upper) of the unit cube, closed at 1, and the rows of T that it sees."""

    lower: Floats
    upper: Floats
    rows: Ints


Boxes = tuple[Floats, Floats]  # lower and upper bounds, each (J, D)


@dataclass(frozen=True, kw_only=True)
class Partition:
    """How the space is cut into leaves (Alg. 3).

    max_leaves: N_p, the most leaves.
    leaf_size: S, the most observations of a leaf: one with more is cut. A large leaf knows more;
        the time that its model takes grows with the cube of the observations.
    overlap: ε. A leaf also sees the observations within ε of its box; 1 is the whole range.
    fixed: whether one partition is drawn and kept (the paper's baseline PBO), or a new one is drawn
        in each iteration.
    grows: whether leaves are larger for large batches: they hold two batches, but at most twice
        `leaf_size`. A model that knows no more than the last batch forgets the one before.
    """

    max_leaves: int = 1000
    leaf_size: int = 500
    overlap: float = 0.0
    fixed: bool = False
    grows: bool = True

    def __post_init__(self) -> None:
        check_count("max_leaves", self.max_leaves, 1, most=10**6)
        check_count("leaf_size", self.leaf_size, 1, most=10**9)
        check_number("overlap", self.overlap, 0.0, 1.0)
        check_flag("fixed", self.fixed)
        check_flag("grows", self.grows)

    def for_batch(self, n: int) -> Partition:
        """The partition for a batch of n: larger leaves for large batches, if it `grows`."""
        size = self.leaf_size
        return replace(self, leaf_size=min(max(size, 2 * n), 2 * size)) if self.grows else self

    def draw(self, T: Floats, kept: Boxes | None, rng: np.random.Generator) -> list[Leaf]:
        """A new random partition of the points T, or the boxes that were kept, filled anew."""
        if kept is not None:
            return refill(*kept, T, overlap=self.overlap)
        return mondrian(
            T,
            max_leaves=self.max_leaves,
            leaf_size=self.leaf_size,
            rng=rng,
            overlap=self.overlap,
        )

    def keep(self, leaves: Sequence[Leaf]) -> Boxes | None:
        """The boxes of the leaves, if the next iteration is to use them again; else None."""
        if not self.fixed:
            return None
        return np.array([leaf.lower for leaf in leaves]), np.array([leaf.upper for leaf in leaves])


def mondrian(
    T: Floats, *, max_leaves: int, leaf_size: int, rng: np.random.Generator, overlap: float = 0.0
) -> list[Leaf]:
    """Partition the unit cube; every point is in one leaf, and with ε > 0 its neighbours see it."""
    if max_leaves < 1 or leaf_size < 1:
        raise ValueError(
            f"max_leaves is {max_leaves} and leaf_size {leaf_size}; both must be at least 1"
        )
    if not 0 <= overlap < np.inf:
        raise ValueError(f"overlap is {overlap}; give a part of the range, 0 or more")
    n, dims = T.shape
    leaves = [Leaf(np.zeros(dims), np.ones(dims), np.arange(n))]
    weight = np.zeros(max_leaves)
    weight[0] = _weight(leaves[0], leaf_size)
    while len(leaves) < max_leaves:
        cumulative = np.cumsum(weight[: len(leaves)])
        if cumulative[-1] <= 0:
            break
        j = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
        left, right = _cut(leaves[j], T, overlap, rng)
        weight[j], weight[len(leaves)] = _weight(left, leaf_size), _weight(right, leaf_size)
        leaves[j] = left
        leaves.append(right)
    return leaves


def refill(lower: Floats, upper: Floats, T: Floats, *, overlap: float = 0.0) -> list[Leaf]:
    """The leaves of given boxes, lower and upper (J, D), each with the rows of T that it sees."""
    leaves = []
    for low, high in zip(lower, upper, strict=True):
        rows = np.arange(len(T))
        for d in np.flatnonzero((low > 0) | (high < 1)):
            t = T[rows, d]
            inside = t >= low[d] - overlap
            if high[d] < 1:
                inside &= _below(t, high[d], overlap)
            rows = rows[inside]
        leaves.append(Leaf(low, high, rows))
    return leaves


def _sides(leaf: Leaf) -> Floats:
    """The lengths of the sides that may be cut."""
    sides = leaf.upper - leaf.lower
    return np.where(sides > NARROWEST, sides, 0.0)


def _weight(leaf: Leaf, leaf_size: int) -> float:
    """p_j = length(v_j) max(0, |D_j| - S)."""
    return float(np.sum(_sides(leaf))) * max(0, len(leaf.rows) - leaf_size)


def _cut(leaf: Leaf, T: Floats, overlap: float, rng: np.random.Generator) -> tuple[Leaf, Leaf]:
    """Cut across a dimension drawn in proportion to its length, at a uniform place."""
    cumulative = np.cumsum(_sides(leaf))
    d = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
    at = rng.uniform(leaf.lower[d], leaf.upper[d])
    middle_upper, middle_lower = leaf.upper.copy(), leaf.lower.copy()
    middle_upper[d] = middle_lower[d] = at
    t = T[leaf.rows, d]
    return (
        Leaf(leaf.lower, middle_upper, leaf.rows[_below(t, at, overlap)]),
        Leaf(middle_lower, leaf.upper, leaf.rows[t >= at - overlap]),
    )


def _below(t: Floats, at: float, overlap: float) -> NDArray[np.bool_]:
    """Which t belong to the leaf that ends, open, at `at`."""
    return t <= at + overlap if overlap else t < at
