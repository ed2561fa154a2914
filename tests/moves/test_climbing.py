"""Candidates one after the other: where they lie, what they are worth, and what they try."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ebo.acquisition import ACQUISITIONS
from ebo.arrays import Floats
from ebo.belief import Additive, Mixture
from ebo.moves.base import GOOD, Move, Region
from ebo.moves.climbing import Climbing
from ebo.moves.crossover import Crossover
from ebo.moves.difference import Difference
from ebo.moves.step import Step
from ebo.tilegp.posterior import Posterior, Walk
from tests.moves.cases import (
    DISCRETE,
    MIXED,
    SINGLE,
    SPACES,
    SQUARE,
    assert_of_the_leaf,
    draw,
    none,
    watched,
    with_smooth,
    worth,
)

CROSSES = (Step(), Crossover(share=1.0))
NEVER_CROSSES = (Step(),)
ONE_TRY = (Step(count=1), Crossover(count=1))


def moves_of(region: Region) -> tuple[Move, ...]:
    """Those of the belief that a model is of."""
    smooth = region.model.posterior.smooth is not None
    return Mixture().moves if smooth else Additive().moves


def propose(
    region: Region,
    count: int,
    seed: int = 0,
    *,
    moves: tuple[Move, ...] | None = None,
    passes: int = 2,
    pending: Floats | None = None,
) -> Floats:
    known = none(region) if pending is None else pending
    made = moves_of(region) if moves is None else moves
    rng = np.random.default_rng(seed)
    return Climbing(passes=passes).propose(region, made, count, known, rng)


# Where they lie, and what they are worth.


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
        region = draw(SPACES[name], lower=0.37, upper=0.61, overlap=overlap, seed=seed)
        outside = np.any((region.T < 0.37) | (region.T > 0.61), axis=1)
        assert outside.any() == (overlap > 0)
        P = propose(region, 12, seed, passes=passes)
        assert_of_the_leaf(region, P)


def test_a_candidate_that_hardly_moves_from_the_face_of_the_leaf_is_a_point_of_the_space() -> None:
    region = draw(DISCRETE, lower=0.37, upper=0.61, overlap=0.25)
    assert_of_the_leaf(region, propose(region, 30, moves=ONE_TRY))


def test_a_single_try_is_one_beside_staying() -> None:
    region = draw(SQUARE)
    P = propose(region, 20, moves=ONE_TRY)
    assert not all((x == region.T).all(axis=1).any() for x in P)


@pytest.mark.parametrize("acquisition", ACQUISITIONS)
def test_a_candidate_is_worth_no_less_than_its_start(
    acquisition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebo.moves.starts.good", lambda order, rng: int(order[0]))
    gains = []
    for seed in range(12):
        region = draw(MIXED, lower=0.1, upper=0.8, overlap=0.1, acquisition=acquisition, seed=seed)
        start = region.T[np.argsort(-region.u)[0]]  # of its region as well
        begin = region.snap(start[None, :].clip(0.1, 0.8))
        before = worth(region, begin)
        after = worth(region, propose(region, 1, seed))
        gains.append(float((after - before)[0] / max(1.0, abs(before[0]))))
    assert min(gains) > -SINGLE
    assert np.median(gains) > 0.01


@pytest.mark.parametrize("acquisition", ACQUISITIONS)
def test_steps_lead_to_different_points(acquisition: str) -> None:
    """Where no step is better a candidate stays at its start; no two steps are equal."""
    region = draw(SQUARE, acquisition=acquisition)
    P = propose(region, 30, moves=NEVER_CROSSES)
    moved = P[~(P[:, None] == region.T).all(axis=2).any(axis=1)]
    assert len(moved) > 20
    assert len(np.unique(moved, axis=0)) == len(moved)


# Points before them, and pending ones.


@pytest.mark.parametrize("name", ["square", "mixed"])
def test_a_candidate_counts_those_before_it_as_pending(name: str) -> None:
    unaware = 0
    for seed in range(6):
        region = draw(SPACES[name], acquisition="ucb", deviations=4.0, n=1, seed=seed)
        together = propose(region, 4, seed)
        stream, alone = np.random.default_rng(seed), np.random.default_rng(seed)
        found = none(region)
        for i in range(4):
            moves, nothing = moves_of(region), none(region)
            found = np.concatenate([found, Climbing().propose(region, moves, 1, found, stream)])
            other = Climbing().propose(region, moves, 1, nothing, alone)
            unaware += bool((other != together[i]).any())
        np.testing.assert_array_equal(found, together)
    assert unaware > 1


def test_pending_points_lead_elsewhere() -> None:
    region = draw(SQUARE, acquisition="ucb", deviations=4.0)
    pending = propose(region, 6, 1)
    found = propose(region, 6, 1, pending=pending)
    assert not (found[:, None] == pending).all(axis=2).any()
    # The same by a posterior that is fitted afresh with the pending points at their means.
    model, old = region.model, region.model.posterior
    T = np.concatenate([old.T, pending])
    y = np.concatenate([model.y, old.predict(pending)[0]])
    z = np.arange(4) // 2
    posterior = Posterior.of(old.kernel, z, old.cuts, old.noise, T, y)
    now = replace(region, model=replace(model, posterior=posterior, y=y), T=T)
    assert np.mean(worth(now, found)) > np.mean(worth(now, pending)) + 0.2


# What they try.


def test_tries_that_cross_are_blocks_that_are_best_by_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A block's worth is the posterior mean of its component, wherever the rest of its point is."""
    region, climbs = draw(SQUARE, n=60), watched(monkeypatch)
    posterior = region.model.posterior
    for seed in range(80):
        propose(region, 1, seed, moves=CROSSES, passes=1)
    weights = np.linalg.solve(
        posterior.kappa(posterior.T, posterior.T) + posterior.noise * np.eye(60), region.model.y
    )
    for group in posterior.groups:
        part = posterior.kernel.group_gram(posterior.T, posterior.T, group, posterior.cuts)
        rank = np.argsort(np.argsort(-(part @ weights)))
        ranks = []
        for P in climbs.tries:
            equal = (P[1:, None, group] == region.T[None, :, group]).all(axis=2)
            assert len(P) == 1 + 40 + 10  # the point as it stands, steps, blocks
            assert equal[-10:].any(axis=1).all()
            assert equal.any(axis=1).sum() == 10
            ranks += rank[equal[-10:].argmax(axis=1)].tolist()
        counts = np.bincount(ranks, minlength=60)
        assert (counts[GOOD:] == 0).all()
        assert counts[0] == counts.max()
        assert counts[0] / counts.sum() == pytest.approx(np.log(2) / np.log(GOOD + 1), abs=0.05)


