"""What a file brings beside our tables never runs: it is refused, whatever its name and place."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ebo.study.storage import file
from ebo.study.storage.base import StudyError
from ebo.study.storage.file import DamagedStudyError, connect
from ebo.study.storage.migration import in_memory
from ebo.study.storage.sqlite import SQLiteStorage
from tests.study.storage.test_sqlite import build

TRIGGER = "CREATE TRIGGER {} AFTER INSERT ON results BEGIN UPDATE results SET value = 99; END"
ROW = "INSERT INTO sqlite_master (rowid, type, name, tbl_name, rootpage, sql) VALUES "


def hidden(rowid: int, kind: str, name: str, table: str, sql: str) -> Callable[[Path], None]:
    """Puts a row into the list of tables itself, which takes names that SQL would not."""

    def put(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA writable_schema = ON")
            db.execute("UPDATE sqlite_master SET rowid = rowid * 2 + 100")
            db.execute(f"{ROW} (?, ?, ?, ?, 0, ?)", (rowid, kind, name, table, sql))

    return put


def plain(*statements: str) -> Callable[[Path], None]:
    def put(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            for statement in statements:
                db.execute(statement)

    return put


STRANGE = {
    "a trigger of SQLite's name": hidden(
        900, "trigger", "sqlite_stat9", "results", TRIGGER.format("sqlite_stat9")
    ),
    "a trigger of an index's name": hidden(
        900,
        "trigger",
        "sqlite_autoindex_results_1",
        "results",
        TRIGGER.format("sqlite_autoindex_results_1"),
    ),
    "a trigger before the table of its name": hidden(
        101, "trigger", "results", "results", TRIGGER.format("results")
    ),
    "a trigger first of all": hidden(1, "trigger", "results", "results", TRIGGER.format("results")),
    "a trigger after it": hidden(900, "trigger", "meta", "results", TRIGGER.format("meta")),
    "a view of SQLite's name": hidden(
        900, "view", "sqlite_x", "sqlite_x", "CREATE VIEW sqlite_x AS SELECT 1"
    ),
    "another list of tables": hidden(
        900,
        "view",
        "sqlite_master",
        "sqlite_master",
        "CREATE VIEW sqlite_master AS SELECT 1 AS type",
    ),
    "another view": plain("DROP VIEW trials", "CREATE VIEW trials AS SELECT * FROM points"),
    "one more view": plain("CREATE VIEW more AS SELECT * FROM points"),
    "an index": plain("CREATE INDEX i ON results (value)"),
    "an index on an expression": plain("CREATE INDEX i ON results (abs(value))"),
    "statistics": plain("CREATE INDEX i ON results (value)", "ANALYZE", "DROP INDEX i"),
    "two tables in one": plain(
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master "
        "WHERE name = 'points') WHERE name = 'open'",
    ),
}


@pytest.mark.parametrize("strange", STRANGE)
@pytest.mark.parametrize("read_only", [False, True])
def test_whatever_is_not_ours_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strange: str, read_only: bool
) -> None:
    monkeypatch.setattr(file, "CHECKED_SIZE", 0)  # large files are not read through
    path = tmp_path / "a.ebo"
    build(path)
    SQLiteStorage.open(path, read_only=read_only).close()
    STRANGE[strange](path)
    before = path.read_bytes()
    with pytest.raises(DamagedStudyError, match="is damaged"):
        SQLiteStorage.open(path, read_only=read_only)
    assert path.read_bytes() == before


def test_connections_trust_nothing_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.ebo"
    build(path)
    said: list[str] = []
    real = sqlite3.connect

    def listening(*arguments: object, **options: object) -> sqlite3.Connection:
        connection: sqlite3.Connection = real(*arguments, **options)  # type: ignore[call-overload]
        connection.set_trace_callback(said.append)
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", listening)
        SQLiteStorage.open(path).close()
    assert said[:4] == [
        "PRAGMA trusted_schema = 0",
        "PRAGMA trusted_schema",
        "PRAGMA cell_size_check = 1",
        "PRAGMA cell_size_check",
    ]
    with closing(in_memory(connect(str(path), "mode=ro"))) as db:
        assert db.execute("PRAGMA trusted_schema").fetchone() == (0,)
        assert db.execute("PRAGMA cell_size_check").fetchone() == (1,)


def test_an_sqlite_that_cannot_is_refused() -> None:
    class Old:
        """Unknown pragmas are not errors: they say nothing."""

        def setlimit(self, *_: object) -> None: ...

        def execute(self, sql: str) -> Old:
            return self

        def fetchone(self) -> None: ...

    with pytest.raises(StudyError, match=r"has no trusted_schema; use .* 3\.31"):
        file.distrust(Old())  # type: ignore[arg-type]
