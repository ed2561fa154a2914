"""Polish: points close to the best observation, by steps that shrink without success.

The search (search.py) goes where much may be gained, and on a summit that is nearly reached there
is little left, in steps far shorter than its own. So once the summit is well known, a part of each
batch is spent there, with a model of its own: of the observations nearest to the best, in their
scale. How long its steps are, the observations say: up to as far as the nearest of them. Steps that
fail are soon the nearest themselves, and the next ones shorter; one that succeeds has what failed
before at some distance again. Nothing has to be remembered, and in the end, when steps are too
short to matter, it costs nothing.

Where a step leads is for the model to say: the best of some in all directions, and then of shorter
ones from there, again and again. In a narrow valley hardly any straight step is a good one.

=========  ===========  ======================================================================
name       shape        meaning
=========  ===========  ======================================================================
T, u       (n, F), (n)  all observations, in the unit cube, and their standardised values
x          (F,)         the best of them
P          (S, F)       tries: in a first round all as far from x as each other
=========  ===========  ======================================================================
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ebo.acquisition import Goal
from ebo.learn import Data, Structure, condition
from ebo.search import Snap
from ebo.tilegp.posterior import Moves

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

NEAREST = 20  # observations that say how long steps are
SHORTEST = 0.1  # step over the longest
LEAST = 1e-3  # longest step worth a point
ROUNDS, TRIES = 8, 100  # for a point
SHRINK = 0.6  # a round's step over that of the round before
KNOWN = 8  # observations of the model for each dimension
MANY = 2  # times as many observations must be on the hill


def polish(
    data: Data,
    structure: Structure,
    goal: Goal,
    n: int,
    pending: Floats,
    snap: Snap,
    rng: np.random.Generator,
) -> Floats:
    """Points around the best observation, for a share of a batch of n; or none.

    There are none before the hill is known: a sharp summit halfway up would hold up the climb.
    """
    settings, smooth = data.settings, structure.smooth
    share = 0.0 if smooth is None else settings.polish * smooth.lead
    count = int(share * n + rng.random())
    x = data.T[data.u.argmax()]
    known = max(NEAREST + 1, min(KNOWN * len(x), settings.leaf_size))
    reach = _reach(x, data.T, MANY * known) if count else 0.0
    if reach < LEAST:
        return np.empty((0, len(x)))
    model = condition(data, data.around_the_best[:known], structure, rng)
    aim = goal.in_core("ei", model.mean, model.scale)
    farthest = reach / (1.0 - SHRINK)  # where all rounds lead the same way
    close = pending[np.linalg.norm(pending - x, axis=1) < farthest]
    moves = Moves(model.posterior, room=count + len(close))
    for other in close:
        moves.add(other, moves.whitened(other))
    found = []
    for _ in range(count):
        point, length = x, reach * SHORTEST ** rng.random()
        P = np.empty((0, len(x)))  # the point as it stands; x itself is no try
        for _ in range(ROUNDS):
            P = np.concatenate([P, snap(_around(point, length, data.categorical, rng))])
            mean, sd, whitened = moves.whole(P)
            chosen = int(aim.worth(mean, sd).argmax())
            point, P, length = P[chosen], P[chosen : chosen + 1], SHRINK * length
        found.append(point)
        moves.add(point, whitened[chosen])
    return np.array(found)


def _reach(x: Floats, T: Floats, many: int) -> float:
    """The longest step: how far the nearest observations are, if there are many on the hill.

    A hill is half as wide as random points are far from each other.
    """
    distance = np.linalg.norm(T - x, axis=1)
    if np.count_nonzero(distance < 0.5 * np.sqrt(len(x) / 6.0)) < many:
        return 0.0
    return float(np.partition(distance, NEAREST)[NEAREST])


def _around(x: Floats, length: float, categorical: Bools, rng: np.random.Generator) -> Floats:
    """Tries in all directions, a step of some length away; labels stay as they are."""
    steps = rng.standard_normal((TRIES, len(x)))
    steps[:, categorical] = 0.0
    norm = np.linalg.norm(steps, axis=1, keepdims=True)
    P: Floats = x + length * steps / np.maximum(norm, np.finfo(np.float64).tiny)
    return P.clip(0.0, 1.0)
