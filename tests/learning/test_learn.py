"""What is learned, pooled and leaf by leaf, and what a leaf's model then says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import stats
from threadpoolctl import threadpool_limits

from ebo import Categorical, Float, Int, Space
from ebo.learn import (
    GRID_CUTS,
    MEMORY,
    NOISE_GRID,
    SHRINKAGE,
    SMOOTH_FROM,
    Data,
    LeafModel,
    Structure,
    _believed,
    _Scale,
    _simplest,
    _state,
    _with_nearest,
    _with_some_of_the_best,
    _worth_learning_from,
    condition,
    draw_kernel,
    leaf_box,
    learn,
    learn_leaf,
    learn_pooled,
    prior_of,
    synchronise,
)
from ebo.partition import Leaf, mondrian
from ebo.settings import KERNELS, Settings
from ebo.sync import co_membership
from ebo.tilegp.gibbs import MAX_CUTS, State, sample
from ebo.tilegp.kernel import Laplace
from ebo.tilegp.leaves import Map
from ebo.tilegp.model import TileGP
from ebo.tilegp.posterior import Posterior
from ebo.tilegp.smooth import Smooth

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


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """As the optimizer has it: many small products, which threads only slow down."""
    with threadpool_limits(1):
        yield


def observed(n: int = 60, seed: int = 0, **changes: Any) -> Data:
    rng = np.random.default_rng(seed)
    T = SPACE.snap(rng.random((n, DIMS)))
    u = np.sin(6.0 * T[:, 0]) * T[:, 2] + 2.0 * (T[:, 1] > 0.5) - T[:, 4] + 1.5
    options = {"layers": 6, "sweeps": 1, "block_size": 20, "leaf_size": 25, **changes}
    return Data(T, u, SPACE.categorical, Settings(**options))


def cut(data: Data, seed: int = 5) -> list[Leaf]:
    settings = data.settings
    return mondrian(
        data.T,
        max_leaves=6,
        leaf_size=settings.leaf_size,
        rng=np.random.default_rng(seed),
        overlap=settings.overlap,
    )


def run(
    data: Data,
    leaves: Sequence[Leaf],
    wanted: Sequence[int],
    structure: Structure | None = None,
    *,
    map: Map = map,
    threads: int = 1,
) -> tuple[dict[int, LeafModel], Structure]:
    """`learn` with streams of its own: one that has been used would give others."""
    once, each = np.random.SeedSequence(11).spawn(2)
    return learn(data, leaves, wanted, structure, streams=(once, each), map=map, threads=threads)


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


# The scale of a leaf.


def test_without_values_the_scale_is_that_of_the_whole() -> None:
    scale = _Scale.of(np.empty(0))
    assert (scale.mean, scale.deviation) == (0.0, 1.0)


def test_with_many_values_the_scale_is_their_own() -> None:
    u = np.random.default_rng(0).normal(5.0, 3.0, 100_000)
    scale = _Scale.of(u)
    assert scale.mean == pytest.approx(u.mean(), rel=2 * SHRINKAGE / len(u))
    assert scale.deviation == pytest.approx(u.std(), rel=1e-3)
    assert scale.apply(u).mean() == pytest.approx(0.0, abs=1e-3)
    assert scale.apply(u).std() == pytest.approx(1.0, abs=1e-3)


def test_the_scale_is_as_if_a_few_more_values_had_been_seen() -> None:
    """Four values, of mean zero and of squared distance one from the mean that comes out."""
    for n in (1, 2, 4, 9):
        u = np.random.default_rng(n).normal(2.0, 0.5, n)
        scale = _Scale.of(u)
        assert scale.mean == pytest.approx(sum(u) / (n + 4))
        square = sum((value - scale.mean) ** 2 for value in u) + 4.0
        assert scale.deviation == pytest.approx((square / (n + 4)) ** 0.5)
    half = _Scale.of(np.full(4, 3.0))
    assert half.mean == 1.5


@pytest.mark.parametrize("n", [1, 7, 1000])
def test_equal_values_have_a_scale(n: int) -> None:
    scale = _Scale.of(np.full(n, -2.0))
    assert scale.deviation > 0.05
    assert np.isfinite(scale.apply(np.full(n, -2.0))).all()


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


# What the leaves agree on.


def voice(width: Sequence[float], z: Sequence[int], cuts: Any, noise: float = 0.1) -> Any:
    """A leaf's model, of which only the width matters here, and the state of its chain."""
    dims = len(width)
    nothing = np.empty((0, dims)), np.empty(0)
    posterior = Posterior(Laplace(), np.zeros(dims, dtype=np.int64), np.ones(dims), 0.1, *nothing)
    model = LeafModel(posterior, *nothing, np.zeros(dims), np.asarray(width), 0.0, 1.0)
    return model, State(np.asarray(z), np.asarray(cuts), noise)


