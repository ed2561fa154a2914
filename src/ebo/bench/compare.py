"""`ebo bench compare`: all methods on all problems with the same number of evaluations.

A *task* is a problem, a method and a seed. Every method is told the same uniform random points with
the same values, then goes on by batches. What counts is the best value observed.

Seeds. The seed s of a task gives the first points, the noise and the method's own draws. Functions
that are random themselves (additive samples, shifted optima, a user's own) are others for every
seed; the layout of a rover is the same for all, that of `problem_seed`.

A method may say how many points it would rather be told before it is asked for more (`portion`);
then a batch is asked for in such portions. That favours such methods, CMA-ES among them, which on
many machines at once would have to wait.

Every finished task is a line of `compare.jsonl`. A run with the same parameters takes it from
there, one that failed is tried again. The options of a method are among its parameters, its code is
not: after a change of that, write into another folder.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ebo import native, problems
from ebo.arrays import Floats
from ebo.bench import baselines, lines
from ebo.bench.baselines.imported import imported
from ebo.bench.packages import check_packages
from ebo.checks import check_count

Record = dict[str, Any]
Advance = Callable[[int, str], None]  # batches done, and what is being done

SHARES = (0.25, 0.5, 1.0)  # of the batches, at which the best value is told
INITIAL, INITIAL_ROVER = 1_000, 2_000
SAME_FOR_ALL_SEEDS = ("push14", "rover60", "rover60-exact")  # apart from their noise
POINTS, NOISE = 1, 2  # streams of a seed


@dataclass(frozen=True)
class Plan:
    """What is compared.

    problems, methods: names, or a user's own as "module:factory". A problem's factory is called
        with `seed=`, a method's as in `ebo.bench.baselines`. A problem has a `space`, is called on
        points (n, D), and may have an `upper_bound`.
    initial: number of first points; None for 2,000 on a rover, else 1,000.
    obstacles: a CSV file for the rovers, instead of the layout of `problem_seed`.
    upper_bound: whether methods are told that of the problem.
    """

    problems: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: int = 3
    initial: int | None = None
    batches: int = 40
    batch_size: int = 100
    problem_seed: int = 0
    obstacles: str | None = None
    upper_bound: bool = True

    def __post_init__(self) -> None:
        for name, values in (("problems", self.problems), ("methods", self.methods)):
            if not values or len(set(values)) < len(values):
                raise ValueError(f"{name} are {', '.join(values)!r}; give each once, at least one")
        for name, least in (("seeds", 1), ("batches", 1), ("batch_size", 1), ("problem_seed", 0)):
            check_count(name, getattr(self, name), least)
        if self.initial is not None:
            check_count("initial", self.initial, 1)
        for problem in self.problems:
            _check_problem(problem)
        for method in self.methods:
            baselines.get(method)
        if self.obstacles is not None and not os.path.isfile(self.obstacles):
            raise ValueError(f"obstacles are {self.obstacles!r}, which is no file")

    def tasks(self) -> list[Task]:
        """All tasks; the methods on one problem and seed one after the other."""
        return [
            Task(
                problem=problem,
                method=method,
                seed=seed,
                initial=self.initial or (INITIAL_ROVER if _rover(problem) else INITIAL),
                batches=self.batches,
                batch_size=self.batch_size,
                problem_seed=self.problem_seed,
                obstacles=self.obstacles if _rover(problem) else None,
                upper_bound=self.upper_bound,
            )
            for problem in self.problems
            for seed in range(self.seeds)
            for method in self.methods
        ]


@dataclass(frozen=True)
class Task:
    """One run: a problem, a method and a seed; the rest as in `Plan`."""

    problem: str
    method: str
    seed: int
    initial: int
    batches: int
    batch_size: int
    problem_seed: int
    obstacles: str | None
    upper_bound: bool

    @property
    def title(self) -> str:
        """What to call it."""
        return f"{self.problem}, {self.method}, seed {self.seed}"

    def parameters(self) -> Record:
        """All that its result depends on; of a file, what is in it."""
        digest = None
        if self.obstacles is not None:
            digest = hashlib.sha256(Path(self.obstacles).read_bytes()).hexdigest()[:16]
        options = json.loads(json.dumps(baselines.options(self.method)))  # as it is read again
        return {**vars(self), "obstacles": digest, "options": options}


def run(
    plan: Plan,
    folder: Path,
    advance: Advance,
    finished: Callable[[Record], None] = lambda record: None,
    jobs: int = 1,
) -> dict[str, Any]:
    """Do what is not done yet, in so many processes, and sum all up."""
    check_count("jobs", jobs, 1)
    file = folder / "compare.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    known = {_key(record): record for record in read(file) if record["error"] is None}
    tasks = plan.tasks()
    keys = [_key(task.parameters()) for task in tasks]
    missing = [task for task, key in zip(tasks, keys, strict=True) if key not in known]
    check_packages((task.problem for task in missing), (task.method for task in missing))
    advance(plan.batches * (len(tasks) - len(missing)), "begun")
    for record in _done(missing, jobs, advance):
        lines.append(file, record)
        finished(record)
        known[_key(record)] = record
    return summary(plan, [known[key] for key in keys])


def _done(tasks: list[Task], jobs: int, advance: Advance) -> Iterator[Record]:
    """The records of tasks, as they finish."""
    cores = os.cpu_count() or 1
    if jobs == 1 or len(tasks) < 2:
        with threadpool_limits(1):  # as in the processes: threads show in the last bits
            for task in tasks:
                yield perform(task, cores, jobs, advance)
        return
    context = get_context("spawn")  # a fork would copy the locks of threads
    reports = context.SimpleQueue()
    workers, others = max(1, cores // jobs), active_children()
    with ProcessPoolExecutor(jobs, context, _begin_process, (reports,)) as pool:
        try:  # from the first task on: leaving the pool waits for all that it was given
            waiting = {pool.submit(_perform_here, task, workers, jobs) for task in tasks}
            while waiting:
                finished, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                while not reports.empty():
                    advance(*reports.get())
                for future in finished:
                    yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in active_children():
                if process not in others:  # one of the pool, which would be waited for at exit
                    process.terminate()
            raise


_reports: SimpleQueue[tuple[int, str]]  # of a process, how far it is


def _begin_process(reports: SimpleQueue[tuple[int, str]]) -> None:
    global _reports
    _reports = reports
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends at once, without a traceback
    threading.Thread(target=_end_with_parent, daemon=True).start()
    threadpool_limits(1)


def _end_with_parent() -> None:
    """End at once where the parent was killed: nobody would take the result, in hours."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _perform_here(task: Task, workers: int, jobs: int) -> Record:
    return perform(task, workers, jobs, lambda done, text: _reports.put((done, text)))


