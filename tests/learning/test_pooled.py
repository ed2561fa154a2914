"""Pooled learning: which observations it is from, what it finds, and the leaves' models."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from ebo import box
from ebo.belief import Additive, Ensemble
from ebo.learning.base import Data, Structure, condition
from ebo.learning.model import NOISE_GRID, Model
from ebo.learning.pooled import MEMORY, SMOOTH_FROM, Pooled, _worth_learning_from, are_probes
from ebo.learning.sync import co_membership
from ebo.moves.probes import draw_probes, new_pair
from ebo.partition import Leaf, Partition, mondrian
from ebo.settings import Settings
from ebo.tilegp.families import FAMILIES
from ebo.tilegp.smooth import Smooth
from tests.learning.cases import (
    DIMS,
    POOLED,
    STRUCTURE,
    assert_same_model,
    assert_same_structure,
    cut,
    observed,
    run,
)


def learned_from(
    data: Data,
    before: Structure | None,
    seed: int = 0,
    *,
    smooth: bool = True,
    how: Pooled = POOLED,
) -> Structure:
    return how.structure(data, before, smooth, np.random.default_rng(seed), threads=1)


def plain(dims: int, T: np.typing.NDArray[np.float64], u: np.typing.NDArray[np.float64]) -> Data:
    """Data of continuous dimensions."""
    return Data(T, u, np.zeros(dims, dtype=np.bool_), Partition(), Model())


# Which observations structure is learned from.


@pytest.mark.parametrize("most", [5, 6, 500])
def test_all_are_worth_learning_from_where_there_are_few(most: int) -> None:
    u = np.array([3.0, 1.0, 2.0, 5.0, 1.0])
    rows = _worth_learning_from(u, most, np.random.default_rng(0))
    assert rows.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("most", "best"), [(1, 0), (5, 1), (19, 3), (50, 10), (99, 19)])
def test_a_share_are_the_best_and_the_others_random(most: int, best: int) -> None:
    u = np.random.default_rng(1).permutation(100).astype(float)
    counts = np.zeros(100)
    draws = 400
    for seed in range(draws):
        rows = _worth_learning_from(u, most, np.random.default_rng(seed))
        assert len(rows) == most
        assert (np.diff(rows) > 0).all()  # in order, and none twice
        counts[rows] += 1
    by_rank = counts[np.argsort(-u)]
    assert (by_rank[:best] == draws).all()
    others = by_rank[best:]
    share = (most - best) / (100 - best)
    # Drawn without replacement: the variance is that much smaller than a multinomial's.
    statistic = np.sum((others - draws * share) ** 2) / (draws * share * (1.0 - share))
    assert stats.chi2.sf(statistic * (1 - 1 / len(others)), len(others) - 1) > 1e-4


def test_equal_values_are_worth_the_same() -> None:
    rows = _worth_learning_from(np.zeros(50), 10, np.random.default_rng(0))
    assert len(set(rows.tolist())) == 10
    assert rows[:2].tolist() == [0, 1]  # the best share, in the order of the rows


def test_probes_are_a_block_of_their_own() -> None:
    rng = np.random.default_rng(5)
    T = rng.random((300, 8))
    pair = new_pair(T, T[:, 0], box([0.0] * 8, [1.0] * 8).snap, rng)
    T[100:140] = draw_probes(pair, 40, rng)
    data = plain(8, T, T.sum(axis=1))
    probes = set(np.flatnonzero(are_probes(T, pair)).tolist())
    *others, last = Pooled(block_size=100)._blocks(data, pair, np.random.default_rng(0))
    assert set(last.tolist()) == probes
    # One and a half times the size.
    *rest, last = Pooled(block_size=20)._blocks(data, pair, np.random.default_rng(0))
    assert len(last) == 30
    used = np.concatenate([*rest, last])  # other probes are like any points; blocks of one are not
    assert len(set(used.tolist())) == len(used) > 290
    assert not probes & set(np.concatenate(others).tolist())
    assert sum(len(block) for block in others) == 300 - len(probes)
    whole = Pooled(block_size=100)._blocks(data, None, np.random.default_rng(0))
    assert sorted(np.concatenate(whole).tolist()) == list(range(300))


def test_few_observations_are_one_block() -> None:
    for n in (0, 1, 2):
        data = plain(3, np.full((n, 3), 0.5), np.zeros(n))
        (only,) = Pooled()._blocks(data, None, np.random.default_rng(0))
        assert only.tolist() == list(range(n))


# What is learned.


def test_how_often_dimensions_were_together_is_remembered() -> None:
    data = observed()
    first = learned_from(data, None, 0)
    np.testing.assert_array_equal(first.together, co_membership(first.z))  # one sweep
    second = learned_from(data, first, 1)
    expected = MEMORY * first.together + (1.0 - MEMORY) * co_membership(second.z)
    np.testing.assert_allclose(second.together, expected)
    np.testing.assert_array_equal(np.diag(second.together), np.ones(DIMS))


def test_data_teach_the_structure_that_all_share() -> None:
    """Two dimensions that act together, one by itself and two that do nothing."""
    rng = np.random.default_rng(0)
    T = rng.random((300, DIMS))
    u = 1.4 * np.sign((T[:, 0] - 0.5) * (T[:, 2] - 0.5)) + np.sin(9.0 * T[:, 4])
    how = Pooled(block_size=100, sweeps=10)
    structure = how.structure(plain(DIMS, T, u / u.std()), None, True, rng, threads=1)
    z = structure.z
    assert z[0] == z[2] != z[4]
    assert structure.noise < 0.3
    assert min(structure.density[[0, 2, 4]]) > max(structure.density[[1, 3]])


@pytest.mark.parametrize("n", [0, 1, 2])
def test_learning_from_hardly_anything(n: int) -> None:
    structure = learned_from(observed(n), None, how=Pooled(sweeps=1, block_size=1))
    assert structure.z.shape == structure.density.shape == (DIMS,)
    assert structure.noise in NOISE_GRID


def test_the_smooth_part_is_fitted_where_the_best_observation_is() -> None:
    """Dimension 0 matters around the best observation, dimension 1 far away from it."""
    rng = np.random.default_rng(0)
    T = rng.random((2 * SMOOTH_FROM, 3))
    T[:, 2] = (np.arange(len(T)) < SMOOTH_FROM) * 0.9 + 0.1 * T[:, 2]  # two places
    u = np.where(T[:, 2] > 0.5, 1.0 + np.sin(9 * T[:, 0]), np.sin(9 * T[:, 1]))
    data = plain(3, T, u)
    first = learned_from(data, None, 0, how=Pooled())
    assert first.smooth is not None
    assert first.smooth.rates[0] > 3 * first.smooth.rates[1]
    assert first.leaf_noise == first.smooth.noise
    second = learned_from(data, first, 1, how=Pooled())
    assert second.smooth is not None
    np.testing.assert_allclose(second.smooth.rates, first.smooth.rates, rtol=0.5)
    without = learned_from(data, first, 0, smooth=False, how=Pooled())
    assert without.smooth is None
    assert without.leaf_noise == without.noise


def test_a_smooth_part_is_learned_if_there_is_a_mixture_to_believe() -> None:
    data = observed()
    for ensemble in (Ensemble(), Ensemble(mixture=None)):
        learned = run(POOLED, data, cut(data), [], ensemble=ensemble)
        assert (learned.structure.smooth is not None) == (ensemble.mixture is not None)


# The leaves.


@pytest.mark.parametrize("kernel", FAMILIES)
def test_wanted_leaves_and_no_others_have_models(kernel: str) -> None:
    """What a leaf's model is, and the structure, does not depend on which leaves are wanted."""
    data = observed(kernel=kernel)
    leaves = cut(data)
    assert len(leaves) > 3
    every = run(POOLED, data, leaves, range(len(leaves)))
    assert list(every.models) == list(range(len(leaves)))
    for wanted in ([2, 0], [1], []):
        some = run(POOLED, data, leaves, wanted)
        assert list(some.models) == wanted
        assert_same_structure(some.structure, every.structure)
        for j in wanted:
            assert_same_model(some.models[j], every.models[j])
    for j, leaf in enumerate(leaves):
        model = every.models[j]
        np.testing.assert_array_equal(model.T[: len(leaf.rows)], data.T[leaf.rows])
        np.testing.assert_array_equal(model.posterior.T, model.to_leaf(model.T))


