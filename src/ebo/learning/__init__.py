"""Learning the structure of the function, and the model of every leaf (Alg. 1, lines 6, 7, 13)."""

from ebo.learning.base import Data, LeafModel, Learner, Learning, Structure, condition
from ebo.learning.model import Model
from ebo.learning.per_leaf import PerLeaf
from ebo.learning.pooled import Pooled

__all__ = [
    "Data",
    "LeafModel",
    "Learner",
    "Learning",
    "Model",
    "PerLeaf",
    "Pooled",
    "Structure",
    "condition",
]
