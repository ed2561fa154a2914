"""What surrounds an iteration: what it tells, its random numbers, its clock and its threads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ebo.arrays import Floats
from ebo.tilegp.leaves import Map


@dataclass(frozen=True)
class Iteration:
    """What one `ask` did: told, not needed to go on."""

    iteration: int
    observations: int
    leaves: int
    best: float
    upper_bound: float  # in the user's units; for a minimisation a lower bound
    upper_bound_known: bool
    groups: int
    noise: float
    seconds: dict[str, float]  # by stage: partition, learn, search, filter


@dataclass(frozen=True)
class Learned:
    """What is known of the function's structure.

    groups: names of the parameters that act together, group by group.
    cuts: by name, how finely the function varies along a parameter: about the number of pieces
        that its range falls into.
    certainty: (D, D), how often two parameters were in one group while learning; NaN for fixed.
    noise: variance of the noise, in parts of that of the function.
    additive: share of the function's variance that the groups account for; the rest goes to a
        smooth part of all parameters together.
    """

    groups: tuple[tuple[str, ...], ...]
    cuts: dict[str, float]
    certainty: Floats
    noise: float
    additive: float


@dataclass(frozen=True)
class Streams:
    """The random numbers of one iteration: no stage's draws shift those of another."""

    partition: np.random.Generator
    learning: np.random.SeedSequence
    models: np.random.SeedSequence
    search: np.random.SeedSequence
    complete: np.random.Generator
    extra: np.random.Generator

    @classmethod
    def of(cls, seed: np.random.SeedSequence) -> Streams:
        """Those of a seed."""
        partition, learning, models, search, complete, extra = seed.spawn(6)
        rng = np.random.default_rng
        return cls(rng(partition), learning, models, search, rng(complete), rng(extra))


class Clock:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def stop(self, stage: str) -> None:
        """A stage has ended."""
        now = time.perf_counter()
        self.seconds[stage] = now - self._last
        self._last = now


@contextmanager
def pool(workers: int) -> Iterator[Map]:
    """A map over leaves, by threads: the core and BLAS release the interpreter's lock."""
    if workers == 1:
        yield map
        return
    with ThreadPoolExecutor(workers) as threads:
        yield threads.map
