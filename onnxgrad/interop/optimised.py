"""Files that onnxruntime wrote after optimising a graph."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import onnx
from onnx import NodeProto

from onnxgrad.ir.order import order_of_file

__all__ = ["restore_order"]


def restore_order(path: Path) -> None:
    """Order the nodes of an optimised file so that onnxruntime runs them as it did when it wrote the file: in its order."""
    model = onnx.load(path)
    nodes = list(model.graph.node)
    maker = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    reads = [{maker[name] for name in _reads(node) if name in maker} for node in nodes]
    ordered = [nodes[i] for i in order_of_file(reads, range(len(nodes)))]
    del model.graph.node[:]
    model.graph.node.extend(ordered)
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(model.SerializeToString())
    os.replace(partial, path)


def _reads(node: NodeProto) -> Iterable[str]:
    """Names that a node or a body in it reads; those defined in the body are not told apart, and name nothing outside"""
    yield from node.input
    for attribute in node.attribute:
        for body in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
            yield from (v.name for v in body.output)
            for inner in body.node:
                yield from _reads(inner)
