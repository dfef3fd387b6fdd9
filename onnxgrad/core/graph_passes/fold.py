"""Arithmetic on sizes and small constants that are known, left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.contract import Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.infer import infer_leniently
from onnxgrad.core.ir.known import known_ints
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.simplify import SIMPLER
from onnxgrad.core.ir.sizes import know_sizes
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import from_onnx_number

__all__ = ["FOLD", "fold_constants", "fold_shapes"]

_LARGE = COSTS.count("fold.largest_constant")


def _cast(op: Operator, x: Any) -> Any:
    dtype = from_onnx_number(op.attr("to"))
    return x.astype(dtype.numpy) if dtype.numpy.kind in "iufb" else None


def _squeeze(op: Operator, x: Any, axes: Any = None) -> Any:
    return x.squeeze() if axes is None else x.squeeze(tuple(int(axis) for axis in axes))


_NUMBERS: dict[str, Callable[..., Any]] = {
    "Add": lambda op, x, y: x + y,
    "Cast": _cast,
    "Concat": lambda op, *parts: np.concatenate(parts, op.attr("axis")),
    "Div": lambda op, x, y: x / y,
    "Mul": lambda op, x, y: x * y,
    "Squeeze": _squeeze,
    "Sub": lambda op, x, y: x - y,
}
"""Of floating-point constants; inference already folds integers and booleans (``core/ir/known.py``)."""


def fold_constants(graph: Graph) -> int:
    """Leave out operators on small constants, and sums over no axes. Values of parameters are no constants."""
    before = graph.replacements
    known: dict[Variable, Any] = {}
    returned = {v for _, v in graph.outputs}
    inputs = set(graph.inputs)
    for op in graph.operators:
        y = op.outputs[0]
        if op.domain or len(op.outputs) != 1 or y is None or y in returned:
            continue
        values = [_value(graph, known, inputs, v) for v in op.inputs if v is not None]
        folded = None
        if op.type in _NUMBERS and len(values) == len(op.inputs) and all(value is not None for value in values):
            with np.errstate(all="ignore"):  # what is divided by 0 is infinite, as in the run
                folded = _NUMBERS[op.type](op, *values) if values[0].dtype.kind == "f" or op.type == "Cast" else None
        elif op.type == "ReduceSum" and len(values) == 2 and values[1] is not None and not values[1].size:
            if op.attr("noop_with_empty_axes") and op.inputs[0] is not None:
                graph.replace(y, op.inputs[0])
        if folded is not None and folded.size <= _LARGE:
            known[y] = np.asarray(folded)
            graph.replace(y, graph.program.constant(known[y]))
    if not known:
        return graph.replacements - before
    graph.settle()
    for op in graph.operators:
        if any(v is not None and isinstance(v.type, TensorType) and v.static_shape is None for v in op.outputs):
            infer_leniently(op)
    return graph.replacements - before


def _value(graph: Graph, known: dict[Variable, Any], inputs: set[Variable], v: Variable) -> Any:
    if v in known:
        return known[v]
    v = graph.resolve(v)
    if v.op is not None or v.value is None or v.persistable or v in inputs or v.static_shape is None or not v.dtype.bits >= 8:
        return None
    return v.value.numpy() if int(np.prod(v.static_shape)) <= _LARGE else None


def fold_shapes(graph: Graph) -> int:
    """Leave out arithmetic on shapes that are known, and changes of a shape to itself."""
    before = graph.replacements
    build = Builder(graph.program.global_block(), [])
    returned = {v for _, v in graph.outputs}
    for op in graph.operators:
        v = op.outputs[0] if len(op.outputs) == 1 and not op.domain else None
        if v is None or v in returned:
            continue
        folded = _known_integers(graph, v)
        if folded is None and op.type in ("Shape", "Size", "Expand", "Reshape"):
            folded = SIMPLER[op.type](build, [graph.resolve(x) for x in op.inputs if x is not None], op.attrs)
        if folded is not None:
            graph.replace(v, folded)
    graph.settle()
    return graph.replacements - before


def _known_integers(graph: Graph, v: Variable) -> Variable | None:
    """A small tensor of integers or booleans whose elements are all known, as a constant."""
    entries = known_ints(v) if v.entries is not None and v.static_shape is not None else None
    if entries is None:
        return None
    return graph.program.constant(np.array(entries, v.dtype.numpy).reshape(v.static_shape or ()))


def fold_known_sizes(graph: Graph, target: Target) -> int:
    """Carry the sizes that are known of the inputs through a graph, and leave out what follows from them."""
    know_sizes(graph.operators, lambda v: target.shapes.get(v.name, v.dims or ()))
    return fold_shapes(graph) + fold_constants(graph) + fold_shapes(graph)


FOLD = Pass("fold_sizes", fold_known_sizes, when=lambda graph, target: bool(target.shapes))
