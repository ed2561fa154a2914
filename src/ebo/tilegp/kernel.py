"""Additive kernels on the unit cube: of finitely many layers of cells, and their exact limits.

A kernel is anything with `gram(T, T2, z, cuts)`. All of them compose a similarity of each dimension
by product within a group, and take the mean over the groups:

    kappa(x, x') = 1/M sum_m prod_{d in A_m} s_d(x_d, x'_d)

Finite kernels (the families of `features.py`) have the mean over L layers of a product of
collisions in place of the product; `cell_gram` and `CellEncoder` here turn their cells into kappa
and into Phi, with Phi Phi' = kappa. `Hat` and `Laplace` are the limits for L -> infinity.

===========  ===============  ==================================================================
name         shape            meaning
===========  ===============  ==================================================================
T, T2        (n, D), (n2, D)  points in the unit cube
z            (D,) int         group of each dimension; A_m are the dimensions of the m-th of the
                              M distinct values of z, in sorted order
cuts         (D,) or (D, L)   number of cuts k_d (a rate, per unit range, in the limits)
categorical  (D,) bool        dimensions whose values are equal or not, and never near
codes        (n, L) int       cells of one dimension; a cell's code is one from each dimension
Phi          (n, F)           entries 1/sqrt(LM) at the cells of each point
===========  ===============  ==================================================================

Lemma 3.1 of the paper gives the limit of Mondrian grids with Poisson(lambda_d) cuts on each layer;
its statement misses the minus of its proof: it is exp(-lambda_d |x_d - x'_d|).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, ClassVar, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ebo import native
from ebo.arrays import Bools, Floats, Ints, Singles
from ebo.tilegp.box import as_points

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST_CUTS = 10**9  # narrower cells would be lost in the rounding of t
MOST_SAMPLED_CUTS = 255  # a cell is a byte in the core's sampler
DENSE_CELLS = 12  # with fewer cells a layer, a dense product beats the sparse one (measured)

Mask = ArrayLike | None
Codes = Callable[[Floats, Ints], Iterable[Ints]]  # points, a group -> codes of each dimension
Sparse: TypeAlias = "csr_array[np.float64, tuple[int, int]]"


class Kernel(Protocol):
    """What a TileGP needs of a kernel."""

    @property
    def categorical(self) -> Bools | None:
        """(D,) mask of the dimensions that are compared for equality only; None means none."""
        ...

    def gram(self, T: Floats, T2: Floats, z: Ints, cuts: ArrayLike) -> Floats:
        """The (n, n2) matrix of kappa between the points T and T2."""
        ...

    def group_gram(self, T: Floats, T2: Floats, group: Ints, cuts: ArrayLike) -> Floats:
        """M times the part of one group in kappa, (n, n2). Nothing is checked."""
        ...


class Rows(Protocol):
    """Rows of a kernel to points T, in single precision. Points can be added to T."""

    def put(self, column: int, x: Floats) -> None:
        """Set the point T in one column."""
        ...

    def __call__(self, P: Floats, groups: list[Ints], scale: float, columns: int) -> Singles:
        """Similarities of P and the first columns of T, times scale, summed over groups."""
        ...


class SampledKernel(Kernel, Protocol):
    """What the sampler and the optimiser need of a kernel. It says of itself what it can do."""

    @property
    def family(self) -> str | None:
        """The name of its separator in the core: which pairs of points a dimension sets apart.

        None if the core has no separator for it. Then its cuts cannot be learned.
        """
        ...

    @property
    def layered(self) -> bool:
        """Whether it has layers of cells, whose cuts are whole numbers. A limit has none."""
        ...

    @property
    def layers(self) -> int:
        """Number of layers; 1 for a limit."""
        ...

    @property
    def most_cuts(self) -> int:
        """The most cuts of a dimension that the sampler may try."""
        ...

    @property
    def uniforms(self) -> Floats:
        """The uniforms that it was drawn from; an empty array for a limit."""
        ...

    def breaks(self, d: int, cuts: ArrayLike) -> Floats | None:
        """Where dimension d is cut on any layer, in rising order; None where nothing is cut."""
        ...

    def rows(self, cuts: ArrayLike, T: Floats) -> Rows:
        """The kernel's rows to points T (D, n)."""
        ...


