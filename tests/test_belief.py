"""Beliefs: which one an iteration has, which observations models know, and what a batch has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ebo.acquisition import ACQUISITIONS, Goal
from ebo.arrays import Floats
from ebo.belief import Additive, Asked, Ensemble, Extra, Mixture
from ebo.learning.base import Data, Structure
from ebo.moves.probes import Probes
from ebo.moves.shrinking import Shrinking
from ebo.tilegp.smooth import Smooth
from tests.learning.cases import DIMS, SPACE, STRUCTURE, observed

NONE = np.empty((0, DIMS))


def believing(share: float | None) -> Structure:
    """A structure whose smooth part has some share."""
    smooth = None if share is None else Smooth(share, np.ones(DIMS), 0.05)
    return replace(STRUCTURE, smooth=smooth)


# Which belief.


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.95, 1.0])
def test_the_mixture_is_believed_as_often_as_its_share_says(share: float) -> None:
    ensemble, given, rng = Ensemble(), believing(share), np.random.default_rng(0)
    beliefs = [ensemble.draw(given, rng) for _ in range(400)]
    mixtures = [belief for belief in beliefs if belief.strategy is ensemble.mixture]
    assert abs(len(mixtures) - 400 * share) <= 40 * (0.0 < share < 1.0)
    for belief in beliefs:
        assert belief.learned is given
        if belief.strategy is ensemble.mixture:
            assert belief.structure is given
        else:
            assert belief.strategy == ensemble.additive
            assert belief.structure.smooth is None
            np.testing.assert_array_equal(belief.structure.z, given.z)


@pytest.mark.parametrize(
    ("mixture", "share"), [(None, 1.0), (None, None), (Mixture(), None), (Mixture(), 0.0)]
)
def test_the_additive_one_is_all_there_is(mixture: Mixture | None, share: float | None) -> None:
    ensemble, rng = Ensemble(mixture=mixture), np.random.default_rng(0)
    assert ensemble.smooth == (mixture is not None)
    for _ in range(20):
        belief = ensemble.draw(believing(share), rng)
        assert belief.strategy == Additive()
        assert belief.structure.smooth is None


def test_a_structure_that_is_not_learned_needs_no_probes() -> None:
    rng = np.random.default_rng(0)
    ensemble = Ensemble(additive=Additive(borrows=False))
    belief = ensemble.draw(believing(None), rng, fixed=True)
    assert belief.strategy == Additive(borrows=False, probes=None)
    assert ensemble.draw(believing(None), rng).strategy == Additive(borrows=False)


# Which observations.


@pytest.mark.parametrize("own", [[], [3], list(range(0, 60, 3)), list(range(0, 60, 2))])
def test_with_a_smooth_part_a_leaf_knows_its_surroundings(own: list[int]) -> None:
    """The nearest to its best, to 25 in all."""
    data, rng = observed(), np.random.default_rng(0)
    given = np.array(own, dtype=np.int64)
    rows = Mixture().rows(data, given, believing(0.6), rng).tolist()
    assert rows[: len(own)] == own
    if own:
        best = data.T[max(own, key=lambda i: data.u[i])]
        others = sorted(set(range(60)) - set(own), key=lambda i: np.linalg.norm(data.T[i] - best))
        assert rows[len(own) :] == others[: max(0, 25 - len(own))]
    else:
        assert rows == []


@pytest.mark.parametrize("own", [[], [3], list(range(0, 60, 5)), list(range(0, 60, 2))])
@pytest.mark.parametrize(
    ("share", "lead"), [(0.9, 0.0), (0.5, 0.0), (0.2, 0.6), (0.0, 1.0), (None, 1.0)]
)
def test_without_one_it_knows_good_ones_from_anywhere(
    own: list[int], share: float | None, lead: float
) -> None:
    """Some of the best others, to 25 in all if the function is additive and none if half is not."""
    data, size = observed(), int(25 * lead)
    others = sorted(set(range(60)) - set(own), key=lambda i: -data.u[i])
    missing = max(0, size - len(own)) if own else 0
    given, seen = np.array(own, dtype=np.int64), set()
    for seed in range(30):
        rng = np.random.default_rng(seed)
        rows = Additive().rows(data, given, believing(share), rng).tolist()
        assert rows[: len(own)] == own
        assert len(set(rows)) == len(rows) == len(own) + missing
        seen.update(rows[len(own) :])
    assert seen == set(others[: 2 * missing])


@pytest.mark.parametrize("n", [1, 10])
def test_a_leaf_that_has_them_all_has_no_others_to_know_of(n: int) -> None:
    data, rng = observed(n), np.random.default_rng(0)
    for strategy in (Additive(), Mixture()):
        rows = strategy.rows(data, np.arange(n), believing(0.1), rng)
        assert rows.tolist() == list(range(n))


def test_a_leaf_that_does_not_borrow_knows_its_own() -> None:
    data, rng = observed(), np.random.default_rng(0)
    rows = Additive(borrows=False).rows(data, np.array([3, 5]), believing(None), rng)
    assert rows.tolist() == [3, 5]


def test_how_much_is_borrowed_is_by_all_that_is_learned() -> None:
    """Also in an iteration that believes that there is nothing smooth."""
    data, ensemble = observed(), Ensemble()
    rng = np.random.default_rng(0)
    belief = ensemble.draw(believing(0.2), rng)
    while belief.strategy is ensemble.mixture:
        belief = ensemble.draw(believing(0.2), rng)
    assert len(belief.rows(data, np.array([3]), rng)) == 15


# Which points beside those of the search.


def extra(strategy: Additive | Mixture, data: Data, structure: Structure, n: int = 40) -> Extra:
    best = float(data.u.max())
    asked = Asked(n, SPACE, NONE, ACQUISITIONS["ei"], Goal(best, best + 1.0))
    return strategy.extra(data, structure, asked, np.random.default_rng(0))


def assert_nothing(found: Extra, structure: Structure) -> None:
    assert found.P.shape == (0, DIMS)
    assert found.count == 0
    assert found.structure.pair is structure.pair


def hill(n: int = 200) -> Data:
    """Observations about a summit."""
    data = observed(n)
    T = SPACE.snap(0.5 + 0.1 * (data.T - 0.5))
    u: Floats = -np.sum((T - 0.5) ** 2, axis=1)
    return replace(data, T=T, u=u)


def test_the_additive_belief_has_probes() -> None:
    data = observed(200)
    found = extra(Additive(), data, believing(None))
    P, count, pair = Probes().points(data, None, 40, NONE, SPACE, np.random.default_rng(0))
    np.testing.assert_array_equal(found.P, P)
    assert found.count == count == 20
    assert found.structure.pair is not None
    np.testing.assert_array_equal(found.structure.pair, pair)
    again = extra(Additive(), data, found.structure)
    assert again.structure.pair is not None
    np.testing.assert_array_equal(again.structure.pair, pair)


@pytest.mark.parametrize("changes", [{"probes": None}, {"group_limit": 1}])
def test_no_probes_where_they_are_off_or_every_dimension_is_by_itself(
    changes: dict[str, Any],
) -> None:
    limit = {name: value for name, value in changes.items() if name == "group_limit"}
    strategy = Additive(probes=changes.get("probes", Probes()))
    assert_nothing(extra(strategy, observed(200, **limit), believing(None)), believing(None))


def test_the_mixture_has_points_that_polish() -> None:
    data, structure = hill(), believing(0.9)
    found = extra(Mixture(polish=Shrinking(share=0.5)), data, structure)
    best = float(data.u.max())
    P = Shrinking(share=0.5).points(
        data,
        structure,
        ACQUISITIONS["ei"],
        Goal(best, best + 1.0),
        40,
        NONE,
        SPACE.snap,
        np.random.default_rng(0),
    )
    assert len(P) in (16, 17)  # (2 ω - 1) of them
    assert found.count == len(P)
    np.testing.assert_array_equal(found.P, P)
    assert found.structure is structure


def test_nothing_is_polished_where_that_is_off() -> None:
    assert_nothing(extra(Mixture(polish=None), hill(), believing(0.9)), believing(0.9))
