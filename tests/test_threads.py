"""Several threads use one optimizer or one storage: nothing is lost, and nothing is there twice.

Threads change places as often as Python allows, so that what has no lock goes wrong in most runs.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from ebo import Optimizer, box
from ebo.arrays import Floats
from ebo.optimizer import State
from ebo.settings import Settings
from ebo.study.storage.base import Storage
from ebo.study.storage.memory import MemoryStorage
from ebo.study.storage.sqlite import SQLiteStorage
from ebo.study.storage.trial import Evaluation, TrialState

THREADS = 3
SMALL = Settings().changed(leaf_size=20, block_size=20, learn_from=60)


@pytest.fixture(autouse=True)
def hurry() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def stumble(frame: FrameType, event: str, _: Any) -> Any:
    """Let other threads in between any two lines of the code that keeps the observations."""
    if not frame.f_code.co_filename.endswith("observations.py"):
        return None
    if event == "line":
        time.sleep(0)
    return stumble


def together(*work: Callable[[], object]) -> None:
    """Run functions at once, each in a thread; the first exception is raised."""
    wrong: list[BaseException] = []
    start = threading.Barrier(len(work))

    def one(f: Callable[[], object]) -> None:
        try:
            start.wait()
            sys.settrace(stumble)
            f()
        except BaseException as error:
            wrong.append(error)
        finally:
            sys.settrace(None)

    threads = [threading.Thread(target=one, args=(f,)) for f in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]


def rows(X: Floats) -> set[bytes]:
    return {row.tobytes() for row in X}


@pytest.mark.parametrize(
    ("pieces", "asks", "learns"), [(40, 15, False), (15, 3, True)], ids=["Sobol", "learning"]
)
def test_tell_and_ask_at_once(pieces: int, asks: int, learns: bool) -> None:
    """Failures alone teach nothing: then `ask` is quick, and its threads meet more often."""
    optimizer = Optimizer(box([0.0] * 2, [1.0] * 2), settings=SMALL, workers=1)
    told = np.random.default_rng(0).random((THREADS, pieces, 2, 2))
    asked: list[Floats] = []

    def tell(own: Floats) -> Callable[[], None]:
        def work() -> None:
            for piece in own:
                optimizer.tell(piece, piece.sum(axis=1) if learns else np.full(2, np.nan))

        return work

    def ask() -> None:
        for _ in range(asks):
            asked.append(optimizer.ask(2))

    def look() -> None:
        for _ in range(pieces):
            assert optimizer.X.shape[1] == optimizer.pending.shape[1] == optimizer.y.ndim + 1

    together(*map(tell, told), ask, ask, look)
    everything, points = told.reshape(-1, 2), np.concatenate(asked)
    assert len(optimizer.y) == len(everything)
    assert rows(optimizer.X) == rows(everything)
    assert len(rows(points)) == len(points) == 4 * asks
    assert rows(optimizer.pending) == rows(points)
    assert optimizer.state.asked == 2 * asks
    np.testing.assert_array_equal(
        optimizer.y, optimizer.X.sum(axis=1) if learns else np.full(len(everything), np.nan)
    )


@pytest.fixture(params=["memory", "SQLite"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    kept: Storage = MemoryStorage(1, {})
    if request.param == "SQLite":
        kept = SQLiteStorage.create(tmp_path / "a.ebo", 1, {})
    yield kept
    kept.close()


def test_many_threads_write_and_read_one_storage(storage: Storage) -> None:
    """Each step needs several statements: without a mutex they fall into each other."""
    writers, steps, size = 4, 15 if isinstance(storage, SQLiteStorage) else 150, 3
    ends: list[int] = []

    def write(writer: int) -> Callable[[], None]:
        def work() -> None:
            for step in range(steps):
                number = writer * steps + step
                X = np.full((size, 1), float(number))
                ids = storage.add_batch(X, State(number + 1), {})
                storage.start(ids, 1.0)
                done = {
                    int(i): Evaluation(TrialState.DONE, float(number), finished=2.0) for i in ids
                }
                np.testing.assert_array_equal(storage.finish(done), X)
                ends.extend(done)
                storage.add_told(X + 0.5, X[:, 0] + 0.5)

        return work

    def read() -> None:
        for _ in range(2 * steps):
            columns = storage.trials()
            n = len(columns["id"])
            assert n % size == 0
            finished = columns["state"] == TrialState.DONE
            np.testing.assert_array_equal(columns["value"][finished], columns["X"][finished, 0])
            assert sum(storage.counts().values()) >= n
            ids, X = storage.waiting()
            assert X.shape == (len(ids), 1)

    together(*map(write, range(writers)), read, read)
    columns, total = storage.trials(), 2 * writers * steps * size
    assert len(columns["id"]) == total
    assert len(ends) == len(set(ends)) == total // 2
    assert storage.counts()[TrialState.DONE] == total
    assert sorted(columns["value"]) == sorted(
        np.repeat([n + half for n in range(writers * steps) for half in (0.0, 0.5)], size)
    )
    assert len(storage.iterations()) == writers * steps
