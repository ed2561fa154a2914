"""Learning the structure of the function, and the model of every leaf (Alg. 1, lines 6 and 7).

Two ways. Per leaf, as printed: every leaf runs a chain of its own, on its own box. Pooled: one
chain for all, on blocks of observations whose likelihoods add up, and one smooth part for what is
not additive, fitted around the best observation; then a leaf is only conditioned. Probes (probe.py)
are a block of their own.

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
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ebo.arrays import Bools, Floats, Ints
from ebo.partition import Leaf, mondrian
from ebo.probe import are_probes
from ebo.settings import Settings
from ebo.sync import co_membership, combine_cuts, combine_groups
from ebo.tilegp.box import Box
from ebo.tilegp.features import MondrianGrid, TileCoding
from ebo.tilegp.gibbs import MAX_CUTS, GibbsKernel, Prior, State, sample
from ebo.tilegp.kernel import Hat, Laplace, Limit
from ebo.tilegp.leaves import Map
from ebo.tilegp.posterior import Posterior
from ebo.tilegp.smooth import Smooth
from ebo.tilegp.smooth import fit as fit_smooth

NOISE_GRID = np.geomspace(1e-5, 1.0, 21)
GRID_CUTS = 64  # most cuts of a Mondrian grid's layer
MANY = 60  # dimensions
SMOOTH_FROM = 400  # observations that the smooth part is fitted to
BEST = 0.2  # share of the observations learned from that are the best ones
MEMORY = 0.8  # of how often dimensions were together, from one iteration to the next
PROBES = 1.5  # of them that are learned from at most, over other blocks' size
SHRINKAGE = 4.0  # a leaf's own mean and variance count as much as the whole's with so many points


@dataclass(frozen=True)
class Data:
    """All observations, and how to learn from them."""

    T: Floats
    u: Floats
    categorical: Bools
    settings: Settings

    @cached_property
    def best(self) -> Ints:
        """Rows of the best observations, two leaves full, best first."""
        return np.argsort(-self.u, kind="stable")[: 2 * self.settings.leaf_size]

    @cached_property
    def around_the_best(self) -> Ints:
        """All rows, the nearest to the best observation first."""
        return _by_distance(self.T, int(self.u.argmax()))


@dataclass(frozen=True)
class Structure:
    """What is believed of the function as a whole."""

    z: Ints
    density: Floats
    noise: float  # of the chain, which knows of no smooth part
    together: Floats  # (F, F) how often two dimensions were in one group
    smooth: Smooth | None = None
    pair: Floats | None = None  # (2, F) what probes are made of

    @property
    def leaf_noise(self) -> float:
        """The noise of a leaf's model."""
        return self.noise if self.smooth is None else self.smooth.noise

    @property
    def additive_lead(self) -> float:
        """How far the additive part outweighs the smooth one: 1 without any, 0 where half is."""
        return 1.0 if self.smooth is None else max(0.0, 1.0 - 2.0 * self.smooth.share)


@dataclass(frozen=True)
class LeafModel:
    """The posterior of a leaf, with the way from the unit cube and standardised values to it."""

    posterior: Posterior
    T: Floats  # the observations, in the unit cube
    y: Floats  # their values, in the model's scale
    lower: Floats
    width: Floats
    mean: float
    scale: float

    def to_leaf(self, P: Floats) -> Floats:
        """Points of the unit cube in the model's coordinates."""
        return np.clip((P - self.lower) / self.width, 0.0, 1.0)

    def predict(self, P: Floats) -> tuple[Floats, Floats]:
        """Mean and deviation of the standardised values at points of the unit cube."""
        mean, sd = self.posterior.predict(self.to_leaf(P))
        return self.mean + self.scale * mean, self.scale * sd


def limit_of(settings: Settings, categorical: Bools) -> Limit:
    """The kernel for infinitely many layers."""
    if settings.kernel in ("tile-coding", "hat"):
        return Hat(categorical)
    return Laplace(categorical)


