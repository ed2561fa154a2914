from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import ebo
from ebo import Categorical, Float, Int, Optimizer, Settings, Space, box
from ebo.acquisition import ACQUISITIONS
from ebo.arrays import Floats
from ebo.learning import PerLeaf
from ebo.moves import Climbing
from ebo.moves.climbing import PIECE
from ebo.optimizer import MOST_POINTS
from ebo.tilegp.families import FAMILIES

loose: Any = ebo  # for what a type checker would not let pass
FAST: dict[str, Any] = {"leaf_size": 20}
SMALL = Settings().changed(FAST, block_size=20, learn_from=60, layers=8)
PAPER = Settings.paper().changed(FAST, layers=8, sweeps=2, tries=40)
PBO = Settings().changed(FAST, block_size=20, learn_from=60, fixed=True)
# Every leaf learns by itself, and all else is as in the default preset.
BY_LEAF: dict[str, Any] = {
    "learning": PerLeaf(sweeps=1),
    "borrows": False,
    "mixture": None,
    "probes": None,
    "grows": False,
}
SQUARE = box([0, 0], [1, 1])
MIXED = Space(
    rate=Float(1e-6, 1.0, log=True),
    seed=Int(7, 7),
    depth=Int(1, 9),
    kind=Categorical(["a", True, None, (1, 2)]),
    size=Categorical([8, 16, 32], ordered=True),
    units=Int(1, 1000, log=True),
    shift=Float(-2, 6),
)
THIRTY = Space({f"{name}{i}": p for i in range(5) for name, p in MIXED.parameters.items()})
SPACES = {
    "one float": box([-3], [5]),
    "one log float": Space(x=Float(1e-9, 1e9, log=True)),
    "one int": Space(n=Int(-500, 500)),
    "one log int": Space(n=Int(1, 2**40, log=True)),
    "one choice of many": Space(c=Categorical(range(200))),
    "one free of three": Space(a=Int(4, 4), x=Float(0, 1), c=Categorical(["only"])),
    "a short range": box([1.0, 0.0], [1.0 + 1e-9, 1e-300]),
    "a wide range": box([-8e307, 0], [8e307, 1e300]),
    "mixed": MIXED,
    "thirty": THIRTY,
}


def bumps(space: Space, X: Floats) -> Floats:
    """A function on any space, with its values near one."""
    T = space.to_unit(X)
    values: Floats = (np.sin(5 * T + np.arange(T.shape[1])) - (T - 0.4) ** 2).sum(axis=1)
    return values


def started(space: Space = SQUARE, n: int = 45, **options: Any) -> Optimizer:
    """An optimizer that was told of a first batch."""
    optimizer = Optimizer(space, **{"settings": SMALL, "workers": 1, **options})
    X = optimizer.ask(n)
    y = bumps(space, X)
    optimizer.tell(X, y if optimizer.direction == "maximize" else -y)
    return optimizer


def trajectory(space: Space = SQUARE, rounds: int = 2, **options: Any) -> Floats:
    """All points that are asked for in a few rounds."""
    optimizer = started(space, **options)
    for _ in range(rounds):
        X = optimizer.ask(4)
        y = bumps(space, X)
        optimizer.tell(X, y if optimizer.direction == "maximize" else -y)
    return optimizer.X


def assert_points(space: Space, X: Floats, n: int) -> None:
    assert X.shape == (n, space.dims)
    np.testing.assert_array_equal(space.check(X), X)
    for row in space.to_dicts(X):
        for name, parameter in space.parameters.items():
            if isinstance(parameter, Categorical):
                assert row[name] in parameter.choices
            else:
                assert type(row[name]) is (int if isinstance(parameter, Int) else float)
                assert parameter.low <= row[name] <= parameter.high


def assert_all_different(*parts: Floats) -> None:
    X = np.concatenate(parts)
    assert len(np.unique(X, axis=0)) == len(X)


def assert_finite_history(optimizer: Optimizer) -> None:
    for entry in optimizer.history:
        assert np.isfinite([entry.best, entry.upper_bound, entry.noise]).all()


# The first points.


def test_the_first_points_are_a_sobol_sequence_that_goes_on() -> None:
    at_once, in_parts = Optimizer(box([0] * 3, [1] * 3)), Optimizer(box([0] * 3, [1] * 3))
    X = at_once.ask(16)
    assert (np.sort(np.floor(16 * X), axis=0) == np.arange(16)[:, None]).all()
    np.testing.assert_array_equal(np.vstack([in_parts.ask(5), in_parts.ask(11)]), X)


