"""`ebo bench store`: a large study written in batches and loaded again, and Optuna beside it.

A batch is what it is in a run: its points are stored with the optimiser's state, marked as running,
and finished, in three transactions that each wait for the disk. Writing and loading are processes
of their own, so that the peak of memory is theirs.

Optuna's storages are given the same number of finished trials in two ways: ready-made, one call a
trial, which is the least that they can be asked to do; and as its own `ask` and `tell` do it, with
a call for every parameter, on fewer trials since it takes so long. No sampler runs in either.
Loading includes opening. Ratios are our rows per second, for as many trials in a new study, over
theirs.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ebo.learning.base import Structure
from ebo.optimizer import State
from ebo.study.storage.sqlite import SQLiteStorage
from ebo.study.storage.trial import Evaluation, TrialState

Say = Callable[[str], None]

EDGE = 1000  # batches at the beginning and at the end whose seconds are compared
STEPWISE = 20  # one in so many trials is given to Optuna parameter by parameter


def run(
    say: Say,
    rows: int = 1_000_000,
    dims: int = 20,
    batch: int = 100,
    optuna_trials: int = 10_000,
) -> dict[str, Any]:
    """All measurements of this module, by name; `say` is told what goes on."""
    for name, number in (("rows", rows), ("optuna_trials", optuna_trials)):
        if number < batch or batch < 1:
            raise ValueError(f"{name} is {number}; give at least one batch of {batch}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.ebo"
        say(f"writing {rows:,} rows")
        written = _apart("write_study", str(path), rows, dims, batch)
        size = path.stat().st_size
        say(f"loading {rows:,} rows")
        loaded = _apart("load_study", str(path))
        result: dict[str, Any] = {
            "rows": loaded["rows"],
            "dims": dims,
            "batch": batch,
            "write_rows_per_second": rows / written["seconds"],
            "load_rows_per_second": loaded["rows"] / loaded["seconds"],
            "load_seconds": loaded["seconds"],
            "file_mb": size / 1e6,
            "write_peak_mb": written["peak_mb"],
            "load_peak_mb": loaded["peak_mb"],
            "first_batches_seconds": written["first_seconds"],
            "last_batches_seconds": written["last_seconds"],
            "last_over_first": written["last_seconds"] / written["first_seconds"],
            "compared_batches": written["edge"],
        }
        path.unlink()
        if find_spec("optuna") is None:
            result["optuna"] = "not installed; pip install optuna"
        else:
            result["optuna"] = against_optuna(say, Path(folder), optuna_trials, dims, batch)
    return result


def write_study(path: str, rows: int, dims: int, batch: int) -> dict[str, float]:
    """A new study with so many finished trials; seconds, of all batches and of the outer ones."""
    rng = np.random.default_rng(0)
    structure = Structure(np.arange(dims), np.full(dims, 5.0), 0.1, np.eye(dims))
    info = {"observations": 0, "leaves": 1, "best": 0.0, "seconds": {"learn": 0.1, "search": 0.1}}
    seconds = []
    with SQLiteStorage.create(path, dims, {"made by": "ebo bench store"}) as store:
        for asked, first in enumerate(range(0, rows, batch), start=1):
            X = rng.random((min(batch, rows - first), dims))
            values, now = X.sum(axis=1).tolist(), time.time()
            start = time.perf_counter()
            ids = store.add_batch(X, State(asked, structure), info)
            store.start(ids, now)
            ends = {
                i: Evaluation(TrialState.DONE, value, "", now, now + 0.25, 1)
                for i, value in zip(ids.tolist(), values, strict=True)
            }
            store.finish(ends)
            seconds.append(time.perf_counter() - start)
        closing = time.perf_counter()
    total = sum(seconds) + time.perf_counter() - closing
    edge = max(1, min(EDGE, len(seconds) // 2))
    return {
        "seconds": total,
        "edge": edge,
        "first_seconds": sum(seconds[:edge]),
        "last_seconds": sum(seconds[-edge:]),
    }


def load_study(path: str) -> dict[str, float]:
    """All trials of a study as arrays; seconds, and how many."""
    start = time.perf_counter()
    with SQLiteStorage.open(path, read_only=True) as store:
        trials = store.trials()
    seconds = time.perf_counter() - start
    if not np.array_equal(trials["value"], trials["X"].sum(axis=1)):
        raise RuntimeError("what was loaded is not what was written")
    return {"seconds": seconds, "rows": len(trials["id"])}


def against_optuna(say: Say, folder: Path, n: int, dims: int, batch: int) -> dict[str, Any]:
    """The same number of trials through ours and Optuna's storages, and the ratios."""
    say(f"{n:,} trials, ebo")
    path = folder / "small.ebo"
    ours = {"write": n / write_study(str(path), n, dims, batch)["seconds"]}
    ours["load"] = n / load_study(str(path))["seconds"]
    result: dict[str, Any] = {"trials": n, "ebo_rows_per_second": ours}
    for kind in ("sqlite", "journal"):
        say(f"{n:,} trials, Optuna's {kind} storage")
        theirs = optuna_rates(kind, folder, n, dims)
        result[f"{kind}_rows_per_second"] = theirs
        result[f"ebo_over_{kind}"] = {
            "write": ours["write"] / theirs["write"],
            "write_by_parameter": ours["write"] / theirs["write_by_parameter"],
            "load": ours["load"] / theirs["load"],
        }
    return result