class Limit(ABC):
    """A kernel without layers: in a group it is a product of functions of the distance.

    family: the name of its separator in the core.
    in_core: the name of its profile in the core, "laplace" or "hat", which makes rows fast; None
        computes them here.
    """

    family: ClassVar[str | None] = None
    in_core: ClassVar[str | None] = None
    layered: ClassVar[bool] = False
    layers = 1
    most_cuts = MOST_SAMPLED_CUTS
    uniforms: Floats = np.empty(0)

    @classmethod
    def draw(
        cls, dims: int, layers: int, rng: np.random.Generator, categorical: Mask = None
    ) -> Self:
        """The kernel. Nothing about it is random."""
        return cls(categorical)

    def breaks(self, d: int, cuts: ArrayLike) -> None:
        """None: nothing is cut."""
        return

    def rows(self, cuts: ArrayLike, T: Floats) -> Rows:
        """The kernel's rows to points T (D, n)."""
        return GramRows(self, cuts, T) if self.in_core is None else LimitRows(self, cuts, T)

    def __init__(self, categorical: Mask = None) -> None:
        self.categorical: Bools | None = (
            None if categorical is None else np.array(categorical, dtype=np.bool_)
        )

    @abstractmethod
    def profile(self, distance: Floats) -> Floats:
        """The similarity of a dimension, given k_d |t_d - t'_d|."""

    def similarity(self, d: int, t: Floats, t2: Floats, k: float) -> Floats:
        """s_d, the (n, n2) similarity of t (n,) and t2 (n2,), dimension d, with k cuts."""
        if self.categorical is not None and self.categorical[d]:
            return np.equal.outer(t, t2).astype(t.dtype)
        return self.profile(k * np.abs(np.subtract.outer(t, t2)))

    def gram(self, T: Floats, T2: Floats, z: Ints, cuts: ArrayLike) -> Floats:
        """The (n, n2) matrix of kappa between the points T and T2."""
        groups = members(z)
        dims = len(z)
        T, T2 = check_unit(T, dims), check_unit(T2, dims)
        check_mask(self.categorical, dims)
        k = check_cuts(cuts, dims, layers=None, whole=False)[:, 0]
        total = np.zeros((len(T), len(T2)))
        for group in groups:
            total += self.group_gram(T, T2, group, k)
        return total / len(groups)

    def group_gram(self, T: Floats, T2: Floats, group: Ints, cuts: ArrayLike) -> Floats:
        """prod_d s_d over the dimensions of one group, (n, n2); nothing is checked."""
        k = np.asarray(cuts, dtype=T.dtype)
        first, *others = group
        product = self.similarity(first, T[:, first], T2[:, first], k[first])
        for d in others:
            product *= self.similarity(d, T[:, d], T2[:, d], k[d])
        return product


class Hat(Limit):
    """Limit of tile coding with one number of cuts for all layers: max(0, 1 - k|t - t'|)."""

    family: ClassVar[str | None] = "hat"
    in_core: ClassVar[str | None] = "hat"

    def profile(self, distance: Floats) -> Floats:
        """max(0, 1 - distance)."""
        return np.maximum(0.0, 1.0 - distance)


class Laplace(Limit):
    """Limit of Mondrian grids (Lemma 3.1), random binning and Mondrian features: exp(-k|t - t'|).

    The number of cuts is the rate: the mean of the Poisson number of cuts of each layer.
    """

    family: ClassVar[str | None] = "laplace"
    in_core: ClassVar[str | None] = "laplace"

    def profile(self, distance: Floats) -> Floats:
        """exp(-distance)."""
        return np.exp(-distance)

    def group_gram(self, T: Floats, T2: Floats, group: Ints, cuts: ArrayLike) -> Floats:
        """The same as a product of profiles, with one exponential for all dimensions."""
        k = np.asarray(cuts, dtype=T.dtype)
        total = np.zeros((len(T), len(T2)), dtype=T.dtype)
        work = np.empty_like(total)
        for d in group:
            if self.categorical is not None and self.categorical[d]:
                total[np.not_equal.outer(T[:, d], T2[:, d])] = np.inf
            else:
                np.subtract.outer(k[d] * T[:, d], k[d] * T2[:, d], out=work)
                total += np.abs(work, out=work)
        return np.exp(np.negative(total, out=total), out=total)


