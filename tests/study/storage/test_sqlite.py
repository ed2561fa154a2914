"""The file of a study: round trips, one writer, crashes, damage.

`python -m tests.study.storage.test_sqlite` makes the golden file anew; a change of the format needs
that,
and a new number of the schema.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebo.arrays import Ints
from ebo.learning.base import Structure
from ebo.optimizer import State
from ebo.study.storage import base, encoding, file, memory, migration, trial
from ebo.study.storage import sqlite as module
from ebo.study.storage.base import StudyError
from ebo.study.storage.file import (
    DamagedStudyError,
    LockedStudyError,
    NewerStudyError,
    NotAStudyError,
)
from ebo.study.storage.sqlite import SQLiteStorage
from ebo.study.storage.trial import Evaluation, TrialState
from ebo.tilegp.smooth import Smooth

HERE = Path(__file__).parent
GOLDEN = HERE / "golden-4.ebo"
NOW = 1_700_000_000.25  # seconds


def structure(dims: int, seed: int = 0) -> Structure:
    rng = np.random.default_rng(seed)
    z, density, noise = rng.integers(0, 3, dims), rng.random(dims), float(rng.random())
    together = rng.random((dims, dims))
    smooth = Smooth(0.1 + 0.8 * rng.random(), 1.0 + rng.random(dims), 1e-3) if seed % 2 else None
    pair = rng.random((2, dims)) if seed % 3 == 1 else None
    return Structure(z, density, noise, together, smooth, pair)


def done(value: float, finished: float | None = None) -> Evaluation:
    return Evaluation(TrialState.DONE, value, finished=finished)


def failed(state: TrialState, error: str, finished: float, attempts: int | None) -> Evaluation:
    return Evaluation(state, math.nan, error, NOW + 1, finished, attempts)


def batch(store: SQLiteStorage, n: int, seed: int = 0, *, learned: bool = True) -> Ints:
    """Points of one more batch."""
    asked = store.state().asked + 1
    X = np.random.default_rng(seed).random((n, store.dims))
    state = State(asked, structure(store.dims, asked) if learned else None)
    return store.add_batch(X, state, {"iteration": asked - 1, "best": 1.5, "seconds": {"learn": 2}})


def same(a: State, b: State) -> bool:
    if (a.structure is None) != (b.structure is None) or (a.leaves is None) != (b.leaves is None):
        return False
    arrays = [(np.array(a.asked), np.array(b.asked))]
    if a.structure is not None and b.structure is not None:
        arrays += [
            (np.asarray(getattr(a.structure, name)), np.asarray(getattr(b.structure, name)))
            for name in ("z", "density", "noise", "together")
        ]
        x, y = a.structure.smooth, b.structure.smooth
        if (x is None) != (y is None):
            return False
        if x is not None and y is not None:
            if (x.share, x.noise) != (y.share, y.noise):
                return False
            arrays.append((x.rates, y.rates))
        pairs = a.structure.pair, b.structure.pair
        arrays.append((np.array(pairs[0] is None), np.array(pairs[1] is None)))
        if pairs[0] is not None and pairs[1] is not None:
            arrays.append((pairs[0], pairs[1]))
    if a.leaves is not None and b.leaves is not None:
        arrays += list(zip(a.leaves, b.leaves, strict=True))
    return all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in arrays)


def build(path: Path) -> None:
    """A study with all that there can be in one; the golden files are made so."""
    with SQLiteStorage.create(
        path, 3, {"space": ["a", "b", "c"], "seed": 7, "note": "grüße"}
    ) as store:
        store.add_told([[0.5, 1.0, -2.0], [1e300, -1e-300, 0.0]], [3.25, np.nan], time=NOW)
        ids = batch(store, 5, 1, learned=False)
        store.start(ids[:4], NOW + 1)
        store.finish(
            {
                2: done(-1.5, NOW + 2),
                3: failed(TrialState.FAILED, "ValueError: naïve\n  ✗", NOW + 3, 2),
                4: failed(TrialState.TIMED_OUT, "1 s", NOW + 4, 3),
                5: failed(TrialState.LOST, "", NOW + 5, None),
            }
        )
        X = np.random.default_rng(2).random((2, 3))
        boxes = np.array([[0.0, 0.0, 0.0], [0.5, 0.0, 0.0]]), np.array([[0.5, 1, 1], [1, 1, 1.0]])
        store.add_batch(X, State(2, structure(3, 1), boxes), {"best": -1.5, "bound": float("inf")})
        store.start([7], NOW + 6)


def check_built(path: Path, seed: int = 1) -> None:
    """What `build` wrote is there; `seed` is that of the structure."""
    with SQLiteStorage.open(path, read_only=True) as store:
        store.check()
        assert store.meta == {"space": ["a", "b", "c"], "seed": 7, "note": "grüße"}
        assert store.dims == 3
        trials = store.trials()
        assert trials["id"].tolist() == list(range(9))
        assert trials["batch"].tolist() == [-1, -1, 0, 0, 0, 0, 0, 1, 1]
        assert [str(TrialState(s)) for s in trials["state"]] == [
            *("done", "failed", "done", "failed", "timed out", "lost", "waiting", "running"),
            "waiting",
        ]
        nan = np.nan
        values = [3.25, nan, -1.5, nan, nan, nan, nan, nan, nan]
        np.testing.assert_array_equal(trials["value"], values)
        started = [nan, nan, 1.0, 1, 1, 1, nan, 6, nan]
        np.testing.assert_array_equal(trials["started"] - NOW, started)
        finished = [0, 0, 2.0, 3, 4, 5, nan, nan, nan]
        np.testing.assert_array_equal(trials["finished"] - NOW, finished)
        assert trials["attempts"].tolist() == [0, 0, 1, 2, 3, 1, 0, 1, 0]
        X = [[0.5, 1.0, -2.0], [1e300, -1e-300, 0.0]]
        X += np.random.default_rng(1).random((5, 3)).tolist()
        X += np.random.default_rng(2).random((2, 3)).tolist()
        assert trials["X"].tolist() == X
        assert store.errors() == {3: "ValueError: naïve\n  ✗", 4: "1 s"}
        ids, waiting = store.waiting()
        assert ids.tolist() == [6, 8]
        assert waiting.tolist() == [X[6], X[8]]
        boxes = np.array([[0.0, 0.0, 0.0], [0.5, 0.0, 0.0]]), np.array([[0.5, 1, 1], [1, 1, 1.0]])
        assert same(store.state(), State(2, structure(3, seed), boxes))
        first, second = store.iterations()
        assert (first["batch"], first["best"], first["z"], first["noise"]) == (0, 1.5, None, None)
        assert second["bound"] == np.inf
        assert second["z"].tolist() == structure(3, seed).z.tolist()
        assert second["density"].tolist() == structure(3, seed).density.tolist()
        trial = store.trial(3)
        assert (trial.id, trial.batch, trial.state) == (3, 0, TrialState.FAILED)
        assert (trial.value, trial.started, trial.finished) == (None, NOW + 1, NOW + 3)
        assert (trial.attempts, trial.error) == (2, "ValueError: naïve\n  ✗")
        assert trial.x.tolist() == X[3]
        assert store.counts() == dict(zip(TrialState, [2, 1, 2, 2, 1, 1], strict=True))


def test_everything_comes_back_as_it_was_written(tmp_path: Path) -> None:
    build(tmp_path / "a.ebo")
    assert os.listdir(tmp_path) == ["a.ebo"]  # one file
    check_built(tmp_path / "a.ebo")


def test_a_state_has_a_smooth_part_and_a_pair_or_not(tmp_path: Path) -> None:
    with SQLiteStorage.create(tmp_path / "a.ebo", 3, {}) as store:
        for asked in (1, 2, 3, 4):
            batch(store, 2)
            assert same(store.state(), State(asked, structure(3, asked)))
            density = store.iterations()[-1]["density"]
            assert density.tolist() == structure(3, asked).density.tolist()
    for wrong in ({"smooth": Smooth(0.5, np.ones(2), 0.1)}, {"pair": np.ones((2, 2))}):
        with pytest.raises(ValueError, match="do not fit each other"):
            encoding.state_row(State(1, replace(structure(3, 1), **wrong)))


ONES = "x'" + encoding.pack(np.ones(3), "<f8").hex() + "'"


@pytest.mark.parametrize(
    "wrong",
    [
        "rates = zeroblob(16), share = 0.5, smooth_noise = 0.1",
        f"rates = {ONES} || x'00', share = 0.5, smooth_noise = 0.1",
        f"rates = {ONES}, share = 0.5",
        f"rates = {ONES}, share = 0, smooth_noise = 0.1",
        f"rates = {ONES}, share = 1, smooth_noise = 0.1",
        "rates = zeroblob(24), share = 0.5, smooth_noise = 0.1",
        "rates = x'000000000000f87f000000000000f03f000000000000f03f', share = 0.5, "
        "smooth_noise = 0.1",
        f"rates = {ONES}, share = 0.5, smooth_noise = 9e999",
        f"rates = {ONES}, share = 0.5, smooth_noise = 0.0",
        f"rates = {ONES}, share = 'x', smooth_noise = 0.1",
        "share = 0.5",
        "pair = zeroblob(8)",
        "pair = zeroblob(56)",
        f"pair = {ONES}",
        "density = zeroblob(16)",
        "density = zeroblob(64)",
        "together = zeroblob(8)",
        "together = zeroblob(80)",
        "together = zeroblob(120)",
    ],
)
def test_a_damaged_state_is_told(wrong: str, tmp_path: Path) -> None:
    with SQLiteStorage.create(tmp_path / "a.ebo", 3, {}) as store:
        batch(store, 2)
        ids = batch(store, 2)  # the second has neither a smooth part nor a pair
        assert len(ids)
    with closing(sqlite3.connect(tmp_path / "a.ebo")) as db:
        db.execute(f"UPDATE state SET {wrong}")
        db.commit()
    with SQLiteStorage.open(tmp_path / "a.ebo") as store, pytest.raises(DamagedStudyError):
        store.state()


def test_people_can_look_at_the_trials_with_an_sqlite_shell() -> None:
    connection = sqlite3.connect(f"file:{GOLDEN}?mode=ro&immutable=1", uri=True)
    rows = connection.execute("SELECT id, state, value, attempts FROM trials").fetchall()
    connection.close()
    assert rows[2:5] == [(2, 2, -1.5, 1), (3, 3, None, 2), (4, 4, None, 3)]
    assert [row[1] for row in rows] == [2, 3, 2, 3, 4, 5, 0, 1, 0]


floats = st.floats(allow_nan=False, allow_infinity=False)


@given(data=st.data(), dims=st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_round_trip_of_any_numbers(data: st.DataObject, dims: int) -> None:
    points = st.lists(st.lists(floats, min_size=dims, max_size=dims), min_size=1, max_size=6)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a ?#%.ebo"
        told = np.array(data.draw(points))
        value = st.floats()
        values = data.draw(st.lists(value, min_size=len(told), max_size=len(told)))
        asked = np.array(data.draw(points))
        error = data.draw(st.text(st.characters()) | st.none())
        result = data.draw(floats)
        made = structure(dims, data.draw(st.integers(0, 100)))
        with SQLiteStorage.create(path, dims, {}) as store:
            store.add_told(told, values)
            ids = store.add_batch(asked, State(1, made), {})
            ended = Evaluation(TrialState.DONE, result, error or "", 1.0, 2.0, 1)
            X = store.finish({int(ids[-1]): ended})
            assert X.tolist() == [asked[-1].tolist()]
        with SQLiteStorage.open(path) as store:
            trials = store.trials()
            assert trials["X"].tolist() == [*told.tolist(), *asked.tolist()]
            good = np.isfinite(values)
            n = len(values)
            assert trials["value"][:n][good].tolist() == np.array(values)[good].tolist()
            assert np.isnan(trials["value"][:n][~good]).all()
            assert ((trials["state"][:n] == TrialState.DONE) == good).all()
            assert trials["value"][-1] == result
            shown = error.encode("utf-8", "replace").decode() if error else None
            assert store.trial(int(ids[-1])).error == shown
            assert same(store.state(), State(1, made))


def test_an_empty_study_and_large_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "CHUNK", 7)
    with SQLiteStorage.create(
        tmp_path / "a.ebo", 600, {}
    ) as store:  # rows of more than half a page
        assert store.trials()["X"].shape == (0, 600)
        assert store.waiting()[1].shape == (0, 600)
        assert same(store.state(), State())
        assert store.iterations() == []
        assert set(store.counts().values()) == {0}
        with pytest.raises(StudyError, match=r"no trial 0 .*none yet"):
            store.trial(0)
        X = np.random.default_rng(0).random((50, 600))
        store.add_told(X, X.sum(axis=1))
        batch(store, 20)
        store.check()
        trials = store.trials()
        np.testing.assert_array_equal(trials["X"][:50], X)
        np.testing.assert_array_equal(trials["value"][:50], X.sum(axis=1))
        with pytest.raises(StudyError, match=r"no trial 70 .*the last is 69"):
            store.trial(70)


def test_what_is_wrong_is_refused_and_nothing_of_it_is_stored(tmp_path: Path) -> None:
    with SQLiteStorage.create(tmp_path / "a.ebo", 2, {}) as store:
        ids = batch(store, 4)
        store.finish({1: done(1.0)})
        wrong: Any = None
        for wrong, message in (
            ({0: done(1.0), 1: done(2.0)}, r"trial 1 is finished already \(done\)"),
            ({0: done(1.0), 4: done(1.0)}, r"no trial 4 .*the last is 3"),
            ({0: done(1.0), -1: done(1.0)}, "no trial -1"),
            ({2**63: done(1.0)}, "whole numbers"),
            ({0.5: done(1.0)}, "whole numbers"),
        ):
            with pytest.raises(StudyError, match=message):
                store.finish(wrong)
        with pytest.raises(StudyError, match="trial 1 is finished already"):
            store.start(ids, NOW)
        for state, value, message in (
            (TrialState.DONE, np.nan, "nan; give a finite one"),
            (TrialState.FAILED, 1.0, "is failed has the value 1.0"),
            (TrialState.RUNNING, np.nan, "cannot end as running"),
        ):
            with pytest.raises(ValueError, match=message):
                store.finish({0: Evaluation(state, value)})
        with pytest.raises(ValueError, match=r"shape \(2, 3\), expected \(n, 2\)"):
            store.add_told(np.zeros((2, 3)), [0, 0])
        with pytest.raises(ValueError, match="not finite"):
            store.add_told([[0, np.nan]], [0])
        with pytest.raises(ValueError, match=r"shape \(2,\) for 1 points"):
            store.add_told([[0, 0]], [0, 1])
        with pytest.raises(StudyError, match=r"batch 0 is in .* already"):
            store.add_batch([[0, 0]], State(1), {})
        with pytest.raises(TypeError, match="does not fit JSON"):
            store.add_batch([[0, 0]], State(2), {"a": object()})
        store.start([], NOW)
        assert store.finish({}).shape == (0, 2)
        counts = store.counts()
        assert (counts[TrialState.WAITING], counts[TrialState.DONE], sum(counts.values())) == (
            3,
            1,
            4,
        )
        assert store.trial(1).value == 1.0
        store.check()


def test_any_exception_inside_undoes_the_transaction(tmp_path: Path) -> None:
    with SQLiteStorage.create(tmp_path / "a.ebo", 2, {}) as store:
        batch(store, 2)

        def stops() -> None:
            with store._writing() as db:
                db.execute("DELETE FROM points")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            stops()
        assert len(store.trials()["id"]) == 2
        batch(store, 2)


def test_states_have_names() -> None:
    names = ["waiting", "running", "done", "failed", "timed out", "lost"]
    assert [str(state) for state in TrialState] == names


# Opening.


def test_files_that_are_no_studies(tmp_path: Path) -> None:
    text, empty, other = (tmp_path / name for name in ("text", "empty", "other.db"))
    text.write_text("hello, this is a text file, and not a short one\n" * 100)
    empty.touch()
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE points (id INTEGER)")
    connection.close()
    before = other.read_bytes()
    for path in (text, empty, other, tmp_path):
        for read_only in (False, True):
            with pytest.raises(NotAStudyError, match=r"not a study|not a file"):
                SQLiteStorage.open(path, read_only=read_only)
    assert other.read_bytes() == before
    assert not empty.read_bytes()
    with pytest.raises(StudyError, match="there is no study at"):
        SQLiteStorage.open(tmp_path / "missing.ebo")
    for path in (text, tmp_path):
        with pytest.raises(StudyError, match=r"exists already; open it .*Study\.open"):
            SQLiteStorage.create(path, 2, {})
    with pytest.raises(StudyError, match="cannot be locked"):
        SQLiteStorage.create(tmp_path / "no" / "such" / "a.ebo", 2, {})
    with pytest.raises(ValueError, match="dims is 0"):
        SQLiteStorage.create(tmp_path / "a.ebo", 0, {})
    assert not list(tmp_path.glob("*.lock"))


def test_a_newer_schema_and_strange_tables_are_told(tmp_path: Path) -> None:
    for statement, error, message in (
        ("PRAGMA user_version = 5", NewerStudyError, "newer ebo .*upgrade"),
        ("PRAGMA user_version = 0", DamagedStudyError, "tables"),
        ("PRAGMA application_id = 5", NotAStudyError, "another program"),
        ("DROP TABLE open", DamagedStudyError, "tables"),
        (
            "CREATE TRIGGER t AFTER INSERT ON points BEGIN DELETE FROM results; END",
            DamagedStudyError,
            "tables",
        ),
    ):
        path = tmp_path / "a.ebo"
        build(path)
        connection = sqlite3.connect(path)
        connection.execute(statement)
        connection.commit()
        connection.close()
        for read_only in (False, True):
            with pytest.raises(error, match=message):
                SQLiteStorage.open(path, read_only=read_only)
        path.unlink()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE meta SET json = '[1]'",
        "UPDATE meta SET json = '{'",
        f"UPDATE meta SET json = '{'[' * 100_000}'",
        "UPDATE meta SET dims = 'x'",
        "UPDATE meta SET dims = 1e300",
        "DELETE FROM meta",
        "UPDATE points SET x = zeroblob(23) WHERE id = 3",
        "UPDATE points SET x = 'abcdefghijklmnopqrstuvwx' WHERE id = 3",
        "UPDATE points SET batch = 'x' WHERE id = 3",
        "UPDATE points SET id = 9223372036854775807 WHERE id = 3",
        "UPDATE points SET id = -5 WHERE id = 3",
        "DELETE FROM points WHERE id = 3",
        "UPDATE results SET state = 77 WHERE id = 3",
        "UPDATE results SET state = 1 WHERE id = 3",
        "UPDATE results SET state = 'x' WHERE id = 3",
        "UPDATE results SET value = 'x' WHERE id = 3",
        "UPDATE results SET id = 6 WHERE id = 3",
        "UPDATE results SET id = -1 WHERE id = 3",
        "DELETE FROM open WHERE id = 6",
        "UPDATE state SET z = zeroblob(7)",
        "UPDATE state SET density = zeroblob(8)",
        "UPDATE state SET together = zeroblob(8)",
        "UPDATE state SET noise = 'x'",
        "UPDATE state SET upper = zeroblob(24)",
        "UPDATE state SET asked = -1",
        "UPDATE iterations SET info = 'x'",
        "UPDATE iterations SET z = 5",
    ],
)
def test_contents_that_nobody_wrote_are_damage(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "a.ebo"
    build(path)
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    with pytest.raises(DamagedStudyError, match=r"is damaged .*restore it from a copy"):  # noqa: SIM117
        with SQLiteStorage.open(path, read_only=True) as store:
            store.check()


def use(path: Path) -> None:
    """All that can be done with a study."""
    for read_only in (True, False):
        with SQLiteStorage.open(path, read_only=read_only) as store:
            store.counts()
            store.waiting()
            n = len(store.trials()["id"])
            store.errors()
            store.iterations()
            store.state()
            if n:
                store.trial(n - 1)
            if not read_only:
                store.reset_running()
                ids, _ = store.waiting()
                store.finish({int(i): done(0.5) for i in ids})
                batch(store, 1)
                store.add_told(np.zeros((1, store.dims)), [1.0])
                store.check()


@pytest.mark.parametrize("with_wal", [False, True])
def test_damaged_files_open_well_or_with_a_clear_error(tmp_path: Path, with_wal: bool) -> None:
    source, path = tmp_path / "source.ebo", tmp_path / "a.ebo"
    build(source)
    whole, wal = source.read_bytes(), b""
    if with_wal:  # as a crash leaves it: some of it in the -wal
        with SQLiteStorage.open(source) as store:
            batch(store, 3)
            batch(store, 2)
            whole, wal = source.read_bytes(), Path(f"{source}-wal").read_bytes()
        assert wal
    rng = np.random.default_rng(int(with_wal))
    opened = refused = 0
    for _ in range(150):
        parts = [bytearray(whole), bytearray(wal)]
        part = parts[int(rng.integers(2)) if with_wal else 0]
        kind = int(rng.integers(4))
        if kind == 0:
            del part[int(rng.integers(len(part))) :]
        elif kind == 1:  # the first bytes of a page say how to read it
            page = int(rng.integers(len(part) // file.PAGE_SIZE)) * file.PAGE_SIZE
            part[page + int(rng.integers(120))] ^= 1 << int(rng.integers(8))
        else:
            for at in rng.integers(len(part), size=20 if kind == 2 else 1):
                part[int(at)] ^= 1 << int(rng.integers(8))
        for suffix, content in zip(("", "-wal", "-shm"), (*parts, b""), strict=True):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
            if content:
                Path(f"{path}{suffix}").write_bytes(bytes(content))
        try:
            use(path)
            opened += 1
        except StudyError:
            refused += 1
    assert opened > 5
    assert refused > 5


def test_nothing_in_the_package_unpickles_or_evaluates_what_is_read() -> None:
    text = "".join(
        Path(str(m.__file__)).read_text()
        for m in (module, base, file, memory, migration, trial, encoding)
    )
    for word in ("pickle", "eval(", "exec(", "marshal", "load_extension", "allow_pickle"):
        assert word not in text


# One writer, many readers.


def test_a_second_writer_is_refused_and_readers_are_not(tmp_path: Path) -> None:
    path = tmp_path / "a.ebo"
    code = (
        "import sys\nfrom ebo.study.storage.file import LockedStudyError\n"
        "from ebo.study.storage.sqlite import SQLiteStorage\n"
        "try:\n    SQLiteStorage.open(sys.argv[1])\n"
        "except LockedStudyError as error:\n    print(error)\n"
        "with SQLiteStorage.open(sys.argv[1], read_only=True) as store:\n"
        "    print(len(store.trials()['id']))"
    )
    with SQLiteStorage.create(path, 2, {}) as store:
        batch(store, 3)
        with pytest.raises(LockedStudyError, match=f"in use by this process .*{os.getpid()}"):
            SQLiteStorage.open(path)
        said = subprocess.check_output([sys.executable, "-c", code, path], text=True).split("\n")
        assert f"{path} is in use by process {os.getpid()} on " in said[0]
        assert "since 20" in said[0]
        assert "read-only" in said[0]
        assert said[1] == "3"
        with SQLiteStorage.open(path, read_only=True) as reader:
            for n in range(3, 30, 3):
                assert len(reader.trials()["id"]) == n
                batch(store, 3, n)
            with pytest.raises(StudyError, match="opened to be read"):
                batch(reader, 1)
    SQLiteStorage.open(path).close()
    with pytest.raises(StudyError, match="is closed"):
        store.counts()
    assert not Path(f"{path}.lock").exists()


def test_a_reader_sees_one_moment_while_a_writer_writes(tmp_path: Path) -> None:
    """Every load is consistent: `trials` checks that each has one state, and batches are whole."""
    path = tmp_path / "a.ebo"
    with SQLiteStorage.create(path, 2, {}):
        pass
    with writer(path) as (process, _):
        deadline, seen = time.monotonic() + 1.5, set[int]()
        while time.monotonic() < deadline or not len(seen) > 3:
            with SQLiteStorage.open(path, read_only=True) as reader:
                n = len(reader.trials()["id"])
                assert n % 5 == 0
                seen.add(n)
            assert process.is_alive()


def test_stale_companions_of_a_deleted_study_are_not_taken_for_the_new_ones(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.ebo"
    old = SQLiteStorage.create(path, 2, {"old": True})
    batch(old, 50)
    left = Path(f"{path}-wal").read_bytes()
    old.close()
    path.unlink()
    Path(f"{path}-wal").write_bytes(left)
    with SQLiteStorage.create(path, 3, {"old": False}) as store:
        assert store.meta == {"old": False}
        store.check()
        assert len(store.trials()["id"]) == 0


def test_a_forked_process_is_refused_and_does_no_harm(tmp_path: Path) -> None:
    code = """
