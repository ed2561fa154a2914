"""Observations and structures to learn from, which several tests share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ebo import Categorical, Float, Int, Space
from ebo.belief import Belief, Ensemble
from ebo.learning.base import Data, LeafModel, Learner, Learning, Structure
from ebo.learning.model import Model
from ebo.learning.per_leaf import PerLeaf
from ebo.learning.pooled import Pooled
from ebo.partition import Leaf, Partition
from ebo.tilegp.gibbs import ChainState
from ebo.tilegp.kernel import Laplace
from ebo.tilegp.leaves import Map
from ebo.tilegp.posterior import Posterior

SPACE = Space(
    a=Float(0.0, 1.0),
    kind=Categorical(["x", "y", "z"]),
    b=Float(1.0, 100.0, log=True),
    n=Int(0, 9),
    c=Float(-1.0, 1.0),
)
DIMS = 5
FINITE = ("tile-coding", "mondrian-grid")
STRUCTURE = Structure(
    z=np.array([0, 1, 0, 2, 1]),
    density=np.array([3.0, 1.0, 7.4, 0.0, 2.5]),
    noise=0.02,
    together=np.eye(DIMS),
)
POOLED = Pooled(sweeps=1, block_size=20)
PER_LEAF = PerLeaf(sweeps=1)


def observed(
    n: int = 60, seed: int = 0, *, leaf_size: int = 25, overlap: float = 0.0, **model: Any
) -> Data:
    """Observations of the space, for a model of six layers if it has layers."""
    rng = np.random.default_rng(seed)
    T = SPACE.snap(rng.random((n, DIMS)))
    u = np.sin(6.0 * T[:, 0]) * T[:, 2] + 2.0 * (T[:, 1] > 0.5) - T[:, 4] + 1.5
    partition = Partition(max_leaves=6, leaf_size=leaf_size, overlap=overlap)
    return Data(T, u, SPACE.categorical, partition, Model(**{"layers": 6, **model}))


def cut(data: Data, seed: int = 5) -> list[Leaf]:
    """The leaves of a partition."""
    return data.partition.draw(data.T, None, np.random.default_rng(seed))


def run(
    learner: Learner,
    data: Data,
    leaves: Sequence[Leaf],
    wanted: Sequence[int],
    structure: Structure | None = None,
    *,
    ensemble: Ensemble | None = None,
    once: int = 11,
    each: int = 12,
    map: Map = map,
    threads: int = 1,
) -> Learning[Belief]:
    """What is learned, by streams of these numbers: one that has been used would give others."""
    return learner.learn(
        data,
        leaves,
        wanted,
        structure,
        ensemble or Ensemble(),
        once=np.random.SeedSequence(once),
        each=np.random.SeedSequence(each),
        map=map,
        threads=threads,
    )


def voice(
    width: Sequence[float], z: Sequence[int], cuts: Any, noise: float = 0.1
) -> tuple[LeafModel, ChainState]:
    """A leaf's model, of which only the width matters, and the state of its chain."""
    dims = len(width)
    nothing = np.empty((0, dims)), np.empty(0)
    posterior = Posterior.of(
        Laplace(), np.zeros(dims, dtype=np.int64), np.ones(dims), 0.1, *nothing
    )
    model = LeafModel(posterior, *nothing, np.zeros(dims), np.asarray(width), 0.0, 1.0)
    return model, ChainState(np.asarray(z), np.asarray(cuts), noise)


def assert_same_structure(a: Structure, b: Structure) -> None:
    np.testing.assert_array_equal(a.z, b.z)
    np.testing.assert_array_equal(a.density, b.density)
    np.testing.assert_array_equal(a.together, b.together)
    assert a.noise == b.noise


def assert_same_model(a: LeafModel, b: LeafModel) -> None:
    P = np.random.default_rng(0).random((7, DIMS))
    for left, right in zip(a.predict(P), b.predict(P), strict=True):
        np.testing.assert_array_equal(left, right)
    for name in ("T", "cuts", "inverse", "w"):
        np.testing.assert_array_equal(getattr(a.posterior, name), getattr(b.posterior, name))
    for name in ("y", "lower", "width"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert (a.mean, a.scale, a.posterior.noise) == (b.mean, b.scale, b.posterior.noise)
