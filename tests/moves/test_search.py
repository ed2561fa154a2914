"""Candidates of a leaf: against a block-coordinate search by TileGP, and where they must lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from threadpoolctl import threadpool_limits

from ebo import Categorical, Float, Int, Space, box, search
from ebo.acquisition import ACQUISITIONS, Goal
from ebo.arrays import Floats
from ebo.learn import Data, LeafModel, Structure, condition, draw_kernel, leaf_box
from ebo.partition import Leaf
from ebo.search import (
    MAXIMA,
    PARENTS,
    STARTS,
    Local,
    _best_of_regions,
    _Crossing,
    _leap,
    _log_uniform,
    _one_by_one,
    _steps,
    _top_and_random,
    _with_maxima,
    propose,
)
from ebo.settings import KERNELS, Settings
from ebo.tilegp.kernel import Laplace, members
from ebo.tilegp.model import TileGP
from ebo.tilegp.posterior import Moves, Posterior
from ebo.tilegp.smooth import Smooth

SINGLE = 2e-3  # blocks are compared in single precision
SQUARE = box([0.0] * 4, [1.0] * 4)
LINE = box([0.0], [1.0])
MIXED = Space(
    rate=Float(1e-3, 10.0, log=True),
    kind=Categorical(["a", "b", "c"]),
    depth=Int(0, 6),
    shift=Float(-2.0, 6.0),
    units=Int(1, 40, log=True),
    size=Categorical([8, 16, 32, 64], ordered=True),
)
DISCRETE = Space(n=Int(0, 4), kind=Categorical(range(6)), m=Int(1, 9))
SPACES = {"square": SQUARE, "line": LINE, "mixed": MIXED, "discrete": DISCRETE}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """As the optimizer has it: many small products, which threads only slow down."""
    with threadpool_limits(1):
        yield


def values(T: Floats) -> Floats:
    """A function with its own scale and mean, rough enough that blocks differ."""
    u: Floats = (np.sin(7.0 * T + np.arange(T.shape[1])) - 2.0 * (T - 0.45) ** 2).sum(axis=1)
    return u


def draw(
    space: Space,
    *,
    n: int = 40,
    lower: float = 0.0,
    upper: float = 1.0,
    overlap: float = 0.0,
    noise: float = 1e-2,
    seed: int = 0,
    **changes: Any,
) -> Local:
    """A leaf of equal sides that sees n observations, with groups of two and its own scale."""
    settings = Settings(**{"layers": 12, **changes})
    rng = np.random.default_rng([seed, 99])
    dims = len(space.levels)
    leaf = Leaf(np.full(dims, lower), np.full(dims, upper), np.arange(n))
    low, high = np.maximum(leaf.lower - overlap, 0.0), np.minimum(leaf.upper + overlap, 1.0)
    T = np.empty((0, dims))
    while len(T) < n:  # as in a partition: observations of the space that the leaf sees
        P = space.snap(rng.uniform(low, high, (10 * n, dims)))
        T = np.concatenate([T, P[np.all(P.clip(low, high) == P, axis=1)]])
    T = T[:n]
    y = values(T)
    kernel = draw_kernel(settings, space.categorical, rng)
    z, cuts = np.arange(dims) // 2, rng.integers(2, 6, dims)
    posterior = Posterior(kernel, z, cuts, noise, (T - low) / (high - low), y)
    model = LeafModel(posterior, T, y, low, high - low, mean=0.3, scale=1.7)
    u = 0.3 + 1.7 * y
    best = float(u.max(initial=0.0))
    goal = Goal(best, best + 0.5, maxima=best + np.array([0.3, 0.9]))
    stream = np.random.default_rng(seed)
    return Local(model, leaf, T, u, goal, settings, space.snap, stream)


def none(local: Local) -> Floats:
    """No pending points."""
    return np.empty((0, local.T.shape[1]))


def again(local: Local, seed: int, **changes: Any) -> Local:
    """The same leaf with a stream of its own."""
    return replace(local, rng=np.random.default_rng(seed), **changes)


def worth(local: Local, P: Floats) -> Floats:
    """The acquisition function by TileGP on the model's box."""
    model, posterior = local.model, local.model.posterior
    z = np.empty(len(model.lower), dtype=np.int64)
    for m, group in enumerate(posterior.groups):
        z[group] = m
    mask = posterior.kernel.categorical
    assert mask is not None
    upper = model.lower + model.width
    cube = leaf_box(model.lower, upper, mask)
    gp = TileGP(posterior.kernel, cube, z, posterior.cuts, posterior.noise, form="kernel")
    mean, variance = gp.fit(local.T, model.y).predict(P.clip(model.lower, upper))
    sd = np.sqrt(np.maximum(variance, 1e-15))
    function = ACQUISITIONS[local.settings.acquisition]
    return function(model.mean + model.scale * mean, model.scale * sd, local.goal)


