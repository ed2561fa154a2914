"""Settings: the strategies that the optimiser is made of, with their numbers."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from ebo.acquisition import ACQUISITIONS
from ebo.batch.budget import Budget
from ebo.belief import Additive, Ensemble, Mixture
from ebo.checks import check_choice, check_number
from ebo.learning import Model, PerLeaf, Pooled
from ebo.moves import Climbing, Crossover, Difference, Printed, Probes, Shrinking, Starts, Step
from ebo.moves.base import Move
from ebo.partition import Partition

# The strategies by their names, for each setting that is one. A study's file has only these names.
# What is added here can be stored: STRATEGIES["moves"]["mirror"] = Mirror.
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
    "moves": {"step": Step, "crossover": Crossover, "difference": Difference},
    "budget": {"budget": Budget},
}
OPTIONAL = ("mixture", "probes", "polish")  # may be None


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
        _check(self)
        check_choice("acquisition", self.acquisition, ACQUISITIONS)
        check_number("deviations", self.deviations, 0.0, 1e6)

    def changed(self, changes: Mapping[str, Any] | None = None, **more: Any) -> Settings:
        """These settings with some of them changed, by name.

        The name of a setting is enough where no other has the same: `changed(leaf_size=800)`.
        Otherwise put the name of its strategy before it: `changed({"crossover.share": 0.1})`. A
        strategy may be given by its name; then it has its default numbers:
        `changed(search="printed")`.
        """
        settings = self
        for name, value in {**(changes or {}), **more}.items():
            settings = _set(settings, settings._find(name), value)
        return settings

    def as_dict(self) -> dict[str, Any]:
        """All settings as data for JSON, which `from_dict` reads. Strategies have a `kind`."""
        return {name: _plain(name, value) for name, value in _items(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Settings:
        """Settings from what `as_dict` gave. What is left out has its default."""
        return cls(**{name: _built(name, value) for name, value in data.items()})

    def flat(self) -> dict[str, Any]:
        """All numbers and names by their path, such as "partition.leaf_size"."""
        return dict(_leaves(self, ""))

    def _find(self, name: str) -> tuple[str, ...]:
        """The path of a setting from the end of it; an unknown one shows what is near."""
        paths = _paths(self)
        found = [path for path in paths if path[-len(name.split(".")) :] == tuple(name.split("."))]
        if len(found) == 1:
            return found[0]
        if found:
            choices = " or ".join(repr(".".join(path)) for path in found)
            raise ValueError(f"there is more than one setting {name!r}; give {choices}")
        known = sorted({path[-1] for path in paths})
        near = difflib.get_close_matches(name.split(".")[-1], known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
        raise ValueError(f"there is no setting {name!r}; {hint}")


def _items(strategy: Any) -> Iterator[tuple[str, Any]]:
    """The settings of a strategy by name, or several strategies by their kind."""
    if isinstance(strategy, tuple):
        return ((_kind("moves", move), move) for move in strategy)
    return ((f.name, getattr(strategy, f.name)) for f in fields(strategy))


def _kind(name: str, strategy: Any) -> str:
    """What a strategy is called."""
    kinds = [kind for kind, built in STRATEGIES[name].items() if type(strategy) is built]
    return kinds[0] if kinds else type(strategy).__name__.lower()


def _nested(name: str, value: Any) -> bool:
    """Whether a setting has settings of its own."""
    return is_dataclass(value) or (name == "moves" and isinstance(value, tuple))


def _check(strategy: Any) -> None:
    """Refuse what is not a strategy where there has to be one."""
    for name, value in _items(strategy):
        if name == "moves":
            _check_moves(value)
            continue
        kinds = tuple(STRATEGIES.get(name, {}).values())
        if kinds and not (isinstance(value, kinds) or (value is None and name in OPTIONAL)):
            also = " or None" if name in OPTIONAL else ""
            names = " or ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"{name} is {value!r}; give {names}{also}")
        if is_dataclass(value):
            _check(value)


def _check_moves(moves: Any) -> None:
    if not isinstance(moves, tuple) or not all(isinstance(move, Move) for move in moves):
        raise TypeError(f"moves are {moves!r}; give a tuple such as (Step(), Crossover())")
    names = [_kind("moves", move) for move in moves]
    if len(set(names)) < len(names):
        raise ValueError(f"moves are {moves!r}; give each kind of move once")
    if not any(move.by_group for move in moves):
        raise ValueError(f"moves are {moves!r}; add one that is made by group, such as Step()")


def _level(name: str) -> tuple[str, ...]:
    """What a path has for a setting that has others: moves are known by their kind alone."""
    return () if name == "moves" else (name,)


def _paths(strategy: Any) -> list[tuple[str, ...]]:
    """All settings below a strategy, other strategies among them."""
    paths: list[tuple[str, ...]] = []
    for name, value in _items(strategy):
        paths.append((name,))
        if _nested(name, value):
            paths += [(*_level(name), *path) for path in _paths(value)]
    return paths


def _leaves(strategy: Any, before: str) -> Iterator[tuple[str, Any]]:
    for name, value in _items(strategy):
        if _nested(name, value):
            yield from _leaves(value, before + "".join(f"{level}." for level in _level(name)))
        else:
            yield f"{before}{name}", value


def _set(strategy: Any, path: tuple[str, ...], value: Any) -> Any:
    """The strategy with the setting at a path replaced."""
    name, *rest = path
    if name not in {field.name for field in fields(strategy)}:  # then it is the kind of a move
        moves = [
            (_set(move, tuple(rest), value) if rest else value)
            if _kind("moves", move) == name
            else move
            for move in strategy.moves
        ]
        return replace(strategy, moves=tuple(moves))
    if rest:
        value = _set(getattr(strategy, name), tuple(rest), value)
    elif name in STRATEGIES and isinstance(value, str):
        check_choice(name, value, STRATEGIES[name])
        value = STRATEGIES[name][value]()
    return replace(strategy, **{name: tuple(value) if isinstance(value, list) else value})


def _plain(name: str, value: Any) -> Any:
    """A setting as JSON has it."""
    if name == "moves" and isinstance(value, tuple):
        return [_plain("moves", move) for move in value]
    if not is_dataclass(value):
        return list(value) if isinstance(value, tuple) else value
    kind = _kind(name, value)
    if kind not in STRATEGIES[name]:  # nobody could read it again
        raise ValueError(
            f"{value!r} has no name to be stored by; give it one: "
            f'STRATEGIES["{name}"]["{kind}"] = {type(value).__name__}'
        )
    told = {"kind": kind} if len(STRATEGIES[name]) > 1 else {}
    return {**told, **{inner: _plain(inner, item) for inner, item in _items(value)}}


def _built(name: str, data: Any) -> Any:
    """A setting of what JSON has."""
    if name == "moves" and isinstance(data, list):
        return tuple(_built("moves", move) for move in data)
    if not isinstance(data, Mapping):
        return tuple(data) if isinstance(data, list) else data
    values = {inner: _built(inner, item) for inner, item in data.items() if inner != "kind"}
    kinds = STRATEGIES[name]
    kind = data.get("kind", next(iter(kinds)))
    check_choice(f"{name}.kind", kind, kinds)
    return kinds[kind](**values)
