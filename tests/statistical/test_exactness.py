"""The chain against the posterior, which small problems let us enumerate.

The target is prior times naive likelihood, state by state. A chain of many sweeps visits the
states as often as it says, but for its own randomness: 0.02 in total variation is asked for.
Every problem has data that matter: its posterior is far from its prior, and spread over states.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats

from ebo.arrays import Floats, Ints
from ebo.tilegp.box import Box
from ebo.tilegp.features import MondrianGrid, TileCoding
from ebo.tilegp.gibbs import ChainState, Prior, begin, build, canonical, sample
from ebo.tilegp.kernel import Hat, Laplace, SampledKernel
from tests import naive

CLOSE = 0.02
CLOSE_MARGINAL = 0.012
SCATTER = 0.012  # distance that the randomness of as many independent draws would have
BURN_IN = 100
CATEGORIES = 3

# A law over rows of whole numbers: the rows, sorted, and their probabilities.
Law = tuple[Ints, Floats]


@dataclass(frozen=True)
class Problem:
    """Data, prior, and how many cuts there can be, or are worth a look at."""

    box: Box
    kernel: SampledKernel
    prior: Prior
    blocks: Sequence[tuple[Floats, Floats]]
    most: int
    widths: Floats

    @property
    def layers(self) -> int:
        """That are cut on their own."""
        if isinstance(self.kernel, Hat | Laplace) or not self.prior.per_layer:
            return 1
        return self.kernel.layers

    def start(self) -> ChainState:
        shape = (self.box.dims, self.layers) if self.prior.per_layer else (self.box.dims,)
        noise = float(np.atleast_1d(self.prior.noise)[0])
        return ChainState(np.arange(self.box.dims), np.zeros(shape, dtype=np.int64), noise)


def problem(
    kernel: SampledKernel,
    prior: Prior,
    *,
    most: int,
    truth: Sequence[int],
    cuts: int,
    sizes: Sequence[int] = (8,),
    seed: int = 0,
    widths: Sequence[float] | None = None,
) -> Problem:
    """Data drawn from the model with a given z and the same number of cuts everywhere."""
    rng = np.random.default_rng([seed, 99])
    dims = len(truth)
    mask = np.zeros(dims, dtype=bool) if kernel.categorical is None else kernel.categorical
    kinds = tuple("categorical" if c else "continuous" for c in mask)
    box = Box(np.zeros(dims), np.where(mask, CATEGORIES - 1.0, 1.0), kinds)
    noise = float(np.median(prior.noise))
    blocks = []
    for n in sizes:
        X = np.where(mask, rng.integers(0, CATEGORIES, (n, dims)), rng.random((n, dims)))
        T = box.to_unit(X)
        K = kernel.gram(T, T, np.array(truth), np.full(dims, cuts)) + noise * np.eye(n)
        blocks.append((X, np.linalg.cholesky(K) @ rng.standard_normal(n)))
    parts = np.ones(dims) if widths is None else np.array(widths)
    return Problem(box, kernel, prior, blocks, most, parts)


# The law that the chain should have.


def all_groups(p: Problem) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every z with its log-prior: partitions, or labels where alpha tells labels apart."""
    dims = p.box.dims
    limit = p.prior.group_limit or dims
    if np.ndim(p.prior.alpha):
        alpha = np.asarray(p.prior.alpha).tolist()
        for z in itertools.product(range(dims), repeat=dims):
            yield z, naive.log_prior_labels(z, alpha, limit)
    else:
        for z in naive.partitions(dims):
            yield z, naive.log_prior_partition(z, float(p.prior.alpha), limit)


def dimension_cuts(p: Problem) -> Iterator[tuple[int, ...]]:
    """All numbers of cuts, one for each layer, of one dimension."""
    return itertools.product(range(p.most + 1), repeat=p.layers)


