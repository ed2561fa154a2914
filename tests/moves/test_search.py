"""The search in a leaf, whichever strategy makes the candidates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ebo import Categorical, Space, box
from ebo.acquisition import ACQUISITIONS, Acquisition, Goal
from ebo.arrays import Floats
from ebo.belief import Additive
from ebo.learning.base import Data, Structure, condition
from ebo.learning.model import Model
from ebo.moves.base import MAXIMA, Region
from ebo.moves.climbing import Climbing
from ebo.moves.printed import Printed
from ebo.moves.search import Candidates, Piece, Search, search
from ebo.partition import Leaf, Partition
from ebo.tilegp.kernel import Laplace
from ebo.tilegp.posterior import Posterior
from tests.moves.cases import MIXED, SPACES, SQUARE, assert_of_the_leaf, draw, none, worth

STRATEGIES: list[Search] = [Climbing(), Printed(tries=40, passes=2)]
FEW_TRIES: list[Search] = [Climbing(passes=1), Printed(tries=8, passes=2)]


def found(strategy: Search, region: Region, count: int, pending: Floats, seed: int) -> Candidates:
    piece = Piece(region, count, np.random.default_rng(seed))
    return search(strategy, Additive().moves, pending, piece)


@pytest.mark.parametrize("acquisition", ACQUISITIONS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_candidates_are_better_than_random_points(acquisition: str, strategy: Search) -> None:
    region = draw(SQUARE, lower=0.1, upper=0.8, acquisition=acquisition, n=60)
    climbs = isinstance(strategy, Climbing)
    P = found(strategy, region, 20, none(region), 0).P[: 20 if climbs else 10]
    others = worth(region, np.random.default_rng(5).uniform(0.1, 0.8, (400, 4)))
    if climbs:  # a few start where nothing is good, and may move little
        assert np.median(worth(region, P)) > np.quantile(others, 0.9)
    else:  # the last of the combined blocks are not among the best
        assert worth(region, P)[0] > np.quantile(others, 0.99)
        assert np.mean(worth(region, P)) > np.mean(others)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_pending_points_outside_the_leaf_change_nothing(strategy: Search) -> None:
    region = draw(SQUARE, lower=0.3, upper=0.6)
    far = np.array([[0.5, 0.5, 0.5, 0.61], [0.29, 0.5, 0.5, 0.5], [0.0, 1.0, 0.0, 1.0]])
    without = found(strategy, region, 5, none(region), 7)
    np.testing.assert_array_equal(found(strategy, region, 5, far, 7).P, without.P)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_observations_and_pending_points_are_left_as_they_are(strategy: Search) -> None:
    region = draw(MIXED, lower=0.2, upper=0.7, overlap=0.2)
    pending = region.snap(np.full((2, 6), 0.5))
    T, asked = region.T.copy(), pending.copy()
    found(strategy, region, 10, pending, 0)
    np.testing.assert_array_equal(region.T, T)
    np.testing.assert_array_equal(pending, asked)


@pytest.mark.parametrize("acquisition", ACQUISITIONS)
@pytest.mark.parametrize("strategy", FEW_TRIES)
@pytest.mark.parametrize(
    ("name", "n"),
    [("line", 0), ("line", 1), ("line", 30), ("mixed", 0), ("mixed", 1), ("mixed", 30)],
)
def test_values_are_those_of_the_leafs_own_posterior(
    acquisition: str, strategy: Search, name: str, n: int
) -> None:
    """In double precision and without the points added, also with few observations or none."""
    region = draw(SPACES[name], n=n, lower=0.05, upper=0.9, acquisition=acquisition, seed=2)
    pending = region.snap(region.leaf.lower + 0.4 * np.ones((2, len(region.leaf.lower))))
    candidates = found(strategy, region, 5, pending, 2)
    assert candidates.P.shape == (5, len(region.leaf.lower))
    assert np.isfinite(candidates.value).all()
    assert_of_the_leaf(region, candidates.P)
    region = region.with_maxima(np.random.default_rng(2))  # the first that is drawn
    mean, sd = region.model.posterior.predict(region.model.to_leaf(candidates.P))
    np.testing.assert_array_equal(candidates.value, region.aim.worth(mean, sd))
    expected = worth(region, candidates.P)
    scale = np.maximum(1.0, np.abs(expected))
    np.testing.assert_allclose(candidates.value / scale, expected / scale, atol=1e-6)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_stream_one_result(strategy: Search) -> None:
    region = draw(MIXED, acquisition="mes")
    first, second = (found(strategy, region, 6, none(region), 4) for _ in range(2))
    np.testing.assert_array_equal(first.P, second.P)
    np.testing.assert_array_equal(first.value, second.value)
    assert not np.array_equal(found(strategy, region, 6, none(region), 5).P, first.P)


@pytest.mark.parametrize("kernel", ["laplace", "tile-coding"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_acquisition_function_of_ones_own(kernel: str, strategy: Search) -> None:
    """The core does not have it; what is found is the same."""
    region = draw(MIXED, acquisition="ucb", kernel=kernel)
    own = Acquisition(lambda mean, sd, goal: mean + goal.deviations * sd)
    expected = found(strategy, region, 10, none(region), 0)
    candidates = found(strategy, replace(region, acquisition=own), 10, none(region), 0)
    np.testing.assert_array_equal(candidates.P, expected.P)
    np.testing.assert_allclose(candidates.value, expected.value)


@pytest.mark.parametrize("acquisition", ACQUISITIONS)
def test_almost_no_noise_and_observations_that_repeat(acquisition: str) -> None:
    """All observations are one point, and nothing is left to learn of it."""
    space = box([0.0] * 2, [1.0] * 2)
    region = draw(space, n=1, acquisition=acquisition)
    T = np.repeat(region.T, 60, axis=0)
    y = np.full(60, float(region.model.y[0]))
    posterior = Posterior.of(Laplace(space.categorical), np.arange(2), np.ones(2), 1e-8, T, y)
    model = replace(region.model, posterior=posterior, T=T, y=y)
    here = replace(region, model=model, T=T, u=np.repeat(region.u, 60))
    candidates = found(Climbing(), here, 10, T[:3], 0)
    assert np.isfinite(candidates.value).all()
    assert_of_the_leaf(here, candidates.P)


# Samples of the maximum.


@pytest.mark.parametrize("acquisition", ["mes", "mes-gumbel"])
@pytest.mark.parametrize("n", [0, 1, 30])
def test_maxima_are_above_the_best_value(acquisition: str, n: int) -> None:
    region = draw(SQUARE, n=n, acquisition=acquisition)
    maxima = region.with_maxima(np.random.default_rng(0)).goal.maxima
    assert maxima is not None
    assert maxima.shape == (MAXIMA,)
    assert (maxima >= region.goal.best + 0.05 * region.model.scale).all()
    # None is beyond what 100 normal values of the prior's deviation would reach.
    assert (maxima < region.goal.best + 8.0 * region.model.scale).all()


def test_maxima_are_sampled_at_points_of_the_space() -> None:
    """All six points are known, so that nothing can be much better than the best of them."""
    space = Space(a=Categorical(["r", "g", "b"]), b=Categorical(["x", "y"]))
    rng = np.random.default_rng(0)
    T = space.snap(rng.random((200, 2)))
    u = np.where(T[:, 0] < 0.3, 1.0, -1.0) + 0.01 * rng.standard_normal(200)
    u = (u - u.mean()) / u.std()
    leaf = Leaf(np.zeros(2), np.ones(2), np.arange(200))
    structure = Structure(np.array([0, 1]), np.full(2, 6.0), 1e-4, np.eye(2))
    data = Data(T, u, space.categorical, Partition(), Model())
    model = condition(data, leaf.rows, structure, rng)
    goal = Goal(u.max(), u.max() + 0.1)
    region = Region(model, leaf, T, u, ACQUISITIONS["mes"], goal, space.snap)
    maxima = region.with_maxima(np.random.default_rng(1)).goal.maxima
    assert maxima is not None
    assert maxima.max() < u.max() + 0.1
