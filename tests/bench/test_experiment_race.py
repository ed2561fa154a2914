"""What `ebo bench push` and `rover` say of a result."""

from __future__ import annotations

from typing import Any

from ebo.bench.experiments import push, rover


def made_up(problem: str, ends: dict[str, list[float]]) -> dict[str, Any]:
    """A comparison in which methods ended so."""
    seeds = {name: {str(i): end for i, end in enumerate(values)} for name, values in ends.items()}
    rows = {name: {"seeds": values} for name, values in seeds.items()}
    return {"problems": {problem: {"methods": rows}}}


def told(experiment: Any, result: dict[str, Any]) -> dict[str, bool]:
    return {claim.text: claim.holds for claim in experiment.claims(result)}


def test_push_as_in_the_paper() -> None:
    ends = {
        "ebo": [11.0, 9.0],
        "ebo-paper-push": [9.6, 8.8],
        "cem": [10.0, 9.8],
        "bo-svi": [7.0, 6.0],
    }
    claims = told(push, made_up("push14", ends))
    assert list(claims.values()) == [True, True, True, True]
    assert next(iter(claims)) == "ebo-paper-push above bo-svi (median)"
    ends["cem"] = [11.0, 10.9]  # ahead of the default, too, and 9.2 is less than nine tenths of it
    assert list(told(push, made_up("push14", ends)).values()) == [True, False, False, True]
    ends["ebo-paper-push"] = [9.4, 6.0, 6.0]
    assert list(told(push, made_up("push14", ends)).values()) == [False, False, False, False]


def test_rover_says_nothing_of_cem_alone() -> None:
    """The paper has it ahead of EBO."""
    ends = {"ebo": [3.0], "ebo-paper": [1.0], "cem": [2.0], "bo-svi": [-1.0], "bo-add-svi": [1.5]}
    claims = told(rover, made_up("rover60", ends))
    assert claims == {
        "ebo-paper above bo-svi (median)": True,
        "ebo-paper above bo-add-svi (median)": False,
        "the default preset above all others that learn batch by batch (mean)": True,
    }


def test_cma_told_every_generation_stands_by_itself() -> None:
    ends = {"ebo": [3.0], "ebo-paper": [1.0], "cem": [2.0], "cma-batch": [1.5], "cma": [3.5]}
    assert list(told(rover, made_up("rover60", ends)).items()) == [
        ("the default preset above all others that learn batch by batch (mean)", True),
        ("the default preset above cma, told by generations (mean)", False),
    ]
    ends |= {"cma-batch": [3.1], "cma": [2.5]}
    assert list(told(rover, made_up("rover60", ends)).values()) == [False, True]


def test_a_method_that_failed_bears_nothing_out() -> None:
    ends: dict[str, list[float]] = {"ebo": [11.0], "ebo-paper-push": [], "cem": [10.0]}
    claims = push.claims(made_up("push14", ends))
    assert [claim.holds for claim in claims] == [True, False, False]


def test_a_deviation_needs_two_seeds() -> None:
    ends = {"ebo": [11.0, 9.0], "cem": [10.0], "cma": []}
    result = made_up("push14", ends) | {"seeds": 2, "batches": 3, "batch_size": 5}
    problem = result["problems"]["push14"] | {"initial": 10, "maximum": None}
    result["problems"]["push14"] = problem
    for values, row in zip(ends.values(), problem["methods"].values(), strict=True):
        row |= {"best": {"100": values[0] if values else None}, "seconds_a_batch": 0.1}
    ((title, rows),) = push.tables(result).items()
    assert title.endswith("upper bound -")
    deviation = {row["method"]: row["deviation"] for row in rows}
    assert deviation == {"ebo": 1.0, "cem": None, "cma": None}
