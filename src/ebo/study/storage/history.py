"""Changing what was recorded: trials that failed are tried again."""

from __future__ import annotations

import sqlite3

from ebo.study.storage.base import refuse_retry, refuse_unknown
from ebo.study.storage.trial import TrialState


def retry(db: sqlite3.Connection, id: int, n: int, name: str) -> None:
    """Make a trial wait again that has failed, one of n."""
    if not 0 <= id < n:
        refuse_unknown(id, n, name)
    state = db.execute("SELECT state FROM trials WHERE id = ?", (id,)).fetchone()[0]
    if state <= TrialState.DONE:
        refuse_retry(id, TrialState(state))
    db.execute("INSERT INTO open SELECT id, NULL, attempts FROM results WHERE id = ?", (id,))
    db.execute("DELETE FROM results WHERE id = ?", (id,))