def perform(task: Task, workers: int, jobs: int, advance: Advance) -> Record:
    """One task: the best value after the first points and after each batch, and seconds of each.

    What is raised becomes the record's error; the values until then are in it.
    """
    best: list[float | None] = []
    seconds: list[float] = []
    record: Record = {
        **task.parameters(),
        "error": None,
        "maximum": None,
        "best": best,
        "seconds": seconds,
        "cores": os.cpu_count() or 1,
        "workers": workers,
        "jobs": jobs,
        "instruction_set": native.instruction_set(),
    }
    try:
        problem = make_problem(task)
        record["maximum"] = _upper_bound(problem)
        bound = record["maximum"] if task.upper_bound else None
        factory = baselines.get(task.method)
        method = factory(problem.space, seed=task.seed, upper_bound=bound, workers=workers)
        X = first_points(problem, task)
        method.tell(X, problem(X))
        best.append(_best(method))
        for i in range(task.batches):
            seconds.append(one_batch(method, problem, task.batch_size))
            best.append(_best(method))
            advance(1, f"{task.title}, {i + 1} of {task.batches}")
    except Exception as error:  # whatever a method raises, the others go on
        record["error"] = f"{type(error).__name__}: {error}"
        advance(task.batches - len(seconds), task.title)
    return record


def _upper_bound(problem: Any) -> float | None:
    """That of the values, where it is known: of a user's problem it need not be."""
    bound = getattr(problem, "upper_bound", None)
    return float(bound) if bound is not None and math.isfinite(bound) else None


def one_batch(method: Any, problem: Any, n: int) -> float:
    """Ask for n points, in portions if wanted, and tell their values; the method's seconds."""
    seconds, left = 0.0, n
    while left:
        portion = getattr(method, "portion", None) or left
        start = time.perf_counter()
        X = method.ask(min(left, portion))
        asked = time.perf_counter()
        y = problem(X)
        evaluated = time.perf_counter()
        method.tell(X, y)
        seconds += asked - start + time.perf_counter() - evaluated
        left -= len(X)
    return seconds


def make_problem(task: Task) -> Any:
    """The problem, with the noise of the task's seed."""
    fixed = task.problem in SAME_FOR_ALL_SEEDS
    seed = task.problem_seed if fixed else task.problem_seed + task.seed
    problem = copy.copy(_problem(task.problem, seed, task.obstacles))
    if getattr(problem, "noise", None) is not None:
        problem.noise = np.random.default_rng([task.seed, NOISE])
    return problem


@lru_cache(maxsize=2)  # an additive one takes seconds
def _problem(name: str, seed: int, obstacles: str | None) -> Any:
    if ":" in name:
        return imported(name)(seed=seed)
    return problems.get(name, seed=seed, obstacles=obstacles)


