"""Forms of operators chosen for one execution provider, applied to a graph just before it is written."""
