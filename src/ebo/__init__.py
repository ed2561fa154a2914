"""Ensemble Bayesian optimisation: expensive functions, many parameters, many evaluations."""
