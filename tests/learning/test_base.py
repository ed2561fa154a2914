"""The scale of values, the start of a chain, and what a leaf's model says of its observations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ebo.learning.base import SHRINKAGE, Scale, Structure, chain_start, condition
from ebo.learning.model import NOISE_GRID, Model
from ebo.partition import Leaf
from ebo.tilegp.families import FAMILIES, GRID_CUTS
from ebo.tilegp.kernel import MOST_SAMPLED_CUTS
from ebo.tilegp.posterior import Posterior
from ebo.tilegp.smooth import Smooth
from tests.learning.cases import DIMS, FINITE, PER_LEAF, POOLED, SPACE, STRUCTURE, observed, voice

# The scale of a leaf.


def test_without_values_the_scale_is_that_of_the_whole() -> None:
    scale = Scale.of(np.empty(0))
    assert (scale.mean, scale.deviation) == (0.0, 1.0)


def test_with_many_values_the_scale_is_their_own() -> None:
    u = np.random.default_rng(0).normal(5.0, 3.0, 100_000)
    scale = Scale.of(u)
    assert scale.mean == pytest.approx(u.mean(), rel=2 * SHRINKAGE / len(u))
    assert scale.deviation == pytest.approx(u.std(), rel=1e-3)
    assert scale.apply(u).mean() == pytest.approx(0.0, abs=1e-3)
    assert scale.apply(u).std() == pytest.approx(1.0, abs=1e-3)


def test_the_scale_is_as_if_a_few_more_values_had_been_seen() -> None:
    """Four values, of mean zero and of squared distance one from the mean that comes out."""
    for n in (1, 2, 4, 9):
        u = np.random.default_rng(n).normal(2.0, 0.5, n)
        scale = Scale.of(u)
        assert scale.mean == pytest.approx(sum(u) / (n + 4))
        square = sum((value - scale.mean) ** 2 for value in u) + 4.0
        assert scale.deviation == pytest.approx((square / (n + 4)) ** 0.5)
    half = Scale.of(np.full(4, 3.0))
    assert half.mean == 1.5


@pytest.mark.parametrize("n", [1, 7, 1000])
def test_equal_values_have_a_scale(n: int) -> None:
    scale = Scale.of(np.full(n, -2.0))
    assert scale.deviation > 0.05
    assert np.isfinite(scale.apply(np.full(n, -2.0))).all()


# Structures, and the start of a chain.


def test_the_simplest_structure() -> None:
    structure = Structure.simplest(Model(beta=(0.5, 3.0)), 4)
    assert structure.z.tolist() == [0, 1, 2, 3]
    assert structure.density.tolist() == [6.0] * 4
    assert structure.noise == 1.0
    np.testing.assert_array_equal(structure.together, np.eye(4))


@pytest.mark.parametrize(
    ("share", "additive", "smooth"),
    [
        (None, 1.0, 0.0),
        (0.0, 1.0, 0.0),
        (0.2, 0.6, 0.0),
        (0.5, 0.0, 0.0),
        (0.9, 0.0, 0.8),
        (1.0, 0.0, 1.0),
    ],
)
def test_how_far_one_part_outweighs_the_other(
    share: float | None, additive: float, smooth: float
) -> None:
    part = None if share is None else Smooth(share, np.ones(DIMS), 0.1)
    structure = replace(STRUCTURE, smooth=part)
    assert structure.additive_lead == pytest.approx(additive)
    assert structure.smooth_lead == pytest.approx(smooth)


@pytest.mark.parametrize("kernel", FAMILIES)
def test_a_start_keeps_to_the_cuts_that_there_are(kernel: str) -> None:
    model = Model(kernel=kernel, layers=6)
    most = GRID_CUTS if kernel == "mondrian-grid" else MOST_SAMPLED_CUTS
    density = np.array([1e6, 3.0, 10.0, 0.0, 300.0])
    width = np.array([1.0, 1.0, 0.26, 0.5, 0.1])
    drawn = model.draw_kernel(SPACE.categorical, np.random.default_rng(0))
    state = chain_start(replace(STRUCTURE, density=density), width, drawn, model.prior())
    assert state.cuts.dtype == np.int64
    assert state.cuts.tolist() == [most, 3, 3, 0, 30]
    assert state.z.tolist() == STRUCTURE.z.tolist()
    assert state.noise == STRUCTURE.noise


@pytest.mark.parametrize("kernel", FINITE)
def test_a_start_has_cuts_of_every_layer(kernel: str) -> None:
    model = Model(kernel=kernel, layers=6, per_layer=True)
    drawn = model.draw_kernel(SPACE.categorical, np.random.default_rng(0))
    state = chain_start(STRUCTURE, np.ones(DIMS), drawn, model.prior())
    assert state.cuts.tolist() == [[k] * 6 for k in (3, 1, 7, 0, 2)]


@pytest.mark.parametrize(
    ("kernel", "per_layer"),
    [*((kernel, False) for kernel in FAMILIES), *((kernel, True) for kernel in FINITE)],
)
def test_a_chain_starts_from_any_structure(kernel: str, per_layer: bool) -> None:
    """Densities of narrow leaves may be beyond all cuts, and noise is between those of the grid."""
    structure = replace(STRUCTURE, density=np.array([1e8, 256.0, 64.5, 0.0, 1e3]), noise=3.3e-4)
    for n in (0, 1, 30):
        data = observed(n, kernel=kernel, per_layer=per_layer)
        leaf = Leaf(np.zeros(DIMS), np.ones(DIMS), np.arange(n))
        model, state = PER_LEAF.leaf(data, leaf, structure, np.random.default_rng(0))
        assert state.cuts.shape == ((DIMS, 6) if per_layer else (DIMS,))
        assert state.noise in NOISE_GRID
        learned = POOLED.structure(data, structure, True, np.random.default_rng(0), threads=1)
        assert learned.density.max() <= MOST_SAMPLED_CUTS
        pooled = condition(data, leaf.rows, learned, np.random.default_rng(0))
        for each in (model, pooled):
            mean, sd = each.predict(data.T[:3])
            assert np.isfinite(mean).all()
            assert (sd > 0).all()


# Models.


@pytest.mark.parametrize("kernel", FAMILIES)
@pytest.mark.parametrize("rows", [[], [3], list(range(0, 60, 2))])
@pytest.mark.parametrize("smooth", [None, Smooth(0.4, np.full(DIMS, 2.0), 0.02)])
def test_condition_is_a_posterior_made_by_hand(
    kernel: str, rows: list[int], smooth: Smooth | None
) -> None:
    """Values are standardised, and then once more by the scale at which the kernel fits best."""
    data = observed(kernel=kernel)
    given = replace(STRUCTURE, smooth=smooth)
    chosen = np.array(rows, dtype=np.int64)
    model = condition(data, chosen, given, np.random.default_rng(4))
    drawn = data.model.draw_kernel(SPACE.categorical, np.random.default_rng(4))
    u, n = data.u[rows], len(rows)
    mean = u.sum() / (n + 4)
    deviation = np.sqrt((np.sum((u - mean) ** 2) + 4) / (n + 4))
    y = (u - mean) / deviation
    cuts = STRUCTURE.density if kernel not in FINITE else np.array([3.0, 1.0, 7.0, 0.0, 2.0])
    T = data.T[rows].reshape(n, DIMS)
    noise = STRUCTURE.noise if smooth is None else smooth.noise
    expected = Posterior.of(drawn, STRUCTURE.z, cuts, noise, T, y, smooth)
    K = expected.kappa(T, T) + noise * np.eye(n)
    scale = np.sqrt((y @ np.linalg.solve(K, y) + 4) / (n + 4))
    P = SPACE.snap(np.random.default_rng(1).random((20, DIMS)))  # also outside the leaf
    mu, sd = expected.predict(P)
    means, deviations = model.predict(P)
    np.testing.assert_allclose(means, mean + deviation * mu, rtol=1e-10)
    np.testing.assert_allclose(deviations, scale * deviation * sd, rtol=1e-10)
    np.testing.assert_array_equal(model.to_leaf(P), P)
    np.testing.assert_allclose(model.y, y / scale)
    np.testing.assert_array_equal(model.T, T)


def test_points_beyond_a_leafs_box_are_taken_to_its_face() -> None:
    model, _ = voice([0.5, 0.25], [0, 1], [1, 1])
    model = replace(model, lower=np.array([0.25, 0.5]))
    P = np.array([[0.0, 0.4], [0.25, 0.5], [0.5, 0.625], [0.75, 0.75], [1.0, 0.9]])
    expected = [[0.0, 0.0], [0.0, 0.0], [0.5, 0.5], [1.0, 1.0], [1.0, 1.0]]
    assert model.to_leaf(P).tolist() == expected
    assert model.to_leaf(P[2]).tolist() == [0.5, 0.5]
