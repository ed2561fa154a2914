"""Settings: what is refused, and how it is said."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from ebo.acquisition import ACQUISITIONS
from ebo.settings import KERNELS, Settings

WHOLE = (
    "max_leaves",
    "leaf_size",
    "layers",
    "sweeps",
    "block_size",
    "learn_from",
    "block_samples",
    "passes",
)
SWITCHES = ("fixed_partition", "per_layer", "pooled", "smooth", "greedy", "pay_by_rank")
SHARES = ("overlap", "apart", "crossed", "leaping", "polish")
NUMBERS = (*SHARES, "alpha", "deviations", "candidates", "noise")
BAD: list[tuple[str, Any]] = [
    *((name, 0) for name in WHOLE if name != "sweeps"),
    *((name, value) for name in WHOLE for value in (-3, 2.0, 2.5, "5", None, True)),
    *((name, value) for name in SWITCHES for value in (0, 1, "yes", None)),
    *((name, value) for name in NUMBERS for value in (-1.0, math.nan, math.inf, "0.5", True)),
    *((name, None) for name in NUMBERS if name != "noise"),
    *((name, 1.5) for name in SHARES),
    ("probes", -1.0),
    ("alpha", 0.0),
    ("alpha", 1e10),
    ("candidates", 0.5),
    ("candidates", 1e4),
    ("noise", 0.0),
    ("noise", 1e-9),
    ("kernel", "gaussian"),
    ("kernel", "Laplace"),
    ("kernel", None),
    ("kernel", 3),
    ("acquisition", "EI"),
    ("acquisition", ""),
    ("acquisition", None),
    ("group_limit", 0),
    ("group_limit", -1),
    ("group_limit", 2.0),
    ("group_limit", "8"),
    ("group_limit", True),
    ("beta", 2.0),
    ("beta", [2.0, 5.0]),
    ("beta", (2.0,)),
    ("beta", (2.0, 5.0, 1.0)),
    ("beta", None),
]


def test_every_setting_is_tried() -> None:
    assert {name for name, _ in BAD} == {field.name for field in fields(Settings)}


@pytest.mark.parametrize(("name", "value"), BAD, ids=repr)
def test_a_bad_value_is_named(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name} is ") as caught:
        Settings(**{name: value})
    message = str(caught.value)
    assert repr(value) in message
    assert "give " in message or "choose " in message


@pytest.mark.parametrize("beta", [(0.0, 5.0), (2.0, -1.0), (2.0, math.nan), ("2", 5.0)])
def test_a_bad_part_of_beta_is_named(beta: tuple[Any, Any]) -> None:
    with pytest.raises(ValueError, match=r"^beta is ") as caught:
        Settings(beta=beta)
    assert any(repr(part) in str(caught.value) for part in beta)


@pytest.mark.parametrize("kernel", ["hat", "laplace"])
def test_cuts_per_layer_need_layers(kernel: str) -> None:
    with pytest.raises(ValueError, match=f"per_layer needs layers.*{kernel}.*tile-coding"):
        Settings(kernel=kernel, per_layer=True)
    assert Settings(kernel="tile-coding", per_layer=True).per_layer


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("acquisition", ACQUISITIONS)
def test_every_choice_is_allowed(kernel: str, acquisition: str) -> None:
    settings = Settings(kernel=kernel, acquisition=acquisition)
    assert (settings.kernel, settings.acquisition) == (kernel, acquisition)


def test_the_edges_are_allowed() -> None:
    for changes in (
        {"overlap": 0},
        {"overlap": 1.0},
        {"candidates": 1},
        {"noise": 1e-8},
        {"noise": None},
        {"group_limit": None},
        {"group_limit": 1},
        {"deviations": 0.0},
        {"max_leaves": 1, "leaf_size": 1, "sweeps": 0, "passes": 1, "block_samples": 1},
        {"beta": (1, 1)},
    ):
        settings = Settings(**changes)
        assert changes.items() <= settings.as_dict().items()


def test_frozen_and_by_name_only() -> None:
    settings = Settings()
    with pytest.raises(FrozenInstanceError):
        settings.layers = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        Settings(1000)  # type: ignore[call-arg]


@pytest.mark.parametrize("make", [Settings, Settings.paper])
def test_an_unknown_setting_is_named(make: Any) -> None:
    with pytest.raises(TypeError, match="max_leafs"):
        make(max_leafs=3)


def test_the_paper() -> None:
    paper = Settings.paper()
    assert (paper.kernel, paper.acquisition) == ("tile-coding", "eta")
    assert not paper.pooled
    assert not paper.greedy
    assert paper.overlap == 0.0
    assert paper.group_limit is None
    assert paper.beta == (2.0, 5.0)


def test_the_paper_with_changes() -> None:
    changes: dict[str, Any] = {"kernel": "hat", "sweeps": 3, "overlap": 0.1, "group_limit": 2}
    changed = Settings.paper(**changes)
    assert changed.as_dict() == {**Settings.paper().as_dict(), **changes}
    assert Settings.paper() == Settings.paper(**{})
    with pytest.raises(ValueError, match=r"^sweeps is -1"):
        Settings.paper(sweeps=-1)


@pytest.mark.parametrize("settings", [Settings(), Settings.paper(), Settings(beta=(1.0, 2.0))])
def test_there_and_back(settings: Settings) -> None:
    values = settings.as_dict()
    assert list(values) == [field.name for field in fields(Settings)]
    assert Settings(**values) == settings
    assert hash(Settings(**values)) == hash(settings)
    values["layers"] = 7
    assert settings.layers != 7
