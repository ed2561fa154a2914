from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ebo.arrays import Floats, Ints
from ebo.tilegp.features import (
    CellFeatures,
    FourierFeatures,
    MondrianFeatures,
    MondrianGrid,
    RandomBinning,
    TileCoding,
)
from tests import naive

FAMILIES = ("tile", "grid", "binning", "mondrian")
MAX_CUTS = 8


def draw(
    family: str,
    dims: int,
    layers: int,
    rng: np.random.Generator,
    categorical: NDArray[np.bool_] | None = None,
) -> CellFeatures:
    if family == "tile":
        return TileCoding.draw(dims, layers, rng, categorical)
    if family == "grid":
        return MondrianGrid.draw(dims, layers, rng, MAX_CUTS, categorical)
    if family == "binning":
        return RandomBinning.draw(dims, layers, rng, categorical)
    return MondrianFeatures.draw(dims, layers, rng, categorical)


def naive_cell(features: CellFeatures, cuts: Ints) -> Callable[[Floats, list[int], int], Hashable]:
    """The twin of a family's cells; cuts (D, L)."""

    def cell(t: Floats, group: list[int], layer: int) -> Hashable:
        cut = [d for d in group if not features.categorical[d]]
        kept = tuple(float(t[d]) for d in group if features.categorical[d])
        if isinstance(features, TileCoding):
            u = features.uniforms
            return kept, tuple(naive.tile_cell(t[d], cuts[d, layer], u[d, layer]) for d in cut)
        if isinstance(features, MondrianGrid):
            v = features.uniforms
            return kept, tuple(
                naive.grid_cell(t[d], cuts[d, layer], list(v[d, :, layer])) for d in cut
            )
        if isinstance(features, RandomBinning):
            g, u = features.gammas, features.uniforms
            return kept, tuple(
                naive.binning_cell(t[d], cuts[d, layer], g[d, layer], u[d, layer]) for d in cut
            )
        assert isinstance(features, MondrianFeatures)
        if not cut:
            return kept
        seeds = np.random.SeedSequence(features.seed, spawn_key=tuple(cut))
        root = int(seeds.generate_state(features.layers, np.uint64)[layer])
        zeros, ones = (0.0,) * len(cut), (1.0,) * len(cut)
        rates = [float(cuts[d, layer]) for d in cut]
        return kept, naive.mondrian_cell([float(t[d]) for d in cut], rates, root, zeros, ones)

    return cell


