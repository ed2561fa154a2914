from __future__ import annotations

import faulthandler
import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from decimal import Decimal
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebo.study.evaluation import processes as module
from ebo.study.evaluation.base import LIMIT, Evaluator, Points
from ebo.study.evaluation.processes import evaluator
from ebo.study.evaluation.workers import Hold
from ebo.study.storage.trial import Evaluation

loose: Any = evaluator  # for what a type checker would not let pass
NAN = math.nan


def all_of(evaluate: Evaluator, points: Points) -> list[Evaluation]:
    """Results in the order of the points, each of which came once."""
    results = [result for some in evaluate.evaluate(points) for result in some]
    assert sorted(index for index, _ in results) == list(range(len(points)))
    return [result for _, result in sorted(results, key=lambda result: result[0])]


def once(f: Callable[[Any], Any], point: Any = 0.0, **how: Any) -> Evaluation:
    with evaluator(f, **{"how": "processes", **how}) as evaluate:
        return all_of(evaluate, [point])[0]


def nap(x: float) -> float:
    time.sleep(x)
    return x


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def soon(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def children() -> set[int]:
    """Processes of this one, zombies too."""
    pids: set[int] = set()
    for task in Path("/proc/self/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that ends meanwhile
            pids.update(map(int, task.read_text().split()))
    return pids


@pytest.fixture(autouse=True)
def nothing_leaks() -> Iterator[None]:
    before, files = children(), len(os.listdir("/proc/self/fd"))
    yield
    assert soon(lambda: children() <= before)
    assert len(os.listdir("/proc/self/fd")) <= files


# Whatever the objective does (the second test).


def fate(i: int) -> str:
    """20 % raise, 10 % NaN, 5 % hang, 2 % kill their process."""
    u = random.Random(i).random()
    for limit, name in ((0.2, "raise"), (0.3, "nan"), (0.35, "hang"), (0.37, "kill")):
        if u < limit:
            return name
    return "value"


def hostile(point: dict[str, int]) -> float:
    i = point["i"]
    match fate(i):
        case "raise":
            raise ArithmeticError(f"number {i}")
        case "nan":
            return math.nan
        case "hang":
            time.sleep(1000)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
    return float(i)


STATES = {"value": "done", "raise": "failed", "nan": "failed", "hang": "timed out", "kill": "lost"}
ERRORS = {"value": "", "nan": "returned nan", "kill": "SIGKILL", "hang": "took longer than"}


def check_hostile(n: int, timeout: float, workers: int) -> None:
    fates = [fate(i) for i in range(n)]
    assert set(fates) == set(STATES)
    with evaluator(hostile, workers=workers, timeout=timeout) as evaluate:
        results = all_of(evaluate, [{"i": i} for i in range(n)])
    assert Counter(str(r.state) for r in results) == Counter(STATES[name] for name in fates)
    for i, (name, result) in enumerate(zip(fates, results, strict=True)):
        assert str(result.state) == STATES[name]
        assert ERRORS.get(name, f"ArithmeticError: number {i}") in result.error
        assert result.value == i if name == "value" else math.isnan(result.value)
        assert result.attempts == 1
        assert result.started is not None
        assert result.finished is not None
        assert result.started <= result.finished <= time.time()
    best = max(r.value for r in results if str(r.state) == "done")
    assert best == max(i for i in range(n) if fates[i] == "value")


def test_whatever_the_objective_does() -> None:
    check_hostile(300, timeout=0.5, workers=8)


@pytest.mark.slow
def test_whatever_the_objective_does_at_length() -> None:
    check_hostile(2000, timeout=1.0, workers=8)


# One call.


@pytest.mark.parametrize("how", ["processes", "threads"])
@pytest.mark.parametrize(
    ("returned", "state", "value", "error"),
    [
        (2.5, "done", 2.5, ""),
        (3, "done", 3.0, ""),
        (True, "done", 1.0, ""),
        (np.float32(0.5), "done", 0.5, ""),
        (np.array([[4.0]]), "done", 4.0, ""),
        (Decimal("1.25"), "done", 1.25, ""),
        (math.nan, "failed", NAN, "returned nan"),
        (-math.inf, "failed", NAN, "returned -inf"),
        (None, "failed", NAN, "returned None, which is not a number"),
        ("abc", "failed", NAN, "returned 'abc', which is not a number"),
        ("1.5", "failed", NAN, "returned '1.5', which is not a number"),
        (np.ones(2), "failed", NAN, "returned array([1., 1.]), which is not a number"),
        ([[1.0], [2.0, 3.0]], "failed", NAN, "returned [[1.0], [2.0, 3.0]], which is not a number"),
        (1j, "failed", NAN, "returned 1j, which is not a number"),
        (10**400, "failed", NAN, "which is not a number"),
    ],
)
def test_what_is_returned(how: str, returned: Any, state: str, value: float, error: str) -> None:
    result = once(lambda x: returned, how=how)
    assert (str(result.state), result.attempts) == (state, 1)
    assert result.value == value or (math.isnan(result.value) and math.isnan(value))
    assert result.error == error if not error.startswith("which") else error in result.error


@pytest.mark.parametrize("how", ["processes", "threads"])
def test_an_exception(how: str) -> None:
    def helper() -> None:
        raise KeyError("no such gain")

    result = once(lambda x: helper(), how=how)
    assert str(result.state) == "failed"
    assert result.error.splitlines()[-1] == "KeyError: 'no such gain'"
    assert "in helper" in result.error
    assert "in measured" not in result.error


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("x" * 100_000), "ValueError: xxx"),
        (ValueError("\udc80\0"), r"ValueError: \udc80\0"),
        (ValueError(), "ValueError"),
        (UnspeakableError(), "UnspeakableError: <UnspeakableError that cannot be shown>"),
        (SystemExit("enough"), "SystemExit: enough"),
        (GeneratorExit(), "GeneratorExit"),
    ],
)
def test_messages_can_be_stored(error: BaseException, message: str) -> None:
    def deep(n: float) -> None:
        if n > 0:
            deep(n - 1)
        raise error

    result = once(deep, 100.0)
    assert str(result.state) == "failed"
    assert message in result.error
    assert len(result.error) <= LIMIT
    result.error.encode()


