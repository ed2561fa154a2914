"""Gibbs sampling of the groups z, the cuts k and the noise of a TileGP (Section 3.2).

The mixing proportions θ and the Poisson rates λ are integrated out, so that only discrete
variables are left, and every step draws one of them from its exact conditional:

    p(z_d = m | rest) ∝ p(D | z, k) (|A_m| + α_m)
    p(k_dl | rest)    ∝ p(D | z, k) Γ(β₁ + |k_d|) / ((β₀/w_d + L)^k_dl k_dl!)

where w_d is the width of the box (Alg. 2 draws k from Poisson(λ_d w_d); at w = 1 this is the
paper's formula) and L the number of layers that are cut on their own. All empty groups are one
candidate that carries the sum of their α. A number of cuts is drawn inside a random window of nine
values that holds the current one, which leaves the conditional as it is and lets the chain reach
every value. With finite layers and enough noise the core sweeps in single precision, and accepts or
rejects a sweep by the likelihood in double precision, so that the target stays exact.

The data are blocks. One block is a leaf, as in Alg. 1. With several, all share one z and one k,
and their log-likelihoods add up: the *pooled* sampler, which reads the partition as a block
approximation of the whole Gram matrix and so learns the structure from all the data.

=========  ==================  =============================================================
name       shape               meaning
=========  ==================  =============================================================
`z`        (D,)                group of each dimension, 0 .. M - 1 in order of appearance
`cuts`     (D,) or (D, L)      number of cuts, of all layers or of each
`noise`    scalar              variance σ² of the observations; κ(x, x) = 1
`alpha`    scalar or (D,)      Dirichlet prior of θ
`beta`     (β₀, β₁)            λ_d ~ Gamma with rate β₀ and shape β₁: mean β₁/β₀
=========  ==================  =============================================================
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike

from ebo import native
from ebo.arrays import Floats, Ints
from ebo.tilegp.box import Box
from ebo.tilegp.kernel import MOST_SAMPLED_CUTS, SampledKernel
from ebo.tilegp.model import LEAST_NOISE, check_categorical, check_values

LARGEST_NOISE = 1e12
MOST_CELLS = 2**24  # layers times groups: the core counts them in single precision

Block = tuple[ArrayLike, ArrayLike]


@dataclass(frozen=True)
class Prior:
    """What is known of z, the cuts and the noise before any data.

    alpha: Dirichlet parameter of the groups, one for all labels or (D,), one for each.
    beta: rate β₀ and shape β₁ of the Gamma prior of a dimension's expected number of cuts.
    group_limit: most dimensions in a group; None for no limit.
    noise: the noise variance; or several, all of them equally likely, to sample it too.
    per_layer: whether every layer has its own number of cuts, as in the paper, or all layers share
        one. To share one takes an L-th of the time and mixes better; limit kernels can only do so.
    """

    alpha: float | Floats = 1.0
    beta: tuple[float, float] = (0.5, 3.0)
    group_limit: int | None = None
    noise: float | Floats = 1e-2
    per_layer: bool = False

    def __post_init__(self) -> None:
        alpha = np.asarray(self.alpha, dtype=np.float64)
        if alpha.ndim > 1 or not np.all(np.isfinite(alpha)) or not np.all(alpha > 0):
            raise ValueError(f"alpha is {self.alpha}; give one positive number, or one a dimension")
        beta = np.asarray(self.beta, dtype=np.float64)
        if beta.shape != (2,) or not np.all(np.isfinite(beta)) or not np.all(beta > 0):
            raise ValueError(f"beta is {self.beta}; give two positive numbers, rate and shape")
        if self.group_limit is not None and self.group_limit < 1:
            raise ValueError(f"group_limit is {self.group_limit}; give at least 1, or None")
        noise = np.asarray(self.noise, dtype=np.float64)
        if noise.ndim > 1 or noise.size == 0 or not np.all(noise >= LEAST_NOISE):
            raise ValueError(
                f"noise is {self.noise}; give variances of at least {LEAST_NOISE}, "
                f"for a noiseless function about 1e-6 of the variance of y"
            )
        if not np.all(noise <= LARGEST_NOISE) or np.any(np.diff(np.atleast_1d(noise)) <= 0):
            raise ValueError(
                f"noise is {self.noise}; give finite variances in rising order, at most "
                f"{LARGEST_NOISE:g}: scale y down for more"
            )

    def alpha_of(self, dims: int) -> Floats:
        """alpha, (D,), for each of the labels 0 .. dims - 1."""
        alpha = np.asarray(self.alpha, dtype=np.float64)
        if alpha.ndim and alpha.shape != (dims,):
            raise ValueError(f"alpha has {alpha.size} values for {dims} dimensions; give {dims}")
        return np.array(np.broadcast_to(alpha, (dims,)))

    def draw(
        self,
        box: Box,
        kernel: SampledKernel,
        rng: np.random.Generator,
        *,
        widths: ArrayLike | None = None,
    ) -> ChainState:
        """Draw z, cuts and noise. A group that is full takes no further dimensions."""
        limit = self.group_limit or box.dims
        weight = self.alpha_of(box.dims).tolist()  # of a Pólya urn: |A_m| + α_m
        size = [0] * box.dims
        labels = []
        for u in rng.random(box.dims).tolist():
            cumulative = list(accumulate(weight))
            m = bisect_right(cumulative, u * cumulative[-1])
            labels.append(m)
            size[m] += 1
            weight[m] = weight[m] + 1.0 if size[m] < limit else 0.0
        z = np.array(labels, dtype=np.int64)
        rate, shape = self.beta
        mean = rng.gamma(shape, 1.0 / rate, size=box.dims) * _widths(widths, box.dims)
        layers = kernel.layers if self.per_layer else 1
        cuts = np.minimum(rng.poisson(mean[:, None], size=(box.dims, layers)), kernel.most_cuts)
        return ChainState(
            z=z if np.ndim(self.alpha) else canonical(z),
            cuts=cuts if self.per_layer else cuts[:, 0],
            noise=float(rng.choice(np.atleast_1d(self.noise))),
        )


@dataclass(frozen=True)
class ChainState:
    """Where a chain stands. It is all that is needed to go on from there."""

    z: Ints
    cuts: Ints
    noise: float


@dataclass(frozen=True)
class Info:
    """What a run reports beside its state. Row s of an array is the state after sweep s."""

    z: Ints
    cuts: Ints
    noise: Floats
    log_likelihood: Floats
    group_change_rate: float
    cut_change_rate: float
    acceptance_rate: float  # of sweeps; a sweep in double precision is never rejected
    candidates: int
    seconds: float


def sample(
    blocks: Sequence[Block],
    box: Box,
    kernel: SampledKernel,
    prior: Prior,
    *,
    sweeps: int,
    rng: np.random.Generator,
    start: ChainState | None = None,
    widths: ArrayLike | None = None,
    learn_cuts: bool = True,
    threads: int = 1,
) -> tuple[ChainState, Info]:
    """Run the chain for some sweeps, from a given start or from a draw of the prior.

    blocks: pairs (X, y) of points (n, D) in the box and values (n,), used as they are: centre and
        scale y before. One block is a leaf; with several, all share z, cuts and noise.
    kernel: tile coding, a Mondrian grid, or a limit kernel.
    widths: (D,), what part of the whole range the box has; 1 if it is left out.
    learn_cuts: whether the cuts are sampled too, or kept as they are at the start.
    threads: how many threads share the work. The result does not depend on their number.

    Returns the last state, and apart from it a report of what happened on the way.
    """
    if sweeps < 1:
        raise ValueError(f"sweeps is {sweeps}; give at least 1")
    sampler = build(blocks, box, kernel, prior, widths=widths, threads=threads)
    state = prior.draw(box, kernel, rng, widths=widths) if start is None else start
    begin(sampler, state, box, kernel, prior)
    began = time.perf_counter()
    z, cuts, noise, log_likelihood = sampler.run(sweeps, int(rng.integers(2**63)), learn_cuts)
    seconds = time.perf_counter() - began
    counts = sampler.counts()
    labelled = np.ndim(prior.alpha) > 0
    chain_z = z.astype(np.int64) if labelled else canonical(z)
    chain_cuts = (cuts if prior.per_layer else cuts[:, :, 0]).astype(np.int64)
    info = Info(
        z=chain_z,
        cuts=chain_cuts,
        noise=noise,
        log_likelihood=log_likelihood,
        group_change_rate=counts["group_changes"] / max(1, counts["group_steps"]),
        cut_change_rate=counts["cut_changes"] / max(1, counts["cut_steps"]),
        acceptance_rate=1.0 - counts["rejections"] / counts["sweeps"],
        candidates=counts["candidates"],
        seconds=seconds,
    )
    return ChainState(chain_z[-1].copy(), chain_cuts[-1].copy(), float(noise[-1])), info


def build(
    blocks: Sequence[Block],
    box: Box,
    kernel: SampledKernel,
    prior: Prior,
    *,
    widths: ArrayLike | None = None,
    threads: int = 1,
) -> native.Gibbs:
    """Check the input and hand it to the core. `begin` then gives the chain its first state."""
    dims = box.dims
    if getattr(kernel, "family", None) is None:
        raise TypeError(
            f"the sampler cannot learn the cuts of {type(kernel).__name__}; "
            f"give TileCoding, MondrianGrid, Hat or Laplace"
        )
    if prior.per_layer and not kernel.layered:
        raise ValueError("per_layer cuts need layers: give TileCoding or MondrianGrid, not a limit")
    check_categorical(kernel, box)
    if kernel.layers * (dims + 1) > MOST_CELLS:
        raise ValueError(
            f"{kernel.layers} layers are too many for {dims} dimensions; "
            f"give at most {MOST_CELLS // (dims + 1)}"
        )
    if threads < 1:
        raise ValueError(f"threads is {threads}; give at least 1")
    sampler = native.Gibbs(
        family=str(kernel.family),
        dims=dims,
        layers=kernel.layers,
        max_cuts=kernel.most_cuts,
        uniforms=np.ascontiguousarray(kernel.uniforms),
        categorical=box.categorical.tolist(),
        alpha=prior.alpha_of(dims),
        beta_rate=float(prior.beta[0]),
        beta_shape=float(prior.beta[1]),
        widths=_widths(widths, dims),
        group_limit=prior.group_limit or dims,
        noise=np.atleast_1d(np.asarray(prior.noise, dtype=np.float64)),
        per_layer=prior.per_layer,
        threads=threads,
    )
    if not len(blocks):
        raise ValueError("no blocks; give at least one pair (X, y), if need be with no points")
    for X, y in blocks:
        T = box.to_unit(X)
        crowded = [
            d
            for d in np.flatnonzero(box.categorical)
            if len(np.unique(T[:, d])) > MOST_SAMPLED_CUTS + 1
        ]
        if crowded and kernel.layered:
            raise ValueError(
                f"dimension {crowded[0]} has more than {MOST_SAMPLED_CUTS + 1} categories in one "
                f"block; use a limit kernel or smaller blocks"
            )
        sampler.add_block(np.ascontiguousarray(T), np.ascontiguousarray(check_values(y, len(T))))
    return sampler


def begin(
    sampler: native.Gibbs, state: ChainState, box: Box, kernel: SampledKernel, prior: Prior
) -> None:
    """Check a state and start the core from it."""
    z = np.asarray(state.z)
    if z.shape != (box.dims,) or z.dtype.kind not in "iu" or z.min() < 0 or z.max() >= box.dims:
        raise ValueError(
            f"z is {z.tolist()}; give {box.dims} group labels from 0 to {box.dims - 1}"
        )
    limit = prior.group_limit or box.dims
    if np.bincount(z).max() > limit:
        raise ValueError(
            f"z is {z.tolist()}: a group has more than group_limit = {limit} dimensions"
        )
    shape = (box.dims, kernel.layers) if prior.per_layer else (box.dims,)
    cuts, most = np.asarray(state.cuts), kernel.most_cuts
    if cuts.shape != shape or cuts.dtype.kind not in "iu":
        raise ValueError(
            f"cuts have shape {cuts.shape} and type {cuts.dtype}; give {shape} integers"
        )
    if cuts.min() < 0 or cuts.max() > most:
        raise ValueError(f"cuts are {cuts.min()} to {cuts.max()}; give 0 to {most}")
    if not 0 < state.noise < np.inf:
        raise ValueError(f"noise is {state.noise}; give a positive variance")
    grid = np.atleast_1d(prior.noise)
    # A state that comes from elsewhere goes to the nearest variance that the prior has.
    nearest = int(np.abs(np.log(grid) - np.log(state.noise)).argmin())
    sampler.start(z.tolist(), cuts.ravel().tolist(), nearest)


def canonical(z: ArrayLike) -> Ints:
    """z with its groups renamed to 0, 1, … in order of appearance, along the last axis."""
    labels = np.asarray(z)
    rows = labels.reshape(-1, labels.shape[-1])
    dims = rows.shape[1]
    # The first dimension of a dimension's group names the group; then count the names.
    first = (rows[:, :, None] == rows[:, None, :]).argmax(axis=2)
    is_first = first == np.arange(dims)
    rank = np.cumsum(is_first, axis=1) - 1
    return np.take_along_axis(rank, first, axis=1).reshape(labels.shape).astype(np.int64)


def _widths(widths: ArrayLike | None, dims: int) -> Floats:
    values = np.ones(dims) if widths is None else np.ascontiguousarray(widths, dtype=np.float64)
    if values.shape != (dims,) or not np.all((values > 0) & (values <= 1)):
        raise ValueError(
            f"widths are {values}; give for each of {dims} dimensions what part of the whole "
            f"range the box has, above 0 and at most 1"
        )
    return values
