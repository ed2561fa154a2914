"""How the optimiser works: the strategies it is made of, and their numbers."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np

from ebo.acquisition import ACQUISITIONS
from ebo.batch.budget import Budget
from ebo.belief import Additive, Ensemble, Mixture
from ebo.checks import check_choice, check_number
from ebo.learning import Model, PerLeaf, Pooled
from ebo.moves import Climbing, Crossover, Difference, Printed, Probes, Shrinking, Starts, Step
from ebo.partition import Partition

# What a setting may be, where that is a strategy: by the name of the setting, then of the strategy.
STRATEGIES: dict[str, dict[str, type]] = {
    "partition": {"mondrian": Partition},
    "model": {"tilegp": Model},
    "learning": {"pooled": Pooled, "per-leaf": PerLeaf},
    "ensemble": {"ensemble": Ensemble},
    "additive": {"additive": Additive},
    "mixture": {"mixture": Mixture},
    "probes": {"probes": Probes},
    "polish": {"shrinking": Shrinking},
    "search": {"climbing": Climbing, "printed": Printed},
    "starts": {"good": Starts},
    "step": {"step": Step},
    "crossover": {"crossover": Crossover},
    "difference": {"difference": Difference},
    "budget": {"budget": Budget},
}
OPTIONAL = ("mixture", "probes", "polish")  # may be None

Path = tuple[str, ...]


class UnknownSettingError(ValueError):
    """There is no setting of a name; `known` has those that there are."""

    def __init__(self, name: str, known: Collection[str], where: str = "") -> None:
        near = difflib.get_close_matches(name, known, n=1)
        names = ", ".join(sorted({other.rpartition(".")[2] for other in known}))
        hint = f"did you mean {near[0]!r}?" if near else f"there are {names}"
        place = f" in {where!r}" if where else ""
        super().__init__(f"there is no setting {name!r}{place}; {hint}")
        self.name, self.known = name, known


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The default preset; `Settings.paper()` is Alg. 1 as printed.

    A setting is a number, a name, or a strategy with settings of its own. Most users need none of
    them. `Settings().changed(leaf_size=800)` changes one of them, wherever it is.

    partition: how the space is cut into leaves (`Partition`: leaf_size, max_leaves, ...).
    model: the Gaussian process of a leaf (`Model`: kernel, group_limit, noise, ...).
    learning: how the structure is learned: `Pooled` from all leaves together, or `PerLeaf`.
    ensemble: the beliefs that iterations draw from (`Ensemble`: additive, mixture).
    acquisition: what a point is worth: "ei", "ucb", "pi", "eta", "mes", "mes-gumbel", or a name
        that was given to `ebo.acquisition.register`.
    deviations: c of the upper confidence bound μ + c σ. More explore further.
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

        Numbers are those of the rover experiment. All layers of a parameter have one number of
        cuts, as Section 3.4 speaks of them; `per_layer=True` is Section 3.2 to the letter and about
        `layers` times dearer.
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
        _check(self)
        check_choice("acquisition", self.acquisition, ACQUISITIONS)
        check_number("deviations", self.deviations, 0.0, 1e6)

    def changed(self, changes: Mapping[str, Any] | None = None, **more: Any) -> Settings:
        """The same with some settings changed, by name.

        A name is enough where it is the only one: `changed(leaf_size=800)`. Else the strategy comes
        before it: `changed({"crossover.share": 0.1})`. A strategy may be given by its own name; it
        then has its default numbers, and those that are given: `changed(search="printed", tries=9)`
        in either order.
        """
        if changes is not None and not isinstance(changes, Mapping):
            raise TypeError(f"changes are {changes!r}; give values by name, such as leaf_size=800")
        values = {**(changes or {}), **more}
        settings, names = self, dict[Path, str]()

        def find(name: str) -> Path:
            path = settings._find(name)
            if path in names:
                raise ValueError(f"{names[path]!r} and {name!r} are one setting; give it once")
            names[path] = name
            return path

        # Strategies first, each before those that it is made of.
        for owner in STRATEGIES:
            for name in [name for name in values if _last(name) == owner]:
                settings = _with(
                    settings, {find(name): (name, _strategy(owner, name, values[name]))}
                )
        # Numbers together: some of them are only allowed with others.
        numbers = {
            find(name): (name, tuple(value) if isinstance(value, list) else value)
            for name, value in values.items()
            if _last(name) not in STRATEGIES
        }
        changed: Settings = _with(settings, numbers)
        return changed

    def as_dict(self) -> dict[str, Any]:
        """All settings as plain data, strategies with their `kind`; `from_dict` reads it."""
        return {name: _plain(name, value) for name, value in _items(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Settings:
        """The settings of which `as_dict` made plain data; what is left out is the default."""
        return cls(**_arguments(cls, "", data))

    def flat(self) -> dict[str, Any]:
        """All numbers and names by their path, as "partition.leaf_size"."""
        return dict(_leaves(self, ""))

    def _find(self, name: str) -> Path:
        """The path of a setting from the end of it; an unknown one shows what is near."""
        paths = _paths(self)
        found = [path for path in paths if path[-len(name.split(".")) :] == tuple(name.split("."))]
        if len(found) == 1:
            return found[0]
        if found:
            choices = " or ".join(repr(".".join(path[-2:])) for path in found)
            raise ValueError(f"there is more than one setting {name!r}; give {choices}")
        owners = _owners(name)
        if owners:
            raise ValueError(
                f"there is no setting {name!r} here; it comes with {' or '.join(owners)}, which "
                f"has to be chosen first"
            )
        # By themselves and with all that is before them: what was meant may be either.
        raise UnknownSettingError(name, {".".join(p[i:]) for p in paths for i in range(len(p))})


def _items(strategy: Any) -> Iterator[tuple[str, Any]]:
    """The settings of a strategy by name."""
    return ((f.name, getattr(strategy, f.name)) for f in fields(strategy))


def _check(strategy: Any) -> None:
    """Refuse what is not a strategy where there has to be one."""
    for name, value in _items(strategy):
        kinds = tuple(STRATEGIES.get(name, {}).values())
        if kinds and not (isinstance(value, kinds) or (value is None and name in OPTIONAL)):
            also = " or None" if name in OPTIONAL else ""
            names = " or ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"{name} is {value!r}; give {names}{also}")
        if is_dataclass(value):
            _check(value)


def _paths(strategy: Any) -> list[Path]:
    """All settings below a strategy, other strategies among them."""
    paths: list[Path] = []
    for name, value in _items(strategy):
        paths.append((name,))
        if is_dataclass(value):
            paths += [(name, *path) for path in _paths(value)]
    return paths


def _owners(name: str) -> list[str]:
    """The strategies that have a setting of this name, as `changed` takes them."""
    *before, last = name.split(".")
    return [
        f"{owner}={kind!r}"
        for owner, kinds in STRATEGIES.items()
        for kind, strategy in kinds.items()
        if last in {f.name for f in fields(strategy)} and (not before or before[-1] == owner)
    ]


def _leaves(strategy: Any, before: str) -> Iterator[tuple[str, Any]]:
    for name, value in _items(strategy):
        if is_dataclass(value):
            yield from _leaves(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _last(name: object) -> str:
    """What a name with dots ends with."""
    if not isinstance(name, str):
        raise TypeError(f"{name!r} is no name of a setting; give a string")
    return name.rpartition(".")[2]


def _strategy(owner: str, name: str, value: Any) -> Any:
    """A strategy as it is, or by its own name."""
    if not isinstance(value, str):
        return value
    check_choice(name, value, STRATEGIES[owner])
    return STRATEGIES[owner][value]()


def _with(strategy: Any, values: Mapping[Path, tuple[str, Any]]) -> Any:
    """The strategy with the settings at some paths replaced; each has the name it was given by."""
    new = {path[0]: value for path, (_, value) in values.items() if len(path) == 1}
    for name in dict.fromkeys(path[0] for path in values if len(path) > 1):
        inner = {path[1:]: value for path, value in values.items() if path[0] == name}
        new[name] = _with(getattr(strategy, name), inner)
    try:
        return replace(strategy, **new)
    except (TypeError, ValueError) as error:  # told by the name that was given
        own, _, rest = str(error).partition(" ")
        if (own,) not in values:
            raise
        raise type(error)(f"{values[own,][0]} {rest}") from None


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if not is_dataclass(value):
        return [_plain(name, item) for item in value] if isinstance(value, tuple) else value
    kinds = [kind for kind, built in STRATEGIES[name].items() if type(value) is built]
    if not kinds:
        raise ValueError(
            f"{name} is {value!r}, which has no name to be stored by; give it one in "
            f"ebo.settings.STRATEGIES[{name!r}]"
        )
    told = {"kind": kinds[0]} if len(STRATEGIES[name]) > 1 else {}
    return {**told, **{inner: _plain(inner, item) for inner, item in _items(value)}}


def _built(name: str, where: str, data: Any) -> Any:
    """A setting out of plain data; a strategy, where it has to be one, out of a table."""
    if name not in STRATEGIES or not isinstance(data, Mapping):
        return tuple(data) if isinstance(data, list) else data
    kinds = STRATEGIES[name]
    kind = data.get("kind", next(iter(kinds)))
    check_choice(f"{where}.kind", kind, kinds)
    values = {inner: item for inner, item in data.items() if inner != "kind"}
    return kinds[kind](**_arguments(kinds[kind], where, values))


def _arguments(strategy: type, where: str, data: Any) -> dict[str, Any]:
    """The settings of a strategy out of a table of plain data."""
    if not isinstance(data, Mapping):
        raise TypeError(f"settings are {data!r}; give a table of them by name")
    known = {f.name for f in fields(strategy)}
    for name in data:
        if name not in known:
            raise UnknownSettingError(str(name), known, where)
    before = f"{where}." if where else ""
    return {name: _built(name, f"{before}{name}", value) for name, value in data.items()}
