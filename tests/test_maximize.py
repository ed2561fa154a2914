from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ebo
from ebo import Categorical, Float, Int, Optimizer, Result, Settings, Space, box, maximize, minimize
from ebo.arrays import Floats
from ebo.study import AllFailedError, ObjectiveError, Study, StudyError
from tests.test_optimizer import MIXED, PAPER, SMALL, SQUARE, bumps

loose: Any = ebo  # for what a type checker would not let pass
CUBE = box([0] * 3, [1] * 3)
QUICK: dict[str, Any] = {"batch_size": 4, "iterations": 2, "settings": SMALL, "workers": 1}


def bowl(x: Floats) -> Any:
    """Highest, 0, where all are 0.3; of one point or of many."""
    return -((x - 0.3) ** 2).sum(axis=-1)


def same(one: Result, other: Result) -> bool:
    return np.array_equal(one.X, other.X) and np.array_equal(one.y, other.y, equal_nan=True)


# It finds what is best.


@pytest.mark.parametrize(("settings", "regret"), [(SMALL, 0.005), (PAPER, 0.03)])
@pytest.mark.parametrize("upper_bound", [None, 0.0])
def test_the_top_of_a_bowl(settings: Settings, regret: float, upper_bound: float | None) -> None:
    found = [
        maximize(
            bowl,
            CUBE,
            batch_size=8,
            iterations=10,
            upper_bound=upper_bound,
            seed=seed,
            settings=settings,
            workers=1,
        ).best_value
        for seed in range(3)
    ]
    assert np.median(found) > -regret


def test_the_bottom_of_a_bowl_of_dicts() -> None:
    space = Space(rate=Float(1e-4, 1, log=True), n=Int(0, 20), c=Categorical(["bad", "good"]))

    def f(point: dict[str, Any]) -> float:
        penalty = {"bad": 1.0, "good": 0.0}[point["c"]]
        return float(math.log10(point["rate"] / 0.01) ** 2 + (point["n"] - 7) ** 2 / 50 + penalty)

    result = minimize(f, space, batch_size=8, iterations=10, settings=SMALL, workers=1)
    assert result.best_x["c"] == "good"
    assert abs(result.best_x["n"] - 7) <= 2
    assert 2e-3 < result.best_x["rate"] < 5e-2
    assert result.best_value == f(result.best_x) == result.y.min()


@pytest.mark.parametrize("penalty", [math.nan, -1e6, -1e12])
def test_where_a_part_of_the_space_has_failed_or_is_punished(penalty: float) -> None:
    def f(X: Floats) -> Floats:
        return np.where(X[:, 0] > 0.9, penalty, bowl(X))

    options: dict[str, Any] = {"batch_size": 8, "iterations": 10, "vectorized": True}
    found = [
        maximize(f, CUBE, **options, seed=seed, settings=SMALL, workers=1).best_value
        for seed in range(5)
    ]
    assert np.median(found) > -0.001


# It is a loop over ask and tell.


@pytest.mark.parametrize("settings", [SMALL, PAPER], ids=["default", "paper"])
@pytest.mark.parametrize("workers", [1, 2])
def test_it_equals_a_loop_by_hand(settings: Settings, workers: int) -> None:
    result = maximize(
        bowl,
        CUBE,
        batch_size=5,
        iterations=3,
        initial=25,
        upper_bound=0.1,
        seed=7,
        settings=settings,
        workers=workers,
    )
    optimizer = Optimizer(CUBE, seed=7, upper_bound=0.1, settings=settings, workers=1)
    for n in (25, 5, 5, 5):
        X = optimizer.ask(n)
        optimizer.tell(X, bowl(X))
    np.testing.assert_array_equal(result.X, optimizer.X)
    np.testing.assert_array_equal(result.y, optimizer.y)
    assert [entry.upper_bound for entry in result.history] == [0.1] * 3


def test_one_seed_one_run() -> None:
    first = maximize(bowl, CUBE, **QUICK, seed=1)
    assert same(first, maximize(bowl, CUBE, **QUICK, seed=1))
    assert same(first, maximize(bowl, CUBE, **{**QUICK, "workers": 2}, seed=1))
    assert not same(first, maximize(bowl, CUBE, **QUICK, seed=2))


