"""From a program to the graph that is run or written: planned, in the forms of a provider, in an order that takes little memory.

``compile`` is the one door. A provider's forms are entered in ``core/providers/registry.py``: a further provider is one entry.
"""

from onnxgrad.core.compile.door import compile
from onnxgrad.core.compile.refusal import refusal
from onnxgrad.core.graph.graph import Graph

__all__ = ["Graph", "compile", "refusal"]
