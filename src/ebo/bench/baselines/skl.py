"""SKL: structural kernel learning (Wang, Li, Jegelka, Kohli, 2017), as a case of EBO.

Gibbs sampling of the additive structure on all observations, with one dense kernel and no
partition; no smooth part, probes or polish either. All else is EBO's default: one leaf is searched,
and one batch filtered out of its candidates. As EBO's, the chain learns the length-scales too,
which the original is given.

Cost is cubic in the number n of observations: a sweep over D dimensions factorises some D (M + 9)
matrices of size n, and the search needs one inverse. At n = 1,500 and D = 20 ten sweeps take about
a minute, where EBO's leaves take a quarter of a second.
"""

from __future__ import annotations

from typing import Any

from ebo.arrays import Floats
from ebo.optimizer import Optimizer
from ebo.settings import Settings

MOST = 3_000  # observations: beyond, a batch takes minutes
WITHOUT_PARTITION = Settings().changed(
    max_leaves=1,
    leaf_size=10**9,
    block_size=10**9,
    learn_from=10**9,
    mixture=None,
    probes=None,
)


class SKL(Optimizer):
    """Refuses to go on when there are too many observations, rather than seem to hang."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, settings=WITHOUT_PARTITION, **options)

    def ask(self, n: int) -> Floats:
        """n points (n, D) to evaluate next."""
        if len(self._data.y) > MOST:
            raise RuntimeError(
                f"skl has {len(self._data.y):,} observations, and its cost is cubic in them; "
                f"it takes at most {MOST:,}: use ebo"
            )
        return super().ask(n)
