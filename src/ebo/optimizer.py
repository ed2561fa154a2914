"""Ensemble Bayesian optimisation (Alg. 1), by `ask` and `tell`.

One call of `ask` is one iteration of the paper's loop up to the evaluations: partition, learning,
search, synchronisation, filter. `tell` takes the evaluations in, in any order and number.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from ebo.acquisition import Goal, gumbel_maxima
from ebo.batch import budget, budget_by_rank, select
from ebo.learn import (
    LeafModel,
    Structure,
    learn_leaves,
    learn_pooled,
    limit_of,
    model_pooled,
)
from ebo.outcome import Outcome
from ebo.partition import Leaf, mondrian, refill
from ebo.search import Candidates, Local, propose
from ebo.settings import Settings
from ebo.space import Space
from ebo.tilegp.kernel import members
from ebo.tilegp.leaves import Map

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ATTEMPTS = 10  # at points that are new
SMALL_SPACE = 10_000  # points that can be listed
TOP = 20  # observations of a leaf at which the maximum is guessed


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
    noise: the share of the variance that the model takes for noise.
    """

    groups: tuple[tuple[str, ...], ...]
    cuts: dict[str, float]
    certainty: Floats
    noise: float


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
        if not isinstance(space, Space):
            raise TypeError(f"space is a {type(space).__name__}; give ebo.box(...) or ebo.Space")
        if direction not in ("maximize", "minimize"):
            raise ValueError(f"direction is {direction!r}; give 'maximize' or 'minimize'")
        if settings is not None and not isinstance(settings, Settings):
            raise TypeError(f"settings is {settings!r}; give ebo.Settings(...) or None")
        self.space, self.direction, self.seed = space, direction, _seed(seed)
        self.settings = Settings() if settings is None else settings
        self.history: list[Iteration] = []
        self._sign = 1.0 if direction == "maximize" else -1.0
        self._bound = _bound(direction, upper_bound, lower_bound)
        self._workers = _worker_count(workers)
        self._X = np.empty((0, space.dims))
        self._y = np.empty(0)  # as told; NaN where failed
        self._pending = np.empty((0, space.dims))
        self._known: set[bytes] = set()  # rows told or asked
        self._asked = 0  # batches
        self._structure: Structure | None = None
        self._fixed_leaves: list[Leaf] | None = None

    @property
    def X(self) -> Floats:
        """The points told, (n, D), in the order of telling."""
        return self._X.copy()

    @property
    def y(self) -> Floats:
        """Their values, (n,); NaN where failed."""
        return self._y.copy()

    @property
    def pending(self) -> Floats:
        """The points asked for and not told yet."""
        return self._pending.copy()

    def tell(self, X: ArrayLike, y: ArrayLike) -> None:
        """Take in values y (n,) of points X (n, D), asked for or not; NaN says that one failed."""
        points = self.space.check(X)
        values = check_values(y, len(points))
        self._X = np.concatenate([self._X, points])
        self._y = np.concatenate([self._y, values])
        keys = _keys(points)
        self._known.update(keys)
        told = set(keys)
        waiting = [key not in told for key in _keys(self._pending)]
        self._pending = self._pending[np.array(waiting, dtype=np.bool_)]

    def best(self) -> tuple[Floats, float]:
        """The best point told, (D,), and its value."""
        if not np.isfinite(self._y).any():
            raise RuntimeError("no value is known yet; tell at least one that has not failed")
        i = int(np.nanargmax(self._sign * self._y))
        return self._X[i].copy(), float(self._y[i])

    def structure(self) -> Learned:
        """The groups and cuts learned, and how sure they are."""
        if self._structure is None:
            raise RuntimeError("nothing is learned yet; tell some values and ask once")
        names = np.array(self.space.names, dtype=object)[self.space.free]
        certainty = np.full((self.space.dims, self.space.dims), np.nan)
        certainty[np.ix_(self.space.free, self.space.free)] = self._structure.together
        return Learned(
            groups=tuple(tuple(names[group]) for group in members(self._structure.z)),
            cuts=dict(zip(names, self._structure.density.tolist(), strict=True)),
            certainty=certainty,
            noise=self._structure.noise,
        )

    def ask(self, n: int) -> Floats:
        """n points (n, D) to evaluate next, in the user's units; before any value, Sobol points."""
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise ValueError(f"asked for {n!r} points; ask for a whole number of at least 1")
        stream = np.random.SeedSequence(self.seed, spawn_key=(self._asked,))
        free = int(self.space.free.sum())
        if free == 0 or not np.isfinite(self._y).any():
            X = self._initial(int(n), stream)
        else:
            X = self._iterate(int(n), stream)
        self._asked += 1
        self._pending = np.concatenate([self._pending, X])
        self._known.update(_keys(X))
        return X

    def _initial(self, n: int, stream: np.random.SeedSequence) -> Floats:
        """Points of a scrambled Sobol sequence, going on where it stopped."""
        free = int(self.space.free.sum())
        if free == 0:
            return self.space.from_unit(np.empty((n, 0)))
        start = len(self._known)
        X = self.space.from_unit(_sobol(free, start, n, self.seed))
        return self._distinct(X, n, np.random.default_rng(stream))

    def _iterate(self, n: int, stream: np.random.SeedSequence) -> Floats:
        """One iteration of Alg. 1, up to the evaluations."""
        settings, space = self.settings, self.space
        clock = _Clock()
        T, u, outcome = self._standardised()
        pending = space.to_unit(self._pending)
        partition, learn, leaf_stream, top_up = stream.spawn(4)
        with threadpool_limits(1), _pool(self._workers) as map_leaves:
            leaves = self._partition(T, np.random.default_rng(partition))
            clock.stop("partition")
            paid = self._budget(leaves, u, int(np.ceil(settings.candidates * n)))
            seeds = leaf_stream.spawn(2 * len(leaves))
            models = self._learn(T, u, leaves, paid, learn, seeds, map_leaves)
            clock.stop("learn")
            goal = self._goal(models, leaves, T, u, outcome)

            def search(j: int) -> Candidates:
                leaf, model = leaves[j], models[j]
                assert model is not None
                rng = np.random.default_rng(seeds[len(leaves) + j])
                rows = leaf.rows
                local = Local(model, leaf, T[rows], u[rows], goal, settings, space.snap, rng)
                return propose(local, int(paid[j]), pending)

            found = list(map_leaves(search, np.flatnonzero(paid)))
            clock.stop("search")
            P = np.concatenate([c.P for c in found])
            value = np.concatenate([c.value for c in found])
            chosen = self._filter(P, value, n, pending)
        X = self._distinct(space.from_unit(P[chosen]), n, np.random.default_rng(top_up))
        clock.stop("filter")
        self._record(goal, outcome, leaves, clock)
        return X

    def _partition(self, T: Floats, rng: np.random.Generator) -> list[Leaf]:
        settings = self.settings
        if settings.fixed_partition and self._fixed_leaves is not None:
            return refill(self._fixed_leaves, T, overlap=settings.overlap)
        leaves = mondrian(
            T,
            max_leaves=settings.max_leaves,
            leaf_size=settings.leaf_size,
            rng=rng,
            overlap=settings.overlap,
        )
        self._fixed_leaves = leaves if settings.fixed_partition else None
        return leaves

    def _budget(self, leaves: list[Leaf], u: Floats, total: int) -> Ints:
        """How many candidates each leaf proposes."""
        best = np.array([u[leaf.rows].max(initial=-np.inf) for leaf in leaves])
        if self.settings.pay_by_rank:
            return budget_by_rank(best, total)
        return budget(np.array([np.prod(leaf.upper - leaf.lower) for leaf in leaves]), best, total)

    def _learn(
        self,
        T: Floats,
        u: Floats,
        leaves: list[Leaf],
        paid: Ints,
        stream: np.random.SeedSequence,
        seeds: list[np.random.SeedSequence],
        map_leaves: Map,
    ) -> list[LeafModel | None]:
        """The models of the leaves, and what they have in common; None for leaves without pay."""
        settings, categorical = self.settings, self.space.categorical
        if not settings.pooled:
            models, self._structure = learn_leaves(
                T,
                u,
                leaves,
                self._structure,
                settings,
                categorical,
                seeds=seeds[: len(leaves)],
                map=map_leaves,
            )
            return list(models)
        structure = self._structure = learn_pooled(
            T,
            u,
            self._structure,
            settings,
            categorical,
            rng=np.random.default_rng(stream),
            threads=self._workers,
        )

        def condition(j: int) -> LeafModel | None:
            if not paid[j]:
                return None
            rng = np.random.default_rng(seeds[j])
            return model_pooled(T, u, leaves[j], structure, settings, categorical, rng)

        return list(map_leaves(condition, range(len(leaves))))

    def _goal(
        self,
        models: list[LeafModel | None],
        leaves: list[Leaf],
        T: Floats,
        u: Floats,
        outcome: Outcome,
    ) -> Goal:
        """The best value, and the upper bound: as given, or the median of a Gumbel law."""
        best = float(u.max())
        if self._bound is not None:
            bound = float(outcome.to_standard(self._sign * self._bound))
        else:
            bound = best
            for leaf, model in zip(leaves, models, strict=True):
                if model is not None and len(leaf.rows):
                    top = leaf.rows[np.argsort(-u[leaf.rows], kind="stable")[:TOP]]
                    mean, sd = model.predict(T[top])
                    rng = np.random.default_rng(0)
                    bound = max(bound, float(np.median(gumbel_maxima(mean, sd, 99, rng))))
        # A bound that has been passed, or is as good as reached, leaves nothing to aim at.
        return Goal(best, max(bound, best + 1e-3), deviations=self.settings.deviations)

    def _filter(self, P: Floats, value: Floats, n: int, pending: Floats) -> Ints:
        """The batch out of all candidates that are new."""
        structure = self._structure
        assert structure is not None
        seen = set(self._known)
        new = []
        for i, key in enumerate(_keys(self.space.from_unit(P))):
            if key not in seen:
                seen.add(key)
                new.append(i)
        rows = np.array(new, dtype=np.int64)
        kernel = limit_of(self.settings, self.space.categorical)
        chosen = select(P[rows], value[rows], n, kernel, structure.z, structure.density, pending)
        return rows[chosen]

    def _distinct(self, X: Floats, n: int, rng: np.random.Generator) -> Floats:
        """X without rows known or repeated, and random points for those that lack.

        Where no others are left to try, as on a small discrete space, rows repeat.
        """
        known, rows = set(self._known), list[Floats]()
        for attempt in range(ATTEMPTS):
            for x, key in zip(X, _keys(X), strict=True):
                if len(rows) < n and (key not in known or attempt == ATTEMPTS - 1):
                    known.add(key)
                    rows.append(x)
            if len(rows) == n:
                break
            X = self._any_points(2 * n, rng)
        return np.array(rows)

    def _any_points(self, n: int, rng: np.random.Generator) -> Floats:
        """Random points; of a small discrete space, all in random order, again and again."""
        levels = self.space.levels
        if 0 < np.prod(levels.astype(np.float64)) <= SMALL_SPACE:
            grid = np.indices(tuple(levels.tolist())).reshape(len(levels), -1).T
            every = (rng.permutation(grid) + 0.5) / levels
            return self.space.from_unit(np.resize(every, (max(n, len(every)), len(levels))))
        return self.space.from_unit(rng.random((n, len(levels))))

    def _standardised(self) -> tuple[Floats, Floats, Outcome]:
        """All observations, standardised, in an order that does not depend on that of telling."""
        table = np.ascontiguousarray(np.column_stack([self._X, self._sign * self._y]) + 0.0)
        order = np.argsort(table.view(f"V{table.shape[1] * 8}").ravel(), kind="stable")
        y = table[order, -1]
        outcome = Outcome.fit(y)
        return self.space.to_unit(self._X[order]), outcome.to_standard(y), outcome

    def _record(self, goal: Goal, outcome: Outcome, leaves: list[Leaf], clock: _Clock) -> None:
        structure = self._structure
        assert structure is not None
        self.history.append(
            Iteration(
                iteration=self._asked,
                observations=len(self._y),
                leaves=len(leaves),
                best=self.best()[1],
                upper_bound=self._sign * float(outcome.from_standard(goal.upper_bound))
                if self._bound is None
                else self._bound,
                upper_bound_known=self._bound is not None,
                groups=len(np.unique(structure.z)),
                noise=structure.noise,
                seconds=clock.seconds,
            )
        )


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