def draw_kernel(settings: Settings, categorical: Bools, rng: np.random.Generator) -> GibbsKernel:
    """The kernel, with layers of its own where it has any."""
    dims, layers = len(categorical), settings.layers
    if settings.kernel == "tile-coding":
        return TileCoding.draw(dims, layers, rng, categorical)
    if settings.kernel == "mondrian-grid":
        return MondrianGrid.draw(dims, layers, rng, GRID_CUTS, categorical)
    return Hat(categorical) if settings.kernel == "hat" else Laplace(categorical)


def prior_of(settings: Settings) -> Prior:
    """The prior of z, cuts and noise."""
    return Prior(
        alpha=settings.alpha,
        beta=settings.beta,
        group_limit=settings.group_limit,
        noise=NOISE_GRID if settings.noise is None else settings.noise,
        per_layer=settings.per_layer,
    )


def learn(
    data: Data,
    leaves: Sequence[Leaf],
    wanted: Sequence[int],
    structure: Structure | None,
    *,
    streams: tuple[np.random.SeedSequence, np.random.SeedSequence],
    map: Map,
    threads: int,
) -> tuple[dict[int, LeafModel], Structure]:
    """Models of the leaves that are wanted, by number, and the structure that all agree on.

    `structure` is the one before. The streams are for what is done once, and for every leaf.
    """
    seeds = streams[1].spawn(len(leaves))
    settings = data.settings
    if settings.pooled or not settings.sweeps:
        rng = np.random.default_rng(streams[0])
        if settings.sweeps:
            learned = learn_pooled(data, structure, rng, threads)
        else:
            learned = structure or _simplest(settings, data.T.shape[1])
        believed = _believed(learned, rng)

        def conditioned(j: int) -> LeafModel:
            rows, rng = leaves[j].rows, np.random.default_rng(seeds[j])
            if believed.smooth is not None:
                rows = _with_nearest(data, rows)
            elif settings.pooled:
                rows = _with_some_of_the_best(data, rows, learned.additive_lead, rng)
            return condition(data, rows, believed, rng)

        return dict(zip(wanted, map(conditioned, wanted), strict=True)), learned

    def chained(j: int) -> tuple[LeafModel, State]:
        return learn_leaf(data, leaves[j], structure, np.random.default_rng(seeds[j]))

    results = list(map(chained, range(len(leaves))))
    return {j: results[j][0] for j in wanted}, synchronise(results, settings)


def learn_pooled(
    data: Data, structure: Structure | None, rng: np.random.Generator, threads: int
) -> Structure:
    """Carry one chain on, on blocks of observations."""
    settings, dims = data.settings, data.T.shape[1]
    pair = None if structure is None else structure.pair
    blocks = [
        (data.T[rows], _Scale.of(data.u[rows]).apply(data.u[rows]))
        for rows in _blocks(data, pair, rng)
    ]
    kernel, prior = draw_kernel(settings, data.categorical, rng), prior_of(settings)
    start = _state(structure or _simplest(settings, dims), np.ones(dims), kernel, prior)
    state, info = sample(
        blocks,
        leaf_box(np.zeros(dims), np.ones(dims), data.categorical),
        kernel,
        prior,
        sweeps=settings.sweeps,
        rng=rng,
        start=start,
        threads=threads,
    )
    together = co_membership(info.z)
    if structure is not None:
        together = MEMORY * structure.together + (1.0 - MEMORY) * together
    density, smooth = _per_dimension(state.cuts), None
    if settings.smooth and len(data.u):
        before = None if structure is None else structure.smooth
        smooth = learn_smooth(data, state.z, density, before)
    return Structure(state.z, density, state.noise, together, smooth, pair)