def test_a_worker_that_ends_itself() -> None:
    def crash(x: float) -> None:
        faulthandler.disable()
        os.kill(os.getpid(), signal.SIGSEGV)

    assert once(lambda x: os._exit(3)).error == "the worker exited with status 3"
    result = once(crash)
    assert (str(result.state), result.error) == ("lost", "the worker was killed by SIGSEGV")


def test_a_worker_that_closes_its_files() -> None:
    def f(x: float) -> None:
        os.closerange(3, 100)
        time.sleep(0.1)

    assert str(once(f).state) == "lost"


def test_a_worker_dies_and_a_fork_of_it_lives_on() -> None:
    def f(x: float) -> None:
        if os.fork():
            os._exit(7)
        time.sleep(60)

    start = time.monotonic()
    assert once(f).error == "the worker exited with status 7"
    assert time.monotonic() - start < 10


def test_a_fork_of_a_worker_does_not_answer_for_it() -> None:
    def f(x: float) -> float:
        return 1.0 if os.fork() else 2.0

    with evaluator(f, workers=2) as evaluate:
        assert {r.value for r in all_of(evaluate, range(50))} == {1.0}


def test_a_time_out_kills_what_the_objective_has_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    def f(x: float) -> None:
        pids.write_text(f"{os.getpid()} {subprocess.Popen(['sleep', '60']).pid}")
        time.sleep(60)

    result = once(f, timeout=0.5)
    assert (str(result.state), result.error) == ("timed out", "took longer than 0.5 s")
    assert soon(lambda: not any(alive(int(pid)) for pid in pids.read_text().split()))


# Many calls.