@pytest.mark.parametrize("bound", [None, 0.5])
def test_minimising_is_the_mirror_image(bound: float | None) -> None:
    def f(x: Floats) -> float:
        return math.nan if x[0] > 0.9 else float(bowl(x))

    options: dict[str, Any] = {**QUICK, "initial": 25, "settings": PAPER}  # η needs the bound
    up = maximize(f, CUBE, **options, upper_bound=bound)
    lower_bound = None if bound is None else -bound
    down = minimize(lambda x: -f(x), CUBE, **options, lower_bound=lower_bound)
    np.testing.assert_array_equal(up.X, down.X)
    np.testing.assert_array_equal(up.y, -down.y)
    np.testing.assert_array_equal(up.best_x, down.best_x)
    assert up.best_value == -down.best_value
    for one, other in zip(up.history, down.history, strict=True):
        assert one.best == -other.best
        assert one.upper_bound == -other.upper_bound


def test_it_goes_on_by_ask_and_tell() -> None:
    optimizer = maximize(bowl, CUBE, **QUICK).optimizer
    X = optimizer.ask(4)
    optimizer.tell(X, bowl(X))
    longer = maximize(bowl, CUBE, **{**QUICK, "iterations": 3})
    np.testing.assert_array_equal(optimizer.X, longer.X)


# The result.


def test_the_result_of_a_box() -> None:
    result = maximize(bowl, CUBE, **QUICK)
    assert result.X.shape == (12, 3)
    np.testing.assert_array_equal(result.y, [bowl(x) for x in result.X])
    assert result.best_value == result.y.max()
    assert type(result.best_value) is float
    np.testing.assert_array_equal(result.best_x, result.X[result.y.argmax()])
    assert len(result.optimizer.pending) == 0
    assert isinstance(result.history, tuple)
    assert list(result.history) == result.optimizer.history


@pytest.mark.parametrize("run", [maximize, minimize])
def test_history(run: Any) -> None:
    result = run(bowl, CUBE, **{**QUICK, "iterations": 4})
    better = max if run is maximize else min
    assert [entry.iteration for entry in result.history] == [1, 2, 3, 4]
    assert [entry.observations for entry in result.history] == [4, 8, 12, 16]
    for entry in result.history:
        assert entry.best == better(result.y[: entry.observations])
        assert better(entry.best, entry.upper_bound) == entry.upper_bound
        assert math.isfinite(entry.upper_bound)
        assert not entry.upper_bound_known
        assert set(entry.seconds) == {"partition", "learn", "search", "filter"}
        assert all(seconds >= 0 for seconds in entry.seconds.values())
        assert entry.leaves >= 1
        assert 1 <= entry.groups <= 3


def test_named_spaces_get_dicts_of_pythons_own_values() -> None:
    seen: list[dict[str, Any]] = []

    def f(point: dict[str, Any]) -> float:
        seen.append(point)
        return float(bumps(MIXED, MIXED.from_dicts([point]))[0])

    result = maximize(f, MIXED, **QUICK)
    assert len(seen) == 12
    for point in seen:
        assert tuple(point) == MIXED.names
        assert [type(point[name]) for name in ("rate", "seed", "depth", "size", "units")] == [
            float,
            int,
            int,
            int,
            int,
        ]
        assert point["seed"] == 7
        assert any(point["kind"] is choice for choice in ("a", True, None)) or (
            point["kind"] == (1, 2)
        )
        assert point["size"] in (8, 16, 32)
    np.testing.assert_array_equal(MIXED.from_dicts(seen), result.X)
    assert isinstance(result.best_x, dict)
    assert result.best_x == seen[int(result.y.argmax())]


def test_a_box_with_names_gets_arrays() -> None:
    result = maximize(bowl, box([0, 0], [1, 1], ["u", "v"]), **QUICK)
    assert isinstance(result.best_x, np.ndarray)


def test_vectorized() -> None:
    sizes = []

    def f(X: Floats) -> Floats:
        sizes.append(X.shape)
        return np.asarray(bowl(X))

    result = maximize(f, CUBE, **QUICK, initial=6, vectorized=True)
    assert sizes == [(6, 3), (4, 3), (4, 3)]
    np.testing.assert_array_equal(result.X, maximize(bowl, CUBE, **QUICK, initial=6).X)


