"""Ensemble Bayesian optimisation (Alg. 1), by `ask` and `tell`.

One call of `ask` is one iteration of the paper's loop, up to the evaluations: partition, learning
with synchronisation, search, filter (`Optimizer._iterate`). `tell` takes in values, any number of
them and in any order.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from ebo.acquisition import ACQUISITIONS, Goal, gumbel_maxima
from ebo.arrays import Floats, Ints
from ebo.batch import select
from ebo.belief import Asked, Belief, Extra
from ebo.checks import check_count
from ebo.display import as_html
from ebo.iteration import Clock, Iteration, Learned, Streams, pool
from ebo.learning import Data, LeafModel, Learning, Structure
from ebo.moves.base import Region
from ebo.moves.search import Candidates, Piece, search
from ebo.observations import Observations, sign_of
from ebo.partition import Leaf
from ebo.settings import Settings
from ebo.space import Points, Space
from ebo.standardisation import Standardisation
from ebo.tilegp.kernel import members

# Models see no standardised value below this one. A penalty of -1e12 would be a cliff, at which a
# smooth kernel rings.
HOPELESS = -5.0
MOST_POINTS = 10**6  # of a batch: more would not fit into memory
TOP = 20  # best observations of a leaf: its maximum is guessed to be at one of them


@dataclass(frozen=True)
class State:
    """What an iteration hands on to the next one.

    With the observations and the pending points it is all that is needed to go on.

    asked: how many batches were asked for.
    structure: what was learned; None before the first iteration.
    leaves: the boxes of a fixed partition, lower and upper bounds, each (J, F); else None.
    """

    asked: int = 0
    structure: Structure | None = None
    leaves: tuple[Floats, Floats] | None = None


class Optimizer:
    """Proposes points of a space by `ask`, and learns from their values by `tell`.

    space: a `Space` of named parameters, or a box from `ebo.box(lower, upper)`.
    seed: one seed gives one trajectory, whatever the number of workers.
    direction: "maximize" or "minimize".
    upper_bound: f*, a value that the function cannot exceed, if one is known; else it is estimated.
    lower_bound: the same where the function is minimised: a value that it cannot go below.
    settings: how it works: `Settings()`, which is the default, or `Settings.paper()`.
    workers: number of threads that work on leaves; None for as many as there are cores.
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
        self._lock = threading.RLock()  # `ask` and `tell` may be called from several threads

    def __repr__(self) -> str:
        told, open_points = len(self._data.y), len(self._data.pending)
        best = f", best {self._data.best()[1]:.6g}" if self._data.any_value else ""
        return (
            f"<Optimizer of {self.space.dims} parameters, {self.direction}: {told} told, "
            f"{open_points} pending{best}>"
        )

    def _repr_html_(self) -> str:
        known = self._data.any_value
        facts = {
            "parameters": self.space.dims,
            "direction": self.direction,
            "told": len(self._data.y),
            "pending": len(self._data.pending),
            "best value": self._data.best()[1] if known else "none yet",
        }
        if known:
            x = self._data.best()[0]
            facts["best point"] = self.space.to_dicts(x[None, :])[0] if self.space.named else x
        return as_html("Optimizer", facts)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock())

    @property
    def X(self) -> Floats:
        """The points told, (n, D), in the order of telling."""
        with self._lock:  # reading puts together what was told in pieces
            return self._data.X.copy()

    @property
    def y(self) -> Floats:
        """The values of the points told, (n,); NaN where the evaluation failed."""
        with self._lock:
            return self._data.y.copy()

    @property
    def any_value(self) -> bool:
        """Whether a value was told that is not NaN."""
        return self._data.any_value

    @property
    def pending(self) -> Floats:
        """The points (Q, D) that were asked for and not told yet."""
        with self._lock:
            return self._data.pending.copy()

    @property
    def state(self) -> State:
        """What is needed to go on later, beside the points told and the pending ones."""
        return self._state

    @property
    def leaves(self) -> list[Leaf]:
        """The leaves of the last `ask`, in the unit cube; none before any value is told."""
        return list(self._leaves)

    def restore(self, state: State, pending: ArrayLike | None = None) -> None:
        """Go on from an earlier state, and from the points (Q, D) that were pending then.

        Tell what was told by then first, in any order. Then the next `ask` gives the points that
        it would have given.
        """
        with self._lock:
            if pending is not None:
                self._data.ask(self.space.check(pending))
            self._state = state

    def tell(self, X: Points, y: ArrayLike) -> None:
        """Take in values y (n,) of points X (n, D). NaN is an evaluation that failed.

        X may also be a list of dicts, as `Space.to_dicts` makes them, or one dict with one number.
        The points need not have been asked for.
        """
        with self._lock:
            self._data.tell(X, y)

    def best(self) -> tuple[Floats, float]:
        """The best point told, (D,), and its value."""
        return self._data.best()

    def structure(self) -> Learned:
        """What was learned: which parameters act together, and how finely each one acts."""
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
        """n points (n, D) to evaluate next, in the user's units.

        Before any value is told they are those of a Sobol sequence.
        """
        if isinstance(n, bool) or not isinstance(n, Integral) or not 1 <= n <= MOST_POINTS:
            raise ValueError(
                f"asked for {n!r} points; ask for a whole number of at least 1, at most "
                f"{MOST_POINTS}"
            )
        with self._lock:
            stream = np.random.SeedSequence(self.seed, spawn_key=(self._state.asked,))
            if self.space.free.any() and self._data.any_value:
                X = self._iterate(int(n), stream)
            else:
                X = self._initial(int(n), stream)
            self._data.ask(X)
        return X

    def enqueue(self, points: Points) -> Floats:
        """Points of one's own to evaluate next: they are pending, as if they had been asked for.

        points: an array (n, D), a list of dicts, or one dict. Returned as an array (n, D).

        It counts as a call of `ask`: the next one draws from the stream that comes after it.
        """
        X = self.space.points(points)
        if not 1 <= len(X) <= MOST_POINTS:
            raise ValueError(f"there are {len(X)} points; give at least 1, at most {MOST_POINTS}")
        with self._lock:
            self._data.ask(X)
            self._state = replace(self._state, asked=self._state.asked + 1)
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
        import scipy.linalg  # noqa: F401  slow to import; its threads must be there to be limited

        settings, streams, clock = self.settings, Streams.of(seed), Clock()
        with threadpool_limits(1), pool(self._workers) as map:
            data, scale = self._standardised(n)
            leaves = data.partition.draw(data.T, self._state.leaves, streams.partition)
            paid = settings.budget.pay(leaves, data.u, n)
            clock.stop("partition")
            learned = settings.learning.learn(
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
            asked = self._asked(n, learned, data, scale)
            pieces = self._pieces(asked, data, leaves, paid, learned.models, streams.search)
            making = partial(search, settings.search, learned.belief.moves, asked.pending)
            found = list(map(making, pieces))
            extra = learned.belief.extra(data, asked, streams.extra)
            clock.stop("search")
            X = self._filter(found, extra, n)
        X = self._data.complete(X, n, streams.complete)
        clock.stop("filter")
        self.history.append(self._told(asked.goal, scale, len(leaves), extra.structure, clock))
        kept = data.partition.keep(leaves)
        self._state, self._leaves = State(self._state.asked + 1, extra.structure, kept), leaves
        return X

    def _standardised(self, n: int) -> tuple[Data, Standardisation]:
        """What is known, as a batch of n is to be learned from it."""
        T, u, scale = self._data.standardised()
        partition, model = self.settings.partition.for_batch(n), self.settings.model
        return Data(T, np.maximum(u, HOPELESS), self.space.categorical, partition, model), scale

    def _asked(
        self, n: int, learned: Learning[Belief], data: Data, scale: Standardisation
    ) -> Asked:
        """What the batch is for: values above the best, up to the bound, as given or guessed."""
        best = float(data.u.max())
        if self._bound is not None:
            bound = float(scale.to_standard(self._data.sign * self._bound))
        else:
            bound = max([best, *(_guessed_maximum(model) for model in learned.models.values())])
        # A bound that has been passed, or is as good as reached, leaves nothing to aim at.
        goal = Goal(best, max(bound, best + 1e-3), deviations=self.settings.deviations)
        acquisition = ACQUISITIONS[self.settings.acquisition]
        return Asked(n, self.space, self.space.to_unit(self._data.pending), acquisition, goal)

    def _pieces(
        self,
        asked: Asked,
        data: Data,
        leaves: Sequence[Leaf],
        paid: Ints,
        models: Mapping[int, LeafModel],
        stream: np.random.SeedSequence,
    ) -> list[Piece]:
        """The leaves that are paid, in parts that are searched side by side."""
        parts = []
        for j, model in models.items():
            T, u = data.T[leaves[j].rows], data.u[leaves[j].rows]
            region = Region(model, leaves[j], T, u, asked.acquisition, asked.goal, self.space.snap)
            parts += [(region, count) for count in self.settings.search.pieces(int(paid[j]))]
        seeds = stream.spawn(len(parts))
        return [
            Piece(region, count, np.random.default_rng(seed))
            for (region, count), seed in zip(parts, seeds, strict=True)
        ]

    def _filter(self, found: Sequence[Candidates], extra: Extra, n: int) -> Floats:
        """The batch: extra points that are new, and the rest chosen out of all candidates."""
        others = self.space.from_unit(extra.P)
        others = others[self._data.new(others)][: extra.count]
        P = np.concatenate([candidates.P for candidates in found])
        value = np.concatenate([candidates.value for candidates in found])
        X = self.space.from_unit(P)
        new = self._data.new(X)
        kernel = self.settings.model.limit(self.space.categorical)
        z, cuts = extra.structure.z, extra.structure.density
        taken = self.space.to_unit(np.concatenate([self._data.pending, others]))
        chosen = select(P[new], value[new], n - len(others), kernel, z, cuts, taken)
        return np.concatenate([X[new[chosen]], others])

    def _told(
        self, goal: Goal, scale: Standardisation, leaves: int, structure: Structure, clock: Clock
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
