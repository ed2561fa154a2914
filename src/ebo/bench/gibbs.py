"""`ebo bench gibbs`: how fast the Gibbs sampler is, in one run so that ratios mean something.

Times are the least of several rounds in which the things compared take turns: the least is what
the machine can do, and turns keep its moods out of the ratio.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from scipy import linalg
from threadpoolctl import threadpool_limits

from ebo import native
from ebo.arrays import Floats
from ebo.bench.additive import sample_values
from ebo.learning.sync import rand_index
from ebo.partition import Leaf, mondrian
from ebo.tilegp.box import Box
from ebo.tilegp.features import TileCoding
from ebo.tilegp.gibbs import ChainState, Info, Prior, sample
from ebo.tilegp.leaves import sample_leaves

Say = Callable[[str], None]

DIMS = 20
LAYERS = 64
LEAF_SIZE = 100
MAX_LEAVES = 1000
SWEEPS = 10
CANDIDATE_SIZES = (50, 100, 150)
SWEEP_SIZES = (1_000, 5_000, 50_000)
SKL_SIZE = 1_500
ROUNDS = 5
LENGTH_SCALE = 0.1
PRIOR = Prior(noise=1e-2)


def run(seed: int, say: Say) -> dict[str, Any]:
    """All measurements of this module, by name; `say` is told what goes on."""
    cores = os.cpu_count() or 1
    result: dict[str, Any] = {
        "instruction_set": native.instruction_set(),
        "cores": cores,
        "dims": DIMS,
        "layers": LAYERS,
    }
    with threadpool_limits(1):
        for n in CANDIDATE_SIZES:
            say(f"candidates at n = {n}")
            candidate, cholesky = candidate_seconds(n, seed)
            result[f"candidate_us_n{n}"] = 1e6 * candidate
            result[f"scipy_cholesky_us_n{n}"] = 1e6 * cholesky
            result[f"candidate_ratio_n{n}"] = candidate / cholesky
        result["sweep_seconds"] = {}
        for n in SWEEP_SIZES:
            say(f"{SWEEPS} sweeps in leaves, N = {n:,}, {cores} threads")
            T, y, leaves = workload(n, seed)
            result["sweep_seconds"][str(n)] = timed(in_leaves, T, y, leaves, seed, cores)[0]
        before, after = SWEEP_SIZES[-2:]
        result[f"growth_{before}_to_{after}"] = (
            result["sweep_seconds"][str(after)] / result["sweep_seconds"][str(before)]
        )
        say(f"one thread against two, N = {before:,}")
        result |= threads_compared(before, seed)
        result |= against_skl(SKL_SIZE, seed, cores, say)
    return result


def candidate_seconds(n: int, seed: int) -> tuple[float, float]:
    """One candidate of the sampler, all in, and SciPy's Cholesky alone of the same size."""
    T, y, _ = workload(n, seed)
    kernel = TileCoding.draw(DIMS, LAYERS, np.random.default_rng(seed))
    A = np.random.default_rng(seed).standard_normal((n, 2 * n))
    K = A @ A.T / n
    repeats = max(1, 200_000 // n**2)
    candidate = cholesky = np.inf
    for _ in range(6 * ROUNDS):
        rng = np.random.default_rng(seed)
        info = sample([(T, y)], Box.unit(DIMS), kernel, PRIOR, sweeps=5, rng=rng)[1]
        candidate = min(candidate, info.seconds / info.candidates)
        seconds, _ = timed(cholesky_of, K, repeats)
        cholesky = min(cholesky, seconds / repeats)
    return candidate, cholesky


def cholesky_of(K: Floats, repeats: int) -> None:
    """Factorise a matrix by SciPy, without its check for infinities, several times."""
    for _ in range(repeats):
        linalg.cholesky(K, lower=True, check_finite=False)


def workload(n: int, seed: int) -> tuple[Floats, Floats, list[Leaf]]:
    """A fully additive function of 20 dimensions, as in the paper, and a partition of its data."""
    rng = np.random.default_rng(seed)
    T = rng.random((n, DIMS))
    y = sample_values(T, np.arange(DIMS), LENGTH_SCALE, rng, noise=1e-4)
    return T, y, mondrian(T, max_leaves=MAX_LEAVES, leaf_size=LEAF_SIZE, rng=rng)


def in_leaves(T: Floats, y: Floats, leaves: list[Leaf], seed: int, threads: int) -> list[Any]:
    """10 sweeps over z and cuts in every leaf."""
    with ThreadPoolExecutor(threads) as pool:
        return sample_leaves(
            T,
            y,
            leaves,
            PRIOR,
            layers=LAYERS,
            sweeps=SWEEPS,
            seed=np.random.SeedSequence(seed),
            map=pool.map,
        )


def threads_compared(n: int, seed: int) -> dict[str, Any]:
    """Speed-up of two threads over one on the leaves of n points, and whether they agree."""
    T, y, leaves = workload(n, seed)
    one = two = np.inf
    for _ in range(ROUNDS):
        seconds, alone = timed(in_leaves, T, y, leaves, seed, 1)
        one = min(one, seconds)
        seconds, together = timed(in_leaves, T, y, leaves, seed, 2)
        two = min(two, seconds)
    same = all(
        np.array_equal(a.z, b.z)
        and np.array_equal(a.cuts, b.cuts)
        and np.array_equal(a.log_likelihood, b.log_likelihood)
        for (_, a), (_, b) in zip(alone, together, strict=True)
    )
    return {"speedup_two_threads": one / two, "two_threads_bit_identical": same}


def against_skl(n: int, seed: int, cores: int, say: Say) -> dict[str, Any]:
    """10 sweeps over z with one dense kernel on all n points against 10 sweeps in leaves.

    SKL has one thread, since its sampler is sequential. Beside it: what all cores give it when
    they share the candidates of a step; and what its Cholesky factorisations alone would take
    by SciPy, which is what it would be written with elsewhere.
    """
    T, y, leaves = workload(n, seed)
    leaf_seconds = min(timed(in_leaves, T, y, leaves, seed, cores)[0] for _ in range(ROUNDS))
    skl = {}
    for threads in sorted({1, cores}):
        say(f"SKL: {SWEEPS} sweeps without partition, N = {n:,}, {threads} threads: a minute")
        skl[threads], (state, info) = timed(without_partition, T, y, seed, threads)
    K = np.eye(n) + 1.0 / n
    by_scipy = info.candidates * min(timed(cholesky_of, K, 1)[0] for _ in range(ROUNDS))
    return {
        f"leaves_seconds_n{n}": leaf_seconds,
        f"skl_seconds_n{n}": skl[1],
        f"skl_ratio_n{n}": skl[1] / leaf_seconds,
        f"skl_all_cores_ratio_n{n}": skl[cores] / leaf_seconds,
        f"skl_by_scipy_ratio_n{n}": by_scipy / leaf_seconds,
        f"skl_rand_index_n{n}": rand_index(state.z, np.arange(DIMS)),
        f"skl_candidates_n{n}": info.candidates,
    }


def without_partition(T: Floats, y: Floats, seed: int, threads: int) -> tuple[ChainState, Info]:
    """10 sweeps over z alone, all points in one block."""
    rng = np.random.default_rng(seed)
    kernel = TileCoding.draw(DIMS, LAYERS, rng)
    return sample(
        [(T, y)],
        Box.unit(DIMS),
        kernel,
        PRIOR,
        sweeps=SWEEPS,
        rng=rng,
        learn_cuts=False,
        threads=threads,
    )


def timed(call: Callable[..., Any], *args: Any) -> tuple[float, Any]:
    """Seconds that a call takes, and what it returns."""
    began = time.perf_counter()
    value = call(*args)
    return time.perf_counter() - began, value
