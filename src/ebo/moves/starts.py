"""Where candidates begin: at good observations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ebo.arrays import Floats, Ints
from ebo.checks import check_number
from ebo.moves.base import GOOD, Region, good
from ebo.partition import NARROWEST, mondrian


@dataclass(frozen=True, kw_only=True)
class Starts:
    """Candidates start at one of the best observations of a leaf.

    apart: the part of them that start instead at the best observation of some region of the leaf.
        The best observations of all are soon neighbours; these are on hills far apart.
    """

    apart: float = 0.25

    def __post_init__(self) -> None:
        check_number("apart", self.apart, 0.0, 1.0)

    def draw(self, region: Region, hills: Ints, rng: np.random.Generator) -> Floats:
        """A point (F,) to begin at; in a leaf without observations, any point."""
        x = region.uniform(1, rng)[0]
        if len(region.best):
            x = region.T[good(hills if rng.random() < self.apart else region.best, rng)]
        start: Floats = region.within(x[None, :])[0]
        return start


def best_of_regions(region: Region, rng: np.random.Generator) -> Ints:
    """The best observation in each part of a random partition of the leaf: rows, best first."""
    leaf, n = region.leaf, len(region.u)
    width = np.maximum(leaf.upper - leaf.lower, NARROWEST)
    T = np.clip((region.T - leaf.lower) / width, 0.0, 1.0)  # with ε > 0 some lie outside
    parts = mondrian(T, max_leaves=GOOD, leaf_size=max(1, n // GOOD), rng=rng)
    rows = np.array(
        [p.rows[region.u[p.rows].argmax()] for p in parts if len(p.rows)], dtype=np.int64
    )
    return rows[np.argsort(-region.u[rows], kind="stable")]