def test_points_as_arrays_and_large_points() -> None:
    X = np.random.default_rng(0).random((6, 200_000))
    with evaluator(lambda x: x.sum(), workers=2) as evaluate:
        assert [r.value for r in all_of(evaluate, X)] == [x.sum() for x in X]
        assert all_of(evaluate, []) == []


@pytest.mark.parametrize("how", ["processes", "threads"])
def test_results_are_not_mixed_up(how: str) -> None:
    def f(x: dict[str, int]) -> int:
        time.sleep(random.random() / 200)
        return x["i"]

    with evaluator(f, workers=5, how=how) as evaluate:
        for start in (0, 1000):
            points = [{"i": start + i} for i in range(100)]
            assert [r.value for r in all_of(evaluate, points)] == [p["i"] for p in points]


@pytest.mark.parametrize("how", ["processes", "threads"])
def test_the_objective_does_not_change_the_points(how: str) -> None:
    def f(x: Any) -> float:
        x[0] = 5.0
        return 1.0

    X, dicts = np.zeros((3, 2)), [{0: 0.0}]
    with evaluator(f, workers=2, how=how) as evaluate:
        assert len(all_of(evaluate, X)) == 3
        assert len(all_of(evaluate, dicts)) == 1
    assert not X.any()
    assert dicts == [{0: 0.0}]


def test_workers_stay_and_draw_different_numbers() -> None:
    def f(x: int) -> float:
        time.sleep(0.05)
        return float(os.getpid() if x else np.random.random() * 1e9)  # noqa: NPY002

    with evaluator(f, workers=3) as evaluate:
        first = {r.value for r in all_of(evaluate, [1] * 9)}
        assert first == {r.value for r in all_of(evaluate, [1] * 9)}
        assert len(first) == 3
        assert len({r.value for r in all_of(evaluate, [0] * 9)}) == 9


def test_workers_that_die_while_idle_are_replaced() -> None:
    with evaluator(lambda x: os.getpid(), workers=2) as evaluate:
        for _ in range(5):
            results = all_of(evaluate, range(10))
            assert all((str(r.state), r.attempts) == ("done", 1) for r in results)
            for pid in {int(r.value) for r in results}:
                os.kill(pid, signal.SIGKILL)


def test_retries(tmp_path: Path) -> None:
    def f(i: int) -> float:
        with (tmp_path / str(i)).open("a") as file:
            file.write("x")
        tried = (tmp_path / str(i)).stat().st_size
        if i == 0 or tried > i:
            return tried
        if i == 1:
            raise ValueError
        if i == 2:
            os._exit(1)
        return nap(60)

    with evaluator(f, workers=2, retries=2, timeout=0.5) as evaluate:
        results = all_of(evaluate, range(4))
    assert [r.attempts for r in results] == [1, 2, 3, 3]
    assert [r.value for r in results[:3]] == [1.0, 2.0, 3.0]
    assert str(results[3].state) == "timed out"


def test_a_point_that_cannot_be_sent() -> None:
    lock = threading.Lock()
    with evaluator(lambda x: 1.0, how="processes") as evaluate:
        bad, good = all_of(evaluate, [{"lock": lock}, {"lock": None}])
    assert (str(bad.state), str(good.state)) == ("failed", "done")
    assert "cannot be sent to a worker" in bad.error


