"""`ebo bench rover`: the paper's rover trajectories, 60 parameters, batches of 500.

The paper begins with 10,000 random points and repeats five times; how many batches it goes on for
is not told, here it is 30. It has CEM ahead of EBO, and EBO far ahead of SVI. `ebo-paper` has the
paper's settings: at most 1,000 leaves of fewer than 100 points, β = (2, 5). Of its two ε, 0 and
0.01, it has the first. The layout of obstacles is our own, that of seed 0.
"""

from __future__ import annotations

from ebo.bench.experiments.base import Claim, Result
from ebo.bench.experiments.race import Race, figures, run, tables
from ebo.bench.experiments.race import claims as race_claims

__all__ = ["SCALES", "claims", "figures", "run", "tables"]

METHODS = ("ebo", "ebo-paper", "cem", "bo-svi", "bo-add-svi", "turbo-1", "cma-batch", "cma")
SCALES = {
    "smoke": Race("rover60", ("ebo", "ebo-paper", "cem"), 1, 150, 2, 20),
    "small": Race("rover60", METHODS, 2, 2_000, 4, 500),
    "paper": Race("rover60", METHODS, 5, 10_000, 30, 500),
}


def claims(result: Result) -> list[Claim]:
    """Those of a race."""
    return race_claims(result, "ebo-paper")
