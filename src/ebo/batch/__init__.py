"""The batch: how many candidates each leaf proposes, and which of them are evaluated."""

from ebo.batch.budget import Budget
from ebo.batch.filter import select

__all__ = ["Budget", "select"]