@pytest.mark.parametrize("kernel", FAMILIES)
def test_leaves_are_conditioned_with_the_shared_structure(kernel: str) -> None:
    data = observed(kernel=kernel)
    leaves = cut(data)
    learned = run(POOLED, data, leaves, [1, 2], STRUCTURE)
    belief = learned.belief
    rng = np.random.default_rng(np.random.SeedSequence(11))
    shared = POOLED.structure(data, STRUCTURE, True, rng, threads=1)
    assert_same_structure(learned.structure, shared)
    believed = Ensemble().draw(shared, rng)
    assert type(believed.strategy) is type(belief.strategy)
    assert (believed.structure.smooth is None) == (belief.structure.smooth is None)
    seeds = np.random.SeedSequence(12).spawn(len(leaves))
    for j, model in learned.models.items():
        rng = np.random.default_rng(seeds[j])
        rows = believed.rows(data, leaves[j].rows, rng)
        assert_same_model(model, condition(data, rows, believed.structure, rng))


@pytest.mark.parametrize("kernel", ["laplace", "tile-coding"])
@pytest.mark.parametrize("structure", [None, STRUCTURE])
def test_the_map_and_the_threads_do_not_matter(kernel: str, structure: Structure | None) -> None:
    data = observed(kernel=kernel)
    leaves = cut(data)
    wanted = range(len(leaves))
    learned = run(POOLED, data, leaves, wanted, structure)
    with ThreadPoolExecutor(3) as pool:
        others = run(POOLED, data, leaves, wanted, structure, map=pool.map, threads=3)
    assert_same_structure(learned.structure, others.structure)
    for j in wanted:
        assert_same_model(learned.models[j], others.models[j])


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_the_smooth_part_is_believed_as_often_as_its_share_says(share: float) -> None:
    data = observed(40)
    given = replace(STRUCTURE, smooth=Smooth(share, np.ones(DIMS), 0.05))
    leaves = [Leaf(np.zeros(DIMS), np.ones(DIMS), np.arange(40))]
    believed = 0
    for seed in range(200):
        learned = run(Pooled(sweeps=0), data, leaves, [0], given, once=seed)
        belief = learned.belief
        assert learned.structure is given  # what is learned is not forgotten
        assert belief.learned is given
        posterior = learned.models[0].posterior
        assert posterior.noise == (0.05 if posterior.smooth else STRUCTURE.noise)
        believed += posterior.smooth is not None
    assert abs(believed - 200 * share) < 25