def all_cuts(p: Problem) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every state of the cuts of all dimensions, flat, with its log-prior."""
    rate, shape = p.prior.beta
    of_dim = []
    for d in range(p.box.dims):
        if p.box.categorical[d]:
            of_dim.append([((0,) * p.layers, 0.0)])  # where the chain starts, and it stays
            continue
        rate_here = rate / p.widths[d]
        of_dim.append([(k, naive.log_prior_cuts(k, rate_here, shape)) for k in dimension_cuts(p)])
    for choice in itertools.product(*of_dim):
        yield sum((k for k, _ in choice), ()), sum(weight for _, weight in choice)


def exact(p: Problem) -> tuple[Law, Law]:
    """Prior and posterior of rows (z, cuts, index of the noise)."""
    blocks = [(p.box.to_unit(X), y) for X, y in p.blocks]
    target = naive.Target(p.kernel, blocks)
    variances = np.atleast_1d(np.asarray(p.prior.noise))
    rows, log_prior, log_likelihood = [], [], []
    for (z, of_z), (k, of_k) in itertools.product(all_groups(p), list(all_cuts(p))):
        if of_z == -np.inf:
            continue
        cuts = np.array(k).reshape(p.box.dims, p.layers)
        for index, noise in enumerate(variances):
            rows.append([*z, *k, index])
            log_prior.append(of_z + of_k)
            shaped = cuts if p.prior.per_layer else cuts[:, 0]
            log_likelihood.append(target.log_likelihood(z, shaped, float(noise)))
    prior = _normalised(np.array(log_prior))
    posterior = _normalised(np.array(log_prior) + np.array(log_likelihood))
    return (np.array(rows), prior), (np.array(rows), posterior)


def _normalised(log_weight: Floats) -> Floats:
    weight: Floats = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    return weight


# The chain's law.


def visits(p: Problem, sweeps: int, seed: int = 0) -> Law:
    """How often the chain visits each state, as rows of `exact`."""
    _, info = sample(
        p.blocks,
        p.box,
        p.kernel,
        p.prior,
        sweeps=sweeps + BURN_IN,
        rng=np.random.default_rng([seed, 5]),
        start=p.start(),
        widths=p.widths,
    )
    noise = np.searchsorted(np.atleast_1d(p.prior.noise), info.noise)
    rows = np.column_stack([info.z, info.cuts.reshape(len(info.z), -1), noise])[BURN_IN:]
    return rows, np.full(sweeps, 1.0 / sweeps)


def distance(one: Law, two: Law, columns: list[int] | None = None) -> float:
    """Total variation, of all columns or of the marginal of some."""
    rows = np.concatenate([one[0], two[0]])[:, columns or list(range(one[0].shape[1]))]
    radix = rows.max(axis=0) + 1
    codes = np.zeros(len(rows), dtype=np.int64)
    for column, base in zip(rows.T, radix, strict=True):
        codes = codes * base + column
    _, index = np.unique(codes, return_inverse=True)
    difference = np.bincount(index, np.concatenate([one[1], -two[1]]))
    return float(0.5 * np.abs(difference).sum())


def scatter(law: Law) -> float:
    """Mean distance of n independent draws from their own law, times sqrt(n)."""
    return float(np.sqrt(law[1] * (1.0 - law[1]) / (2.0 * np.pi)).sum())


def marginals(p: Problem) -> list[list[int]]:
    """Columns of z, of the cuts of each dimension and layer, and of the noise."""
    dims = p.box.dims
    return [list(range(dims)), *([dims + i] for i in range(dims * p.layers + 1))]


def check_power(p: Problem, prior: Law, posterior: Law) -> None:
    """The data matter, for the groups too, and the posterior is not one state."""
    assert distance(prior, posterior) > 0.1
    assert p.box.dims == 1 or distance(prior, posterior, marginals(p)[0]) > 0.1
    assert posterior[1].max() < 0.5
    assert (posterior[1] > 0.005).sum() >= 6


def grid(dims: int, layers: int, most: int, categorical: list[bool] | None = None) -> MondrianGrid:
    return MondrianGrid.draw(dims, layers, np.random.default_rng(1), most, categorical)


def tiles(dims: int, layers: int) -> TileCoding:
    return TileCoding.draw(dims, layers, np.random.default_rng(1))


# With at most 2 or 3 cuts, all states can be enumerated, and are compared as they are.
SMALL = {
    "shared cuts": problem(
        grid(3, 4, 2), Prior(noise=0.1), most=2, truth=[0, 0, 1], cuts=2, seed=8
    ),
    "cuts of each layer": problem(
        grid(2, 2, 2),
        Prior(noise=0.1, per_layer=True),
        most=2,
        truth=[0, 1],
        cuts=2,
        seed=38,
        sizes=[6],
    ),
    "small alpha": problem(
        grid(4, 5, 1), Prior(alpha=0.2, noise=0.2), most=1, truth=[0, 1, 1, 2], cuts=1, seed=27
    ),
    "large alpha": problem(
        grid(4, 5, 1), Prior(alpha=5.0, noise=0.2), most=1, truth=[0, 0, 1, 1], cuts=1, seed=31
    ),
    "labels": problem(
        grid(3, 5, 1),
        Prior(alpha=np.array([0.4, 1.0, 3.0]), noise=0.1),
        most=1,
        truth=[0, 0, 1],
        cuts=1,
        seed=37,
    ),
    "limited groups": problem(
        grid(4, 5, 1), Prior(group_limit=2, noise=0.1), most=1, truth=[0, 0, 1, 1], cuts=1, seed=11
    ),
    "labels of limited groups": problem(
        grid(3, 5, 1),
        Prior(alpha=np.array([0.4, 1.0, 3.0]), group_limit=2, noise=0.1),
        most=1,
        truth=[0, 0, 1],
        cuts=1,
        seed=21,
    ),
    "three noises": problem(
        grid(2, 4, 2),
        Prior(noise=np.array([0.02, 0.1, 0.5])),
        most=2,
        truth=[0, 1],
        cuts=2,
        seed=3,
        sizes=[12],
    ),
    "twelve noises": problem(
        grid(2, 4, 1),
        Prior(noise=np.geomspace(0.05, 1.5, 12)),
        most=1,
        truth=[0, 1],
        cuts=1,
        seed=33,
        sizes=[10],
    ),
    "too little noise for single precision": problem(
        grid(3, 4, 1), Prior(noise=1e-5), most=1, truth=[0, 0, 1], cuts=1, seed=37, sizes=[5]
    ),
    "too little noise, and enough": problem(
        grid(2, 4, 2),
        Prior(noise=np.array([1e-4, 0.05, 0.5])),
        most=2,
        truth=[0, 1],
        cuts=2,
        seed=32,
        sizes=[5],
    ),
    "pooled": problem(
        grid(3, 4, 2),
        Prior(noise=0.1),
        most=2,
        truth=[0, 0, 1],
        cuts=2,
        seed=29,
        sizes=[5, 4, 0, 6],
    ),
    "a categorical dimension": problem(
        grid(3, 4, 2, [False, True, False]),
        Prior(noise=0.1),
        most=2,
        truth=[0, 0, 1],
        cuts=2,
        seed=24,
    ),
    "a narrow leaf": problem(
        grid(2, 4, 3),
        Prior(noise=0.1),
        most=3,
        truth=[0, 1],
        cuts=2,
        seed=16,
        widths=[0.05, 0.3],
    ),
    "one dimension": problem(
        grid(1, 3, 30),
        Prior(beta=(0.2, 2.0), noise=0.1),
        most=30,
        truth=[0],
        cuts=9,
        seed=0,
        sizes=[12],
    ),
}

FEW = (4.0, 1.5)  # a prior of few cuts: more than 9 have a chance of 1e-6
# Here cuts go up to 255; they are enumerated as far as the prior cares, and marginals are compared.
UNBOUNDED = {
    "tile coding": problem(
        tiles(3, 6), Prior(beta=FEW, noise=0.1), most=9, truth=[0, 0, 1], cuts=1, seed=9
    ),
    "tile coding of each layer": problem(
        tiles(2, 2),
        Prior(beta=(6.0, 1.5), noise=0.1, per_layer=True),
        most=6,
        truth=[0, 0],
        cuts=1,
        seed=6,
    ),
    "hat": problem(Hat(), Prior(beta=FEW, noise=0.1), most=9, truth=[0, 0, 1], cuts=1, seed=9),
    "laplace": problem(
        Laplace(), Prior(beta=FEW, noise=0.1), most=9, truth=[0, 1, 1], cuts=1, seed=9
    ),
    "hat, pooled, with categories": problem(
        Hat([True, False, False]),
        Prior(beta=FEW, noise=np.array([0.05, 0.2]), alpha=0.5, group_limit=2),
        most=9,
        truth=[0, 0, 1],
        cuts=1,
        seed=7,
        sizes=[6, 7],
    ),
}


@pytest.mark.parametrize("name", SMALL)
def test_all_states_are_visited_as_often_as_the_posterior_says(name: str) -> None:
    p = SMALL[name]
    prior, posterior = exact(p)
    check_power(p, prior, posterior)
    chain = visits(p, sweeps=max(60_000, int((scatter(posterior) / SCATTER) ** 2)))
    assert distance(chain, posterior) < CLOSE
    for columns in marginals(p):
        assert distance(chain, posterior, columns) < CLOSE_MARGINAL


@pytest.mark.parametrize("name", UNBOUNDED)
def test_marginals_are_those_of_the_posterior(name: str) -> None:
    p = UNBOUNDED[name]
    prior, posterior = exact(p)
    check_power(p, prior, posterior)
    beyond = 1.0 - sum(np.exp(naive.log_prior_cuts(k, *p.prior.beta)) for k in dimension_cuts(p))
    assert beyond < 1e-4
    chain = visits(p, sweeps=60_000)
    for columns in marginals(p):
        assert distance(chain, posterior, columns) < CLOSE_MARGINAL


@pytest.mark.parametrize("name", [*SMALL, *UNBOUNDED])
def test_finite_layers_and_enough_noise_go_through_single_precision(name: str) -> None:
    p = (SMALL | UNBOUNDED)[name]
    sampler = build(p.blocks, p.box, p.kernel, p.prior, widths=p.widths)
    rough = []
    for noise in np.atleast_1d(p.prior.noise).tolist():
        begin(sampler, replace(p.start(), noise=noise), p.box, p.kernel, p.prior)
        rough.append(sampler.can_be_rough())
    finite = isinstance(p.kernel, TileCoding | MondrianGrid)
    assert rough == [finite and noise >= 0.01 for noise in np.atleast_1d(p.prior.noise)]


def test_the_exact_likelihood_decides_where_the_rough_one_errs() -> None:
    """Points that contradict each other, with as little noise as single precision can do with.

    Their similarity of 1 is a number of layers and groups over itself, which rounding makes a
    little less for some numbers of groups; the noise is so small that this counts.
    """
    n, dims = 4, 4
    X = np.repeat(np.random.default_rng(3).random((n // 2, dims)), 2, axis=0)
    noise = 1.01 * n * (n + 1) * 2.0**-23
    y = np.array([1.0, -1.0, 1.0, -1.0]) * np.sqrt(0.99 * 2.0**24 * noise**2 / n)
    prior = Prior(noise=noise)
    p = Problem(Box.unit(dims), grid(dims, 53, 1), prior, [(X, y)], 1, np.ones(dims))
    (rows, weights), posterior = exact(p)

    sampler = build(p.blocks, p.box, p.kernel, prior)
    rough = []
    for row in rows:
        begin(sampler, ChainState(row[:dims], row[dims:-1], noise), p.box, p.kernel, prior)
        assert sampler.can_be_rough()
        rough.append(sampler.rough_log_likelihood())
    wrong = rows, _normalised(np.log(weights) + np.array(rough))
    assert distance(wrong, posterior) > 5 * CLOSE

    chain = visits(p, sweeps=int((scatter(posterior) / SCATTER) ** 2))
    assert distance(chain, posterior) < CLOSE
    sampler.run(1000, 1)
    assert 50 < sampler.counts()["rejections"] < 500


@pytest.mark.parametrize("name", ["shared cuts", "limited groups"])
def test_sweeps_in_single_precision_are_reversible(name: str) -> None:
    """From x to y as often as from y to x: steps in one order only would have a direction."""
    p = SMALL[name]
    sampler = build(p.blocks, p.box, p.kernel, p.prior, widths=p.widths)
    begin(sampler, p.start(), p.box, p.kernel, p.prior)
    assert sampler.can_be_rough()
    z, cuts, _, _ = sampler.run(200_000, 1)
    rows = np.column_stack([canonical(z), cuts.reshape(len(cuts), -1)])
    _, states = np.unique(rows, axis=0, return_inverse=True)
    count = states.max() + 1
    flow = np.bincount(states[:-1] * count + states[1:], minlength=count**2).reshape(count, count)
    there, back = flow[np.triu_indices(count, 1)], flow.T[np.triu_indices(count, 1)]
    often = there + back > 20
    assert often.sum() > 30
    square = (there[often] - back[often]) ** 2 / (there[often] + back[often])
    assert stats.chi2.sf(square.sum(), often.sum()) > 1e-3


def test_given_cuts_are_kept_and_the_groups_follow_their_conditional() -> None:
    p = SMALL["shared cuts"]
    _, (rows, weights) = exact(p)
    start = ChainState(np.array([0, 1, 2]), np.array([1, 2, 0]), 0.1)
    _, info = sample(
        p.blocks,
        p.box,
        p.kernel,
        p.prior,
        sweeps=50_000,
        rng=np.random.default_rng(4),
        start=start,
        learn_cuts=False,
    )
    assert (info.cuts == start.cuts).all()
    given = (rows[:, 3:6] == start.cuts).all(axis=1)
    conditional = (rows[given, :3], weights[given] / weights[given].sum())
    uniform = np.full(len(info.z), 1.0 / len(info.z))
    assert distance((info.z, uniform), conditional) < CLOSE_MARGINAL


# Without data the chain must give back the prior, which has formulas.


def without_data(
    dims: int, kernel: SampledKernel, prior: Prior, sweeps: int, widths: Floats | None = None
) -> tuple[Ints, Ints]:
    """The chain's z and cuts."""
    most = kernel.max_cuts if isinstance(kernel, MondrianGrid) else 255
    blocks = [(np.empty((0, dims)), np.empty(0))]
    p = Problem(
        Box.unit(dims), kernel, prior, blocks, most, np.ones(dims) if widths is None else widths
    )
    rows, _ = visits(p, sweeps)
    return rows[:, :dims], rows[:, dims:-1]


