"""Files of every schema that there was: they open as they are, and go on as they would have."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebo import Optimizer
from ebo.arrays import Floats
from ebo.learning.base import Structure
from ebo.optimizer import State
from ebo.settings import Settings
from ebo.study import Study
from ebo.study.storage.describe import migrate_settings, read_space
from ebo.study.storage.file import DamagedStudyError
from ebo.study.storage.sqlite import SQLiteStorage
from ebo.tilegp.smooth import Smooth
from tests.study.storage.test_sqlite import HERE, batch, check_built, done, same, structure

SEEDS = {1: 0, 2: 3, 3: 1, 4: 1}  # of the structure in golden-1.ebo, ...


def schema_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


@pytest.mark.parametrize("schema", [1, 2, 3, 4])
def test_a_file_of_any_schema_is_read_as_it_is(tmp_path: Path, schema: int) -> None:
    path = tmp_path / "a.ebo"
    shutil.copy(HERE / f"golden-{schema}.ebo", path)
    assert schema_of(path) == schema
    before = path.read_bytes()
    check_built(path, SEEDS[schema])
    assert path.read_bytes() == before


@pytest.mark.parametrize("schema", [1, 2, 3, 4])
def test_a_file_of_any_schema_is_gone_on_with(tmp_path: Path, schema: int) -> None:
    path = tmp_path / "a.ebo"
    shutil.copy(HERE / f"golden-{schema}.ebo", path)
    with SQLiteStorage.open(path):
        pass
    check_built(path, SEEDS[schema])
    with SQLiteStorage.open(path) as store:
        assert store.reset_running() == 1
        ids, _ = store.waiting()
        store.finish({int(i): done(1.0) for i in ids})
        batch(store, 2)
        assert same(store.state(), State(3, structure(3, 3)))
        store.check()
    assert schema_of(path) == 4


# The points that a study asks for next. The file is read here by other means.


def earlier(path: Path, schema: int) -> Optimizer:
    """The optimizer of a study of schema 1, 2 or 3."""
    with closing(sqlite3.connect(path)) as db:
        meta = json.loads(db.execute("SELECT json FROM meta").fetchone()[0])
        trials = db.execute("SELECT x, state, value FROM trials ORDER BY id").fetchall()
        columns = "asked, z, density, noise, together, lower, upper"
        asked, z, density, noise, together, *leaves = db.execute(
            f"SELECT {columns} FROM state"
        ).fetchone()
    groups = np.frombuffer(z, "<i8")
    free = len(groups)
    numbers, counted = np.frombuffer(density, "<f8"), np.frombuffer(together, "<f8")
    smooth = None
    if len(numbers) > free:
        smooth = Smooth(numbers[-2], numbers[free:-2], numbers[-1])
    pair = counted[free * free :].reshape(2, free) if len(counted) > free * free else None
    boxes: Any = None
    if leaves[0] is not None:
        boxes = tuple(np.frombuffer(box, "<f8").reshape(-1, free) for box in leaves)
    learned = Structure(
        groups, numbers[:free], noise, counted[: free**2].reshape(free, free), smooth, pair
    )
    X = np.array([np.frombuffer(x, "<f8") for x, *_ in trials])
    state = np.array([s for _, s, _ in trials])
    y = np.array([value for *_, value in trials], dtype=np.float64)
    settings = Settings.from_dict(migrate_settings(meta["settings"], schema))
    optimizer = Optimizer(read_space(meta["space"]), seed=meta["seed"], settings=settings)
    optimizer.tell(X[state >= 2], y[state >= 2])
    optimizer.restore(State(asked, learned, boxes), X[state < 2])
    return optimizer


@pytest.mark.parametrize("schema", [1, 2, 3])
def test_a_study_of_an_earlier_schema_asks_for_the_points_it_would_have(
    tmp_path: Path, schema: int
) -> None:
    path = tmp_path / "a.ebo"
    shutil.copy(HERE / f"study-{schema}.ebo", path)
    optimizer = earlier(path, schema)

    def value(X: Floats) -> Floats:
        return -(X[:, 3] ** 2)

    expected = []
    for n in (5, 4):
        expected.append(optimizer.ask(n))
        optimizer.tell(expected[-1], value(expected[-1]))
    with Study.open(path, read_only=True) as reader:
        np.testing.assert_array_equal(reader.optimizer.ask(5), expected[0])
    assert schema_of(path) == schema
    with Study.open(path) as study:
        assert (study.settings.ensemble.additive.probes is None) == (schema < 3)
        for X in expected:
            np.testing.assert_array_equal(study.ask(len(X)), X)
            study.tell(X, value(X))
    assert schema_of(path) == 4
    with Study.open(path) as study:
        np.testing.assert_array_equal(study.ask(3), optimizer.ask(3))


def test_what_ctrl_c_had_lost_waits_again(tmp_path: Path) -> None:
    path = tmp_path / "a.ebo"
    shutil.copy(HERE / "study-3.ebo", path)
    with closing(sqlite3.connect(path)) as db, db:
        lost = "UPDATE results SET state = 5, value = NULL, error = ? WHERE id = ?"
        db.executemany(lost, [("interrupted", 20), ("the worker died", 21)])
    with Study.open(path) as study:
        assert study.trial(20)["state"] == "waiting"
        assert study.trial(20)["error"] is None
        assert study.trial(21)["state"] == "lost"
        assert 20 in study.storage.waiting()[0]
        study.storage.finish({20: done(0.5)})


@pytest.mark.parametrize("schema", [1, 2, 3])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE state SET density = zeroblob(8)",
        "UPDATE state SET density = 'x'",
        "UPDATE state SET density = CAST(density || x'00' AS BLOB)",
        "UPDATE state SET together = zeroblob(10)",
        "UPDATE meta SET json = '{'",
    ],
)
def test_a_damaged_file_is_told_and_left_as_it_is(
    tmp_path: Path, schema: int, statement: str
) -> None:
    path = tmp_path / "a.ebo"
    shutil.copy(HERE / f"golden-{schema}.ebo", path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement)
    before = path.read_bytes()
    for read_only in (True, False):
        with pytest.raises(DamagedStudyError):
            SQLiteStorage.open(path, read_only=read_only)
    assert path.read_bytes() == before


def test_tables_of_another_schema_are_not_taken_for_ours(tmp_path: Path) -> None:
    for schema, told in ((3, 4), (4, 3)):
        path = tmp_path / f"{schema}.ebo"
        shutil.copy(HERE / f"golden-{schema}.ebo", path)
        with closing(sqlite3.connect(path)) as db:
            db.execute(f"PRAGMA user_version = {told}")
        with pytest.raises(DamagedStudyError, match=f"not those of schema {told}"):
            SQLiteStorage.open(path)


def test_a_migration_that_is_stopped_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ebo.study.storage import migration

    path = tmp_path / "a.ebo"
    shutil.copy(HERE / "golden-2.ebo", path)

    def stops(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(migration, "_migrate_meta", stops)
        with pytest.raises(KeyboardInterrupt):
            SQLiteStorage.open(path)
    assert schema_of(path) == 2
    check_built(path, SEEDS[2])
