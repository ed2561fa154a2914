"""The core's product of a triangle with many points, against NumPy, on every instruction set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ebo import native

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Every number of points up to some vectors, every remainder of rows: largest errors."""
    rng = np.random.default_rng(0)
    worst = 0.0
    for n in [*range(20), 63, 200]:
        for points in [0, 1, 2, 7, 8, 9, 16, 17, 33, 41, 48, 49, 100]:
            stored = np.tril(rng.standard_normal((n + 3, n + 3))).astype(np.float32)
            kappa = rng.standard_normal((points, n)).astype(np.float32)
            w, base = rng.standard_normal((2, n + 3)).astype(np.float32)
            mean, square, v = native.whiten(kappa, stored, w, base[:n])
            assert len(mean) == len(square) == points
            exact = base[:n] + kappa.astype(np.float64) @ stored[:n, :n].T.astype(np.float64)
            scale = 1.0 + np.sqrt(n)
            errors = [
                np.abs(v.T[:points] - exact) / scale,
                np.abs(mean - exact @ w[:n]) / scale**2,
                np.abs(square - np.sum(exact**2, axis=1)) / scale**3,
            ]
            worst = max(worst, *(float(error.max(initial=0.0)) for error in errors))
    print(native.instruction_set(), worst)


@pytest.mark.parametrize("isa", native.instruction_sets())
def test_the_product_and_its_moments(isa: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tests.test_triangle"],
        env={**os.environ, "EBO_SIMD": isa},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    name, worst = result.stdout.split()
    assert name == isa
    assert 0.0 < float(worst) < 1e-5


def test_arrays_that_do_not_fit_are_refused() -> None:
    def zeros(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return np.zeros(shape, np.float32)

    fitting = zeros(2, 5), zeros(5, 5), zeros(5), zeros(5)
    assert native.whiten(*fitting)[0].tolist() == [0.0, 0.0]
    for which, wrong in ((1, zeros(4, 5)), (1, zeros(5, 4)), (2, zeros(4)), (3, zeros(6))):
        given = [*fitting]
        given[which] = wrong
        with pytest.raises(ValueError, match="lengths"):
            native.whiten(*given)


if __name__ == "__main__":
    main()
