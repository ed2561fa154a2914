"""What docs/design.md and docs/algorithm.md say of the code is so.

`python -m tests.test_design` prints the drawing of the packages, to be pasted into docs/design.md;
with `--write` it does so itself.

A package here is a folder or a single file right under `src/ebo`; the core and the top level of
`ebo` itself are two more. A reference is `module:name` in backticks: `module` is a file's path
without `.py`, or the end of one that is not in `bench/`, and `name` a function, class, method or
constant of that file.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src" / "ebo"
DESIGN = ROOT / "docs" / "design.md"
ALGORITHM = ROOT / "docs" / "algorithm.md"

Graph = dict[str, set[str]]


@cache
def modules() -> dict[str, Path]:
    """All modules of the package by their dotted names; the core has its stubs."""
    found = {}
    for path in [*SOURCES.rglob("*.py"), SOURCES / "native.pyi"]:
        parts = path.relative_to(SOURCES.parent).with_suffix("").parts
        found[".".join(part for part in parts if part != "__init__")] = path
    return found


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> set[str]:
    """The modules of this package that a file imports, anywhere, but for the sake of types."""
    found: set[str] = set()
    for node in running(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            assert node.level == 0, f"{path} has a relative import; write it in full"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in modules() else node.module)
    return {name for name in found if name in modules()}


def running(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a tree, without what is under `if TYPE_CHECKING`."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            if child in node.orelse:
                yield from running(child)
        else:
            yield from running(child)


def package(module: str) -> str:
    """The folder or file right under `ebo` that a module belongs to."""
    return module.split(".")[1] if "." in module else module


def graph() -> Graph:
    """Which packages each package imports."""
    found: Graph = {}
    for name, path in modules().items():
        others = found.setdefault(package(name), set())
        others |= {package(other) for other in imports(path)} - {package(name)}
    return found


def drawing() -> str:
    """One line for each package: those above import from those below."""
    links = graph()
    depth: dict[str, int] = {}  # of the longest way up from a package that nobody imports
    for name in reversed([*TopologicalSorter(links).static_order()]):
        above = [other for other in links if name in links[other]]
        depth[name] = 1 + max((depth[other] for other in above), default=0)
    lines = []
    for name in sorted(links, key=lambda name: (depth[name], name)):
        inner = ", ".join(sorted(links[name], key=lambda other: (depth[other], other)))
        lines.append(f"{name} -> {inner}" if inner else name)
    return "\n".join(lines)


def blocks(page: Path) -> list[str]:
    """The fenced blocks of a page."""
    return re.findall(r"^```\w*\n(.*?)\n```$", page.read_text(encoding="utf-8"), re.M | re.S)


def test_no_package_imports_itself_by_way_of_others() -> None:
    TopologicalSorter(graph()).prepare()  # raises a CycleError that names the packages


def test_no_module_imports_itself_by_way_of_others() -> None:
    TopologicalSorter({name: imports(path) for name, path in modules().items()}).prepare()


def test_the_drawing_is_that_of_the_imports() -> None:
    drawings = [block for block in blocks(DESIGN) if " -> " in block]
    assert drawings == [drawing()], (
        "the packages import otherwise than docs/design.md shows: paste what "
        "`python -m tests.test_design` prints"
    )


# References.

REFERENCE = re.compile(r"`([\w/]+):([A-Za-z_][\w.]*)`")
SOURCE_FILE = re.compile(r"`((?:native|docs|tests|examples|src)/[\w/.-]+|[\w/]+/)`")
TEST = re.compile(r"`(?:[\w/]+\.py::)?(test_\w+)`")


def defined(path: Path) -> set[str]:
    """What a file defines, methods and fields as `Class.name` and as `name`."""

    def names(body: list[ast.stmt], outer: str) -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield from (node.name, outer + node.name)
                if isinstance(node, ast.ClassDef):
                    yield from names(node.body, f"{node.name}.")
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if isinstance(target, ast.Name):
                        yield from (target.id, outer + target.id)

    return set(names(parsed(path).body, ""))


def files(module: str) -> list[Path]:
    """The file that a reference means; none or several where it is wrong."""
    whole = "ebo." + module.replace("/", ".")
    if whole in modules():
        return [modules()[whole]]
    end = whole.removeprefix("ebo")
    others = [name for name in modules() if not name.startswith("ebo.bench.")]
    return [modules()[name] for name in others if name.endswith(end)]


def missing(page: str) -> list[str]:
    """The references of a page that lead nowhere, or to more than one file."""
    found = []
    for module, name in REFERENCE.findall(page):
        paths = files(module)
        if module.startswith("native/"):
            sources = [ROOT / f"{module}{ending}" for ending in (".hpp", ".cpp")]
            if not any(f.exists() and re.search(rf"\b{name}\b", f.read_text()) for f in sources):
                found.append(f"{module}:{name}")
        elif len(paths) != 1 or name not in defined(paths[0]):
            found.append(f"{module}:{name} ({len(paths)} files)")
    return found


def missing_files(page: str) -> list[str]:
    """The files and folders that a page names and that are not there."""
    return [
        name
        for name in SOURCE_FILE.findall(page)
        if not (ROOT / name).exists() and not (SOURCES / name).exists()
    ]


@pytest.mark.parametrize("page", [DESIGN, ALGORITHM], ids=lambda page: page.name)
def test_every_reference_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(REFERENCE.findall(text)) > 20
    assert missing(text) == []
    assert missing_files(text) == []


def test_every_test_that_is_named_is_there() -> None:
    """By its name alone: tests move from file to file."""
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    names = TEST.findall(ALGORITHM.read_text(encoding="utf-8"))
    assert len(names) > 30
    assert [name for name in names if f"def {name}(" not in tests] == []


def test_a_reference_that_leads_nowhere_is_found() -> None:
    good = "`partition:mondrian`, `learning/base:Structure.simplest`, `native/gibbs:sample_group`"
    assert missing(good) == []
    bad = "`partition:mondrain`, `base:Structure`, `native/gibbs:nothing`, `nowhere:mondrian`"
    assert len(missing(bad)) == 4
    assert missing_files("`learning/`, `native/gibbs.hpp`, `docs/design.md`") == []
    assert len(missing_files("`unlearning/`, `native/gibbs.cpp`")) == 2


if __name__ == "__main__":
    if "--write" in sys.argv:
        page = DESIGN.read_text(encoding="utf-8")
        (old,) = [block for block in blocks(DESIGN) if " -> " in block]
        DESIGN.write_text(page.replace(old, drawing()), encoding="utf-8")
    print(drawing())


def test_every_test_that_reliability_names_is_there() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    names = re.findall(r"`((?:[a-z]+/)*test_[a-z_]+\.py)`", text)
    assert len(names) > 10
    assert [name for name in names if not (ROOT / "tests" / name).exists()] == []
