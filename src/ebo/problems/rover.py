"""Rover trajectory in 60 dimensions: a path from a start to a goal among obstacles.

=========  =============  ====================================================================
name       shape          meaning
=========  =============  ====================================================================
x          (60,)          30 control points in [-0.1, 1.1]², x and y interleaved
P          (n, 30, 2)     control points of n trajectories
u          (n, 30)        their parameter: length of the chords so far, over the whole
paths      (n, 1000, 2)   the splines at equal steps of the parameter from 0 to 1
centres    (m, 2)         of obstacles, boxes of half width 0.025: closed below, open above
=========  =============  ====================================================================

reward = 5 - ∫ cost(path) ds - 10 ‖path(0) - start‖₁ - 10 ‖path(1) - goal‖₁, where the cost of a
place is 0.05, and 20 more within an obstacle or outside [0, 1)². No path is better than the
straight one, 5 - 0.05 ‖goal - start‖: missing an end costs more than the length it saves. The noise
is on the control points, 60 numbers for each trajectory.

`rover60` is the literature's function: the spline is `splprep(points, k=3)`, with FITPACK's default
smoothing. That takes the coarsest spline whose residual sum of squares is at most
s = 30 - √60 = 22.25, and no trajectory needs a knot: one coordinate of 30 points within a range of
1.2 has squares about its mean of at most 30 · 0.6², both together 21.6 < s, and the noise adds
hardly anything. So the answer is always the cubic polynomial of least squares, found here for all
trajectories at once. `rover60-exact` is harder: the interpolating spline (s = 0).

FITPACK refuses control points that repeat their predecessor. Here a path may stand still: least
squares take a point as often as it comes (of all polynomials that fit equally well, the one whose
coefficients are nearest to those of a straight path), interpolation takes it once.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import make_interp_spline

from ebo.arrays import Floats
from ebo.problems.base import Problem

CONTROL_POINTS = 30
STEPS = 1000
LOWER, UPPER = -0.1, 1.1
START, GOAL = 0.05, 0.95  # both coordinates
MISS_COST = 10.0
BEST = 5.0
PLACE_COST, HIT_COST = 0.05, 20.0
HALF_WIDTH = 0.025
OBSTACLES = 113
NOISE = 1e-4  # standard deviation of each coordinate of a control point
CHUNK = 64  # trajectories at a time, so that their paths stay in the cache
RANK = 1e-10  # a smaller part of the largest diagonal element means too few distinct points

Obstacles = str | os.PathLike[str] | ArrayLike


class Rover(Problem):
    """`rover60` and, with `exact`, `rover60-exact`. `centres` are those of its obstacles."""

    def __init__(
        self, centres: ArrayLike, noise: np.random.Generator | None, *, exact: bool = False
    ) -> None:
        dims = 2 * CONTROL_POINTS
        super().__init__(
            "rover60-exact" if exact else "rover60",
            np.full(dims, LOWER),
            np.full(dims, UPPER),
            BEST - PLACE_COST * np.sqrt(2.0) * (GOAL - START),
            noise,
        )
        self.exact = exact
        self.centres = np.array(centres, dtype=np.float64).reshape(-1, 2)
        self._map = Map(self.centres)

    def _values(self, X: Floats) -> Floats:
        if self.noise is not None:
            X = X + NOISE * self.noise.standard_normal(X.shape)
        P = X.reshape(len(X), CONTROL_POINTS, 2)
        paths = interpolated if self.exact else smoothed
        rewards = np.empty(len(P))
        for i in range(0, len(P), CHUNK):
            rewards[i : i + CHUNK] = self._rewards(paths(P[i : i + CHUNK]))
        return rewards

    def _rewards(self, paths: Floats) -> Floats:
        x, y = paths[..., 0], paths[..., 1]
        length = np.hypot(np.diff(x), np.diff(y))
        hit = self._map(x, y)
        ends = np.add(hit[:, 1:], hit[:, :-1], dtype=np.float64)  # 0, 1 or 2 ends of each step
        cost = PLACE_COST * length.sum(axis=1) + HIT_COST / 2 * np.einsum("ij,ij->i", ends, length)
        miss = np.abs(paths[:, 0] - START) + np.abs(paths[:, -1] - GOAL)
        rewards: Floats = BEST - cost - MISS_COST * miss.sum(axis=1)
        return rewards


def smoothed(P: Floats) -> Floats:
    """The paths (n, 1000, 2) of least-squares cubics through the control points."""
    B = bernstein(chord_lengths(P))
    Q, R = np.linalg.qr(B)
    diagonal = np.abs(np.einsum("nii->ni", R))
    poor = diagonal.min(axis=1) < RANK * diagonal.max(axis=1)
    R[poor] = np.eye(4)
    coefficients = np.linalg.solve(R, Q.swapaxes(1, 2) @ P)
    if poor.any():
        B, P = B[poor], P[poor]
        straight = P[:, :1] + np.linspace(0.0, 1.0, 4)[:, None] * (P[:, -1:] - P[:, :1])
        coefficients[poor] = straight + np.linalg.pinv(B, rcond=RANK) @ (P - B @ straight)
    return bernstein(np.linspace(0.0, 1.0, STEPS)) @ coefficients


def interpolated(P: Floats) -> Floats:
    """The paths (n, 1000, 2) of cubic splines through the control points, with FITPACK's knots."""
    paths = np.empty((len(P), STEPS, 2))
    t = np.linspace(0.0, 1.0, STEPS)
    for path, points, u in zip(paths, P, chord_lengths(P), strict=True):
        fresh = np.append(True, np.diff(u) > 0.0)
        if np.ptp(points, axis=0).max() == 0.0:
            path[:] = points[0]
        else:
            degree = min(3, int(np.count_nonzero(fresh)) - 1)
            path[:] = make_interp_spline(u[fresh], points[fresh], k=degree)(t)
    return paths


