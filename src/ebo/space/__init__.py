"""Where points live: parameters, spaces, and their maps to the unit cube."""

from ebo.space.parameters import Categorical, Float, Int, Parameter
from ebo.space.space import Points, Space, box

__all__ = ["Categorical", "Float", "Int", "Parameter", "Points", "Space", "box"]
