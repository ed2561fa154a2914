"""`ebo bench structure`: how well the additive structure is learned, per leaf, pooled, by probes.

Three truths in 20 dimensions, N = 1,500 uniform points, 5 seeds by default:

separate   every dimension on its own, length-scale 0.1: the paper's case. A draw from the prior
           has a Rand index of about 0.94 there, so a high one says little.
long       groups of 1 to 4 dimensions, length-scale 0.3.
short      the same with length-scale 0.1, where groups of four carry hardly any information at
           this size: the log-likelihood of the truth beside that of the sampled state tells it.

*Leaves* is Alg. 1: a chain in each leaf of at most 100 points, tile coding, 10 sweeps, and the
leaves' z combined by correlation clustering. *Pooled* is one chain on blocks that share z, cuts
and noise, with the limit kernel. It goes from smaller blocks, which are cheap, to larger ones,
which know more; its z is combined over the last half of the sweeps on the largest. *Probes* is the
same chain on one block of 100 points that are made of the coordinates of two (ebo.moves.probes).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebo.arrays import Floats, Ints
from ebo.bench.additive import sample_values
from ebo.bench.gibbs import timed
from ebo.learning.sync import adjusted_rand_index, co_membership, combine_groups, rand_index
from ebo.moves.probes import draw_probes, new_pair
from ebo.partition import mondrian
from ebo.problems.additive import random_groups
from ebo.tilegp.box import Box
from ebo.tilegp.gibbs import ChainState, Info, Prior, begin, build, sample
from ebo.tilegp.kernel import Laplace
from ebo.tilegp.leaves import sample_leaves

Say = Callable[[str], None]

DIMS = 20
POINTS = 1_500
PROBES = 5 * DIMS
NOISE_GRID = np.geomspace(1e-4, 1.0, 25)
APART = ChainState(z=np.arange(DIMS), cuts=np.full(DIMS, 4), noise=1.0)


@dataclass(frozen=True)
class Case:
    """A kind of truth, and how the pooled sampler is run on it."""

    name: str
    largest_group: int
    length_scale: float
    stages: tuple[tuple[int, int], ...]  # block size and sweeps, one after the other

    @property
    def block_size(self) -> int:
        """The size of the last blocks."""
        return self.stages[-1][0]


CASES = (
    Case("separate", 1, 0.1, ((500, 10),)),
    Case("long", 4, 0.3, ((750, 8), (1_500, 14))),
    Case("short", 4, 0.1, ((750, 8), (1_500, 8))),
)


def run(seeds: int, say: Say) -> dict[str, Any]:
    """Means over the seeds for every case, by name, with the figures of each seed."""
    results = {}
    for case in CASES:
        rows = []
        for seed in range(seeds):
            say(f"{case.name}, seed {seed}")
            rows.append(one_seed(case, seed))
        results[case.name] = {
            "length_scale": case.length_scale,
            "block_size": case.block_size,
            **{key: float(np.mean([row[key] for row in rows])) for key in rows[0]},
            "seeds": rows,
        }
    return results


def one_seed(case: Case, seed: int) -> dict[str, float]:
    """All three on one function."""
    rng = np.random.default_rng(seed)
    truth = random_groups(DIMS, case.largest_group, rng)
    T = rng.random((POINTS, DIMS))
    y = sample_values(T, truth, case.length_scale, rng, noise=1e-4)
    threads = os.cpu_count() or 1
    leaf_seconds, leaves_z = timed(learn_in_leaves, T, y, seed, threads)
    pooled_seconds, (z, log_likelihood) = timed(
        learn_pooled, case, T, y, np.random.default_rng(seed), threads
    )
    probe_seconds, probes_z = timed(
        learn_from_probes, case, truth, np.random.default_rng([seed, 1]), threads
    )
    return {
        "leaves_rand": rand_index(leaves_z, truth),
        "leaves_adjusted_rand": adjusted_rand_index(leaves_z, truth),
        "leaves_seconds": leaf_seconds,
        "pooled_rand": rand_index(z, truth),
        "pooled_adjusted_rand": adjusted_rand_index(z, truth),
        "pooled_seconds": pooled_seconds,
        "probes_rand": rand_index(probes_z, truth),
        "probes_adjusted_rand": adjusted_rand_index(probes_z, truth),
        "probes_seconds": probe_seconds,
        "truth_log_likelihood": truth_log_likelihood(case, T, y, truth),
        "pooled_log_likelihood": log_likelihood,
    }


def learn_in_leaves(T: Floats, y: Floats, seed: int, threads: int) -> Ints:
    """The combined z of Alg. 1's leaves."""
    leaves = mondrian(T, max_leaves=1_000, leaf_size=100, rng=np.random.default_rng(seed))
    with ThreadPoolExecutor(threads) as pool:
        chains = sample_leaves(
            T,
            y,
            leaves,
            Prior(noise=NOISE_GRID),
            layers=64,
            sweeps=10,
            seed=np.random.SeedSequence(seed),
            map=pool.map,
        )
    return combine_groups(co_membership([state.z for state, _ in chains]))


def learn_pooled(
    case: Case, T: Floats, y: Floats, rng: np.random.Generator, threads: int
) -> tuple[Ints, float]:
    """The pooled sampler's z, and the log-likelihood of its last state.

    It starts from all noise: what is not learned yet is noise, and a chain that starts with little
    is caught in whatever explains it away first.
    """
    state = APART
    for block_size, sweeps in case.stages:
        state, info = run_chain(in_blocks(T, y, block_size), state, sweeps, rng, threads)
    z = combine_groups(co_membership(info.z[sweeps // 2 :]))
    return z, float(info.log_likelihood[-1])


def learn_from_probes(case: Case, truth: Ints, rng: np.random.Generator, threads: int) -> Ints:
    """The z of a chain on probes around a random point."""
    a = rng.random((1, DIMS))
    T = draw_probes(new_pair(a, np.zeros(1), np.asarray, rng), PROBES, rng)
    y = sample_values(T, truth, case.length_scale, rng, noise=1e-4)
    _, info = run_chain([(T, (y - y.mean()) / y.std())], APART, 20, rng, threads)
    return combine_groups(co_membership(info.z[10:]))


def run_chain(
    blocks: list[tuple[Floats, Floats]],
    start: ChainState,
    sweeps: int,
    rng: np.random.Generator,
    threads: int,
) -> tuple[ChainState, Info]:
    """The pooled sampler on some blocks."""
    return sample(
        blocks,
        Box.unit(DIMS),
        Laplace(),
        Prior(noise=NOISE_GRID),
        sweeps=sweeps,
        rng=rng,
        start=start,
        threads=threads,
    )


def truth_log_likelihood(case: Case, T: Floats, y: Floats, truth: Ints) -> float:
    """The true z and cuts on the same blocks, under the best noise of the grid."""
    prior = Prior(noise=NOISE_GRID)
    sampler = build(in_blocks(T, y, case.block_size), Box.unit(DIMS), Laplace(), prior)
    cuts = np.full(DIMS, round(1 / case.length_scale))
    best = -np.inf
    for noise in NOISE_GRID:
        begin(sampler, ChainState(truth, cuts, float(noise)), Box.unit(DIMS), Laplace(), prior)
        best = max(best, sampler.log_likelihood())
    return best


def in_blocks(T: Floats, y: Floats, size: int) -> list[tuple[Floats, Floats]]:
    """Consecutive points, which are uniform, in blocks of a size."""
    return [(T[i : i + size], y[i : i + size]) for i in range(0, len(T), size)]
