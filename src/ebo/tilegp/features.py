"""Random features of the unit cube: the families that the paper compares, behind one interface.

A layer cuts the dimensions of a group into cells; two points collide where they share the cell.
The kernel of L layers and M groups is the share of (layer, group) pairs on which they collide
(the paper's appendix on Mondrian kernels and random binning, Eq. for chi_l):

    kappa(x, x') = 1/(LM) sum_m sum_l chi_l(x^{A_m}, x'^{A_m}) = phi(x)' phi(x')

All randomness is drawn once and kept as *uniforms*, so that another number of cuts moves the cuts
and does not redraw the noise. The code of a cell is exact (one whole number for each dimension,
nothing is hashed) and does not depend on the other points, so that training and test points can
be encoded apart.

===========  =================  ============================================================
name         shape              meaning
===========  =================  ============================================================
T, T2        (n, D), (n2, D)    points in the unit cube
z            (D,) int           group of each dimension (see `kernel.members`)
cuts         (D,) or (D, L)     k_d for all layers, or k_{dl} for each
uniforms     (D, L)             where the cuts are (grids: (D, max_cuts, L))
Phi          (n, F)             entries 1/sqrt(LM) at the cells of each point, Phi Phi' = kappa
===========  =================  ============================================================

`TileCoding`, `MondrianGrid` and `RandomBinning` cut each dimension by itself, `MondrianFeatures` a
whole group jointly. `FourierFeatures` have no cells: their Phi is dense.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebo import native
from ebo.arrays import Bools, Floats, Ints
from ebo.tilegp.kernel import (
    MOST_SAMPLED_CUTS,
    CellEncoder,
    GramRows,
    Mask,
    Rows,
    cell_gram,
    check_cuts,
    check_groups,
    check_mask,
    check_unit,
)

MOST_CELLS = 2**16 - 1  # of a dimension, where the core counts collisions


class CellFeatures(ABC):
    """A family of L layers of cells. It is also a kernel (`gram`)."""

    whole_cuts = True  # cuts are counted; False where they are a rate
    family: ClassVar[str | None] = None  # of the core's sampler, which can learn some of them
    layered: ClassVar[bool] = True
    most_cuts = MOST_SAMPLED_CUTS

    def __init__(self, dims: int, layers: int, categorical: Mask) -> None:
        if dims < 1 or layers < 1:
            raise ValueError(f"{dims} dimensions and {layers} layers; give at least 1 of each")
        self.dims = dims
        self.layers = layers
        self.categorical: Bools = check_mask(categorical, dims)

    def cells(self, T: ArrayLike, z: ArrayLike, cuts: ArrayLike) -> list[Ints]:
        """For each group an (n, L, |A_m|) array: the code of each point's cell on each layer.

        Two points, of this call or of another, share the cell if and only if their codes agree.
        """
        points, groups, k = self._checked(T, z, cuts)
        return [np.stack(list(self._codes(points, group, k)), axis=-1) for group in groups]

    def gram(self, T: ArrayLike, T2: ArrayLike, z: ArrayLike, cuts: ArrayLike) -> Floats:
        """kappa between T and T2, (n, n2): the share of layers and groups on which they collide."""
        points, groups, k = self._checked(T, z, cuts)
        others = points if T2 is T else check_unit(T2, self.dims)
        return cell_gram(partial(self._codes, k=k), points, others, groups, self.layers)

    def group_gram(self, T: Floats, T2: Floats, group: Ints, cuts: ArrayLike) -> Floats:
        """The share of layers on which points collide in one group; nothing is checked."""
        k = np.asarray(cuts, dtype=np.float64).reshape(self.dims, -1)
        codes = np.stack([_small(code) for code in self._codes(np.concatenate([T, T2]), group, k)])
        n = len(T)
        return native.collisions(codes[:, :n].copy(), codes[:, n:].copy()) / self.layers

    def rows(self, cuts: ArrayLike, T: Floats) -> Rows:
        """The kernel's rows to points T (D, n)."""
        return GramRows(self, cuts, T)

    def encoder(self, T: ArrayLike, z: ArrayLike, cuts: ArrayLike) -> CellEncoder:
        """The map from points to rows of Phi, with one column for each cell that T occupies."""
        points, groups, k = self._checked(T, z, cuts)
        return CellEncoder(partial(self._codes, k=k), points, groups, self.layers)

    def _checked(
        self, T: ArrayLike, z: ArrayLike, cuts: ArrayLike
    ) -> tuple[Floats, list[Ints], Floats]:
        """Points, groups and (D, 1 or L) cuts, validated."""
        k = check_cuts(cuts, self.dims, self.layers, self.whole_cuts)
        return check_unit(T, self.dims), check_groups(z, self.dims), k

    def _codes(self, T: Floats, group: Ints, k: Floats) -> Iterator[Ints]:
        """One (n, L) array for each dimension of a group; all of them together are the code."""
        mask = self.categorical[group]
        for d in group[mask]:  # a category is its own cell, whatever the cuts
            yield np.repeat(_bits(T[:, d, None]), self.layers, axis=1)
        yield from self._cut(T, group[~mask], k)

    @abstractmethod
    def _cut(self, T: Floats, group: Ints, k: Floats) -> Iterator[Ints]:
        """The same for the dimensions of a group that are cut, with k (D, 1) or (D, L) cuts."""