class Case:
    """A random family with points, some equal to others in some dimensions, z and cuts."""

    def __init__(self, family: str, seed: int, n: int = 9, per_layer: bool | None = None) -> None:
        rng = np.random.default_rng(seed)
        self.dims, self.layers = int(rng.integers(1, 6)), int(rng.integers(1, 7))
        categorical = rng.random(self.dims) < 0.25
        self.features = draw(family, self.dims, self.layers, rng, categorical)
        self.z = rng.integers(-1, 3, self.dims)
        if per_layer is None:
            per_layer = bool(rng.random() < 0.5)
        shape = (self.dims, self.layers) if per_layer else (self.dims,)
        self.cuts = rng.integers(0, MAX_CUTS + 1, shape) * rng.integers(0, 2, shape)
        self.T, self.T2 = self.points(rng, n), self.points(rng, n - 2)

    def points(self, rng: np.random.Generator, n: int) -> Floats:
        coarse = (rng.integers(0, 3, (n, self.dims)) + 0.5) / 3
        T = np.where(rng.random((n, self.dims)) < 0.3, coarse, rng.random((n, self.dims)))
        T = np.where(self.features.categorical, coarse, T)
        T[:1] = np.where(self.features.categorical, coarse[:1], 1.0)  # the far end of the cube
        return T

    @property
    def cuts_per_layer(self) -> Ints:
        return np.broadcast_to(self.cuts.reshape(self.dims, -1), (self.dims, self.layers))


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_gram_matches_its_naive_twin(family: str, seed: int) -> None:
    case = Case(family, seed)
    cell = naive_cell(case.features, case.cuts_per_layer)
    expected = naive.cell_gram(cell, case.T, case.T2, case.z.tolist(), case.layers)
    gram = case.features.gram(case.T, case.T2, case.z, case.cuts)
    np.testing.assert_array_equal(gram, expected)
    square = case.features.gram(case.T, case.T, case.z, case.cuts)
    np.testing.assert_array_equal(
        square, naive.cell_gram(cell, case.T, case.T, case.z.tolist(), case.layers)
    )
    assert (np.diag(square) == 1).all()


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_cells_mean_collisions_and_do_not_depend_on_the_other_points(
    family: str, seed: int
) -> None:
    case = Case(family, seed)
    f, z, cuts = case.features, case.z, case.cuts
    together = f.cells(np.vstack([case.T, case.T2]), z, cuts)
    apart = [
        np.concatenate(pair)
        for pair in zip(f.cells(case.T, z, cuts), f.cells(case.T2, z, cuts), strict=True)
    ]
    one_by_one = f.cells(case.T[-1:], z, cuts)
    count = np.zeros((len(case.T), len(case.T2)))
    for a, b, c in zip(together, apart, one_by_one, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a[len(case.T) - 1], c[0])
        left, right = a[: len(case.T)], a[len(case.T) :]
        count += (left[:, None] == right[None]).all(axis=-1).sum(axis=-1)
    gram = f.gram(case.T, case.T2, z, cuts)
    np.testing.assert_allclose(gram, count / (case.layers * len(together)), rtol=1e-15)


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_phi_is_a_square_root_of_kappa_and_leaves_unseen_cells_out(family: str, seed: int) -> None:
    case = Case(family, seed)
    f, z, cuts = case.features, case.z, case.cuts
    encode = f.encoder(case.T, z, cuts)
    phi, phi2 = encode(case.T), encode(case.T2)
    scale = case.layers * len(set(z.tolist()))
    assert phi.shape == (len(case.T), encode.columns)
    np.testing.assert_allclose(phi.data, 1 / np.sqrt(scale), rtol=1e-15)
    assert (phi.sum(axis=0) > 0).all()  # every column is a cell that a training point occupies
    np.testing.assert_allclose((phi @ phi.T).toarray(), f.gram(case.T, case.T, z, cuts), atol=1e-14)
    np.testing.assert_allclose(
        (phi2 @ phi.T).toarray(), f.gram(case.T2, case.T, z, cuts), atol=1e-14
    )
    for i in range(len(case.T2)):  # the seen cells of each test point
        seen = [
            (codes2[i, layer] == codes[:, layer]).all(axis=-1).any()
            for codes, codes2 in zip(
                f.cells(case.T, z, cuts), f.cells(case.T2, z, cuts), strict=True
            )
            for layer in range(case.layers)
        ]
        assert (phi2[[i]] ** 2).sum() == pytest.approx(sum(seen) / scale)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_points_and_no_cuts(family: str) -> None:
    rng = np.random.default_rng(0)
    f = draw(family, 3, 4, rng)
    z, cuts, none, T = (
        np.array([0, 1, 0]),
        np.array([2, 0, 3]),
        np.empty((0, 3)),
        rng.random((5, 3)),
    )
    assert f.gram(none, none, z, cuts).shape == (0, 0)
    assert f.gram(none, T, z, cuts).shape == (0, 5)
    assert f.gram(T, none, z, cuts).shape == (5, 0)
    encode = f.encoder(none, z, cuts)
    assert encode(none).shape == (0, 0)
    assert encode(T).shape == (5, 0)
    assert (f.gram(T, T, z, np.zeros(3, dtype=int)) == 1).all()
    assert f.encoder(T, z, np.zeros(3, dtype=int)).columns == 2 * 4