class LimitRows:
    """Rows of a limit kernel to many points T, given as (D, n), by the core."""

    def __init__(self, kernel: Limit, cuts: ArrayLike, T: Floats) -> None:
        self.T = np.array(T, dtype=np.float32, order="C")
        self.laplace = kernel.in_core == "laplace"
        self.cuts = np.ascontiguousarray(cuts, dtype=np.float32)
        self.categorical = check_mask(kernel.categorical, len(T))

    def put(self, column: int, x: Floats) -> None:
        """Set one of the points T."""
        self.T[:, column] = x

    def __call__(self, P: Floats, groups: list[Ints], scale: float, columns: int) -> Singles:
        """Sum over groups of their similarity, times scale, of P and the first columns of T."""
        return native.limit_gram(
            self.laplace,
            P.astype(np.float32),
            self.T,
            columns,
            np.concatenate(groups),
            np.cumsum([len(group) for group in groups]),
            self.cuts,
            self.categorical,
            scale,
        )


class GramRows:
    """Rows of any kernel, by its `group_gram`: rounding could move points to other cells."""

    def __init__(self, kernel: Kernel, cuts: ArrayLike, T: Floats) -> None:
        self._kernel, self._cuts, self._T = kernel, cuts, T.copy()

    def put(self, column: int, x: Floats) -> None:
        """Set one of the points T."""
        self._T[:, column] = x

    def __call__(self, P: Floats, groups: list[Ints], scale: float, columns: int) -> Singles:
        """Sum over groups of their similarity, times scale, of P and the first columns of T."""
        kappa = np.zeros((len(P), columns))
        for group in groups:
            kappa += self._kernel.group_gram(P, self._T[:, :columns].T, group, self._cuts)
        return (scale * kappa).astype(np.float32)


def cell_gram(codes: Codes, T: Floats, T2: Floats, groups: list[Ints], layers: int) -> Floats:
    """kappa (n, n2): the share of layers and groups on which the points collide."""
    same = T2 is T
    n = len(T)
    points = T if same else np.concatenate([T, T2])
    count = np.zeros((n, len(T2)))
    for group in groups:  # one group at a time: memory stays O(n n2 + (n + n2) L)
        numbering = _Numbering(layers)
        chi = _indicator(numbering.fit(codes(points, group)), numbering.size)
        left, right = chi[:n], (chi if same else chi[n:]).T
        if numbering.size < DENSE_CELLS * layers:  # float32 counts exactly
            count += left.astype(np.float32).toarray() @ right.astype(np.float32).toarray()
        else:
            count += (left @ right).toarray()
    return count / (layers * len(groups))


class CellEncoder:
    """Points to rows of the sparse Phi, whose columns are the cells that training points occupy.

    A test point's cell that holds no training point has no column. Its weight is independent of
    all data, so that nothing is lost: 1 - |phi(x)|^2 is the prior variance of such cells.
    """

    def __init__(self, codes: Codes, T: Floats, groups: list[Ints], layers: int) -> None:
        self._codes = codes
        self._groups = [(group, _Numbering(layers)) for group in groups]
        self._scale = 1.0 / np.sqrt(layers * len(groups))
        self._dims = T.shape[1]
        for group, numbering in self._groups:
            numbering.fit(codes(T, group))
        self.columns = sum(numbering.size for _, numbering in self._groups)

    def __call__(self, T: ArrayLike) -> Sparse:
        """Phi, (n, F), of the points T."""
        points = check_unit(T, self._dims)
        blocks, start = [], 0
        for group, numbering in self._groups:
            ids = numbering.lookup(self._codes(points, group))
            blocks.append(np.where(ids < 0, -1, ids + start))
            start += numbering.size
        phi = _indicator(np.concatenate(blocks, axis=1), start)
        phi.data *= self._scale
        return phi