class TileCoding(CellFeatures):
    """Equal cells with a random offset: k cuts at (u + j)/k, j = 0, ..., k - 1 (Alg. 2).

    The native core repeats these floating-point operations in this order.
    """

    family: ClassVar[str | None] = "tile_coding"

    def __init__(self, uniforms: ArrayLike, categorical: Mask = None) -> None:
        self.uniforms = _uniforms(uniforms, 2)
        dims, layers = self.uniforms.shape
        super().__init__(dims, layers, categorical)

    @classmethod
    def draw(
        cls, dims: int, layers: int, rng: np.random.Generator, categorical: Mask = None
    ) -> Self:
        """Draw the offsets."""
        return cls(rng.random((dims, layers)), categorical)

    def _cut(self, T: Floats, group: Ints, k: Floats) -> Iterator[Ints]:
        for d in group:
            p = k[d] * T[:, d, None]
            i = np.floor(p)
            f = p - i
            cell = i + (self.uniforms[d] <= f)
            yield np.where(k[d] > 0, cell, 0).astype(np.int64)

    def breaks(self, d: int, cuts: ArrayLike) -> Floats:
        """Where dimension d is cut on any layer, in rising order."""
        k = np.broadcast_to(np.asarray(cuts, dtype=np.float64)[d], self.layers)
        places = [
            (u + np.arange(int(n))) / n for u, n in zip(self.uniforms[d], k, strict=True) if n
        ]
        return np.unique(np.concatenate(places)) if places else np.empty(0)


class MondrianGrid(CellFeatures):
    """Independent uniform cuts: the first k of `uniforms[d, :, l]` (Alg. 2, Lemma 3.1)."""

    family: ClassVar[str | None] = "mondrian_grid"

    def __init__(self, uniforms: ArrayLike, categorical: Mask = None) -> None:
        self.uniforms = _uniforms(uniforms, 3)
        dims, self.max_cuts, layers = self.uniforms.shape
        self.most_cuts = min(MOST_SAMPLED_CUTS, self.max_cuts)
        super().__init__(dims, layers, categorical)

    @classmethod
    def draw(
        cls,
        dims: int,
        layers: int,
        rng: np.random.Generator,
        max_cuts: int,
        categorical: Mask = None,
    ) -> Self:
        """Draw the places of up to max_cuts cuts for each dimension and layer."""
        return cls(rng.random((dims, max_cuts, layers)), categorical)

    def _cut(self, T: Floats, group: Ints, k: Floats) -> Iterator[Ints]:
        for d in group:
            most = int(k[d].max())
            if most > self.max_cuts:
                raise ValueError(
                    f"cuts of dimension {d}: {most}, but only {self.max_cuts} were drawn; "
                    f"draw the grid with a larger max_cuts"
                )
            cell = np.zeros((len(T), self.layers), dtype=np.int64)
            for j in range(most):
                cell += (self.uniforms[d, j] <= T[:, d, None]) & (j < k[d])
            yield cell

    def breaks(self, d: int, cuts: ArrayLike) -> Floats:
        """Where dimension d is cut on any layer, in rising order."""
        k = np.broadcast_to(np.asarray(cuts, dtype=np.float64)[d], self.layers)
        return np.unique(self.uniforms[d][np.arange(self.max_cuts)[:, None] < k])