@pytest.mark.parametrize("family", FAMILIES)
def test_a_category_collides_with_itself_only(family: str) -> None:
    rng = np.random.default_rng(1)
    f = draw(family, 2, 50, rng, np.array([False, True]))
    T = np.array([[0.2, 0.5 / 3], [0.2, 1.5 / 3], [0.2, 2.5 / 3], [0.2, 0.5 / 3]])
    for cuts in ([0, 0], [8, 1], [3, 8]):
        together = f.gram(T, T, np.array([0, 0]), cuts)
        assert (together == (T[:, 1][:, None] == T[:, 1])).all()
        apart = f.gram(T, T, np.array([0, 1]), cuts)
        assert (apart == (1 + together) / 2).all()


@pytest.mark.parametrize("family", ["tile", "binning", "mondrian"])
def test_many_cuts_still_have_exact_cells(family: str) -> None:
    rng = np.random.default_rng(2)
    f = draw(family, 4, 6, rng)
    T = rng.random((30, 4))
    gram = f.gram(np.vstack([T, T]), T, np.zeros(4, dtype=int), np.full(4, 10**9))
    assert (gram == np.vstack([np.eye(30), np.eye(30)])).all()


def test_tile_cuts_are_where_they_should_be() -> None:
    u, k = 0.3, 4
    f = TileCoding(np.array([[u]]))
    cuts = (u + np.arange(k)) / k
    t = np.linspace(0, 1, 1001)[:, None]
    cells = f.cells(t, np.array([0]), [k])[0][:, 0, 0]
    assert (cells == (cuts <= t).sum(axis=1)).all()
    assert set(cells) == set(range(k + 1))


def test_a_point_on_a_cut_belongs_to_the_cell_above() -> None:
    T, z = np.array([[0.25], [0.5]]), np.array([0])
    assert TileCoding([[0.5]]).cells(T, z, [1])[0].ravel().tolist() == [0, 1]
    assert TileCoding([[0.0]]).cells(T, z, [2])[0].ravel().tolist() == [1, 2]
    assert MondrianGrid([[[0.5]]]).cells(T, z, [1])[0].ravel().tolist() == [0, 1]


def test_another_number_of_cuts_on_a_grid_only_adds_cuts() -> None:
    rng = np.random.default_rng(3)
    f = MondrianGrid.draw(1, 20, rng, MAX_CUTS)
    T = rng.random((40, 1))
    grams = [f.gram(T, T, np.array([0]), [k]) for k in range(MAX_CUTS + 1)]
    assert all((b <= a).all() for a, b in itertools.pairwise(grams))


def test_mondrian_trees_are_a_function_of_seed_dimensions_and_rates() -> None:
    rng = np.random.default_rng(4)
    T = rng.random((50, 3))
    f, same, other = (MondrianFeatures(3, 10, seed) for seed in (7, 7, 8))
    z = np.array([0, 1, 0])
    first = f.cells(T, z, [3, 4, 5])
    # Group {0, 2} keeps its tree when dimension 1 has other cuts or the groups other numbers.
    assert (same.cells(T, np.array([5, 2, 5]), [3, 9, 5])[1] == first[0]).all()
    assert (other.cells(T, z, [3, 4, 5])[0] != first[0]).any()
    assert (f.cells(T, z, [3, 4, 6])[0] != first[0]).any()


def test_large_groups_and_many_dimensions() -> None:
    rng = np.random.default_rng(5)
    T = rng.random((20, 300))
    for family in FAMILIES:
        f = draw(family, 300, 3, rng)
        for z in (np.zeros(300, dtype=int), np.arange(300)):
            gram = f.gram(T, T, z, np.full(300, 2))
            assert (np.diag(gram) == 1).all()
            assert np.isfinite(gram).all()


