"""Methods that look at each component by itself: its posterior, its acquisition, its dimensions.

Repeated points. A component stays uncertain where f is known, since only sums are observed: all
components may like their block of the best point, and put together they are that point again. (On
noiseless functions of 10 dimensions more than half of all points were.) Evaluating it a second
time tells nothing. Then the components try again, twice as bold, and so on until the point is new.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np

from ebo.arrays import Floats
from ebo.bench.baselines.additive import AdditiveMethod, climb
from ebo.bench.baselines.additive_gp import AdditiveGP

Worth = Callable[[Floats, Floats], Floats]  # of means and deviations

BOLDNESS = (1.0, 2.0, 4.0, 8.0, 16.0)
SAME = 1e-9  # difference of coordinates by rounding


class ComponentMethod(AdditiveMethod):
    """The point is put together from the maxima of the components' acquisition functions.

    f* is of no use here: nothing says which part of it is a component's.
    """

    def _next(self, gp: AdditiveGP, best: Floats) -> Floats:
        P = self._tries(best)
        for boldness in BOLDNESS:
            x: Floats = self.space.snap(self._together(gp, P, boldness)[None, :])[0]
            if np.abs(gp.T - x).max(axis=1).min() > SAME:  # told, waited for or of this batch
                break
        return x

    def _together(self, gp: AdditiveGP, P: Floats, boldness: float) -> Floats:
        """All components' maxima; P are points whose blocks are to be tried."""
        x = np.empty(self.dims)
        worths = self._worths(gp, P, boldness)
        for m, (group, worth) in enumerate(zip(gp.groups, worths, strict=True)):

            def value(Q: Floats, m: int = m, worth: Worth = worth) -> Floats:
                return worth(*gp.part_moments(m, Q))

            x[group] = climb(P, group, value, self.rng)[group]
        return x

    @abstractmethod
    def _worths(self, gp: AdditiveGP, P: Floats, boldness: float) -> list[Worth]:
        """For every component, what a block is worth by its μ_m and σ_m.

        Boldness is one, or more where more must be explored.
        """
