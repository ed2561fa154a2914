"""Learning leaf by leaf: the chain of a leaf, its model, and what all leaves agree on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ebo.belief import Additive, Ensemble
from ebo.learning.base import Scale, Structure, leaf_box
from ebo.learning.per_leaf import PerLeaf, synchronise
from ebo.learning.sync import co_membership
from ebo.partition import Leaf
from ebo.tilegp.families import FAMILIES
from ebo.tilegp.gibbs import sample
from ebo.tilegp.model import TileGP
from ebo.tilegp.smooth import Smooth
from tests.learning.cases import (
    DIMS,
    PER_LEAF,
    SPACE,
    STRUCTURE,
    assert_same_model,
    assert_same_structure,
    cut,
    observed,
    run,
    voice,
)

# What the leaves agree on.


def test_leaves_of_different_width_agree_on_densities() -> None:
    """Eight cuts on the whole range are four on its half and one on its eighth."""
    leaves = [
        voice([1.0, 1.0], [0, 1], [8, 3]),
        voice([0.5, 1.0], [0, 1], [4, 3]),
        voice([0.125, 0.25], [0, 1], [1, 1]),
    ]
    structure = synchronise(leaves, 8)
    assert structure.density.tolist() == [8.0, 3.0]  # (3 + 3 + 4)/3, rounded
    assert structure.density.dtype == np.float64


def test_densities_are_rounded_means_over_layers_and_leaves() -> None:
    rng = np.random.default_rng(2)
    for layers in (1, 4):
        leaves, expected = [], np.zeros(3)
        for _ in range(5):
            width, cuts = rng.uniform(0.1, 1.0, 3), rng.integers(0, 9, (3, layers))
            for d in range(3):
                expected[d] += sum(cuts[d]) / layers / width[d] / 5
            leaves.append(voice(width.tolist(), [0, 1, 2], cuts if layers > 1 else cuts[:, 0]))
        density = synchronise(leaves, 8).density
        assert density.tolist() == [round(value) for value in expected]


def test_dimensions_are_together_where_most_leaves_say_so() -> None:
    z = [[0, 0, 1, 1], [0, 0, 1, 2], [0, 1, 1, 1], [0, 0, 0, 2]]
    structure = synchronise([voice([1.0] * 4, row, [1] * 4) for row in z], 8)
    np.testing.assert_array_equal(structure.together, co_membership(z))
    assert structure.z.tolist() == [0, 0, 1, 2]  # two of four leaves are not most of them


def test_the_group_limit_holds_for_what_is_agreed_on() -> None:
    leaves = [voice([1.0] * 4, [0] * 4, [1] * 4) for _ in range(3)]
    assert synchronise(leaves, None).z.tolist() == [0] * 4
    assert np.bincount(synchronise(leaves, 2).z).tolist() == [2, 2]


def test_noise_is_the_geometric_mean() -> None:
    leaves = [voice([1.0], [0], [1], noise) for noise in (1e-4, 1e-2, 1.0)]
    assert synchronise(leaves, 8).noise == pytest.approx(1e-2)


# One leaf.


def test_a_leafs_chain_starts_with_the_cuts_of_its_own_width(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: dict[str, Any] = {}

    def spy(*arguments: Any, **options: Any) -> Any:
        given.update(options)
        return sample(*arguments, **options)

    monkeypatch.setattr("ebo.learning.per_leaf.sample", spy)
    leaf = Leaf(np.full(DIMS, 0.25), np.full(DIMS, 0.5), np.arange(0))
    structure = replace(STRUCTURE, density=np.array([10.0, 20.0, 30.0, 0.0, 1.0]))
    data = observed(overlap=0.125)
    PER_LEAF.leaf(data, leaf, structure, np.random.default_rng(0))
    assert given["widths"].tolist() == [0.5] * DIMS
    assert given["start"].cuts.tolist() == [5, 10, 15, 0, 0]
    PER_LEAF.leaf(data, leaf, None, np.random.default_rng(0))
    assert given["start"] is None


def test_a_leafs_chain_learns_from_as_many_as_a_leaf_should_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where there are more, from some of them, its own at every turn; the posterior knows all."""
    given: list[Any] = []

    def spy(blocks: Any, *arguments: Any, **options: Any) -> Any:
        given.append(blocks)
        return sample(blocks, *arguments, **options)

    monkeypatch.setattr("ebo.learning.per_leaf.sample", spy)
    leaf = Leaf(np.zeros(DIMS), np.ones(DIMS), np.arange(60))
    for seed in range(2):
        data = observed(60, leaf_size=25)
        model, _ = PER_LEAF.leaf(data, leaf, STRUCTURE, np.random.default_rng(seed))
        assert len(model.posterior.T) == 60
    rows = [[data.T.tolist().index(t.tolist()) for t in T] for ((T, _),) in given]
    for chosen, ((_, y),) in zip(rows, given, strict=True):
        assert len(set(chosen)) == 25
        np.testing.assert_array_equal(y, Scale.of(data.u).apply(data.u)[chosen])
    assert rows[0] != rows[1]


