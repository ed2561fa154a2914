"""Learning as printed (Alg. 1): each leaf has its own chain, and all agree on one structure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
    per_dimension,
)
from ebo.learning.sync import co_membership, combine_cuts, combine_groups
from ebo.partition import Leaf
from ebo.tilegp.gibbs import ChainState, sample
from ebo.tilegp.leaves import Map
from ebo.tilegp.posterior import Posterior


@dataclass(frozen=True, kw_only=True)
class PerLeaf:
    """Gibbs sampling in every leaf (line 6), and synchronisation (line 13).

    sweeps: Gibbs sweeps that each leaf's chain makes in an iteration. 0 learns nothing and keeps
        the structure that the optimiser was restored with.
    """

    sweeps: int = 10

    def __post_init__(self) -> None:
        check_count("sweeps", self.sweeps, 0, most=10**6)

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

        def conditioned(j: int) -> LeafModel:
            rng = np.random.default_rng(seeds[j])
            return condition(data, belief.rows(data, leaves[j].rows, rng), belief.structure, rng)

        def chained(j: int) -> tuple[LeafModel, ChainState]:
            return self.leaf(data, leaves[j], structure, np.random.default_rng(seeds[j]))

        if not self.sweeps:
            given = structure or Structure.simplest(data.model, data.dims)
            belief = ensemble.draw(given, rng, fixed=True)
            models = dict(zip(wanted, map(conditioned, wanted), strict=True))
            return Learning(models, given, belief)
        results = list(map(chained, range(len(leaves))))
        learned = synchronise(results, data.model.group_limit)
        models = {j: results[j][0] for j in wanted}
        # Leaves do not learn from probes, and what these are made of would not be handed on.
        return Learning(models, learned, ensemble.draw(learned, rng, fixed=True))

    def leaf(
        self, data: Data, leaf: Leaf, structure: Structure | None, rng: np.random.Generator
    ) -> tuple[LeafModel, ChainState]:
        """Run a chain in one leaf, and condition on the leaf's observations.

        A leaf may have more than `leaf_size` observations, if there are `max_leaves` leaves or if a
        fixed partition fills up. Then the chain knows `leaf_size` of them, drawn at random: its
        time grows with the cube of their number.
        """
        partition = data.partition
        lower = np.maximum(leaf.lower - partition.overlap, 0.0)
        upper = np.minimum(leaf.upper + partition.overlap, 1.0)
        box, width = leaf_box(lower, upper, data.categorical), upper - lower
        T, u = data.T[leaf.rows], data.u[leaf.rows]
        scale = Scale.of(u)
        y = scale.apply(u)
        kernel, prior = data.model.draw_kernel(data.categorical, rng), data.model.prior()
        start = None if structure is None else chain_start(structure, width, kernel, prior)
        some = np.arange(len(u))
        if len(u) > partition.leaf_size:
            some = np.sort(rng.choice(some, partition.leaf_size, replace=False))
        block = T[some], y[some]
        state, _ = sample(
            [block], box, kernel, prior, sweeps=self.sweeps, rng=rng, start=start, widths=width
        )
        posterior = Posterior.of(kernel, state.z, state.cuts, state.noise, box.to_unit(T), y)
        return LeafModel(posterior, T, y, lower, width, scale.mean, scale.deviation), state


def synchronise(
    results: Sequence[tuple[LeafModel, ChainState]], group_limit: int | None
) -> Structure:
    """One structure out of those of all leaves (Alg. 1, line 13)."""
    together = co_membership([state.z for _, state in results])
    densities = [per_dimension(state.cuts) / model.width for model, state in results]
    noise = np.exp(np.mean([np.log(state.noise) for _, state in results]))
    return Structure(
        combine_groups(together, group_limit),
        combine_cuts(np.array(densities)),
        float(noise),
        together,
    )
