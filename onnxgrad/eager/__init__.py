"""Eager tensors: operators are checked and typed when called, and computed together when a value is read."""

# Whoever records first, the class of what is recorded is there.
import onnxgrad.eager.tensor  # noqa: F401
