"""Where new points come from: the search with its moves, polish, probes (Alg. 1, lines 8-10)."""

from ebo.moves.base import Move, Region
from ebo.moves.climbing import Climbing
from ebo.moves.crossover import Crossover
from ebo.moves.difference import Difference
from ebo.moves.printed import Printed
from ebo.moves.probes import Probes
from ebo.moves.shrinking import Shrinking
from ebo.moves.starts import Starts
from ebo.moves.step import Step

__all__ = [
    "Climbing",
    "Crossover",
    "Difference",
    "Move",
    "Printed",
    "Probes",
    "Region",
    "Shrinking",
    "Starts",
    "Step",
]
