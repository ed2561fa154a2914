"""Short chains, which several tests run."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ebo.tilegp.box import Box
from ebo.tilegp.gibbs import ChainState, Info, Prior, sample
from ebo.tilegp.kernel import Hat, SampledKernel


def run(
    X: ArrayLike,
    y: ArrayLike,
    *,
    kernel: SampledKernel | None = None,
    prior: Prior | None = None,
    box: Box | None = None,
    sweeps: int = 4,
    seed: int = 0,
    start: ChainState | None = None,
) -> tuple[ChainState, Info]:
    """A chain on one block, with a hat kernel on the unit square if nothing else is said."""
    return sample(
        [(X, y)],
        box or Box.unit(2),
        kernel or Hat(),
        prior or Prior(),
        sweeps=sweeps,
        rng=np.random.default_rng(seed),
        start=start,
    )
