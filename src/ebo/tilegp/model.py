"""TileGP: the Gaussian process of one leaf, given its structure z and its cuts.

The equations are the paper's (Background): f ~ GP(0, kappa), y = f(x) + noise of variance sigma^2.
The prior mean is zero and the prior variance kappa(x, x) is one; y is used as it is, so centre and
scale it before.

=========  ==============  ===================================================================
name       shape           meaning
=========  ==============  ===================================================================
X, T       (n, D)          points in the box, and the same in the unit cube
y          (n,)            observations
z, cuts    (D,), (D[, L])  structure of the kernel (see `kernel.py`)
noise      ()              sigma^2, a variance
K          (n, n)          kernel matrix
Phi        (n, F)          features, Phi Phi' = K
=========  ==============  ===================================================================

Three forms lead to the same numbers. "kernel": Cholesky of K + sigma^2 I, O(n^3), for any kernel.
"features": Cholesky of Sigma^-1 = Phi'Phi/sigma^2 + I, O(F^3), by Woodbury's identity and the
determinant lemma (Eq. gploglike2). "sparse": the same Sigma^-1, factorised as a sparse matrix.
All of them offer the same three things (`Solver`), and TileGP needs no more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from ebo.arrays import Floats, Ints
from ebo.tilegp.box import Box
from ebo.tilegp.kernel import Kernel

FORMS = ("auto", "kernel", "features", "sparse")
LEAST_NOISE = 1e-8  # keeps K + sigma^2 I positive definite in float64
LARGEST_Y = 1e100  # keeps y^2/sigma^2 finite
DENSE_POINTS = 3_000  # "auto" takes the kernel form up to here (72 MB, half a second)
DENSE_FEATURES = 10_000  # and the dense features form up to here (800 MB, 8 s)
MOST_FEATURES = 30_000  # no dense features form beyond (7 GB)
BLOCK = 2**23  # entries of the largest array that a prediction builds (64 MB)

Matrix: TypeAlias = Any  # (n, F) or (F, F), sparse or dense: both know @ and .T
Encoder = Callable[[Floats], Matrix]
Factor = tuple[Callable[[Floats], Floats], float]  # v -> A^-1 v, and log |A|


class TileGP:
    """A Gaussian process on a box with an additive kernel of given z and cuts.

    `noise` is the variance sigma^2; `form` is one of "auto", "kernel", "features", "sparse".
    After `fit`, `used_form` says what "auto" chose.
    """

    def __init__(
        self,
        kernel: Kernel,
        box: Box,
        z: Ints,
        cuts: ArrayLike,
        noise: float,
        form: str = "auto",
    ) -> None:
        if form not in FORMS:
            raise ValueError(f"unknown form {form!r}; choose one of {', '.join(FORMS)}")
        if form in ("features", "sparse") and not isinstance(kernel, Features):
            raise ValueError(
                f"form {form!r} needs a kernel with features, and {type(kernel).__name__} is a "
                f"limit without any; use form='kernel' or a family of ebo.tilegp.features"
            )
        if not LEAST_NOISE <= noise < np.inf:
            raise ValueError(
                f"noise is {noise}; give a finite variance of at least {LEAST_NOISE}, "
                f"which stands for no noise"
            )
        check_categorical(kernel, box)
        nothing = np.empty((0, box.dims))
        kernel.gram(nothing, nothing, z, cuts)  # complains of a wrong z or cuts now, not later
        self.kernel, self.box, self.z, self.cuts = kernel, box, np.array(z), np.array(cuts)
        self.noise, self.form, self.used_form = float(noise), form, form
        self._n = 0
        self._solver: Solver | None = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Condition on the observations y (n,) at X (n, D); n = 0 gives the prior."""
        T = self.box.to_unit(X)
        self._solver = self._factorise(T, check_values(y, len(T)))
        self._n = len(T)
        return self

    def predict(self, X: ArrayLike) -> tuple[Floats, Floats]:
        """Posterior mean and variance of f, without the noise, at X: Eq. gppost, each (n,)."""
        solver = self._fitted()
        T = self.box.to_unit(X)
        mean, variance = np.zeros(len(T)), np.ones(len(T))
        step = max(1, BLOCK // solver.size)
        for start in range(0, len(T), step):
            rows = slice(start, start + step)
            mean[rows], variance[rows] = solver.posterior(T[rows])
        return mean, np.clip(variance, 0.0, 1.0)  # rounding may lead out of [0, 1]

    def log_likelihood(self) -> float:
        """log p(D_n): Eq. gploglike."""
        solver = self._fitted()
        constant = self._n * math.log(2.0 * math.pi)
        return -0.5 * (solver.misfit + solver.log_determinant + constant)

    def _fitted(self) -> Solver:
        if self._solver is None:
            raise RuntimeError("the model has seen no data; call fit(X, y) first")
        return self._solver

    def _factorise(self, T: Floats, y: Floats) -> Solver:
        """Choose the form and factorise."""
        self.used_form = self.form
        if len(T) == 0:
            return PriorSolver()
        features = self.kernel if isinstance(self.kernel, Features) else None
        if self.form == "auto" and (features is None or len(T) <= DENSE_POINTS):
            self.used_form = "kernel"
        if features is None or self.used_form == "kernel":
            return KernelSolver(self.kernel, T, y, self.z, self.cuts, self.noise)
        encode = features.encoder(T, self.z, self.cuts)
        phi = encode(T)
        if self.form == "auto":
            self.used_form = _cheaper(phi)
        factorise = _dense_factor if self.used_form == "features" else _sparse_factor
        return FeatureSolver(encode, phi, y, self.noise, factorise)


@runtime_checkable
class Features(Kernel, Protocol):
    """A kernel that is a product of features."""

    def encoder(self, T: Floats, z: Ints, cuts: ArrayLike) -> Encoder:
        """The map from points to rows of Phi, whose columns suit the training points T."""
        ...


class Solver(Protocol):
    """K + sigma^2 I in factorised form, whichever it is."""

    size: int  # order of the factorised matrix
    misfit: float  # y' (K + sigma^2 I)^-1 y
    log_determinant: float  # log |K + sigma^2 I|

    def posterior(self, T: Floats) -> tuple[Floats, Floats]:
        """Posterior mean and variance at T."""
        ...


class PriorSolver:
    """The solver without observations: the prior."""

    size = 1
    misfit = 0.0
    log_determinant = 0.0

    def posterior(self, T: Floats) -> tuple[Floats, Floats]:
        """Mean zero and variance one, at all points T."""
        return np.zeros(len(T)), np.ones(len(T))


class KernelSolver:
    """R R' = K + sigma^2 I: Eqs. gppost and gploglike as they stand."""

    def __init__(
        self, kernel: Kernel, T: Floats, y: Floats, z: Ints, cuts: ArrayLike, noise: float
    ) -> None:
        from scipy.linalg import cholesky  # slow to import, as all of SciPy here

        self.size = len(T)
        self._kappa = partial(kernel.gram, T, z=z, cuts=cuts)  # of T2: kappa_n, (n, n2)
        covariance = self._kappa(T)
        covariance[np.diag_indices(self.size)] += noise
        self._root = cholesky(covariance, lower=True, overwrite_a=True, check_finite=False)
        self._white_y = self._whiten(y)
        self.misfit = float(self._white_y @ self._white_y)
        self.log_determinant = 2.0 * float(np.log(np.diag(self._root)).sum())

    def posterior(self, T: Floats) -> tuple[Floats, Floats]:
        """kappa_n(x)' (K + sigma^2 I)^-1 y and 1 - kappa_n(x)' (K + sigma^2 I)^-1 kappa_n(x)."""
        white = self._whiten(self._kappa(T))
        return white.T @ self._white_y, 1.0 - np.einsum("ij,ij->j", white, white)

    def _whiten(self, v: Floats) -> Floats:
        """R^-1 v."""
        from scipy.linalg import solve_triangular

        return solve_triangular(self._root, v, lower=True, check_finite=False)


class FeatureSolver:
    """Sigma^-1 = Phi'Phi/sigma^2 + I, factorised: Eq. gploglike2 and the equations above it."""

    def __init__(
        self,
        encode: Encoder,
        phi: Matrix,
        y: Floats,
        noise: float,
        factorise: Callable[[Matrix], Factor],
    ) -> None:
        from scipy.sparse import eye_array

        n, self.size = phi.shape
        self._encode = encode
        self._solve, log_det = factorise(phi.T @ phi / noise + eye_array(self.size))
        self._weights = self._solve(phi.T @ y) / noise
        # The paper's y'y/sigma^2 - y'Phi Sigma Phi'y/sigma^4 cancels; the ridge regression whose
        # minimum it is does not, and errs only in second order of the weights' error.
        residual = y - phi @ self._weights
        self.misfit = float(residual @ residual / noise + self._weights @ self._weights)
        self.log_determinant = log_det + n * np.log(noise)

    def posterior(self, T: Floats) -> tuple[Floats, Floats]:
        """phi(x)' Sigma Phi'y/sigma^2 and phi(x)' Sigma phi(x), plus the cells without column."""
        phi = self._encode(T)
        columns = _dense(phi.T)
        known = np.einsum("ij,ij->j", columns, self._solve(columns))
        unseen = 1.0 - np.einsum("ij,ij->j", columns, columns)
        return phi @ self._weights, known + unseen


def _dense_factor(precision: Matrix) -> Factor:
    """Dense Cholesky."""
    from scipy.linalg import cho_solve, cholesky

    if precision.shape[0] > MOST_FEATURES:
        raise ValueError(
            f"{precision.shape[0]} features are too many for form='features' (at most "
            f"{MOST_FEATURES}); use form='auto' or 'sparse', or fewer layers or cuts"
        )
    root = cholesky(_dense(precision), lower=True, overwrite_a=True, check_finite=False)
    log_det = 2.0 * float(np.log(np.diag(root)).sum())
    return partial(cho_solve, (root, True), check_finite=False), log_det


def _sparse_factor(precision: Matrix) -> Factor:
    """Sparse LU without pivoting, which is Cholesky's in all but scale."""
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import splu

    lu = splu(
        csc_array(precision),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    return lu.solve, float(np.log(lu.U.diagonal()).sum())


def _cheaper(phi: Matrix) -> str:
    """The cheaper of the forms with features.

    A cell with one point only fills nothing in as it is eliminated, so the sparse factor costs at
    worst (cells with more points)^3, at about a tenth of dense Cholesky's speed (measured).
    """
    if isinstance(phi, np.ndarray):
        return "features"
    size = phi.shape[1]
    shared = np.count_nonzero(np.bincount(phi.indices, minlength=size) > 1)
    return "features" if size <= min(DENSE_FEATURES, 2.2 * shared) else "sparse"


def _dense(matrix: Matrix) -> Floats:
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


def check_values(y: ArrayLike, n: int) -> Floats:
    """The observations as an (n,) array of reasonable numbers."""
    values = np.asarray(y, dtype=np.float64)
    if values.shape != (n,):
        raise ValueError(f"y has shape {values.shape}, expected ({n},): one value for each point")
    bad = ~(np.abs(values) <= LARGEST_Y)  # true for NaN as well
    if bad.any():
        i = np.flatnonzero(bad)[0]
        raise ValueError(
            f"y[{i}] is {values[i]}; leave failed evaluations out, or scale y below {LARGEST_Y}"
        )
    return values


def check_categorical(kernel: Kernel, box: Box) -> None:
    """Kernel and box must agree on which dimensions are categorical."""
    mask = np.zeros(box.dims, dtype=np.bool_) if kernel.categorical is None else kernel.categorical
    if mask.shape != (box.dims,):
        raise ValueError(f"the kernel has {mask.size} dimensions and the box {box.dims}")
    if (mask != box.categorical).any():
        d = np.flatnonzero(mask != box.categorical)[0]
        raise ValueError(
            f"dimension {d} is {box.kinds[d]} in the box but "
            f"{'categorical' if mask[d] else 'not categorical'} in the kernel; "
            f"construct the kernel with categorical=box.categorical"
        )