def test_vectorized_with_dicts_and_a_list_of_values() -> None:
    space = Space(x=Float(0, 1), c=Categorical(["a", "b"]))

    def f(points: list[dict[str, Any]]) -> list[int]:
        assert all(type(point["x"]) is float for point in points)
        return [int(10 * point["x"]) for point in points]

    result = maximize(f, space, **QUICK, vectorized=True)
    np.testing.assert_array_equal(result.y, np.floor(10 * result.X[:, 0]))


@pytest.mark.parametrize(
    "value", [1, True, np.int64(1), np.float32(1), np.True_, np.array(1.0), np.array([1]), [1.0]]
)
def test_values_that_are_numbers(value: Any) -> None:
    assert (maximize(lambda x: value, SQUARE, **QUICK).y == 1).all()


def test_all_failed() -> None:
    with pytest.raises(AllFailedError, match="all 4 evaluations of a batch failed"):
        maximize(lambda x: math.nan, SQUARE, **QUICK)
    result = maximize(lambda x: math.nan, SQUARE, **QUICK, on_error="continue")
    assert math.isnan(result.best_value)
    assert np.isnan(result.best_x).all()
    assert np.isnan(result.y).all()
    assert result.X.shape == (12, 2)
    assert result.history == ()


def test_all_parameters_fixed() -> None:
    result = maximize(bowl, box([1, 2], [1, 2]), **QUICK)
    assert result.X.tolist() == [[1, 2]] * 12
    assert result.best_value == bowl(np.array([1, 2]))


# How it begins.


def test_initial_as_a_number() -> None:
    result = maximize(bowl, CUBE, **QUICK, initial=9)
    assert len(result.y) == 9 + 8
    np.testing.assert_array_equal(result.X[:9], Optimizer(CUBE).ask(9))
    assert len(maximize(bowl, CUBE, **QUICK).y) == 12  # one batch, if nothing is said
    assert len(maximize(bowl, CUBE, **{**QUICK, "iterations": 0}, initial=np.int64(5)).y) == 5


def test_initial_as_data() -> None:
    X = np.random.default_rng(0).random((15, 3))
    result = maximize(bowl, CUBE, **QUICK, initial=(X, bowl(X)))
    assert len(result.y) == 15 + 8
    np.testing.assert_array_equal(result.X[:15], X)
    assert [entry.observations for entry in result.history] == [15, 19]
    nothing_more = maximize(bowl, CUBE, **{**QUICK, "iterations": 0}, initial=(X, bowl(X)))
    np.testing.assert_array_equal(nothing_more.X, X)


def test_initial_data_that_all_failed() -> None:
    result = maximize(bowl, CUBE, **QUICK, initial=([[0.5, 0.5, 0.5]], [math.nan]))
    assert len(result.y) == 9
    assert len(result.history) == 1


# The callback.


def test_the_callback_sees_every_batch_and_stops_on_true() -> None:
    told: list[int] = []

    def callback(study: Study) -> bool | None:
        assert len(study.optimizer.pending) == 0
        told.append(len(study.optimizer.y))
        return True if len(told) == 3 else None

    result = maximize(bowl, CUBE, **{**QUICK, "iterations": 9}, callback=callback)
    assert told == [4, 8, 12]
    assert len(result.y) == 12
    assert len(result.history) == 2


@pytest.mark.parametrize("workers", [1, 2])
def test_an_exception_of_the_objective_can_end_the_run_and_nothing_is_lost(workers: int) -> None:
    kept: list[Study] = []
    bad = maximize(bowl, CUBE, **QUICK).X[5]  # of the second batch

    def f(x: Floats) -> float:
        if np.array_equal(x, bad):
            raise ZeroDivisionError("of the objective")
        return float(bowl(x))

    expected = ZeroDivisionError if workers == 1 else ObjectiveError
    options = {**QUICK, "workers": workers}
    with pytest.raises(expected, match="of the objective"):
        maximize(f, CUBE, **options, callback=kept.append, on_error="raise")
    study = kept[-1]
    assert all(each is study for each in kept)
    counts, optimizer = study.counts(), study.optimizer
    assert (counts["failed"], counts["running"]) == (1, 0)
    assert counts["waiting"] == len(optimizer.pending) == 8 - len(optimizer.y)
    good = np.isfinite(optimizer.y)
    np.testing.assert_array_equal(optimizer.y[good], bowl(optimizer.X[good]))
    assert (~good).sum() == 1
    assert "ZeroDivisionError: of the objective" in study.trial(5)["error"]
    assert len(study.run(bowl, batch_size=4, iterations=2).y) == 12  # and it goes on


