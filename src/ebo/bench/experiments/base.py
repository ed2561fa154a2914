"""What all experiments have in common: notes that survive an interruption, and the whole of a run.

A run of the experiment NAME leaves in its folder

`NAME.jsonl`   a line for every finished part, by key; `compare.jsonl` of those that compare
`NAME.json`    the result, with command, date and machine
`*.png`        the figures
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ebo.bench.lines import append, read
from ebo.bench.machine import circumstances

Result = dict[str, Any]
Rows = list[dict[str, Any]]
Part = TypeVar("Part")


@dataclass(frozen=True)
class Claim:
    """What should come out, the figures that did, and whether they bear it out."""

    text: str
    found: str
    holds: bool


class Experiment(Protocol):
    """The module of an experiment; see the package."""

    SCALES: dict[str, Any]

    def run(self, scale: Any, seeds: int, notes: Notes) -> Result:
        """Do all that is not noted yet."""
        ...

    def tables(self, result: Result) -> dict[str, Rows]:
        """Tables by title."""
        ...

    def figures(self, result: Result, folder: Path) -> list[Path]:
        """The PNG files, written."""
        ...

    def claims(self, result: Result) -> list[Claim]:
        """What should have come out."""
        ...


class Notes:
    """The finished parts of an experiment, in a file; `say` is told what goes on.

    Parts are the same if their keys are. Sizes are in a key, code and settings are not: after a
    change of those, write into another folder.
    """

    def __init__(self, folder: Path, name: str, say: Callable[[str], None] = lambda text: None):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.say = folder, say
        self._file = folder / f"{name}.jsonl"
        self._parts = {}
        for line in read(self._file, ("key", "part")):
            self._parts[json.dumps(line["key"], sort_keys=True)] = line["part"]

    def part(self, key: dict[str, Any], compute: Callable[[], Part]) -> Part:
        """What `compute` returns, which JSON can hold; or what it returned in an earlier run."""
        text = json.dumps(key, sort_keys=True)
        if text not in self._parts:
            self.say(", ".join(f"{name} {value}" for name, value in key.items()))
            part = compute()
            append(self._file, {"key": key, "part": part})
            self._parts[text] = json.loads(json.dumps(part))  # as it is read again
        noted: Part = self._parts[text]
        return noted


def perform(
    experiment: Experiment,
    name: str,
    scale: str,
    seeds: int | None,
    folder: Path,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Run an experiment, write its result and figures; what the JSON file holds."""
    sizes = experiment.SCALES[scale]
    seeds = sizes.seeds if seeds is None else seeds
    start = time.perf_counter()
    result = experiment.run(sizes, seeds, Notes(folder, name, say))
    report = {
        "experiment": name,
        "scale": scale,
        "seeds": seeds,
        **circumstances(f"ebo bench {name} --scale {scale} --seeds {seeds}"),
        "seconds": time.perf_counter() - start,  # of what was not noted before
        "claims": [asdict(claim) for claim in experiment.claims(result)],
        "figures": [file.name for file in experiment.figures(result, folder)],
        "result": result,
    }
    text = json.dumps(report, indent=1, allow_nan=False) + "\n"
    (folder / f"{name}.json").write_text(text, encoding="utf-8")
    return report
