"""What CONTRIBUTING.md promises: a move, an acquisition function and a kernel family can be added
from outside of the package."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from unittest.mock import patch

import numpy as np
import pytest
from scipy.special import log_ndtr

from ebo import Categorical, Float, Int, Optimizer, Settings, Space, Study, box
from ebo.acquisition import ACQUISITIONS, Aim, Goal, Worth, register
from ebo.arrays import Floats
from ebo.checks import check_count
from ebo.moves import Crossover, Move, Region, Step
from ebo.strategies import STRATEGIES
from ebo.tilegp.families import FAMILIES, Family
from ebo.tilegp.features import TileCoding
from ebo.tilegp.kernel import Laplace, Limit

SPACE = box([-1.0] * 4, [1.0] * 4)
MIXED = Space(rate=Float(1e-3, 1.0, log=True), size=Int(1, 9), kind=Categorical(["a", "b", "c"]))


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Whatever a test registers is gone after it."""
    with patch.dict(ACQUISITIONS), patch.dict(FAMILIES), patch.dict(STRATEGIES["moves"]):
        yield


def values(space: Space, X: Floats) -> Floats:
    T = space.to_unit(X)
    found: Floats = -np.sum((T - 0.65) ** 2, axis=1)
    return found


def asked(settings: Settings, *, space: Space = SPACE, asks: int = 2, told: int = 60) -> Floats:
    """The points of a few batches of ten, (asks, 10, D)."""
    optimizer = Optimizer(space, seed=1, settings=settings, workers=1)
    T = np.random.default_rng(2).random((told, int(space.free.sum())))
    X = space.from_unit(T)
    batches = []
    for _ in range(asks):
        optimizer.tell(X, values(space, X))
        X = optimizer.ask(10)
        assert X.shape == (10, space.dims)
        assert np.array_equal(space.check(X), X)
        batches.append(X)
    return np.array(batches)


# A move.


@dataclass(frozen=True, kw_only=True)
class Mirror(Move):
    """The point seen in a mirror: some of its coordinates change sides within the leaf."""

    count: int = 4
    by_group = True
    calls: ClassVar[list[tuple[int, ...]]] = []

    def __post_init__(self) -> None:
        check_count("count", self.count, 1)

    def tries(self, x: Floats, region: Region, reach: float, rng: np.random.Generator) -> Floats:
        self.calls.append(x.shape)
        mirrored = region.leaf.lower + region.leaf.upper - x
        return np.where(rng.random((self.count, len(x))) < 0.5, mirrored, x)


@dataclass(frozen=True, kw_only=True)
class Home(Move):
    """Straight to the middle of the leaf, as a whole point."""

    share: float = 0.5

    def tries(self, x: Floats, region: Region, reach: float, rng: np.random.Generator) -> Floats:
        Mirror.calls.append(x.shape)
        return 0.5 * (region.leaf.lower + region.leaf.upper)[None, :]


def with_moves(*moves: Move) -> Settings:
    return Settings().changed({"additive.moves": moves, "mixture.moves": moves})


@pytest.mark.parametrize("moves", [(Mirror(),), (Step(), Crossover(), Mirror()), (Home(), Step())])
@pytest.mark.parametrize("space", [SPACE, MIXED])
def test_a_move_of_ones_own(moves: tuple[Move, ...], space: Space) -> None:
    Mirror.calls.clear()
    X = asked(with_moves(*moves), space=space)
    assert len(Mirror.calls) >= 5
    assert set(Mirror.calls) == {(space.dims,)}
    assert np.array_equal(asked(with_moves(*moves), space=space), X)


def test_a_move_by_its_name_is_kept_in_a_study(tmp_path: Path) -> None:
    STRATEGIES["moves"]["mirror"] = Mirror
    settings = with_moves(Step(), Mirror(count=7)).changed({"additive.mirror.count": 3})
    assert Settings.from_dict(settings.as_dict()) == settings
    assert settings.flat()["ensemble.additive.mirror.count"] == 3
    with Study.create(tmp_path / "mirrored.ebo", SPACE, settings=settings) as study:
        X = study.ask(5)
        study.tell(X, values(SPACE, X))
        study.ask(5)
    with Study.open(tmp_path / "mirrored.ebo") as study:
        assert study.settings == settings
        assert study.ask(5).shape == (5, 4)