def test_leaves_of_different_width_agree_on_densities() -> None:
    """Eight cuts on the whole range are four on its half and one on its eighth."""
    leaves = [
        voice([1.0, 1.0], [0, 1], [8, 3]),
        voice([0.5, 1.0], [0, 1], [4, 3]),
        voice([0.125, 0.25], [0, 1], [1, 1]),
    ]
    structure = synchronise(leaves, Settings())
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
        density = synchronise(leaves, Settings()).density
        assert density.tolist() == [round(value) for value in expected]


def test_dimensions_are_together_where_most_leaves_say_so() -> None:
    z = [[0, 0, 1, 1], [0, 0, 1, 2], [0, 1, 1, 1], [0, 0, 0, 2]]
    structure = synchronise([voice([1.0] * 4, row, [1] * 4) for row in z], Settings())
    np.testing.assert_array_equal(structure.together, co_membership(z))
    assert structure.z.tolist() == [0, 0, 1, 2]  # two of four leaves are not most of them


def test_the_group_limit_holds_for_what_is_agreed_on() -> None:
    leaves = [voice([1.0] * 4, [0] * 4, [1] * 4) for _ in range(3)]
    assert synchronise(leaves, Settings(group_limit=None)).z.tolist() == [0] * 4
    assert np.bincount(synchronise(leaves, Settings(group_limit=2)).z).tolist() == [2, 2]


def test_noise_is_the_geometric_mean() -> None:
    leaves = [voice([1.0], [0], [1], noise) for noise in (1e-4, 1e-2, 1.0)]
    assert synchronise(leaves, Settings()).noise == pytest.approx(1e-2)


# The start of a chain.


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_start_keeps_to_the_cuts_that_there_are(kernel: str) -> None:
    settings = Settings(kernel=kernel, layers=6)
    most = GRID_CUTS if kernel == "mondrian-grid" else MAX_CUTS
    density = np.array([1e6, 3.0, 10.0, 0.0, 300.0])
    width = np.array([1.0, 1.0, 0.26, 0.5, 0.1])
    drawn = draw_kernel(settings, SPACE.categorical, np.random.default_rng(0))
    structure = replace(STRUCTURE, density=density)
    state = _state(structure, width, drawn, prior_of(settings))
    assert state.cuts.dtype == np.int64
    assert state.cuts.tolist() == [most, 3, 3, 0, 30]
    assert state.z.tolist() == STRUCTURE.z.tolist()
    assert state.noise == STRUCTURE.noise


@pytest.mark.parametrize("kernel", FINITE)
def test_a_start_has_cuts_of_every_layer(kernel: str) -> None:
    settings = Settings(kernel=kernel, layers=6, per_layer=True)
    drawn = draw_kernel(settings, SPACE.categorical, np.random.default_rng(0))
    state = _state(STRUCTURE, np.ones(DIMS), drawn, prior_of(settings))
    assert state.cuts.tolist() == [[k] * 6 for k in (3, 1, 7, 0, 2)]


