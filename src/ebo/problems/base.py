"""What a benchmark problem is.

==============  ========  ======================================================================
name            shape     meaning
==============  ========  ======================================================================
`lower`         (D,)      lower bounds, in the problem's own units (inclusive)
`upper`         (D,)      upper bounds
X               (n, D)    points within the bounds
values          (n,)      what `problem(X)` returns; larger is better, for every problem
`upper_bound`   a float   the maximum where it is known, otherwise a value that none exceeds
==============  ========  ======================================================================

Noise. A problem that has noise draws it from a generator of its own, so many numbers a point, in
the order of the points: how they are cut into batches does not matter, their order does. A pickled
problem carries the state of its generator along, so that copies in several processes all go on
with the same numbers; give each its own with `problem.noise = generator`. All else is a function of
the point alone, to the last bit: what is evaluated with it does not show.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ebo.arrays import Floats
from ebo.tilegp.box import as_points

if TYPE_CHECKING:
    from ebo.space import Space


SLACK = 1e-9  # of the range: a point may be this far outside its bounds, by rounding


class Problem(ABC):
    """A function to be maximised on a box. `noise` is its generator, None where there is none."""

    def __init__(
        self,
        name: str,
        lower: ArrayLike,
        upper: ArrayLike,
        upper_bound: float,
        noise: np.random.Generator | None = None,
    ) -> None:
        self.name = name
        self.lower: Floats = np.array(lower, dtype=np.float64)
        self.upper: Floats = np.array(upper, dtype=np.float64)
        self.upper_bound = float(upper_bound)
        self.noise = noise

    @property
    def dims(self) -> int:
        """D, the number of dimensions."""
        return self.lower.size

    @property
    def maximum(self) -> float:
        """What regret is measured from: `upper_bound`."""
        return self.upper_bound

    @property
    def space(self) -> Space:
        """The search space that the bounds make."""
        from ebo.space import box

        return box(self.lower, self.upper)

    def __repr__(self) -> str:
        return f"<problem {self.name}, {self.dims} dimensions>"

    def __call__(self, X: ArrayLike) -> Floats:
        """The values (n,) of the points X (n, D); a point outside the bounds is an error."""
        points = as_points(X, self.dims)
        slack = SLACK * (self.upper - self.lower)
        inside = (points >= self.lower - slack) & (points <= self.upper + slack)  # not for NaN
        if not inside.all():
            i, d = np.argwhere(~inside)[0]
            raise ValueError(
                f"{self.name}: point {i}, dimension {d}: {points[i, d]} is outside "
                f"[{self.lower[d]:g}, {self.upper[d]:g}]; clip it"
            )
        return self._values(np.ascontiguousarray(np.clip(points, self.lower, self.upper)))

    @abstractmethod
    def _values(self, X: Floats) -> Floats:
        """The values of points that are within the bounds."""
