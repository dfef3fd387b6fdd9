"""Eager tensors: operators are checked and typed when called, and computed together when a value is read."""