def test_output_goes_where_it_would_go() -> None:
    script = """
import sys
from ebo.study.evaluation.processes import evaluator
print("before")
def f(x):
    print("out", x)
    print("err", x, file=sys.stderr)
    return 1.0
with evaluator(f, how="processes") as evaluate:
    list(evaluate.evaluate([1, 2]))
print("after")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "before\nout 1\nout 2\nafter\n"
    assert done.stderr == "err 1\nerr 2\n"


def test_processes_within_the_objective() -> None:
    def f(x: float) -> float:
        with get_context("fork").Pool(2) as pool:
            return sum(pool.map(math.sqrt, [1, 4, 9]))

    assert once(f).value == 6.0


def test_a_batch_that_is_left() -> None:
    with evaluator(nap, workers=2) as evaluate:
        for results in evaluate.evaluate([0.01, 60.0, 60.0]):
            assert [result.value for _, result in results] == [0.01]
            break
        assert [r.value for r in all_of(evaluate, [0.01, 0.02])] == [0.01, 0.02]
        old = evaluate.evaluate([0.01, 0.02])
        next(old)
        new = evaluate.evaluate([0.03])
        with pytest.raises(RuntimeError, match="given up"):
            next(old)
        assert [r.value for some in new for _, r in some] == [0.03]


def test_closed() -> None:
    with evaluator(lambda x: x) as evaluate:
        pass
    evaluate.close()
    with pytest.raises(RuntimeError, match="closed"):
        evaluate.evaluate([1.0])


def test_spawned_processes() -> None:
    with module._Processes(math.sqrt, 2, 30.0, 0, method="spawn") as evaluate:
        assert [r.value for r in all_of(evaluate, [4.0, 9.0])] == [2.0, 3.0]
        assert "math domain error" in all_of(evaluate, [-1.0])[0].error
    with pytest.raises(TypeError, match="top level of a module"):
        module._Processes(lambda x: x, 2, None, 0, method="spawn")
    # The tracker of multiprocessing's own resources stays until the end.
    from multiprocessing.resource_tracker import _resource_tracker

    loose_tracker: Any = _resource_tracker
    loose_tracker._stop()


class Unloadable:
    """Can be pickled, but not loaded."""

    def __reduce__(self) -> Any:
        return int, ("not a number",)

    def __call__(self, x: float) -> float:
        return x


def test_workers_that_do_not_start(capfd: pytest.CaptureFixture[str]) -> None:
    with (
        module._Processes(Unloadable(), 1, None, 0, method="spawn") as evaluate,
        pytest.raises(RuntimeError, match="do not start"),
    ):
        all_of(evaluate, [1.0])
    assert "not a number" in capfd.readouterr().err
    from multiprocessing.resource_tracker import _resource_tracker

    loose_tracker: Any = _resource_tracker
    loose_tracker._stop()


# Executors.


def slow_square(x: float) -> float:
    if x < 0:
        raise ValueError("negative")
    if x == 13:
        os._exit(1)
    time.sleep(x / 100)
    return x * x


def test_an_executor() -> None:
    with ThreadPoolExecutor(3) as pool:
        with evaluator(slow_square, executor=pool) as evaluate:
            results = all_of(evaluate, [3.0, -1.0, 2.0, 1.0])
        assert pool.submit(int).result() == 0  # still open
    assert [str(r.state) for r in results] == ["done", "failed", "done", "done"]
    assert results[1].error.endswith("ValueError: negative")
    assert results[0].value == 9.0


def test_an_executor_of_processes_that_breaks() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        with evaluator(slow_square, executor=pool, retries=1) as evaluate:
            first, second, third = all_of(evaluate, [2.0, 13.0, 2.0])
        with pytest.raises(TypeError, match="top level of a module"):
            evaluator(lambda x: x, executor=pool)
    assert (str(first.state), str(second.state), str(third.state)) == ("done", "lost", "lost")
    assert second.attempts == 2
    assert "BrokenProcessPool" in second.error


def test_an_executor_cannot_kill() -> None:
    gate = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        with evaluator(lambda x: gate.wait(x) + x, executor=pool, timeout=0.2) as evaluate:
            late, done = all_of(evaluate, [20.0, 0.01])
            assert (str(late.state), str(done.state)) == ("timed out", "done")
            assert "still runs" in late.error
            *late_too, stranded = all_of(evaluate, [20.0, 0.01])
            assert str(late_too[0].state) == "timed out"
            assert str(stranded.state) == "lost"
            assert "no worker is free: 2" in stranded.error
        gate.set()


# All at once.


def test_vectorized() -> None:
    X = np.array([[1.0, 2.0], [3.0, 4.0], [-1.0, 0.0]])

    def f(X: Any) -> Any:
        return np.sqrt(X[:, 0], out=np.full(len(X), np.nan), where=X[:, 0] >= 0)

    with evaluator(f, how="vectorized", retries=1) as evaluate:
        results = all_of(evaluate, X)
        assert all_of(evaluate, np.empty((0, 2))) == []
    assert [str(r.state) for r in results] == ["done", "done", "failed"]
    assert [r.attempts for r in results] == [1, 1, 2]
    assert results[2].error == "returned nan"


def test_vectorized_dicts() -> None:
    points = [{"x": 1.0}, {"x": 2.0}]
    with evaluator(lambda rows: [row.pop("x") for row in rows], how="vectorized") as evaluate:
        assert [r.value for r in all_of(evaluate, points)] == [1.0, 2.0]
    assert points == [{"x": 1.0}, {"x": 2.0}]


def test_a_vectorized_exception() -> None:
    with evaluator(lambda X: 1 / 0, how="vectorized") as evaluate:
        for result in all_of(evaluate, np.zeros((3, 1))):
            assert str(result.state) == "failed"
            assert result.error.endswith("ZeroDivisionError: division by zero")


@pytest.mark.parametrize("returned", [1.0, [1.0, 2.0], [[1.0], [2.0], [3.0]], None, "abc"])
def test_a_vectorized_mistake(returned: Any) -> None:
    with (
        evaluator(lambda X: returned, how="vectorized") as evaluate,
        pytest.raises(ValueError, match=r"must return \(3,\) numbers for 3 points"),
    ):
        all_of(evaluate, np.zeros((3, 1)))


# Ctrl-C. The signal goes to the whole group, as from a terminal.

SCRIPT = """
import json, os, sys, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from ebo.study.evaluation.processes import evaluator
here, how, kind = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
def f(x):
    import subprocess
    sleep = subprocess.Popen(["sleep", "60"]).pid if how.get("how") != "threads" else 0
    (here / f"{x}.pids").write_text(f"{os.getpid()} {sleep}")
    time.sleep(x)
    return x
