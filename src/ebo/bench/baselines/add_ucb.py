"""Add-GP-UCB (Kandasamy, Schneider and Póczos, 2015): an upper confidence bound a component.

    x_t^{A_m} = argmax μ_m + √β_t σ_m,    β_t = |A_m| log(2t)/5,

with the β_t of their experiments; t counts the observations, hallucinated ones of a batch too.
Boldness (`components.py`) multiplies √β_t.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ebo.arrays import Floats
from ebo.bench.baselines.additive_gp import AdditiveGP
from ebo.bench.baselines.components import ComponentMethod, Worth


class AddGPUCB(ComponentMethod):
    """Batches by hallucinated observations; see `additive.py`."""

    name = "add-gp-ucb"

    def _worths(self, gp: AdditiveGP, P: Floats, boldness: float) -> list[Worth]:
        beta = [0.2 * len(group) * np.log(2 * (1 + len(gp.T))) for group in gp.groups]
        return [partial(_bound, boldness * np.sqrt(of_group)) for of_group in beta]


def _bound(deviations: float, mean: Floats, sd: Floats) -> Floats:
    return mean + deviations * sd
