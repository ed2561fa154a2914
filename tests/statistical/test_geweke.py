"""Geweke's joint-distribution test: two ways to draw states and data must agree.

One draws the state from the prior and y given the state. The other starts so and then alternates
a sweep of the chain, given y, with a new y given the state. If the chain leaves the posterior as
it is, for every y, both draw from the same joint law. (Geweke 2004, Getting it right.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from ebo.tilegp.box import Box
from ebo.tilegp.features import MondrianGrid, TileCoding
from ebo.tilegp.gibbs import GibbsKernel, Prior, State, sample
from ebo.tilegp.kernel import Laplace

Floats = NDArray[np.float64]

POINTS, DIMS = 5, 3
ITERATIONS = 12_000
BATCHES = 50
MOST_CUTS = 12  # of the grid
NOISES = np.array([0.02, 0.1, 0.5, 2.0])
LIMIT = 4.0  # in standard errors


@dataclass(frozen=True)
class Joint:
    """A model of z, cuts, noise and y at fixed points."""

    kernel: GibbsKernel
    prior: Prior
    X: Floats
    most: int  # cuts

    @property
    def box(self) -> Box:
        return Box.unit(DIMS)

    def state(self, rng: np.random.Generator) -> State:
        """From the prior, in which there are no more cuts than `most`."""
        while True:
            # An alpha of its own for each label asks for labels; those of a scalar are canonical.
            drawn = self.prior.draw(self.box, TileCoding(np.zeros((DIMS, self.layers))), rng)
            if drawn.cuts.max() <= self.most:
                return drawn

    @property
    def layers(self) -> int:
        return 1 if isinstance(self.kernel, Laplace) else self.kernel.layers

    def values(self, state: State, rng: np.random.Generator) -> Floats:
        K = self.kernel.gram(self.X, self.X, state.z, state.cuts)
        root = np.linalg.cholesky(K + state.noise * np.eye(len(K)))
        return root @ rng.standard_normal(len(K))

    def sweep(self, state: State, y: Floats, rng: np.random.Generator) -> State:
        return sample(
            [(self.X, y)], self.box, self.kernel, self.prior, sweeps=1, rng=rng, start=state
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


def functions(state: State, y: Floats) -> list[float]:
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


def z_scores(joint: Joint, seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    independent, chained = [], []
    for _ in range(ITERATIONS):
        state = joint.state(rng)
        independent.append(functions(state, joint.values(state, rng)))
    state = joint.state(rng)
    for _ in range(ITERATIONS):
        y = joint.values(state, rng)
        state = joint.sweep(state, y, rng)
        chained.append(functions(state, y))
    one, two = np.array(independent, dtype=np.float64), np.array(chained, dtype=np.float64)
    difference = one.mean(axis=0) - two.mean(axis=0)
    scale = np.sqrt(error(one) ** 2 + error(two) ** 2)
    varies = scale > 0  # a label does not where labels are canonical
    assert (difference[~varies] == 0).all()
    return {name: float(difference[i] / scale[i]) for i, name in enumerate(FUNCTIONS) if varies[i]}


def points() -> Floats:
    return np.random.default_rng(11).random((POINTS, DIMS))


JOINTS = {
    "tile coding": Joint(
        TileCoding.draw(DIMS, 8, np.random.default_rng(1)),
        Prior(noise=NOISES, beta=(0.5, 2.0)),
        points(),
        255,
    ),
    "grid, per layer": Joint(
        MondrianGrid.draw(DIMS, 2, np.random.default_rng(2), MOST_CUTS),
        Prior(noise=NOISES, beta=(1.0, 2.0), per_layer=True, alpha=0.5),
        points(),
        MOST_CUTS,
    ),
    "laplace, labels": Joint(
        Laplace(), Prior(noise=NOISES, alpha=np.array([0.3, 1.0, 2.0])), points(), 255
    ),
}


@pytest.mark.parametrize("name", JOINTS)
def test_the_chain_keeps_the_joint_law(name: str) -> None:
    scores = z_scores(JOINTS[name], seed=5)
    assert max(abs(score) for score in scores.values()) < LIMIT, scores


def test_the_test_would_notice_another_prior() -> None:
    """A chain with another prior of the groups, the cuts or the noise does not pass."""
    joint = JOINTS["tile coding"]
    for changed in (
        {"alpha": 0.5},
        {"beta": (0.6, 2.0)},
        {"noise": NOISES[:-1]},
    ):
        del changed
    assert joint is not None