@pytest.mark.parametrize("limit", [None, 2])
@pytest.mark.parametrize("alpha", [0.3, 1.0, 4.0, np.array([0.2, 1.0, 0.5, 3.0])])
def test_groups_without_data(alpha: float | Floats, limit: int | None) -> None:
    prior = Prior(alpha=alpha, group_limit=limit)
    p = replace(SMALL["limited groups"], prior=prior, blocks=[(np.empty((0, 4)), np.empty(0))])
    states = [(z, weight) for z, weight in all_groups(p) if weight > -np.inf]
    law = np.array([z for z, _ in states]), _normalised(np.array([weight for _, weight in states]))
    z, _ = without_data(4, Hat(), prior, 100_000)
    assert distance((z, np.full(len(z), 1.0 / len(z))), law) < CLOSE


@pytest.mark.parametrize("alpha", [0.05, 1.0, 5.0])
def test_the_mean_number_of_groups_of_twenty_dimensions(alpha: float) -> None:
    z, _ = without_data(20, Hat(), Prior(alpha=alpha), 20_000)
    # A label stays empty if all dimensions, one after the other, choose one of the 19 others.
    dims = np.arange(20)
    expected = 20 * (1.0 - np.prod((19 * alpha + dims) / (20 * alpha + dims)))
    counts = z.max(axis=1) + 1.0
    error = batch_error(counts)
    assert error < 0.05
    assert abs(counts.mean() - expected) < 4 * error


