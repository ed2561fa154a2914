"""Bad input to the sampler: the error shows the value and what to do."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from ebo.tilegp.box import Box
from ebo.tilegp.features import (
    FourierFeatures,
    MondrianFeatures,
    MondrianGrid,
    RandomBinning,
    TileCoding,
)
from ebo.tilegp.gibbs import Block, ChainState, Prior, sample
from ebo.tilegp.kernel import Hat, Laplace, SampledKernel
from tests.chains import run

NOISES = np.array([0.01, 0.1, 1.0])


def test_too_many_layers() -> None:
    kernel = TileCoding(np.zeros((1, 2**23 + 1)))
    with pytest.raises(ValueError, match=r"8388609 layers are too many for 1 .*at most 8388608"):
        run([[0.5]], [1.0], kernel=kernel, box=Box.unit(1))


@pytest.mark.parametrize("alpha", [0.0, -1.0, np.nan, np.inf])
def test_bad_alpha(alpha: float) -> None:
    with pytest.raises(ValueError, match=f"alpha is {alpha}; give one positive number"):
        Prior(alpha=alpha)
    with pytest.raises(ValueError, match=r"alpha is \[.*; give one positive number"):
        Prior(alpha=np.array([1.0, alpha]))
    with pytest.raises(ValueError, match=r"(?s)alpha is \[\[.*or one a dimension"):
        Prior(alpha=np.ones((2, 2)))


def test_alpha_of_another_number_of_dimensions() -> None:
    with pytest.raises(ValueError, match=r"alpha.*3.*2"):
        run([[0.5, 0.5]], [1.0], prior=Prior(alpha=np.ones(3)))


@pytest.mark.parametrize("beta", [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (np.nan, 1.0), (1.0,)])
def test_bad_beta(beta: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match=r"beta is \(.*; give two positive numbers, rate and"):
        Prior(beta=beta)


@pytest.mark.parametrize("limit", [0, -3])
def test_bad_group_limit(limit: int) -> None:
    with pytest.raises(ValueError, match=f"group_limit is {limit}; give at least 1, or None"):
        Prior(group_limit=limit)


@pytest.mark.parametrize("noise", [0.0, -1.0, 1e-9, np.nan])
def test_bad_noise(noise: float) -> None:
    with pytest.raises(ValueError, match=f"noise is {noise}; give variances of at least 1e-08, "):
        Prior(noise=noise)
    with pytest.raises(ValueError, match=r"noise is \[.*; give variances of at least"):
        Prior(noise=np.array([noise, 1.0]))


def test_bad_noises() -> None:
    with pytest.raises(ValueError, match="noise is inf; give finite variances"):
        Prior(noise=np.inf)
    with pytest.raises(ValueError, match=r"noise is \[\]; give variances"):
        Prior(noise=np.array([]))
    with pytest.raises(ValueError, match=r"noise is \[\[1\.\]\]; give variances"):
        Prior(noise=np.ones((1, 1)))
    for noise in ([0.1, 0.1], [0.2, 0.1]):
        with pytest.raises(ValueError, match=r"noise is \[.*; give finite variances in rising"):
            Prior(noise=np.array(noise))


def test_bad_points_and_values() -> None:
    X, y = np.full((3, 2), 0.5), np.zeros(3)
    with pytest.raises(ValueError, match=r"point 0, dimension 1: nan is not finite; drop"):
        run([[0.5, np.nan]], [1.0])
    with pytest.raises(ValueError, match=r"point 1, dimension 0: 1\.5 is outside \[0, 1\]; clip"):
        run([[0.5, 0.5], [1.5, 0.5]], [1.0, 1.0])
    with pytest.raises(ValueError, match=r"points have shape \(3, 3\), expected \(n, 2\): one row"):
        run(np.zeros((3, 3)), y)
    with pytest.raises(ValueError, match=r"points have shape \(2,\), expected \(n, 2\): one row"):
        run([0.5, 0.5], [1.0])
    with pytest.raises(ValueError, match=r"y has shape \(2,\), expected \(3,\): one value"):
        run(X, y[:2])
    with pytest.raises(ValueError, match=r"y has shape \(3, 1\), expected \(3,\): one value"):
        run(X, y[:, None])
    with pytest.raises(ValueError, match=r"y\[2\] is nan; leave failed evaluations out"):
        run(X, [0.0, 0.0, np.nan])
    with pytest.raises(ValueError, match=r"y\[0\] is -inf; leave failed evaluations out"):
        run(X, [-np.inf, 0.0, 0.0])


def test_a_bad_block_among_good_ones() -> None:
    good: Block = ([[0.5, 0.5]], [1.0])
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"y\[0\] is nan"):
        sample([good, ([[0.5, 0.5]], [np.nan])], Box.unit(2), Hat(), Prior(), sweeps=1, rng=rng)
    with pytest.raises(ValueError, match=r"no blocks; give at least one pair \(X, y\)"):
        sample([], Box.unit(2), Hat(), Prior(), sweeps=1, rng=rng)


@pytest.mark.parametrize("sweeps", [0, -1])
def test_bad_sweeps(sweeps: int) -> None:
    with pytest.raises(ValueError, match=f"sweeps is {sweeps}; give at least 1"):
        run([[0.5, 0.5]], [1.0], sweeps=sweeps)


@pytest.mark.parametrize("widths", [[1.0], [1.0, 0.0], [1.0, 1.5], [1.0, np.nan]])
def test_bad_widths(widths: list[float]) -> None:
    with pytest.raises(ValueError, match=r"widths are \[.*; give for each of 2 dimensions"):
        sample(
            [([[0.5, 0.5]], [1.0])],
            Box.unit(2),
            Hat(),
            Prior(),
            sweeps=1,
            rng=np.random.default_rng(0),
            widths=widths,
        )


def test_kernels_that_the_sampler_does_not_know() -> None:
    rng = np.random.default_rng(0)
    for kernel in (
        FourierFeatures.draw(2, 3, rng),
        RandomBinning.draw(2, 3, rng),
        MondrianFeatures.draw(2, 3, rng),
    ):
        name = type(kernel).__name__
        with pytest.raises(TypeError, match=f"cannot learn the cuts of {name}; give TileCoding"):
            run([[0.5, 0.5]], [1.0], kernel=kernel)  # type: ignore[arg-type]


@pytest.mark.parametrize("kernel", [Hat(), Laplace()])
def test_a_limit_has_no_layers(kernel: SampledKernel) -> None:
    with pytest.raises(ValueError, match="per_layer cuts need layers: give TileCoding or Mondrian"):
        run([[0.5, 0.5]], [1.0], kernel=kernel, prior=Prior(per_layer=True))


def test_kernel_and_box_must_agree() -> None:
    rng = np.random.default_rng(0)
    box = Box(np.zeros(2), np.ones(2), ("continuous", "categorical"))
    for kernel in (Hat(), TileCoding.draw(2, 3, rng)):
        with pytest.raises(ValueError, match=r"dimension 1 is categorical in the box but not cat"):
            run([[0.5, 1.0]], [1.0], kernel=kernel, box=box)
    with pytest.raises(ValueError, match=r"dimension 0 is continuous in the box but categ"):
        run([[0.5, 0.5]], [1.0], kernel=Laplace([True, False]))


def test_a_kernel_of_another_number_of_dimensions() -> None:
    kernel = TileCoding.draw(3, 3, np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"the kernel has 3 dimensions and the box 2"):
        run([[0.5, 0.5]], [1.0], kernel=kernel)


@pytest.mark.parametrize(
    ("z", "cuts", "message"),
    [
        ([0, 2], [1, 1], r"z is \[0, 2\]; give 2 group labels from 0 to 1"),
        ([0, -1], [1, 1], r"z is \[0, -1\]; give 2 group labels"),
        ([0], [1, 1], r"z is \[0\]; give 2 group labels"),
        ([[0, 1]], [1, 1], r"z is \[\[0, 1\]\]; give 2 group labels"),
        ([0.0, 1.0], [1, 1], r"z is \[0\.0, 1\.0\]; give 2 group labels"),
        ([0, 0], [1, 1], r"z is \[0, 0\]: a group has more than group_limit = 1 dim"),
        ([0, 1], [1], r"cuts have shape \(1,\) and type int64; give \(2,\) integers"),
        ([0, 1], [[1], [1]], r"cuts have shape \(2, 1\).*give \(2,\) integers"),
        ([0, 1], [1.0, 2.0], r"type float64; give \(2,\) integers"),
        ([0, 1], [-1, 2], r"cuts are -1 to 2; give 0 to 255"),
        ([0, 1], [0, 256], r"cuts are 0 to 256; give 0 to 255"),
    ],
)
def test_bad_starts(z: list[int], cuts: list[int], message: str) -> None:
    start = ChainState(np.array(z), np.array(cuts), 0.1)
    with pytest.raises(ValueError, match=message):
        run([[0.5, 0.5]], [1.0], prior=Prior(group_limit=1), start=start)


def test_bad_starts_of_layers_and_grids() -> None:
    rng = np.random.default_rng(0)
    z, X, y = np.array([0, 1]), [[0.5, 0.5]], [1.0]
    kernel = MondrianGrid.draw(2, 3, rng, 4)
    with pytest.raises(ValueError, match="cuts are 1 to 5; give 0 to 4"):
        run(X, y, kernel=kernel, start=ChainState(z, np.array([1, 5]), 0.1))
    with pytest.raises(ValueError, match=r"cuts have shape \(2,\).*give \(2, 3\) integers"):
        run(
            X,
            y,
            kernel=kernel,
            prior=Prior(per_layer=True),
            start=ChainState(z, np.array([1, 1]), 0.1),
        )


@pytest.mark.parametrize("noise", [0.0, -1.0, np.nan])
def test_a_start_with_bad_noise(noise: float) -> None:
    start = ChainState(np.array([0, 1]), np.array([1, 1]), noise)
    with pytest.raises(ValueError, match=f"noise is {noise}"):
        run([[0.5, 0.5]], [1.0], prior=Prior(noise=NOISES), start=start)


@pytest.mark.parametrize(("scale", "noise"), [(1e200, 0.01), (1.0, 1e30)])
def test_numbers_that_overflow_do_not_kill_the_process(scale: float, noise: float) -> None:
    script = f"""
import numpy as np
from ebo.tilegp.box import Box
from ebo.tilegp.gibbs import Prior, sample
from ebo.tilegp.kernel import Hat
rng = np.random.default_rng(0)
X, y = rng.random((20, 2)), {scale} * rng.standard_normal(20)
try:
    _, info = sample([(X, y)], Box.unit(2), Hat(), Prior(noise={noise}), sweeps=3, rng=rng)
except (RuntimeError, ValueError):
    print("refused")
else:
    assert np.isfinite(info.log_likelihood).all()
    print("done")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("refused", "done")
