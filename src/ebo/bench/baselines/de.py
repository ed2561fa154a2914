"""Differential evolution by SciPy, with its own choices (best/1/bin), a generation at a time.

SciPy's solver calls the function itself and cannot be asked and told. So it runs in a thread of its
own, which waits wherever it wants a generation's values until they have been told. The population
are the best of the first observations, as many as the first batch; a batch is a generation.
"""

from __future__ import annotations

import threading
import weakref
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebo.arrays import Floats
from ebo.bench.baselines.base import Baseline

LEAST = 8  # members


class DifferentialEvolution(Baseline):
    """Asked for more than is left of a generation before its values are told, points are random.

    Values that are still missing after as many of those count as failed.
    """

    name = "de"

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._first: list[tuple[Floats, Floats]] = []  # told before there is a population
        self._solver: _Solver | None = None
        self._trials = np.empty((0, self.dims))  # (P, F) the generation
        self._loss = np.empty(0)  # (P,) of each, as far as told
        self._given = self._beyond = 0  # of the generation, and asked for besides
        self._member: dict[int, int] = {}  # by number, which of the generation; not told yet

    @property
    def portion(self) -> int | None:
        """What is left of the current generation."""
        return len(self._trials) - self._given or len(self._trials) or None

    def _propose(self, n: int) -> Floats:
        if self._solver is None:
            self._found(max(n, LEAST))
        elif self._beyond >= len(self._trials):
            self._next(self._loss)
        T = self.rng.random((n, self.dims))
        left = len(self._trials) - self._given
        for i in range(min(n, left)):
            T[i] = self._trials[self._given]
            self._member[self.asked + i] = self._given
            self._given += 1
        self._beyond += max(0, n - left)
        return T

    def _found(self, size: int) -> None:
        """The population, if enough is known."""
        if sum(len(u) for _, u in self._first) < LEAST:
            return
        points, values = zip(*self._first, strict=True)
        T, u = np.concatenate(points), np.concatenate(values)
        best = np.lexsort((*T.T, -u))[:size]  # in whatever order they were told
        self._first.clear()
        self._solver = _Solver(T[best], self.rng)
        self._solver.trials()  # the population itself, whose values are known
        self._next(-u[best])

    def _next(self, loss: Floats) -> None:
        """The generation after one with these values."""
        assert self._solver is not None
        self._solver.tell(loss)
        self._trials = self._solver.trials()
        self._loss = np.full(len(self._trials), np.inf)
        self._given = self._beyond = 0
        self._member.clear()

    def _learn(self, T: Floats, u: Floats, numbers: NDArray[np.int64]) -> None:
        if self._solver is None:
            self._first.append((T[np.isfinite(u)], u[np.isfinite(u)]))
        for value, number in zip(u.tolist(), numbers.tolist(), strict=True):
            member = self._member.pop(number, None)
            if member is not None:
                self._loss[member] = -value if np.isfinite(value) else np.inf
        if self._solver is not None and self._given == len(self._trials) and not self._member:
            self._next(self._loss)


class _Solver:
    """SciPy's solver in a thread that waits for values, and ends with this object."""

    def __init__(self, population: Floats, rng: np.random.Generator) -> None:
        self._asked: SimpleQueue[Floats | Exception] = SimpleQueue()
        self._told: SimpleQueue[Floats | None] = SimpleQueue()
        arguments = population, rng.spawn(1)[0], self._asked, self._told
        self.thread = threading.Thread(target=_evolve, args=arguments, daemon=True)
        self.thread.start()
        weakref.finalize(self, self._told.put, None)

    def trials(self) -> Floats:
        """The generation (P, F) that it wants the values of."""
        trials = self._asked.get()
        if isinstance(trials, Exception):
            self._asked.put(trials)  # for whoever asks again
            raise trials
        return trials

    def tell(self, loss: Floats) -> None:
        """Its values (P,), to be minimised."""
        self._told.put(loss)


class _EndedError(Exception):
    pass


def _evolve(
    population: Floats,
    rng: np.random.Generator,
    asked: SimpleQueue[Floats | Exception],
    told: SimpleQueue[Floats | None],
) -> None:
    """Minimise what is told, for ever."""
    from scipy.optimize import Bounds, differential_evolution

    def values(trials: Any) -> Any:  # (F, P) -> (P,), which the types of SciPy do not know of
        asked.put(trials.T.copy())
        loss = told.get()
        if loss is None:
            raise _EndedError
        return loss

    try:
        differential_evolution(
            values,
            Bounds(np.zeros(population.shape[1]), np.ones(population.shape[1])),
            init=population,
            updating="deferred",
            vectorized=True,
            polish=False,
            maxiter=10**9,
            atol=-1.0,  # alike as they may be, members never are as one
            tol=0.0,
            seed=rng,
        )
        raise RuntimeError("SciPy's differential evolution has ended by itself")
    except _EndedError:
        pass
    except Exception as error:  # or who waits for trials would wait for ever
        asked.put(error)