@pytest.mark.parametrize(
    ("kernel", "per_layer"),
    [(tiles(2, 3), False), (tiles(2, 3), True), (Laplace(), False), (grid(2, 3, 250), True)],
)
def test_cuts_without_data_are_negative_binomial(kernel: SampledKernel, per_layer: bool) -> None:
    rate, shape = 0.8, 2.5
    widths = np.array([1.0, 0.25])
    prior = Prior(beta=(rate, shape), per_layer=per_layer)
    _, cuts = without_data(2, kernel, prior, 60_000, widths)
    for d, width in enumerate(widths):
        of_dim = cuts.reshape(len(cuts), 2, -1)[:, d]
        layers = of_dim.shape[1]
        for count, number in ((of_dim[:, 0], 1), (of_dim.sum(axis=1), layers)):
            # The sum over layers is Poisson of λ w L with λ ~ Gamma.
            values = np.arange(count.max() + 1)
            law = stats.nbinom.pmf(values, shape, rate / (rate + number * width))
            seen = np.bincount(count) / len(count)
            assert 0.5 * np.abs(seen - law).sum() < CLOSE


def test_cuts_without_data_reach_all_of_a_wide_range() -> None:
    _, cuts = without_data(1, grid(1, 1, 30), Prior(beta=(0.05, 1.2)), 200_000)
    law = _normalised(np.array([naive.log_prior_cuts([k], 0.05, 1.2) for k in range(31)]))
    assert law.min() > 0.01
    seen = np.bincount(cuts[:, 0], minlength=31) / len(cuts)
    assert 0.5 * np.abs(seen - law).sum() < CLOSE