class _Numbering:
    """Numbers 0, ..., size - 1 for the distinct (layer, code) pairs of a group.

    Codes are folded in one dimension at a time: a pair (number so far, cell of this dimension) is
    again a small whole number. Exact: nothing is hashed; the tables find the same number again.
    """

    def __init__(self, layers: int) -> None:
        self.size = layers
        self._layers = layers
        self._tables: list[tuple[Ints, Ints]] = []

    def fit(self, codes: Iterable[Ints]) -> Ints:
        """Number the (n, L) codes of a group's dimensions; returns (n, L) numbers."""
        ids = np.arange(self._layers)
        for code in codes:
            values, rank = np.unique(code.ravel(), return_inverse=True)
            key = ids * values.size + rank.reshape(code.shape)
            keys, number = np.unique(key.ravel(), return_inverse=True)
            ids = number.reshape(code.shape)
            self._tables.append((values, keys))
            self.size = keys.size
        return ids

    def lookup(self, codes: Iterable[Ints]) -> Ints:
        """The (n, L) numbers that `fit` gave; -1 for a cell it has not seen."""
        ids = np.arange(self._layers)
        for code, (values, keys) in zip(codes, self._tables, strict=True):
            rank = _find(values, code)
            number = _find(keys, ids * values.size + rank)
            ids = np.where((ids < 0) | (rank < 0), -1, number)
        return ids


def _find(table: Ints, keys: Ints) -> Ints:
    """The place of each key in the sorted table, -1 where it is not there."""
    if table.size == 0:
        return np.full(keys.shape, -1)
    place = np.minimum(np.searchsorted(table, keys), table.size - 1)
    return np.where(table[place] == keys, place, -1)


def _indicator(ids: Ints, columns: int) -> Sparse:
    """(n, columns) with a one at each id of each row; negative ids are left out."""
    from scipy.sparse import csr_array  # slow to import

    kept = ids >= 0
    starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    return csr_array((np.ones(starts[-1]), ids[kept], starts), shape=(len(ids), columns))


def members(z: ArrayLike) -> list[Ints]:
    """A_1, ..., A_M: the dimensions of each group, groups in the sorted order of their numbers."""
    labels = np.asarray(z)
    if labels.ndim != 1 or labels.size == 0 or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"z has shape {labels.shape} and type {labels.dtype}; "
            f"give one whole number (the group) for each dimension"
        )
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]


def check_groups(z: ArrayLike, dims: int) -> list[Ints]:
    """The groups of z, which must have dims entries."""
    if np.shape(z) != (dims,):
        raise ValueError(f"z has shape {np.shape(z)}, expected ({dims},): a group a dimension")
    return members(z)


def check_unit(T: ArrayLike, dims: int) -> Floats:
    """T as an (n, dims) float64 array within the unit cube."""
    points = as_points(T, dims)
    outside = ~((points >= 0.0) & (points <= 1.0))  # true for NaN as well
    if outside.any():
        i, d = np.argwhere(outside)[0]
        raise ValueError(
            f"point {i}, dimension {d}: {points[i, d]} is outside [0, 1]; map it with Box.to_unit"
        )
    return points


def check_mask(categorical: Mask, dims: int) -> Bools:
    """The categorical mask as (dims,) booleans; None means none."""
    mask = np.zeros(dims, dtype=np.bool_) if categorical is None else np.asarray(categorical)
    if mask.shape != (dims,):
        raise ValueError(
            f"the categorical mask has shape {mask.shape}, expected ({dims},); "
            f"give one true or false for each dimension"
        )
    return mask.astype(np.bool_)


def check_cuts(cuts: ArrayLike, dims: int, layers: int | None, whole: bool) -> Floats:
    """Cuts as (dims, 1) or, one for each layer, (dims, layers) float64; layers None allows no such.

    `whole` says that the family counts cuts; otherwise they are a real-valued rate.
    """
    k = np.asarray(cuts, dtype=np.float64)
    shapes = f"({dims},)" if layers is None else f"({dims},) or ({dims}, {layers})"
    if k.shape != (dims,) and (layers is None or k.shape != (dims, layers)):
        raise ValueError(
            f"cuts have shape {k.shape}, expected {shapes}: one number for each dimension"
        )
    k = k.reshape(dims, -1)
    bad = ~((k >= 0) & (k <= MOST_CUTS))
    if whole:
        bad |= k != np.floor(k)
    if bad.any():
        d, layer = np.argwhere(bad)[0]
        wanted = "a whole number" if whole else "a rate"
        raise ValueError(
            f"cuts of dimension {d}: {k[d, layer]}; give {wanted} from 0 (one cell) to {MOST_CUTS}"
        )
    return k
