"""paddle.geometric: reductions over groups of rows, and messages along the edges of a graph.

Tests: tests/test_geometric.py.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.internal.arguments import as_kind, checked
from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.tensor.common import extreme_of
from onnxgrad.tensor.layer import LayerHelper, is_variable

__all__ = ["segment_max", "segment_mean", "segment_min", "segment_sum", "send_u_recv", "send_ue_recv", "send_uv"]

MessageName: TypeAlias = Literal["add", "sub", "mul", "div"]
ReduceName: TypeAlias = Literal["sum", "mean", "max", "min"]

_MESSAGES = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div"}
_REDUCTIONS = {"sum": "add", "mean": "add", "max": "max", "min": "min"}


@checked
def segment_sum(data: Variable, segment_ids: Variable, name: str | None = None) -> Variable:
    """Sums of rows that have one number.

    Args:
        data: [N, ...].
        segment_ids: int32 or int64 [N], not negative.

    Returns:
        A row for each number from 0 to the largest; 0 where no row has it.

    Example:
        >>> paddle.geometric.segment_sum(paddle.to_tensor([1.0, 2.0, 4.0]), paddle.to_tensor([0, 0, 2])).tolist()
        [3.0, 0.0, 4.0]
    """
    return _segments("segment_sum", data, segment_ids, "sum", name)


@checked
def segment_mean(data: Variable, segment_ids: Variable, name: str | None = None) -> Variable:
    """Means of rows that have one number.

    Args:
        data: floats [N, ...].
        segment_ids: int32 or int64 [N], not negative.

    Returns:
        A row for each number from 0 to the largest; 0 where no row has it.
    """
    return _segments("segment_mean", data, segment_ids, "mean", name)


@checked
def segment_max(data: Variable, segment_ids: Variable, name: str | None = None) -> Variable:
    """The largest elements of rows that have one number.

    Args:
        data: [N, ...].
        segment_ids: int32 or int64 [N], not negative.

    Returns:
        A row for each number from 0 to the largest; 0 where no row has it.
    """
    return _segments("segment_max", data, segment_ids, "max", name)


@checked
def segment_min(data: Variable, segment_ids: Variable, name: str | None = None) -> Variable:
    """The smallest elements of rows that have one number.

    Args:
        data: [N, ...].
        segment_ids: int32 or int64 [N], not negative.

    Returns:
        A row for each number from 0 to the largest; 0 where no row has it.
    """
    return _segments("segment_min", data, segment_ids, "min", name)


@checked
def send_u_recv(
    x: Variable,
    src_index: Variable,
    dst_index: Variable,
    reduce_op: ReduceName = "sum",
    out_size: int | Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Send the rows of nodes along edges, and reduce what arrives at each node.

    Args:
        x: a row for each node, [N, ...].
        src_index: the node that each edge begins at, int32 or int64 [E].
        dst_index: the node that it ends at, [E].
        reduce_op: how what arrives at one node is reduced.
        out_size: how many rows the result has; as many as ``x`` unless given.

    Returns:
        [out_size, ...]; 0 for a node where nothing arrives.

    Example:
        >>> x, edges = paddle.to_tensor([1.0, 2.0, 4.0]), (paddle.to_tensor([0, 1]), paddle.to_tensor([2, 2]))
        >>> paddle.geometric.send_u_recv(x, *edges).tolist()
        [0.0, 0.0, 3.0]
    """
    layer = LayerHelper("send_u_recv", x, src_index, dst_index, name=name)
    messages = layer.op.Gather(x, src_index)
    return _reduced(layer, messages, dst_index, _rows(layer.op, x, out_size), reduce_op)