@pytest.mark.parametrize("count", [2, 9, 10, 12, 25])
def test_every_noise_is_as_likely_without_data(count: int) -> None:
    prior = Prior(noise=np.geomspace(1e-3, 10.0, count))
    blocks = [(np.empty((0, 1)), np.empty(0))]
    p = Problem(Box.unit(1), Hat(), prior, blocks, 255, np.ones(1))
    rows, _ = visits(p, 50_000)
    share = np.bincount(rows[:, -1], minlength=count) / len(rows)
    assert 0.5 * np.abs(share - 1.0 / count).sum() < CLOSE


def batch_error(values: Floats, batches: int = 50) -> float:
    """Standard error of the mean of a chain."""
    means = np.array([part.mean() for part in np.array_split(values, batches)])
    return float(means.std(ddof=1) / np.sqrt(batches))


@pytest.mark.parametrize("name", ["shared cuts", "cuts of each layer", "pooled", "twelve noises"])
def test_threads_do_not_change_the_chain(name: str) -> None:
    p = SMALL[name]
    chains = [
        sample(
            p.blocks,
            p.box,
            p.kernel,
            p.prior,
            sweeps=300,
            rng=np.random.default_rng(3),
            threads=threads,
        )[1]
        for threads in (1, 2, 3)
    ]
    for other in chains[1:]:
        for mine, theirs in (
            (chains[0].z, other.z),
            (chains[0].cuts, other.cuts),
            (chains[0].noise, other.noise),
            (chains[0].log_likelihood, other.log_likelihood),
        ):
            np.testing.assert_array_equal(mine, theirs)
