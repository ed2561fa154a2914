"""The baselines: one interface, points of the space, seeds, failures, and that they improve."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ebo
from ebo.arrays import Floats
from ebo.bench import baselines
from ebo.bench.baselines import AskTell, Baseline, cem, cma
from ebo.bench.baselines.imported import imported, library
from ebo.moves import Printed
from ebo.space import Space

LIBRARIES = {"cma": "cma", "cma-batch": "cma", "tpe": "optuna", "optuna-cma": "cmaes"}
ANY_SPACE = ("ebo", "ebo-paper", "ebo-paper-push", "pbo", "random", "sobol", "tpe", "skl")
ORDERED_ONLY = ("cem", "cem-full", "cma", "cma-batch", "de", "optuna-cma")
TORCH = ("turbo-1", "turbo-5", "bo-svi", "bo-add-svi")  # see test_turbo.py and test_svi.py
ADDITIVE = ("add-gp-ucb", "add-mes-r", "add-mes-g", "block-opt")  # see test_additive_methods.py
EVERY = ANY_SPACE + ORDERED_ONLY + ADDITIVE + TORCH


def make(name: str, space: Space, **options: Any) -> AskTell:
    """The method, if what it needs is installed."""
    if name in TORCH:
        pytest.importorskip("torch")
    if name in ("bo-svi", "bo-add-svi"):
        options.setdefault("iterations", 20)  # enough to see that it works
    if name in LIBRARIES:
        pytest.importorskip(LIBRARIES[name])
        if name in ("tpe", "optuna-cma"):
            pytest.importorskip("optuna")
    return baselines.get(name)(space, **options)


def sphere(X: Floats) -> Floats:
    values: Floats = -np.sum((X - 0.3) ** 2, axis=1)
    return values


def box(dims: int = 5) -> Space:
    return ebo.box([-1.0] * dims, [2.0] * dims)


def mixed(choices: bool) -> Space:
    more = {"act": ebo.Categorical(["relu", "gelu", "tanh"])} if choices else {}
    return Space(
        lr=ebo.Float(1e-5, 1e-1, log=True),
        depth=ebo.Int(2, 12),
        width=ebo.Int(1, 1000, log=True),
        size=ebo.Categorical(["s", "m", "l"], ordered=True),
        fixed=ebo.Float(3.0, 3.0),
        **more,
    )


def mixed_value(X: Floats) -> Floats:
    values: Floats = -((np.log10(X[:, 0]) + 3) ** 2) - np.abs(X[:, 1] - 6) + X[:, 3]
    return values


def optimise(
    optimizer: AskTell,
    space: Space,
    f: Callable[[Floats], Floats],
    *,
    initial: int = 30,
    batches: int = 3,
    batch_size: int = 12,
    seed: int = 0,
) -> tuple[float, list[Floats]]:
    """The best of the first points, and all batches; every point is checked."""
    free = int(space.free.sum())
    X = space.from_unit(np.random.default_rng([seed, 1]).random((initial, free)))
    optimizer.tell(X, f(X))
    first, asked = optimizer.best()[1], []
    for _ in range(batches):
        X = optimizer.ask(batch_size)
        assert X.shape == (batch_size, space.dims)
        np.testing.assert_array_equal(space.check(X), X)
        asked.append(X)
        optimizer.tell(X, f(X))
    return first, asked


def test_all_names_are_tested_here() -> None:
    assert sorted(baselines.names()) == sorted(EVERY)


@pytest.mark.parametrize("name", EVERY)
def test_every_point_is_of_the_space_and_a_seed_gives_one_trajectory(name: str) -> None:
    space = box(3)
    runs = []
    for seed in (7, 7, 8):
        before = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
        optimizer = make(name, space, seed=seed, upper_bound=0.0, workers=1)
        runs.append(optimise(optimizer, space, sphere)[1])
        after = np.random.get_state()[1]  # type: ignore[index]  # noqa: NPY002
        assert np.array_equal(before, after), "the global generator was used"
        assert optimizer.best()[1] >= max(sphere(X).max() for X in runs[-1])
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


@pytest.mark.parametrize("name", EVERY)
def test_it_can_be_asked_before_anything_is_told(name: str) -> None:
    space = box(2)
    optimizer = make(name, space)
    with pytest.raises(RuntimeError, match="no value is known yet"):
        optimizer.best()
    for n in (1, 9, 4, 30):
        X = optimizer.ask(n)
        np.testing.assert_array_equal(space.check(X), X)
        optimizer.tell(X, sphere(X))
    optimizer.ask(3)  # never told
    X = optimizer.ask(20)
    for rows in (slice(10, 20), slice(0, 10)):  # in another order, piece by piece
        optimizer.tell(X[rows], sphere(X[rows]))
    assert np.isfinite(optimizer.ask(5)).all()


@pytest.mark.parametrize("name", EVERY)
def test_failures_are_taken_and_never_best(name: str) -> None:
    space = box(3)

    def sometimes(X: Floats) -> Floats:
        return np.where(X[:, 0] > 0.9, np.nan, sphere(X))

    optimizer = make(name, space)
    optimise(optimizer, space, sometimes)
    assert np.isfinite(optimizer.best()[1])
    for _ in range(2):  # whole batches that fail
        X = optimizer.ask(20)
        optimizer.tell(X, np.full(20, np.nan))
    X = optimizer.ask(5)
    assert np.isfinite(X).all()
    assert optimizer.best()[0][0] <= 0.9


@pytest.mark.parametrize("name", EVERY)
def test_nothing_but_failures_before_the_first_ask(name: str) -> None:
    space = box(2)
    optimizer = make(name, space)
    optimizer.tell(np.zeros((3, 2)), np.full(3, np.nan))
    X = optimizer.ask(6)
    np.testing.assert_array_equal(space.check(X), X)


@pytest.mark.parametrize("name", [*ORDERED_ONLY, "tpe"])
def test_it_improves_on_its_first_points(name: str) -> None:
    space = box()
    for seed in range(2):
        optimizer = make(name, space, seed=seed)
        first, _ = optimise(optimizer, space, sphere, batches=8, batch_size=30, seed=seed)
        better = 0.5 if name == "tpe" else 0.35
        assert optimizer.best()[1] > better * first, f"{first} -> {optimizer.best()[1]}"


@pytest.mark.parametrize("name", EVERY)
def test_minimising_is_maximising_the_negative(name: str) -> None:
    space = box(2)
    up = make(name, space, seed=3)
    down = make(name, space, seed=3, direction="minimize", lower_bound=None)
    _, asked = optimise(up, space, sphere, batches=2)
    _, mirrored = optimise(down, space, lambda X: -sphere(X), batches=2)
    np.testing.assert_allclose(mirrored, asked, rtol=1e-9)
    assert down.best()[1] == -up.best()[1]


@pytest.mark.parametrize("name", EVERY)
def test_ordered_parameters_of_any_kind(name: str) -> None:
    space = mixed(choices=False)
    optimizer = make(name, space)
    first, asked = optimise(optimizer, space, mixed_value)
    assert optimizer.best()[1] >= first
    assert (np.concatenate(asked)[:, 4] == 3.0).all()


@pytest.mark.parametrize("name", ANY_SPACE)
def test_choices_without_an_order(name: str) -> None:
    space = mixed(choices=True)
    optimise(make(name, space), space, mixed_value)


@pytest.mark.parametrize("name", ORDERED_ONLY + ADDITIVE + TORCH)
def test_choices_without_an_order_are_refused_where_they_make_no_sense(name: str) -> None:
    with pytest.raises(ValueError, match="needs parameters with an order, and 'act' is a choice"):
        make(name, mixed(choices=True))


@pytest.mark.parametrize("name", EVERY)
def test_a_space_with_nothing_to_choose(name: str) -> None:
    space = ebo.box([1.0, 2.0], [1.0, 2.0])
    optimizer = make(name, space)
    X = optimizer.ask(3)
    np.testing.assert_array_equal(X, [[1.0, 2.0]] * 3)
    optimizer.tell(X, np.zeros(3))
    assert optimizer.best()[1] == 0.0


def test_one_dimension() -> None:
    for name in EVERY:
        space = box(1)
        optimise(make(name, space), space, sphere)


def test_mistakes_are_told() -> None:
    with pytest.raises(ValueError, match="unknown method 'cen'; choose one of ebo"):
        baselines.get("cen")
    random = baselines.get("random")
    with pytest.raises(TypeError, match="space is a list"):
        random([0, 1])
    with pytest.raises(ValueError, match="direction is 'up'"):
        random(box(), direction="up")
    with pytest.raises(ValueError, match="seed is -1"):
        random(box(), seed=-1)
    for n in (0, 2.5, True):
        with pytest.raises(ValueError, match="n is"):
            random(box()).ask(n)  # type: ignore[arg-type]
    optimizer = random(box(2))
    with pytest.raises(ValueError, match="outside"):
        optimizer.tell([[5.0, 0.0]], [1.0])
    with pytest.raises(ValueError, match="y has shape"):
        optimizer.tell([[0.0, 0.0]], [1.0, 2.0])


def test_a_method_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import ebo.bench.baselines.uniform as u\n\n\nclass Mine(u.Random):\n    pass\n"
    (tmp_path / "method_of_mine.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    optimizer = baselines.get("method_of_mine:Mine")(box(), seed=1)
    assert sys.path == path
    assert isinstance(optimizer, Baseline)
    assert isinstance(baselines.get("ebo:Optimizer")(box()), ebo.Optimizer)
    with pytest.raises(ValueError, match="has no function 'Other'"):
        baselines.get("method_of_mine:Other")
    with pytest.raises(ValueError, match="cannot import 'no_such_module'"):
        baselines.get("no_such_module:Other")
    with pytest.raises(ValueError, match="give 'module:factory'"):
        imported("ebo:")


def test_a_library_that_is_missing_is_named() -> None:
    with pytest.raises(ImportError, match=r"tpe needs no_such_library: pip install 'ebo\[bench\]'"):
        library("no_such_library", "tpe")


def test_sobol_is_the_sequence_that_the_optimiser_begins_with() -> None:
    space = box(4)
    sobol, optimizer = baselines.get("sobol")(space, seed=5), ebo.Optimizer(space, seed=5)
    X = np.concatenate([sobol.ask(3), sobol.ask(10)])
    np.testing.assert_array_equal(optimizer.ask(13), X)


@pytest.mark.parametrize("full", [False, True])
def test_cem_fits_the_best_of_each_batch(full: bool) -> None:
    space = ebo.box([0.0] * 3, [1.0] * 3)
    optimizer = cem.CEM(space, full=full)
    rng = np.random.default_rng(0)
    T = rng.normal(0.5, 0.05, (1_000, 1)) + rng.normal(0.0, 0.01, (1_000, 3))  # correlated
    value = rng.random(1_000)
    optimizer.tell(T, value)
    drawn = optimizer.ask(20_000)
    elite = T[np.argsort(-value)[:300]]
    np.testing.assert_allclose(drawn.mean(axis=0), elite.mean(axis=0), atol=2e-3)
    covariance = np.cov(elite.T) + full * cem.RIDGE * np.eye(3)
    if not full:
        covariance = np.diag(np.diag(covariance))
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=1.5e-4)

    far = rng.normal(0.2, 0.01, (50, 3))  # only what is new counts, not what was better before
    optimizer.tell(far, np.full(50, -1.0))
    assert np.abs(optimizer.ask(100).mean(axis=0) - 0.2).max() < 0.02
    optimizer.tell(far[: cem.LEAST - 1] + 0.5, np.zeros(cem.LEAST - 1))  # too few to fit
    assert np.abs(optimizer.ask(100).mean(axis=0) - 0.2).max() < 0.02


def test_cma_is_told_generation_by_generation() -> None:
    pytest.importorskip("cma")
    space = ebo.box([0.0] * 5, [1.0] * 5)
    optimizer = cma.CMA(space)
    size = optimizer.population
    assert size == cma.population(5) == optimizer.portion
    X = np.random.default_rng(0).random((50, 5))
    optimizer.tell(X, sphere(X))
    asked = optimizer.ask(3)
    best = X[sphere(X).argmax()]
    np.testing.assert_allclose(optimizer._strategy.x0, best, atol=0.2)  # of the first points
    assert optimizer.portion == size - 3
    optimizer.tell(asked, sphere(asked))
    assert optimizer._strategy.countiter == 0
    asked = optimizer.ask(size - 3)
    optimizer.tell(asked, sphere(asked))
    assert optimizer._strategy.countiter == 1  # a whole generation
    asked = optimizer.ask(3 * size + 1)
    optimizer.tell(asked, sphere(asked))
    assert optimizer._strategy.countiter == 4
    assert optimizer.portion == size


def test_cma_starts_again_where_it_has_converged() -> None:
    pytest.importorskip("cma")
    space = ebo.box([0.0] * 2, [1.0] * 2)
    optimizer = cma.CMA(space)
    X = np.array([[0.2, 0.2], [0.8, 0.8], [0.5, 0.5]])
    optimizer.tell(X, [3.0, 2.0, 1.0])
    places = []
    for _ in range(300):
        asked = optimizer.ask(optimizer.portion or 1)
        optimizer.tell(asked, np.zeros(len(asked)))  # flat: it gives up soon
        places.append(optimizer._strategy)
    assert len({id(strategy) for strategy in places}) > 3
    assert not optimizer._starts


def test_a_population_as_large_as_the_batch() -> None:
    pytest.importorskip("cma")
    optimizer = cma.CMA(box(), whole_batch=True)
    assert optimizer.portion is None
    X = optimizer.ask(30)
    assert optimizer.population == 30
    optimizer.tell(X, sphere(X))
    assert optimizer._strategy.countiter == 1


def test_portions_of_optunas_cma_are_generations() -> None:
    pytest.importorskip("cmaes")
    pytest.importorskip("optuna")
    optimizer: Any = baselines.get("optuna-cma")(box())
    size = cma.population(5)
    assert optimizer.portion == size
    optimizer.ask(3)
    assert optimizer.portion == size - 3


def test_presets() -> None:
    pbo: Any = baselines.get("pbo")(box())
    assert pbo.settings == ebo.Settings.paper().changed(fixed=True)
    assert baselines.options("pbo")["settings"]["partition"]["fixed"] is True
    assert baselines.options("ebo")["settings"] == ebo.Settings().as_dict()
    assert baselines.options("random") == baselines.options("some:other") == {}


def test_changed_settings() -> None:
    name = "ebo+mixture=None+candidates=1.5+kernel=hat+group_limit=None+beta=(1.0, 2.0)"
    settings = ebo.Settings().changed(
        mixture=None, candidates=1.5, kernel="hat", group_limit=None, beta=(1.0, 2.0)
    )
    optimizer: Any = baselines.get(name)(box(), seed=1)
    assert optimizer.settings == settings
    assert baselines.options(name) == {"settings": settings.as_dict()}
    assert baselines.options("ebo")["settings"] == ebo.Settings().as_dict()  # is as it was


@pytest.mark.parametrize("name", ["ebo", "ebo-paper", "ebo-paper-push", "pbo"])
def test_a_change_leaves_the_other_settings_of_a_preset(name: str) -> None:
    before = baselines.options(name)["settings"]
    after = baselines.options(f"{name}+acquisition=mes-gumbel+sweeps=3")["settings"]
    learning = {**before["learning"], "sweeps": 3}
    assert after == {**before, "acquisition": "mes-gumbel", "learning": learning}


@pytest.mark.parametrize(
    "name",
    [
        "ebo+search=printed+tries=40",
        "ebo+tries=40+search=printed",  # in any order
        "ebo+search=printed+search.tries=40",
    ],
)
def test_a_strategy_by_its_name(name: str) -> None:
    optimizer: Any = baselines.get(name)(box(), seed=1)
    assert optimizer.settings == ebo.Settings(search=Printed(tries=40))


def test_a_setting_that_others_have_too() -> None:
    optimizer: Any = baselines.get("ebo+crossover.share=0.5+budget.by=volume")(box(), seed=1)
    assert optimizer.settings == ebo.Settings().changed({"crossover.share": 0.5, "by": "volume"})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cem+mixture=None", "'cem' has none; give it without, or one of ebo, ebo-paper, ebo-pap"),
        ("ebo:Optimizer+sweeps=2", "'ebo:Optimizer' has none; give it without"),
        ("cen+mixture=None", "unknown method 'cen'; choose one of ebo"),
        (
            "ebo+mixtur=None",
            "'ebo+mixtur=None': there is no setting 'mixtur'; did you mean 'mixture'?",
        ),
        ("ebo+zzz=1", "'ebo+zzz=1': there is no setting 'zzz'; there are acquisition, additive"),
        ("ebo+=False", "'ebo+=False': there is no setting ''; there are acquisition"),
        ("ebo+share=0.5", "'ebo+share=0.5': there is more than one setting 'share'; give 'crosso"),
        ("ebo-paper+polish=None", "there is no setting 'polish' here; it comes with mixture='mix"),
        ("ebo+mixture", "'mixture' in 'ebo+mixture' is no change; give setting=value"),
        ("ebo+", "'' in 'ebo+' is no change; give setting=value"),
        ("ebo+fixed=maybe", "'ebo+fixed=maybe': fixed is 'maybe'; give True or False"),
        ("ebo+mixture=maybe", "mixture is 'maybe'; choose one of mixture"),
        ("ebo+mixture=False", "'ebo+mixture=False': mixture is False; give Mixture or None"),
        ("ebo+crossover.share=2", "'ebo+crossover.share=2': crossover.share is 2; give a number"),
        ("ebo+passes=1+search.passes=2", "'passes' and 'search.passes' are one setting; give it"),
        ("ebo+passes=1+passes=2", "'ebo+passes=1+passes=2' changes 'passes' twice; give it once"),
        ("ebo+kernel=", "kernel is ''; choose one of tile-coding"),
        ("ebo+kernel={[]}", "kernel is '{[]}'; choose one of tile-coding"),
        ("ebo+candidates=0.5", "candidates is 0.5; give a number from 1"),
    ],
)
def test_changes_that_make_no_sense(name: str, said: str) -> None:
    for function in (baselines.get, baselines.options):
        with pytest.raises(ValueError, match=re.escape(said)):
            function(name)
