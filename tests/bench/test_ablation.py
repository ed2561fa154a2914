"""The experiments that change settings of the default: tables and claim of made-up results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ebo import Settings
from ebo.bench import baselines, compare
from ebo.bench.compare import Plan
from ebo.bench.experiments import ablation, changes, robustness
from ebo.moves import Printed

HALF, DOUBLE = list(robustness.CHANGES.values())[:2]


def made_up(ends: dict[str, dict[str, list[float | None]]]) -> dict[str, Any]:
    """A result by problem and method, with the values of each seed at the end; None for failed."""
    ((methods, first), *_) = [(tuple(of), next(iter(of.values()))) for of in ends.values()]
    sizes = {"seeds": len(first), "initial": 5, "batches": 1, "batch_size": 4}
    plan = Plan(problems=tuple(ends), methods=methods, **sizes)  # type: ignore[arg-type]
    records = []
    for task in plan.tasks():
        end = ends[task.problem][task.method][task.seed]
        ended = {"error": "it broke" if end is None else None, "best": [0.0, end], "seconds": [1.0]}
        records.append({**task.parameters(), **ended, "maximum": 10.0})
    return compare.summary(plan, records)


def settings_of(method: str) -> Settings:
    """The settings of a method."""
    return Settings.from_dict(baselines.options(method)["settings"])


def test_every_mechanism_is_on_in_the_default_and_switched_off() -> None:
    default = Settings()
    found = {words: settings_of(method) for words, method in ablation.CHANGES.items()}
    assert default not in found.values()
    assert found == {
        "the smooth part of the kernel": default.changed(mixture=None),
        "groups of dimensions": default.changed(group_limit=1),
        "probes": default.changed(probes=None),
        "candidates one after the other": default.changed(search=Printed(tries=40, passes=2)),
        "blocks of other observations": default.changed({"crossover.share": 0.0}),
        "starts apart": default.changed(apart=0.0),
        "leaps": default.changed({"difference.share": 0.0}),
        "polish": default.changed(polish=None),
        "leaves paid by rank": default.changed(by="volume"),
        "the filter": default.changed(candidates=1.0),
        "the second pass": default.changed(passes=1),
    }


def test_numbers_are_halved_and_doubled_but_not_below_1() -> None:
    default = Settings()
    assert robustness.halved_and_doubled("sweeps") == {"sweeps 2 for 1": "ebo+sweeps=2"}
    words = "candidates 1.0 for 2.0", "candidates 4.0 for 2.0"
    assert tuple(robustness.halved_and_doubled("candidates")) == words
    for name in robustness.NUMBERS:
        paths = [path for path in default.flat() if path.endswith(f".{name}")]
        (value,) = {default.flat()[path] for path in paths}
        ratios = []
        for method in robustness.halved_and_doubled(name).values():
            settings = settings_of(method).flat()
            (new,) = {settings[path] for path in paths}
            assert type(new) is type(value)
            assert settings | dict.fromkeys(paths, value) == default.flat()
            ratios.append(new / value)
        assert ratios == ([2.0] if name == "sweeps" else [0.5, 2.0])
    assert len(robustness.CHANGES) == 2 * len(robustness.NUMBERS) - 1


def test_scales_can_be_run() -> None:
    for scale in (*ablation.SCALES.values(), *robustness.SCALES.values()):
        plan = Plan(scale.problems, ("ebo", *scale.changes.values()), seeds=1)
        assert len(plan.tasks()) == len(scale.problems) * (1 + len(scale.changes))


def test_a_table_of_several_seeds() -> None:
    smooth = "ebo+mixture=None"
    result = made_up(
        {
            "add10": {"ebo": [1.0, 2.0, 3.0], smooth: [0.5, 1.5, 2.5]},
            "branin": {"ebo": [4.0, 4.0, 4.0], smooth: [4.0, 4.0, 4.3]},
        }
    )
    ((title, rows),) = ablation.tables(result).items()
    assert title.startswith("Best value, mean of 3 seeds; 5 random points, then 1 batches of 4;")
    assert "in deviations of the default" in title
    assert rows == [
        {
            "switched off": "nothing",
            "add10": 2.0,
            "add10: difference": "± 1",
            "branin": 4.0,
            "branin: difference": "± 0",
        },
        {
            "switched off": "the smooth part of the kernel",
            "add10": 1.5,
            "add10: difference": "-0.5 (-0.5)",
            "branin": pytest.approx(4.1),
            "branin: difference": "+0.1 (+inf)",
        },
    ]
    assert ablation.claims(result) == []


def test_a_table_of_one_seed_has_no_deviations() -> None:
    result = made_up({"push14": {"ebo": [3.0], HALF: [3.25], DOUBLE: [None]}})
    ((title, rows),) = robustness.tables(result).items()
    assert title.startswith("Best value, one seed;")
    assert "deviation" not in title
    assert [list(row.values())[1:] for row in rows] == [[3.0, None], [3.25, "+0.25"], [None, None]]
    assert rows[1]["changed"] == "leaf_size 250 for 500"
    assert robustness.claims(result) == []


def test_a_difference_is_of_the_seeds_that_both_have() -> None:
    problem = made_up({"add10": {"ebo": [1.0, None, 3.0], HALF: [None, 9.0, 3.5]}})
    problem = problem["problems"]["add10"]
    assert changes.difference(problem, HALF) == 0.5
    assert changes.deviation(problem) == pytest.approx(np.sqrt(2.0))
    problem = made_up({"add10": {"ebo": [1.0, None], HALF: [None, 9.0]}})["problems"]["add10"]
    assert changes.difference(problem, HALF) is None
    assert changes.deviation(problem) is None


@pytest.mark.parametrize(
    ("ends", "holds", "found"),
    [
        ([2.2, 4.2], True, f"{DOUBLE} on branin, +0.85 deviations"),
        ([1.5, 3.0], True, f"{HALF} on add10, +0.71 deviations"),
        ([0.0, 1.0], False, f"{DOUBLE} on branin, -1.1 deviations"),
        ([2.0, None], False, f"{DOUBLE} failed on branin"),
    ],
)
def test_the_claim_is_of_the_farthest(ends: list[float | None], holds: bool, found: str) -> None:
    usual: list[float | None] = [1.0, 3.0]
    same = {"ebo": usual, HALF: usual, DOUBLE: usual}
    result = made_up({"add10": {**same, HALF: [2.0, 4.0]}, "branin": {**same, DOUBLE: ends}})
    (claim,) = robustness.claims(result)
    assert claim.holds is holds
    assert claim.found.endswith(found)


def test_numbers_that_the_paper_has_not_are_claimed_by_themselves() -> None:
    own = "ebo+probes.per_dimension=10.0"
    usual: list[float | None] = [1.0, 3.0]
    for off, holds in ((0.0, [True, True]), (3.0, [True, False])):
        result = made_up({"add10": {"ebo": usual, HALF: usual, own: [1.0 + off, 3.0 + off]}})
        claims = robustness.claims(result)
        assert [claim.holds for claim in claims] == holds
        assert [claim.text.rpartition(" ")[2] for claim in claims] == [
            "leaf_size",
            "probes.per_dimension",
        ]


def test_the_claim_where_the_default_failed() -> None:
    (claim,) = robustness.claims(made_up({"add10": {"ebo": [1.0, None], HALF: [1.0, 2.0]}}))
    assert (claim.holds, claim.found) == (False, "ebo failed on add10")


def test_the_claim_where_all_seeds_end_alike() -> None:
    same: list[float | None] = [2.0, 2.0]
    (claim,) = robustness.claims(made_up({"add10": {"ebo": same, HALF: same}}))
    assert claim.holds
    (claim,) = robustness.claims(made_up({"add10": {"ebo": same, HALF: [2.0, 2.1]}}))
    assert not claim.holds
