"""Files that onnxruntime wrote after optimising a graph.

Tests: tests/core/runtime/test_saved.py.
"""

from __future__ import annotations

from pathlib import Path

import onnx

from onnxgrad.core.graph.order import order_of_file
from onnxgrad.core.interop.messages import names_read
from onnxgrad.internal.files import write_whole

__all__ = ["restore_order"]


def restore_order(path: Path) -> None:
    """Order the nodes of an optimised file so that onnxruntime runs them as it did when it wrote the file: in its order."""
    model = onnx.load(path)
    nodes = list(model.graph.node)
    maker = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    reads = [{maker[name] for name in names_read(node) if name in maker} for node in nodes]
    ordered = [nodes[i] for i in order_of_file(reads, range(len(nodes)))]
    del model.graph.node[:]
    model.graph.node.extend(ordered)
    write_whole(path, model.SerializeToString())
