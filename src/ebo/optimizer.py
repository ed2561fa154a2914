"""Ensemble Bayesian optimisation (Alg. 1), by `ask` and `tell`.

One call of `ask` is one iteration of the paper's loop up to the evaluations: partition, learning
with synchronisation, search, filter (`Optimizer._iterate`). `tell` takes the evaluations in, in any
order and number.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from ebo.acquisition import ACQUISITIONS, Goal, gumbel_maxima
from ebo.arrays import Floats, Ints
from ebo.batch import select
from ebo.belief import Belief
from ebo.checks import check_count
from ebo.learning import Data, LeafModel, Learning, Structure
from ebo.moves.base import Region
from ebo.moves.search import Candidates, search
from ebo.observations import Observations, sign_of
from ebo.partition import Leaf
from ebo.settings import Settings
from ebo.space import Space
from ebo.standardisation import Standardisation
from ebo.tilegp.kernel import members
from ebo.tilegp.leaves import Map

# A standardised value below which models need not tell how bad a point is: a penalty of -1e12 would
# be a cliff that a smooth kernel rings at.
HOPELESS = -5.0
MOST_POINTS = 10**6  # of a batch: more would not fit into memory
TOP = 20  # observations of a leaf at which its maximum is guessed: it is at one of the best


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
class State:
    """What an iteration hands on to the next: beside the observations, all that is needed to go on.

    leaves: the boxes of a fixed partition, lower and upper bounds, each (J, F).
    """

    asked: int = 0  # batches
    structure: Structure | None = None
    leaves: tuple[Floats, Floats] | None = None


class Optimizer:
    """Proposes points of a space by `ask`, and learns from their values by `tell`.

    space: from `ebo.box(lower, upper)`, or a `Space` of named parameters.
    seed: one seed gives one trajectory, whatever the number of workers.
    direction: "maximize" or "minimize".
    upper_bound: f*, a value that the function cannot exceed, if known (`lower_bound` where it is
        minimised); else it is estimated.
    settings: how it works; `Settings()` or `Settings.paper()`.
    workers: threads that work on leaves; None for as many as there are cores.
    """

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        direction: str = "maximize",
        upper_bound: float | None = None,
        lower_bound: float | None = None,
        settings: Settings | None = None,
        workers: int | None = None,
    ) -> None:
        sign = sign_of(space, direction)
        if settings is not None and not isinstance(settings, Settings):
            raise TypeError(f"settings is {settings!r}; give ebo.Settings(...) or None")
        check_count("seed", seed, 0)
        self.space, self.direction, self.seed = space, direction, int(seed)
        self.settings = Settings() if settings is None else settings
        self.history: list[Iteration] = []
        self._bound = _bound(direction, upper_bound, lower_bound)
        self._workers = _worker_count(workers)
        self._data = Observations(space, sign)
        self._state = State()
        self._leaves: list[Leaf] = []

    @property
    def X(self) -> Floats:
        """The points told, (n, D), in the order of telling."""
        return self._data.X.copy()

    @property
    def y(self) -> Floats:
        """Their values, (n,); NaN where failed."""
        return self._data.y.copy()

    @property
    def any_value(self) -> bool:
        """Whether any evaluation told has succeeded."""
        return self._data.any_value

    @property
    def pending(self) -> Floats:
        """The points asked for and not told yet."""
        return self._data.pending.copy()

    @property
    def state(self) -> State:
        """What is needed to go on later, beside the points told and pending."""
        return self._state

    @property
    def leaves(self) -> list[Leaf]:
        """The partition that the last `ask` made of the unit cube; none before any value."""
        return list(self._leaves)

    def restore(self, state: State, pending: ArrayLike | None = None) -> None:
        """Go on from a state of earlier, and points that were pending then; tell the rest first.

        The points told may come in any order: what is asked next is what would have been.
        """
        if pending is not None:
            self._data.ask(self.space.check(pending))
        self._state = state

    def tell(self, X: ArrayLike, y: ArrayLike) -> None:
        """Take in values y (n,) of points X (n, D), asked for or not; NaN says that one failed."""
        self._data.tell(X, y)

    def best(self) -> tuple[Floats, float]:
        """The best point told, (D,), and its value."""
        return self._data.best()

    def structure(self) -> Learned:
        """The groups and cuts learned, and how sure they are."""
        structure = self._state.structure
        if structure is None:
            raise RuntimeError("nothing is learned yet; tell some values and ask once")
        names = np.array(self.space.names, dtype=object)[self.space.free]
        certainty = np.full((self.space.dims, self.space.dims), np.nan)
        certainty[np.ix_(self.space.free, self.space.free)] = structure.together
        return Learned(
            groups=tuple(tuple(names[group]) for group in members(structure.z)),
            cuts=dict(zip(names, structure.density.tolist(), strict=True)),
            certainty=certainty,
            noise=structure.leaf_noise,
            additive=1.0 if structure.smooth is None else 1.0 - structure.smooth.share,
        )

    def ask(self, n: int) -> Floats:
        """n points (n, D) to evaluate next, in the user's units; before any value, Sobol points."""
        if isinstance(n, bool) or not isinstance(n, Integral) or not 1 <= n <= MOST_POINTS:
            raise ValueError(
                f"asked for {n!r} points; ask for a whole number of at least 1, at most "
                f"{MOST_POINTS}"
            )
        stream = np.random.SeedSequence(self.seed, spawn_key=(self._state.asked,))
        if self.space.free.any() and self._data.any_value:
            X = self._iterate(int(n), stream)
        else:
            X = self._initial(int(n), stream)
        self._data.ask(X)
        return X

    def _initial(self, n: int, stream: np.random.SeedSequence) -> Floats:
        """Points of a scrambled Sobol sequence, going on where it stopped."""
        free = int(self.space.free.sum())
        T = _sobol(free, self._data.known, n, self.seed) if free else np.empty((n, 0))
        X = self._data.complete(self.space.from_unit(T), n, np.random.default_rng(stream))
        self._state = replace(self._state, asked=self._state.asked + 1)
        return X

    def _iterate(self, n: int, seed: np.random.SeedSequence) -> Floats:
        """One iteration of Alg. 1, up to the evaluations."""
        settings, streams, clock = self.settings, Streams.of(seed), _Clock()
        with threadpool_limits(1), _pool(self._workers) as map:
            data, scale = self._standardised(n)
            leaves = data.partition.draw(data.T, self._state.leaves, streams.partition)
            paid = settings.budget.pay(leaves, data.u, n)
            clock.stop("partition")
            learned, belief = settings.learning.learn(
                data,
                leaves,
                np.flatnonzero(paid).tolist(),
                self._state.structure,
                settings.ensemble,
                once=streams.learning,
                each=streams.models,
                map=map,
                threads=self._workers,
            )
            clock.stop("learn")
            goal = self._goal(learned, data, scale)
            found = self._search(goal, data, leaves, paid, learned, streams.search, map)
            others, structure = self._extra(goal, data, belief, n, streams.extra)
            clock.stop("search")
            X = self._filter(found, n - len(others), structure, others)
        X = self._data.complete(X, n, streams.complete)
        clock.stop("filter")
        self.history.append(self._told(goal, scale, len(leaves), structure, clock))
        kept = data.partition.keep(leaves)
        self._state, self._leaves = State(self._state.asked + 1, structure, kept), leaves
        return X

    def _standardised(self, n: int) -> tuple[Data, Standardisation]:
        """What is known, as a batch of n is to be learned from it."""
        T, u, scale = self._data.standardised()
        partition, model = self.settings.partition.for_batch(n), self.settings.model
        return Data(T, np.maximum(u, HOPELESS), self.space.categorical, partition, model), scale

    def _goal(self, learned: Learning, data: Data, scale: Standardisation) -> Goal:
        """The best value, and the upper bound: as given, or guessed from the best observations."""
        best = float(data.u.max())
        if self._bound is not None:
            bound = float(scale.to_standard(self._data.sign * self._bound))
        else:
            bound = max([best, *(_guessed_maximum(model) for model in learned.models.values())])
        # A bound that has been passed, or is as good as reached, leaves nothing to aim at.
        return Goal(best, max(bound, best + 1e-3), deviations=self.settings.deviations)

    def _search(
        self,
        goal: Goal,
        data: Data,
        leaves: Sequence[Leaf],
        paid: Ints,
        learned: Learning,
        stream: np.random.SeedSequence,
        map: Map,
    ) -> list[Candidates]:
        """Candidates of all leaves that are paid, in pieces that are searched side by side."""
        settings, pending = self.settings, self.space.to_unit(self._data.pending)
        strategy = settings.search.with_time(len(data.u) <= data.partition.leaf_size)
        acquisition = ACQUISITIONS[settings.acquisition]
        pieces = [(j, count) for j in learned.models for count in strategy.pieces(int(paid[j]))]
        seeds = stream.spawn(len(pieces))

        def searched(i: int) -> Candidates:
            (j, count), rng = pieces[i], np.random.default_rng(seeds[i])
            T, u = data.T[leaves[j].rows], data.u[leaves[j].rows]
            model, snap = learned.models[j], self.space.snap
            region = Region(model, leaves[j], T, u, acquisition, goal, snap)
            return search(strategy, region, count, pending, rng)

        return list(map(searched, range(len(pieces))))

    def _extra(
        self, goal: Goal, data: Data, belief: Belief, n: int, rng: np.random.Generator
    ) -> tuple[Floats, Structure]:
        """Points beside those of the search, and what the structure knows of them."""
        pending = self.space.to_unit(self._data.pending)
        extra = belief.extra(data, goal, n, pending, self.space, rng)
        X = self.space.from_unit(extra.P)
        return X[self._data.new(X)][: extra.count], extra.structure

    def _filter(
        self, found: Sequence[Candidates], n: int, structure: Structure, others: Floats
    ) -> Floats:
        """The batch out of all candidates that are new, with `others`, which are in it already."""
        P = np.concatenate([candidates.P for candidates in found])
        value = np.concatenate([candidates.value for candidates in found])
        X = self.space.from_unit(P)
        new = self._data.new(X)
        kernel = self.settings.model.limit(self.space.categorical)
        taken = self.space.to_unit(np.concatenate([self._data.pending, others]))
        chosen = select(P[new], value[new], n, kernel, structure.z, structure.density, taken)
        return np.concatenate([X[new[chosen]], others])

    def _told(
        self, goal: Goal, scale: Standardisation, leaves: int, structure: Structure, clock: _Clock
    ) -> Iteration:
        estimate = self._data.sign * float(scale.from_standard(goal.upper_bound))
        return Iteration(
            iteration=self._state.asked,
            observations=len(self._data.y),
            leaves=leaves,
            best=self.best()[1],
            upper_bound=estimate if self._bound is None else self._bound,
            upper_bound_known=self._bound is not None,
            groups=len(np.unique(structure.z)),
            noise=structure.leaf_noise,
            seconds=clock.seconds,
        )


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