@pytest.mark.parametrize(
    ("kernel", "per_layer"),
    [*((kernel, False) for kernel in KERNELS), *((kernel, True) for kernel in FINITE)],
)
def test_a_chain_starts_from_any_structure(kernel: str, per_layer: bool) -> None:
    """Densities of narrow leaves may be beyond all cuts, and noise is between those of the grid."""
    structure = replace(STRUCTURE, density=np.array([1e8, 256.0, 64.5, 0.0, 1e3]), noise=3.3e-4)
    for n in (0, 1, 30):
        data = observed(n, kernel=kernel, per_layer=per_layer)
        leaf = Leaf(np.zeros(DIMS), np.ones(DIMS), np.arange(n))
        model, state = learn_leaf(data, leaf, structure, np.random.default_rng(0))
        assert state.cuts.shape == ((DIMS, 6) if per_layer else (DIMS,))
        assert state.noise in NOISE_GRID
        learned = learn_pooled(data, structure, np.random.default_rng(0), threads=1)
        assert learned.density.max() <= MAX_CUTS
        pooled = condition(data, leaf.rows, learned, np.random.default_rng(0))
        for each in (model, pooled):
            mean, sd = each.predict(data.T[:3])
            assert np.isfinite(mean).all()
            assert (sd > 0).all()


