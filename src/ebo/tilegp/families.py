"""The kernel families of the optimiser, by name.

One line adds a family: `FAMILIES["mine"] = Family(draw, limit)`. `draw` returns a `SampledKernel`,
whose attribute `family` names a separator of the core (native/separator.hpp).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ebo.arrays import Bools
from ebo.tilegp.features import MondrianGrid, TileCoding
from ebo.tilegp.kernel import Hat, Laplace, Limit, SampledKernel

# The most cuts of a layer of a Mondrian grid. Their number is Poisson, so that few layers would
# have more. The memory that a grid takes is in proportion.
GRID_CUTS = 64


@dataclass(frozen=True)
class Family:
    """How a kernel is drawn, and what it tends to for infinitely many layers.

    draw: a function that makes the kernel. It is called with the number of dimensions, the number
        of layers, a generator, and a mask of the dimensions that are categorical.
    limit: the kernel by which the filter compares candidates.
    layered: whether the kernel has layers.
    """

    draw: Callable[[int, int, np.random.Generator, Bools], SampledKernel]
    limit: type[Limit]
    layered: bool = True


def _draw_grid(
    dims: int, layers: int, rng: np.random.Generator, categorical: Bools
) -> SampledKernel:
    return MondrianGrid.draw(dims, layers, rng, GRID_CUTS, categorical)


FAMILIES: dict[str, Family] = {
    "tile-coding": Family(TileCoding.draw, Hat),
    "mondrian-grid": Family(_draw_grid, Laplace),
    "hat": Family(Hat.draw, Hat, layered=False),
    "laplace": Family(Laplace.draw, Laplace, layered=False),
}