@checked
def send_ue_recv(
    x: Variable,
    y: Variable,
    src_index: Variable,
    dst_index: Variable,
    message_op: MessageName = "add",
    reduce_op: ReduceName = "sum",
    out_size: int | Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Send the rows of nodes along edges, each combined with the row of its edge, and reduce what arrives at each node.

    Args:
        x: a row for each node, [N, ...].
        y: a row for each edge, [E, ...], which broadcasts with those of ``x``.
        src_index: the node that each edge begins at, int32 or int64 [E].
        dst_index: the node that it ends at, [E].
        message_op: how the rows of a node and an edge are combined.
        reduce_op: how what arrives at one node is reduced.
        out_size: how many rows the result has; as many as ``x`` unless given.

    Returns:
        [out_size, ...]; 0 for a node where nothing arrives.
    """
    layer = LayerHelper("send_ue_recv", x, y, src_index, dst_index, name=name)
    messages = _combined(layer.op, layer.op.Gather(x, src_index), y, message_op)
    return _reduced(layer, messages, dst_index, _rows(layer.op, x, out_size), reduce_op)


@checked
def send_uv(
    x: Variable, y: Variable, src_index: Variable, dst_index: Variable, message_op: MessageName = "add", name: str | None = None
) -> Variable:
    """Combine the rows of the two nodes of each edge.

    Args:
        x: a row for each node that edges begin at, [N, ...].
        y: a row for each node that they end at.
        src_index: the node that each edge begins at, int32 or int64 [E].
        dst_index: the node that it ends at, [E].
        message_op: how the two rows are combined.

    Returns:
        A row for each edge, [E, ...].
    """
    layer = LayerHelper("send_uv", x, y, src_index, dst_index, name=name)
    op = layer.op
    return layer.result("Identity", _combined(op, op.Gather(x, src_index), op.Gather(y, dst_index), message_op))


def _combined(op: Builder, x: Variable, y: Variable, message_op: MessageName) -> Variable:
    as_kind("geometric", "message_op", message_op, MessageName)
    missing = [*range(1, 1 + x.ndim - y.ndim)]
    result: Variable = getattr(op, _MESSAGES[message_op])(x, op.Unsqueeze(y, missing) if missing else y)
    return result


def _segments(layer_name: str, data: Variable, segment_ids: Variable, reduce: ReduceName, name: str | None) -> Variable:
    layer = LayerHelper(layer_name, data, segment_ids, name=name)
    op = layer.op
    # With a -1 in front there is a largest number where there is no row.
    highest = op.ReduceMax(op.Concat(np.array([-1]), op.Cast(segment_ids, to=7), axis=0), keepdims=1)
    return _reduced(layer, data, segment_ids, op.Add(highest, 1), reduce)


def _rows(op: Builder, x: Variable, out_size: int | Variable | None) -> Variable:
    """How many rows the result has, [1]"""
    if out_size is None or (isinstance(out_size, int) and out_size <= 0):
        return op.Slice(op.Shape(x), [0], [1])
    return op.Reshape(op.Cast(out_size, to=7), [1]) if is_variable(out_size) else op.constant(np.array([out_size]))


def _reduced(layer: LayerHelper, messages: Variable, target: Variable, rows: Variable, reduce: ReduceName) -> Variable:
    """Rows reduced by their numbers; 0 where there is none"""
    as_kind("geometric", "reduce_op", reduce, ReduceName)
    op = layer.op
    size = op.Concat(rows, op.Slice(op.Shape(messages), [1], [np.iinfo(np.int64).max]), axis=0)
    index = op.Reshape(op.Cast(target, to=7), [-1, *[1] * (messages.ndim - 1)])
    places = op.Expand(index, op.Shape(messages))
    start = op.Expand(op.constant(0, messages.dtype), size)
    if reduce == "mean":
        ones = op.Expand(op.constant(1, messages.dtype), op.Shape(messages))
        counts = op.ScatterElements(start, places, ones, axis=0, reduction="add")
        sums = op.ScatterElements(start, places, messages, axis=0, reduction="add")
        return layer.result("Div", sums, op.Max(counts, op.constant(1, messages.dtype)))
    if reduce != "sum":  # rows that a message comes to start from what every message exceeds, the others stay 0
        extreme = op.constant(extreme_of(messages.dtype, reduce == "min"), messages.dtype)
        start = op.ScatterElements(start, places, op.Expand(extreme, op.Shape(messages)), axis=0)
    return layer.result("ScatterElements", start, places, messages, axis=0, reduction=_REDUCTIONS[reduce])


globals().update(absence_hooks(__name__))