def test_an_exception_is_a_failed_evaluation() -> None:
    def f(x: Floats) -> float:
        if x[0] < 0.5:
            raise RuntimeError("too low")
        return float(bowl(x))

    one, two = (maximize(f, CUBE, **{**QUICK, "workers": workers}) for workers in (1, 2))
    assert same(one, two)
    np.testing.assert_array_equal(np.isnan(one.y), one.X[:, 0] < 0.5)


# Progress.


def test_progress_is_on_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    maximize(bowl, CUBE, **QUICK, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "12/12" in err
    assert "best" in err


@pytest.mark.parametrize("progress", [False, None])
def test_without_a_terminal_there_is_no_progress(
    progress: bool | None,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logging.getLogger("ebo"), "handlers", [])  # as the command line has one
    maximize(bowl, CUBE, **QUICK, progress=progress)
    assert capfd.readouterr() == ("", "")


def test_progress_where_all_failed(capfd: pytest.CaptureFixture[str]) -> None:
    maximize(lambda x: math.nan, CUBE, **QUICK, progress=True, on_error="continue")
    assert "all failed" in capfd.readouterr().err


def test_what_the_objective_prints_stays_on_standard_output(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # for rich, as good as a terminal

    def f(x: Floats) -> float:
        print("from the objective")
        return float(bowl(x))

    maximize(f, CUBE, **QUICK, progress=True)
    assert capfd.readouterr().out == "from the objective\n" * 12


# Mistakes.


@pytest.mark.parametrize(
    "value",
    [
        None,
        "good",
        [1.0, 2.0],
        [],
        {},
        1j,
        (1, None),
        pytest.param("1.5"),
        pytest.param("nan"),
        pytest.param([None]),
        pytest.param(np.complex128(1j)),
    ],
)
def test_values_that_are_no_numbers(value: Any) -> None:
    kept: list[Study] = []
    with pytest.raises(AllFailedError, match=r"4 x returned .*, which is not a number"):
        maximize(lambda x: value if kept else 1.0, SQUARE, **QUICK, callback=kept.append)
    assert kept[0].optimizer.y[:4].tolist() == [1.0] * 4
    assert kept[0].counts()["failed"] == 4


@pytest.mark.parametrize(
    "values",
    [
        None,
        1.0,
        [1, 2, 3],
        [[1], [2], [3], [4]],
        ["a", "b", "c", "d"],
        [1, 2, None, 4],
        [1, 2, 3, 4j],
        pytest.param(
            [1, [2, 3], 4, 5],
        ),
    ],
)
def test_vectorized_values_of_a_wrong_shape(values: Any) -> None:
    kept: list[Study] = []
    with pytest.raises(ValueError, match=r"with vectorized=True f must return \(4,\) numbers"):
        maximize(
            lambda X: values if kept else np.ones(4),
            SQUARE,
            **QUICK,
            vectorized=True,
            callback=kept.append,
        )
    assert kept[0].optimizer.y.tolist() == [1.0] * 4
    assert kept[0].counts()["waiting"] == 4


@pytest.mark.parametrize("vectorized", [False, True])
def test_an_objective_that_changes_its_argument(vectorized: bool) -> None:
    def f(x: Floats) -> Any:
        x.sort(axis=-1)
        return bowl(x)

    result = maximize(f, CUBE, **QUICK, vectorized=vectorized)
    np.testing.assert_array_equal(result.X[:4], Optimizer(CUBE).ask(4))
    assert len(result.optimizer.pending) == 0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"f": 3}, TypeError, "f is 3; give a function"),
        ({"space": [(0, 1)]}, TypeError, r"space is a list; give ebo.box\(...\) or ebo.Space"),
        ({"batch_size": 0}, ValueError, "batch_size is 0; give a whole number of at least 1"),
        ({"batch_size": 2.5}, ValueError, "batch_size is 2.5; give a whole number"),
        ({"batch_size": True}, ValueError, "batch_size is True"),
        ({"iterations": -1}, ValueError, "iterations is -1; give a whole number of at least 0"),
        ({"iterations": None}, ValueError, "iterations is None"),
        ({"initial": 0}, ValueError, "initial is 0; give a whole number of at least 1"),
        ({"initial": "sobol"}, ValueError, "initial is 'sobol'; give"),
        ({"initial": (1, 2, 3)}, ValueError, r"initial has 3 parts; give \(X, y\), or a number"),
        ({"initial": ([[0.5, 9.0]], [1])}, ValueError, "row 0, parameter 'x1': 9.0 is outside"),
        ({"initial": ([[0.5, 0.5]], [1, 2])}, ValueError, r"y has shape \(2,\) for 1 points"),
        ({"upper_bound": math.inf}, ValueError, "upper_bound is inf; give a finite value"),
        ({"workers": 0}, ValueError, "workers is 0; give a whole number of at least 1"),
        pytest.param(
            {"initial": [[[0.5, 0.5]], [1.0]]},
            ValueError,
            r"\(X, y\)",
        ),
        pytest.param(
            {"callback": 3},
            TypeError,
            "callback is 3",
        ),
        pytest.param(
            {"settings": {"leaf_size": 9}},
            TypeError,
            "settings",
        ),
    ],
)
def test_mistakes_are_found_before_anything_is_evaluated(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    evaluated: list[Floats] = []

    def f(x: Floats) -> float:
        evaluated.append(x)
        return 1.0

    with pytest.raises(error, match=message):
        loose.maximize(**{"f": f, "space": SQUARE, **QUICK, **options})
    assert evaluated == []


def test_minimize_speaks_of_its_own_bound() -> None:
    with pytest.raises(ValueError, match="lower_bound is nan; give a finite value, or None"):
        minimize(bowl, CUBE, lower_bound=math.nan)
    with pytest.raises(TypeError, match="upper_bound"):
        loose.minimize(bowl, CUBE, upper_bound=1.0)


def test_a_study_keeps_the_run_and_goes_on_with_it(tmp_path: Path) -> None:
    path = tmp_path / "bowl.ebo"
    whole = maximize(bowl, CUBE, **{**QUICK, "iterations": 3}, seed=2)
    for iterations in (1, 3, 3):
        kept = maximize(bowl, CUBE, **{**QUICK, "iterations": iterations}, seed=2, study=path)
        assert len(kept.y) == 4 * (1 + iterations)
    order, other = np.lexsort(whole.X.T), np.lexsort(kept.X.T)
    np.testing.assert_array_equal(kept.X[other], whole.X[order])
    np.testing.assert_array_equal(kept.y[other], whole.y[order])
    with pytest.raises(StudyError, match="was made with another seed: it has 2, now given is 3"):
        maximize(bowl, CUBE, **QUICK, seed=3, study=path)


def test_a_study_begins_with_data(tmp_path: Path) -> None:
    X = np.random.default_rng(0).random((10, 3))
    data = X, np.array([bowl(x) for x in X])
    kept = maximize(bowl, CUBE, **QUICK, initial=data, study=tmp_path / "bowl.ebo")
    free = maximize(bowl, CUBE, **QUICK, initial=data)
    assert len(kept.y) == 10 + 2 * 4
    np.testing.assert_array_equal(np.sort(kept.y), np.sort(free.y))


def test_worker_processes_change_nothing_and_bear_failures() -> None:
    alone = maximize(bowl, CUBE, **QUICK)
    np.testing.assert_array_equal(maximize(bowl, CUBE, **{**QUICK, "workers": 2}).X, alone.X)

    def sometimes(x: Floats) -> Any:
        if x[0] < 0.5:
            raise RuntimeError("too low")
        return bowl(x)

    result = maximize(sometimes, CUBE, **{**QUICK, "workers": 2})
    np.testing.assert_array_equal(np.isnan(result.y), result.X[:, 0] < 0.5)

    def never(x: Floats) -> float:
        raise RuntimeError("broken")

    with pytest.raises(AllFailedError, match="all 4 evaluations of a batch failed"):
        maximize(never, CUBE, **{**QUICK, "workers": 2})
