"""Integers are moved before they are dequantised.

onnxruntime moves QuantizeLinear and DequantizeLinear past such an operator by itself, and on some processors (it then makes the
integers unsigned) it refuses what became of a graph of opset 21 or later: "output_dtype INT8 does not match". So graphs with
gradients, which are of these opsets whatever the file was, do not leave it anything to move.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.graph.contract import Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.matching import producer_of
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.variable import Variable

__all__ = ["SINK_DEQUANTIZE"]

_MOVES = ("MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
"""Those past which onnxruntime moves it, which is no property of the operators."""


def _moved_first(build: Builder, op: Operator) -> Any:
    """move(dequantize(x)) as dequantize(move(x)), where there is one scale"""
    source = producer_of(op.inputs[0], "DequantizeLinear")
    if source is None:
        return None
    x, scale, *zero = source.inputs
    if x is None or scale is None or x.type is None or x.dtype.name != "int8" or (scale.rank != 0 and scale.static_shape != (1,)):
        return None
    if op.type == "MaxPool" and not _keeps_order(scale):
        return None
    attrs = {name: value for name, value in op.attrs.items() if value is not None}
    emitted = build.emit(op.type, (x, *op.inputs[1:]), attrs, len(op.outputs))
    results = list(emitted) if isinstance(emitted, tuple) else [emitted]
    kept = {name: value for name, value in source.attrs.items() if name == "output_dtype" and value}
    return [build.DequantizeLinear(results[0], scale, *zero, **kept), *results[1:]]


def _keeps_order(scale: Variable) -> bool:
    """Return whether larger integers are larger numbers too, and are finite: with a scale that is known and positive."""
    if scale.value is None or scale.persistable:
        return False
    largest = np.finfo(np.float16 if scale.dtype.name == "float16" else np.float32).max
    number = float(scale.value.numpy().reshape(-1)[0])
    return 0.0 < number < float(largest) / 2**8


def _has_gradients_and_integers(graph: Graph, target: Target) -> bool:
    has_gradients = any(op.role is Role.BACKWARD for op in graph.operators)
    return has_gradients and any(op.type == "DequantizeLinear" for op in graph.operators)


SINK_DEQUANTIZE = Pass("sink_dequantize", forms=dict.fromkeys(_MOVES, _moved_first), when=_has_gradients_and_integers, repeats=True)
"""Written again until nothing is left to move, as what moves a result moves it again."""
