"""Forms for the CPU provider of elementwise operators, sums and Softmax."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.contract import CPU_FORMS, Form, Pass
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.matching import are_same
from onnxgrad.core.graph.rewriting import Links
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.origin import INSIDE_BOUNDS, is_piece
from onnxgrad.core.ir.variable import Variable

__all__ = ["CLIP_MASK", "EQUAL_RANKS", "REDUCE_AS_MATMUL", "RELU_MASK_AS_HARDSIGMOID", "SOFTMAX_OVER_CHANNELS"]

_ELEMENTWISE = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Equal", "Greater", "Less")
_MANY = COSTS.count("elementwise.smallest_tensor")
_FEWEST_ROWS = COSTS.count("elementwise.fewest_rows_to_sum")
_FEWEST_COLUMNS = COSTS.count("elementwise.fewest_columns_to_sum")
_STEEP = 3e38


def with_equal_ranks(build: Any, op: Operator) -> list[Variable | None] | None:
    """A number with as many axes as a tensor whose last ones have one element, as a filter [512, 512, 1, 1].

    Otherwise onnxruntime takes the pair element by element: 60 times slower.
    """
    if len(op.inputs) != 2 or op.inputs[0] is None or op.inputs[1] is None:
        return None
    shapes = [v.static_shape for v in op.inputs if v is not None]
    large = next((s for s in shapes if s and s[-1] == 1 and prod(s) >= _MANY), None)
    if large is None:
        return None
    operands = [_with_rank(build, v, len(large)) for v in op.inputs if v is not None]
    if all(a is b for a, b in zip(operands, op.inputs, strict=True)):
        return None
    return [build.emit(op.type, operands, dict(op.attrs))]


def _with_rank(build: Any, v: Variable, rank: int) -> Any:
    shape = v.static_shape
    if shape is None or len(shape) >= rank or prod(shape) != 1:
        return v
    if v.value is not None and not v.persistable:
        return build.constant(v.value.numpy().reshape([1] * rank))
    return build.Reshape(v, [1] * rank)


def reduce_as_matmul(build: Any, op: Operator) -> list[Variable | None] | None:
    """ReduceSum over the first axes as a row of ones times the matrix: 2 to 20 times as fast, from about 32 rows."""
    x, y = op.inputs[0], op.outputs[0]
    axes = op.inputs[1].value if len(op.inputs) > 1 and op.inputs[1] is not None else None
    if x is None or y is None or axes is None or x.static_shape is None or y.static_shape is None or x.dtype.name != "float32":
        return None
    summed = sorted(int(axis) % len(x.static_shape) for axis in axes.numpy().reshape(-1))
    rows, columns = prod(x.static_shape[: len(summed)]), prod(x.static_shape[len(summed) :])
    if not summed or summed != list(range(len(summed))) or rows < _FEWEST_ROWS or columns < _FEWEST_COLUMNS:
        return None
    matrix = x if x.rank == 2 else build.Reshape(x, [rows, columns])
    total = build.MatMul(np.ones((1, rows), np.float32), matrix)
    return [build.Reshape(total, list(y.static_shape))]


def softmax_over_channels(build: Any, op: Operator) -> list[Variable | None] | None:
    """Softmax and LogSoftmax over the channels of images, with what comes after as one axis.

    onnxruntime turns the axis to the end, and does so 3 to 8 times as fast where it is the middle one of three; the numbers are
    the same.
    """
    x = op.inputs[0]
    if x is None or x.dims is None or len(x.dims) < 4 or op.attr("axis") % len(x.dims) != 1:
        return None
    batch, *sizes = x.dims
    known = [size for size in sizes if isinstance(size, int) and size > 0]
    if len(known) < len(sizes):
        return None
    # 0 is the size that there is.
    batch = batch if isinstance(batch, int) else 0
    flat = build.emit(op.type, [build.Reshape(x, [batch, known[0], prod(known[1:])])], {"axis": 1})
    return [build.Reshape(flat, [batch, *known])]


def relu_mask_as_hardsigmoid(build: Any, op: Operator) -> list[Variable | None] | None:
    """x > 0 as a number, for the masks that gradient rules write: HardSigmoid with the steepest slope, half the time of comparing.

    Exact but for positive x below the smallest normal number, where it is less than 1.
    """
    comparison = None if op.inputs[0] is None else op.inputs[0].op
    if (
        op.role is not Role.BACKWARD
        or op.origin is None
        or comparison is None
        or comparison.type != "Greater"
        or comparison.domain
        or op.attr("to") != 1
    ):
        return None
    x, bound = comparison.inputs
    if x is None or x.dtype.name != "float32" or bound is None or bound.value is None or bound.persistable:
        return None
    if bound.static_shape is None or prod(bound.static_shape) != 1 or bound.value.numpy().any():
        return None
    return [build.HardSigmoid(x, alpha=_STEEP, beta=0.0)]


def clip_masks(graph: Graph) -> Mapping[str, Form]:
    """Whether low <= x <= high as x = Clip(x, low, high), in gradients of Clip: one comparison for two and their And."""
    if "And" not in graph.types():
        return {}
    links = Links(graph)
    positions = {op: i for i, op in enumerate(graph.operators)}

    def write(build: Any, op: Operator) -> list[Variable | None] | None:
        return _clip_mask(build, op, links, positions)

    return {"And": write}


def _clip_mask(build: Any, op: Operator, links: Links, positions: Mapping[Operator, int]) -> list[Variable | None] | None:
    below, above = (None if v is None else v.op for v in op.inputs)
    if not is_piece(op, INSIDE_BOUNDS) or below is None or above is None or below.domain or above.domain:
        return None
    if (below.type, above.type) != ("GreaterOrEqual", "LessOrEqual") or below.inputs[0] is not above.inputs[0]:
        return None
    x, low, high = below.inputs[0], below.inputs[1], above.inputs[1]
    limits = [_number(v) for v in (low, high)]
    if x is None or None in limits or not limits[0] <= limits[1]:  # type: ignore[operator]
        return None
    for reader in links.readers.get(x, ()):
        is_clip = reader.type == "Clip" and not reader.domain and are_same(reader.inputs, (x, low, high))
        if is_clip and positions[reader] < positions[op]:
            return [build.Equal(x, reader.outputs[0])]
    return None


def _number(v: Variable | None) -> float | None:
    """A constant number"""
    known = v is not None and v.value is not None and not v.persistable and v.static_shape == ()
    return float(v.value.numpy()) if known else None  # type: ignore[union-attr]


CLIP_MASK = Pass("clip_mask", forms=clip_masks, gain=CPU_FORMS)
RELU_MASK_AS_HARDSIGMOID = Pass("relu_mask_as_hardsigmoid", forms={"Cast": relu_mask_as_hardsigmoid}, gain=CPU_FORMS)
SOFTMAX_OVER_CHANNELS = Pass(
    "softmax_over_channels", forms=dict.fromkeys(("LogSoftmax", "Softmax"), softmax_over_channels), rounding="order", gain=CPU_FORMS
)
REDUCE_AS_MATMUL = Pass("reduce_as_matmul", forms={"ReduceSum": reduce_as_matmul}, rounding="order", gain=CPU_FORMS)
EQUAL_RANKS = Pass("equal_ranks", forms=dict.fromkeys(_ELEMENTWISE, with_equal_ranks), gain=CPU_FORMS)