def test_while_all_fail_the_sobol_sequence_goes_on() -> None:
    told, untold = Optimizer(SQUARE), Optimizer(SQUARE)
    for value in (math.nan, math.inf, -math.inf):
        X = told.ask(4)
        np.testing.assert_array_equal(X, untold.ask(4))
        told.tell(X, [value] * 4)
    assert np.isnan(told.y).all()
    assert told.history == []


# What is asked, in every kind of space.


@pytest.mark.parametrize("settings", [SMALL, PAPER], ids=["default", "paper"])
@pytest.mark.parametrize("space", SPACES.values(), ids=list(SPACES))
def test_points_of_every_kind_of_space(space: Space, settings: Settings) -> None:
    optimizer = started(space, settings=settings)
    assert_points(space, optimizer.X, 45)
    for n in (1, 6):
        X = optimizer.ask(n)
        assert_points(space, X, n)
        optimizer.tell(X, bumps(space, X))
    assert len(optimizer.history) == 2
    assert_all_different(optimizer.X)
    assert_finite_history(optimizer)


@pytest.mark.parametrize("settings", [SMALL, PAPER], ids=["default", "paper"])
@pytest.mark.parametrize(
    "space",
    [
        Space(n=Int(0, 1)),
        Space(a=Categorical(["x", "y"]), b=Int(3, 4), c=Int(5, 5)),
        Space(a=Categorical(["x", "y", "z", 1, 2])),
    ],
)
def test_where_a_space_has_too_few_points_they_repeat(space: Space, settings: Settings) -> None:
    optimizer = Optimizer(space, settings=settings, workers=1)
    every = int(np.prod(space.levels))
    for n in (1, every + 3, 1, 8):
        X = optimizer.ask(n)
        assert_points(space, X, n)
        optimizer.tell(X, bumps(space, X))
    assert len(np.unique(optimizer.X, axis=0)) == every


def test_the_last_points_that_are_new_are_found() -> None:
    for seed in range(5):
        optimizer = Optimizer(Space(n=Int(0, 99)), seed=seed, settings=SMALL, workers=1)
        optimizer.tell(np.arange(1.0, 100.0)[:, None], np.arange(99))
        assert optimizer.ask(1) == 0


@pytest.mark.parametrize("settings", [SMALL, PAPER], ids=["default", "paper"])
def test_all_parameters_fixed(settings: Settings) -> None:
    space = Space(a=Float(0.1, 0.1), b=Int(3, 3), c=Categorical(["only"]))
    optimizer = Optimizer(space, settings=settings)
    for _ in range(3):
        X = optimizer.ask(4)
        assert X.tolist() == [[0.1, 3, 0]] * 4
        optimizer.tell(X, [1, 2, math.nan, 4])
    assert optimizer.best()[1] == 4


# Every setting.

CHOICES = {
    **{f"{k}, pooled": SMALL.changed(kernel=k) for k in FAMILIES},
    **{f"{k}, leaves": SMALL.changed(BY_LEAF, kernel=k) for k in FAMILIES},
    **{f"{k}, paper": PAPER.changed(kernel=k) for k in FAMILIES},
    **{a: SMALL.changed(acquisition=a) for a in ACQUISITIONS},
    **{f"{a}, paper": PAPER.changed(acquisition=a) for a in ACQUISITIONS},
}
CHANGES: dict[str, dict[str, Any]] = {
    "fixed partition": {"fixed": True},
    "overlap": {"overlap": 0.1},
    "fixed partition with overlap": {"fixed": True, "overlap": 0.1},
    "one leaf": {"max_leaves": 1},
    "tiny leaves": {"leaf_size": 1, "block_size": 1},
    "groups of one": {"group_limit": 1},
    "no limit of groups": {"group_limit": None},
    "noise known": {"noise": 0.01},
    "many candidates": {"candidates": 5.0},
    "as many candidates as points": {"candidates": 1.0},
    "cuts for every layer": {"kernel": "tile-coding", "per_layer": True},
    "grid cuts for every layer": {"kernel": "mondrian-grid", "per_layer": True},
    "as printed": {"search": "printed", "tries": 40, "passes": 2},
    "three steps": {"step.count": 3, "crossover.count": 1},
    "one step": {"step.count": 1, "crossover.count": 1},
    "little to learn from": {"learn_from": 1},
}
for key, changes in CHANGES.items():
    CHOICES[key] = SMALL.changed(changes)
    of_paper = {k: value for k, value in changes.items() if k not in ("block_size", "learn_from")}
    CHOICES[f"{key}, paper"] = PAPER.changed({"layers": 4} | of_paper)
