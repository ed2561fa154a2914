"""What all ways of learning share: the data, the structure that is learned, a leaf's model.

=========  ===========  ======================================================================
name       shape        meaning
=========  ===========  ======================================================================
T, u       (n, F), (n)  observations in the unit cube, standardised values
`z`        (F,)         group of each dimension
`density`  (F,)         cuts k per whole range: a leaf of width w_d has density_d w_d of them
`noise`    scalar       σ², in parts of the variance of a leaf's values
=========  ===========  ======================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Protocol, TypeVar

import numpy as np

from ebo.arrays import Bools, Floats, Ints
from ebo.learning.model import Model
from ebo.partition import Leaf, Partition
from ebo.tilegp.box import Box
from ebo.tilegp.gibbs import ChainState, Prior
from ebo.tilegp.kernel import SampledKernel
from ebo.tilegp.leaves import Map
from ebo.tilegp.posterior import Posterior
from ebo.tilegp.smooth import Smooth

# With so many points a leaf's own mean and variance count as much as those of the whole: about as
# many as it takes to know a deviation to a third.
SHRINKAGE = 4.0


@dataclass(frozen=True)
class Data:
    """All observations, with the partition and the model that an iteration uses for them."""

    T: Floats
    u: Floats
    categorical: Bools
    partition: Partition
    model: Model

    @property
    def dims(self) -> int:
        """F, the number of free dimensions."""
        return int(self.T.shape[1])

    @cached_property
    def best(self) -> Ints:
        """Rows of the best observations, the best first; as many as two leaves hold."""
        return np.argsort(-self.u, kind="stable")[: 2 * self.partition.leaf_size]

    @cached_property
    def around_the_best(self) -> Ints:
        """All rows, the nearest to the best observation first."""
        return by_distance(self.T, int(self.u.argmax()))


@dataclass(frozen=True)
class Structure:
    """What is known of the function as a whole.

    noise: σ² as the chain has it, which knows of no smooth part.
    together: (F, F), how often two dimensions were in one group.
    smooth: the smooth part, if there is one.
    pair: (2, F), the two points that probes are made of, if there are any.
    """

    z: Ints
    density: Floats
    noise: float
    together: Floats
    smooth: Smooth | None = None
    pair: Floats | None = None

    @classmethod
    def simplest(cls, model: Model, dims: int) -> Structure:
        """A first guess: every dimension by itself, and all is noise. The rest must be learned."""
        rate, shape = model.beta
        density, separate = np.full(dims, shape / rate), np.arange(dims)
        return cls(separate, density, float(model.noise_grid[-1]), np.eye(dims))

    @property
    def leaf_noise(self) -> float:
        """σ² of a leaf's model: that of the smooth part where there is one."""
        return self.noise if self.smooth is None else self.smooth.noise

    @property
    def additive_lead(self) -> float:
        """1 - 2ω or 0: 1 without a smooth part, 0 where half of the kernel or more is smooth."""
        return 1.0 if self.smooth is None else max(0.0, 1.0 - 2.0 * self.smooth.share)

    @property
    def smooth_lead(self) -> float:
        """2ω - 1 or 0: 1 where all of the kernel is smooth, 0 where half of it or less is."""
        return 0.0 if self.smooth is None else self.smooth.lead


@dataclass(frozen=True)
class LeafModel:
    """The posterior of a leaf, and the map between its coordinates and scale and those of all.

    T, y: the observations that it knows: points of the unit cube, values in the model's scale.
    lower, width: where the leaf's coordinates begin, and how long they are, each (F,).
    mean, scale: a value v of the model is the standardised value mean + scale v.
    """

    posterior: Posterior
    T: Floats
    y: Floats
    lower: Floats
    width: Floats
    mean: float
    scale: float

    def to_leaf(self, P: Floats) -> Floats:
        """Points of the unit cube in the model's coordinates."""
        return np.clip((P - self.lower) / self.width, 0.0, 1.0)

    def predict(self, P: Floats) -> tuple[Floats, Floats]:
        """Mean and deviation, each (S,), of the standardised values at points of the unit cube."""
        mean, sd = self.posterior.predict(self.to_leaf(P))
        return self.mean + self.scale * mean, self.scale * sd


class Belief(Protocol):
    """What learning needs of a belief; the beliefs are in belief.py."""

    @property
    def structure(self) -> Structure:
        """The structure that models have: with the smooth part or without."""
        ...

    def rows(self, data: Data, rows: Ints, rng: np.random.Generator) -> Ints:
        """The observations that the model of a leaf knows; `rows` are those in the leaf."""
        ...


