"""The file goes away while a study is open: it is noticed, told, and what there was is saved."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from ebo.space import Float, Space
from ebo.study.storage import access
from ebo.study.storage.base import StudyError
from ebo.study.storage.file import LostStudyError
from ebo.study.storage.sqlite import SQLiteStorage
from ebo.study.storage.trial import TrialState
from ebo.study.study import Study
from tests.study.storage.test_sqlite import NOW, batch, done, same


def wal(path: Path) -> Path:
    return Path(f"{path}-wal")


def put_another(path: Path) -> None:
    """Another good study in its place."""
    other = path.with_name("other.ebo")
    SQLiteStorage.create(other, 2, {}).close()
    os.replace(other, path)


def copy_over(path: Path) -> None:
    """A copy of itself, as editors and synchronisers put it in place."""
    os.replace(shutil.copy(path, f"{path}.2"), path)


ACCIDENTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "removed": (Path.unlink, "it was removed or moved"),
    "moved": (lambda p: p.rename(p.with_name("b.ebo")), "it was removed or moved"),
    "replaced": (put_another, "it was replaced by another file"),
    "copied over": (copy_over, "it was replaced by another file"),
    "cut": (lambda p: os.truncate(p, os.path.getsize(p) // 2), "it was cut from"),
    "emptied": (lambda p: os.truncate(p, 0), "it was cut from .* to 0 bytes"),
    "-wal removed": (lambda p: wal(p).unlink(), "its -wal was removed"),
    "-shm removed": (lambda p: Path(f"{p}-shm").unlink(), "its -shm was removed"),
    "directory removed": (lambda p: shutil.rmtree(p.parent), "it was removed or moved"),
    "directory moved": (lambda p: p.parent.rename(p.parent.with_name("d2")), "removed or moved"),
}  # fmt: skip


def rescued(folder: Path) -> Path:
    (found,) = folder.rglob("*.rescued.ebo")
    return found


@pytest.mark.parametrize("accident", ACCIDENTS)
def test_every_write_notices_and_what_it_brings_is_saved(tmp_path: Path, accident: str) -> None:
    do, said = ACCIDENTS[accident]
    (tmp_path / "d").mkdir()
    path = tmp_path / "d" / "a.ebo"
    store = SQLiteStorage.create(path, 2, {"note": "mine"})
    ids = batch(store, 20)
    store.add_told(np.zeros((300, 2)), np.arange(300.0))
    store._access.connection.execute("PRAGMA wal_checkpoint")  # type: ignore[union-attr]
    store.start(ids, NOW)
    store.finish({int(i): done(float(i)) for i in ids[:10]})
    state = store.state()
    do(path)
    with pytest.raises(LostStudyError, match=f"a.ebo is no longer the file.*{said}") as first:
        store.finish({10: done(10.0)})
    copy = rescued(tmp_path)
    assert f"is saved in {copy}; rename that to {path}" in str(first.value)
    assert copy.parent == (tmp_path if "directory" in accident else path.parent)
    # Whatever comes now is kept too, and told to be where it is.
    with pytest.raises(LostStudyError, match="is saved in"):
        store.finish({11: done(11.0)})
    assert store.counts()[TrialState.DONE] == 312
    with pytest.raises(StudyError, match="is in use by this process"):
        SQLiteStorage.open(copy)
    store.close()
    assert not list(tmp_path.rglob("*.new*"))
    with SQLiteStorage.open(copy) as again:
        again.check()
        assert again.meta == {"note": "mine"}
        assert again.counts()[TrialState.DONE] == 312
        assert again.trial(11).value == 11.0
        assert same(again.state(), state)
        batch(again, 2, 1)


def test_an_emptied_wal_is_noticed_where_that_loses_something(tmp_path: Path) -> None:
    path = tmp_path / "a.ebo"
    with SQLiteStorage.create(path, 2, {}) as store:
        batch(store, 20)
        with closing(sqlite3.connect(path)) as other:  # does it as it should be done
            assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        assert wal(path).stat().st_size == 0
        batch(store, 20, 1)
        with closing(sqlite3.connect(path)) as other:
            other.execute("VACUUM")
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        batch(store, 20, 2)
        os.truncate(wal(path), 0)
        with pytest.raises(LostStudyError, match="its -wal was cut from"):
            store.finish({0: done(0.0)})


def test_what_cannot_be_saved_is_told_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.ebo"
    with SQLiteStorage.create(path, 2, {}) as store:
        batch(store, 3)
        path.unlink()

        def full(db: sqlite3.Connection, path: str) -> str:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(access, "rescue", full)
            with pytest.raises(LostStudyError, match=r"could not be saved elsewhere .*No space"):
                store.finish({0: done(1.0)})
        with pytest.raises(LostStudyError, match="is saved in"):
            store.finish({0: done(1.0)})
    with SQLiteStorage.open(rescued(tmp_path)) as store:
        assert store.trial(0).value == 1.0


def test_an_earlier_copy_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.ebo"
    (tmp_path / "a.rescued.ebo").write_text("of last week")
    with SQLiteStorage.create(path, 2, {}) as store:
        path.unlink()
        with pytest.raises(LostStudyError, match=r"is saved in .*/a\.rescued-2\.ebo"):
            batch(store, 3)
    assert (tmp_path / "a.rescued.ebo").read_text() == "of last week"


def test_a_study_goes_on_with_its_copy(tmp_path: Path) -> None:
    path = tmp_path / "a.ebo"
    with Study.create(path, Space(x=Float(0, 1))) as study:
        calls = 0

        def f(p: dict[str, float]) -> float:
            nonlocal calls
            calls += 1
            if calls == 7:
                path.unlink()
            return p["x"]

        with pytest.raises(LostStudyError, match="is saved in"):
            study.run(f, batch_size=5, iterations=2)
    with Study.open(rescued(tmp_path)) as study:
        assert study.counts()["done"] == calls == 7
        assert study.counts()["waiting"] == 3
        study.run(f, batch_size=5, iterations=2)
        assert study.counts()["done"] == 15


@pytest.mark.parametrize("last", [False, True])
def test_a_run_whose_file_goes_away_does_not_end_well(tmp_path: Path, last: bool) -> None:
    (tmp_path / "s.toml").write_text(
        '[objective]\npython = "o:f"\n[space]\nx = {float = [0, 1]}\n'
        "[search]\nbatch_size = 5\niterations = 2\n[evaluate]\nworkers = 2\n"
    )
    (tmp_path / "o.py").write_text(
        "import os, time\ndef f(p):\n    open('log', 'a').write('x')\n"
        f"    if os.path.getsize('log') == {15 if last else 7}:\n        os.unlink('s.ebo')\n"
        "    time.sleep(0.02)\n    return p['x']\n"
    )
    code = "import sys; from ebo.cli import main; sys.argv = ['ebo', 'run', 's.toml']; main()"
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "Best value" not in ended.stdout
    assert "s.ebo is no longer the file of this study" in " ".join(ended.stderr.split())
    with Study.open(tmp_path / "s.rescued.ebo") as study:
        counts = study.counts()
    # One more may have run when the file was missed; then it waits.
    assert counts["done"] in ((14, 15) if last else (6, 7, 8))
