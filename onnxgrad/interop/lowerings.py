"""Which providers have lowerings: forms of operators that run faster there. ``onnxgrad/lowering`` enters them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from onnxgrad.errors import ArgumentError
from onnxgrad.ir.opset import OLDEST_WITH_RULES
from onnxgrad.ir.order import order_for_memory

if TYPE_CHECKING:
    from onnxgrad.interop.onnx_export import Graph

__all__ = ["LOWERINGS", "lower", "lowers"]

Lowering = Callable[["Graph"], None]

LOWERINGS: dict[str, Lowering] = {}
"""By provider: rewrites the operators of a graph that is about to be written."""


def lowers(provider: str) -> Callable[[Lowering], Lowering]:
    """Enter the lowering of a provider."""

    def enter(function: Lowering) -> Lowering:
        LOWERINGS[provider] = function
        return function

    return enter


def lower(graph: Graph, provider: str | None) -> None:
    """Write a graph in the forms of a provider, if one is named; names of inputs and outputs stay.

    Raises:
        ArgumentError: if no provider has this name, or the program is in an opset that the forms are not written in.
    """
    if provider is None:
        return
    found = LOWERINGS.get(provider) if isinstance(provider, str) else None
    if found is None:
        raise ArgumentError(f"lowering is one of {', '.join(map(repr, sorted(LOWERINGS)))} or None, not {provider!r}.")
    version = graph.program.opset_version() or 1
    if version < OLDEST_WITH_RULES:
        raise ArgumentError(
            f"lowering writes operators of opset {OLDEST_WITH_RULES}, and this program is in opset {version}: it has no gradients. "
            "Append them first, or leave lowering out."
        )
    found(graph)
    graph.operators = order_for_memory(graph.operators, graph.name)
