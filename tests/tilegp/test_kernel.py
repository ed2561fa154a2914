from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebo import native
from ebo.arrays import Floats
from ebo.tilegp.features import (
    FourierFeatures,
    MondrianFeatures,
    MondrianGrid,
    RandomBinning,
    TileCoding,
)
from ebo.tilegp.kernel import Hat, Laplace, members
from tests import naive

Z = np.array([0, 0, 1, 2, 1])
CUTS = np.array([3, 2, 5, 4, 1])


@pytest.mark.parametrize(("kernel", "profile"), [(Hat, naive.hat), (Laplace, naive.laplace)])
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), dims=st.integers(1, 6), n=st.integers(0, 8))
def test_limits_match_their_naive_twins(
    kernel: type[Hat] | type[Laplace],
    profile: Callable[[float], float],
    seed: int,
    dims: int,
    n: int,
) -> None:
    rng = np.random.default_rng(seed)
    categorical = rng.random(dims) < 0.3
    T = (rng.integers(0, 3, (n, dims)) + 0.5) / 3
    T = np.where(categorical, T, rng.random((n, dims)))
    T2 = np.where(categorical, 0.5, rng.random((4, dims)))
    z, cuts = rng.integers(0, 3, dims), rng.random(dims) * 6
    gram = kernel(categorical).gram(T, T2, z, cuts)
    expected = naive.limit_gram(profile, T, T2, z.tolist(), list(cuts), list(categorical))
    np.testing.assert_allclose(gram, expected, atol=1e-15)


@pytest.mark.parametrize("kernel", [Hat(), Laplace()])
def test_limits_are_covariances_of_unit_variance(kernel: Hat | Laplace) -> None:
    T = np.random.default_rng(0).random((60, 5))
    K = kernel.gram(T, T, Z, CUTS)
    np.testing.assert_array_equal(np.diag(K), 1)
    np.testing.assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K).min() > -1e-12
    assert (kernel.gram(T, T, Z, np.zeros(5)) == 1).all()


def test_members_are_in_the_sorted_order_of_the_groups() -> None:
    assert [group.tolist() for group in members(np.array([7, -1, 7, 2]))] == [[1], [3], [0, 2]]


def test_bad_arguments() -> None:
    T, z = np.full((2, 2), 0.5), np.array([0, 1])
    with pytest.raises(ValueError, match=r"cuts have shape \(2, 3\), expected \(2,\)"):
        Hat().gram(T, T, z, np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"mask has shape \(3,\), expected \(2,\)"):
        Laplace([True, False, True]).gram(T, T, z, [1, 1])
    with pytest.raises(ValueError, match=r"1\.5 is outside"):
        Laplace().gram(T, T + 1, z, [1, 1])


# Lemma 3.1 and its kin: the kernel of L layers converges to its limit at the rate 1/sqrt(L).


def tile(layers: int, rng: np.random.Generator, T: Floats) -> Floats:
    return TileCoding.draw(5, layers, rng).gram(T, T, Z, CUTS)


def grid(layers: int, rng: np.random.Generator, T: Floats) -> Floats:
    cuts = rng.poisson(CUTS[:, None], (5, layers))
    return MondrianGrid.draw(5, layers, rng, int(cuts.max())).gram(T, T, Z, cuts)


def binning(layers: int, rng: np.random.Generator, T: Floats) -> Floats:
    return RandomBinning.draw(5, layers, rng).gram(T, T, Z, CUTS)


def mondrian(layers: int, rng: np.random.Generator, T: Floats) -> Floats:
    return MondrianFeatures.draw(5, layers, rng).gram(T, T, Z, CUTS)


def fourier(layers: int, rng: np.random.Generator, T: Floats) -> Floats:
    return FourierFeatures.draw(5, layers, rng).gram(T, T, Z, CUTS)


def fourier_laplace(layers: int, rng: np.random.Generator, T: Floats) -> Floats:
    return FourierFeatures.draw(5, layers, rng, "laplace").gram(T, T, Z, CUTS)


