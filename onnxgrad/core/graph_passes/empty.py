"""Tensors without elements, in forms that onnxruntime accepts."""

from __future__ import annotations

import numpy as np

from onnxgrad.core.graph.contract import Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.ir.known import known_ints
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.traverse import all_operators_of

__all__ = ["EMPTY", "write_empty"]


def write_empty(graph: Graph, target: Target) -> int:
    """Write Expand and Reshape to a shape that is known to hold a 0 so that onnxruntime gives that shape.

    It takes the 0 of a constant shape for a 1 where Expand meets an axis of length 1, and refuses a 0 together with a -1.
    """
    rewrites = 0
    for op in all_operators_of(graph.program.global_block()):
        if op.type in ("Expand", "Reshape") and not op.domain and len(op.inputs) == 2:
            rewrites += _write(op)
    if rewrites:
        graph.take_constants()
    return rewrites


EMPTY = Pass("empty", write_empty, when=lambda graph, target: not graph.is_whole)


def _write(op: Operator) -> bool:
    """Write one operator, and return whether it was rewritten"""
    x, target = op.inputs
    y = op.outputs[0]
    shape = None if y is None else y.static_shape
    known = None if target is None or x is None else known_ints(target)
    if shape is None or known is None or x is None or 0 not in shape:
        return False
    constant = op.block.program.constant(np.array(shape, np.int64))
    if op.type == "Expand" and 0 in known:
        op.type, op.inputs = "ConstantOfShape", [constant]
        op.attrs = {"value": TensorValue.of(np.zeros(1, x.dtype.numpy))}
        return True
    if op.type == "Reshape" and -1 in known and (op.block.program.opset_version() or 1) >= _ALLOWS_ZERO:
        op.inputs, op.attrs = [x, constant], {"allowzero": 1}
        return True
    return False


_ALLOWS_ZERO = 14