class RandomBinning(CellFeatures):
    """Equal cells of width delta ~ Gamma(2, rate k) with a random offset; k may be any real rate.

    `gammas` are draws of Gamma(2, 1); the width is gammas/k.
    """

    whole_cuts = False

    def __init__(self, gammas: ArrayLike, uniforms: ArrayLike, categorical: Mask = None) -> None:
        self.uniforms = _uniforms(uniforms, 2)
        self.gammas = np.asarray(gammas, dtype=np.float64)
        if self.gammas.shape != self.uniforms.shape or not (self.gammas > 0).all():
            raise ValueError(
                f"gammas have shape {self.gammas.shape}, expected {self.uniforms.shape}, "
                f"all positive; use RandomBinning.draw"
            )
        dims, layers = self.uniforms.shape
        super().__init__(dims, layers, categorical)

    @classmethod
    def draw(
        cls, dims: int, layers: int, rng: np.random.Generator, categorical: Mask = None
    ) -> Self:
        """Draw the widths and the offsets."""
        return cls(rng.gamma(2.0, size=(dims, layers)), rng.random((dims, layers)), categorical)

    def _cut(self, T: Floats, group: Ints, k: Floats) -> Iterator[Ints]:
        for d in group:
            per_width = k[d] / self.gammas[d]  # 0 where k = 0: one cell
            yield np.floor(T[:, d, None] * per_width + self.uniforms[d]).astype(np.int64)


class MondrianFeatures(CellFeatures):
    """A Mondrian process of lifetime 1 over all dimensions of a group, with rates k_d.

    A node is cut after a time Exp(sum_d k_d width_d), in a dimension chosen in proportion to
    k_d width_d, uniformly; a node that outlives the lifetime is a cell. Trees are not stored: each
    point walks down from the root, and a node's draws come from a state that is a function of
    `seed`, the layer, the group's dimensions and the path alone. So points in the same node see
    the same cut, whichever points are asked for. A cell's code is its lower corner.
    """

    whole_cuts = False

    def __init__(self, dims: int, layers: int, seed: int, categorical: Mask = None) -> None:
        super().__init__(dims, layers, categorical)
        self.seed = int(seed)

    @classmethod
    def draw(
        cls, dims: int, layers: int, rng: np.random.Generator, categorical: Mask = None
    ) -> Self:
        """Draw the seed of the trees."""
        return cls(dims, layers, int(rng.integers(2**63)), categorical)

    def _cut(self, T: Floats, group: Ints, k: Floats) -> Iterator[Ints]:
        n, L, c = len(T), self.layers, len(group)
        # All (point, layer) walkers go down together, a level at a time; arrays are (n L,) or
        # (n L, c).
        root = np.random.SeedSequence(self.seed, spawn_key=tuple(int(d) for d in group))
        state = np.tile(np.asarray(root.generate_state(L, np.uint64), dtype=np.uint64), n)
        rate = np.tile(np.broadcast_to(k[group], (c, L)).T, (n, 1))
        t = np.repeat(T[:, group], L, axis=0)
        lower, upper = np.zeros_like(t), np.ones_like(t)
        time = np.zeros(n * L)
        alive = np.arange(n * L if c else 0)
        while alive.size:
            weight = np.cumsum(rate[alive] * (upper[alive] - lower[alive]), axis=1)
            wait = -np.log1p(-_uniform(state[alive], 0))
            splits = wait < weight[:, -1] * (1.0 - time[alive])
            alive, weight, wait = alive[splits], weight[splits], wait[splits]
            time[alive] += wait / weight[:, -1]
            chosen = _uniform(state[alive], 1) * weight[:, -1]
            d = np.minimum((weight <= chosen[:, None]).sum(axis=1), c - 1)
            width = upper[alive, d] - lower[alive, d]
            place = lower[alive, d] + _uniform(state[alive], 2) * width
            right = t[alive, d] >= place
            lower[alive[right], d[right]] = place[right]
            upper[alive[~right], d[~right]] = place[~right]
            state[alive] = np.where(right, _mix(state[alive], 3), _mix(state[alive], 4))
        for j in range(c):
            yield _bits(lower[:, j]).reshape(n, L)


