"""A graph that may be rewritten: what it is made from, what is known of it, and in which order it is written."""
