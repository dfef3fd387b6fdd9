"""Rewrites of a graph that hold for every provider, or that a graph needs to run at all."""