class FourierFeatures:
    """Dense random Fourier features of exp(-1/2 sum (k_d delta_d)^2), or of the Laplace kernel.

    k_d is the inverse length-scale. Each frequency gives a cosine and a sine, so that
    kappa(x, x) = 1 exactly; a group's frequencies are the rows `frequencies[A_m]` (D, L), times k.
    """

    def __init__(self, frequencies: ArrayLike, categorical: Mask = None) -> None:
        self.frequencies = np.asarray(frequencies, dtype=np.float64)
        if self.frequencies.ndim != 2 or not np.isfinite(self.frequencies).all():
            raise ValueError(
                f"frequencies have shape {self.frequencies.shape}, expected finite (D, L); "
                f"use FourierFeatures.draw"
            )
        self.dims, self.layers = self.frequencies.shape
        self.categorical: Bools = check_mask(categorical, self.dims)
        if self.categorical.any():
            raise ValueError(
                f"dimension {np.flatnonzero(self.categorical)[0]} is categorical, and Fourier "
                f"features have no categorical kind; use a family with cells, such as TileCoding"
            )

    @classmethod
    def draw(
        cls,
        dims: int,
        layers: int,
        rng: np.random.Generator,
        kind: str = "squared-exponential",
        categorical: Mask = None,
    ) -> Self:
        """Draw the frequencies; kind is "squared-exponential" or "laplace"."""
        if kind == "squared-exponential":
            return cls(rng.standard_normal((dims, layers)), categorical)
        if kind == "laplace":
            return cls(rng.standard_cauchy((dims, layers)), categorical)
        raise ValueError(f"unknown kind {kind!r}; choose squared-exponential or laplace")

    def transform(self, T: ArrayLike, z: ArrayLike, cuts: ArrayLike) -> Floats:
        """Phi, (n, 2 L M): a cosine and a sine for each frequency of each group, over sqrt(LM)."""
        groups = check_groups(z, self.dims)
        points = check_unit(T, self.dims)
        omega = check_cuts(cuts, self.dims, self.layers, whole=False) * self.frequencies
        angle = np.hstack([points[:, group] @ omega[group] for group in groups])
        phi: Floats = np.concatenate([np.cos(angle), np.sin(angle)], axis=1)
        phi /= np.sqrt(self.layers * len(groups))
        return phi

    def gram(self, T: ArrayLike, T2: ArrayLike, z: ArrayLike, cuts: ArrayLike) -> Floats:
        """Phi(T) Phi(T2)', (n, n2)."""
        return self.transform(T, z, cuts) @ self.transform(T2, z, cuts).T

    def group_gram(self, T: Floats, T2: Floats, group: Ints, cuts: ArrayLike) -> Floats:
        """The kernel of one group, (n, n2)."""
        alone = np.zeros(len(group), dtype=np.int64)
        k = np.asarray(cuts, dtype=np.float64)[group]
        return FourierFeatures(self.frequencies[group]).gram(T[:, group], T2[:, group], alone, k)

    def encoder(self, T: ArrayLike, z: ArrayLike, cuts: ArrayLike) -> Callable[[Floats], Floats]:
        """The map from points to rows of Phi (which here needs no training points)."""
        return partial(self.transform, z=z, cuts=cuts)


def _uniforms(values: ArrayLike, ndim: int) -> Floats:
    """Check the array of uniforms of a family."""
    uniforms = np.array(values, dtype=np.float64)
    if uniforms.ndim != ndim or not ((uniforms >= 0) & (uniforms <= 1)).all():
        raise ValueError(
            f"uniforms have shape {uniforms.shape}; expected {ndim} axes with values in [0, 1]"
        )
    return uniforms


def _small(code: Ints) -> NDArray[np.uint16]:
    """Codes as small numbers that are equal exactly where the codes are."""
    if code.size and (code.min() < 0 or code.max() > MOST_CELLS):
        code = np.unique(code, return_inverse=True)[1].reshape(code.shape)
        if code.max() > MOST_CELLS:
            raise ValueError(f"more than {MOST_CELLS} distinct cells in one dimension; use fewer")
    return code.astype(np.uint16)


def _bits(t: Floats) -> Ints:
    """A whole number for each float, equal exactly where the floats are equal."""
    return np.ascontiguousarray(t + 0.0).view(np.int64)  # + 0.0 makes -0.0 into 0.0


def _mix(state: NDArray[np.uint64], output: int) -> NDArray[np.uint64]:
    """Output number `output` of the splitmix64 stream that starts at each state."""
    x = state + np.uint64(0x9E3779B97F4A7C15 * (output + 1) % 2**64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _uniform(state: NDArray[np.uint64], output: int) -> Floats:
    """The same output as a float in [0, 1)."""
    return (_mix(state, output) >> np.uint64(11)).astype(np.float64) * 2.0**-53
