"""The writer's lock: who is refused, and what a crash leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ebo.study.storage.lock import HeldError, Lock


@contextmanager
def process(code: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that runs `code`, with Lock and `path`, and has printed its first line."""
    head = "import os, sys, time, fcntl\nfrom ebo.study.storage.lock import HeldError, Lock\n"
    with subprocess.Popen(
        [sys.executable, "-c", f"{head}path = sys.argv[1]\n{code}", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def line(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline().strip()


HOLD = "lock = Lock(path)\nprint('held', flush=True)\nsys.stdin.read()"


def test_a_process_is_refused_by_itself_and_the_file_goes_with_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    lock = Lock(str(path))
    who = json.loads(path.read_text())  # closes a descriptor: POSIX gives the lock up, here alone
    assert who["pid"] == os.getpid()
    (tmp_path / "link.lock").symlink_to(path)
    for name in ("a.lock", "link.lock"):
        with pytest.raises(HeldError, match=f"process {os.getpid()}.* open already"):
            Lock(str(tmp_path / name))
    lock.release()
    lock.release()
    assert not path.exists()
    Lock(str(path)).release()


def test_another_process_is_refused_at_once_and_told_who_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with process(HOLD, path) as holder:
        assert line(holder) == "held"
        said = rf"^process {holder.pid} on \S+ since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d$"
        for _ in range(2):  # looking does not take it away
            with pytest.raises(HeldError, match=said):
                Lock(str(path))


def test_what_a_killed_holder_leaves_is_not_in_the_way(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with process(HOLD, path) as holder:
        assert line(holder) == "held"
        holder.kill()
        holder.wait()
    assert path.exists()
    lock = Lock(str(path))
    assert json.loads(os.pread(lock._fd, 1000, 0))["pid"] == os.getpid()
    lock.release()


def test_forked_workers_that_outlive_the_holder_do_not_keep_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    code = (
        "lock = Lock(path)\n"
        "child = os.fork()\n"
        "if child == 0:\n    time.sleep(60)\n    os._exit(0)\n"
        "print(child, flush=True)\nsys.stdin.read()"
    )
    with process(code, path) as holder:
        child = int(line(holder))
        try:
            with pytest.raises(HeldError):
                Lock(str(path))
            holder.kill()
            holder.wait()
            os.kill(child, 0)  # it lives
            Lock(str(path)).release()
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_forked_process_cannot_give_up_or_share_its_parents_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    code = """
lock = Lock(path)
child = os.fork()
if child == 0:
    lock.release()
    try:
        Lock(path)
    except HeldError as held:
        os._exit(0 if f"process {os.getppid()} " in str(held) else 1)
    os._exit(2)
print(os.waitpid(child, 0)[1], flush=True)
sys.stdin.read()
"""
    with process(code, path) as holder:
        assert line(holder) == "0"
        assert path.exists()
        with pytest.raises(HeldError, match=f"process {holder.pid} "):
            Lock(str(path))


@pytest.mark.parametrize("text", ["", "nonsense", '{"pid": []}', "[" * 2000, '{"time": 1e300}'])
def test_a_holder_that_is_not_named_is_another_process(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.lock"
    path.write_text(text)
    code = (
        "f = open(path, 'r+')\nfcntl.lockf(f, fcntl.LOCK_EX)\nprint(flush=True)\nsys.stdin.read()"
    )
    with process(code, path) as holder:
        line(holder)
        with pytest.raises(HeldError, match="another process"):
            Lock(str(path))


def test_a_file_that_was_replaced_is_left_to_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    lock = Lock(str(path))
    path.unlink()
    path.write_text("somebody else's")
    lock.release()
    assert path.read_text() == "somebody else's"


def test_only_one_of_many_has_it_while_they_come_and_go(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    code = """
taken = 0
print("ready", flush=True)
sys.stdin.readline()
while taken < 100:
    try:
        lock = Lock(path)
    except HeldError:
        continue
    os.close(os.open(path + ".proof", os.O_CREAT | os.O_EXCL))  # fails if another has it
    os.unlink(path + ".proof")
    lock.release()
    taken += 1
print(taken, flush=True)
"""
    with process(code, path) as one, process(code, path) as two, process(code, path) as three:
        crowd = (one, two, three)
        assert [line(each) for each in crowd] == ["ready"] * 3
        for each in crowd:
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        assert [line(each) for each in crowd] == ["100"] * 3
    assert not path.exists()