# What only one of the presets has, off or on.
CHOICES |= {
    "no mixture": SMALL.changed(mixture=None),
    "no probes": SMALL.changed(probes=None),
    "no polish": SMALL.changed(polish=None),
    "no crossover": SMALL.changed({"crossover.share": 0.0}),
    "no leaps": SMALL.changed({"difference.share": 0.0}),
    "leaves that do not grow": SMALL.changed(grows=False),
    "no borrowing": SMALL.changed(borrows=False),
    "by volume": SMALL.changed(by="volume"),
    "no sweeps": SMALL.changed(sweeps=0),
    "no sweeps, paper": PAPER.changed(sweeps=0),
    "climbing, paper": PAPER.changed(search=Climbing()),
    "by rank, paper": PAPER.changed(by="rank"),
    "pooled, paper": PAPER.changed(learning="pooled", block_size=20, learn_from=60),
    "mixture and probes, paper": PAPER.changed(mixture="mixture", probes="probes"),
}


@pytest.mark.parametrize("settings", CHOICES.values(), ids=list(CHOICES))
def test_every_setting(settings: Settings) -> None:
    optimizer = started(MIXED, settings=settings)
    for n in (3, 2):
        X = optimizer.ask(n)
        assert_points(MIXED, X, n)
        optimizer.tell(X, bumps(MIXED, X))
    assert_all_different(optimizer.X)
    assert_finite_history(optimizer)
    assert {name for group in optimizer.structure().groups for name in group} == set(
        MIXED.names
    ) - {"seed"}
    if settings.partition.fixed:
        assert optimizer.history[0].leaves == optimizer.history[1].leaves
    assert optimizer.history[0].leaves <= settings.partition.max_leaves


@pytest.mark.parametrize("settings", [SMALL, PAPER], ids=["default", "paper"])
@pytest.mark.parametrize("acquisition", ["eta", "ei", "mes"])
@pytest.mark.parametrize("bound", [3.0, 1e9, -5.0, -1e9, 0.0, None])
@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_bounds_known_unknown_and_wrong(
    settings: Settings, acquisition: str, bound: float | None, direction: str
) -> None:
    options: dict[str, Any] = {"direction": direction}
    if bound is not None:
        options["upper_bound" if direction == "maximize" else "lower_bound"] = bound
    chosen = settings.changed(acquisition=acquisition)
    optimizer = started(n=25, settings=chosen, **options)
    X = optimizer.ask(3)
    assert_points(SQUARE, X, 3)
    assert_all_different(optimizer.X, X)
    (entry,) = optimizer.history
    assert entry.upper_bound_known == (bound is not None)
    if bound is not None:
        assert entry.upper_bound == bound
    elif direction == "maximize":
        assert entry.upper_bound >= entry.best
    else:
        assert entry.upper_bound <= entry.best


@pytest.mark.parametrize("bound", [1e308, -1e308])
def test_a_bound_as_large_as_floats_go(bound: float) -> None:
    optimizer = Optimizer(SQUARE, upper_bound=bound, settings=SMALL, workers=1)
    X = optimizer.ask(30)
    optimizer.tell(X, 1e-3 * bumps(SQUARE, X))
    assert_points(SQUARE, optimizer.ask(3), 3)


# Values of every kind.


def heavy(X: Floats) -> Floats:
    values: Floats = np.random.default_rng(0).standard_cauchy(len(X)) ** 5
    return values


VALUES: dict[str, Callable[[Floats], Any]] = {
    "huge": lambda X: 1e300 * bumps(SQUARE, X),
    "huge and all equal": lambda X: np.full(len(X), -1e300),
    "tiny": lambda X: 1e-300 * bumps(SQUARE, X),
    "below the normal floats": lambda X: 1e-315 * bumps(SQUARE, X),
    "all equal": lambda X: np.full(len(X), 3.25),
    "all zero": lambda X: np.zeros(len(X)),
    "zeros of both signs": lambda X: np.where(X[:, 0] > 0.5, 0.0, -0.0),
    "all equal but one": lambda X: np.where(np.arange(len(X)) == 1, 1.0, 0.0),
    "from huge to huge": lambda X: np.where(X[:, 0] > 0.5, 1e300, -1e300),
    "from tiny to huge": lambda X: np.geomspace(1e-300, 1e300, len(X)),
    "one huge": lambda X: np.where(np.arange(len(X)) == 1, 1e300, bumps(SQUARE, X)),
    "one very low": lambda X: np.where(np.arange(len(X)) == 1, -1e300, bumps(SQUARE, X)),
    "far from zero": lambda X: 1e15 + bumps(SQUARE, X),
    "heavy-tailed": heavy,
    "noise only": lambda X: np.random.default_rng(1).standard_normal(len(X)),
    "ints": lambda X: np.floor(9 * X[:, 0]).astype(np.int64),
    "Python's ints": lambda X: [int(9 * x) - 10**18 for x in X[:, 0]],
    "bools": lambda X: X[:, 0] > 0.5,
    "single precision": lambda X: bumps(SQUARE, X).astype(np.float32),
    "a list": lambda X: bumps(SQUARE, X).tolist(),
    "one that has not failed": lambda X: np.where(np.arange(len(X)) == 1, 1.0, np.nan),
    "half failed": lambda X: np.where(X[:, 0] < X[:, 1], np.nan, bumps(SQUARE, X)),
    "failed as infinite": lambda X: np.where(X[:, 0] < X[:, 1], np.inf, bumps(SQUARE, X)),
    "failed as -infinite": lambda X: np.where(X[:, 0] < X[:, 1], -np.inf, bumps(SQUARE, X)),
}


