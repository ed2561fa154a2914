"""The kernel families of the optimiser, by name.

A family is added by one line: `FAMILIES["mine"] = Family(draw, limit)`. What `draw` returns is a
`SampledKernel`, whose `family` names the core's separator (native/separator.hpp).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ebo.arrays import Bools
from ebo.tilegp.features import MondrianGrid, TileCoding
from ebo.tilegp.kernel import Hat, Laplace, Limit, SampledKernel

# Most cuts of a layer of a Mondrian grid. Their number is Poisson, so that few layers would have
# more, and memory is in proportion.
GRID_CUTS = 64


@dataclass(frozen=True)
class Family:
    """How a kernel is drawn, and what it tends to for infinitely many layers.

    draw: called with the number of dimensions and of layers, a generator, and which dimensions are
        categorical.
    limit: what the filter compares candidates by.
    layered: whether it has layers.
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