@pytest.mark.parametrize("kernel", FAMILIES)
@pytest.mark.parametrize("overlap", [0.0, 0.15])
@pytest.mark.parametrize("started", [False, True])
def test_a_leafs_own_model_is_a_tile_gp_on_its_box(
    kernel: str, overlap: float, started: bool
) -> None:
    """On the box that holds all it sees: inflated by the overlap, but no larger than the cube."""
    data = observed(200, kernel=kernel, overlap=overlap, noise=0.01)
    lower, upper = np.array([0.0, 0.1, 0.5, 0.3, 0.7]), np.array([0.6, 0.8, 0.9, 1.0, 1.0])
    low = np.array([max(value - overlap, 0.0) for value in lower])
    high = np.array([min(value + overlap, 1.0) for value in upper])
    rows = np.flatnonzero(np.all(data.T.clip(low, high) == data.T, axis=1))
    assert len(rows) > 3
    structure = STRUCTURE if started else None
    rng = np.random.default_rng(2)
    model, state = PER_LEAF.leaf(data, Leaf(lower, upper, rows), structure, rng)
    cube = leaf_box(low, high, SPACE.categorical)
    u = data.u[rows]
    scale = Scale.of(u)
    kernel_drawn = model.posterior.kernel
    gp = TileGP(kernel_drawn, cube, state.z, state.cuts, state.noise, form="kernel")
    gp.fit(data.T[rows], scale.apply(u))
    P = np.random.default_rng(3).uniform(low, high, (30, DIMS))
    P[:10, SPACE.categorical] = data.T[rows[:1]][:, SPACE.categorical]  # a category that was seen
    P = np.concatenate([P, data.T[rows[:5]]])
    mean, variance = gp.predict(P)
    mu, sd = model.predict(P)
    np.testing.assert_allclose(mu, scale.mean + scale.deviation * mean, atol=1e-8)
    np.testing.assert_allclose(sd**2, scale.deviation**2 * variance, atol=1e-8)
    # Labels are compared bit by bit.
    np.testing.assert_array_equal(model.to_leaf(data.T[rows]), model.posterior.T)


# All together.


@pytest.mark.parametrize("kernel", FAMILIES)
def test_wanted_leaves_and_no_others_have_models(kernel: str) -> None:
    """What a leaf's model is, and the structure, does not depend on which leaves are wanted."""
    data = observed(kernel=kernel)
    leaves = cut(data)
    assert len(leaves) > 3
    every = run(PER_LEAF, data, leaves, range(len(leaves)))
    assert list(every.models) == list(range(len(leaves)))
    for wanted in ([2, 0], [1], []):
        some = run(PER_LEAF, data, leaves, wanted)
        assert list(some.models) == wanted
        assert_same_structure(some.structure, every.structure)
        for j in wanted:
            assert_same_model(some.models[j], every.models[j])
    for j, leaf in enumerate(leaves):
        model = every.models[j]
        np.testing.assert_array_equal(model.T[: len(leaf.rows)], data.T[leaf.rows])
        np.testing.assert_array_equal(model.posterior.T, model.to_leaf(model.T))


@pytest.mark.parametrize("structure", [None, STRUCTURE])
def test_leaves_by_themselves_agree_afterwards(structure: Structure | None) -> None:
    """All of them have a voice, wanted or not."""
    data = observed(kernel="tile-coding", overlap=0.05)
    leaves = cut(data)
    learned = run(PER_LEAF, data, leaves, [1], structure)
    belief = learned.belief
    seeds = np.random.SeedSequence(12).spawn(len(leaves))
    results = [
        PER_LEAF.leaf(data, leaf, structure, np.random.default_rng(seed))
        for leaf, seed in zip(leaves, seeds, strict=True)
    ]
    assert_same_structure(learned.structure, synchronise(results, 8))
    assert_same_model(learned.models[1], results[1][0])
    assert belief.learned is learned.structure
    assert isinstance(belief.strategy, Additive)


@pytest.mark.parametrize("kernel", ["laplace", "tile-coding"])
@pytest.mark.parametrize("structure", [None, STRUCTURE])
def test_the_map_and_the_threads_do_not_matter(kernel: str, structure: Structure | None) -> None:
    data = observed(kernel=kernel)
    leaves = cut(data)
    wanted = range(len(leaves))
    learned = run(PER_LEAF, data, leaves, wanted, structure)
    with ThreadPoolExecutor(3) as pool:
        others = run(PER_LEAF, data, leaves, wanted, structure, map=pool.map, threads=3)
    assert_same_structure(learned.structure, others.structure)
    for j in wanted:
        assert_same_model(learned.models[j], others.models[j])


def test_there_are_no_probes_where_leaves_learn_by_themselves() -> None:
    """What they are made of is not handed on, and no block of them is learned from."""
    data = observed()
    for sweeps in (0, 1):
        belief = run(PerLeaf(sweeps=sweeps), data, cut(data), [0], STRUCTURE).belief
        assert isinstance(belief.strategy, Additive)
        assert belief.strategy.probes is None


@pytest.mark.parametrize("wanted", [[0, 1, 2], [1]])
def test_without_sweeps_leaves_are_conditioned_on_what_they_hold(wanted: list[int]) -> None:
    data, keeps = observed(), Ensemble(additive=Additive(borrows=False), mixture=None)
    leaves = cut(data)
    for structure in (STRUCTURE, None):
        learned = run(PerLeaf(sweeps=0), data, leaves, wanted, structure, ensemble=keeps)
        expected = structure or Structure.simplest(data.model, DIMS)
        assert_same_structure(learned.structure, expected)
        for j in wanted:
            np.testing.assert_array_equal(learned.models[j].T, data.T[leaves[j].rows])
            assert learned.models[j].posterior.noise == expected.noise


def test_without_sweeps_a_smooth_part_that_is_not_believed_is_not_used() -> None:
    """It may have been learned before, by others."""
    data, plain = observed(), Ensemble(additive=Additive(borrows=False), mixture=None)
    given = replace(STRUCTURE, smooth=Smooth(0.7, np.ones(DIMS), 0.05))
    learned = run(PerLeaf(sweeps=0), data, cut(data), [0], given, ensemble=plain)
    belief = learned.belief
    assert belief.structure.smooth is None
    assert learned.models[0].posterior.smooth is None
    assert learned.models[0].posterior.noise == STRUCTURE.noise
    assert learned.structure is given  # what is learned is not forgotten