def _sobol(dims: int, start: int, n: int, seed: int) -> Floats:
    """Points start .. start + n - 1 of a scrambled Sobol sequence, (n, dims)."""
    from scipy.stats import qmc  # slow to import, and needed once

    sobol = qmc.Sobol(dims, seed=np.random.default_rng(seed))
    if start:
        sobol.fast_forward(start)
    with warnings.catch_warnings():  # of numbers that are no power of two, which do no harm
        warnings.simplefilter("ignore", UserWarning)
        return np.asarray(sobol.random(n))


def _keys(X: Floats) -> list[bytes]:
    """Each row as bytes; -0.0 and 0.0 are the same."""
    rows = np.ascontiguousarray(X + 0.0)
    return [row.tobytes() for row in rows]


def check_values(y: ArrayLike, n: int) -> Floats:
    """Values as (n,) floats; what is not finite has failed."""
    try:
        values = np.asarray(y)
    except ValueError:  # rows of different lengths
        values = np.empty(0, dtype=np.object_)
    if values.dtype.kind not in "fiub":
        raise ValueError(f"y is {y!r}; give numbers, NaN for an evaluation that failed")
    if values.shape != (n,):
        raise ValueError(
            f"y has shape {values.shape} for {n} points; give ({n},), one value for each point"
        )
    numbers = values.astype(np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)


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


def _seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
        raise ValueError(f"seed is {seed!r}; give a whole number of at least 0")
    return int(seed)
