"""The report of a run, and what it is made of."""
