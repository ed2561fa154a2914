"""The Gaussian process of a leaf: its kernel, and the prior of z, cuts and noise (Alg. 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ebo.arrays import Bools, Floats
from ebo.checks import check_choice, check_count, check_flag, check_number
from ebo.tilegp.families import FAMILIES
from ebo.tilegp.gibbs import Prior
from ebo.tilegp.kernel import Limit, SampledKernel

# The noise variances that are tried where noise is learned, in parts of the variance of the values:
# from as little as double precision bears to all of the variance, four for each factor of ten.
NOISE_GRID = np.geomspace(1e-5, 1.0, 21)


@dataclass(frozen=True, kw_only=True)
class Model:
    """The Gaussian process of a leaf.

    kernel: "laplace" or "hat", which stand for infinitely many layers, or "tile-coding" or
        "mondrian-grid", with `layers` layers, as in the paper. The default, "laplace", is fast, and
        good on all problems that were tried. Also a name that was added to
        `ebo.tilegp.families.FAMILIES`.
    layers: L, for the kernels that have layers. With more layers a kernel is closer to its limit,
        and takes longer in proportion.
    alpha: α of the Dirichlet prior of the groups. A large α expects many small groups.
    beta: (β₀, β₁), rate and shape of the Gamma prior of a parameter's number of cuts. The mean is
        β₁/β₀. Functions that vary faster need more cuts.
    group_limit: the most parameters in a group; None for no limit. Large groups can fit more, and
        it takes many more observations to find them.
    noise: noise variance σ², in parts of the variance of a leaf's values; None to learn it.
    per_layer: whether every layer has its own number of cuts, as in Section 3.2, or all layers of a
        parameter share one. Own numbers take about `layers` times as long.
    """

    kernel: str = "laplace"
    layers: int = 64
    alpha: float = 1.0
    beta: tuple[float, float] = (0.5, 3.0)
    group_limit: int | None = 8
    noise: float | None = None
    per_layer: bool = False

    def __post_init__(self) -> None:
        check_choice("kernel", self.kernel, FAMILIES)
        check_count("layers", self.layers, 1, most=10**6)
        check_number("alpha", self.alpha, 1e-9, 1e9)
        if not isinstance(self.beta, tuple) or len(self.beta) != 2:
            raise ValueError(f"beta is {self.beta!r}; give a pair of positive numbers")
        for value in self.beta:
            check_number("beta", value, 1e-9, 1e9)
        if self.group_limit is not None:
            check_count("group_limit", self.group_limit, 1, "or None for no limit", most=10**9)
        if self.noise is not None:
            check_number("noise", self.noise, 1e-8, 1e6)
        check_flag("per_layer", self.per_layer)
        if self.per_layer and not FAMILIES[self.kernel].layered:
            raise ValueError(
                f"per_layer needs layers, and the kernel {self.kernel!r} is a limit without any; "
                f"choose 'tile-coding' or 'mondrian-grid'"
            )

    @property
    def noise_grid(self) -> Floats:
        """The noise variances that can be learned."""
        return NOISE_GRID

    def draw_kernel(self, categorical: Bools, rng: np.random.Generator) -> SampledKernel:
        """The kernel, with new layers if it has any."""
        return FAMILIES[self.kernel].draw(len(categorical), self.layers, rng, categorical)

    def limit(self, categorical: Bools) -> Limit:
        """The kernel for infinitely many layers."""
        return FAMILIES[self.kernel].limit(categorical)

    def prior(self) -> Prior:
        """The prior of z, cuts and noise."""
        return Prior(
            alpha=self.alpha,
            beta=self.beta,
            group_limit=self.group_limit,
            noise=self.noise_grid if self.noise is None else self.noise,
            per_layer=self.per_layer,
        )
