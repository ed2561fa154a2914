"""What a notebook shows of a space and of an optimizer."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np

from ebo import Categorical, Float, Int, Optimizer, Space, box


def rows(html: str) -> dict[str, str]:
    """The rows of a table of two columns; the text of a caption by ""."""
    table = ElementTree.fromstring(html)
    assert table.tag == "table"
    found = {"": "".join(table.find("caption").itertext())}  # type: ignore[union-attr]
    for row in table.iter("tr"):
        name, value = ("".join(cell.itertext()) for cell in row)
        found[name] = value
    return found


def test_a_space_shows_its_parameters_with_their_ranges() -> None:
    space = Space(rate=Float(1e-5, 0.1, log=True), depth=Int(2, 12), act=Categorical(["a", "b"]))
    assert rows(space._repr_html_()) == {
        "": "Space of 3 parameters",
        "rate": "Float(1e-05, 0.1, log=True)",
        "depth": "Int(2, 12)",
        "act": "Categorical(['a', 'b'])",
    }
    assert rows(box([0.0], [1.0])._repr_html_())[""] == "box of 1 parameter"


def test_names_and_choices_are_escaped() -> None:
    space = Space({"<b>": Float(0, 1), "x": Categorical(["<script>", "&amp;"])})
    html = space._repr_html_()
    assert "<b>" not in html
    assert "<script>" not in html
    assert rows(html)["<b>"] == "Float(0.0, 1.0)"
    assert rows(html)["x"] == "Categorical(['<script>', '&amp;'])"


def test_a_space_of_many_parameters_is_cut_short() -> None:
    found = rows(box([0.0] * 300, [1.0] * 300)._repr_html_())
    assert found[""] == "box of 300 parameters"
    assert len(found) == 22
    assert found["..."] == "280 more"


def test_an_optimizer_shows_how_far_it_is() -> None:
    optimizer = Optimizer(Space({"<x>": Float(0, 1)}), direction="minimize")
    assert rows(optimizer._repr_html_()) == {
        "": "Optimizer",
        "parameters": "1",
        "direction": "minimize",
        "told": "0",
        "pending": "0",
        "best value": "none yet",
    }
    optimizer.ask(3)
    optimizer.tell([[0.25], [0.5]], [1.23456789, np.nan])
    found = rows(optimizer._repr_html_())
    assert (found["told"], found["pending"], found["best value"]) == ("2", "3", "1.23457")
    assert found["best point"] == "{'<x>': 0.25}"
    in_a_box = Optimizer(box([0.0] * 2, [1.0] * 2))
    in_a_box.tell([[0.25, 0.5]], [1.0])
    assert rows(in_a_box._repr_html_())["best point"] == "[0.25 0.5 ]"
