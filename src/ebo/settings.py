"""Settings: the strategies that the optimiser is made of, with their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ebo.acquisition import ACQUISITIONS
from ebo.batch.budget import Budget
from ebo.belief import Additive, Ensemble
from ebo.checks import check_choice, check_number
from ebo.learning import Model, PerLeaf, Pooled
from ebo.moves import Climbing, Printed
from ebo.partition import Partition
from ebo.strategies import arguments, changed, check, flat, plain


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The default preset; `Settings.paper()` is Alg. 1 as printed.

    A setting is a number, a name, or a strategy with settings of its own. Most users need to change
    none of them. `Settings().changed(leaf_size=800)` changes one by its name, wherever it is.

    partition: how the space is cut into leaves (`Partition`: leaf_size, max_leaves, ...).
    model: the Gaussian process of a leaf (`Model`: kernel, group_limit, noise, ...).
    learning: how the structure is learned: `Pooled` from all leaves together, or `PerLeaf`.
    ensemble: the beliefs that iterations draw from (`Ensemble`: additive, mixture).
    acquisition: what a point is worth: "ei", "ucb", "pi", "eta", "mes", "mes-gumbel", or a name
        that was given to `ebo.acquisition.register`.
    deviations: c of the upper confidence bound μ + c σ. A larger c explores further.
    search: how candidates are found in a leaf: `Climbing`, or `Printed` as in the appendix.
    budget: how many candidates there are, and which leaves propose them (`Budget`).
    """

    partition: Partition = field(default_factory=Partition)
    model: Model = field(default_factory=Model)
    learning: Pooled | PerLeaf = field(default_factory=Pooled)
    ensemble: Ensemble = field(default_factory=Ensemble)
    acquisition: str = "ei"
    deviations: float = 2.0
    search: Climbing | Printed = field(default_factory=Climbing)
    budget: Budget = field(default_factory=Budget)

    @classmethod
    def paper(cls) -> Settings:
        """Alg. 1 as printed: per-leaf Gibbs on tile coding, η, the appendix's heuristics.

        The numbers are those of the rover experiment. All layers of a parameter share one number
        of cuts, as in Section 3.4. `Settings.paper().changed(per_layer=True)` has one for each, as
        in Section 3.2, and takes about `layers` times as long.
        """
        return cls(
            partition=Partition(max_leaves=1000, leaf_size=100, grows=False),
            model=Model(
                kernel="tile-coding", layers=100, beta=(2.0, 5.0), group_limit=None, noise=1e-2
            ),
            learning=PerLeaf(sweeps=10),
            ensemble=Ensemble(additive=Additive(borrows=False, probes=None), mixture=None),
            acquisition="eta",
            search=Printed(tries=1000, passes=1),
            budget=Budget(candidates=2.0, by="volume"),
        )

    def __post_init__(self) -> None:
        check(self)
        check_choice("acquisition", self.acquisition, ACQUISITIONS)
        check_number("deviations", self.deviations, 0.0, 1e6)

    def changed(self, changes: Mapping[str, Any] | None = None, **more: Any) -> Settings:
        """These settings with some of them changed, by name.

        The name of a setting is enough where no other has the same: `changed(leaf_size=800)`.
        Otherwise put the name of its strategy before it: `changed({"crossover.share": 0.1})` is for
        all beliefs that cross, `{"additive.crossover.share": 0.1}` for one. A strategy may be given
        by its name; then it has its default numbers, and those that are given with it:
        `changed(search="printed", tries=9)`.
        """
        if changes is not None and not isinstance(changes, Mapping):
            raise TypeError(f"changes are {changes!r}; give values by name, such as leaf_size=800")
        new: Settings = changed(self, {**(changes or {}), **more})
        return new

    def as_dict(self) -> dict[str, Any]:
        """All settings as data for JSON, which `from_dict` reads. Strategies have a `kind`."""
        return {name: plain(name, value) for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Settings:
        """Settings from what `as_dict` gave. What is left out has its default."""
        return cls(**arguments(cls, "", data))

    def flat(self) -> dict[str, Any]:
        """All numbers and names by their path, such as "partition.leaf_size"."""
        return dict(flat(self))