told = []
with evaluator(f, workers=2, **how) as evaluate:
    try:
        for results in evaluate.evaluate([0.01, 1.0, 50.0, 51.0, 52.0]):
            (here / "storing").touch()
            if kind == "storing":
                time.sleep(0.5)
            told += [(index, str(result.state), result.error) for index, result in results]
        print("not interrupted")
    except KeyboardInterrupt:
        (here / "grace").touch()
        print(json.dumps({"told": told, "rest": [
            (i, str(r.state), r.error)
            for i, r in evaluate.interrupt(20.0 if kind == "twice" else 2.0)
        ]}))
"""


@pytest.mark.parametrize(
    ("how", "kind"),
    [({}, "waiting"), ({}, "storing"), ({}, "twice"), ({"how": "threads"}, "waiting")],
)
def test_ctrl_c(tmp_path: Path, how: dict[str, Any], kind: str) -> None:
    script = [sys.executable, "-c", SCRIPT, str(tmp_path), json.dumps(how), kind]
    process = subprocess.Popen(script, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert soon((tmp_path / ("storing" if kind == "storing" else "50.0.pids")).exists, 20)
    start = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    if kind == "twice":
        assert soon((tmp_path / "grace").exists)
        time.sleep(1.5)  # the evaluation of 1 s ends
        os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert time.monotonic() - start < 8
    found = json.loads(output)
    states = {index: state for index, state, _ in found["told"] + found["rest"]}
    assert len(states) == len(found["told"] + found["rest"])  # each once
    assert [0, "done", ""] in found["told"]  # though Ctrl-C came while it was stored
    assert states.pop(1) == "done"
    assert set(states) <= {0, 2, 3}
    if kind != "storing":
        assert states == {0: "done"}  # what was running has no result
    for file in tmp_path.glob("*.pids"):
        assert soon(lambda file=file: not any(alive(int(p)) for p in file.read_text().split()))  # type: ignore[misc]


def test_ctrl_c_in_a_vectorized_call() -> None:
    def f(X: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return X[:, 0]

    with evaluator(f, how="vectorized") as evaluate:
        with pytest.raises(KeyboardInterrupt):
            all_of(evaluate, np.zeros((2, 1)))
        assert evaluate.interrupt() == []


def test_going_on_after_an_interruption() -> None:
    with evaluator(nap, workers=2, retries=3) as evaluate:
        results = evaluate.evaluate([0.01, 60.0, 60.0, 60.0])
        assert next(results)[0][0] == 0
        del results
        rest = evaluate.interrupt(0.0)
        assert all(r.error == "interrupted" and str(r.state) == "lost" for _, r in rest)
        assert {i for i, _ in rest} <= {1, 2}
        assert [r.value for r in all_of(evaluate, [0.01, 0.02])] == [0.01, 0.02]


def test_ctrl_c_is_held_back() -> None:
    steps = []
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), Hold() as hold:  # noqa: PT012 - where it is allowed
        signal.raise_signal(signal.SIGINT)
        steps.append("held")
        with hold.allowed():
            steps.append("not here")
    with pytest.raises(KeyboardInterrupt), Hold():  # noqa: PT012 - the second time
        signal.raise_signal(signal.SIGINT)
        steps.append("held")
        signal.raise_signal(signal.SIGINT)
        steps.append("not here")
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - at its end
        with Hold():
            signal.raise_signal(signal.SIGINT)
            steps.append("held")
        steps.append("not here")
    assert steps == ["held"] * 3
    assert signal.getsignal(signal.SIGINT) is handler


def test_nothing_outlives_a_killed_parent(tmp_path: Path) -> None:
    script = [sys.executable, "-c", SCRIPT, str(tmp_path), "{}", "idle"]
    with subprocess.Popen(script, stdout=subprocess.DEVNULL) as process:
        try:
            assert soon((tmp_path / "50.0.pids").exists, 20)
            time.sleep(0.1)
            files = tmp_path.glob("*.pids")
            pids = [int(pid) for file in files for pid in file.read_text().split()]
            assert sum(map(alive, pids)) >= 4
        finally:
            process.kill()
    assert soon(lambda: not any(map(alive, pids)))


def test_an_evaluator_that_nobody_closes() -> None:
    script = """
