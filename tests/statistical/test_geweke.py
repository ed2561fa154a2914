"""Geweke's joint-distribution test: two ways to draw states and data must agree.

One draws the state from the prior and y given the state. The other starts so and then alternates
a sweep of the chain, given y, with a new y given the state. If the chain leaves the posterior as
it is, for every y, both draw from the same joint law. (Geweke 2004, Getting it right.)
"""

from __future__ import annotations

import numpy as np
import pytest

from ebo.arrays import Floats
from ebo.tilegp.box import Box
from ebo.tilegp.features import MondrianGrid, TileCoding
from ebo.tilegp.gibbs import ChainState, Prior, sample
from ebo.tilegp.kernel import Laplace, SampledKernel
from tests import naive

POINTS, DIMS = 5, 3
BATCHES = 50
NOISES = np.array([0.02, 0.1, 0.5, 2.0])
LIMIT = 4.0  # in standard errors


class Joint:
    """A model of z, cuts, noise and y at fixed points; no more cuts than `most` in all dimensions.

    The chain may be given another prior than that of the model, in order to see it fail.
    """

    def __init__(self, kernel: SampledKernel, prior: Prior, most: int) -> None:
        self.kernel, self.prior, self.most = kernel, prior, most
        self.box = Box.unit(DIMS)
        self.X = np.random.default_rng(11).random((POINTS, DIMS))
        self.target = naive.Target(kernel, [(self.X, np.zeros(POINTS))])

    def state(self, rng: np.random.Generator) -> ChainState:
        """From the prior; one with too many cuts is drawn anew, since `draw` would clip them."""
        unlimited = TileCoding(np.zeros((DIMS, self.target.layers)))
        while True:
            drawn = self.prior.draw(self.box, unlimited, rng)
            if drawn.cuts.max() <= self.most:
                return drawn

    def values(self, state: ChainState, rng: np.random.Generator) -> Floats:
        """A y given the state."""
        K = self.target.gram(0, state.z.tolist(), state.cuts)
        root = np.linalg.cholesky(K + state.noise * np.eye(POINTS))
        y: Floats = root @ rng.standard_normal(POINTS)
        return y

    def sweep(
        self, state: ChainState, y: Floats, rng: np.random.Generator, prior: Prior | None = None
    ) -> ChainState:
        """A state given y, by the chain."""
        return sample(
            [(self.X, y)],
            self.box,
            self.kernel,
            prior or self.prior,
            sweeps=1,
            rng=rng,
            start=state,
        )[0]


FUNCTIONS = (
    "groups",
    "largest group",
    "0 with 1",
    "label of 0",
    "cuts",
    "cuts squared",
    "cuts with groups",
    "log noise",
    "y squared",
    "y0 y1",
    "y squared with cuts",
    "y0 y1 with groups",
)


def functions(state: ChainState, y: Floats) -> list[float]:
    sizes = np.bincount(state.z)
    groups, cuts, square = np.count_nonzero(sizes), state.cuts.mean(), y @ y
    return [
        groups,
        sizes.max(),
        state.z[0] == state.z[1],
        state.z[0],
        cuts,
        (state.cuts**2).mean(),
        cuts * groups,
        np.log(state.noise),
        square,
        y[0] * y[1],
        square * cuts,
        y[0] * y[1] * groups,
    ]


def error(values: Floats) -> Floats:
    """Standard errors of the means of a chain (n, functions), by batch means."""
    means = np.array([part.mean(axis=0) for part in np.array_split(values, BATCHES)])
    found: Floats = means.std(axis=0, ddof=1) / np.sqrt(BATCHES)
    return found


def z_scores(
    joint: Joint, seed: int, iterations: int, believed: Prior | None = None
) -> dict[str, float]:
    """How far the means of the test functions are apart, in standard errors."""
    rng = np.random.default_rng(seed)
    independent, chained = [], []
    for _ in range(iterations):
        state = joint.state(rng)
        independent.append(functions(state, joint.values(state, rng)))
    state = joint.state(rng)
    for _ in range(iterations):
        y = joint.values(state, rng)
        state = joint.sweep(state, y, rng, believed)
        chained.append(functions(state, y))
    one, two = np.array(independent, dtype=np.float64), np.array(chained, dtype=np.float64)
    difference = one.mean(axis=0) - two.mean(axis=0)
    scale = np.sqrt(error(one) ** 2 + error(two) ** 2)
    varies = scale > 0  # the label of 0 does not where labels are canonical
    assert (difference[~varies] == 0).all()
    scores = difference[varies] / scale[varies]
    return dict(zip(np.array(FUNCTIONS)[varies].tolist(), scores.tolist(), strict=True))


JOINTS = {
    "tile coding": Joint(
        TileCoding.draw(DIMS, 8, np.random.default_rng(1)),
        Prior(noise=NOISES, beta=(0.5, 2.0)),
        most=255,
    ),
    "grid, cuts of each layer": Joint(
        MondrianGrid.draw(DIMS, 2, np.random.default_rng(2), max_cuts=12),
        Prior(noise=NOISES, beta=(1.0, 2.0), per_layer=True, alpha=0.5),
        most=12,
    ),
    "laplace, labels": Joint(
        Laplace(), Prior(noise=NOISES, alpha=np.array([0.3, 1.0, 2.0])), most=255
    ),
}


@pytest.mark.parametrize("name", JOINTS)
def test_the_chain_keeps_the_joint_law(name: str) -> None:
    scores = z_scores(JOINTS[name], seed=5, iterations=10_000)
    assert max(abs(score) for score in scores.values()) < LIMIT, scores


@pytest.mark.parametrize(
    ("function", "believed"),
    [
        ("groups", Prior(noise=NOISES, beta=(0.5, 2.0), alpha=2.0)),
        ("cuts", Prior(noise=NOISES, beta=(0.5, 2.5))),
        ("log noise", Prior(noise=NOISES[:-1], beta=(0.5, 2.0))),
    ],
)
def test_a_chain_with_another_prior_is_noticed(function: str, believed: Prior) -> None:
    scores = z_scores(JOINTS["tile coding"], seed=5, iterations=3_000, believed=believed)
    assert abs(scores[function]) > LIMIT, scores
