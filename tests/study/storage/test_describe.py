from __future__ import annotations

import json
from typing import Any

import pytest

from ebo.batch import Budget
from ebo.belief import Additive, Ensemble, Mixture
from ebo.learning import Model, PerLeaf, Pooled
from ebo.moves import Climbing, Printed, Probes, Shrinking, Starts
from ebo.partition import Partition
from ebo.settings import Settings
from ebo.space import Categorical, Float, Int, Space, box
from ebo.study.storage.describe import (
    FLAT_DEFAULTS,
    describe_space,
    migrate_settings,
    read_parameters,
    read_settings,
    read_space,
)
from tests import trajectories

SPACES = [
    Space(
        lr=Float(1e-5, 1e-1, log=True),
        depth=Int(2, 12),
        units=Int(1, 1024, log=True),
        act=Categorical(["relu", None, 1.5, True, 1]),
        size=Categorical([8, 16], ordered=True),
    ),
    box([0.0, -1.5, 2.0], [1.0, 0.25, 2.0]),
    box([0], [1], names=["x"]),
]


@pytest.mark.parametrize("space", SPACES)
def test_a_space_survives_json(space: Space) -> None:
    again = read_space(json.loads(json.dumps(describe_space(space))))
    assert again == space
    assert again.named == space.named


@pytest.mark.parametrize(
    "settings", [Settings(), Settings.paper().changed(beta=(0.1, 7.0), overlap=0.01)]
)
def test_settings_survive_json(settings: Settings) -> None:
    stored = json.loads(json.dumps(settings.as_dict()))
    assert migrate_settings(stored, 4) == stored
    assert Settings.from_dict(migrate_settings(stored, 4)) == settings


# Settings of studies of schema 1 to 3: a flat table.

OLD_DEFAULT: dict[str, Any] = {
    "max_leaves": 1000, "leaf_size": 500, "overlap": 0.0, "fixed_partition": False,
    "kernel": "laplace", "layers": 64, "alpha": 1.0, "beta": [0.5, 3.0], "group_limit": 8,
    "noise": None, "per_layer": False,
    "sweeps": 1, "pooled": True, "block_size": 200, "learn_from": 1000, "smooth": True,
    "probes": 5.0,
    "acquisition": "ei", "deviations": 2.0, "block_samples": 40, "passes": 2, "greedy": True,
    "apart": 0.25, "crossed": 0.2, "leaping": 0.5, "polish": 0.3, "candidates": 2.0,
    "pay_by_rank": True,
}  # fmt: skip
OLD_PAPER: dict[str, Any] = {
    **OLD_DEFAULT,
    "max_leaves": 1000, "leaf_size": 100, "kernel": "tile-coding", "layers": 100,
    "beta": [2.0, 5.0], "group_limit": None, "noise": 1e-2, "sweeps": 10, "pooled": False,
    "smooth": False, "probes": 0.0, "acquisition": "eta", "block_samples": 1000, "passes": 1,
    "greedy": False, "candidates": 2.0, "pay_by_rank": False,
}  # fmt: skip


def migrated(old: dict[str, Any], schema: int = 3) -> Settings:
    return Settings.from_dict(migrate_settings(json.loads(json.dumps(old)), schema))


def test_old_presets() -> None:
    assert migrated(OLD_DEFAULT) == Settings()
    assert migrated(OLD_PAPER) == Settings.paper()
    assert {**FLAT_DEFAULTS, "probes": 5.0} == OLD_DEFAULT


@pytest.mark.parametrize("schema", [1, 2, 3])
def test_an_old_study_from_before_there_were_probes_goes_on_without(schema: int) -> None:
    without = {name: value for name, value in OLD_DEFAULT.items() if name != "probes"}
    assert migrated(without, schema) == migrated({}, schema) == Settings().changed(probes=None)


