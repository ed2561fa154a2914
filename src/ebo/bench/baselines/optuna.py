"""Optuna's samplers, through a study in memory that is asked and told.

Points that were told without being asked for, such as the first ones, are added as finished trials.
Pending trials count as bad ones in TPE (`constant_liar`), which spreads a batch. CMA-ES begins at
the best point told before the first `ask`; it learns from no more than one generation of what is
pending, so that it would rather be asked for one at a time (`portion`; see `cma.py`).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebo.arrays import Floats
from ebo.bench.baselines.base import Baseline
from ebo.bench.baselines.cma import STEP, population
from ebo.bench.baselines.imported import library, quiet
from ebo.space.parameters import Categorical, Float, Parameter


class Sampler(Baseline):
    """One of Optuna's samplers; a parameter goes by its name, a choice by its index."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        with quiet():
            self._optuna = library("optuna", self.name)
        free = np.flatnonzero(self.space.free)
        self._columns = {self.space.names[d]: int(d) for d in free}
        parameters = self.space.parameters
        self._distributions = {name: self._distribution(parameters[name]) for name in self._columns}
        self._study: Any = None
        self._first: list[Any] = []  # trials told before there is a study
        self._asked: dict[int, Any] = {}  # trials by number

    @abstractmethod
    def _sampler(self, best: dict[str, Any] | None) -> Any:
        """The sampler; `best` are the parameters of the best point so far."""

    def _distribution(self, parameter: Parameter) -> Any:
        distributions = self._optuna.distributions
        if isinstance(parameter, Categorical):
            return distributions.CategoricalDistribution(list(range(parameter.levels)))
        ends = {"low": parameter.low, "high": parameter.high, "log": parameter.log}
        if isinstance(parameter, Float):
            return distributions.FloatDistribution(**ends, step=parameter.step)
        return distributions.IntDistribution(**ends)

    def _propose(self, n: int) -> Floats:
        with quiet():
            if self._study is None:
                self._begin()
            X = np.tile(self.space.lower, (n, 1))
            for i in range(n):
                trial = self._study.ask(fixed_distributions=self._distributions)
                self._asked[self.asked + i] = trial
                X[i, list(self._columns.values())] = [trial.params[name] for name in self._columns]
        return self.space.to_unit(X)

    def _begin(self) -> None:
        verbosity = self._optuna.logging.get_verbosity()
        self._optuna.logging.set_verbosity(self._optuna.logging.WARNING)  # no line for each study
        good = [trial for trial in self._first if trial.value is not None]
        best = max(good, key=lambda trial: float(trial.value)).params if good else None
        self._study = self._optuna.create_study(sampler=self._sampler(best), direction="maximize")
        self._study.add_trials(self._first)
        self._first.clear()
        self._optuna.logging.set_verbosity(verbosity)

    def _learn(self, T: Floats, u: Floats, numbers: NDArray[np.int64]) -> None:
        states = self._optuna.trial.TrialState
        added = []
        with quiet():
            for x, value, number in zip(self.space.from_unit(T), u, numbers.tolist(), strict=True):
                state = states.COMPLETE if np.isfinite(value) else states.FAIL
                result = float(value) if np.isfinite(value) else None
                if number in self._asked:
                    self._study.tell(self._asked.pop(number), result, state=state)
                else:
                    added.append(
                        self._optuna.trial.create_trial(
                            state=state,
                            value=result,
                            params=self._params(x),
                            distributions=self._distributions,
                        )
                    )
            if self._study is None:
                self._first += added
            else:
                self._study.add_trials(added)

    def _params(self, x: Floats) -> dict[str, Any]:
        parameters = self.space.parameters
        return {
            name: float(x[d]) if isinstance(parameters[name], Float) else int(x[d])
            for name, d in self._columns.items()
        }


class TPE(Sampler):
    """The tree-structured Parzen estimator."""

    name = "tpe"
    takes_categoricals = True

    def _sampler(self, best: dict[str, Any] | None) -> Any:
        return self._optuna.samplers.TPESampler(seed=self.seed, constant_liar=True)


class OptunaCMA(Sampler):
    """CMA-ES, at its default population."""

    name = "optuna-cma"

    @property
    def portion(self) -> int | None:
        """What is left of the current generation."""
        size = population(self.dims)
        return size - self.asked % size

    def _sampler(self, best: dict[str, Any] | None) -> Any:
        library("cmaes", self.name)
        return self._optuna.samplers.CmaEsSampler(
            x0=best,
            sigma0=STEP,
            popsize=population(self.dims),
            seed=self.seed,
            warn_independent_sampling=False,
        )
