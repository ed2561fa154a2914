"""BlockOpt: the paper's acquisition function on the full additive GP (Section 3.3, appendix E).

    η(x) = (f* - μ(x))/σ(x)

is minimised over one group's block after the other, the other blocks held: μ and σ are those of f,
not of a component, so that the known maximum f* can be used.
"""

from __future__ import annotations

import numpy as np

from ebo.acquisition import Goal, eta, gumbel_maxima
from ebo.arrays import Floats
from ebo.bench.baselines.additive import AdditiveMethod, climb
from ebo.bench.baselines.additive_gp import AdditiveGP

PASSES = 2
GUESSES = 99  # samples of an unknown maximum


class BlockOpt(AdditiveMethod):
    """From the best observation and from a random point; the better of the two ends is taken.

    f* is the upper bound (lower, where minimised); the median of a Gumbel law where it is not
    given.
    """

    name = "block-opt"

    def _next(self, gp: AdditiveGP, best: Floats) -> Floats:
        P = self._tries(best)
        goal = self._goal(gp, P)
        ends = [self._ascend(gp, goal, x, P) for x in (best[0], P[0])]
        return max(ends, key=lambda end: end[1])[0]

    def _ascend(self, gp: AdditiveGP, goal: Goal, x: Floats, P: Floats) -> tuple[Floats, float]:
        """Where block coordinate ascent of -η from x ends, and -η there."""
        x = x.copy()
        parts = [gp.part(m, x[None, :])[0] for m in range(len(gp.groups))]  # v = Σ_m v_m
        for _ in range(PASSES):
            for m in self.rng.permutation(len(gp.groups)):
                group = gp.groups[m]
                others = np.sum([v for i, v in enumerate(parts) if i != m], axis=0)

                def value(Q: Floats, m: int = m, others: Floats = others) -> Floats:
                    return eta(*gp.moments(others + gp.part(m, Q)), goal)

                x[group] = climb(np.concatenate([x[None, :], P]), group, value, self.rng)[group]
                parts[m] = gp.part(m, x[None, :])[0]
        v = np.sum(parts, axis=0)
        return x, float(eta(*gp.moments(v[None, :]), goal)[0])

    def _goal(self, gp: AdditiveGP, P: Floats) -> Goal:
        """f* in the scale of the GP, and above what is believed of any observation."""
        mean, sd = gp.predict(P)
        if self.bound is None:
            bound = float(np.median(gumbel_maxima(mean, sd, GUESSES, self.rng)))
        else:
            bound = (self.bound - gp.mean) / gp.scale
        best = float(mean.max())
        return Goal(best, max(bound, best + 1e-3))
