"""The sampler's interface: what it returns, its extremes, and that it can be interrupted."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from ebo.arrays import Floats
from ebo.tilegp.box import Box
from ebo.tilegp.features import (
    MondrianGrid,
    TileCoding,
)
from ebo.tilegp.gibbs import (
    ChainState,
    Info,
    Prior,
    begin,
    build,
    canonical,
    sample,
)
from ebo.tilegp.kernel import MOST_SAMPLED_CUTS, Hat, Laplace, SampledKernel
from ebo.tilegp.model import TileGP
from tests import naive
from tests.chains import run

FAMILIES = ("tiles", "grid", "hat", "laplace")
NOISES = np.array([0.01, 0.1, 1.0])


def draw_kernel(
    family: str, dims: int, layers: int, rng: np.random.Generator, mask: ArrayLike | None = None
) -> SampledKernel:
    if family == "tiles":
        return TileCoding.draw(dims, layers, rng, mask)
    if family == "grid":
        return MondrianGrid.draw(dims, layers, rng, 6, mask)
    return (Hat if family == "hat" else Laplace)(mask)


def draw_blocks(
    box: Box, sizes: list[int], rng: np.random.Generator
) -> list[tuple[Floats, Floats]]:
    blocks = []
    for n in sizes:
        X = rng.uniform(box.lower, box.upper, (n, box.dims))
        X = np.where([kind != "continuous" for kind in box.kinds], np.round(X), X)
        blocks.append((X, rng.standard_normal(n)))
    return blocks


def check(state: ChainState, info: Info, box: Box, prior: Prior, layers: int, sweeps: int) -> None:
    """What holds for every chain."""
    dims = box.dims
    assert info.z.shape == (sweeps, dims)
    assert info.cuts.shape == ((sweeps, dims, layers) if prior.per_layer else (sweeps, dims))
    assert info.noise.shape == info.log_likelihood.shape == (sweeps,)
    assert info.z.dtype == info.cuts.dtype == np.int64
    assert ((info.z >= 0) & (info.z < dims)).all()
    assert ((info.cuts >= 0) & (info.cuts <= MOST_SAMPLED_CUTS)).all()
    assert np.isin(info.noise, prior.noise).all()
    assert np.isfinite(info.log_likelihood).all()
    if not np.ndim(prior.alpha):
        np.testing.assert_array_equal(canonical(info.z), info.z)
    for z in info.z:
        assert np.bincount(z).max() <= (prior.group_limit or dims)
    for rate in (info.group_change_rate, info.cut_change_rate, info.acceptance_rate):
        assert 0.0 <= rate <= 1.0
    assert info.candidates >= 0
    assert info.seconds >= 0.0
    np.testing.assert_array_equal(state.z, info.z[-1])
    np.testing.assert_array_equal(state.cuts, info.cuts[-1])
    assert state.noise == info.noise[-1]
    for field in fields(info):
        assert np.isfinite(getattr(info, field.name)).all()


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    family=st.sampled_from(FAMILIES),
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=3),
    dims=st.integers(1, 5),
    layers=st.integers(1, 5),
    per_layer=st.booleans(),
    labelled=st.booleans(),
    group_limit=st.none() | st.integers(1, 6),
    exponent=st.floats(-8, 3),
    several=st.booleans(),
    scale=st.sampled_from([0.0, 1e-9, 1.0, 1e6]),
    threads=st.integers(1, 2),
)
def test_any_problem_runs_and_stays_in_its_bounds(
    seed: int,
    family: str,
    sizes: list[int],
    dims: int,
    layers: int,
    per_layer: bool,
    labelled: bool,
    group_limit: int | None,
    exponent: float,
    several: bool,
    scale: float,
    threads: int,
) -> None:
    rng = np.random.default_rng(seed)
    kinds = rng.choice(["continuous", "integer", "categorical"], dims)
    box = Box(np.full(dims, -2.0), np.full(dims, 3.0), tuple(kinds))
    kernel = draw_kernel(family, dims, layers, rng, box.categorical)
    prior = Prior(
        alpha=rng.gamma(1.0, size=dims) + 0.01 if labelled else float(rng.gamma(1.0) + 0.01),
        beta=(float(rng.gamma(1.0) + 0.05), float(rng.gamma(2.0) + 0.05)),
        group_limit=group_limit,
        noise=max(1e-8, 10.0**exponent) * (np.array([1.0, 1.7, 30.0]) if several else 1.0),
        per_layer=per_layer and family in ("tiles", "grid"),
    )
    blocks = [(X, scale * y) for X, y in draw_blocks(box, sizes, rng)]
    state, info = sample(blocks, box, kernel, prior, sweeps=2, rng=rng, threads=threads)
    check(state, info, box, prior, layers, 2)
    target = naive.Target(kernel, [(box.to_unit(X), y) for X, y in blocks])
    for row in range(2):
        value = target.log_likelihood(info.z[row].tolist(), info.cuts[row], info.noise[row])
        # The condition number is about n/noise, so the last digits go as the noise does.
        assert info.log_likelihood[row] == pytest.approx(value, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("per_layer", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_log_likelihood_is_that_of_the_model(family: str, per_layer: bool) -> None:
    rng = np.random.default_rng(1)
    box = Box(np.zeros(3), np.array([1.0, 5.0, 3.0]), ("continuous", "integer", "categorical"))
    kernel = draw_kernel(family, 3, 4, rng, box.categorical)
    per_layer = per_layer and family in ("tiles", "grid")
    prior = Prior(noise=NOISES, per_layer=per_layer)
    ((X, y),) = draw_blocks(box, [20], rng)
    state, info = sample([(X, y)], box, kernel, prior, sweeps=10, rng=rng)
    check(state, info, box, prior, 4, 10)
    assert len({float(value) for value in info.log_likelihood}) > 1
    for z, cuts, noise, value in zip(
        info.z, info.cuts, info.noise, info.log_likelihood, strict=True
    ):
        model = TileGP(kernel, box, z, cuts, float(noise)).fit(X, y)
        assert value == pytest.approx(model.log_likelihood(), rel=1e-10)


def test_blocks_add_up() -> None:
    rng = np.random.default_rng(1)
    box, kernel, prior = Box.unit(3), TileCoding.draw(3, 5, rng), Prior(noise=0.1)
    blocks = draw_blocks(box, [7, 0, 12, 1], rng)
    _, info = sample(blocks, box, kernel, prior, sweeps=6, rng=rng)
    for z, cuts, value in zip(info.z, info.cuts, info.log_likelihood, strict=True):
        models = [TileGP(kernel, box, z, cuts, 0.1).fit(X, y) for X, y in blocks]
        assert value == pytest.approx(sum(model.log_likelihood() for model in models))


def test_a_chain_goes_on_where_it_stood() -> None:
    rng = np.random.default_rng(1)
    box, kernel, prior = Box.unit(4), TileCoding.draw(4, 6, rng), Prior(noise=NOISES)
    ((X, y),) = draw_blocks(box, [15], rng)
    state, info = sample([(X, y)], box, kernel, prior, sweeps=5, rng=rng)
    sampler = build([(X, y)], box, kernel, prior)
    begin(sampler, state, box, kernel, prior)
    assert sampler.log_likelihood() == pytest.approx(info.log_likelihood[-1], rel=1e-12)
    again, more = sample([(X, y)], box, kernel, prior, sweeps=5, rng=rng, start=state)
    check(again, more, box, prior, 6, 5)
    # The state is the caller's own: the chain that went on has not written into it.
    np.testing.assert_array_equal(state.z, info.z[-1])
    np.testing.assert_array_equal(state.cuts, info.cuts[-1])


@pytest.mark.parametrize("family", FAMILIES)
def test_one_seed_one_chain(family: str) -> None:
    rng = np.random.default_rng(1)
    ((X, y),) = draw_blocks(Box.unit(3), [12], rng)
    kernel = draw_kernel(family, 3, 4, rng)
    prior = Prior(noise=NOISES)
    one, two, other = (
        run(X, y, kernel=kernel, prior=prior, box=Box.unit(3), sweeps=30, seed=seed)[1]
        for seed in (3, 3, 4)
    )
    for mine, theirs in (
        (one.z, two.z),
        (one.cuts, two.cuts),
        (one.noise, two.noise),
        (one.log_likelihood, two.log_likelihood),
    ):
        np.testing.assert_array_equal(mine, theirs)
    assert (one.cuts != other.cuts).any()


def test_a_given_noise_stays_and_several_are_sampled() -> None:
    rng = np.random.default_rng(1)
    ((X, y),) = draw_blocks(Box.unit(2), [6], rng)
    assert (run(X, y, prior=Prior(noise=0.3), sweeps=50)[1].noise == 0.3).all()
    _, info = run(X, y, prior=Prior(noise=NOISES), sweeps=300)
    assert set(info.noise) == set(NOISES)


def test_a_start_from_elsewhere_takes_the_nearest_noise() -> None:
    box, prior, kernel = Box.unit(1), Prior(noise=NOISES), Hat()
    X, y = np.array([[0.1], [0.2]]), np.array([1.0, -1.0])
    for given_noise, used in ((0.02, 0.01), (0.05, 0.1), (1e9, 1.0), (1e-9, 0.01)):
        sampler = build([(X, y)], box, kernel, prior)
        begin(sampler, ChainState(np.array([0]), np.array([3]), given_noise), box, kernel, prior)
        K = kernel.gram(X, X, np.array([0]), [3])
        assert sampler.log_likelihood() == pytest.approx(naive.log_likelihood(K, y, used))


def test_data_teach_the_structure() -> None:
    """Enough data of two clear groups leave no doubt of them, and they need cuts."""
    rng = np.random.default_rng(2)
    X = rng.random((150, 4))
    y = np.sign(X[:, 0] - 0.5) * np.sign(X[:, 1] - 0.5) + np.sign(X[:, 2] - 0.5) * np.sign(
        X[:, 3] - 0.5
    )
    _, info = run(X, y, kernel=TileCoding.draw(4, 50, rng), box=Box.unit(4), sweeps=60)
    last = info.z[-20:]
    assert (last == [0, 0, 1, 1]).all(axis=1).mean() > 0.9
    assert (info.cuts[-20:] >= 1).all()


def test_given_cuts_are_kept() -> None:
    rng = np.random.default_rng(2)
    ((X, y),) = draw_blocks(Box.unit(3), [9], rng)
    start = ChainState(np.array([0, 1, 1]), np.array([4, 0, 7]), 0.01)
    _, info = sample(
        [(X, y)],
        Box.unit(3),
        Laplace(),
        Prior(),
        sweeps=30,
        rng=rng,
        start=start,
        learn_cuts=False,
    )
    assert (info.cuts == start.cuts).all()
    assert info.cut_change_rate == 0.0
    assert info.group_change_rate > 0.0


# Extremes that are allowed.


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n", [0, 1])
def test_no_points_and_one(n: int, family: str) -> None:
    rng = np.random.default_rng(1)
    box, prior = Box.unit(2), Prior(noise=0.25)
    state, info = run(
        np.full((n, 2), 0.4),
        np.full(n, 1.5),
        kernel=draw_kernel(family, 2, 3, rng),
        prior=prior,
        sweeps=20,
    )
    check(state, info, box, prior, 3, 20)
    one = -0.5 * (1.5**2 / 1.25 + np.log(2 * np.pi * 1.25))  # whatever the state
    np.testing.assert_allclose(info.log_likelihood, n * one, rtol=1e-14)


@pytest.mark.parametrize("family", FAMILIES)
def test_duplicates_that_contradict_each_other_and_constant_values(family: str) -> None:
    rng = np.random.default_rng(1)
    box, prior = Box.unit(3), Prior(noise=1e-8)
    X = rng.random((30, 3))
    X[10:20] = X[:10]
    X[20:] = X[0]
    kernel = draw_kernel(family, 3, 9, rng)
    for y in (rng.standard_normal(30), np.ones(30), np.zeros(30)):
        state, info = run(X, y, kernel=kernel, prior=prior, box=box, sweeps=5)
        check(state, info, box, prior, 9, 5)


@pytest.mark.parametrize("family", FAMILIES)
def test_one_dimension(family: str) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.random((8, 1)), rng.standard_normal(8)
    kernel = draw_kernel(family, 1, 3, rng)
    state, info = run(X, y, kernel=kernel, box=Box.unit(1), sweeps=50)
    check(state, info, Box.unit(1), Prior(), 3, 50)
    assert (info.z == 0).all()
    assert info.group_change_rate == 0.0
    assert info.cut_change_rate > 0.0


@pytest.mark.parametrize("family", FAMILIES)
def test_three_hundred_dimensions(family: str) -> None:
    rng = np.random.default_rng(1)
    X, y, box = rng.random((20, 300)), rng.standard_normal(20), Box.unit(300)
    state, info = run(X, y, kernel=draw_kernel(family, 300, 2, rng), box=box, sweeps=1)
    check(state, info, box, Prior(), 2, 1)
    assert info.candidates > 300


def test_only_categorical_dimensions() -> None:
    rng = np.random.default_rng(1)
    box = Box(np.zeros(2), np.full(2, 2.0), ("categorical",) * 2)
    ((X, y),) = draw_blocks(box, [10], rng)
    for family in FAMILIES:
        kernel = draw_kernel(family, 2, 3, rng, box.categorical)
        state, info = run(X, y, kernel=kernel, box=box, sweeps=20)
        check(state, info, box, Prior(), 3, 20)
        assert info.cut_change_rate == 0.0
        assert (info.cuts == info.cuts[0]).all()


def test_256_categories_are_told_apart_and_more_are_refused() -> None:
    rng = np.random.default_rng(1)
    box = Box(np.zeros(2), np.array([999.0, 1.0]), ("categorical", "continuous"))
    X = np.column_stack([rng.permutation(1000)[:257], rng.random(257)])
    y = rng.standard_normal(257)
    kernel = TileCoding.draw(2, 3, rng, box.categorical)
    _, info = run(X[:256], y[:256], kernel=kernel, box=box, sweeps=1)
    z, cuts, noise = info.z[0], info.cuts[0], float(info.noise[0])
    model = TileGP(kernel, box, z, cuts, noise).fit(X[:256], y[:256])
    assert info.log_likelihood[0] == pytest.approx(model.log_likelihood(), rel=1e-10)
    with pytest.raises(ValueError, match=r"dimension 0 has more than 256 categories.*limit kernel"):
        run(X, y, kernel=kernel, box=box)
    run(X, y, kernel=Hat(box.categorical), box=box, sweeps=1)


def test_a_grid_of_few_cuts_needs_no_start() -> None:
    rng = np.random.default_rng(1)
    ((X, y),) = draw_blocks(Box.unit(2), [6], rng)
    kernel = MondrianGrid.draw(2, 3, rng, max_cuts=2)
    for seed in range(5):
        _, info = run(X, y, kernel=kernel, prior=Prior(beta=(0.1, 3.0)), seed=seed)
        assert info.cuts.max() <= 2


class Alarm(Exception):  # noqa: N818
    """Raised in the middle of something."""


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Interrupt what is done inside."""

    def interrupt(number: int, frame: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with pytest.raises(Alarm):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def test_a_long_run_can_be_interrupted() -> None:
    with alarm(0.2):
        run([[0.5, 0.5]], [1.0], sweeps=20_000_000)


def test_an_interrupted_sampler_is_at_the_state_that_it_tells() -> None:
    rng = np.random.default_rng(0)
    box, kernel, prior = Box.unit(12), TileCoding.draw(12, 64, rng), Prior(noise=0.1)
    block = rng.random((200, 12)), rng.standard_normal(200)
    start = prior.draw(box, kernel, rng)
    sampler, fresh = (build([block], box, kernel, prior) for _ in range(2))
    for one in (sampler, fresh):
        begin(one, start, box, kernel, prior)
    assert sampler.can_be_rough()
    with alarm(0.3):
        sampler.run(1_000_000, 1)  # a sweep takes about 30 ms
    labels, _ = sampler.group_likelihoods(0)
    sweeps = sampler.counts()["sweeps"]
    fresh.run(sweeps - 1, 1)  # the same draws, up to the sweep that was interrupted
    assert sweeps > 1
    assert sorted(labels) == sorted(fresh.group_likelihoods(0)[0])
    assert sampler.log_likelihood() == pytest.approx(fresh.log_likelihood(), rel=1e-12)
    assert sampler.rough_log_likelihood() == fresh.rough_log_likelihood()
