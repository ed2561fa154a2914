from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ebo.space import Categorical, Float, Int, Space
from ebo.study.table import TableError, read_csv, read_values

SPACE = Space(
    rate=Float(1e-3, 1.0, log=True), depth=Int(1, 5), kind=Categorical(["a", None, 2.5, True])
)
HEADER = "rate,depth,kind,value\n"


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "table.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_rows_become_points_and_values(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "note,value, rate ,depth,kind\n"
        'hello,1.5,0.01,3,a\n"quoted, with comma",nan,1,5.0,None\n'
        ",,0.001,1,2.5\nx,-1e3,.5,2,True\n",
    )
    X, y = read_csv(path, SPACE)
    np.testing.assert_array_equal(X, [[0.01, 3, 0], [1.0, 5, 1], [0.001, 1, 2], [0.5, 2, 3]])
    np.testing.assert_array_equal(y, [1.5, np.nan, np.nan, -1000.0])


def test_a_byte_order_mark_is_no_harm(tmp_path: Path) -> None:
    path = write(tmp_path, ("\ufeff" + HEADER + "0.5,2,a,1\n").encode())
    assert read_csv(path, SPACE)[1].tolist() == [1.0]


def test_every_wrong_line_is_listed_and_nothing_is_taken(tmp_path: Path) -> None:
    rows = ["0.5,2,a,1", "2.0,2,a,1", "0.5,2.5,a,1", "0.5,9,b,word", "0.5,x,a,1"]
    path = write(tmp_path, HEADER + "\n".join(rows))
    with pytest.raises(TableError) as caught:
        read_csv(path, SPACE)
    message = str(caught.value)
    assert "nothing was taken in" in message
    for part in (
        "line 3: rate is 2.0, outside [0.001, 1.0]",
        "line 4: depth is 2.5; give a whole number",
        "line 5: depth is 9, outside [1, 5]",
        "line 5: kind is 'b'; give one of a, None, 2.5, True",
        "line 5: value is 'word'; give a number",
        "line 6: depth is 'x'; give a number",
    ):
        assert part in message
    assert "line 2" not in message


def test_only_the_first_mistakes_are_shown(tmp_path: Path) -> None:
    path = write(tmp_path, HEADER + "7,2,a,1\n" * 100)
    with pytest.raises(TableError, match=r"\.\.\. and 90 more"):
        read_csv(path, SPACE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lacks the columns 'rate', 'depth', 'kind', 'value'; it has none"),
        ("rate,depth,kind\n1,2,a\n", "lacks the column 'value'"),
        ("rate,rate,depth,kind,value\n1,1,2,a,1\n", "'rate' more than once"),
        ("rate;depth;kind;value\n0,5;2;a;1\n", "separated by semicolons (;); save it with commas"),
        ("rate\tdepth\tkind\tvalue\n", "separated by tabs; save it with commas (,)"),
        (HEADER, "no rows below its header"),
        (HEADER + "0.5,2,a\n", "line 2: 3 fields for 4 columns"),
        (HEADER + '0.5,2,"a,1\n', "unexpected end of data"),
        (HEADER + "0.5,2,\x00,1\n", "kind is '\\x00'"),
        (HEADER + "1e999,2,a,1\n", "rate is 1e999, outside"),
        (HEADER + "nan,2,a,1\n", "rate is nan, outside"),
        (b"\xff\xfe\x00\x01", "codec can't decode"),
        (",".join(f"c{i}" for i in range(1_000_000)), "has 1000000 columns; at most 10000"),
        (HEADER + "0.5,2," + "a" * 200_000 + ",1\n", "field larger than field limit"),
    ],
)
def test_hostile_files(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(TableError) as caught:
        read_csv(write(tmp_path, text), SPACE)
    assert message in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="No such file"):
        read_csv(tmp_path / "none.csv", SPACE)


def test_values_by_number(tmp_path: Path) -> None:
    path = write(tmp_path, "id,rate,value\n3,0.5,1.25\n7,0.1,\n9,0.2,nan\n")
    values, lines = read_values(path)
    assert lines == {3: 2, 9: 4}
    assert set(values) == {3, 9}
    assert values[3] == 1.25
    assert np.isnan(values[9])


@pytest.mark.parametrize(
    ("text", "message"),
    [("id,value\n3,1\n3,2\n", "id 3 is there twice"), ("id,value\nx,1\n", "id is 'x'")],
)
def test_wrong_numbers(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TableError, match=message):
        read_values(write(tmp_path, text))
