"""Detection on the host: which anchor answers for which object, and what a detector's outputs say."""
