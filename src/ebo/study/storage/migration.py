"""Studies of earlier schemas, made into studies of the present one.

======  ===========================================================================================
schema  how it differs from the next
======  ===========================================================================================
1       there is no smooth part of the kernel, nor a setting for probes
2       there is no pair that probes are made of, nor (in most) a setting for probes
3       in the table `state` the BLOB `density` has the smooth part's rates, share and noise at its
        end, and the BLOB `together` the pair; there is no table `revisions`
======  ===========================================================================================

The settings in `meta` differ too; `describe.migrate_settings` knows how. Up to schema 3, what ran
at Ctrl-C was recorded as lost and never tried again. Now it waits to be evaluated, as what ran when
a process was killed always did.
"""

from __future__ import annotations

import json
import sqlite3

from ebo.optimizer import State
from ebo.study.storage import describe
from ebo.study.storage.encoding import read_state, state_row, to_json, unpack
from ebo.study.storage.file import SCHEMA, TABLES, distrust
from ebo.study.storage.trial import TrialState


def migrate(db: sqlite3.Connection) -> None:
    """Bring a file that was checked up to date, in one transaction: wholly or not at all."""
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version == SCHEMA:
        return
    try:
        db.execute("BEGIN IMMEDIATE")
        db.execute(TABLES["revisions"])
        _migrate_state(db)
        _migrate_meta(db, version)
        interrupted = "state = ? AND error = 'interrupted'"
        db.execute(
            f"INSERT INTO open SELECT id, NULL, attempts FROM results WHERE {interrupted}",
            (TrialState.LOST.value,),
        )
        db.execute(f"DELETE FROM results WHERE {interrupted}", (TrialState.LOST.value,))
        db.execute(f"PRAGMA user_version = {SCHEMA}")
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def in_memory(db: sqlite3.Connection) -> sqlite3.Connection:
    """A copy in memory, which may be migrated where the file must stay as it is."""
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    distrust(copy)
    db.backup(copy)
    db.close()
    return copy


def _migrate_state(db: sqlite3.Connection) -> None:
    columns = "asked, z, density, noise, together, lower, upper"
    row = db.execute(f"SELECT {columns} FROM state").fetchone()
    db.execute("DROP TABLE state")
    db.execute(TABLES["state"])
    if row is not None:
        new = state_row(_read_state(*row))
        db.execute(f"INSERT INTO state VALUES (0{', ?' * len(new)})", new)


def _migrate_meta(db: sqlite3.Connection, version: int) -> None:
    meta = json.loads(db.execute("SELECT json FROM meta").fetchone()[0])
    if isinstance(meta, dict) and isinstance(meta.get("settings"), dict):
        meta["settings"] = describe.migrate_settings(meta["settings"], version)
        db.execute("UPDATE meta SET json = ?", (to_json(meta),))


def _read_state(
    asked: int,
    z: bytes | None,
    density: bytes,
    noise: float,
    together: bytes,
    lower: bytes | None,
    upper: bytes | None,
) -> State:
    """The state as schemas 1 to 3 have it; what does not fit is a ValueError or TypeError."""
    if z is None:
        return read_state(asked, None, density, noise, together, *[None] * 6)
    free = len(unpack(z, "<i8"))
    cuts, smooth = _split(density, free)
    counted, pair = _split(together, free * free)
    rates, more = _split(smooth, free)
    share, smooth_noise = unpack(more, "<f8").tolist() if smooth else (None, None)
    mixture = rates or None, share, smooth_noise
    return read_state(asked, z, cuts, noise, counted, *mixture, pair or None, lower, upper)


def _split(blob: bytes, count: int) -> tuple[bytes, bytes]:
    """The first `count` numbers of a BLOB, and the rest."""
    if not isinstance(blob, bytes):
        raise TypeError("not an array")
    return blob[: 8 * count], blob[8 * count :]
