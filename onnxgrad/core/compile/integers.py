"""Integers are moved before they are dequantised.

onnxruntime moves QuantizeLinear and DequantizeLinear past such an operator by itself, and on some processors (it then makes the
integers unsigned) it refuses what became of a graph of opset 21 or later: "output_dtype INT8 does not match". So graphs with
gradients, which are of these opsets whatever the file was, do not leave it anything to move.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.compile.graph import Graph
from onnxgrad.core.compile.rewriting import rewrite_operators
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator

__all__ = ["move_integers"]

_MOVES = ("MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")


def _moved_first(build: Builder, op: Operator) -> Any:
    """move(dequantize(x)) as dequantize(move(x)), where there is one scale"""
    read = op.inputs[0]
    source = read.op if read is not None else None
    if source is None or source.type != "DequantizeLinear" or source.domain != "":
        return None
    x, scale, *zero = source.inputs
    if x is None or scale is None or x.type is None or x.dtype.name != "int8" or (scale.rank != 0 and scale.static_shape != (1,)):
        return None
    attrs = {name: value for name, value in op.attrs.items() if value is not None}
    found = build.emit(op.type, (x, *op.inputs[1:]), attrs, len(op.outputs))
    results = list(found) if isinstance(found, tuple) else [found]
    return [build.DequantizeLinear(results[0], scale, *zero), *results[1:]]


def move_integers(graph: Graph) -> None:
    """Write moves of dequantised tensors so, and what moves the result again."""
    while True:
        before = list(graph.operators)
        rewrite_operators(graph, dict.fromkeys(_MOVES, _moved_first))
        graph.settle()
        if graph.operators == before:
            return