@pytest.mark.parametrize("settings", [SMALL, PAPER], ids=["default", "paper"])
@pytest.mark.parametrize("values", VALUES.values(), ids=list(VALUES))
def test_values_of_every_kind(values: Callable[[Floats], Any], settings: Settings) -> None:
    optimizer = Optimizer(SQUARE, settings=settings, workers=1)
    for n in (30, 4, 4):
        X = optimizer.ask(n)
        assert_points(SQUARE, X, n)
        optimizer.tell(X, values(X))
    assert len(optimizer.history) == 2
    assert_all_different(optimizer.X)
    assert_finite_history(optimizer)
    x, best = optimizer.best()
    assert best == np.nanmax(optimizer.y)
    assert x.tolist() in optimizer.X.tolist()
    assert (optimizer.structure().certainty <= 1).all()


@pytest.mark.parametrize(
    ("most", "least"), [(1e300, 1e-50), (1e250, 1e-300), (1.79e308, -1.79e308)]
)
def test_values_as_far_apart_as_floats_go(most: float, least: float) -> None:
    optimizer = Optimizer(SQUARE, settings=SMALL, workers=1)
    X = optimizer.ask(10)
    optimizer.tell(X, [most, most, *np.linspace(0.0, 1.0, 8) * least])
    assert_points(SQUARE, optimizer.ask(3), 3)
    assert_finite_history(optimizer)


@pytest.mark.parametrize("settings", [SMALL, PAPER], ids=["default", "paper"])
def test_failed_batches_between_others(settings: Settings) -> None:
    optimizer = Optimizer(SQUARE, settings=settings, workers=1)
    for failed in (1.0, 0.5, 1.0, 1.0, 0.3, 0.0):
        X = optimizer.ask(8)
        y = np.where(np.arange(8) < 8 * failed, np.nan, bumps(SQUARE, X))
        optimizer.tell(X, y)
    assert len(optimizer.history) == 4
    assert optimizer.history[-1].observations == 40
    assert np.isnan(optimizer.y).sum() == 8 + 4 + 8 + 8 + 3
    assert_all_different(optimizer.X)


# What is told, and what is pending.


def test_what_is_asked_is_pending_until_it_is_told() -> None:
    optimizer = started()
    A = optimizer.ask(4)
    B = optimizer.ask(3)
    np.testing.assert_array_equal(optimizer.pending, np.vstack([A, B]))
    optimizer.tell(np.vstack([B[:1], A[2:]]), [1.0, math.nan, 2.0])
    np.testing.assert_array_equal(optimizer.pending, np.vstack([A[:2], B[1:]]))
    optimizer.tell([[0.125, 0.25]], [0.5])  # never asked
    np.testing.assert_array_equal(optimizer.pending, np.vstack([A[:2], B[1:]]))
    C = optimizer.ask(5)
    assert_all_different(optimizer.X, A[:2], B[1:], C)
    np.testing.assert_array_equal(optimizer.X[45:], np.vstack([B[:1], A[2:], [[0.125, 0.25]]]))
    np.testing.assert_array_equal(optimizer.y[45:], [1.0, math.nan, 2.0, 0.5])


@pytest.mark.parametrize("settings", [SMALL, PAPER], ids=["default", "paper"])
def test_asking_on_and_on_without_telling(settings: Settings) -> None:
    optimizer = started(box([0], [1]), settings=settings)
    batches = [optimizer.ask(2) for _ in range(10)]
    assert len(optimizer.pending) == 20
    assert_all_different(optimizer.X, *batches)


@pytest.mark.parametrize("settings", [SMALL, PAPER], ids=["default", "paper"])
def test_points_that_are_pending_change_what_is_asked(settings: Settings) -> None:
    X = np.random.default_rng(0).random((30, 2))
    asked = []
    for pending in (1, 1, 30):  # so many Sobol points, and the same data and stream after them
        optimizer = Optimizer(SQUARE, settings=settings, workers=1)
        optimizer.ask(pending)
        optimizer.tell(X, bumps(SQUARE, X))
        asked.append(optimizer.ask(6))
    np.testing.assert_array_equal(asked[0], asked[1])
    assert not np.array_equal(asked[0], asked[2])


