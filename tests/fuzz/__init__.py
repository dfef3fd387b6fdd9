"""Damaged files: seeded mutants of small models, each read, described, differentiated, written and run in a process with limits.

``scripts/fuzz --mutants 100000`` is the long run; ``test_fuzz.py`` runs a few hundred.
"""