def _blocks(data: Data, pair: Floats | None, rng: np.random.Generator) -> list[Ints]:
    """Rows of the blocks: probes, and, cut by a partition, the best observations and some others.

    A sweep tries D groups for each of D dimensions, at O(b²) for each of n points in blocks of b.
    Beyond MANY dimensions n and b shrink so that the cost stays as it is there.
    """
    settings = data.settings
    shrink = min(1.0, (MANY / data.T.shape[1]) ** (2.0 / 3.0))
    most = max(2, int(shrink * settings.learn_from))
    block_size = max(2, int(shrink * settings.block_size))
    probes = np.empty(0, dtype=np.int64)
    if pair is not None:
        probes = rng.permutation(np.flatnonzero(are_probes(data.T, pair)))
        probes = probes[: int(PROBES * block_size)]
    others = np.flatnonzero(_outside(probes, len(data.u)))
    rows = others[_worth_learning_from(data.u[others], most, rng)]
    parts = mondrian(data.T[rows], max_leaves=settings.max_leaves, leaf_size=block_size, rng=rng)
    blocks = [rows[part.rows] for part in parts] + [probes]
    return [block for block in blocks if len(block) > 1] or blocks[:1]


def learn_smooth(data: Data, z: Ints, density: Floats, before: Smooth | None) -> Smooth:
    """The smooth part beside an additive one, on the observations nearest to the best."""
    near = data.around_the_best[:SMOOTH_FROM]
    T, u = data.T[near], data.u[near]
    additive = limit_of(data.settings, data.categorical).gram(T, T, z, density)
    return fit_smooth(additive, T, _Scale.of(u).apply(u), data.categorical, before)


def _believed(structure: Structure, rng: np.random.Generator) -> Structure:
    """The structure for one iteration: as often as its share says, with the smooth part.

    The mixture is the better model close to the best observations, and knows it; the additive one
    alone dares to cross what is good in places far apart. Neither finds what the other does.
    """
    if structure.smooth is None or rng.random() < structure.smooth.share:
        return structure
    return replace(structure, smooth=None)


def condition(data: Data, rows: Ints, structure: Structure, rng: np.random.Generator) -> LeafModel:
    """Condition on some of the observations, with the structure that all share."""
    T, u, dims = data.T[rows], data.u[rows], data.T.shape[1]
    scale = _Scale.of(u)
    kernel = draw_kernel(data.settings, data.categorical, rng)
    cuts = structure.density if isinstance(kernel, Limit) else np.rint(structure.density)
    y = scale.apply(u)
    noise = structure.leaf_noise
    posterior = Posterior(kernel, structure.z, cuts, noise, T, y, structure.smooth)
    c = posterior.fit_scale(SHRINKAGE)
    lower, width = np.zeros(dims), np.ones(dims)
    return LeafModel(posterior, T, y / c, lower, width, scale.mean, c * scale.deviation)


def _with_nearest(data: Data, rows: Ints) -> Ints:
    """A leaf's rows and those nearest to the best of them, up to the size of a leaf.

    A smooth part does not care for boxes: with it, a model also knows of observations outside.
    """
    missing = data.settings.leaf_size - len(rows)
    if missing <= 0 or not len(rows):
        return rows
    near = _by_distance(data.T, int(rows[data.u[rows].argmax()]))
    return np.concatenate([rows, near[_outside(rows, len(near))[near]][:missing]])


def _with_some_of_the_best(data: Data, rows: Ints, lead: float, rng: np.random.Generator) -> Ints:
    """A leaf's rows and, by chance, half of the best others, up to a part `lead` of a leaf's size.

    Where the function is additive, what is good far away tells of each group here. Nearest ones
    would do, too, but on functions that are half additive they make for climbs that get caught.
    """
    missing = int(lead * data.settings.leaf_size) - len(rows)
    if missing <= 0 or not len(rows):
        return rows
    others = data.best[_outside(rows, len(data.u))[data.best]][: 2 * missing]
    missing = min(missing, len(others))
    return np.concatenate([rows, rng.choice(others, missing, replace=False)])


def _outside(rows: Ints, n: int) -> Bools:
    """Which of n rows are not among these, (n,)."""
    outside = np.ones(n, dtype=np.bool_)
    outside[rows] = False
    return outside


def _by_distance(T: Floats, row: int) -> Ints:
    """All rows, the nearest to one of them first."""
    return np.argsort(np.sum((T - T[row]) ** 2, axis=1), kind="stable")


