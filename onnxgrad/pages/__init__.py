"""Web pages of one file: the graph of a model."""

from onnxgrad.pages.graph import view_program

__all__ = ["view_program"]
