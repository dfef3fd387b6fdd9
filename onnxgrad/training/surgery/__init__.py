"""Changes to a model before it is trained: heads, LoRA, ties, batch normalization, what trains."""
