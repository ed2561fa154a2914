"""Pooled learning: one structure for all, from blocks of observations whose likelihoods add up.

A leaf of a hundred observations knows next to nothing of the groups of fifty dimensions, and
averaging many such leaves does not help (docs/research.md). So there is one chain, which goes on
from iteration to iteration, on blocks of observations that share z, cuts and noise. Beside this
additive part a smooth part is fitted around the best observation. The model of a leaf then only
needs to be conditioned on its observations. Probes (moves/probes.py) are a block of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ebo.arrays import Bools, Floats, Ints
from ebo.checks import check_count
from ebo.learning.base import (
    Data,
    Drawn,
    Ensemble,
    LeafModel,
    Learning,
    Scale,
    Structure,
    chain_start,
    condition,
    leaf_box,
    outside,
    per_dimension,
)
from ebo.learning.sync import co_membership
from ebo.partition import Leaf, mondrian
from ebo.tilegp.gibbs import sample
from ebo.tilegp.leaves import Map
from ebo.tilegp.smooth import Smooth
from ebo.tilegp.smooth import fit as fit_smooth

# Beyond so many dimensions blocks shrink, so that a sweep costs as much as it does there.
MANY_DIMENSIONS = 60
# Observations that the smooth part is fitted to. The time, 0.1 to 0.2 s, grows with their cube.
SMOOTH_FROM = 400
BEST = 0.2  # share of the best among those learned from; with more, all would be of one place
MEMORY = 0.8  # weight of the past in `together`: about the last five iterations count
PROBES = 1.5  # size of a block of probes over that of others: five for each of 60 dimensions
SAME = 1e-9  # coordinates that differ by less differ by rounding only


@dataclass(frozen=True, kw_only=True)
class Pooled:
    """One z and one k for all leaves.

    sweeps: Gibbs sweeps over all parameters in an iteration. More of them learn faster and take
        longer in proportion. 0 learns nothing and keeps the structure that the optimiser was
        restored with.
    learn_from: the most observations that a sweep looks at. A fifth of them are the best, the
        others are drawn at random. With more, groups are found sooner, and a sweep takes longer in
        proportion.
    block_size: the most observations of a block. An observation tells far more in a large block;
        the time grows with the square of the size.
    """

    sweeps: int = 1
    learn_from: int = 1000
    block_size: int = 200

    def __post_init__(self) -> None:
        check_count("sweeps", self.sweeps, 0, most=10**6)
        check_count("learn_from", self.learn_from, 1, most=10**9)
        check_count("block_size", self.block_size, 1, most=10**9)

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
        """See `Learner`."""
        rng, seeds = np.random.default_rng(once), each.spawn(len(leaves))
        if self.sweeps:
            learned = self.structure(data, structure, ensemble.smooth, rng, threads)
        else:
            learned = structure or Structure.simplest(data.model, data.dims)
        belief = ensemble.draw(learned, rng, fixed=not self.sweeps)

        def conditioned(j: int) -> LeafModel:
            rng = np.random.default_rng(seeds[j])
            return condition(data, belief.rows(data, leaves[j].rows, rng), belief.structure, rng)

        models = dict(zip(wanted, map(conditioned, wanted), strict=True))
        return Learning(models, learned, belief)

    def structure(
        self,
        data: Data,
        before: Structure | None,
        smooth: bool,
        rng: np.random.Generator,
        threads: int,
    ) -> Structure:
        """Let the chain go on, and fit a smooth part beside it if one is wanted."""
        pair = None if before is None else before.pair
        blocks = [
            (data.T[rows], Scale.of(data.u[rows]).apply(data.u[rows]))
            for rows in self._blocks(data, pair, rng)
        ]
        kernel, prior = data.model.draw_kernel(data.categorical, rng), data.model.prior()
        start = before or Structure.simplest(data.model, data.dims)
        state, info = sample(
            blocks,
            leaf_box(np.zeros(data.dims), np.ones(data.dims), data.categorical),
            kernel,
            prior,
            sweeps=self.sweeps,
            rng=rng,
            start=chain_start(start, np.ones(data.dims), kernel, prior),
            threads=threads,
        )
        together = co_membership(info.z)
        if before is not None:
            together = MEMORY * before.together + (1.0 - MEMORY) * together
        density, part = per_dimension(state.cuts), None
        if smooth and len(data.u):
            part = learn_smooth(data, state.z, density, None if before is None else before.smooth)
        return Structure(state.z, density, state.noise, together, part, pair)

    def _blocks(self, data: Data, pair: Floats | None, rng: np.random.Generator) -> list[Ints]:
        """Rows of the blocks: probes, and, cut by a partition, the best observations and others.

        A sweep tries D groups for each of D dimensions, at O(b²) for each of n points in blocks of
        b. Beyond MANY_DIMENSIONS n and b shrink so that the cost stays as it is there.
        """
        shrink = min(1.0, (MANY_DIMENSIONS / data.dims) ** (2.0 / 3.0))
        most = max(2, int(shrink * self.learn_from))
        block_size = max(2, int(shrink * self.block_size))
        probes = np.empty(0, dtype=np.int64)
        if pair is not None:
            probes = rng.permutation(np.flatnonzero(are_probes(data.T, pair)))
            probes = probes[: int(PROBES * block_size)]
        others = np.flatnonzero(outside(probes, len(data.u)))
        rows = others[_worth_learning_from(data.u[others], most, rng)]
        most_leaves = data.partition.max_leaves
        parts = mondrian(data.T[rows], max_leaves=most_leaves, leaf_size=block_size, rng=rng)
        blocks = [rows[part.rows] for part in parts] + [probes]
        return [block for block in blocks if len(block) > 1] or blocks[:1]


def learn_smooth(data: Data, z: Ints, density: Floats, before: Smooth | None) -> Smooth:
    """The smooth part beside an additive one, on the observations nearest to the best."""
    near = data.around_the_best[:SMOOTH_FROM]
    T, u = data.T[near], data.u[near]
    additive = data.model.limit(data.categorical).gram(T, T, z, density)
    return fit_smooth(additive, T, Scale.of(u).apply(u), data.categorical, before)


def are_probes(T: Floats, pair: Floats) -> Bools:
    """Which points (n, F) are made of the coordinates of a pair (2, F)."""
    off = np.minimum(np.abs(T - pair[0]), np.abs(T - pair[1]))
    return np.asarray(np.all(off < SAME, axis=1))


def _worth_learning_from(u: Floats, most: int, rng: np.random.Generator) -> Ints:
    """Rows of the best values, a share of the number, and of others at random."""
    if len(u) <= most:
        return np.arange(len(u))
    order = np.argsort(-u, kind="stable")
    best, rest = np.split(order, [int(BEST * most)])
    others = rng.choice(rest, size=most - len(best), replace=False)
    return np.sort(np.concatenate([best, others]))
