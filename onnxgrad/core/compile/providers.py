"""Which execution providers have lowerings: forms of operators that onnxruntime runs faster there, or runs at all."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from onnxgrad.core.ir.opset import OLDEST_WITH_RULES
from onnxgrad.errors import ArgumentError

if TYPE_CHECKING:
    from onnxgrad.core.compile.graph import Graph

__all__ = ["PROVIDERS", "lower"]

PROVIDERS = {
    "cpu": "onnxgrad.core.compile.cpu",
    "cuda": "onnxgrad.core.compile.cuda",
    "openvino": "onnxgrad.core.compile.openvino",
    "openvino_bf16": "onnxgrad.core.compile.openvino_bf16",
    "webgpu": "onnxgrad.core.compile.webgpu",
}
"""By provider: the module whose ``PASSES`` rewrite a graph, in this order."""


def lower(graph: Graph, provider: str) -> None:
    """Write a graph in the forms of a provider; names of inputs and outputs stay.

    Raises:
        ArgumentError: if no provider has this name, or the program is in an opset that the forms are not written in.
    """
    if provider not in PROVIDERS:
        raise ArgumentError(f"lowering is one of {', '.join(map(repr, sorted(PROVIDERS)))} or None, not {provider!r}.")
    version = graph.program.opset_version() or 1
    if version < OLDEST_WITH_RULES:
        raise ArgumentError(
            f"lowering writes operators of opset {OLDEST_WITH_RULES}, and this program is in opset {version}: it has no gradients. "
            "Append them first, or leave lowering out."
        )
    passes: list[Callable[[Graph], None]] = import_module(PROVIDERS[provider]).PASSES
    for rewrite in passes:
        rewrite(graph)
        graph.settle()
