"""The layers of the code: numerics know no files, processes or command line; no package cycles."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import ebo

ROOT = Path(ebo.__file__).parent
# What takes the numerics into use. All else is numeric: a new file or folder is, unless it is here.
UPPER = {
    "ebo",  # the package itself: what a user imports
    "ebo.__main__",
    "ebo.interrupt",
    "ebo.cli",
    "ebo.bench",
    "ebo.study",
    "ebo.optimise",
    "ebo.iteration",  # it has threads
    "ebo.optimizer",
    "ebo.result",  # it is made of an optimizer
}
OUTSIDE = {
    "typer",
    "rich",
    "matplotlib",
    "concurrent",
    "multiprocessing",
    "threading",
    "subprocess",
    "asyncio",
    "socket",
    "sqlite3",
    "json",
    "tomllib",
    "pickle",
    "tempfile",
    "shutil",
    "pathlib",
}
# Cycles among packages that there are still, to be removed: storage knows ebo.study.storage.trial.
KNOWN_CYCLES: set[frozenset[str]] = {frozenset({"ebo.study", "ebo.study.storage"})}


def modules() -> dict[str, Path]:
    """All modules by name; a package is its __init__."""
    found = {}
    for path in sorted([*ROOT.rglob("*.py"), *ROOT.rglob("*.pyi")]):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(tree: ast.AST, name: str = "", package: bool = False) -> Iterator[str]:
    """All that is imported anywhere, but for type checkers; `from a import b` is of a.b."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for other in node.orelse:
                yield from imports(ast.Module([other], []), name, package)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = name.split(".")
                parents = parts[: len(parts) - node.level + package]
                base = ".".join([*parents, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
        else:
            yield from imports(node, name, package)


def imports_of(name: str) -> set[str]:
    """All that a module imports."""
    path = MODULES[name]
    return set(imports(ast.parse(path.read_text("utf-8")), name, path.stem == "__init__"))


def own(name: str) -> str | None:
    """The module of ours that an import is of; None for others."""
    while name:
        if name in MODULES:
            return name
        name = name.rpartition(".")[0]
    return None


def package_of(module: str) -> str:
    """The package that a module is in; a module at the root is one of its own.

    The folders of `ebo.study` are packages of their own; those of `ebo.bench` are parts of it.
    """
    path = MODULES[module]
    package = module if path.stem == "__init__" else module.rpartition(".")[0]
    if path.parent == ROOT:
        return module
    depth = 3 if package.startswith("ebo.study.") else 2
    return ".".join(package.split(".")[:depth])


def is_upper(name: str) -> bool:
    """Whether a module is of the upper layer; `ebo` has all in it, and only itself is meant."""
    return name == "ebo" or any(f"{name}.".startswith(f"{of}.") for of in UPPER - {"ebo"})


def lower() -> list[str]:
    """The numeric modules."""
    return [name for name in MODULES if not is_upper(name)]


def graph() -> dict[str, set[str]]:
    """Packages, and those that each imports."""
    edges: dict[str, set[str]] = {package_of(name): set() for name in MODULES}
    for name in MODULES:
        of = package_of(name)
        edges[of] |= {package_of(found) for found in map(own, imports_of(name)) if found} - {of}
    return edges


def cycles(edges: dict[str, set[str]]) -> set[frozenset[str]]:
    """Sets of packages that reach each other."""
    reached = {start: _reached(start, edges) for start in edges}
    together = {frozenset({a} | {b for b in reached[a] if a in reached[b]}) for a in edges}
    return {group for group in together if len(group) > 1}


def _reached(start: str, edges: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for other in edges[waiting.pop()] - found:
            found.add(other)
            waiting.append(other)
    return found


def test_the_lower_layer_is_all_that_is_numeric() -> None:
    found = set(lower())
    folders = "space", "tilegp", "learning", "moves", "batch", "problems"
    files = "acquisition", "arrays", "belief", "checks", "observations", "partition", "settings"
    for name in (*folders, *files, "standardisation"):
        assert f"ebo.{name}" in found, name
    assert len(found) >= 50
    assert set(MODULES) >= UPPER
    assert {name.split(".")[1] for name in found if name.count(".") > 1} == set(folders)


@pytest.mark.parametrize("name", lower())
def test_numerics_import_nothing_of_the_upper_layer(name: str) -> None:
    for found in imports_of(name):
        assert found.split(".")[0] not in OUTSIDE, f"{name} imports {found}"
        module = own(found)
        assert module is None or module in lower(), f"{name} imports {found}"


def test_there_are_no_cycles_among_packages() -> None:
    assert cycles(graph()) == set()


def test_the_import_statements_that_are_found() -> None:
    code = """
import a
import b.c as d
from e import f, g as h
from e.f import *
if TYPE_CHECKING:
    import hidden
    from hidden import more
else:
    import i
if typing.TYPE_CHECKING:
    import hidden
if other:
    import j
def function():
    from k import l
    class Inner:
        import m
try:
    import n
except ImportError:
    import o
from . import p
from .q import r
from .. import s
"""
    found = set(imports(ast.parse(code), "ebo.study.trial"))
    assert found == {
        "a", "b.c", "e.f", "e.g", "e.f.*", "i", "j", "k.l", "m", "n", "o",
        "ebo.study.p", "ebo.study.q.r", "ebo.s",
    }  # fmt: skip
    assert set(imports(ast.parse("from . import a"), "ebo.study", True)) == {"ebo.study.a"}


def test_cycles_that_are_found() -> None:
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set(), "f": {"a"}}
    assert cycles(edges) == {frozenset("abc")}
    assert cycles({"a": {"b"}, "b": {"c"}, "c": set()}) == set()