def test_a_point_may_be_told_again_and_again() -> None:
    optimizer = started()
    X = optimizer.ask(2)
    for noise in (0.0, 0.1, -0.1, math.nan):
        optimizer.tell(np.repeat(X, 3, axis=0), bumps(SQUARE, X).repeat(3) + noise)
    assert len(optimizer.X) == 45 + 24
    assert len(optimizer.pending) == 0
    assert_all_different(optimizer.X[:47:3], optimizer.ask(3))


@pytest.mark.parametrize("settings", [SMALL, PAPER], ids=["default", "paper"])
def test_nothing_but_one_point_told_many_times(settings: Settings) -> None:
    optimizer = Optimizer(SQUARE, settings=settings, workers=1)
    optimizer.tell([[0.5, 0.5]] * 50, np.random.default_rng(0).standard_normal(50))
    X = optimizer.ask(4)
    assert_points(SQUARE, X, 4)
    assert_all_different(X, np.array([[0.5, 0.5]]))


def test_points_of_ones_own_before_any_is_asked() -> None:
    optimizer = Optimizer(SQUARE, settings=SMALL)
    X = np.random.default_rng(0).random((25, 2))
    optimizer.tell(X, bumps(SQUARE, X))
    assert_all_different(X, optimizer.ask(5))
    assert len(optimizer.history) == 1


def test_telling_of_no_points() -> None:
    optimizer = started()
    optimizer.ask(2)
    optimizer.tell(np.empty((0, 2)), [])
    assert len(optimizer.pending) == 2
    assert len(optimizer.X) == len(optimizer.y) == 45


def test_arrays_are_the_callers_own() -> None:
    optimizer, twin = started(), started()
    X, y = optimizer.ask(3), np.ones(3)
    asked = X.copy()
    twin.ask(3)
    for array in (X, optimizer.pending, optimizer.X, optimizer.y, optimizer.best()[0]):
        array[:] = 0.75
    np.testing.assert_array_equal(optimizer.pending, asked)
    X[:] = asked
    optimizer.tell(X, y)
    twin.tell(asked, np.ones(3))
    X[:], y[:] = 0.25, 7.0
    np.testing.assert_array_equal(optimizer.X, twin.X)
    np.testing.assert_array_equal(optimizer.ask(3), twin.ask(3))


# One seed, one trajectory.


@cache
def reference(settings: Settings) -> Floats:
    return trajectory(MIXED, settings=settings, seed=3)


PRESETS = pytest.mark.parametrize(
    "settings",
    [SMALL, PAPER, CHOICES["tile-coding, pooled"], CHOICES["laplace, leaves"], CHOICES["mes"]],
    ids=["default", "paper", "tile-coding, pooled", "laplace, leaves", "mes"],
)


@PRESETS
@pytest.mark.parametrize("workers", [1, 2, 3, None])
def test_one_seed_one_trajectory(settings: Settings, workers: int | None) -> None:
    X = trajectory(MIXED, settings=settings, seed=3, workers=workers)
    np.testing.assert_array_equal(X, reference(settings))


@PRESETS
def test_another_seed_another_trajectory(settings: Settings) -> None:
    X = trajectory(MIXED, settings=settings, seed=4)
    assert not np.array_equal(X[:45], reference(settings)[:45])
    assert not np.array_equal(X[45:], reference(settings)[45:])


def test_another_seed_asks_for_others_on_the_same_data() -> None:
    X = np.random.default_rng(0).random((30, 2))
    asked = []
    for seed in (0, 1, 2**70):
        optimizer = Optimizer(SQUARE, seed=seed, settings=SMALL, workers=1)
        optimizer.tell(X, bumps(SQUARE, X))
        asked.append(optimizer.ask(4))
    assert_all_different(*asked)


@PRESETS
def test_the_order_of_telling_does_not_matter(settings: Settings) -> None:
    one, other = (Optimizer(MIXED, settings=settings, workers=1) for _ in range(2))
    rng = np.random.default_rng(0)
    for n in (45, 6, 6):
        X = one.ask(n)
        np.testing.assert_array_equal(other.ask(n), X)
        y = np.where(rng.random(n) < 0.2, np.nan, bumps(MIXED, X))
        X, y = np.vstack([X, X[:3]]), np.append(y, [0.1, 0.3, 0.2])  # some of them twice
        one.tell(X, y)
        for part in np.array_split(rng.permutation(n + 3), 4):
            other.tell(X[part], y[part])
    np.testing.assert_array_equal(one.ask(5), other.ask(5))
    assert one.best()[1] == other.best()[1]