def test_a_candidate_that_crosses_takes_blocks_of_observations() -> None:
    region, crossing = draw(SQUARE), {}
    for share in (0.0, 1.0):
        P = propose(region, 30, 3, moves=(Step(), Crossover(share=share)))
        from_row = np.full((30, 2), -1)  # the observation that a block was taken from
        for m, group in enumerate(region.groups):
            equal = (P[:, None, group] == region.T[None, :, group]).all(axis=2)
            from_row[:, m] = np.where(equal.any(axis=1), equal.argmax(axis=1), -1)
        both = (from_row >= 0).all(axis=1)
        crossing[share] = int(np.sum(both & (from_row[:, 0] != from_row[:, 1])))
    assert crossing[0.0] == 0
    assert crossing[1.0] > 2


def test_a_model_may_know_of_more_than_the_leaf_holds() -> None:
    """Candidates start from observations of the leaf, and cross with all that the model has."""
    whole = with_smooth(draw(SQUARE, n=60), 0.4)
    inside = replace(whole, T=whole.T[:5], u=whole.u[:5])
    P = propose(inside, 40, moves=CROSSES)
    taken = set[int]()
    for group in inside.groups:
        equal = (P[:, None, group] == inside.model.T[None, :, group]).all(axis=2)
        taken |= set(equal.argmax(axis=1)[equal.any(axis=1)].tolist())
    assert max(taken) >= 5


def step_lengths(region: Region, monkeypatch: pytest.MonkeyPatch) -> Floats:
    """Lengths (candidates, tries) of all steps from the middle, each row in rising order."""
    region = replace(region, T=np.full(region.T.shape, 0.5))
    (step,) = [move for move in moves_of(region) if isinstance(move, Step)]
    with monkeypatch.context() as patch:
        climbs = watched(patch)
        propose(region, 200, moves=(replace(step, count=400),), passes=1)
    steps = np.array([P[1:] - P[0] for P in climbs.tries])
    return np.sort(np.sqrt(np.mean(steps**2, axis=2)), axis=1)


