"""Metrics: means over batches, and those of all examples together."""
