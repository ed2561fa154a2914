"""What an iteration has around it: its report, its random streams, its clock and its threads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ebo.arrays import Floats
from ebo.tilegp.leaves import Map


@dataclass(frozen=True)
class Iteration:
    """What one `ask` did. It is a report: nothing of it is needed to go on.

    iteration: number of the `ask`, counted from 0.
    observations, leaves, groups: how many there were.
    best: the best value told.
    upper_bound: f* in the user's units, as it was given or estimated; a lower bound where values
        are minimised.
    upper_bound_known: whether it was given.
    noise: variance of the noise, in parts of that of the function.
    seconds: how long each stage took: partition, learn, search, filter.
    """

    iteration: int
    observations: int
    leaves: int
    best: float
    upper_bound: float
    upper_bound_known: bool
    groups: int
    noise: float
    seconds: dict[str, float]


@dataclass(frozen=True)
class Learned:
    """What is known of the function's structure.

    groups: names of the parameters that act together, group by group.
    cuts: by name, how finely the function varies along a parameter. It is about the number of
        pieces into which the parameter's range falls.
    certainty: (D, D), how often two parameters were in one group while the model learned; NaN for
        parameters that are fixed.
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
    """The random streams of one iteration, one for each stage.

    How many numbers a stage draws makes no difference to the others.
    """

    partition: np.random.Generator
    learning: np.random.SeedSequence
    models: np.random.SeedSequence
    search: np.random.SeedSequence
    complete: np.random.Generator
    extra: np.random.Generator

    @classmethod
    def of(cls, seed: np.random.SeedSequence) -> Streams:
        """The streams that a seed gives."""
        partition, learning, models, search, complete, extra = seed.spawn(6)
        rng = np.random.default_rng
        return cls(rng(partition), learning, models, search, rng(complete), rng(extra))


class Clock:
    """A clock that notes how long each stage took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def stop(self, stage: str) -> None:
        """Note that a stage has ended."""
        now = time.perf_counter()
        self.seconds[stage] = now - self._last
        self._last = now


@contextmanager
def pool(workers: int) -> Iterator[Map]:
    """A map over leaves by so many threads. The core and BLAS release the interpreter's lock."""
    if workers == 1:
        yield map
        return
    from concurrent.futures import ThreadPoolExecutor  # slow to import

    with ThreadPoolExecutor(workers) as threads:
        yield threads.map