def test_a_move_without_a_name_is_used_but_not_kept(tmp_path: Path) -> None:
    settings = with_moves(Step(), Mirror())
    assert asked(settings, asks=1).shape == (1, 10, 4)
    with pytest.raises(ValueError, match=r"STRATEGIES\['moves'\]\['mirror'\] = Mirror"):
        Study.create(tmp_path / "mirrored.ebo", SPACE, settings=settings)
    assert not list(tmp_path.iterdir())


def test_a_study_with_a_move_that_is_not_there_says_which(tmp_path: Path) -> None:
    with patch.dict(STRATEGIES["moves"], mirror=Mirror):
        settings = with_moves(Step(), Mirror())
        Study.create(tmp_path / "mirrored.ebo", SPACE, settings=settings).close()
    with pytest.raises(Exception, match="'mirror'; choose one of step, crossover, difference"):
        Study.open(tmp_path / "mirrored.ebo")


def test_moves_that_do_not_go_together() -> None:
    with pytest.raises(ValueError, match=r"Home\(share=0.5\),\); add one that is made by group"):
        with_moves(Home())
    with pytest.raises(ValueError, match="give each kind of move once"):
        with_moves(Step(), Mirror(), Mirror(count=1))
    with pytest.raises(TypeError, match=r"give a tuple such as \(Step\(\), Crossover\(\)\)"):
        with_moves(Step(), Mirror)  # type: ignore[arg-type]


# An acquisition function.


def ucb(mean: Floats, sd: Floats, goal: Goal) -> Floats:
    return mean + goal.deviations * sd


def probability(mean: Floats, sd: Floats, goal: Goal) -> Floats:
    found: Floats = log_ndtr((mean - goal.best) / sd)
    return found


@pytest.mark.parametrize(("core", "worth"), [("ucb", ucb), ("pi", probability)])
def test_an_acquisition_function_of_ones_own_is_as_good_as_the_cores(
    core: str, worth: Worth
) -> None:
    register("mine", worth)
    rng, goal = np.random.default_rng(4), Goal(best=1.0, upper_bound=3.0, deviations=1.5)
    mean, sd = rng.standard_normal(50), rng.uniform(0.1, 1.0, 50)
    worths = [Aim(ACQUISITIONS[name], goal, 0.3, 1.7).worth(mean, sd) for name in ("mine", core)]
    np.testing.assert_allclose(worths[0], worths[1], rtol=1e-12)
    settings = Settings().changed(kernel="tile-coding", layers=16)
    own = asked(settings.changed(acquisition="mine"))
    np.testing.assert_allclose(own, asked(settings.changed(acquisition=core)), atol=1e-9)


def test_an_acquisition_function_of_ones_own_optimises() -> None:
    register("mine", ucb)
    settings = Settings().changed(acquisition="mine")
    told = values(SPACE, SPACE.from_unit(np.random.default_rng(2).random((60, 4))))
    for preset in (settings, Settings.paper().changed(acquisition="mine", leaf_size=40, layers=16)):
        X = asked(preset, asks=3)
        assert values(SPACE, X.reshape(-1, 4)).max() > told.max()


def test_what_an_acquisition_function_gets_is_standardised() -> None:
    goals, most = set(), []

    def watching(mean: Floats, sd: Floats, goal: Goal) -> Floats:
        goals.add((goal.best, goal.upper_bound, goal.deviations))
        most.append(max(np.abs(mean).max(), sd.max()))
        assert mean.shape == sd.shape == (len(mean),)
        assert (sd > 0).all()
        return mean + sd

    register("watching", watching)
    asked(Settings().changed(acquisition="watching", deviations=3.0), asks=1)
    ((best, upper_bound, deviations),) = goals
    assert best < upper_bound
    assert deviations == 3.0
    assert max(most) < 20.0


