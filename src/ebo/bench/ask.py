"""`ebo bench ask`: seconds of one iteration by stage, and of the two stages that could grow worst.

A run is imitated: half of the observations are uniform, half are close to the best of those. The
optimiser is told all but a batch of N observations, asked, told that batch, and asked again: the
second ask is timed. It has N observations, a structure to go on from and nothing pending, as every
iteration of a run but the first.

The filter and the partition are also timed by themselves, at the largest sizes that are meant to
be comfortable. Their times are the least of several rounds.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ebo import native
from ebo.arrays import Floats
from ebo.batch import select
from ebo.bench.gibbs import timed
from ebo.optimizer import Optimizer
from ebo.partition import mondrian
from ebo.space import box
from ebo.tilegp.kernel import Laplace

Say = Callable[[str], None]

SPREAD = 0.1  # standard deviation of the points close to the best
NOISE = 0.1  # of the values, whose own standard deviation is about 1
CUTS = 5.0  # of every dimension, in the filter
ROUNDS = 3


@dataclass(frozen=True)
class Sizes:
    """What is measured: iterations of `batch_size`, the filter and the partition."""

    dims: tuple[int, ...] = (20, 60)
    observations: tuple[int, ...] = (1_000, 10_000, 50_000)
    batch_size: int = 100
    filter_dims: int = 60
    filter_candidates: int = 5_000
    filter_batch: int = 500
    partition_points: int = 1_000_000
    partition_dims: int = 20
    partition_leaf_size: int = 100
    partition_leaves: int = 10_000


FULL = Sizes()


def run(seed: int, say: Say, sizes: Sizes) -> dict[str, Any]:
    """All measurements of this module, by name; `say` is told what goes on."""
    seconds: dict[str, dict[str, dict[str, float]]] = {}
    for dims in sizes.dims:
        seconds[str(dims)] = {}
        for n in sizes.observations:
            say(f"{dims} dimensions, N = {n:,}")
            seconds[str(dims)][str(n)] = iteration_seconds(dims, n, sizes.batch_size, seed)
    before, after = (str(n) for n in sizes.observations[-2:])
    say(f"filter, {sizes.filter_batch} of {sizes.filter_candidates:,}")
    filter_time = filter_seconds(sizes, seed)
    say(f"partition of {sizes.partition_points:,} points")
    return {
        "instruction_set": native.instruction_set(),
        "cores": os.cpu_count() or 1,
        "batch_size": sizes.batch_size,
        "seconds": seconds,
        "growth": {
            dims: times[after]["total"] / times[before]["total"] for dims, times in seconds.items()
        },
        "filter_seconds": filter_time,
        "partition_seconds": partition_seconds(sizes, seed),
    }


def iteration_seconds(dims: int, n: int, batch_size: int, seed: int) -> dict[str, float]:
    """Seconds of an iteration with n observations by stage, and in total, by the clock."""
    if n <= batch_size:
        raise ValueError(f"{n} observations; give more than one batch of {batch_size}")
    rng = np.random.default_rng(seed)
    f = Sines(dims, rng)
    X = as_in_a_run(f, dims, n - batch_size, rng)
    optimizer = Optimizer(box(np.zeros(dims), np.ones(dims)), seed=seed)
    optimizer.tell(X, f(X))
    batch = optimizer.ask(batch_size)
    optimizer.tell(batch, f(batch))
    total, _ = timed(optimizer.ask, batch_size)
    return {**optimizer.history[-1].seconds, "total": total}


class Sines:
    """A sum of sines, one for every dimension, of variance about 1, with noise."""

    def __init__(self, dims: int, rng: np.random.Generator) -> None:
        self.frequency = rng.uniform(3.0, 15.0, dims)
        self.phase = rng.uniform(0.0, 2.0 * np.pi, dims)
        self.noise = rng.spawn(1)[0]

    def __call__(self, X: Floats) -> Floats:
        """Noisy values (n,) at X (n, D)."""
        waves = np.sqrt(2.0 / X.shape[1]) * np.sin(self.frequency * X + self.phase)
        values: Floats = waves.sum(axis=1) + NOISE * self.noise.standard_normal(len(X))
        return values


def as_in_a_run(
    f: Callable[[Floats], Floats], dims: int, n: int, rng: np.random.Generator
) -> Floats:
    """Points (n, D) of the unit cube: half uniform, half close to the best of those, mixed."""
    uniform = rng.random((n - n // 2, dims))
    best = uniform[int(f(uniform).argmax())]
    close = best + SPREAD * rng.standard_normal((n // 2, len(best)))
    return rng.permutation(np.concatenate([uniform, np.clip(close, 0.0, 1.0)]))


def filter_seconds(sizes: Sizes, seed: int) -> float:
    """The batch out of uniform candidates, every dimension on its own, on one thread."""
    rng = np.random.default_rng(seed)
    dims = sizes.filter_dims
    P = rng.random((sizes.filter_candidates, dims))
    value = rng.standard_normal(len(P))
    z, cuts, pending = np.arange(dims), np.full(dims, CUTS), np.empty((0, dims))
    arguments = (P, value, sizes.filter_batch, Laplace(), z, cuts, pending)
    with threadpool_limits(1):
        return min(timed(select, *arguments)[0] for _ in range(ROUNDS))


def partition_seconds(sizes: Sizes, seed: int) -> float:
    """The partition of uniform points."""
    T = np.random.default_rng(seed).random((sizes.partition_points, sizes.partition_dims))

    def partition() -> None:
        mondrian(
            T,
            max_leaves=sizes.partition_leaves,
            leaf_size=sizes.partition_leaf_size,
            rng=np.random.default_rng(seed),
        )

    return min(timed(partition)[0] for _ in range(ROUNDS))