import time
from ebo.study.evaluation.processes import evaluator
evaluate = evaluator(lambda x: time.sleep(x) or x, workers=2)
[(index, result)] = next(evaluate.evaluate([0.0, 60.0]))
print(result.state)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True)
    assert done.returncode == 0
    assert b"done" in done.stdout
    assert done.stderr == b""


# Mistakes.


@pytest.mark.parametrize(
    ("f", "arguments", "message"),
    [
        (1.0, {}, "give a function"),
        (abs, {"how": "thread"}, "give 'processes', 'threads' or 'vectorized'"),
        (abs, {"workers": 0}, "give a whole number of at least 1"),
        (abs, {"workers": "2"}, "give a whole number of at least 1"),
        (abs, {"workers": True}, "give a whole number of at least 1"),
        (abs, {"timeout": 0}, "positive number of seconds"),
        (abs, {"timeout": math.inf}, "positive number of seconds"),
        (abs, {"timeout": "1"}, "positive number of seconds"),
        (abs, {"retries": -1}, "at least 0"),
        (abs, {"retries": 1.0}, "at least 0"),
        (abs, {"how": "threads", "timeout": 1.0}, "a thread cannot be killed"),
        (abs, {"how": "vectorized", "timeout": 1.0}, "leave timeout, workers and executor out"),
        (abs, {"how": "vectorized", "workers": 2}, "leave timeout, workers and executor out"),
    ],
)
def test_mistakes(f: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        loose(f, **arguments)