def test_with_a_smooth_part_a_long_reach_means_long_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    region = draw(SQUARE)
    lengths = {
        "additive": step_lengths(region, monkeypatch),
        "smooth": step_lengths(with_smooth(region, 0.9), monkeypatch),
    }
    for length in lengths.values():  # a candidate's reach is from a hundredth of the leaf to all
        longest = length[:, -1]
        assert 0.01 / 2 < longest.min() < 0.03
        assert 0.3 < longest.max() < 1.0
        assert 0.05 < np.median(longest) < 0.4
    inside = {name: length[length[:, -1] < 0.3] for name, length in lengths.items()}  # of the leaf
    ratio = {name: length[:, 20] / length[:, -1] for name, length in inside.items()}
    assert min(len(each) for each in ratio.values()) > 50
    assert ratio["additive"].max() < 1 / 20
    assert ratio["smooth"].min() > 1 / 20
    assert 1 / 10 < np.median(ratio["smooth"]) < 1 / 2


# Leaps.


def test_a_leap_goes_along_differences_of_good_observations_to_the_best_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where all observations are on one line, so are all places that it can lead to."""
    region = with_smooth(draw(SQUARE, acquisition="ucb"), 1.0)
    line = np.full(4, 0.3) * np.array([1, -1, 1, -1])
    T = 0.5 + np.linspace(-0.5, 0.5, 40)[:, None] * line
    region = replace(region, T=np.random.default_rng(1).permutation(T))
    climbs, leaped, longest = watched(monkeypatch), 0, 0.0
    for seed in range(10):
        propose(region, 1, seed, moves=(Difference(share=1.0), Step()), passes=1)
        tried, P = climbs.whole[-1], climbs.tries[-1]
        assert len(climbs.whole) == len(climbs.tries) == seed + 1
        assert tried.shape == (41, 4)
        assert (tried[0] == region.T).all(axis=1).any()  # a start, to which it may stay
        steps = tried[1:] - tried[0]
        longest = max(longest, np.abs(steps).max())
        np.testing.assert_allclose(steps, np.outer(steps[:, 0] / line[0], line), atol=1e-12)
        mean, sd = region.model.posterior.predict(tried)
        value = region.aim.worth(mean, sd)
        (chosen,) = np.flatnonzero((tried == P[0]).all(axis=1))
        assert value[chosen] >= value.max() - SINGLE
        leaped += chosen != 0
        walk = Walk(region.model.posterior, room=0)
        np.testing.assert_allclose(climbs.start[-1], walk.whitened(P[0]), atol=1e-4)
    assert leaped > 5
    assert longest > 0.1


def test_leaps_are_as_long_as_the_difference_or_down_to_a_hundredth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Evenly on the scale of logarithms; with two observations there is one difference."""
    region = with_smooth(draw(SQUARE, n=2), 1.0)
    region = replace(region, T=np.array([[0.4] * 4, [0.6] * 4]))
    climbs = watched(monkeypatch)
    propose(region, 20, moves=(Difference(share=1.0), Step()))
    steps = np.concatenate([np.abs(P[1:] - P[0]).max(axis=1) for P in climbs.whole]) / 0.2
    steps = steps[steps > 1e-9]  # half of the pairs are of one and the same
    assert len(steps) > 300
    assert steps.min() >= 0.01 * (1 - 1e-9)
    assert steps.max() <= 1 + 1e-9
    assert np.quantile(steps, [0.25, 0.5, 0.75]) == pytest.approx([0.0316, 0.1, 0.316], rel=0.35)


def test_leaps_are_made_as_far_as_the_smooth_part_outweighs_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """None where there is no smooth part, or where they are switched off."""
    climbs, region = watched(monkeypatch), draw(SQUARE)
    assert region.model.posterior.smooth is None
    propose(region, 20)
    assert not climbs.whole
    for share, low, high in ((0.9, 25, 55), (0.6, 2, 20), (0.5, 0, 0)):
        climbs.whole.clear()
        propose(with_smooth(region, share), 100)
        assert low <= len(climbs.whole) <= high
    climbs.whole.clear()
    off = (Difference(share=0.0), Step())
    propose(with_smooth(region, 0.9), 20, moves=off)
    assert not climbs.whole


def test_without_observations_there_is_nothing_to_leap_or_cross_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    climbs, nothing = watched(monkeypatch), with_smooth(draw(SQUARE, n=0), 1.0)
    P = propose(nothing, 20, moves=(Difference(share=1.0), *CROSSES))
    assert_of_the_leaf(nothing, P)
    assert not climbs.whole


# Pieces, and time.


@pytest.mark.parametrize(
    ("count", "pieces"), [(0, []), (1, [1]), (50, [50]), (51, [26, 25]), (151, [38, 38, 38, 37])]
)
def test_candidates_are_searched_in_equal_pieces(count: int, pieces: list[int]) -> None:
    assert Climbing().pieces(count) == pieces
