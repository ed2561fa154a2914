"""Changing what was recorded, and keeping what it was in the table `revisions`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from ebo.study.storage.base import refuse_overwrite, refuse_retry, refuse_unknown
from ebo.study.storage.encoding import float_or_none
from ebo.study.storage.trial import Revision, TrialState


def retry(
    db: sqlite3.Connection, ids: Iterable[int], n: int, name: str, time: float | None
) -> None:
    """Make trials that have failed wait again; there are n."""
    for id in ids:
        state = _state(db, id, n, name)
        if not state.finished or state is TrialState.DONE:
            refuse_retry(id, state)
        _keep(db, id, time)
        db.execute("INSERT INTO open SELECT id, NULL, attempts FROM results WHERE id = ?", (id,))
        db.execute("DELETE FROM results WHERE id = ?", (id,))


def overwrite(
    db: sqlite3.Connection, rows: Mapping[int, Any], n: int, name: str, time: float | None
) -> None:
    """Put rows of `encoding.finish_row` in the place of those that finished trials have."""
    update = (
        "UPDATE results SET state = ?, value = ?, started = coalesce(?, started), finished = ?, "
        "attempts = coalesce(?, attempts), error = ? WHERE id = ?"
    )
    for id, row in rows.items():
        state = _state(db, id, n, name)
        if not state.finished:
            refuse_overwrite(id, state)
        _keep(db, id, time)
        db.execute(update, row)


def revisions(db: sqlite3.Connection) -> list[Revision]:
    """What was replaced, in the order in which it was."""
    return [
        Revision(
            int(id),
            TrialState(state),
            float_or_none(value),
            None if error is None else str(error),
            float_or_none(replaced),
        )
        for id, state, value, error, replaced in db.execute(
            "SELECT id, state, value, error, replaced FROM revisions ORDER BY rowid"
        )
    ]


def _state(db: sqlite3.Connection, id: int, n: int, name: str) -> TrialState:
    if not 0 <= id < n:
        refuse_unknown(id, n, name)
    return TrialState(db.execute("SELECT state FROM trials WHERE id = ?", (id,)).fetchone()[0])


def _keep(db: sqlite3.Connection, id: int, time: float | None) -> None:
    copy = "INSERT INTO revisions SELECT id, state, value, error, ? FROM results WHERE id = ?"
    db.execute(copy, (time, id))
