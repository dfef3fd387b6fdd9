"""A training step: where a program is cut, what ranks exchange, who holds which state, and how it is written to files."""