import os, sys
import numpy as np
from ebo.study.storage.sqlite import SQLiteStorage, StudyError
store = SQLiteStorage.create(sys.argv[1], 2, {})
store.add_told(np.zeros((5, 2)), np.zeros(5))
child = os.fork()
if child == 0:
    try:
        store.counts()
    except StudyError as error:
        assert "forked" in str(error)
        store.close()
        sys.exit(7)  # with all of the interpreter's own tidying up
_, status = os.waitpid(child, 0)
store.add_told(np.ones((5, 2)), np.zeros(5))
store.check()
assert os.path.exists(sys.argv[1] + "-wal") and os.path.exists(sys.argv[1] + ".lock")
store.close()
print(os.waitstatus_to_exitcode(status))
"""
    path = tmp_path / "a.ebo"
    assert subprocess.check_output([sys.executable, "-c", code, path], text=True) == "7\n"
    with SQLiteStorage.open(path) as store:
        store.check()
        assert len(store.trials()["id"]) == 10


# Crashes. The processes are forked from a clean one, which has imported everything already.

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([__name__])


def value_of(i: int) -> float:
    return 3.0 * i + 0.5


def write_on(path: str, pipe: Connection) -> None:
    """Go on with a study for ever, and tell which trials are on record as finished."""
    with SQLiteStorage.open(path) as store:
        store.reset_running()
        while True:
            ids, _ = store.waiting()
            if not len(ids):
                batch(store, 5)
                continue
            store.start(ids[:3], time.time())
            for i in ids.tolist():
                store.finish({i: done(value_of(i))})
                pipe.send_bytes(i.to_bytes(8, "little"))


class writer:  # noqa: N801
    """A process that writes on, and the end of the pipe that says what it has written."""

    def __init__(self, path: Path, target: Callable[..., None] = write_on) -> None:
        self.pipe, far = CONTEXT.Pipe(duplex=False)
        self.process = CONTEXT.Process(target=target, args=(str(path), far), daemon=True)
        self.process.start()
        far.close()

    def __enter__(self) -> tuple[Any, Connection]:
        return self.process, self.pipe

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def received(pipe: Connection) -> list[int]:
    """All that was said before the end."""
    said = []
    try:
        while True:
            said.append(int.from_bytes(pipe.recv_bytes(), "little"))
    except (EOFError, OSError):
        return said


def test_a_writer_killed_at_any_instant_loses_and_repeats_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.ebo"
    SQLiteStorage.create(path, 4, {}).close()
    rng = np.random.default_rng(0)
    told: list[int] = []
    for _ in range(30):
        with writer(path) as (process, pipe):
            pipe.poll(20)  # it has begun
            time.sleep(float(rng.uniform(0.0, 0.06)))
            process.kill()
            process.join()
            assert process.exitcode == -9  # it did not end by itself
            told += received(pipe)
        with SQLiteStorage.open(path, read_only=True) as store:  # beside what the crash left
            trials = store.trials()
            done = trials["state"] == TrialState.DONE
            assert done[told].all()
            # Recorded but not told: at most the one at which each of the crashes came.
            assert done.sum() - len(told) <= 30
            assert np.array_equal(trials["value"][done], 3.0 * trials["id"][done] + 0.5)
            assert len(trials["id"]) == 5 * store.state().asked == 5 * len(store.iterations())
    assert len(set(told)) == len(told)  # none twice
    assert len(told) > 100
    with SQLiteStorage.open(path) as store:
        store.check()  # PRAGMA integrity_check, among others
        store.reset_running()
        assert store.counts()[TrialState.RUNNING] == 0
    assert os.listdir(tmp_path) == ["a.ebo"]


def create_on(path: str, pipe: Connection) -> None:
    pipe.send_bytes(b"go")
    while True:
        with SQLiteStorage.create(path, 2, {"whole": True}):
            time.sleep(0.003)
        os.unlink(path)


def test_a_study_is_created_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.ebo"
    rng = np.random.default_rng(0)
    for _ in range(15):
        with writer(path, create_on) as (process, pipe):
            pipe.poll(20)
            time.sleep(float(rng.uniform(0.0, 0.03)))
            process.kill()
            process.join()
            assert process.exitcode == -9  # it did not end by itself
        if not path.exists():
            SQLiteStorage.create(path, 2, {"whole": True}).close()
        with SQLiteStorage.open(path) as store:
            assert store.meta == {"whole": True}
            store.check()
        path.unlink()


def read_as_nobody(path: str, pipe: Connection) -> None:
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    try:
        with SQLiteStorage.open(path, read_only=True) as store:
            said = str(len(store.trials()["id"]))
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    try:
        SQLiteStorage.open(path)
    except Exception as error:
        said += f"; {type(error).__name__}"
    pipe.send_bytes(said.encode())
    time.sleep(60)


def test_a_read_only_directory_can_be_read_also_after_a_crash() -> None:
    folder = Path(tempfile.mkdtemp())
    path = folder / "a.ebo"
    companions = [Path(f"{path}{suffix}") for suffix in ("-wal", "-shm")]
    store = SQLiteStorage.create(path, 2, {})
    try:

        def reads() -> str:
            os.chmod(folder, 0o555)
            with writer(path, read_as_nobody) as (_, pipe):
                said = pipe.recv_bytes().decode()
            os.chmod(folder, 0o755)
            return said

        batch(store, 3)
        assert reads() == "3; StudyError"  # while it is written
        left = [each.read_bytes() for each in companions]
        before = path.read_bytes()
        store.close()
        assert reads() == "3; StudyError"
        path.write_bytes(before)
        for each, content in zip(companions, left, strict=True):
            each.write_bytes(content)
        assert reads() == "3; StudyError"  # after a crash
        companions[1].unlink()
        said = reads()
        assert said.startswith("StudyError")
        assert "copy both" in said
    finally:
        store.close()
        shutil.rmtree(folder)


def test_a_full_disk_is_told_and_what_was_there_stays(tmp_path: Path) -> None:
    with SQLiteStorage.create(tmp_path / "a.ebo", 20, {}) as store:
        batch(store, 5)
        assert store._access.connection is not None
        store._access.connection.execute("PRAGMA max_page_count = 12")
        with pytest.raises(StudyError, match=r"full.*make room.*is safe"):
            batch(store, 1000)
        store._access.connection.execute("PRAGMA max_page_count = 1000")
        assert len(store.trials()["id"]) == 5
        batch(store, 1000)
        store.check()


def test_a_batch_writes_as_much_in_a_large_study_as_in_an_empty_one(tmp_path: Path) -> None:
    """Bytes in the -wal, which do not depend on what else this machine does."""
    path = tmp_path / "a.ebo"

    def written(store: SQLiteStorage) -> int:
        assert store._access.connection is not None
        store._access.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        ids = batch(store, 100)
        store.start(ids, NOW)
        store.finish({int(i): done(1.0) for i in ids})
        return os.path.getsize(f"{path}-wal")

    with SQLiteStorage.create(path, 20, {}) as store:
        written(store)
        small = np.mean([written(store) for _ in range(10)])
        store.add_told(np.random.default_rng(0).random((100_000, 20)), np.zeros(100_000))
        large = np.mean([written(store) for _ in range(10)])
    assert large < 1.6 * small  # an inner page or two more on the way


if __name__ == "__main__":
    GOLDEN.unlink(missing_ok=True)
    build(GOLDEN)
    print(json.dumps({"made": str(GOLDEN), "bytes": GOLDEN.stat().st_size}))
