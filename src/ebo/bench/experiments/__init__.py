"""The paper's experiments and two of our own, each a module behind `ebo bench NAME`.

An experiment is a module with

=================================  ===============================================================
`SCALES`                           by name (smoke, small, paper), its sizes; `.seeds` among them
`run(scale, seeds, notes)`         does it, and returns a dictionary that JSON can hold
`tables(result)`                   what to print: by title, a list of rows by column
`figures(result, folder)`          writes PNG files there, and returns them
`claims(result)`                   what should hold, and whether it did; may be none
=================================  ===============================================================

`run` gets a `Notes` (`base.py`): a part that was noted is not done again, so that an interrupted
run goes on where it stopped. The paper's are those before `ablation`; it and `robustness` ask what
the choices of the default preset are worth.
"""

from __future__ import annotations

from importlib import import_module
from typing import cast

from ebo.bench.experiments.base import Claim, Experiment, Notes

__all__ = ["EXPERIMENTS", "Claim", "Experiment", "Notes", "get"]

EXPERIMENTS = {
    "starvation": "Fourier features run out of variance, a TileGP in partitions does not (Fig. 1)",
    "crossover": "An additive GP expects its maxima where good parts cross",
    "features": "Four families of random partitions of the plane, and the kernels they tend to",
    "illustration": "Ten iterations in two dimensions: partitions, observations and selections",
    "scalability": "Time of Gibbs sampling against observations and cores, beside SKL",
    "effectiveness": "Additive functions of 50 dimensions: EBO, PBO and sparse GPs",
    "acquisition": "Block optimisation beside Add-GP-UCB and Add-MES",
    "push": "Robot pushing, 14 parameters",
    "rover": "Rover trajectories, 60 parameters",
    "ablation": "The default preset with each of its mechanisms switched off in turn",
    "robustness": "The default preset with each of its numbers halved and doubled",
}


def get(name: str) -> Experiment:
    """The module of an experiment."""
    return cast(Experiment, import_module(f"ebo.bench.experiments.{name}"))