WITHOUT_POOL: dict[str, Any] = {
    "learning": PerLeaf(sweeps=1), "mixture": None, "probes": None, "borrows": False,
    "grows": False,
}  # fmt: skip
ON_DEFAULT: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"max_leaves": 7}, {"partition": Partition(max_leaves=7)}),
    ({"leaf_size": 7}, {"partition": Partition(leaf_size=7)}),
    ({"overlap": 0.1}, {"partition": Partition(overlap=0.1)}),
    ({"fixed_partition": True}, {"partition": Partition(fixed=True)}),
    ({"kernel": "hat"}, {"model": Model(kernel="hat")}),
    ({"layers": 7}, {"model": Model(layers=7)}),
    ({"alpha": 0.5}, {"model": Model(alpha=0.5)}),
    ({"beta": [1.0, 2.0]}, {"model": Model(beta=(1.0, 2.0))}),
    ({"group_limit": None}, {"model": Model(group_limit=None)}),
    ({"group_limit": 1}, {"model": Model(group_limit=1)}),
    ({"noise": 0.1}, {"model": Model(noise=0.1)}),
    (
        {"per_layer": True, "kernel": "tile-coding"},
        {"model": Model(per_layer=True, kernel="tile-coding")},
    ),
    ({"sweeps": 0}, {"learning": Pooled(sweeps=0)}),
    ({"block_size": 7}, {"learning": Pooled(block_size=7)}),
    ({"learn_from": 7}, {"learning": Pooled(learn_from=7)}),
    ({"pooled": False}, WITHOUT_POOL),
    ({"pooled": False, "sweeps": 3}, {**WITHOUT_POOL, "learning": PerLeaf(sweeps=3)}),
    ({"pooled": False, "smooth": False, "probes": 0.0, "polish": 0.0}, WITHOUT_POOL),
    ({"smooth": False}, {"mixture": None}),
    ({"smooth": False, "polish": 0.0}, {"mixture": None}),
    ({"probes": 0.0}, {"probes": None}),
    ({"probes": 2.5}, {"probes": Probes(per_dimension=2.5)}),
    ({"acquisition": "mes"}, {"acquisition": "mes"}),
    ({"deviations": 1.5}, {"deviations": 1.5}),
    ({"block_samples": 7}, {"step.count": 7, "difference.count": 7}),
    ({"passes": 3}, {"search": Climbing(passes=3)}),
    ({"greedy": False}, {"search": Printed(tries=40, passes=2)}),
    ({"greedy": False, "apart": 0.5, "block_samples": 7}, {"search": Printed(tries=7, passes=2)}),
    ({"apart": 0.5}, {"search": Climbing(starts=Starts(apart=0.5))}),
    ({"crossed": 0.0}, {"crossover.share": 0.0}),
    ({"leaping": 0.0}, {"difference.share": 0.0}),
    ({"polish": 0.0}, {"polish": None}),
    ({"polish": 0.5}, {"polish": Shrinking(share=0.5)}),
    ({"candidates": 3.0}, {"budget": Budget(candidates=3.0)}),
    ({"pay_by_rank": False}, {"budget": Budget(by="volume")}),
]
ON_PAPER: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"leaf_size": 7, "overlap": 0.1}, {"leaf_size": 7, "overlap": 0.1}),
    ({"fixed_partition": True}, {"fixed": True}),
    ({"kernel": "laplace", "noise": None}, {"kernel": "laplace", "noise": None}),
    ({"per_layer": True}, {"per_layer": True}),
    ({"sweeps": 0}, {"learning": PerLeaf(sweeps=0)}),
    ({"block_size": 7, "learn_from": 7}, {}),
    ({"smooth": True, "probes": 5.0, "polish": 0.5}, {}),  # they were of pooled learning only
    (
        {"pooled": True},
        {
            "learning": Pooled(sweeps=10, learn_from=1000, block_size=200),
            "borrows": True, "grows": True,
        },
    ),
    (
        {"pooled": True, "smooth": True, "probes": 4.0},
        {
            "learning": Pooled(sweeps=10), "grows": True,
            "ensemble": Ensemble(
                additive=Additive(probes=Probes(per_dimension=4.0)), mixture=Mixture()
            ),
        },
    ),
    ({"greedy": True}, {"search": Climbing(passes=1), "step.count": 1000}),
    ({"block_samples": 7, "passes": 2}, {"search": Printed(tries=7, passes=2)}),
    ({"apart": 0.5, "crossed": 0.5, "leaping": 0.0}, {}),  # and these of the greedy search
    ({"pay_by_rank": True}, {"budget": Budget(by="rank")}),
]  # fmt: skip


@pytest.mark.parametrize(("old", "changes"), ON_DEFAULT, ids=str)
def test_old_settings_on_the_default(old: dict[str, Any], changes: dict[str, Any]) -> None:
    assert migrated({**OLD_DEFAULT, **old}) == Settings().changed(changes)


@pytest.mark.parametrize(("old", "changes"), ON_PAPER, ids=str)
def test_old_settings_on_the_paper(old: dict[str, Any], changes: dict[str, Any]) -> None:
    assert migrated({**OLD_PAPER, **old}) == Settings.paper().changed(changes)


def test_every_old_setting_is_tried() -> None:
    assert {name for old, _ in ON_DEFAULT for name in old} == set(FLAT_DEFAULTS)


