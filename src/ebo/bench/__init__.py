"""Measurements and experiments, each behind one command of `ebo bench`."""
