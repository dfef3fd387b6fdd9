"""The forms in which each execution provider runs a graph faster, or at all; ``registry`` is the list."""
