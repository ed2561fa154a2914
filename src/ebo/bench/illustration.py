"""The paper's illustration: a function of two dimensions, sampled from a TileGP.

With weights w ~ N(0, 1), one for every cell of every layer and group, f(x) = φ(x)'w has the
covariance φ(x)'φ(x') = κ(x, x'):

    f(x) = 1/√(LM) Σ_m Σ_l w_{m, l, cell of x},    M = 2 groups of one dimension each.

=============  =============  ==================================================================
name           shape          meaning
=============  =============  ==================================================================
`cuts`         k = (10, 10)   cuts of each dimension, the same number on every layer
`layers`       L = 100        layers of tile coding
`weights`      (2, L, k + 2)  w; the last cell of a layer is only there for an offset of exactly 0
=============  =============  ==================================================================

Maximum. f is a sum of two functions of one dimension, each constant between neighbouring cuts of
all layers. So a point between every two of them shows all values, and the extremes of the sum are
the sums of the extremes.
"""

from __future__ import annotations

import numpy as np

from ebo.arrays import Floats
from ebo.problems.base import Problem
from ebo.tilegp.features import TileCoding

CUTS = (10, 10)
LAYERS = 100
NOISE = 0.01  # standard deviation


class Illustration(Problem):
    """One sample on the unit square; `minimum` and `maximum` are those of `exact`."""

    def __init__(self, seed: int, *, cuts: tuple[int, ...] = CUTS, layers: int = LAYERS) -> None:
        structure, noise = np.random.SeedSequence(seed).spawn(2)
        rng = np.random.default_rng(structure)
        dims = len(cuts)
        self.cuts = np.array(cuts)
        self.features = TileCoding.draw(dims, layers, rng)
        self.weights = rng.standard_normal((dims, layers, max(cuts) + 2))
        shown = [self._component(d, _between(self._places(d))) for d in range(dims)]
        self.minimum = float(sum(values.min() for values in shown))
        maximum = float(sum(values.max() for values in shown))
        super().__init__(
            "illustration",
            np.zeros(dims),
            np.ones(dims),
            maximum,
            np.random.default_rng(noise),
        )

    def exact(self, X: Floats) -> Floats:
        """The values (n,) without noise at X (n, D)."""
        return sum((self._component(d, X[:, d]) for d in range(self.dims)), np.zeros(len(X)))

    def regret(self, x: Floats) -> float:
        """How far f falls short of its maximum at x (D,), over its range."""
        lack = self.maximum - float(self.exact(x[None, :])[0])
        return lack / (self.maximum - self.minimum)

    def _values(self, X: Floats) -> Floats:
        values = self.exact(X)
        if self.noise is not None:
            values += NOISE * self.noise.standard_normal(len(X))
        return values

    def _component(self, d: int, t: Floats) -> Floats:
        """The part (n,) of dimension d at t (n,)."""
        alone = TileCoding(self.features.uniforms[d : d + 1])
        cell = alone.cells(t[:, None], [0], self.cuts[d : d + 1])[0][:, :, 0]
        layers = np.arange(alone.layers)
        scale = np.sqrt(len(self.weights) * alone.layers)
        values: Floats = self.weights[d][layers, cell].sum(axis=1) / scale
        return values

    def _places(self, d: int) -> Floats:
        """The cuts of all layers along dimension d."""
        k = int(self.cuts[d])
        places: Floats = (self.features.uniforms[d][:, None] + np.arange(k)) / k
        return places.ravel()


def _between(places: Floats) -> Floats:
    """One point of [0, 1] between every two neighbours."""
    ends = np.concatenate([[0.0], np.sort(places), [1.0]])
    middle: Floats = (ends[:-1] + ends[1:]) / 2.0
    return middle
