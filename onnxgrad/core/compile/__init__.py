"""From a program to the graph that is run or written: planned, in the forms of a provider, in an order that takes little memory.

``compile`` is the one door. A provider's forms are entered in ``providers.PROVIDERS``: a further provider is one entry.
"""

from onnxgrad.core.compile.graph import Graph, compile
from onnxgrad.core.compile.refusal import refusal

__all__ = ["Graph", "compile", "refusal"]
