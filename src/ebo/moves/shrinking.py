"""Polish: points close to the best observation, in steps that shrink when they fail.

The search goes where much may be gained. On a summit that is nearly reached little is left to gain,
and only by steps far shorter than the search's. So once the summit is well known, a part of each
batch is spent there, with a model of its own: of the observations nearest to the best, in their
scale.

The observations say how long the steps are: at most as far as the 20th nearest of them. Steps that
fail soon are among the nearest themselves, so that the next ones are shorter. A step that succeeds
leaves them behind, so that the next ones are longer. Nothing has to be remembered. When the steps
are too short to matter, the next best observation has its turn: the best one may be so by luck of
the noise, or stand at a wall.

The model says where a step leads: to the best of some points in all directions, from there to the
best of some nearer ones, and so on. In a narrow valley hardly any straight step is a good one.

=========  ===========  ======================================================================
name       shape        meaning
=========  ===========  ======================================================================
T, u       (n, F), (n)  all observations, in the unit cube, and their standardised values
x          (F,)         the best of them with steps left to try
P          (S, F)       tries: in a first round all as far from x as each other
=========  ===========  ======================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ebo.acquisition import Acquisition, Goal
from ebo.arrays import Floats
from ebo.checks import check_number
from ebo.learning.base import Data, Structure, condition
from ebo.moves.base import Move, Region, Snap
from ebo.moves.pick import best_point
from ebo.partition import Leaf
from ebo.tilegp.posterior import Walk

NEAREST = 20  # the steps are as long as this observation is far: fewer may lie to one side
SHORTEST = 0.1  # shortest step over the longest: where one length fails another may succeed
LEAST = 1e-3  # a longest step below this is worth no point; in parts of a parameter's range
ROUNDS, TRIES = 8, 100  # for each point; the last step is a fiftieth of the first
SHRINK = 0.6  # a round's step over that of the round before
KNOWN = 8  # observations of the model for each dimension: enough for its slopes and curvatures
ENOUGH = 2  # times as many must be on the hill first: a sharp summit would hold up a climb
TURNS = 20  # so many of the best observations may have their turn


@dataclass(frozen=True)
class Sphere(Move):
    """Points in all directions, each as far away as the reach; categories stay as they are."""

    def tries(self, x: Floats, region: Region, reach: float, rng: np.random.Generator) -> Floats:
        """Points P (S, F)."""
        steps = rng.standard_normal((TRIES, len(x)))
        categorical = region.model.posterior.kernel.categorical
        if categorical is not None:
            steps[:, categorical] = 0.0
        norm = np.linalg.norm(steps, axis=1, keepdims=True)
        P: Floats = x + reach * steps / np.maximum(norm, np.finfo(np.float64).tiny)
        return P


@dataclass(frozen=True, kw_only=True)
class Shrinking:
    """Points around the best observation, once its hill is known.

    share: the part of the batch that is polish where the whole kernel is smooth. There is less the
        more of it is additive, and none from half of it on.
    """

    share: float = 0.3

    def __post_init__(self) -> None:
        check_number("share", self.share, 0.0, 1.0)

    def points(
        self,
        data: Data,
        structure: Structure,
        acquisition: Acquisition,
        goal: Goal,
        n: int,
        pending: Floats,
        snap: Snap,
        rng: np.random.Generator,
    ) -> Floats:
        """Points (Q, F) around the best observation with steps left to try; or none."""
        count = int(self.share * structure.smooth_lead * n + rng.random())
        known = max(NEAREST + 1, min(KNOWN * data.dims, data.partition.leaf_size))
        hill = _unfinished(data, ENOUGH * known) if count else None
        if hill is None:
            return np.empty((0, data.dims))
        x, longest, distance = hill
        nearest = np.argsort(distance, kind="stable")[:known]
        model = condition(data, nearest, structure, rng)
        cube = Leaf(np.zeros(data.dims), np.ones(data.dims), nearest)
        T, u = data.T[nearest], data.u[nearest]
        region = Region(model, cube, T, u, acquisition, goal, snap).with_maxima(rng)
        farthest = longest / (1.0 - SHRINK)  # where all rounds lead the same way
        close = pending[np.linalg.norm(pending - x, axis=1) < farthest]
        walk, move = Walk(model.posterior, room=count + len(close)), Sphere()
        for other in close:
            walk.add(other, walk.whitened(other))
        found = []
        for _ in range(count):
            reach = longest * SHORTEST ** rng.random()
            point, v = best_point(region.within(move.tries(x, region, reach, rng)), walk, region)
            for shorter in range(1, ROUNDS):
                P = region.within(move.tries(point, region, reach * SHRINK**shorter, rng))
                point, v = best_point(np.concatenate([point[None, :], P]), walk, region)
            found.append(point)
            walk.add(point, v)
        return np.array(found)


def _unfinished(data: Data, many: int) -> tuple[Floats, float, Floats] | None:
    """The best observation with steps left to try, the longest step, and how far all others are.

    None before there are many observations on the best one's hill, which is half as wide as random
    points are far from each other. Steps are as long as the nearest observations are far.
    """
    from scipy.spatial.distance import cdist  # slow to import

    rows, T, width = data.best, data.T, 0.5 * np.sqrt(data.T.shape[1] / 6.0)
    for turn in range(TURNS):
        x = T[rows[0]]
        distance = cdist(x[None, :], T)[0]
        if turn == 0 and np.count_nonzero(distance < width) < many:
            return None
        reach = float(np.partition(distance, NEAREST)[NEAREST])
        if reach >= LEAST:
            return x, reach, distance
        rows = rows[distance[rows] >= LEAST]
        if not len(rows):
            return None
    return None
