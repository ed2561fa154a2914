"""One writer of a file, by whatever name."""

from __future__ import annotations

import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ebo.study.storage import inode
from ebo.study.storage.file import LockedStudyError, NotAStudyError
from ebo.study.storage.sqlite import SQLiteStorage
from tests.study.storage.test_lock import line, process
from tests.study.storage.test_sqlite import batch

OPEN = (
    "import sys\nfrom ebo.study.storage.sqlite import SQLiteStorage, StudyError\n"
    "try:\n    SQLiteStorage.open(sys.argv[1]).close()\n    print('opened')\n"
    "except StudyError as error:\n    print(error)"
)
HOLD = (
    "from ebo.study.storage.sqlite import SQLiteStorage\n"
    "store = SQLiteStorage.open(path)\nprint('held', flush=True)\nsys.stdin.read()"
)


def opened_elsewhere(path: Path) -> str:
    return subprocess.check_output([sys.executable, "-c", OPEN, path], text=True).strip()


@pytest.fixture(params=["OFD", "POSIX"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the locks of Linux, and with those that are everywhere."""
    if request.param == "POSIX":
        monkeypatch.setattr("ebo.study.storage.inode.sys.platform", "elsewhere")
    elif sys.platform != "linux":
        pytest.skip("no such locks here")


@pytest.mark.usefixtures("kind")
def test_a_second_writer_by_a_hard_link_is_refused(tmp_path: Path) -> None:
    path, link = tmp_path / "a.ebo", tmp_path / "b.ebo"
    with SQLiteStorage.create(path, 2, {}) as store:
        os.link(path, link)
        batch(store, 3)
        with pytest.raises(LockedStudyError, match=r"b.ebo is in use by this process .*already"):
            SQLiteStorage.open(link)
        assert opened_elsewhere(link).startswith(
            f"{link} is in use by another process, by another name of the same file (a hard link); "
            f"wait for it"
        )
        batch(store, 3, 1)
        assert not list(tmp_path.glob("b.ebo*.lock"))
    assert opened_elsewhere(link) == "opened"
    with SQLiteStorage.open(link):
        pass
    assert not inode._inodes


def test_a_reader_that_closes_gives_nothing_up(tmp_path: Path) -> None:
    """Neither our lock nor those of SQLite, which it would lose with any descriptor."""
    path, link = tmp_path / "a.ebo", tmp_path / "b.ebo"
    store = SQLiteStorage.create(path, 2, {})
    os.link(path, link)
    batch(store, 3)
    reader = SQLiteStorage.open(path, read_only=True)
    SQLiteStorage.open(path, read_only=True).close()
    assert "hard link" in opened_elsewhere(link)
    store.close()
    # The reader still has SQLite's lock: who closes last elsewhere may not take the -wal away.
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    change = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); " + (
        "print(c.execute('PRAGMA journal_mode = DELETE').fetchone()[0])"
    )
    command = [sys.executable, "-c", change, str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "locked" in ended.stderr
    assert opened_elsewhere(path) == "opened"
    assert len(reader.trials()["id"]) == 3
    reader.close()
    assert not inode._inodes


def test_it_ends_with_the_process_also_where_a_worker_lives_on(tmp_path: Path) -> None:
    path, link = tmp_path / "a.ebo", tmp_path / "b.ebo"
    SQLiteStorage.create(path, 2, {}).close()
    os.link(path, link)
    fork = (  # the child says when it is there
        "if os.fork() == 0:\n    print(os.getpid(), flush=True)\n    time.sleep(60)\n"
        "    os._exit(0)\nsys.stdin.read()"
    )
    with process(HOLD.replace("print('held', flush=True)\nsys.stdin.read()", fork), path) as holder:
        child = int(line(holder))
        try:
            with pytest.raises(LockedStudyError, match="hard link"):
                SQLiteStorage.open(link)
            holder.kill()
            holder.wait()
            os.kill(child, 0)  # it lives
            SQLiteStorage.open(link).close()
        finally:
            os.kill(child, signal.SIGKILL)


def test_what_is_refused_leaves_nothing_behind(tmp_path: Path) -> None:
    other = tmp_path / "text"
    other.write_text("not a study " * 100)
    before = set(os.listdir("/dev/fd"))
    for read_only in (False, True):
        with pytest.raises(NotAStudyError):
            SQLiteStorage.open(other, read_only=read_only)
    assert not inode._inodes
    assert len(os.listdir("/dev/fd")) == len(before)


def test_a_file_system_without_such_locks_gets_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(fcntl, "fcntl", missing)
    path, link = tmp_path / "a.ebo", tmp_path / "b.ebo"
    with SQLiteStorage.create(path, 2, {}):
        os.link(path, link)
        assert "hard link" in opened_elsewhere(link)
