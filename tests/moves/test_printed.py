"""The search as printed, against a block-coordinate search by TileGP."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ebo import Space, box
from ebo.acquisition import ACQUISITIONS
from ebo.arrays import Floats
from ebo.moves import printed
from ebo.moves.base import Region
from ebo.moves.printed import Printed
from ebo.tilegp.families import FAMILIES
from ebo.tilegp.kernel import members
from ebo.tilegp.posterior import Walk
from tests.moves.cases import (
    MIXED,
    SINGLE,
    SPACES,
    SQUARE,
    assert_of_the_leaf,
    draw,
    none,
    worth,
)


@pytest.fixture
def unimproved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks are those that were drawn."""
    monkeypatch.setattr(printed, "_improved", lambda region, walk, m, x, v: (x, v))


def propose(region: Region, count: int, seed: int, *, tries: int = 40, passes: int = 1) -> Floats:
    rng = np.random.default_rng(seed)
    return Printed(tries=tries, passes=passes).propose(region, (), count, none(region), rng)


@pytest.mark.parametrize(
    ("kernel", "acquisition"),
    [*((kernel, "ei") for kernel in FAMILIES), *(("laplace", name) for name in ACQUISITIONS)],
)
@pytest.mark.parametrize("space", ["square", "mixed"])
def test_top_candidates_are_the_best_blocks_of_each_group(
    kernel: str, acquisition: str, space: str, unimproved: None
) -> None:
    """The naive twin computes each block's worth with all of the posterior, the others held."""
    options: dict[str, Any] = {"kernel": kernel, "acquisition": acquisition}
    if space == "square":
        options |= {"lower": 0.1, "upper": 0.8}
    region = draw(SPACES[space], seed=3, **options)
    lower, upper = region.leaf.lower, region.leaf.upper
    drawn = np.random.default_rng(3).random((31, len(lower)))
    P = region.snap(lower + drawn * (upper - lower))
    combined = propose(region, 9, 3, tries=30)
    assert len(combined) == 9
    assert_of_the_leaf(region, combined)
    x = P[0].copy()
    for group in region.groups:
        # Equal values may come in any order, so the search is followed where it went.
        P[0] = x
        tried = np.repeat(x[None, :], 31, axis=0)
        tried[:, group] = P[:, group]
        taken = np.repeat(x[None, :], 5, axis=0)
        taken[:, group] = combined[:5, group]
        expected = np.sort(worth(region, tried))[::-1]
        scale = max(1.0, float(np.abs(expected[:5]).max()))
        np.testing.assert_allclose(worth(region, taken), expected[:5], atol=SINGLE * scale)
        x = taken[0]
    np.testing.assert_array_equal(combined[0], x)


@pytest.mark.parametrize("kernel", ["tile-coding", "mondrian-grid"])
@pytest.mark.parametrize("seed", range(5))
def test_a_block_of_one_dimension_with_cells_ends_at_its_optimum(kernel: str, seed: int) -> None:
    region = draw(
        box([0], [1]),
        lower=0.2,
        upper=0.8,
        overlap=0.1,
        kernel=kernel,
        acquisition="eta",
        seed=seed,
    )
    found = worth(region, propose(region, 1, seed, tries=1, passes=2))[0]
    everywhere = worth(region, np.linspace(0.2, 0.8, 20_001)[:, None])
    assert found >= everywhere.max() - 1e-3 * abs(everywhere.max())


@pytest.mark.parametrize("kernel", FAMILIES)
@pytest.mark.parametrize("space", [SQUARE, MIXED])
def test_an_improved_point_is_not_worse_and_stays_in_the_leaf(space: Space, kernel: str) -> None:
    gained = []
    for seed in range(6):
        region = draw(space, lower=0.1, upper=0.9, kernel=kernel, seed=seed)
        walk = Walk(region.model.posterior, room=0)
        x = region.snap(region.uniform(1, np.random.default_rng(seed)))[0]
        v = walk.whitened(region.model.to_leaf(x))
        better, w = printed._improved(region, walk, 0, x, v)
        assert_of_the_leaf(region, better[None, :])
        np.testing.assert_allclose(w, walk.whitened(region.model.to_leaf(better)), atol=1e-3)
        gained.append(worth(region, better[None, :])[0] - worth(region, x[None, :])[0])
    assert min(gained) > -1e-3
    assert max(gained) > 0


@pytest.mark.parametrize("kernel", ["laplace", "hat"])
@pytest.mark.parametrize("seed", range(5))
def test_the_first_candidate_is_the_block_coordinate_point(
    kernel: str, seed: int, unimproved: None
) -> None:
    region = draw(SQUARE, kernel=kernel, acquisition="ucb", seed=seed)
    P = np.random.default_rng(seed).random((51, 4))
    x = P[0].copy()
    for group in members(np.array([0, 0, 1, 1])):
        tried = np.repeat(x[None, :], 51, axis=0)
        tried[:, group] = P[:, group]
        x = tried[worth(region, tried).argmax()]
    np.testing.assert_array_equal(propose(region, 1, seed, tries=50)[0], x)


@pytest.mark.parametrize(("count", "top"), [(1, 1), (2, 1), (3, 2), (9, 5), (100, 50)])
def test_half_are_top_and_half_random(count: int, top: int, unimproved: None) -> None:
    """More may be asked for than there are blocks: then these come again."""
    region = draw(SQUARE, lower=0.2, upper=0.7, seed=1)
    P = propose(region, count, 1, tries=8)
    assert P.shape == (count, 4)
    assert_of_the_leaf(region, P)
    rng = np.random.default_rng(1)
    blocks = 0.2 + rng.random((9, 4)) * (0.7 - 0.2)
    rest = 0.2 + rng.random((count - top, 4)) * (0.7 - 0.2)
    np.testing.assert_array_equal(P[top:], rest)
    for group in region.groups:
        # A block is one of those drawn, and the best come round after all nine have had their turn.
        found = (P[:top, None, group] == blocks[None, :, group]).all(axis=2)
        assert found.sum(axis=1).tolist() == [1] * top
        np.testing.assert_array_equal(P[9:top, group], P[: max(0, top - 9), group])


def test_another_pass_is_not_worse() -> None:
    gained = []
    space = box([0.0] * 8, [1.0] * 8)
    for seed in range(6):
        region = draw(space, seed=seed)
        before = propose(region, 1, seed, tries=15, passes=1)
        after = propose(region, 1, seed, tries=15, passes=3)
        gained.append(float((worth(region, after) - worth(region, before))[0]))
    assert min(gained) > -SINGLE
    assert max(gained) > 0.01


def test_the_heuristic_is_of_a_whole_leaf() -> None:
    strategy = Printed()
    assert strategy.pieces(0) == []
    assert strategy.pieces(5000) == [5000]