class _Clock:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def stop(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage] = now - self._last
        self._last = now


@contextmanager
def _pool(workers: int) -> Iterator[Map]:
    """A map over leaves, by threads: the core and BLAS release the interpreter's lock."""
    if workers == 1:
        yield map
        return
    with ThreadPoolExecutor(workers) as pool:
        yield pool.map


def _guessed_maximum(model: LeafModel) -> float:
    """The median of the maximum of f at a leaf's best observations, by a Gumbel law."""
    posterior = model.posterior
    if not len(posterior.T):
        return model.mean
    top = np.argsort(-model.y, kind="stable")[:TOP]
    mean, sd = posterior.predict(posterior.T[top])
    maxima = gumbel_maxima(mean, sd, 99, np.random.default_rng(0))
    return float(model.mean + model.scale * np.median(maxima))


def _sobol(dims: int, start: int, n: int, seed: int) -> Floats:
    """Points start .. start + n - 1 of a scrambled Sobol sequence, (n, dims)."""
    from scipy.stats import qmc  # slow to import, and needed once

    sobol = qmc.Sobol(dims, seed=np.random.default_rng(seed))
    if start:
        sobol.fast_forward(start)
    with warnings.catch_warnings():  # of numbers that are no power of two, which do no harm
        warnings.simplefilter("ignore", UserWarning)
        return np.asarray(sobol.random(n))


def _bound(direction: str, upper: float | None, lower: float | None) -> float | None:
    """The one of the two bounds that goes with the direction."""
    name, given, other = ("upper_bound", upper, lower)
    if direction == "minimize":
        name, given, other = ("lower_bound", lower, upper)
    if other is not None:
        raise ValueError(f"with direction={direction!r} give {name}, not the other bound")
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, Real) or not np.isfinite(float(given)):
        raise ValueError(f"{name} is {given!r}; give a finite value, or None if it is not known")
    return float(given)


def _worker_count(workers: int | None) -> int:
    if workers is None:
        return os.cpu_count() or 1
    if isinstance(workers, bool) or not isinstance(workers, Integral) or workers < 1:
        raise ValueError(f"workers is {workers!r}; give at least 1, or None for all cores")
    return int(workers)