def optuna_rates(kind: str, folder: Path, n: int, dims: int) -> dict[str, float]:
    """Trials per second that one of Optuna's storages writes and loads."""
    optuna: Any = import_module("optuna")  # which need not be installed to check types
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    complete, direction = optuna.trial.TrialState.COMPLETE, optuna.study.StudyDirection.MINIMIZE
    names = [f"x{d}" for d in range(dims)]
    distributions = dict.fromkeys(names, optuna.distributions.FloatDistribution(0.0, 1.0))
    X = np.random.default_rng(0).random((n, dims))
    trials = [
        optuna.trial.create_trial(
            state=complete,
            value=float(x.sum()),
            params=dict(zip(names, x.tolist(), strict=True)),
            distributions=distributions,
        )
        for x in X
    ]
    storage = _optuna_storage(kind, folder)
    study = storage.create_new_study([direction], "ready")
    start = time.perf_counter()
    for trial in trials:
        storage.create_new_trial(study, template_trial=trial)
    ready = time.perf_counter() - start

    start = time.perf_counter()
    fresh = _optuna_storage(kind, folder)
    loaded = len(fresh.get_all_trials(fresh.get_study_id_from_name("ready"), deepcopy=False))
    load = time.perf_counter() - start
    if loaded != n:
        raise RuntimeError(f"Optuna loaded {loaded} of {n} trials")

    stepwise = trials[: max(1, n // STEPWISE)]
    study = storage.create_new_study([direction], "steps")
    start = time.perf_counter()
    for trial in stepwise:
        number = storage.create_new_trial(study)
        for name, value in trial.params.items():
            storage.set_trial_param(number, name, value, distributions[name])
        storage.set_trial_state_values(number, complete, [trial.value])
    steps = time.perf_counter() - start
    return {
        "write": n / ready,
        "write_by_parameter": len(stepwise) / steps,
        "load": n / load,
    }


def _optuna_storage(kind: str, folder: Path) -> Any:
    storages: Any = import_module("optuna.storages")
    if kind == "sqlite":
        return storages.RDBStorage(f"sqlite:///{folder / 'optuna.db'}")
    file = storages.journal.JournalFileBackend(str(folder / "optuna.log"))
    return storages.JournalStorage(file)


def _apart(function: str, *arguments: object) -> dict[str, float]:
    """A function of this module in a process of its own: what it returns, and `peak_mb`."""
    command = [sys.executable, "-m", "ebo.bench.store", function, json.dumps(arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def _main(function: str, arguments: str) -> None:
    measured: dict[str, Callable[..., dict[str, float]]] = {
        "write_study": write_study,
        "load_study": load_study,
    }
    result = measured[function](*json.loads(arguments))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1e6 if sys.platform == "darwin" else 1e3  # bytes there, kilobytes elsewhere
    print(json.dumps({**result, "peak_mb": peak / unit}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