def assert_of_the_leaf(local: Local, P: Floats) -> None:
    """Points of the space, in the leaf up to the slots of discrete values that it cuts through."""
    np.testing.assert_array_equal(local.snap(P), P)
    nearest = P.clip(local.leaf.lower, local.leaf.upper)
    np.testing.assert_array_equal(local.snap(nearest), P)


# All at once: the best blocks, and random points.


@pytest.mark.parametrize(
    ("kernel", "acquisition"),
    [*((kernel, "ei") for kernel in KERNELS), *(("laplace", name) for name in ACQUISITIONS)],
)
@pytest.mark.parametrize("space", ["square", "mixed"])
def test_top_candidates_are_the_best_blocks_of_each_group(
    kernel: str, acquisition: str, space: str, unpolished: None
) -> None:
    """The naive twin computes each block's worth with all of the posterior, the others held."""
    options: dict[str, Any] = {"kernel": kernel, "acquisition": acquisition, "block_samples": 30}
    if space == "square":
        options |= {"lower": 0.1, "upper": 0.8}
    local = draw(SPACES[space], passes=1, seed=3, **options)
    lower, upper = local.leaf.lower, local.leaf.upper
    drawn = np.random.default_rng(3).random((31, len(lower)))
    P = local.snap(lower + drawn * (upper - lower))
    combined = _top_and_random(local, 9)
    assert len(combined) == 9
    assert_of_the_leaf(local, combined)
    x = P[0].copy()
    for group in local.model.posterior.groups:
        # Equal values may come in any order, so the search is followed where it went.
        P[0] = x
        tried = np.repeat(x[None, :], 31, axis=0)
        tried[:, group] = P[:, group]
        taken = np.repeat(x[None, :], 5, axis=0)
        taken[:, group] = combined[:5, group]
        expected = np.sort(worth(local, tried))[::-1]
        scale = max(1.0, float(np.abs(expected[:5]).max()))
        np.testing.assert_allclose(worth(local, taken), expected[:5], atol=SINGLE * scale)
        x = taken[0]
    np.testing.assert_array_equal(combined[0], x)


@pytest.mark.parametrize("kernel", ["tile-coding", "mondrian-grid"])
@pytest.mark.parametrize("seed", range(5))
def test_a_block_of_one_dimension_with_cells_ends_at_its_optimum(kernel: str, seed: int) -> None:
    local = draw(box([0], [1]), lower=0.2, upper=0.8, overlap=0.1, kernel=kernel, seed=seed)
    local = replace(local, settings=replace(local.settings, block_samples=1, acquisition="eta"))
    found = worth(local, _top_and_random(local, 1))[0]
    everywhere = worth(local, np.linspace(0.2, 0.8, 20_001)[:, None])
    assert found >= everywhere.max() - 1e-3 * abs(everywhere.max())


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("space", [SQUARE, MIXED])
def test_polish_is_not_worse_and_stays_in_the_leaf(space: Space, kernel: str) -> None:
    gained = []
    for seed in range(6):
        local = draw(space, lower=0.1, upper=0.9, kernel=kernel, passes=1, seed=seed)
        moves = Moves(local.model.posterior, room=0)
        x = local.snap(local.uniform(1))[0]
        v = moves.whitened(local.model.to_leaf(x))
        better, w = search._polished(local, moves, 0, x, v)
        assert_of_the_leaf(local, better[None, :])
        np.testing.assert_allclose(w, moves.whitened(local.model.to_leaf(better)), atol=1e-3)
        gained.append(worth(local, better[None, :])[0] - worth(local, x[None, :])[0])
    assert min(gained) > -1e-3
    assert max(gained) > 0