@pytest.mark.parametrize("preset", [Settings(), Settings.paper()])
def test_without_sweeps_the_structure_is_kept(preset: Settings) -> None:
    """In both presets; a leaf borrows from others in the default one."""
    rng = np.random.default_rng(0)
    T, u = rng.random((60, 4)), rng.standard_normal(60)
    settings = preset.changed(sweeps=0, leaf_size=30)
    data = Data(T, u, np.zeros(4, dtype=np.bool_), settings.partition, settings.model)
    leaves = mondrian(T, max_leaves=10, leaf_size=30, rng=rng)
    given = Structure(np.array([0, 1, 0, 1]), np.array([3.0, 4.0, 5.0, 6.0]), 0.1, np.eye(4))
    for structure in (given, None):
        learned = run(
            settings.learning,
            data,
            leaves,
            range(len(leaves)),
            structure,
            ensemble=settings.ensemble,
        )
        kept, models = learned.structure, learned.models
        if structure is given:
            assert kept is given
        else:
            np.testing.assert_array_equal(kept.z, np.arange(4))
        assert len(models) == len(leaves)
        assert all(len(model.posterior.groups) == len(set(kept.z)) for model in models.values())
        known = [len(model.T) for model in models.values()]
        own = [len(leaf.rows) for leaf in leaves]
        borrows = settings.ensemble.additive.borrows
        assert known == ([30 if n else 0 for n in own] if borrows else own)
        assert isinstance(learned.belief.strategy, Additive)
        assert learned.belief.strategy.probes is None  # what is not learned needs none