def test_a_leafs_chain_starts_with_the_cuts_of_its_own_width(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: dict[str, Any] = {}

    def spy(*arguments: Any, **options: Any) -> Any:
        given.update(options)
        return sample(*arguments, **options)

    monkeypatch.setattr("ebo.learn.sample", spy)
    leaf = Leaf(np.full(DIMS, 0.25), np.full(DIMS, 0.5), np.arange(0))
    structure = replace(STRUCTURE, density=np.array([10.0, 20.0, 30.0, 0.0, 1.0]))
    data = observed(overlap=0.125)
    learn_leaf(data, leaf, structure, np.random.default_rng(0))
    assert given["widths"].tolist() == [0.5] * DIMS
    assert given["start"].cuts.tolist() == [5, 10, 15, 0, 0]
    learn_leaf(data, leaf, None, np.random.default_rng(0))
    assert given["start"] is None


def test_a_leafs_chain_learns_from_as_many_as_a_leaf_should_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where there are more, from some of them, its own at every turn; the posterior knows all."""
    given: list[Any] = []

    def spy(blocks: Any, *arguments: Any, **options: Any) -> Any:
        given.append(blocks)
        return sample(blocks, *arguments, **options)

    monkeypatch.setattr("ebo.learn.sample", spy)
    leaf = Leaf(np.zeros(DIMS), np.ones(DIMS), np.arange(60))
    for seed in range(2):
        data = observed(60, pooled=False, leaf_size=25)
        model, _ = learn_leaf(data, leaf, STRUCTURE, np.random.default_rng(seed))
        assert len(model.posterior.T) == 60
    rows = [[data.T.tolist().index(t.tolist()) for t in T] for ((T, _),) in given]
    for chosen, ((_, y),) in zip(rows, given, strict=True):
        assert len(set(chosen)) == 25
        np.testing.assert_array_equal(y, _Scale.of(data.u).apply(data.u)[chosen])
    assert rows[0] != rows[1]


def test_the_simplest_structure() -> None:
    structure = _simplest(Settings(beta=(0.5, 3.0)), 4)
    assert structure.z.tolist() == [0, 1, 2, 3]
    assert structure.density.tolist() == [6.0] * 4
    assert structure.noise == 1.0
    np.testing.assert_array_equal(structure.together, np.eye(4))


# Models.


@pytest.mark.parametrize("kernel", KERNELS)
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
    drawn = draw_kernel(data.settings, SPACE.categorical, np.random.default_rng(4))
    u, n = data.u[rows], len(rows)
    mean = u.sum() / (n + 4)
    deviation = np.sqrt((np.sum((u - mean) ** 2) + 4) / (n + 4))
    y = (u - mean) / deviation
    cuts = STRUCTURE.density if kernel not in FINITE else np.array([3.0, 1.0, 7.0, 0.0, 2.0])
    T = data.T[rows].reshape(n, DIMS)
    noise = STRUCTURE.noise if smooth is None else smooth.noise
    expected = Posterior(drawn, STRUCTURE.z, cuts, noise, T, y, smooth)
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


@pytest.mark.parametrize("kernel", KERNELS)
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
    model, state = learn_leaf(data, Leaf(lower, upper, rows), structure, rng)
    cube = leaf_box(low, high, SPACE.categorical)
    u = data.u[rows]
    scale = _Scale.of(u)
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


def test_points_beyond_a_leafs_box_are_taken_to_its_face() -> None:
    model, _ = voice([0.5, 0.25], [0, 1], [1, 1])
    model = replace(model, lower=np.array([0.25, 0.5]))
    P = np.array([[0.0, 0.4], [0.25, 0.5], [0.5, 0.625], [0.75, 0.75], [1.0, 0.9]])
    expected = [[0.0, 0.0], [0.0, 0.0], [0.5, 0.5], [1.0, 1.0], [1.0, 1.0]]
    assert model.to_leaf(P).tolist() == expected
    assert model.to_leaf(P[2]).tolist() == [0.5, 0.5]


# All together.


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("pooled", [True, False])
def test_wanted_leaves_and_no_others_have_models(kernel: str, pooled: bool) -> None:
    """What a leaf's model is, and the structure, does not depend on which leaves are wanted."""
    data = observed(pooled=pooled, kernel=kernel)
    leaves = cut(data)
    assert len(leaves) > 3
    every, structure = run(data, leaves, range(len(leaves)))
    assert list(every) == list(range(len(leaves)))
    for wanted in ([2, 0], [1], []):
        models, same = run(data, leaves, wanted)
        assert list(models) == wanted
        assert_same_structure(same, structure)
        for j in wanted:
            assert_same_model(models[j], every[j])
    for j, leaf in enumerate(leaves):
        np.testing.assert_array_equal(every[j].T[: len(leaf.rows)], data.T[leaf.rows])
        np.testing.assert_array_equal(every[j].posterior.T, every[j].to_leaf(every[j].T))


@pytest.mark.parametrize("kernel", KERNELS)
def test_pooled_leaves_are_conditioned_with_the_shared_structure(kernel: str) -> None:
    data = observed(kernel=kernel)
    leaves = cut(data)
    models, structure = run(data, leaves, [1, 2], STRUCTURE)
    once, each = np.random.SeedSequence(11).spawn(2)
    rng = np.random.default_rng(once)
    shared = learn_pooled(data, STRUCTURE, rng, threads=1)
    assert_same_structure(structure, shared)
    believed = _believed(shared, rng)
    seeds = each.spawn(len(leaves))
    for j, model in models.items():
        rng = np.random.default_rng(seeds[j])
        rows = _with_nearest(data, leaves[j].rows)
        if believed.smooth is None:
            rows = _with_some_of_the_best(data, leaves[j].rows, shared.additive_lead, rng)
        assert_same_model(model, condition(data, rows, believed, rng))


@pytest.mark.parametrize("own", [[], [3], list(range(0, 60, 3)), list(range(0, 60, 2))])
def test_with_a_smooth_part_a_leaf_knows_its_surroundings(own: list[int]) -> None:
    """The nearest to its best, to 25 in all."""
    data = observed()
    rows = _with_nearest(data, np.array(own, dtype=np.int64)).tolist()
    assert rows[: len(own)] == own
    if own:
        best = data.T[max(own, key=lambda i: data.u[i])]
        others = sorted(set(range(60)) - set(own), key=lambda i: np.linalg.norm(data.T[i] - best))
        assert rows[len(own) :] == others[: max(0, 25 - len(own))]


@pytest.mark.parametrize("own", [[], [3], list(range(0, 60, 5)), list(range(0, 60, 2))])
@pytest.mark.parametrize("lead", [0.0, 0.6, 1.0])
def test_without_one_it_knows_good_ones_from_anywhere(own: list[int], lead: float) -> None:
    """Some of the best others, to 25 in all if the function is additive and none if half is not."""
    data, size = observed(), int(25 * lead)
    others = sorted(set(range(60)) - set(own), key=lambda i: -data.u[i])
    missing = max(0, size - len(own)) if own else 0
    seen = set()
    for seed in range(30):
        rng = np.random.default_rng(seed)
        rows = _with_some_of_the_best(data, np.array(own, dtype=np.int64), lead, rng).tolist()
        assert rows[: len(own)] == own
        assert len(set(rows)) == len(rows) == len(own) + missing
        seen.update(rows[len(own) :])
    assert seen == set(others[: 2 * missing])


@pytest.mark.parametrize("n", [1, 10])
def test_a_leaf_that_has_them_all_has_no_others_to_know_of(n: int) -> None:
    data, rng = observed(n), np.random.default_rng(0)
    assert _with_nearest(data, np.arange(n)).tolist() == list(range(n))
    assert _with_some_of_the_best(data, np.arange(n), 1.0, rng).tolist() == list(range(n))


@pytest.mark.parametrize(
    ("share", "lead"), [(None, 1.0), (0.0, 1.0), (0.2, 0.6), (0.5, 0.0), (1.0, 0.0)]
)
def test_how_far_the_additive_part_leads(share: float | None, lead: float) -> None:
    smooth = None if share is None else Smooth(share, np.ones(DIMS), 0.1)
    assert replace(STRUCTURE, smooth=smooth).additive_lead == pytest.approx(lead)


@pytest.mark.parametrize("structure", [None, STRUCTURE])
def test_leaves_by_themselves_agree_afterwards(structure: Structure | None) -> None:
    """All of them have a voice, wanted or not."""
    data = observed(pooled=False, kernel="tile-coding", overlap=0.05)
    leaves = cut(data)
    models, agreed = run(data, leaves, [1], structure)
    seeds = np.random.SeedSequence(11).spawn(2)[1].spawn(len(leaves))
    results = [
        learn_leaf(data, leaf, structure, np.random.default_rng(seed))
        for leaf, seed in zip(leaves, seeds, strict=True)
    ]
    assert_same_structure(agreed, synchronise(results, data.settings))
    assert_same_model(models[1], results[1][0])


@pytest.mark.parametrize("kernel", ["laplace", "tile-coding"])
@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("structure", [None, STRUCTURE])
def test_the_map_and_the_threads_do_not_matter(
    kernel: str, pooled: bool, structure: Structure | None
) -> None:
    data = observed(pooled=pooled, kernel=kernel)
    leaves = cut(data)
    wanted = range(len(leaves))
    models, learned = run(data, leaves, wanted, structure)
    with ThreadPoolExecutor(3) as pool:
        others, same = run(data, leaves, wanted, structure, map=pool.map, threads=3)
    assert_same_structure(learned, same)
    for j in wanted:
        assert_same_model(models[j], others[j])


def test_how_often_dimensions_were_together_is_remembered() -> None:
    data = observed()
    first = learn_pooled(data, None, np.random.default_rng(0), threads=1)
    np.testing.assert_array_equal(first.together, co_membership(first.z))  # one sweep
    second = learn_pooled(data, first, np.random.default_rng(1), threads=1)
    expected = MEMORY * first.together + (1.0 - MEMORY) * co_membership(second.z)
    np.testing.assert_allclose(second.together, expected)
    np.testing.assert_array_equal(np.diag(second.together), np.ones(DIMS))


def test_data_teach_the_structure_that_all_share() -> None:
    """Two dimensions that act together, one by itself and two that do nothing."""
    rng = np.random.default_rng(0)
    T = rng.random((300, DIMS))
    u = 1.4 * np.sign((T[:, 0] - 0.5) * (T[:, 2] - 0.5)) + np.sin(9.0 * T[:, 4])
    settings = Settings(block_size=100, sweeps=10)
    data = Data(T, u / u.std(), np.zeros(DIMS, dtype=np.bool_), settings)
    structure = learn_pooled(data, None, rng, threads=1)
    z = structure.z
    assert z[0] == z[2] != z[4]
    assert structure.noise < 0.3
    assert min(structure.density[[0, 2, 4]]) > max(structure.density[[1, 3]])


@pytest.mark.parametrize("n", [0, 1, 2])
def test_pooled_learning_from_hardly_anything(n: int) -> None:
    data = observed(n, block_size=1)
    structure = learn_pooled(data, None, np.random.default_rng(0), threads=1)
    assert structure.z.shape == structure.density.shape == (DIMS,)
    assert structure.noise in NOISE_GRID


def test_the_smooth_part_is_fitted_where_the_best_observation_is() -> None:
    """Dimension 0 matters around the best observation, dimension 1 far away from it."""
    rng = np.random.default_rng(0)
    T = rng.random((2 * SMOOTH_FROM, 3))
    T[:, 2] = (np.arange(len(T)) < SMOOTH_FROM) * 0.9 + 0.1 * T[:, 2]  # two places
    u = np.where(T[:, 2] > 0.5, 1.0 + np.sin(9 * T[:, 0]), np.sin(9 * T[:, 1]))
    data = Data(T, u, np.zeros(3, dtype=np.bool_), Settings())
    first = learn_pooled(data, None, np.random.default_rng(0), threads=1)
    assert first.smooth is not None
    assert first.smooth.rates[0] > 3 * first.smooth.rates[1]
    assert first.leaf_noise == first.smooth.noise
    second = learn_pooled(data, first, np.random.default_rng(1), threads=1)
    assert second.smooth is not None
    np.testing.assert_allclose(second.smooth.rates, first.smooth.rates, rtol=0.5)
    plain = replace(data, settings=Settings(smooth=False))
    without = learn_pooled(plain, first, np.random.default_rng(0), threads=1)
    assert without.smooth is None
    assert without.leaf_noise == without.noise


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_the_smooth_part_is_believed_as_often_as_its_share_says(share: float) -> None:
    data = observed(40, sweeps=0)
    given = replace(STRUCTURE, smooth=Smooth(share, np.ones(DIMS), 0.05))
    leaves = [Leaf(np.zeros(DIMS), np.ones(DIMS), np.arange(40))]
    believed = 0
    for seed in range(200):
        streams = np.random.SeedSequence(seed), np.random.SeedSequence(1)
        models, kept = learn(data, leaves, [0], given, streams=streams, map=map, threads=1)
        assert kept is given  # what is learned is not forgotten
        posterior = models[0].posterior
        assert posterior.noise == (0.05 if posterior.smooth else STRUCTURE.noise)
        believed += posterior.smooth is not None
    assert abs(believed - 200 * share) < 25


@pytest.mark.parametrize("preset", [Settings, Settings.paper])
def test_without_sweeps_the_structure_is_kept(preset: Callable[..., Settings]) -> None:
    rng = np.random.default_rng(0)
    T, u = rng.random((60, 4)), rng.standard_normal(60)
    settings = preset(sweeps=0, leaf_size=30)
    data = Data(T, u, np.zeros(4, dtype=np.bool_), settings)
    leaves = mondrian(T, max_leaves=10, leaf_size=30, rng=rng)
    given = Structure(np.array([0, 1, 0, 1]), np.array([3.0, 4.0, 5.0, 6.0]), 0.1, np.eye(4))
    for structure in (given, None):
        models, kept = learn(
            data,
            leaves,
            range(len(leaves)),
            structure,
            streams=(np.random.SeedSequence(1), np.random.SeedSequence(2)),
            map=map,
            threads=1,
        )
        if structure is given:
            assert kept is given
        else:
            assert_array_equal(kept.z, np.arange(4))
        assert len(models) == len(leaves)
        assert all(len(model.posterior.groups) == len(set(kept.z)) for model in models.values())
        known = [len(model.T) for model in models.values()]
        own = [len(leaf.rows) for leaf in leaves]
        assert known == (own if not settings.pooled else [30 if n else 0 for n in own])
