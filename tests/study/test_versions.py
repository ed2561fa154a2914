"""A study keeps the versions that it was made with."""

from __future__ import annotations

import json
import sqlite3
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy

import ebo
from ebo.space import box
from ebo.study.study import Study

SQUARE = box([0.0, 0.0], [1.0, 1.0])


def f(x: Any) -> float:
    return -float(x @ x)


def change(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Edit the description in a study's file."""
    with closing(sqlite3.connect(path)) as db, db:
        (text,) = db.execute("SELECT json FROM meta").fetchone()
        meta = json.loads(text)
        edit(meta)
        db.execute("UPDATE meta SET json = ?", (json.dumps(meta),))


def made(tmp_path: Path) -> Path:
    path = tmp_path / "s.ebo"
    with Study.create(path, SQUARE) as study:
        study.run(f, batch_size=4, iterations=0)
    return path


def test_the_versions_are_kept(tmp_path: Path) -> None:
    with Study.open(made(tmp_path)) as study:
        kept = study.storage.meta["versions"]
        assert kept == {
            "ebo": ebo.__version__, "numpy": np.__version__, "scipy": scipy.__version__,
        }  # fmt: skip
        study.ask(4)  # no warning


def test_going_on_with_others_warns_once(tmp_path: Path) -> None:
    path = made(tmp_path)
    change(path, lambda meta: meta["versions"].update(numpy="1.2.3"))
    message = (
        rf"s.ebo was made with numpy 1\.2\.3; here is numpy {np.__version__}\. It goes on.*"
        r"Install those for the same trajectory"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # to look at it, or to tell it values, is as it was
        with Study.open(path) as study:
            study.best()
            study.tell([[0.5, 0.5]], [1.0])
    with Study.create(path, SQUARE, exist_ok=True) as study:  # they are not compared
        with pytest.warns(UserWarning, match=message) as caught:
            assert [len(study.ask(4)) for _ in range(2)] == [4, 4]
        assert len(caught) == 1
    with pytest.warns(UserWarning, match=message) as caught:
        ebo.maximize(f, SQUARE, batch_size=4, iterations=4, study=path)
    assert len(caught) == 1


@pytest.mark.parametrize("versions", [None, [], 3, {}, {"other": "1"}])
def test_a_study_that_does_not_say_goes_on(tmp_path: Path, versions: Any) -> None:
    path = made(tmp_path)
    change(path, lambda meta: meta.update(versions=versions))
    with Study.open(path) as study:
        assert len(study.ask(2)) == 2
    change(path, lambda meta: meta.pop("versions"))
    with Study.open(path) as study:
        assert len(study.ask(2)) == 2


def test_what_a_file_says_is_shown_harmless(tmp_path: Path) -> None:
    path = made(tmp_path)
    change(path, lambda meta: meta["versions"].update(scipy="1\x1b[31m\u202e" + "9" * 500))
    with Study.open(path) as study, pytest.warns(UserWarning, match="made with scipy") as caught:
        study.ask(2)
    text = str(caught[0].message)
    assert text.isprintable()
    assert len(text) < len(str(path)) + 400