Drawn = TypeVar("Drawn", bound=Belief)
DrawnCovariant = TypeVar("DrawnCovariant", bound=Belief, covariant=True)


class Ensemble(Protocol[DrawnCovariant]):
    """The beliefs that an iteration draws from."""

    @property
    def smooth(self) -> bool:
        """Whether a smooth part is to be learned."""
        ...

    def draw(
        self, structure: Structure, rng: np.random.Generator, *, fixed: bool = False
    ) -> DrawnCovariant:
        """The belief of one iteration. `fixed`: the structure is kept and not learned."""
        ...


@dataclass(frozen=True)
class Learning(Generic[Drawn]):
    """What an iteration has learned.

    models: those of the leaves that were wanted, by the number of the leaf.
    structure: what is known of the function as a whole.
    belief: what the iteration takes for true.
    """

    models: dict[int, LeafModel]
    structure: Structure
    belief: Drawn


class Learner(Protocol):
    """A way to learn the structure and the models of the leaves."""

    @property
    def sweeps(self) -> int:
        """How many Gibbs sweeps an iteration makes; 0 keeps the structure as it is."""
        ...

    def learn(
        self,
        data: Data,
        leaves: Sequence[Leaf],
        wanted: Sequence[int],
        structure: Structure | None,
        ensemble: Ensemble[Drawn],
        *,
        once: np.random.SeedSequence,
        each: np.random.SeedSequence,
        map: Map,
        threads: int,
    ) -> Learning[Drawn]:
        """Learn the structure, draw a belief, and condition the models of the wanted leaves.

        wanted: numbers of the leaves whose models are needed.
        structure: that of the iteration before, if there was one.
        once, each: random streams, for what is done once and for what is done in every leaf.
        map, threads: how leaves are worked on side by side, and how many threads a chain may use.
        """
        ...


@dataclass(frozen=True)
class Scale:
    """Mean and deviation of values. With few values they are drawn towards 0 and 1."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, u: Floats) -> Scale:
        """The scale of the values u."""
        count = len(u) + SHRINKAGE
        mean = float(u.sum() / count)
        variance = (np.sum((u - mean) ** 2) + SHRINKAGE) / count
        return cls(mean, float(np.sqrt(variance)))

    def apply(self, u: Floats) -> Floats:
        """The values u in this scale: about mean 0 and deviation 1."""
        return (u - self.mean) / self.deviation


def condition(data: Data, rows: Ints, structure: Structure, rng: np.random.Generator) -> LeafModel:
    """The model that knows some rows of the observations, with the structure that all share."""
    T, u, dims = data.T[rows], data.u[rows], data.dims
    scale = Scale.of(u)
    kernel = data.model.draw_kernel(data.categorical, rng)
    cuts = np.rint(structure.density) if kernel.layered else structure.density
    y = scale.apply(u)
    noise = structure.leaf_noise
    posterior = Posterior.of(kernel, structure.z, cuts, noise, T, y, structure.smooth)
    c = posterior.fit_scale(SHRINKAGE)
    lower, width = np.zeros(dims), np.ones(dims)
    return LeafModel(posterior, T, y / c, lower, width, scale.mean, c * scale.deviation)


def leaf_box(lower: Floats, upper: Floats, categorical: Bools) -> Box:
    """A part of the unit cube as a box for the sampler."""
    return Box(lower, upper, tuple("label" if mask else "continuous" for mask in categorical))


def chain_start(
    structure: Structure, width: Floats, kernel: SampledKernel, prior: Prior
) -> ChainState:
    """The state from which a chain starts, on a box of some width, if this is the structure."""
    cuts = np.clip(np.rint(structure.density * width), 0, kernel.most_cuts).astype(np.int64)
    if prior.per_layer:
        cuts = np.repeat(cuts[:, None], kernel.layers, axis=1)
    return ChainState(structure.z, cuts, structure.noise)


def per_dimension(cuts: Ints) -> Floats:
    """Cuts (F,) or (F, L) as one number for each dimension, the mean over layers."""
    return np.asarray(cuts.reshape(len(cuts), -1).mean(axis=1), dtype=np.float64)


def outside(rows: Ints, n: int) -> Bools:
    """Which of n rows are not among these, (n,)."""
    mask = np.ones(n, dtype=np.bool_)
    mask[rows] = False
    return mask


def by_distance(T: Floats, row: int) -> Ints:
    """All rows, the nearest to one of them first."""
    return np.argsort(np.sum((T - T[row]) ** 2, axis=1), kind="stable")
