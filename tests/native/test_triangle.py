"""The core's product of a triangle with many points, against NumPy, on every instruction set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ebo import native
from ebo.acquisition import ACQUISITIONS, Aim, Goal

ROOT = Path(__file__).parents[2]


def zeros(*shape: int) -> NDArray[np.float32]:
    return np.zeros(shape, np.float32)


def main() -> None:
    """Every number of points up to some vectors, every remainder of rows: largest errors."""
    rng = np.random.default_rng(0)
    worst = 0.0
    for n in [*range(20), 63, 200]:
        for points in [0, 1, 2, 7, 8, 9, 16, 17, 33, 41, 48, 49, 100]:
            stored = np.tril(rng.standard_normal((n + 3, n + 3))).astype(np.float32)
            kappa = rng.standard_normal((points, n)).astype(np.float32)
            w, base = rng.standard_normal((2, n + 3)).astype(np.float32)
            length = (
                3.0 * (1.0 + np.sqrt(n)) * (1.0 + n)
            )  # so that some |v|² are below one, not all
            base, kappa = base / length, kappa / length
            mean, sd, v = native.whiten(kappa, stored, w, base[:n])
            assert len(mean) == len(sd) == points
            exact = base[:n] + kappa.astype(np.float64) @ stored[:n, :n].T.astype(np.float64)
            variance = np.maximum(1.0 - np.sum(exact**2, axis=1), native.KNOWN)
            errors = [
                np.abs(v.T[:points] - exact) * length / (1.0 + np.sqrt(n)),
                np.abs(mean - exact @ w[:n]),
                np.abs(sd**2 - variance),
            ]
            worst = max(worst, *(float(error.max(initial=0.0)) for error in errors))
    print(native.instruction_set(), worst)


@pytest.mark.parametrize("isa", native.instruction_sets())
def test_the_product_and_its_moments(isa: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tests.native.test_triangle"],
        env={**os.environ, "EBO_SIMD": isa},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    name, worst = result.stdout.split()
    assert name == isa
    assert 0.0 < float(worst) < 1e-5


def test_the_least_deviation() -> None:
    """Where |v|² is one or more, what is left is what single precision can tell."""
    one = np.ones((1, 1), np.float32)
    for v in (1.0, 1.0 - 1e-8, 3.0):
        _, sd, _ = native.whiten(np.full((1, 1), v, np.float32), one, one[0], 0 * one[0])
        assert sd.tolist() == [np.sqrt(native.KNOWN)]


def test_arrays_that_do_not_fit_are_refused() -> None:
    fitting = zeros(2, 5), zeros(5, 5), zeros(5), zeros(5)
    assert native.whiten(*fitting)[0].tolist() == [0.0, 0.0]
    for which, wrong in ((1, zeros(4, 5)), (1, zeros(5, 4)), (2, zeros(4)), (3, zeros(6))):
        given = [*fitting]
        given[which] = wrong
        with pytest.raises(ValueError, match=r"has shape .*; give"):
            native.whiten(*given)


def test_a_leaf_refuses_what_does_not_fit() -> None:
    fitting: dict[str, Any] = {
        "laplace": True, "T": zeros(3, 5), "cuts": zeros(3), "categorical": np.zeros(3, np.bool_),
        "scale": 0.5, "rates": zeros(3), "share": 0.5, "inverse": zeros(5, 5), "w": zeros(5),
    }  # fmt: skip
    native.Walk(**{**fitting, "rates": zeros(0)})
    for changed in (
        {"T": zeros(2, 5)}, {"T": zeros(3, 6)}, {"cuts": zeros(2)}, {"rates": zeros(2)},
        {"categorical": np.zeros(2, np.bool_)}, {"inverse": zeros(4, 5)}, {"inverse": zeros(5, 4)},
        {"w": zeros(4)},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"has shape .*; give"):
            native.Walk(**{**fitting, **changed})
    with pytest.raises(TypeError):  # a copy would not see what is added
        native.Walk(**{**fitting, "T": np.zeros((3, 5))})

    leaf, P, base, group = native.Walk(**fitting), np.zeros((2, 3)), zeros(5), np.array([0, 2])
    mean, sd, v = leaf.vary(P, group, base)
    assert (mean.tolist(), sd.tolist(), v.shape[0]) == ([0.0, 0.0], [1.0, 1.0], 5)
    goal = Aim(ACQUISITIONS["ei"], Goal(0.0, 1.0)).core
    assert goal is not None
    members, ends = np.array([2, 0, 1]), np.array([2, 3])
    rows, v = leaf.climb(goal, P, members, ends, base)
    assert (rows.tolist(), v.tolist()) == ([0, 0], [0.0] * 5)
    for Q, n, message in ((P[:0], 5, "points"), (P[:, :2].copy(), 5, "points"), (P, 6, "more obs")):
        with pytest.raises(ValueError, match=message):
            leaf.vary(Q, group, zeros(n))
        with pytest.raises(ValueError, match=message):
            leaf.climb(goal, Q, members, ends, zeros(n))
    for wrong in ([0, 1, 3], [0, 1, -1]):
        with pytest.raises(ValueError, match="a dimension that is not there"):
            leaf.vary(P, np.array(wrong), base)
        with pytest.raises(ValueError, match="a dimension that is not there"):
            leaf.climb(goal, P, np.array(wrong), ends, base)
    for bad in ([3, 2], [2, 4], [-1, 3]):
        with pytest.raises(ValueError, match="one after the other"):
            leaf.climb(goal, P, members, np.array(bad), base)


if __name__ == "__main__":
    main()