def chord_lengths(P: Floats) -> Floats:
    """u (n, 30), from 0 to 1; equal steps where all control points are the same."""
    steps = np.linalg.norm(np.diff(P, axis=1), axis=2)
    steps[~steps.any(axis=1)] = 1.0
    u = np.zeros(P.shape[:2])
    np.cumsum(steps, axis=1, out=u[:, 1:])
    u /= u[:, -1:]
    return u


def bernstein(u: Floats) -> Floats:
    """The four cubic Bernstein polynomials at u (...), as (..., 4)."""
    v = 1.0 - u
    return np.stack([v**3, 3.0 * u * v**2, 3.0 * u**2 * v, u**3], axis=-1)


class Map:
    """Where obstacles and the outside of [0, 1)² are.

    The edges of all boxes, sorted, cut the plane into cells that are wholly within a box or wholly
    without, so that a table of cells is exact. A number's cell is how many edges are not above it:
    edges belong to the cell above, which makes boxes closed below and open above.
    """

    def __init__(self, centres: Floats) -> None:
        low, high = centres - HALF_WIDTH, centres + HALF_WIDTH
        self._edges = [np.unique([0.0, 1.0, *low[:, i], *high[:, i]]) for i in range(2)]
        self._hit = np.ones([len(edges) + 1 for edges in self._edges], dtype=np.bool_)
        self._hit[self._cells((0.0, 0.0), (1.0, 1.0))] = False
        for corners in zip(low, high, strict=True):
            self._hit[self._cells(*corners)] = True

    def _cells(self, low: ArrayLike, high: ArrayLike) -> tuple[slice, slice]:
        first, last = (
            [int(np.searchsorted(self._edges[i], np.asarray(corner)[i], "right")) for i in range(2)]
            for corner in (low, high)
        )
        return slice(first[0], last[0]), slice(first[1], last[1])

    def __call__(self, x: Floats, y: Floats) -> NDArray[np.bool_]:
        """Whether the places (x, y) are hit."""
        rows = np.searchsorted(self._edges[0], x, "right")
        columns = np.searchsorted(self._edges[1], y, "right")
        return self._hit[rows, columns]


def layout(rng: np.random.Generator) -> Floats:
    """The centres (113, 2) of random obstacles, uniform in the unit square, off start and goal."""
    centres: list[Floats] = []
    while len(centres) < OBSTACLES:
        centre = rng.random(2)
        low, high = centre - HALF_WIDTH, centre + HALF_WIDTH
        if not any((low <= place).all() and (place < high).all() for place in (START, GOAL)):
            centres.append(centre)
    return np.array(centres)


def centres_of(obstacles: Obstacles) -> Floats:
    """The centres (m, 2) in a CSV file of two columns, or in an array."""
    if isinstance(obstacles, str | os.PathLike):
        source = f"{os.fspath(obstacles)}: "
        values = np.loadtxt(obstacles, delimiter=",", ndmin=2)
    else:
        source = ""
        values = np.array(obstacles, dtype=np.float64)
    if values.size == 0:
        return np.empty((0, 2))
    if values.ndim != 2 or values.shape[1] != 2 or not np.isfinite(values).all():
        raise ValueError(
            f"{source}obstacles of shape {values.shape}, expected (m, 2) finite numbers: "
            f"x and y of the centre of each"
        )
    return values