@pytest.fixture
def unpolished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_polished", lambda local, moves, m, x, v: (x, v))


@pytest.mark.parametrize("kernel", ["laplace", "hat"])
@pytest.mark.parametrize("seed", range(5))
def test_the_first_candidate_is_the_block_coordinate_point(
    kernel: str, seed: int, unpolished: None
) -> None:
    local = draw(SQUARE, kernel=kernel, passes=1, block_samples=50, acquisition="ucb", seed=seed)
    P = np.random.default_rng(seed).random((51, 4))
    x = P[0].copy()
    for group in members(np.array([0, 0, 1, 1])):
        tried = np.repeat(x[None, :], 51, axis=0)
        tried[:, group] = P[:, group]
        x = tried[worth(local, tried).argmax()]
    np.testing.assert_array_equal(_top_and_random(local, 1)[0], x)


@pytest.mark.parametrize(("count", "top"), [(1, 1), (2, 1), (3, 2), (9, 5), (100, 50)])
def test_half_are_top_and_half_random(count: int, top: int, unpolished: None) -> None:
    """More may be asked for than there are blocks: then these come again."""
    local = draw(SQUARE, lower=0.2, upper=0.7, passes=1, block_samples=8, seed=1)
    P = _top_and_random(local, count)
    assert P.shape == (count, 4)
    assert_of_the_leaf(local, P)
    rng = np.random.default_rng(1)
    blocks = 0.2 + rng.random((9, 4)) * (0.7 - 0.2)
    rest = 0.2 + rng.random((count - top, 4)) * (0.7 - 0.2)
    np.testing.assert_array_equal(P[top:], rest)
    for group in local.model.posterior.groups:
        # A block is one of those drawn, and the best come round after all nine have had their turn.
        found = (P[:top, None, group] == blocks[None, :, group]).all(axis=2)
        assert found.sum(axis=1).tolist() == [1] * top
        np.testing.assert_array_equal(P[9:top, group], P[: max(0, top - 9), group])


def test_another_pass_is_not_worse() -> None:
    gained = []
    space = box([0.0] * 8, [1.0] * 8)
    for seed in range(6):
        once = draw(space, passes=1, block_samples=15, seed=seed)
        thrice = draw(space, passes=3, block_samples=15, seed=seed)
        before, after = _top_and_random(once, 1), _top_and_random(thrice, 1)
        gained.append(float((worth(once, after) - worth(once, before))[0]))
    assert min(gained) > -SINGLE
    assert max(gained) > 0.01


# One by one.


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("overlap", [0.0, 0.25])
@pytest.mark.parametrize("passes", [1, 2])
def test_candidates_are_points_of_the_space_and_of_the_leaf(
    name: str, overlap: float, passes: int
) -> None:
    """Also where observations outside the leaf are seen: a start is clipped to the leaf's face,
    which is not the middle of any slot.
    """
    for seed in range(3):
        local = draw(
            SPACES[name], lower=0.37, upper=0.61, overlap=overlap, passes=passes, seed=seed
        )
        outside = np.any((local.T < 0.37) | (local.T > 0.61), axis=1)
        assert outside.any() == (overlap > 0)
        assert_of_the_leaf(local, _one_by_one(local, 12, none(local)))


def test_a_start_on_the_face_of_the_leaf_is_a_point_of_the_space() -> None:
    local = draw(DISCRETE, lower=0.37, upper=0.61, overlap=0.25, block_samples=1)
    P = _one_by_one(local, 30, none(local))
    assert_of_the_leaf(local, P)


def test_a_single_try_is_one_beside_staying() -> None:
    local = draw(SQUARE, block_samples=1)
    P = _one_by_one(local, 20, none(local))
    assert not all((x == local.T).all(axis=1).any() for x in P)