def first_points(problem: Any, task: Task) -> Floats:
    """Uniform points (n, D) in the problem's units, the same for all methods."""
    rng = np.random.default_rng([task.seed, POINTS])
    space = problem.space
    points: Floats = space.from_unit(rng.random((task.initial, int(space.free.sum()))))
    return points


def _best(method: Any) -> float | None:
    """The best value so far; None where all have failed."""
    try:
        return float(method.best()[1])
    except RuntimeError:
        return None


def _rover(problem: str) -> bool:
    return problem.startswith("rover60")


def _check_problem(name: str) -> None:
    """Refuse a problem that does not exist, without making it."""
    if ":" in name:
        imported(name)
        return
    pattern = re.sub(r"(?<=[a-z])[1-9][0-9]*", "{D}", name)
    pattern = re.sub(r"^bbob[{]D[}]-[1-9][0-9]*", "bbob{F}-{D}", pattern)
    if name not in problems.names() and pattern not in problems.names():
        raise ValueError(
            f"unknown problem {name!r}; choose one of {', '.join(problems.names())}, with a number "
            f"of dimensions for {{D}}, or give 'module:factory'"
        )


PARAMETERS = (*Task.__dataclass_fields__, "options")
FIELDS = (*PARAMETERS, "error", "best", "seconds")  # of a line of results


def read(file: Path) -> list[Record]:
    """All records of a file."""
    return lines.read(file, FIELDS)


def _key(record: Record) -> str:
    """What two tasks with the same result have in common."""
    return json.dumps([record[name] for name in PARAMETERS], sort_keys=True)


# What came out.


def summary(plan: Plan, records: Iterable[Record]) -> dict[str, Any]:
    """By problem and method: means over seeds at the shares of the batches, ranks, seconds."""
    found: dict[str, dict[str, list[Record]]] = {
        problem: {method: [] for method in plan.methods} for problem in plan.problems
    }
    for record in records:
        found[record["problem"]][record["method"]].append(record)
    by_problem = {}
    for problem, methods in found.items():
        rows = {name: method_summary(plan, runs) for name, runs in methods.items()}
        ends = {name: row["best"]["100"] for name, row in rows.items() if not row["failed"]}
        for name, rank in ranks(ends).items():
            rows[name]["rank"] = rank
        every = [run for runs in methods.values() for run in runs]
        by_problem[problem] = {
            "initial": every[0]["initial"],
            "maximum": _mean([run["maximum"] for run in every if run["maximum"] is not None]),
            "methods": rows,
        }
    return {
        "cores": os.cpu_count() or 1,
        "instruction_set": native.instruction_set(),
        "seeds": plan.seeds,
        "batches": plan.batches,
        "batch_size": plan.batch_size,
        "problem_seed": plan.problem_seed,
        "upper_bound": plan.upper_bound,
        "problems": by_problem,
        "mean_rank": {
            name: _mean([problem["methods"][name]["rank"] for problem in by_problem.values()])
            for name in plan.methods
        },
    }


def method_summary(plan: Plan, runs: list[Record]) -> dict[str, Any]:
    """A method on a problem. Means and curves are over the seeds that did not fail."""
    good = [run for run in runs if run["error"] is None and None not in run["best"]]
    curves = np.array([run["best"] for run in good]).reshape(len(good), plan.batches + 1)
    at = {f"{share:.0%}"[:-1]: math.ceil(share * plan.batches) for share in SHARES}
    return {
        "best": {share: _mean(curves[:, i].tolist()) for share, i in at.items()},
        "seeds": {str(run["seed"]): run["best"][-1] for run in good},
        "share_of_bound": _mean([_share(run["best"][-1], run["maximum"]) for run in good]),
        "failed": {
            str(run["seed"]): run["error"] or "no evaluation has succeeded"
            for run in runs
            if run not in good
        },
        "rank": None,  # by the mean at the end, where no seed failed
        "seconds_a_batch": _mean([second for run in good for second in run["seconds"]]),
        "curve": {
            name: of(curves, axis=0).tolist() if good else []
            for name, of in (("mean", np.mean), ("low", np.min), ("high", np.max))
        },
    }


def _share(value: float, bound: float | None) -> float | None:
    """The value in parts of its bound, where that says something."""
    return value / bound if bound is not None and bound > 0.0 else None


def ranks(values: dict[str, float]) -> dict[str, int]:
    """1 for the largest; equal values share the better rank."""
    return {
        name: 1 + sum(other > value for other in values.values()) for name, value in values.items()
    }


def _mean(values: list[Any]) -> float | None:
    """The mean; None where there is nothing, or a part of it is missing."""
    return float(np.mean(values)) if values and None not in values else None
