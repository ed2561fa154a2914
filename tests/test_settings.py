"""Settings: all numbers of both presets, what is refused, and how it is said."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import numpy as np
import pytest

from ebo.acquisition import ACQUISITIONS
from ebo.batch import Budget
from ebo.belief import Additive, Ensemble, Mixture
from ebo.checks import check_choice, check_count, check_flag, check_number
from ebo.learning import Model, PerLeaf, Pooled
from ebo.moves import Climbing, Crossover, Difference, Printed, Probes, Shrinking, Starts, Step
from ebo.partition import Partition
from ebo.settings import Settings
from ebo.strategies import OPTIONAL, STRATEGIES
from ebo.tilegp.families import FAMILIES

loose: Any = Settings  # for what a type checker would not let pass

DEFAULT: dict[str, Any] = {
    "partition.max_leaves": 1000,
    "partition.leaf_size": 500,
    "partition.overlap": 0.0,
    "partition.fixed": False,
    "partition.grows": True,
    "model.kernel": "laplace",
    "model.layers": 64,
    "model.alpha": 1.0,
    "model.beta": (0.5, 3.0),
    "model.group_limit": 8,
    "model.noise": None,
    "model.per_layer": False,
    "learning.sweeps": 1,
    "learning.learn_from": 1000,
    "learning.block_size": 200,
    "ensemble.additive.borrows": True,
    "ensemble.additive.step.count": 40,
    "ensemble.additive.step.shortest": 0.01,
    "ensemble.additive.crossover.count": 10,
    "ensemble.additive.crossover.share": 0.2,
    "ensemble.additive.probes.per_dimension": 5.0,
    "ensemble.mixture.difference.count": 40,
    "ensemble.mixture.difference.share": 0.5,
    "ensemble.mixture.step.count": 40,
    "ensemble.mixture.step.shortest": 0.3,
    "ensemble.mixture.crossover.count": 10,
    "ensemble.mixture.crossover.share": 0.2,
    "ensemble.mixture.polish.share": 0.3,
    "acquisition": "ei",
    "deviations": 2.0,
    "search.passes": 2,
    "search.starts.apart": 0.25,
    "budget.candidates": 2.0,
    "budget.by": "rank",
}
PAPER: dict[str, Any] = {
    "partition.max_leaves": 1000,  # N_p
    "partition.leaf_size": 100,  # S
    "partition.overlap": 0.0,  # ε
    "partition.fixed": False,
    "partition.grows": False,
    "model.kernel": "tile-coding",
    "model.layers": 100,  # L
    "model.alpha": 1.0,  # α
    "model.beta": (2.0, 5.0),  # β₀, β₁
    "model.group_limit": None,
    "model.noise": 0.01,  # σ²
    "model.per_layer": False,
    "learning.sweeps": 10,
    "ensemble.additive.borrows": False,
    "ensemble.additive.step.count": 40,
    "ensemble.additive.step.shortest": 0.01,
    "ensemble.additive.crossover.count": 10,
    "ensemble.additive.crossover.share": 0.2,
    "ensemble.additive.probes": None,
    "ensemble.mixture": None,
    "acquisition": "eta",
    "deviations": 2.0,
    "search.tries": 1000,  # samples a block
    "search.passes": 1,
    "budget.candidates": 2.0,  # 2B
    "budget.by": "volume",
}


# Presets.


@pytest.mark.parametrize(
    ("settings", "numbers"), [(Settings(), DEFAULT), (Settings.paper(), PAPER)], ids=str
)
def test_all_numbers_of_a_preset(settings: Settings, numbers: dict[str, Any]) -> None:
    found = settings.flat()
    assert found == numbers
    assert list(found) == list(numbers)
    assert {name: type(value) for name, value in found.items()} == {
        name: type(value) for name, value in numbers.items()
    }


def test_the_strategies_of_the_presets() -> None:
    default, paper = Settings(), Settings.paper()
    assert (type(default.learning), type(default.search)) == (Pooled, Climbing)
    assert (type(paper.learning), type(paper.search)) == (PerLeaf, Printed)


def test_the_defaults_of_strategies_are_those_of_the_preset() -> None:
    assert Settings() == Settings(
        partition=Partition(),
        model=Model(),
        learning=Pooled(),
        ensemble=Ensemble(
            additive=Additive(moves=(Step(), Crossover()), probes=Probes()),
            mixture=Mixture(
                moves=(Difference(), Step(shortest=0.3), Crossover()), polish=Shrinking()
            ),
        ),
        search=Climbing(starts=Starts()),
        budget=Budget(),
    )
    assert (PerLeaf().sweeps, Printed().tries, Printed().passes) == (10, 1000, 1)


# Changes.


def test_a_setting_is_changed_wherever_it_is() -> None:
    settings = Settings()
    assert settings.changed(leaf_size=40) == Settings(partition=Partition(leaf_size=40))
    assert settings.changed(deviations=3.0) == Settings(deviations=3.0)
    assert settings.changed(per_dimension=7.0) == Settings(
        ensemble=Ensemble(additive=Additive(probes=Probes(per_dimension=7.0)))
    )
    assert settings.changed() == settings.changed({}) == settings
    assert settings == Settings()


@pytest.mark.parametrize("preset", [Settings(), Settings.paper()], ids=["default", "paper"])
def test_every_setting_can_be_changed_by_its_path_and_alone(preset: Settings) -> None:
    for name, value in preset.flat().items():
        other = changed_value(name, value)
        before = {"kernel": "tile-coding"} if name == "model.per_layer" else {}
        for given in endings(name, preset):
            changed = preset.changed({**before, given: other}).flat()
            start = preset.changed(before).flat()
            assert changed.pop(name, other) == other, given
            assert {key: start[key] for key in changed if not key.startswith(name)} == {
                key: item for key, item in changed.items() if not key.startswith(name)
            }


def changed_value(name: str, value: Any) -> Any:
    """Another value that a setting may have."""
    others: dict[Any, Any] = {"kernel": "mondrian-grid", "acquisition": "pi", "beta": (3.0, 4.0)}
    others |= {"group_limit": 3, "noise": 0.5, "probes": Probes(), "mixture": Mixture()}
    others |= {"by": "volume" if value == "rank" else "rank"}
    last = name.rpartition(".")[2]
    if last in others:
        return others[last]
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else 0.75 * value + 0.1


def endings(name: str, settings: Settings) -> list[str]:
    """The ways to name a setting: from its path, as much of the end as is unique."""
    parts = name.split(".")
    ends = [".".join(parts[i:]) for i in range(len(parts))]
    return [
        end
        for end in ends
        if sum(other == end or other.endswith(f".{end}") for other in settings.flat()) == 1
    ]


def test_strategies_are_changed_by_value_by_name_and_to_none() -> None:
    settings = Settings()
    assert settings.changed(search=Printed(tries=7)).search == Printed(tries=7)
    assert settings.changed(search="printed").search == Printed()
    assert settings.changed(learning="per-leaf").learning == PerLeaf()
    assert settings.changed(mixture=None).ensemble == Ensemble(mixture=None)
    assert settings.changed(probes=None).ensemble.additive == Additive(probes=None)
    assert settings.changed({"mixture.polish": None}).ensemble.mixture == Mixture(polish=None)
    paper = Settings.paper()
    assert paper.changed(mixture="mixture", probes="probes").ensemble == Ensemble(
        additive=Additive(borrows=False)
    )
    assert paper.changed(partition="mondrian", model="tilegp") == paper.changed(
        partition=Partition(), model=Model()
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"search": "printed", "tries": 9, "passes": 3},
        {"learning": PerLeaf(sweeps=4), "mixture": None, "probes": None, "borrows": False},
        {"kernel": "tile-coding", "per_layer": True},
        {"mixture": "mixture", "polish": None},
        {"ensemble": Ensemble(mixture=None), "probes": None},
        {"starts": Starts(apart=0.5), "search": "climbing", "starts.apart": 0.75},
    ],
    ids=str,
)
def test_the_order_of_changes_does_not_matter(changes: dict[str, Any]) -> None:
    one = Settings().changed(changes)
    assert Settings().changed(dict(reversed(changes.items()))) == one
    for name, value in changes.items():
        found = {path: item for path, item in one.flat().items() if path.endswith(f".{name}")}
        if name not in STRATEGIES:
            assert list(found.values()) == [value]


def test_a_list_is_a_pair() -> None:
    assert Settings().changed(beta=[1.0, 2.0]) == Settings(model=Model(beta=(1.0, 2.0)))


CHANGES: list[tuple[Settings, dict[Any, Any], type[Exception], str]] = [
    (Settings(), {"leafsize": 3}, ValueError, "no setting 'leafsize'; did you mean 'leaf_size'?"),
    (Settings(), {"max_leafs": 3}, ValueError, "'max_leafs'; did you mean 'max_leaves'?"),
    (
        Settings(),
        {"partition.leafsize": 3},
        ValueError,
        "no setting 'partition.leafsize'; did you mean 'partition.leaf_size'?",
    ),
    (
        Settings(),
        {"partitio.leaf_size": 3},
        ValueError,
        "no setting 'partitio.leaf_size'; did you mean 'partition.leaf_size'?",
    ),
    (Settings(), {"model.leaf_size": 3}, ValueError, "'model.leaf_size'; did you mean '"),
    (
        Settings(),
        {"zzz": 3},
        ValueError,
        "there is no setting 'zzz'; there are acquisition, additive, alpha, apart, beta, ",
    ),
    (Settings(), {"": 3}, ValueError, "there is no setting ''; there are acquisition"),
    (Settings(), {"leaf_size.": 3}, ValueError, "there is no setting 'leaf_size.'"),
    (
        Settings(),
        {"share": 0.1},
        ValueError,
        "more than one setting 'share'; give 'crossover.share' or "
        "'difference.share' or 'polish.share'",
    ),
    (
        Settings(),
        {"learning": "per-leaf", "learn_from": 3},
        ValueError,
        "no setting 'learn_from' here; it comes with learning='pooled', which has to be chosen",
    ),
    (
        Settings(),
        {"mixture": None, "polish": None},
        ValueError,
        "no setting 'polish' here; it comes with mixture='mixture', which has to be",
    ),
    (
        Settings.paper(),
        {"probes.per_dimension": 4.0},
        ValueError,
        "no setting 'probes.per_dimension' here; it comes with probes='probes'",
    ),
    (
        Settings.paper(),
        {"polish.share": 0.1},
        ValueError,
        "it comes with polish='shrinking', which has to be chosen",
    ),
    (
        Settings(),
        {"leaf_size": 3, "partition.leaf_size": 4},
        ValueError,
        "'leaf_size' and 'partition.leaf_size' are one setting; give it once",
    ),
    (
        Settings(),
        {"probes": None, "additive.probes": "probes"},
        ValueError,
        "'probes' and 'additive.probes' are one setting; give it once",
    ),
    (Settings(), {"search": "prnted"}, ValueError, "search is 'prnted'; choose one of climbing, p"),
    (
        Settings(),
        {"mixture.polish": "x"},
        ValueError,
        "mixture.polish is 'x'; choose one of shrinking",
    ),
    (Settings(), {"search": 3}, TypeError, "search is 3; give Climbing or Printed"),
    (Settings(), {"search": None}, TypeError, "search is None; give Climbing or Printed"),
    (Settings(), {"search": Printed}, TypeError, "; give Climbing or Printed"),
    (Settings(), {"mixture": True}, TypeError, "mixture is True; give Mixture or None"),
    (Settings(), {"probes": Shrinking()}, TypeError, "(share=0.3); give Probes or None"),
    (Settings(), {"partition": {"leaf_size": 3}}, TypeError, "{'leaf_size': 3}; give Partition"),
    (
        Settings(),
        {"crossover.share": 3},
        ValueError,
        "crossover.share is 3; give a number from 0 to 1",
    ),
    (
        Settings(),
        {"partition.leaf_size": "big"},
        ValueError,
        "partition.leaf_size is 'big'; give a whole number of at least 1, at most 1000000000",
    ),
    (Settings(), {"by": "value"}, ValueError, "by is 'value'; choose one of rank, volume"),
    (Settings(), {"model.beta": [1, "2"]}, ValueError, "model.beta is '2'; give a number from"),
    (
        Settings(),
        {"model.per_layer": True},
        ValueError,
        "model.per_layer needs layers, and the kernel 'laplace' is a limit without any; choose",
    ),
    (Settings(), {3: 4}, TypeError, "3 is no name of a setting; give a string"),
]


@pytest.mark.parametrize(
    ("settings", "changes", "error", "message"), CHANGES, ids=[str(row[1]) for row in CHANGES]
)
def test_changes_that_are_refused(
    settings: Settings, changes: dict[Any, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        settings.changed(changes)


def test_changes_that_are_no_table() -> None:
    for changes in ("leaf_size", 3, [("leaf_size", 3)]):
        with pytest.raises(TypeError, match="; give values by name, such as leaf_size=800") as told:
            loose().changed(changes)
        assert repr(changes) in str(told.value)


def test_frozen_and_by_name_only() -> None:
    settings = Settings()
    with pytest.raises(FrozenInstanceError):
        settings.deviations = 3  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        settings.model.layers = 3  # type: ignore[misc]
    for kind in (Settings, *(kind for kinds in STRATEGIES.values() for kind in kinds.values())):
        with pytest.raises(TypeError, match="positional argument"):
            kind(1000)


@pytest.mark.parametrize("make", [Settings, Settings.paper])
def test_an_unknown_setting_is_named(make: Any) -> None:
    with pytest.raises(TypeError, match="max_leafs"):
        make(max_leafs=3)


# Numbers, each by the class that has it.

KINDS: dict[str, type] = {
    "partition": Partition,
    "model": Model,
    "learning": Pooled,
    "per-leaf": PerLeaf,
    "additive": Additive,
    "mixture": Mixture,
    "ensemble": Ensemble,
    "probes": Probes,
    "polish": Shrinking,
    "search": Climbing,
    "printed": Printed,
    "starts": Starts,
    "step": Step,
    "crossover": Crossover,
    "difference": Difference,
    "budget": Budget,
    "": Settings,
}
WHOLE = {  # most
    "partition.max_leaves": 10**6,
    "partition.leaf_size": 10**9,
    "model.layers": 10**6,
    "learning.sweeps": 10**6,
    "learning.learn_from": 10**9,
    "learning.block_size": 10**9,
    "per-leaf.sweeps": 10**6,
    "step.count": 10**6,
    "crossover.count": 10**6,
    "difference.count": 10**6,
    "search.passes": 10**6,
    "printed.tries": 10**6,
    "printed.passes": 10**6,
}
NO_SWITCH: tuple[Any, ...] = (0, 1, 2.0, "yes", "True", None, math.nan, [], np.bool_(True))
SWITCHES = ("partition.fixed", "partition.grows", "model.per_layer", "additive.borrows")
BETWEEN: dict[str, tuple[float, float]] = {
    "partition.overlap": (0.0, 1.0),
    "model.alpha": (1e-9, 1e9),
    "model.noise": (1e-8, 1e6),
    "probes.per_dimension": (0.0, 1000.0),
    "polish.share": (0.0, 1.0),
    ".deviations": (0.0, 1e6),
    "starts.apart": (0.0, 1.0),
    "step.shortest": (1e-6, 1.0),
    "crossover.share": (0.0, 1.0),
    "difference.share": (0.0, 1.0),
    "budget.candidates": (1.0, 1000.0),
}
HUGE = (10**30, 2**63, 10**400)
NO_NUMBER: tuple[Any, ...] = (
    math.nan,
    math.inf,
    -math.inf,
    "5",
    "",
    None,
    True,
    False,
    [1],
    (1,),
    {},
    1j,
    b"1",
)
BAD: list[tuple[str, Any, str]] = [
    *(
        (name, value, f"give a whole number of at least {least}, at most {most}")
        for name, most in WHOLE.items()
        for least in [0 if name.endswith("sweeps") else 1]
        for value in (least - 1, -3, most + 1, 2.0, 2.5, -(10**30), *HUGE, *NO_NUMBER)
    ),
    *((name, value, "give True or False") for name in SWITCHES for value in NO_SWITCH),
    *(
        (name, value, f"give a number from {low:g} to {high:g}")
        for name, (low, high) in BETWEEN.items()
        for value in (
            low - 1e-9 if low < 1e-3 else 0.5 * low,
            -1.0,
            np.nextafter(high, math.inf),
            -(10**30),
            *HUGE,
            *NO_NUMBER,
        )
        if (name, value) != ("model.noise", None)
    ),
    *(
        ("model.kernel", value, "choose one of tile-coding, mondrian-grid, hat, laplace")
        for value in ("gaussian", "Laplace", "", None, 3, ["hat"])
    ),
    *(
        (".acquisition", value, "choose one of eta, ")
        for value in ("EI", "", None, 3, ["ei"], math.nan)
    ),
    *(("budget.by", value, "choose one of rank, volume") for value in ("Rank", "", None, True)),
    *(
        ("model.group_limit", value, "give a whole number of at least 1, at most 1000000000, or N")
        for value in (0, -1, 2.0, "8", True, 10**9 + 1, *HUGE, *NO_NUMBER)
        if value is not None
    ),
    *(
        ("model.beta", value, "give a pair of positive numbers")
        for value in (2.0, [2.0, 5.0], (2.0,), (2.0, 5.0, 1.0), None, "25")
    ),
]


def test_every_number_is_tried() -> None:
    tried = {name for name, _, _ in BAD}
    every = {
        f"{kind}.{name}"
        for kind, made in KINDS.items()
        for name in made.__dataclass_fields__  # type: ignore[attr-defined]
        if name not in STRATEGIES
    }
    assert tried == every
    assert set(KINDS.values()) == {
        Settings, *(kind for kinds in STRATEGIES.values() for kind in kinds.values())
    }  # fmt: skip


@pytest.mark.parametrize(("name", "value", "remedy"), BAD, ids=repr)
def test_a_bad_value_is_named(name: str, value: Any, remedy: str) -> None:
    kind, _, number = name.partition(".")
    with pytest.raises(ValueError, match=f"^{number} is ") as caught:
        KINDS[kind](**{number: value})
    message = str(caught.value)
    assert message.startswith(f"{number} is {value!r}; {remedy}")


@pytest.mark.parametrize(
    "beta",
    [(0.0, 5.0), (2.0, -1.0), (2.0, math.nan), ("2", 5.0), (True, 5.0), (2.0, 10**30)],
)
def test_a_bad_part_of_beta_is_named(beta: tuple[Any, Any]) -> None:
    with pytest.raises(ValueError, match=r"^beta is .*; give a number from 1e-09 to 1e") as caught:
        Model(beta=beta)
    assert any(repr(part) in str(caught.value) for part in beta)


def test_the_edges_are_allowed() -> None:
    def edge(name: str, value: Any) -> None:
        kind, _, number = name.partition(".")
        assert getattr(KINDS[kind](**{number: value}), number) == value

    for name, most in WHOLE.items():
        for whole in (1, most, np.int64(3)):
            edge(name, whole)
    edge("learning.sweeps", 0)
    edge("per-leaf.sweeps", 0)
    for name, (low, high) in BETWEEN.items():
        for value in (low, high, np.float64(high), 1):
            edge(name, value)
    for limit in (None, 1, 10**9):
        edge("model.group_limit", limit)
    edge("model.noise", None)
    edge("model.beta", (1, 1))


@pytest.mark.parametrize("kernel", ["hat", "laplace"])
def test_cuts_per_layer_need_layers(kernel: str) -> None:
    with pytest.raises(ValueError, match=f"per_layer needs layers.*{kernel}.*tile-coding"):
        Model(kernel=kernel, per_layer=True)
    assert Model(kernel="tile-coding", per_layer=True).per_layer


@pytest.mark.parametrize("kernel", FAMILIES)
@pytest.mark.parametrize("acquisition", ACQUISITIONS)
def test_every_choice_is_allowed(kernel: str, acquisition: str) -> None:
    settings = Settings().changed(kernel=kernel, acquisition=acquisition)
    assert (settings.model.kernel, settings.acquisition) == (kernel, acquisition)


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name in vars(Settings())])
@pytest.mark.parametrize("value", [None, 3, "climbing", {}, Settings(), int], ids=repr)
def test_what_is_no_strategy(name: str, value: Any) -> None:
    names = " or ".join(kind.__name__ for kind in STRATEGIES[name].values())
    with pytest.raises(TypeError) as caught:
        loose(**{name: value})
    assert str(caught.value) == f"{name} is {value!r}; give {names}"


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda value: Ensemble(additive=value), "additive"),
        (lambda value: Ensemble(mixture=value), "mixture"),
        (lambda value: Ensemble(additive=Additive(probes=value)), "probes"),
        (lambda value: Ensemble(mixture=Mixture(polish=value)), "polish"),
        (lambda value: Climbing(starts=value), "starts"),
    ],
)
def test_what_is_no_strategy_farther_in(make: Callable[[Any], Any], name: str) -> None:
    (kind,) = STRATEGIES[name].values()
    also = " or None" if name in OPTIONAL else ""
    for value in (3, "x", PerLeaf()):
        made = make(value)
        with pytest.raises(TypeError) as caught:
            loose(**{"search" if isinstance(made, Climbing) else "ensemble": made})
        assert str(caught.value) == f"{name} is {value!r}; give {kind.__name__}{also}"


# As plain data.

ROUND: list[Settings] = [
    Settings(),
    Settings.paper(),
    Settings().changed(mixture=None),
    Settings().changed(probes=None, polish=None),
    Settings().changed(search=Printed(tries=3), learning=PerLeaf(sweeps=0), group_limit=None),
    Settings().changed(beta=(1, 2.5), noise=1e-3, fixed=True, by="volume", acquisition="mes"),
    Settings.paper().changed(search=Climbing(passes=3), moves=(Step(shortest=0.5),)),
    Settings.paper().changed(learning="pooled", mixture="mixture", probes="probes", layers=7),
    Settings().changed(leaf_size=np.int64(7), overlap=np.float64(0.5), beta=(np.float32(1), 2)),
]


@pytest.mark.parametrize("settings", ROUND)
def test_there_and_back(settings: Settings) -> None:
    values = settings.as_dict()
    again = Settings.from_dict(json.loads(json.dumps(values)))
    assert again == settings
    assert hash(again) == hash(settings)
    assert again.flat() == settings.flat()
    assert type(again.search) is type(settings.search)
    assert again.as_dict() == values == json.loads(json.dumps(values))


def test_plain_data() -> None:
    values = Settings.paper().as_dict()
    assert values == {
        "partition": {
            "max_leaves": 1000, "leaf_size": 100, "overlap": 0.0, "fixed": False, "grows": False,
        },
        "model": {
            "kernel": "tile-coding", "layers": 100, "alpha": 1.0, "beta": [2.0, 5.0],
            "group_limit": None, "noise": 0.01, "per_layer": False,
        },
        "learning": {"kind": "per-leaf", "sweeps": 10},
        "ensemble": {
            "additive": {
                "borrows": False,
                "moves": [
                    {"kind": "step", "count": 40, "shortest": 0.01},
                    {"kind": "crossover", "count": 10, "share": 0.2},
                ],
                "probes": None,
            },
            "mixture": None,
        },
        "acquisition": "eta",
        "deviations": 2.0,
        "search": {"kind": "printed", "tries": 1000, "passes": 1},
        "budget": {"candidates": 2.0, "by": "volume"},
    }  # fmt: skip
    assert Settings().as_dict()["search"]["kind"] == "climbing"
    values["model"]["layers"] = 7
    assert Settings.paper().model.layers == 100


def test_what_is_left_out_is_the_default() -> None:
    assert Settings.from_dict({}) == Settings()
    assert Settings.from_dict({"partition": {"leaf_size": 3}}) == Settings().changed(leaf_size=3)
    assert Settings.from_dict({"search": {"kind": "printed"}}) == Settings(search=Printed())
    assert Settings.from_dict({"ensemble": {"mixture": None}}) == Settings().changed(mixture=None)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (3, TypeError, "settings are 3; give a table of them by name"),
        ("x", TypeError, "settings are 'x'; give a table of them by name"),
        ([["acquisition", "ei"]], TypeError, "]]; give a table of them by name"),
        ({"acquisitio": "ei"}, ValueError, "no setting 'acquisitio'; did you mean 'acquisition'?"),
        ({"partitions": {}}, ValueError, "no setting 'partitions'; did you mean 'partition'?"),
        ({"leaf_size": 9}, ValueError, "no setting 'leaf_size'; there are acquisition, budget, "),
        (
            {"partition": {"leafsize": 3}},
            ValueError,
            "no setting 'leafsize' in 'partition'; did you mean 'leaf_size'?",
        ),
        (
            {"search": {"kind": "printed", "step": {}}},
            ValueError,
            "no setting 'step' in 'search'; there are passes, tries",
        ),
        ({"search": {"kind": "x"}}, ValueError, "search.kind is 'x'; choose one of climbing, prin"),
        ({"search": {"kind": ["printed"]}}, ValueError, "search.kind is ['printed']; choose one"),
        ({"partition": {"kind": "tree"}}, ValueError, "partition.kind is 'tree'; choose one of mo"),
        ({"partition": None}, TypeError, "partition is None; give Partition"),
        ({"search": "printed"}, TypeError, "search is 'printed'; give Climbing or Printed"),
        ({"acquisition": {"a": 1}}, ValueError, "acquisition is {'a': 1}; choose one of"),
        ({"partition": {"leaf_size": "3"}}, ValueError, "leaf_size is '3'; give a whole number"),
        ({"partition": {"leaf_size": {}}}, ValueError, "leaf_size is {}; give a whole number"),
        ({"model": {"beta": [1.0]}}, ValueError, "beta is (1.0,); give a pair of positive"),
        ({"deviations": math.nan}, ValueError, "deviations is nan; give a number from 0 to"),
        ({3: 4}, ValueError, "there is no setting '3'"),
    ],
)
def test_plain_data_that_is_refused(data: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        Settings.from_dict(data)


@dataclass(frozen=True, kw_only=True)
class Own(Printed):
    """A search of a user."""

    many: int = 3


def test_a_strategy_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(search=Own(tries=5))
    with pytest.raises(ValueError, match=r"^search has Own\(.*no name.*STRATEGIES\['search'\]"):
        settings.as_dict()
    monkeypatch.setitem(STRATEGIES, "search", {**STRATEGIES["search"], "own": Own})
    assert settings.as_dict()["search"] == {"kind": "own", "tries": 5, "passes": 1, "many": 3}
    assert Settings.from_dict(settings.as_dict()) == settings
    assert Settings().changed(search="own", many=4).search == Own(many=4)


# The checks that all numbers go through.


def test_checks() -> None:
    check_count("n", 3, 3)
    check_count("n", np.int32(3), 3, most=3)
    check_count("n", 10**30, 3)
    check_number("x", 1, 0.0, 1.0)
    check_number("x", np.float32(0.5), 0.0, 1.0)
    check_flag("b", False)
    check_choice("c", "a", ("a", "b"))
    for value in (2, True, 3.0, "3", None, math.nan):
        with pytest.raises(ValueError, match=r"^n is .*; give a whole number of at least 3$"):
            check_count("n", value, 3)
        with pytest.raises(ValueError, match=r"^n is .*; give .* of at least 3, or a word$"):
            check_count("n", value, 3, "or a word")
        with pytest.raises(ValueError, match=r"^n is .* at least 3, at most 9, or a word$"):
            check_count("n", value, 3, "or a word", most=9)
    with pytest.raises(ValueError, match=r"^n is 10; give .* at least 3, at most 9$"):
        check_count("n", 10, 3, most=9)
