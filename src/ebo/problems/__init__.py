"""The benchmark problems: `get(name)` makes one, `names()` lists them.

A problem is called on points (n, D) within its bounds and gives values (n,), the larger the better;
see `base.Problem`.
"""

from __future__ import annotations

import re

import numpy as np

from ebo.problems import additive, bbob, push, rover, standard
from ebo.problems.base import Problem

__all__ = ["Problem", "get", "names"]

NUMBERED = re.compile(r"([a-z]+)([1-9][0-9]*)(-separate)?")
BBOB = re.compile(r"bbob([1-9][0-9]?)-([1-9][0-9]*)")


def names() -> list[str]:
    """All names; {D} stands for a number of dimensions, {F} for that of a BBOB function."""
    families = [f"{kind}{{D}}" for kind in standard.FAMILIES]
    fixed = ["push14", "rover60", "rover60-exact", "add{D}", "add{D}-separate"]
    return [*fixed, "branin", "hartmann6", *families, "bbob{F}-{D}"]


def get(
    name: str,
    *,
    seed: int = 0,
    noise: bool | np.random.Generator = True,
    obstacles: rover.Obstacles | None = None,
    shift: bool = True,
) -> Problem:
    """A problem by its name.

    `seed` gives all that is random in it: obstacles, additive functions, shifts and noise. `noise`
    False switches off the noise of push14 and rover60 (the others have none); a generator takes
    the place of the seeded one. `obstacles` of a rover: a CSV file or an array (m, 2) of centres
    instead of random ones. `shift` False leaves the optimum where the literature has it.
    """
    structure, noise_seed = np.random.SeedSequence(seed).spawn(2)
    rng = np.random.default_rng(structure)
    generator = np.random.default_rng(noise_seed) if noise is True else noise or None
    if obstacles is not None and not name.startswith("rover60"):
        raise ValueError(f"{name} has no obstacles; leave them out")
    if name == "push14":
        return push.Push(generator)
    if name in ("rover60", "rover60-exact"):
        centres = rover.layout(rng) if obstacles is None else rover.centres_of(obstacles)
        return rover.Rover(centres, generator, exact=name == "rover60-exact")
    if name == "branin":
        return standard.branin()
    if name == "hartmann6":
        return standard.hartmann6()
    if match := BBOB.fullmatch(name):
        return bbob.BBOB(int(match[1]), int(match[2]), instance=1 + seed)
    if match := NUMBERED.fullmatch(name):
        kind, dims, separate = match[1], int(match[2]), match[3]
        if kind == "add":
            largest = 1 if separate else additive.LARGEST_GROUP
            return additive.Additive(name, dims, rng, largest_group=largest)
        if kind in standard.FAMILIES and not separate:
            return standard.family(name, kind, dims, rng if shift else None)
    raise ValueError(
        f"unknown problem {name!r}; choose one of {', '.join(names())}, "
        f"with a number of dimensions for {{D}} and of a function, 1 to 24, for {{F}}"
    )
