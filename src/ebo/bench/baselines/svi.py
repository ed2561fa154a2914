"""BO-SVI and BO-Add-SVI, the sparse Gaussian processes that the paper compares EBO with.

One model of all observations takes the place of EBO's partition and its local ones: a variational
sparse process of GPyTorch (`sparse_gp.py`) with 200 inducing points, half of them the best
observations, the others random. BO-SVI has a Laplace kernel of all dimensions together. BO-Add-SVI
draws 3 random decompositions into groups of 1 to 4 dimensions, fits each, and keeps the one with
the largest ELBO; `groups` gives it one that is known. Kernel parameters start from those of the
batch before, all else anew. Acquisition function, candidates and filter are EBO's own, as in
`Settings.paper()`.

=========  ========  ==========================================================================
name       shape     meaning
=========  ========  ==========================================================================
T, u       (n, F)    observations in the unit cube, and standardised values
Z          (k, F)    inducing points
z          (F,) int  group of each dimension
=========  ========  ==========================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebo.acquisition import ACQUISITIONS, Goal, gumbel_maxima
from ebo.arrays import Floats, Ints
from ebo.batch import select
from ebo.bench.baselines.base import Baseline
from ebo.bench.baselines.imported import library, quiet
from ebo.checks import check_count
from ebo.learning import LeafModel
from ebo.moves.base import Region
from ebo.moves.search import search
from ebo.partition import Leaf
from ebo.problems.additive import random_groups
from ebo.settings import Settings
from ebo.standardisation import Standardisation
from ebo.tilegp.kernel import Laplace, check_groups, members
from ebo.tilegp.posterior import Posterior

INDUCING = 200
LEAST = 2  # values that a model is fitted to
LARGEST_GROUP = 4
JUDGED = 2_000  # observations that the ELBO is estimated from, to compare decompositions by
VARIANCE, NOISE = 1.0, 0.1  # to begin with; the length scale is a group's mean distance
TOP = 100  # best observations that the maximum is guessed from, where no bound is given


class SVI(Baseline):
    """`iterations` of variational inference a batch, for each of `loops` random decompositions.

    length_scale: in parts of the range of a parameter; None to learn it.
    """

    name = "bo-svi"

    def __init__(
        self,
        *arguments: Any,
        iterations: int = 500,
        length_scale: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        check_count("iterations", iterations, 1)
        if length_scale is not None and not 0.0 < length_scale < np.inf:
            raise ValueError(f"length_scale is {length_scale!r}; give a positive number, or None")
        with quiet():
            library("gpytorch", self.name)
            self._gp = library("ebo.bench.baselines.sparse_gp", self.name)
            self._one_thread = library("ebo.bench.baselines.exact_gp", self.name).one_thread
        bound = options.get("upper_bound" if self.direction == "maximize" else "lower_bound")
        self._bound = None if bound is None else self._data.sign * float(bound)
        self.iterations, self.length_scale = iterations, length_scale
        self.settings = Settings.paper()
        self._theta: Floats | None = None  # of the last batch
        self._pending: dict[int, Floats] = {}  # points by number

    def _learn(self, T: Floats, u: Floats, numbers: Ints) -> None:
        for number in numbers.tolist():
            self._pending.pop(number, None)

    def _propose(self, n: int) -> Floats:
        if int(np.isfinite(self._data.y).sum()) < LEAST:
            P = self.rng.random((n, self.dims))
        else:
            with self._one_thread():
                P = self._batch(n)
        for i, x in enumerate(P):
            self._pending[self.asked + i] = x
        return P

    def _decompositions(self) -> list[Ints]:
        """The z to choose from."""
        return [np.zeros(self.dims, dtype=np.int64)]

    def _batch(self, n: int) -> Floats:
        """Fit, search and filter, as EBO does with one leaf."""
        T, u, scale = self._data.standardised()
        rows = self._inducing(u)
        z, model = self._fitted(T, u, rows)
        leaf = Leaf(np.zeros(self.dims), np.ones(self.dims), np.arange(len(rows)))
        goal = self._goal(model, T, u, scale)
        acquisition, snap = ACQUISITIONS[self.settings.acquisition], self.space.snap
        region = Region(model, leaf, T[rows], u[rows], acquisition, goal, snap)
        pending = np.array(list(self._pending.values())).reshape(-1, self.dims)
        count = int(np.ceil(self.settings.budget.candidates * n))
        found = search(self.settings.search, region, count, pending, self.rng)
        X = self.space.from_unit(found.P)
        new = self._data.new(X)
        posterior = model.posterior
        chosen = select(found.P[new], found.value[new], n, Laplace(), z, posterior.cuts, pending)
        return self.space.to_unit(self._data.complete(X[new[chosen]], n, self.rng))

    def _inducing(self, u: Floats) -> Ints:
        """Rows of the inducing points: the best, and as many others."""
        order = np.argsort(-u, kind="stable")
        others = self.rng.permutation(order[INDUCING // 2 :])[: INDUCING - INDUCING // 2]
        return np.concatenate([order[: INDUCING // 2], others])

    def _fitted(self, T: Floats, u: Floats, rows: Ints) -> tuple[Ints, LeafModel]:
        """The decomposition with the largest ELBO, and its model."""
        mean = float(u.mean())
        judged = self.rng.permutation(len(u))[:JUDGED]
        best: tuple[float, Ints, Any] | None = None
        for z in self._decompositions():
            groups = members(z)
            process = self._gp.SparseGP(T[rows], groups, self._start(len(groups)))
            fixed = self.length_scale is not None
            process.fit(T, u - mean, self.iterations, self.rng, fixed_length=fixed)
            elbo = process.elbo(T[judged], u[judged] - mean, len(u))
            if best is None or elbo > best[0]:
                best = elbo, z, process
        assert best is not None
        _, z, process = best
        self._theta = process.theta
        ell, variance, noise = np.exp(process.theta).tolist()
        cuts = np.full(self.dims, 1.0 / ell)
        # The inducing points take the place of observations.
        posterior = Posterior(
            Laplace(), members(z), cuts, noise / variance, T[rows], *process.whitener()
        )
        zeros, ones = np.zeros(self.dims), np.ones(self.dims)
        scale = float(np.sqrt(variance))
        return z, LeafModel(posterior, T[rows], u[rows] - mean, zeros, ones, mean, scale)

    def _start(self, groups: int) -> Floats:
        """Kernel parameters to begin with."""
        if self._theta is not None:
            return self._theta
        ell = self.length_scale or self.dims / groups / 3.0
        return np.log([ell, VARIANCE, NOISE])

    def _goal(self, model: LeafModel, T: Floats, u: Floats, scale: Standardisation) -> Goal:
        """The best value, and the bound: as given, or guessed from the best observations."""
        best = float(u.max())
        if self._bound is not None:
            bound = float(scale.to_standard(self._bound))
        else:
            mean, sd = model.predict(T[np.argsort(-u, kind="stable")[:TOP]])
            bound = float(np.median(gumbel_maxima(mean, sd, 99, np.random.default_rng(0))))
        return Goal(best, max(bound, best + 1e-3))


class AdditiveSVI(SVI):
    """BO-Add-SVI. `groups` is a known z, the group of each free dimension; None for random ones."""

    name = "bo-add-svi"

    def __init__(
        self,
        *arguments: Any,
        iterations: int = 50,
        loops: int = 3,
        groups: ArrayLike | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, iterations=iterations, **options)
        check_count("loops", loops, 1)
        self.loops = loops
        self.groups = None if groups is None else np.asarray(groups)
        if self.groups is not None:
            check_groups(self.groups, self.dims)

    def _decompositions(self) -> list[Ints]:
        if self.groups is not None:
            return [self.groups]
        return [random_groups(self.dims, LARGEST_GROUP, self.rng) for _ in range(self.loops)]