def test_fourier_features_match_their_definition_and_have_unit_variance() -> None:
    rng = np.random.default_rng(6)
    f = FourierFeatures.draw(4, 7, rng)
    T, T2, z = rng.random((5, 4)), rng.random((3, 4)), np.array([0, 1, 0, 2])
    for cuts in (np.array([1.5, 0, 2, 3]), rng.random((4, 7)) * 5):
        k = np.broadcast_to(cuts.reshape(4, -1), (4, 7))
        gram = f.gram(T, T2, z, cuts)
        for i in range(5):
            for j in range(3):
                total = 0.0
                for group in naive.groups(z.tolist()):
                    for layer in range(7):
                        total += np.cos(
                            sum(
                                f.frequencies[d, layer] * k[d, layer] * (T[i, d] - T2[j, d])
                                for d in group
                            )
                        )
                assert gram[i, j] == pytest.approx(total / 21, abs=1e-13)
        np.testing.assert_allclose(np.diag(f.gram(T, T, z, cuts)), 1, rtol=1e-13)
        np.testing.assert_array_equal(f.encoder(T, z, cuts)(T2), f.transform(T2, z, cuts))
        assert f.transform(T, z, cuts).shape == (5, 2 * 7 * 3)


def test_bad_families() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"dimension 1 is categorical.*use a family with cells"):
        FourierFeatures.draw(2, 3, rng, categorical=[False, True])
    with pytest.raises(ValueError, match="unknown kind 'cosine'; choose"):
        FourierFeatures.draw(2, 3, rng, kind="cosine")
    with pytest.raises(ValueError, match=r"frequencies have shape \(3,\)"):
        FourierFeatures(np.zeros(3))
    with pytest.raises(ValueError, match=r"uniforms have shape \(3,\); expected 2 axes"):
        TileCoding(np.zeros(3))
    with pytest.raises(ValueError, match=r"values in \[0, 1\]"):
        TileCoding([[1.5]])
    with pytest.raises(ValueError, match=r"gammas have shape \(1, 1\)"):
        RandomBinning([[0.0]], [[0.5]])
    with pytest.raises(ValueError, match=r"mask has shape \(3,\), expected \(2,\)"):
        TileCoding.draw(2, 3, rng, [True, False, True])
    with pytest.raises(ValueError, match="2 dimensions and 0 layers"):
        MondrianFeatures(2, 0, seed=1)


def test_bad_arguments() -> None:
    rng = np.random.default_rng(0)
    T, z, cuts = rng.random((4, 2)), np.array([0, 1]), np.array([1, 2])
    f = TileCoding.draw(2, 3, rng)
    with pytest.raises(ValueError, match=r"points have shape \(4, 1\), expected \(n, 2\)"):
        f.gram(T[:, :1], T, z, cuts)
    with pytest.raises(ValueError, match=r"point 0, dimension 0: 2.* is outside .*Box.to_unit"):
        f.gram(T, T + 2, z, cuts)
    with pytest.raises(ValueError, match="nan is outside"):
        f.cells(np.full((1, 2), np.nan), z, cuts)
    with pytest.raises(ValueError, match=r"z has shape \(3,\), expected \(2,\)"):
        f.gram(T, T, np.array([0, 1, 1]), cuts)
    with pytest.raises(ValueError, match="type float64; give one whole number"):
        f.gram(T, T, np.array([0.0, 1.0]), cuts)
    with pytest.raises(ValueError, match=r"cuts have shape \(2, 4\), expected \(2,\) or \(2, 3\)"):
        f.gram(T, T, z, np.ones((2, 4), dtype=int))
    for wrong in (-1, 1.5, np.nan, np.inf, 10**10):
        with pytest.raises(ValueError, match=r"cuts of dimension 1.*a whole number from 0"):
            f.gram(T, T, z, [1, wrong])
    with pytest.raises(ValueError, match=r"cuts of dimension 0: -0.5; give a rate from 0"):
        RandomBinning.draw(2, 3, rng).gram(T, T, z, [-0.5, 1])
    with pytest.raises(ValueError, match="cuts of dimension 1: 9, but only 8 were drawn"):
        MondrianGrid.draw(2, 3, rng, 8).gram(T, T, z, [8, 9])
