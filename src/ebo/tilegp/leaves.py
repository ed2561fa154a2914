"""Every leaf of a partition with a model of its own, as in Alg. 1 (line GibbsSampling)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from ebo.arrays import Floats
from ebo.partition import Leaf
from ebo.tilegp.box import Box
from ebo.tilegp.features import TileCoding
from ebo.tilegp.gibbs import ChainState, Info, Prior, sample


class Map(Protocol):
    """The built-in `map`, or that of an executor."""

    def __call__(self, function: Callable[[Any], Any], items: Iterable[Any], /) -> Iterable[Any]:
        """Call the function on each item. The results come in the order of the items."""


def sample_leaves(
    T: Floats,
    y: Floats,
    leaves: Sequence[Leaf],
    prior: Prior,
    *,
    layers: int,
    sweeps: int,
    seed: np.random.SeedSequence,
    map: Map = map,
) -> list[tuple[ChainState, Info]]:
    """Run a chain in every leaf, on tile coding of its own box. Leaf j has stream j of the seed.

    `map` runs the leaves: the built-in one, or that of a thread pool, since the core releases the
    GIL. The results are the same. The largest leaves come first, so that none of them is left for
    one thread when the others have finished.
    """

    def run(job: tuple[Leaf, np.random.SeedSequence]) -> tuple[ChainState, Info]:
        leaf, stream = job
        rng = np.random.default_rng(stream)
        kernel = TileCoding.draw(T.shape[1], layers, rng)
        return sample(
            [(T[leaf.rows], y[leaf.rows])],
            Box(leaf.lower, leaf.upper),
            kernel,
            prior,
            sweeps=sweeps,
            rng=rng,
            widths=leaf.upper - leaf.lower,
        )

    jobs = list(zip(leaves, seed.spawn(len(leaves)), strict=True))
    order = sorted(range(len(jobs)), key=lambda j: -len(jobs[j][0].rows))
    chains = dict(zip(order, map(run, [jobs[j] for j in order]), strict=True))
    return [chains[j] for j in range(len(jobs))]
