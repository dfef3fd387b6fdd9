"""Which execution providers have forms of their own: operators that onnxruntime runs faster there, or runs at all.

Tests: tests/core/interop/test_lowering.py, tests/core/compile/test_corpus.py.
"""

from __future__ import annotations

from onnxgrad.core.graph.contract import GraphPass, Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.ir.opset import OLDEST_WITH_RULES
from onnxgrad.core.providers import cpu, cuda, openvino, openvino_bf16, webgpu
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.words import Provider

__all__ = ["PROVIDERS", "passes_of"]

PROVIDERS: dict[Provider, list[GraphPass]] = {
    "cpu": cpu.PASSES,
    "cuda": cuda.PASSES,
    "openvino": openvino.PASSES,
    "openvino_bf16": openvino_bf16.PASSES,
    "webgpu": webgpu.PASSES,
}
"""By provider: the passes that write its forms."""


def passes_of(provider: str) -> list[GraphPass]:
    """The passes of a provider, behind one that refuses what they cannot be written in.

    Raises:
        ArgumentError: if no provider has this name.
    """
    if provider not in PROVIDERS:
        raise ArgumentError(f"lowering is one of {', '.join(map(repr, sorted(PROVIDERS)))} or None, not {provider!r}.")
    return [_NEW_ENOUGH, *PROVIDERS[provider]]


def _refuse_old_opset(graph: Graph, target: Target) -> None:
    version = graph.program.opset_version() or 1
    if version < OLDEST_WITH_RULES:
        raise ArgumentError(
            f"lowering writes operators of opset {OLDEST_WITH_RULES}, and this program is in opset {version}: it has no gradients. "
            "Append them first, or leave lowering out."
        )


_NEW_ENOUGH = Pass("new_enough", lambda graph, target: 0, needs=_refuse_old_opset)