@PRESETS
def test_minimising_is_the_mirror_image(settings: Settings) -> None:
    X = trajectory(MIXED, settings=settings, seed=3, direction="minimize")
    np.testing.assert_array_equal(X, reference(settings))


@pytest.mark.parametrize("settings", [PAPER, CHOICES["eta"]], ids=["paper", "eta"])
def test_a_bound_is_mirrored_too(settings: Settings) -> None:
    up = trajectory(settings=settings, upper_bound=2.5)
    down = trajectory(settings=settings, direction="minimize", lower_bound=-2.5)
    np.testing.assert_array_equal(up, down)
    assert not np.array_equal(up, trajectory(settings=settings, upper_bound=99.0))


def test_the_default_does_without_a_bound() -> None:
    """Expected improvement needs none, so that a wrong one does no harm."""
    without = trajectory()
    for bound in (2.5, 99.0, -99.0):
        np.testing.assert_array_equal(trajectory(upper_bound=bound), without)


# What is known.


def test_best() -> None:
    optimizer = Optimizer(SQUARE)
    with pytest.raises(RuntimeError, match="no value is known yet; tell at least one"):
        optimizer.best()
    X = optimizer.ask(4)
    optimizer.tell(X[:2], [math.nan, math.inf])
    with pytest.raises(RuntimeError, match="no value is known yet; tell at least one that has not"):
        optimizer.best()
    optimizer.tell(X[2:], [-3.0, -2.0])
    x, value = optimizer.best()
    np.testing.assert_array_equal(x, X[3])
    assert type(value) is float
    assert value == -2.0


def test_the_best_of_a_minimisation_is_the_lowest() -> None:
    optimizer = started(direction="minimize")
    x, value = optimizer.best()
    assert value == optimizer.y.min()
    np.testing.assert_array_equal(x, optimizer.X[optimizer.y.argmin()])


@pytest.mark.parametrize("settings", [SMALL, PAPER], ids=["default", "paper"])
@pytest.mark.parametrize("space", [box([0], [1]), SQUARE, MIXED, THIRTY], ids=[1, 2, 7, 35])
def test_structure(space: Space, settings: Settings) -> None:
    optimizer = Optimizer(space, settings=settings, workers=1)
    with pytest.raises(RuntimeError, match="nothing is learned yet; tell some values and ask once"):
        optimizer.structure()
    X = optimizer.ask(30)
    optimizer.tell(X, bumps(space, X))
    with pytest.raises(RuntimeError, match="nothing is learned yet"):
        optimizer.structure()
    free = [name for name, free in zip(space.names, space.free, strict=True) if free]
    for _ in range(3):
        X = optimizer.ask(2)
        optimizer.tell(X, bumps(space, X))
        learned = optimizer.structure()
        assert sorted(name for group in learned.groups for name in group) == sorted(free)
        assert sorted(learned.cuts) == sorted(free)
        assert all(type(name) is str for group in learned.groups for name in group)
        assert (np.array(list(learned.cuts.values())) >= 0).all()
        assert learned.certainty.shape == (space.dims, space.dims)
        certainty = learned.certainty[np.ix_(space.free, space.free)]
        assert ((certainty >= 0) & (certainty <= 1)).all()
        np.testing.assert_allclose(np.diag(certainty), 1, rtol=1e-12)
        np.testing.assert_array_equal(certainty, certainty.T)
        assert np.isnan(learned.certainty[~space.free]).all()
        assert np.isnan(learned.certainty[:, ~space.free]).all()
        assert 0 < learned.noise <= 1
        assert learned.additive == 1 if settings is PAPER else 0 < learned.additive < 1
        assert optimizer.history[-1].groups == len(learned.groups)
        assert optimizer.history[-1].noise == learned.noise


def test_history() -> None:
    optimizer = started()
    for i in range(3):
        assert len(optimizer.history) == i
        X = optimizer.ask(4)
        entry = optimizer.history[-1]
        assert entry.iteration == i + 1
        assert entry.observations == len(optimizer.y)
        assert entry.best == optimizer.best()[1]
        assert entry.upper_bound > entry.best
        assert not entry.upper_bound_known
        assert entry.leaves >= 2
        assert set(entry.seconds) == {"partition", "learn", "search", "filter"}
        assert all(seconds >= 0 for seconds in entry.seconds.values())
        optimizer.tell(X, bumps(SQUARE, X))


