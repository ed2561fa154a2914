"""The strategies by name: how nested settings are found, changed, stored and read.

A setting has a path, such as `partition.leaf_size`. A belief's moves are known by their kinds:
`ensemble.additive.step.count` is the `count` of the move `step` in the setting `moves`.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from ebo.batch.budget import Budget
from ebo.belief import Additive, Ensemble, Mixture
from ebo.checks import check_choice
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
    "moves": {"step": Step, "crossover": Crossover, "difference": Difference},
    "probes": {"probes": Probes},
    "polish": {"shrinking": Shrinking},
    "search": {"climbing": Climbing, "printed": Printed},
    "starts": {"good": Starts},
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


def changed(settings: Any, values: Mapping[str, Any]) -> Any:
    """The settings with some of them changed, by name."""
    names = dict[Path, str]()

    def find(name: str) -> list[Path]:
        paths = _find(settings, name)
        for path in paths:
            if path in names:
                raise ValueError(f"{names[path]!r} and {name!r} are one setting; give it once")
            names[path] = name
        return paths

    # Strategies first, each before those that it is made of.
    for owner in STRATEGIES:
        for name in [name for name in values if _last(name) == owner]:
            new = _strategy(owner, name, values[name])
            settings = _with(settings, dict.fromkeys(find(name), (name, new)))
    # Numbers together: some of them are only allowed with others.
    numbers = {
        path: (name, tuple(value) if isinstance(value, list) else value)
        for name, value in values.items()
        if _last(name) not in STRATEGIES
        for path in find(name)
    }
    return _with(settings, numbers)


def flat(strategy: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """All numbers and names below a strategy by their path."""
    for name, value in _inner(strategy):
        if is_dataclass(value):
            yield from flat(value, f"{before}{name}.")
        elif name != "moves":
            yield f"{before}{name}", value


def check(strategy: Any) -> None:
    """Refuse what is not a strategy where there has to be one."""
    for name, value in _items(strategy):
        kinds = tuple(STRATEGIES.get(name, {}).values())
        if name == "moves":
            _check_moves(value)
        elif kinds and not (isinstance(value, kinds) or (value is None and name in OPTIONAL)):
            also = " or None" if name in OPTIONAL else ""
            names = " or ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"{name} is {value!r}; give {names}{also}")
        elif is_dataclass(value):
            check(value)


def plain(name: str, value: Any) -> Any:
    """A setting as data for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return [plain(name, item) for item in value]
    if not is_dataclass(value):
        return value
    kind = _kind(name, value)
    if kind is None:
        raise ValueError(
            f"{name} has {value!r}, which has no name to be stored by; give it one, such as "
            f"ebo.strategies.STRATEGIES[{name!r}][{type(value).__name__.lower()!r}] = "
            f"{type(value).__name__}"
        )
    told = {"kind": kind} if len(STRATEGIES[name]) > 1 else {}
    return {**told, **{inner: plain(inner, item) for inner, item in _items(value)}}


def arguments(strategy: type, where: str, data: Any) -> dict[str, Any]:
    """The settings of a strategy out of a table of plain data."""
    if not isinstance(data, Mapping):
        raise TypeError(f"settings are {data!r}; give a table of them by name")
    known = {f.name for f in fields(strategy)}
    for name in data:
        if name not in known:
            raise UnknownSettingError(str(name), known, where)
    before = f"{where}." if where else ""
    return {name: _built(name, f"{before}{name}", value) for name, value in data.items()}


def _items(strategy: Any) -> Iterator[tuple[str, Any]]:
    """The settings of a strategy by name."""
    return ((f.name, getattr(strategy, f.name)) for f in fields(strategy))


def _inner(strategy: Any) -> Iterator[tuple[str, Any]]:
    """The same, and behind the moves each of them by its kind."""
    for name, value in _items(strategy):
        yield name, value
        if name == "moves":
            yield from ((_kind("moves", move) or type(move).__name__, move) for move in value)


def _kind(name: str, strategy: Any) -> str | None:
    """What a strategy is stored as; None for one that has no name."""
    kinds = (kind for kind, built in STRATEGIES[name].items() if type(strategy) is built)
    return next(kinds, None)


def _check_moves(moves: Any) -> None:
    if not isinstance(moves, tuple) or not all(isinstance(move, Move) for move in moves):
        raise TypeError(f"moves are {moves!r}; give a tuple such as (Step(), Crossover())")
    kinds = [type(move) for move in moves]
    if len(set(kinds)) < len(kinds):
        raise ValueError(f"moves are {moves!r}; give each kind of move once")
    if not any(move.by_group for move in moves):
        raise ValueError(f"moves are {moves!r}; add one that is made by group, such as Step()")


def _find(settings: Any, name: str) -> list[Path]:
    """The path of a setting from the end of it; an unknown one shows what is near.

    A move that several beliefs make is one strategy in several places: then there are several.
    """
    paths = _paths(settings)
    found = [path for path in paths if path[-len(name.split(".")) :] == tuple(name.split("."))]
    if len({path[-2:] for path in found}) == 1:
        return found
    if found:
        ends = dict.fromkeys(".".join(path[-2:]) for path in found)
        choices = " or ".join(map(repr, ends))
        raise ValueError(f"there is more than one setting {name!r}; give {choices}")
    owners = _owners(name)
    if owners:
        raise ValueError(
            f"there is no setting {name!r} here; it comes with {' or '.join(owners)}, which "
            f"has to be chosen first"
        )
    # By themselves and with all that is before them: what was meant may be either.
    raise UnknownSettingError(name, {".".join(p[i:]) for p in paths for i in range(len(p))})


def _paths(strategy: Any) -> list[Path]:
    """All settings below a strategy, other strategies among them."""
    paths: list[Path] = []
    for name, value in _inner(strategy):
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
        if last in {f.name for f in fields(strategy)}
        and (not before or before[-1] in (owner, kind))
    ]


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
    inner = dict(_inner(strategy))
    for name in dict.fromkeys(path[0] for path in values if len(path) > 1):
        below = {path[1:]: value for path, value in values.items() if path[0] == name}
        new[name] = _with(inner[name], below)
    own = {f.name for f in fields(strategy)}
    moved = {name: new.pop(name) for name in list(new) if name not in own}
    if moved:
        kept = new.get("moves", strategy.moves)
        new["moves"] = tuple(
            moved.get(_kind("moves", move) or type(move).__name__, move) for move in kept
        )
    try:
        return replace(strategy, **new)
    except (TypeError, ValueError) as error:  # told by the name that was given
        said, _, rest = str(error).partition(" ")
        if (said,) not in values:
            raise
        raise type(error)(f"{values[said,][0]} {rest}") from None


def _built(name: str, where: str, data: Any) -> Any:
    """A setting out of plain data; a strategy, where it has to be one, out of a table."""
    if name == "moves" and isinstance(data, list):
        return tuple(_built(name, where, item) for item in data)
    if name not in STRATEGIES or not isinstance(data, Mapping):
        return tuple(data) if isinstance(data, list) else data
    kinds = STRATEGIES[name]
    kind = data.get("kind", next(iter(kinds)))
    check_choice(f"{where}.kind", kind, kinds)
    values = {inner: item for inner, item in data.items() if inner != "kind"}
    return kinds[kind](**arguments(kinds[kind], where, values))