OLD_CASES: dict[str, dict[str, Any]] = {
    "tiles": {"kernel": "tile-coding", "layers": 16, "leaf_size": 40},
    "hat, entropy": {"kernel": "hat", "acquisition": "mes", "leaf_size": 40, "smooth": False},
    "paid by volume": {"pay_by_rank": False, "leaf_size": 40, "overlap": 0.1},
    "heuristic": {"greedy": False, "acquisition": "mes-gumbel", "leaf_size": 60},
    "no sweeps": {"sweeps": 0, "leaf_size": 40, "acquisition": "ucb"},
    "fixed": {
        **OLD_PAPER, "fixed_partition": True, "leaf_size": 40, "layers": 16, "kernel": "hat",
    },
    "per layer": {
        **OLD_PAPER, "per_layer": True, "kernel": "mondrian-grid", "layers": 8, "sweeps": 2,
        "leaf_size": 40,
    },
    "greedy paper": {
        **OLD_PAPER, "greedy": True, "layers": 16, "leaf_size": 40, "acquisition": "pi",
    },
    **{f"default, {of}": {} for of in ("box", "additive", "mixed", "noisy")},
    **{f"paper, {of}": OLD_PAPER for of in ("box", "mixed", "noisy")},
}  # fmt: skip


def test_old_settings_are_those_of_the_golden_trajectories(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So an optimizer with them asks for the points that it asked for when they were flat.

    The golden points were made with the flat settings here, and hold for the nested ones.
    """
    monkeypatch.setattr(trajectories, "asked", lambda *_, settings, **__: settings)
    found: dict[str, Any] = {name: make() for name, make in trajectories.cases().items()}
    assert {name: migrated({**OLD_DEFAULT, **old}) for name, old in OLD_CASES.items()} == found


@pytest.mark.parametrize(
    ("old", "message"),
    [
        ({"leafsize": 3}, "no setting 'leafsize'; did you mean 'leaf_size'"),
        ({"pooled": "no"}, "pooled is 'no'; give True or False"),
        ({"smooth": 1}, "smooth is 1; give True or False"),
        ({"greedy": None}, "greedy is None; give True or False"),
        ({"leaf_size": "big"}, "leaf_size is 'big'; give a whole number"),
        ({"polish": 3.0}, "share is 3.0; give a number from 0 to 1"),
    ],
)
def test_old_settings_that_are_damaged(old: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        migrated({**OLD_DEFAULT, **old})


def test_a_choice_that_json_cannot_hold() -> None:
    with pytest.raises(ValueError, match=r"'c': a study cannot store the choice \(1, 2\); use"):
        describe_space(Space(c=Categorical([(1, 2), "a"])))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ([0, 1], r"'p' is \[0, 1\]; give \{float = "),
        ({}, "give {float"),
        ({"float": [0, 1], "int": [0, 1]}, "give {float"),
        ({"float": 3}, r"'p': float is 3; give \[low, high\]"),
        ({"float": [0, 1, 2]}, r"give \[low, high\]"),
        ({"float": [2, 1]}, "'p': "),
        ({"float": ["a", 1]}, "'p': "),
        ({"float": [0, 1], "log": True}, "'p': "),
        ({"float": [0, 1], "logs": True}, "'p' has 'logs'; beside 'float' there may only be 'log'"),
        ({"choices": []}, "'p': "),
        ({"choices": "abc"}, "'p': "),
        ({"int": [0.5, 2]}, "'p': "),
    ],
)
def test_wrong_parameters_are_named(entry: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_parameters({"p": entry})


def test_unknown_settings_and_presets() -> None:
    with pytest.raises(ValueError, match="no setting 'leafsize'; did you mean 'leaf_size'"):
        read_settings({"leafsize": 3})
    with pytest.raises(ValueError, match="no setting 'zzz'; there are acquisition, additive, al"):
        read_settings({"zzz": 3})
    with pytest.raises(ValueError, match="preset is 'best'"):
        read_settings({}, preset="best")
    paper = Settings.paper()
    assert read_settings({"leaf_size": 50}, preset="paper") == paper.changed(leaf_size=50)


@pytest.mark.parametrize(
    ("table", "changes"),
    [
        ({"leaf_size": 50}, {"leaf_size": 50}),
        ({"partition.leaf_size": 50}, {"leaf_size": 50}),
        ({"partition": {"leaf_size": 50, "fixed": True}}, {"leaf_size": 50, "fixed": True}),
        ({"crossover": {"share": 0.5}}, {"crossover.share": 0.5}),
        ({"search": {"starts": {"apart": 0.5}, "passes": 9}, "beta": [1.0, 2.0]},
         {"apart": 0.5, "passes": 9, "beta": (1.0, 2.0)}),
        ({"tries": 9, "search": "printed"}, {"search": Printed(tries=9)}),
        ({"search": {"tries": 9, "kind": "printed"}}, {"search": Printed(tries=9)}),
        ({"mixture": "none", "probes": "none", "group_limit": "none"},
         {"mixture": None, "probes": None, "group_limit": None}),
        ({"partition": {}, "ensemble": {"mixture": {}}}, {}),
    ],
    ids=str,
)  # fmt: skip
def test_settings_of_a_table(table: dict[str, Any], changes: dict[str, Any]) -> None:
    for preset, settings in (("default", Settings()), ("paper", Settings.paper())):
        if preset == "default" or not {"crossover", "search", "ensemble"} & set(table):
            assert read_settings(table, preset) == settings.changed(changes)
