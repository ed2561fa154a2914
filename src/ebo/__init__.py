"""Ensemble Bayesian optimisation: expensive functions, many parameters, many evaluations."""

from ebo import native

__all__ = ["native"]
