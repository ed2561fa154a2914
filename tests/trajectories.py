"""Golden trajectories: the points that optimizers ask for, to the last bit.

A change of form must not change them. `python -m tests.trajectories` makes the golden file anew,
for each instruction set, and prints what differs from the one before; a commit that needs that says
why. The points depend on rounding, and so on the linear algebra and on NumPy's own vector code. So
these are held to what every machine with AVX2 has (`environment`), and the file names the versions
that it was made with.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ebo import Categorical, Float, Int, Optimizer, Settings, Space, box, native
from ebo.arrays import Floats
from ebo.moves import Climbing, Printed

GOLDEN = Path(__file__).parent / "trajectories.npz"
ASKS = 5
AVX512 = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR X86_V4"

BOX = box([-2.0] * 8, [2.0] * 8)
MIXED = Space(
    rate=Float(1e-6, 1.0, log=True),
    fixed=Int(7, 7),
    depth=Int(1, 9),
    kind=Categorical(["a", "b", "c", "d"]),
    size=Categorical([8, 16, 32], ordered=True),
    units=Int(1, 1000, log=True),
    shift=Float(-2, 6),
)
NOISY = box([0.0] * 5, [1.0] * 5)


def valley(X: Floats, rng: np.random.Generator) -> Floats:
    """A curved valley, and three waves along single dimensions."""
    values: Floats = -np.sum((X[:, 1:5] - X[:, :4] ** 2) ** 2, axis=1)
    values += np.sin(4.0 * X[:, 5:]).sum(axis=1)
    return values


def waves(X: Floats, rng: np.random.Generator) -> Floats:
    """A sum over pairs of dimensions."""
    values: Floats = (np.sin(9.0 * X[:, ::2]) * np.cos(7.0 * X[:, 1::2])).sum(axis=1)
    return values


def mixture(X: Floats, rng: np.random.Generator) -> Floats:
    T = MIXED.to_unit(X)
    values: Floats = (np.sin(5 * T + np.arange(T.shape[1])) - (T - 0.4) ** 2).sum(axis=1)
    return values


def noisy(X: Floats, rng: np.random.Generator) -> Floats:
    """A bowl with noise, to be minimised; one evaluation in ten fails."""
    values: Floats = np.sum((X - 0.3) ** 2, axis=1) + 0.1 * rng.standard_normal(len(X))
    values[rng.random(len(X)) < 0.1] = np.nan
    return values


def around(space: Space, count: int, near: int, rng: np.random.Generator) -> Floats:
    """Points of a space, some of them close to each other: a hill that is well known."""
    T = rng.random((count, int(space.free.sum())))
    T[:near] = np.clip(0.6 + 0.05 * rng.standard_normal((near, T.shape[1])), 0.0, 1.0)
    return space.from_unit(T)


def asked(
    space: Space,
    f: Callable[[Floats, np.random.Generator], Floats],
    *,
    told: int,
    near: int,
    batch: int,
    settings: Settings,
    direction: str = "maximize",
    late: int = 0,
) -> list[Floats]:
    """The points of five asks; so many points of each batch are told one batch later."""
    rng = np.random.default_rng(5)
    optimizer = Optimizer(space, seed=3, direction=direction, settings=settings, workers=2)
    if told:
        X = around(space, told, near, rng)
        optimizer.tell(X, f(X, rng))
    batches, open_points = [], np.empty((0, space.dims))
    for _ in range(ASKS):
        X = optimizer.ask(batch)
        batches.append(X)
        now = np.concatenate([open_points, X[late:]])
        open_points = X[:late]
        optimizer.tell(now, f(now, rng))
    return batches


def cases() -> dict[str, Callable[[], list[Floats]]]:
    """By name: both presets on three problems, and choices that no preset makes."""

    def case(*problem: Any, **options: Any) -> Callable[[], list[Floats]]:
        return lambda: asked(*problem, **options)

    on_box: dict[str, Any] = {"told": 700, "near": 250, "batch": 40}
    on_mixed: dict[str, Any] = {"told": 0, "near": 0, "batch": 30, "late": 7}
    on_noisy: dict[str, Any] = {"told": 400, "near": 50, "direction": "minimize"}
    default, paper = Settings(), Settings.paper()
    small: dict[str, Any] = {"told": 120, "near": 40, "batch": 10}
    found = {
        "default, box": case(BOX, valley, settings=default, **on_box),
        "default, additive": case(BOX, waves, settings=default, **on_box),
        "default, mixed": case(MIXED, mixture, settings=default, **on_mixed),
        "default, noisy": case(NOISY, noisy, settings=default, batch=300, **on_noisy),
        "paper, box": case(BOX, valley, settings=paper, **{**on_box, "batch": 20}),
        "paper, mixed": case(MIXED, mixture, settings=paper, **on_mixed),
        "paper, noisy": case(NOISY, noisy, settings=paper, batch=30, **on_noisy),
    }
    alone = {"mixture": None, "leaf_size": 40}
    others = {
        "tiles": default.changed(kernel="tile-coding", layers=16, leaf_size=40),
        "hat, entropy": default.changed(alone, kernel="hat", acquisition="mes"),
        "paid by volume": default.changed(by="volume", leaf_size=40, overlap=0.1),
        "heuristic": default.changed(
            search=Printed(tries=40, passes=2), acquisition="mes-gumbel", leaf_size=60
        ),
        "no sweeps": default.changed(sweeps=0, leaf_size=40, acquisition="ucb"),
        "fixed": paper.changed(fixed=True, leaf_size=40, layers=16, kernel="hat"),
        "per layer": paper.changed(
            kernel="mondrian-grid", per_layer=True, layers=8, sweeps=2, leaf_size=40
        ),
        "greedy paper": paper.changed(
            {"step.count": 1000},
            search=Climbing(passes=1),
            layers=16,
            leaf_size=40,
            acquisition="pi",
        ),
    }
    found |= {name: case(MIXED, mixture, settings=s, **small) for name, s in others.items()}
    return found


def environment(instruction_set: str) -> dict[str, str]:
    """Environment variables under which the points do not depend on the machine."""
    return {
        **os.environ,
        "EBO_SIMD": instruction_set,
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": AVX512,
    }


def versions() -> str:
    """What else the points depend on."""
    python = ".".join(platform.python_version_tuple()[:2])
    return f"python {python}, numpy {version('numpy')}, scipy {version('scipy')}"


def run(instruction_set: str) -> dict[str, Floats]:
    """All points (asks, n, D) by case, from a process of its own."""
    code = "import sys, tests.trajectories as t; t.write(sys.argv[1])"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.npz"
        subprocess.run(
            [sys.executable, "-W", "ignore::ImportWarning", "-c", code, str(path)],
            env=environment(instruction_set),
            cwd=Path(__file__).parent.parent,
            check=True,
            capture_output=True,
            text=True,
        )
        with np.load(path) as file:
            return dict(file)


def write(path: str) -> None:
    """Compute all cases here and save them."""
    np.savez(path, **{name: np.array(make()) for name, make in cases().items()})  # type: ignore[arg-type]


def main() -> None:
    """Make the golden file anew."""
    before = dict(np.load(GOLDEN)) if GOLDEN.exists() else {}
    found: dict[str, Any] = {"versions": np.array(versions())}
    for name in native.instruction_sets():
        found |= {f"{name}: {case}": points for case, points in run(name).items()}
    for name, points in found.items():
        if name not in before or not np.array_equal(points, before[name]):
            print("new" if name not in before else "differs", name)
    np.savez_compressed(GOLDEN, **found)


if __name__ == "__main__":
    main()
