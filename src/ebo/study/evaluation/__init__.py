"""Calling the objective at many points, whatever it does."""