def learn_leaf(
    data: Data, leaf: Leaf, structure: Structure | None, rng: np.random.Generator
) -> tuple[LeafModel, State]:
    """Run a chain of the leaf's own, and condition on its observations.

    Where there are more than `leaf_size`, since `max_leaves` is reached or a fixed partition fills
    up, the chain knows so many, by chance: its cost is the cube of their number.
    """
    settings = data.settings
    lower = np.maximum(leaf.lower - settings.overlap, 0.0)
    upper = np.minimum(leaf.upper + settings.overlap, 1.0)
    box, width = leaf_box(lower, upper, data.categorical), upper - lower
    T, u = data.T[leaf.rows], data.u[leaf.rows]
    scale = _Scale.of(u)
    y = scale.apply(u)
    kernel, prior = draw_kernel(settings, data.categorical, rng), prior_of(settings)
    start = None if structure is None else _state(structure, width, kernel, prior)
    some = np.arange(len(u))
    if len(u) > settings.leaf_size:
        some = np.sort(rng.choice(some, settings.leaf_size, replace=False))
    block = T[some], y[some]
    state, _ = sample(
        [block], box, kernel, prior, sweeps=settings.sweeps, rng=rng, start=start, widths=width
    )
    posterior = Posterior(kernel, state.z, state.cuts, state.noise, box.to_unit(T), y)
    return LeafModel(posterior, T, y, lower, width, scale.mean, scale.deviation), state


def synchronise(results: Sequence[tuple[LeafModel, State]], settings: Settings) -> Structure:
    """One structure out of those of all leaves (Alg. 1, line 13)."""
    together = co_membership([state.z for _, state in results])
    densities = [_per_dimension(state.cuts) / model.width for model, state in results]
    noise = np.exp(np.mean([np.log(state.noise) for _, state in results]))
    return Structure(
        combine_groups(together, settings.group_limit),
        combine_cuts(np.array(densities)),
        float(noise),
        together,
    )


def leaf_box(lower: Floats, upper: Floats, categorical: Bools) -> Box:
    """A part of the unit cube as the sampler's box."""
    return Box(lower, upper, tuple("label" if mask else "continuous" for mask in categorical))


def _state(structure: Structure, width: Floats, kernel: GibbsKernel, prior: Prior) -> State:
    """The structure as the start of a chain on a box."""
    most = GRID_CUTS if isinstance(kernel, MondrianGrid) else MAX_CUTS
    cuts = np.clip(np.rint(structure.density * width), 0, most).astype(np.int64)
    if prior.per_layer and isinstance(kernel, TileCoding | MondrianGrid):
        cuts = np.repeat(cuts[:, None], kernel.layers, axis=1)
    return State(structure.z, cuts, structure.noise)


def _simplest(settings: Settings, dims: int) -> Structure:
    """Every dimension by itself, and all noise: whatever is more must be earned."""
    rate, shape = settings.beta
    density, separate = np.full(dims, shape / rate), np.arange(dims)
    return Structure(separate, density, float(NOISE_GRID[-1]), np.eye(dims))


def _per_dimension(cuts: Ints) -> Floats:
    """Cuts (F,) or (F, L) as one number a dimension."""
    return np.asarray(cuts.reshape(len(cuts), -1).mean(axis=1), dtype=np.float64)


@dataclass(frozen=True)
class _Scale:
    """Mean and deviation of some values, drawn towards 0 and 1 where there are few."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, u: Floats) -> _Scale:
        count = len(u) + SHRINKAGE
        mean = float(u.sum() / count)
        variance = (np.sum((u - mean) ** 2) + SHRINKAGE) / count
        return cls(mean, float(np.sqrt(variance)))

    def apply(self, u: Floats) -> Floats:
        return (u - self.mean) / self.deviation


def _worth_learning_from(u: Floats, most: int, rng: np.random.Generator) -> Ints:
    """Rows of the best values, a share of the number, and of others at random.

    The best are soon all of one place, which says little of the structure.
    """
    if len(u) <= most:
        return np.arange(len(u))
    order = np.argsort(-u, kind="stable")
    best, rest = np.split(order, [int(BEST * most)])
    others = rng.choice(rest, size=most - len(best), replace=False)
    return np.sort(np.concatenate([best, others]))