def group_kernels(kind: str, T: Floats) -> list[Floats]:
    """The limit of each group by itself, (n, n)."""
    delta = CUTS * np.abs(T[:, None] - T[None])
    if kind == "hat":
        return [np.prod(np.maximum(0, 1 - delta[..., group]), axis=-1) for group in members(Z)]
    power = 1 if kind == "laplace" else 2
    return [np.exp(-(delta[..., group] ** power).sum(axis=-1) / power) for group in members(Z)]


def collision_variance(k: Floats) -> Floats:
    return k * (1 - k)


def cosine_variance(k: Floats, k_doubled: Floats) -> Floats:
    """Of cos(w delta): E cos^2 = (1 + E cos(2 w delta))/2."""
    return (1 + k_doubled) / 2 - k**2


LIMITS = [
    (tile, "hat"),
    (grid, "laplace"),
    (binning, "laplace"),
    (mondrian, "laplace"),
    (fourier, "squared-exponential"),
    (fourier_laplace, "laplace"),
]


@pytest.mark.parametrize(("finite", "kind"), LIMITS)
def test_finite_kernels_converge_to_their_limit_at_the_monte_carlo_rate(
    finite: Callable[[int, np.random.Generator, Floats], Floats], kind: str
) -> None:
    rng = np.random.default_rng(20180101)
    T = 0.3 * rng.random((24, 5)) + 0.35  # near enough to collide often
    limit = np.mean(group_kernels(kind, T), axis=0)
    pairs = np.triu_indices(len(T), 1)
    error = {
        layers: np.array([(finite(layers, rng, T) - limit)[pairs] for _ in range(repeats)])
        for layers, repeats in ((25, 160), (400, 60))
    }
    rms = {layers: np.sqrt((e**2).mean()) for layers, e in error.items()}
    assert 3.4 < rms[25] / rms[400] < 4.7  # 4 = sqrt(16)

    # The errors have the variance they should (a layer's groups are independent), and every pair's
    # mean error is within a few standard errors of zero.
    if finite in (fourier, fourier_laplace):
        doubled = group_kernels(kind, 2 * T)
        variances = [
            cosine_variance(k, k2) for k, k2 in zip(group_kernels(kind, T), doubled, strict=True)
        ]
    else:
        variances = [collision_variance(k) for k in group_kernels(kind, T)]
    deviation = np.sqrt(np.sum(variances, axis=0) / len(members(Z)) ** 2)[pairs]
    for layers, e in error.items():
        score = e / (deviation / np.sqrt(layers))
        assert 0.75 < (score**2).mean() < 1.3
        assert np.abs(score.mean(axis=0) * np.sqrt(len(e))).max() < 4.5


def test_limits_agree_with_their_definition_by_groups() -> None:
    T = np.random.default_rng(1).random((10, 5))
    for kernel, kind in ((Hat(), "hat"), (Laplace(), "laplace")):
        expected = np.mean(group_kernels(kind, T), axis=0)
        np.testing.assert_allclose(kernel.gram(T, T, Z, CUTS), expected, atol=1e-15)


ROWS = """
import numpy as np
from ebo.tilegp.kernel import Hat, Laplace, LimitRows, members
rng = np.random.default_rng(0)
worst = 0.0
for case in range(40):
    dims, n = int(rng.integers(1, 9)), int(rng.integers(0, 70))
    mask = rng.random(dims) < 0.3
    P, T = rng.random((5, dims)), rng.random((n, dims))
    T[:, mask], P[:, mask] = T[:, mask].round(1), P[:, mask].round(1)
    z, cuts = rng.integers(0, 3, dims), rng.integers(0, 300, dims) * rng.random(dims)
    for kernel in (Hat(mask), Laplace(mask)):
        rows = LimitRows(kernel, cuts, T.T)(P, members(z), 1.0 / len(members(z)), n)
        worst = max(worst, np.abs(rows - kernel.gram(P, T, z, cuts)).max(initial=0.0))
print(worst)
"""


@pytest.mark.parametrize("isa", native.instruction_sets())
def test_rows_of_the_core_equal_the_gram_matrix(isa: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ROWS],
        env={**os.environ, "EBO_SIMD": isa},
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(done.stdout) < 2e-5  # coordinates in single precision, times up to 300 cuts