def test_an_acquisition_function_that_is_no_such_thing() -> None:
    names = "eta, ucb, ei, pi, mes, mes-gumbel"
    with pytest.raises(ValueError, match=f"acquisition is 'mine'; choose one of {names}$"):
        Settings(acquisition="mine")
    with pytest.raises(ValueError, match="an acquisition function 'ei' already"):
        register("ei", ucb)
    register("mine", ucb)
    with pytest.raises(ValueError, match="an acquisition function 'mine' already"):
        register("mine", ucb)
    with pytest.raises(TypeError, match="worth is 3; give a function"):
        register("number", 3)  # type: ignore[arg-type]
    assert Settings(acquisition="mine").acquisition == "mine"


@pytest.mark.parametrize(("shape", "given"), [(slice(None), "NaN"), (slice(3), r"shape \(3,\)")])
def test_an_acquisition_function_that_gives_no_numbers(shape: slice, given: str) -> None:
    def broken(mean: Floats, sd: Floats, goal: Goal) -> Floats:
        return np.full_like(mean, np.nan)[shape]

    register("broken", broken)
    with pytest.raises(
        ValueError, match=rf"acquisition function broken gave {given} for \d+ points"
    ):
        asked(Settings(acquisition="broken"), asks=1)


# A kernel family.


class Slow(Laplace):
    """The Laplace kernel, with its rows in Python."""

    in_core: ClassVar[str | None] = None


class Cauchy(Limit):
    """1/(1 + k|t - t'|): a long tail. The core learns its cuts as if it were the Laplace kernel."""

    family: ClassVar[str | None] = "laplace"

    def profile(self, distance: Floats) -> Floats:
        return 1.0 / (1.0 + distance)


class Aligned(TileCoding):
    """Tile coding whose tilings are shifted evenly, and not at random."""

    @classmethod
    def draw(
        cls, dims: int, layers: int, rng: np.random.Generator, categorical: object = None
    ) -> Aligned:
        shifts = np.tile((np.arange(layers) + 0.5) / layers, (dims, 1))
        return cls(shifts, categorical)  # type: ignore[arg-type]


@pytest.mark.parametrize("space", [SPACE, MIXED])
@pytest.mark.parametrize(
    "family",
    [Family(Slow.draw, Slow, layered=False), Family(Cauchy.draw, Cauchy, layered=False),
     Family(Aligned.draw, Cauchy)],
    ids=["slow", "cauchy", "aligned"],
)  # fmt: skip
def test_a_kernel_family_of_ones_own(family: Family, space: Space) -> None:
    FAMILIES["mine"] = family
    settings = Settings().changed(kernel="mine", layers=16)
    X = asked(settings, space=space, asks=3)
    assert values(space, X[-1]).max() > values(space, X[0]).min()
    assert not np.array_equal(X, asked(Settings(), space=space, asks=3))
    assert Settings.from_dict(settings.as_dict()) == settings
    paper = Settings.paper().changed(kernel="mine", layers=16, leaf_size=40)
    assert asked(paper, space=space).shape == (2, 10, space.dims)


def test_rows_in_python_are_those_of_the_core() -> None:
    rng = np.random.default_rng(3)
    T, P, cuts = rng.random((4, 30)), rng.random((7, 4)), np.array([1.0, 5.0, 0.0, 20.0])
    groups = [np.array([0, 2]), np.array([1]), np.array([3])]
    slow, fast = (kernel().rows(cuts, T)(P, groups, 0.25, 30) for kernel in (Slow, Laplace))
    np.testing.assert_allclose(slow, fast, atol=1e-6)


def test_a_kernel_family_that_is_no_such_thing() -> None:
    with pytest.raises(
        ValueError, match=r"kernel is 'mine'; choose one of tile-coding, .* laplace"
    ):
        Settings().changed(kernel="mine")
    FAMILIES["mine"] = Family(Cauchy.draw, Cauchy, layered=False)
    with pytest.raises(ValueError, match="per_layer needs layers"):
        Settings().changed(kernel="mine", per_layer=True)