# Mistakes.


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"space": [(0, 1)]}, TypeError, r"space is a list; give ebo.box\(...\) or ebo.Space"),
        ({"space": None}, TypeError, "space is a NoneType; give ebo.box"),
        ({"direction": "max"}, ValueError, "direction is 'max'; give 'maximize' or 'minimize'"),
        ({"direction": None}, ValueError, "direction is None; give 'maximize' or"),
        ({"upper_bound": 1, "lower_bound": 0}, ValueError, "give upper_bound, not the other"),
        ({"lower_bound": 0}, ValueError, "with direction='maximize' give upper_bound"),
        (
            {"upper_bound": 0, "direction": "minimize"},
            ValueError,
            "with direction='minimize' give lower_bound",
        ),
        ({"upper_bound": math.inf}, ValueError, "upper_bound is inf; give a finite value, or None"),
        ({"upper_bound": math.nan}, ValueError, "upper_bound is nan; give a finite value"),
        (
            {"lower_bound": -math.inf, "direction": "minimize"},
            ValueError,
            "lower_bound is -inf; give a finite value, or None if it is not known",
        ),
        ({"workers": 0}, ValueError, "workers is 0; give at least 1, or None for all cores"),
        ({"workers": -2}, ValueError, "workers is -2"),
        ({"workers": 1.5}, ValueError, "workers is 1.5"),
        ({"workers": True}, ValueError, "workers is True"),
        ({"workers": "all"}, ValueError, "workers is 'all'"),
        pytest.param({"settings": {"leaf_size": 9}}, TypeError, "settings"),
        pytest.param({"settings": Settings.paper}, TypeError, "settings"),
        pytest.param({"settings": "paper"}, TypeError, "settings"),
        pytest.param({"seed": -1}, ValueError, "seed is -1"),
        pytest.param({"seed": 1.5}, (TypeError, ValueError), "seed is 1.5"),
        pytest.param({"seed": "x"}, (TypeError, ValueError), "seed is 'x'"),
        pytest.param({"seed": None}, (TypeError, ValueError), "seed is None"),
        pytest.param(
            {"upper_bound": "high"},
            (TypeError, ValueError),
            "upper_bound is 'high'",
        ),
        pytest.param(
            {"upper_bound": [1, 2]},
            (TypeError, ValueError),
            r"upper_bound is \[1, 2\]",
        ),
    ],
)
def test_bad_optimizers(options: dict[str, Any], error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        loose.Optimizer(**{"space": SQUARE, **options})


@pytest.mark.parametrize(
    "n",
    [0, -1, 2.5, 2.0, True, None, "3", [2], math.nan, np.float64(2), 10**6 + 1, 10**12, 2**63],
)
def test_bad_numbers_of_points(n: Any) -> None:
    assert_harmless(
        lambda optimizer: optimizer.ask(n),
        ValueError,
        f"asked for {re.escape(repr(n))} points; ask for a whole number of at least 1, at most 10",
    )


def test_as_many_points_as_are_allowed() -> None:
    assert MOST_POINTS == 10**6
    assert len(Optimizer(box([0], [1])).ask(MOST_POINTS)) == MOST_POINTS


GOOD = [[0.5, 3, 0], [0.25, 4, 1]]
PART = Space(x=Float(0, 1), n=Int(1, 5), c=Categorical(["a", "b"]))


@pytest.mark.parametrize(
    ("X", "y", "error", "message"),
    [
        ([0.5, 3, 0], [1], ValueError, r"X has shape \(3,\).*give X\[None, :\]"),
        ([[0.5, 3]], [1], ValueError, r"X has shape \(1, 2\), expected \(n, 3\)"),
        ([], [], ValueError, r"X has shape \(0,\), expected \(n, 3\)"),
        ([[0.5, 3, 0], [0.5, 3]], [1, 2], ValueError, "its rows have different lengths"),
        ([[math.nan, 3, 0]], [1], ValueError, "row 0, parameter 'x': nan is not finite; drop"),
        ([GOOD[0], [math.inf, 3, 0]], [1, 2], ValueError, "row 1, parameter 'x': inf is not fin"),
        ([[1.5, 3, 0]], [1], ValueError, r"'x': 1.5 is outside \[0.0, 1.0\]; clip it, or widen"),
        ([[0.5, 9, 0]], [1], ValueError, r"parameter 'n': 9.0 is outside \[1, 5\]"),
        ([[0.5, 2.5, 0]], [1], ValueError, "parameter 'n': 2.5 is not whole.*round it"),
        ([[0.5, 3, 2]], [1], ValueError, "parameter 'c': 2.0 is not the index of a choice"),
        ([[0.5, 3, "a"]], [1], TypeError, "X has dtype <U.*Space.from_dicts makes one of dicts"),
        ([{"x": 0.5, "n": 3}], [1], ValueError, "row 0: no value for 'c'; give all of 'x', 'n'"),
        (None, [1], TypeError, "X has dtype object"),
        (GOOD, [1], ValueError, r"y has shape \(1,\) for 2 points; give \(2,\), one value for"),
        (GOOD, [1, 2, 3], ValueError, r"y has shape \(3,\) for 2 points"),
        (GOOD, 1.0, ValueError, r"y has shape \(\) for 2 points"),
        (GOOD, [[1], [2]], ValueError, r"y has shape \(2, 1\) for 2 points"),
        (GOOD, [[1], [2, 3]], ValueError, r"y is \[\[1\], \[2, 3\]\]; give numbers"),
        (GOOD, ["one", "two"], ValueError, "y is .*'one', 'two'.*; give numbers, NaN for an eval"),
        (GOOD, [1, 2j], ValueError, r"y is \[1, 2j\]; give numbers"),
        (GOOD, [{}, 1], ValueError, r"y is \[{}, 1\]; give numbers"),
        pytest.param(GOOD, ["1", "2"], ValueError, "y is .*; give numbers"),
        pytest.param(GOOD, [1, None], ValueError, "y is .*; give numbers"),
        pytest.param(GOOD, np.array([1, 2j]), ValueError, "; give numbers"),
        pytest.param(GOOD, np.array([1, 2], "M8[D]"), ValueError, "; give num"),
    ],
)
def test_bad_tellings(X: Any, y: Any, error: type[Exception], message: str) -> None:
    assert_harmless(lambda optimizer: optimizer.tell(X, y), error, message)


@cache
def undisturbed() -> Floats:
    optimizer = started(PART)
    optimizer.ask(3)
    return optimizer.ask(3)


def assert_harmless(
    mistake: Callable[[Optimizer], object], error: type[Exception], message: str
) -> None:
    """It raises, and all goes on as if it had not happened."""
    optimizer = started(PART)
    optimizer.ask(3)
    before = optimizer.X, optimizer.y, optimizer.pending
    with pytest.raises(error, match=message):
        mistake(optimizer)
    for old, new in zip(before, (optimizer.X, optimizer.y, optimizer.pending), strict=True):
        np.testing.assert_array_equal(old, new)
    np.testing.assert_array_equal(optimizer.ask(3), undisturbed())
    optimizer.tell(optimizer.pending, np.ones(6))
    assert len(optimizer.y) == 51


def test_names_that_are_unknown() -> None:
    optimizer = started(PART)
    with pytest.raises(
        ValueError, match=r"row 0: unknown name 'kk', .*The names are 'x', 'n', 'c'"
    ):
        optimizer.tell(optimizer.space.from_dicts([{"x": 0.5, "kk": 3, "c": "a"}]), [1.0])
    assert len(optimizer.y) == 45


@pytest.mark.parametrize(
    "settings",
    [SMALL, PAPER, PBO],
    ids=["default", "paper", "pbo"],
)
def test_a_restored_optimizer_goes_on_as_if_nothing_had_happened(settings: Settings) -> None:
    first = Optimizer(SQUARE, seed=3, settings=settings, workers=1)
    for _ in range(4):
        X = first.ask(8)
        first.tell(X[:6], -np.sum(X[:6] ** 2, axis=1))
    second = Optimizer(SQUARE, seed=3, settings=settings, workers=1)
    order = np.random.default_rng(0).permutation(len(first.y))
    second.tell(first.X[order], first.y[order])
    second.restore(first.state, first.pending)
    np.testing.assert_array_equal(second.ask(8), first.ask(8))


@pytest.mark.parametrize(("count", "pieces"), [(1, [1]), (50, [50]), (51, [26, 25])])
def test_candidates_of_a_leaf_in_pieces(count: int, pieces: list[int]) -> None:
    assert PIECE == 50
    assert Climbing().pieces(count) == pieces


def test_a_leaf_of_many_candidates_gives_one_trajectory_by_any_number_of_workers() -> None:
    """One leaf, four pieces: each knows its own candidates only, whoever searches it."""
    batches = []
    for workers in (1, 3):
        optimizer = Optimizer(SQUARE, workers=workers)
        X = optimizer.ask(40)
        optimizer.tell(X, bumps(SQUARE, X))
        batches.append(optimizer.ask(2 * PIECE))
        assert optimizer.history[-1].leaves == 1
    np.testing.assert_array_equal(batches[0], batches[1])
    assert len(np.unique(batches[0], axis=0)) == 2 * PIECE


@pytest.mark.parametrize(
    ("preset", "n", "size"),
    [
        (Settings, 10, 20),
        (Settings, 15, 30),
        (Settings, 100, 40),
        (Settings.paper, 100, 20),
    ],
)
def test_leaves_hold_two_batches_up_to_twice_their_size(preset: Any, n: int, size: int) -> None:
    optimizer = started(n=400, settings=preset().changed(leaf_size=20))
    optimizer.ask(n)
    rows = [len(leaf.rows) for leaf in optimizer.leaves]
    assert max(rows) <= size
    assert max(rows) > size - 8  # some leaf of many is nearly full
