"""Whole-program rewrites. Each is linear in the number of operators."""
