from __future__ import annotations

import json
from typing import Any

import pytest

from ebo.settings import Settings
from ebo.space import Categorical, Float, Int, Space, box
from ebo.study.describe import (
    describe_settings,
    describe_space,
    read_parameters,
    read_settings,
    read_space,
)

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


@pytest.mark.parametrize("settings", [Settings(), Settings.paper(beta=(0.1, 7.0), overlap=0.01)])
def test_settings_survive_json(settings: Settings) -> None:
    assert read_settings(json.loads(json.dumps(describe_settings(settings)))) == settings


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
    with pytest.raises(ValueError, match="no setting 'zzz'; there are max_leaves"):
        read_settings({"zzz": 3})
    with pytest.raises(ValueError, match="preset is 'best'"):
        read_settings({}, preset="best")
    assert read_settings({"leaf_size": 50}, preset="paper") == Settings.paper(leaf_size=50)