def test_maxima_are_sampled_at_points_of_the_space() -> None:
    """All six points are known, so that nothing can be much better than the best of them."""
    space = Space(a=Categorical(["r", "g", "b"]), b=Categorical(["x", "y"]))
    rng = np.random.default_rng(0)
    T = space.snap(rng.random((200, 2)))
    u = np.where(T[:, 0] < 0.3, 1.0, -1.0) + 0.01 * rng.standard_normal(200)
    u = (u - u.mean()) / u.std()
    settings = Settings(acquisition="mes")
    leaf = Leaf(np.zeros(2), np.ones(2), np.arange(200))
    structure = Structure(np.array([0, 1]), np.full(2, 6.0), 1e-4, np.eye(2))
    model = condition(Data(T, u, space.categorical, settings), leaf.rows, structure, rng)
    goal = Goal(u.max(), u.max() + 0.1)
    local = Local(model, leaf, T, u, goal, settings, space.snap, np.random.default_rng(1))
    maxima = _with_maxima(local).maxima
    assert maxima is not None
    assert maxima.max() < u.max() + 0.1


@pytest.mark.parametrize("acquisition", ACQUISITIONS)
def test_a_candidate_is_worth_no_less_than_its_start(
    acquisition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_good", lambda order, rng: int(order[0]))
    gains = []
    for seed in range(12):
        local = draw(MIXED, lower=0.1, upper=0.8, overlap=0.1, acquisition=acquisition, seed=seed)
        start = local.T[np.argsort(-local.u)[0]]  # of its region as well
        begin = local.snap(start[None, :].clip(0.1, 0.8))
        before = worth(local, begin)
        after = worth(local, _one_by_one(local, 1, none(local)))
        gains.append(float((after - before)[0] / max(1.0, abs(before[0]))))
    assert min(gains) > -SINGLE
    assert np.median(gains) > 0.01


@pytest.mark.parametrize("acquisition", ACQUISITIONS)
@pytest.mark.parametrize("greedy", [True, False])
def test_candidates_are_better_than_random_points(acquisition: str, greedy: bool) -> None:
    local = draw(SQUARE, lower=0.1, upper=0.8, acquisition=acquisition, greedy=greedy, n=60)
    count = 20 if greedy else 10
    P = propose(local, 20, none(local)).P[:count]
    others = worth(local, np.random.default_rng(5).uniform(0.1, 0.8, (400, 4)))
    if greedy:  # a few start where nothing is good, and may move little
        assert np.median(worth(local, P)) > np.quantile(others, 0.9)
    else:  # the last of the combined blocks are not among the best
        assert worth(local, P)[0] > np.quantile(others, 0.99)
        assert np.mean(worth(local, P)) > np.mean(others)


def test_the_best_of_regions() -> None:
    """One of each region, which are apart; among them the best of all."""
    local = draw(SQUARE, lower=0.1, upper=0.8, n=200)
    rows = _best_of_regions(local)
    assert rows[0] == local.u.argmax()
    assert 10 < len(rows) <= STARTS
    assert len(set(rows.tolist())) == len(rows)
    assert (np.diff(local.u[rows]) <= 0).all()
    best = np.argsort(-local.u)[: len(rows)]

    def spread(rows: Any) -> float:
        return float(np.std(local.T[rows], axis=0).mean())

    assert len(set(rows.tolist()) - set(best.tolist())) > len(rows) // 4
    assert spread(rows) > 0.5 * spread(np.arange(200))


@pytest.mark.parametrize("n", [0, 1, 2])
def test_the_best_of_regions_of_few(n: int) -> None:
    local = draw(SQUARE, n=max(n, 1))
    local = replace(local, T=local.T[:n], u=local.u[:n])
    assert sorted(_best_of_regions(local).tolist()) == list(range(n)) or n == 2
    assert len(_best_of_regions(local)) >= min(n, 1)


def test_blocks_to_cross_with_are_the_best_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block's worth is the posterior mean of its component, wherever the rest of its point is."""
    monkeypatch.setattr(search, "_good", lambda order, rng: int(order[0]))
    local = draw(SQUARE, n=60)
    posterior = local.model.posterior
    crossing = _Crossing(local, Moves(posterior, room=5))
    P = np.full((41, 4), 0.5)
    crossing.put_into(P, np.arange(len(posterior.groups)))
    weights = np.linalg.solve(
        posterior.kappa(posterior.T, posterior.T) + posterior.noise * np.eye(60), local.model.y
    )
    for group in posterior.groups:
        part = posterior.kernel.group_gram(posterior.T, posterior.T, group, posterior.cuts)
        best = int((part @ weights).argmax())
        np.testing.assert_array_equal(P[1:10, group], np.tile(local.T[best, group], (9, 1)))
    assert (P[0] == 0.5).all()
    assert (P[10:] == 0.5).all()


@pytest.mark.parametrize("acquisition", ACQUISITIONS)
def test_steps_lead_to_different_points(acquisition: str) -> None:
    """Where no step is better a candidate stays at its start; no two steps are equal."""
    local = draw(SQUARE, acquisition=acquisition, crossed=0.0)
    P = _one_by_one(local, 30, none(local))
    moved = P[~(P[:, None] == local.T).all(axis=2).any(axis=1)]
    assert len(moved) > 20
    assert len(np.unique(moved, axis=0)) == len(moved)


def test_a_candidate_that_crosses_takes_blocks_of_observations() -> None:
    crossing = {}
    for share in (0.0, 1.0):
        local = draw(SQUARE, crossed=share)
        P = _one_by_one(again(local, 3), 30, none(local))
        from_row = np.full((30, 2), -1)  # the observation that a block was taken from
        for m, group in enumerate(local.model.posterior.groups):
            equal = (P[:, None, group] == local.T[None, :, group]).all(axis=2)
            from_row[:, m] = np.where(equal.any(axis=1), equal.argmax(axis=1), -1)
        both = (from_row >= 0).all(axis=1)
        crossing[share] = int(np.sum(both & (from_row[:, 0] != from_row[:, 1])))
    assert crossing[0.0] == 0
    assert crossing[1.0] > 2


@pytest.mark.parametrize("name", ["square", "mixed"])
def test_a_candidate_counts_those_before_it_as_pending(name: str) -> None:
    unaware = 0
    for seed in range(6):
        local = draw(SPACES[name], acquisition="ucb", deviations=4.0, n=1, seed=seed)
        together = _one_by_one(again(local, seed), 4, none(local))
        stream, alone = again(local, seed), again(local, seed)
        found = none(local)
        for i in range(4):
            found = np.concatenate([found, _one_by_one(stream, 1, found)])
            unaware += bool((_one_by_one(alone, 1, none(local)) != together[i]).any())
        np.testing.assert_array_equal(found, together)
    assert unaware > 1


def test_pending_points_lead_elsewhere() -> None:
    local = draw(SQUARE, acquisition="ucb", deviations=4.0)
    pending = _one_by_one(again(local, 1), 6, none(local))
    found = _one_by_one(again(local, 1), 6, pending)
    assert not (found[:, None] == pending).all(axis=2).any()
    # The same by a posterior that is fitted afresh with the pending points at their means.
    model, old = local.model, local.model.posterior
    T = np.concatenate([old.T, pending])
    y = np.concatenate([model.y, old.predict(pending)[0]])
    z = np.arange(4) // 2
    posterior = Posterior(old.kernel, z, old.cuts, old.noise, T, y)
    now = again(local, 0, model=replace(model, posterior=posterior, y=y), T=T)
    assert np.mean(worth(now, found)) > np.mean(worth(now, pending)) + 0.2


@pytest.mark.parametrize("greedy", [True, False])
def test_pending_points_outside_the_leaf_change_nothing(greedy: bool) -> None:
    local = draw(SQUARE, lower=0.3, upper=0.6, greedy=greedy)
    far = np.array([[0.5, 0.5, 0.5, 0.61], [0.29, 0.5, 0.5, 0.5], [0.0, 1.0, 0.0, 1.0]])
    without = propose(again(local, 7), 5, none(local))
    np.testing.assert_array_equal(propose(again(local, 7), 5, far).P, without.P)


def test_observations_and_pending_points_are_left_as_they_are() -> None:
    local = draw(MIXED, lower=0.2, upper=0.7, overlap=0.2)
    pending = local.snap(np.full((2, 6), 0.5))
    T, asked = local.T.copy(), pending.copy()
    propose(local, 10, pending)
    np.testing.assert_array_equal(local.T, T)
    np.testing.assert_array_equal(pending, asked)


# Anywhere.


@pytest.mark.parametrize("acquisition", ACQUISITIONS)
@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize(
    ("name", "n"),
    [("line", 0), ("line", 1), ("line", 30), ("mixed", 0), ("mixed", 1), ("mixed", 30)],
)
def test_values_are_those_of_the_leafs_own_posterior(
    acquisition: str, greedy: bool, name: str, n: int
) -> None:
    """In double precision and without the points added, also with few observations or none."""
    local = draw(
        SPACES[name],
        n=n,
        lower=0.05,
        upper=0.9,
        acquisition=acquisition,
        greedy=greedy,
        block_samples=8,
        seed=2,
    )
    pending = local.snap(local.leaf.lower + 0.4 * np.ones((2, len(local.leaf.lower))))
    found = propose(local, 5, pending)
    assert found.P.shape == (5, len(local.leaf.lower))
    assert np.isfinite(found.value).all()
    assert_of_the_leaf(local, found.P)
    if acquisition.startswith("mes"):  # the maxima are the first that is drawn
        local = replace(local, goal=_with_maxima(again(local, 2)))
    mean, sd = local.model.posterior.predict(local.model.to_leaf(found.P))
    np.testing.assert_array_equal(found.value, local.acquire(mean, sd))
    expected = worth(local, found.P)
    scale = np.maximum(1.0, np.abs(expected))
    np.testing.assert_allclose(found.value / scale, expected / scale, atol=1e-6)


@pytest.mark.parametrize("greedy", [True, False])
def test_one_stream_one_result(greedy: bool) -> None:
    local = draw(MIXED, greedy=greedy, acquisition="mes")
    first, second = (propose(again(local, 4), 6, none(local)) for _ in range(2))
    np.testing.assert_array_equal(first.P, second.P)
    np.testing.assert_array_equal(first.value, second.value)
    assert not np.array_equal(propose(again(local, 5), 6, none(local)).P, first.P)


def test_almost_no_noise_and_observations_that_repeat() -> None:
    """All observations are one point, and nothing is left to learn of it."""
    space = box([0.0] * 2, [1.0] * 2)
    local = draw(space, n=1)
    T = np.repeat(local.T, 60, axis=0)
    y = np.full(60, float(local.model.y[0]))
    posterior = Posterior(Laplace(space.categorical), np.arange(2), np.ones(2), 1e-8, T, y)
    model = replace(local.model, posterior=posterior, T=T, y=y)
    for acquisition in ACQUISITIONS:
        settings = Settings(acquisition=acquisition)
        here = again(local, 0, model=model, T=T, u=np.repeat(local.u, 60), settings=settings)
        found = propose(here, 10, T[:3])
        assert np.isfinite(found.value).all()
        assert_of_the_leaf(here, found.P)


@pytest.mark.parametrize("acquisition", ["mes", "mes-gumbel"])
@pytest.mark.parametrize("n", [0, 1, 30])
def test_maxima_are_above_the_best_value(acquisition: str, n: int) -> None:
    local = draw(SQUARE, n=n, acquisition=acquisition)
    maxima = _with_maxima(local).maxima
    assert maxima is not None
    assert maxima.shape == (MAXIMA,)
    assert (maxima >= local.goal.best + 0.05 * local.model.scale).all()
    # None is beyond what 100 normal values of the prior's deviation would reach.
    assert (maxima < local.goal.best + 8.0 * local.model.scale).all()


# The law of ranks and numbers.


@pytest.mark.parametrize("n", [1, 2, 3, 20, 300])
def test_numbers_are_uniform_on_a_log_scale(n: int) -> None:
    rng = np.random.default_rng(n)
    draws = np.array([_log_uniform(n, rng) for _ in range(20_000)])
    assert draws.min() == 0
    assert draws.max() <= n - 1
    i = np.arange(n)
    law = np.log((i + 2) / (i + 1)) / np.log(n + 1)
    counts, last = np.bincount(draws, minlength=n), min(n, 40) - 1
    lumped = np.append(counts[:last], counts[last:].sum())
    expected = np.append(law[:last], 1.0 - law[:last].sum())
    if n == 1:
        assert lumped.tolist() == [20_000]
    else:
        assert stats.chisquare(lumped, 20_000 * expected).pvalue > 1e-4


def test_the_largest_random_number_is_within_the_range() -> None:
    class Edge(np.random.Generator):
        def random(self, *_: Any, **__: Any) -> Any:
            return 1.0 - 2.0**-53

    edge = Edge(np.random.PCG64(0))
    for n in range(1, 2000):
        assert _log_uniform(n, edge) == n - 1


def test_a_leap_goes_along_differences_of_good_observations_to_the_best_place() -> None:
    """From a corner where nothing is known, by parents that differ along one line only."""
    local = draw(SQUARE)
    T = local.T.copy()
    best = np.argsort(-local.u, kind="stable")
    line = np.full(T.shape[1], 0.3) * np.array([1, -1] * (T.shape[1] // 2))
    parents = best[:PARENTS]
    T[parents] = 0.5 + np.linspace(-0.5, 0.5, len(parents))[:, None] * line
    moves = Moves(local.model.posterior, room=0)
    start = np.full(T.shape[1], 0.5)
    x, v = _leap(start, best, moves, replace(local, T=T))
    step = x - start
    assert np.abs(step).max() > 0
    np.testing.assert_allclose(step / step[0], line / line[0])
    np.testing.assert_allclose(v, moves.whitened(local.model.to_leaf(x)), atol=1e-4)
    mean, sd = local.model.posterior.predict(local.model.to_leaf(np.array([start, x])))
    stayed, leaped = local.acquire(mean, sd)
    assert leaped >= stayed


def test_leaps_are_made_as_far_as_the_smooth_part_outweighs_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """None where there is no smooth part, or where they are switched off."""
    leaps = []

    def count(x: Floats, *others: Any) -> tuple[Floats, Any]:
        leaps.append(1)
        return _leap(x, *others)

    monkeypatch.setattr(search, "_leap", count)
    local = draw(SQUARE)
    assert local.model.posterior.smooth is None
    _one_by_one(local, 20, none(local))
    assert not leaps
    for share, low, high in ((0.9, 25, 55), (0.6, 2, 20), (0.5, 0, 0)):
        leaps.clear()
        _one_by_one(with_smooth(local, share), 100, none(local))
        assert low <= len(leaps) <= high
    off = replace(with_smooth(local, 0.9), settings=replace(local.settings, leaping=0.0))
    leaps.clear()
    _one_by_one(off, 20, none(local))
    assert not leaps


def test_with_a_smooth_part_a_long_reach_means_long_steps() -> None:
    local = draw(SQUARE)
    x = np.full(4, 0.5)
    for reach in (0.2, 0.02):
        shortest = {}
        for name, each in (("additive", local), ("smooth", with_smooth(local, 0.9))):
            steps = np.concatenate([_steps(x, reach, each) - x for _ in range(50)])
            length = np.sqrt(np.mean(steps**2, axis=1))
            assert reach / 2 < length.max() < 3 * reach
            shortest[name] = np.quantile(length, 0.05)
        assert shortest["additive"] < reach / 20
        assert reach / 10 < shortest["smooth"] < reach / 2


def test_a_model_may_know_of_more_than_the_leaf_holds() -> None:
    """Candidates start from observations of the leaf, and cross with all that the model has."""
    whole = with_smooth(draw(SQUARE, n=60, crossed=1.0), 0.4)
    inside = replace(whole, T=whole.T[:5], u=whole.u[:5])
    P = _one_by_one(inside, 40, none(inside))
    taken = set[int]()
    for group in inside.model.posterior.groups:
        equal = (P[:, None, group] == inside.model.T[None, :, group]).all(axis=2)
        taken |= set(equal.argmax(axis=1)[equal.any(axis=1)].tolist())
    assert max(taken) >= 5


def with_smooth(local: Local, share: float) -> Local:
    """The same with a smooth part of the model's kernel."""
    model, smooth = local.model, Smooth(share, np.ones(local.T.shape[1]), 0.01)
    old = model.posterior
    posterior = Posterior(old.kernel, local_z(local), old.cuts, 0.01, old.T, model.y, smooth)
    return replace(local, model=replace(model, posterior=posterior))


def local_z(local: Local) -> NDArray[np.int64]:
    """The groups of a leaf's model as numbers."""
    z = np.empty(local.T.shape[1], dtype=np.int64)
    for m, group in enumerate(local.model.posterior.groups):
        z[group] = m
    return z
