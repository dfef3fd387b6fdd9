"""Rewrite operators for onnxruntime-web's WebGPU provider."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from onnxgrad.core.graph.contract import GraphPass, Pass
from onnxgrad.core.graph.matching import operand_of, producer_of
from onnxgrad.core.ir.known import entries_of
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.origin import LESS_ONE_AT_LABEL, is_piece
from onnxgrad.core.ir.types import same_dim
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.providers.cuda import TRAINING_BATCH_NORMALIZATION
from onnxgrad.core.providers.layouts.pool_gradient import UNREAD_INDICES, pool_gradient
from onnxgrad.core.providers.losses.labelled import LABELLED_LOSSES

__all__ = ["PASSES"]

_MOST_PARTS = 7
"""Of a Split: every adapter takes eight buffers at once, one of which is read."""


def _split(build: Any, op: Operator) -> list[Variable | None] | None:
    """Split into many parts as Splits into few parts of parts."""
    sizes = [_size(v, op.attr("axis")) for v in op.outputs]
    if len(sizes) <= _MOST_PARTS or None in sizes:
        return None
    return _parts(build, op.inputs[0], sizes, op.attr("axis"))


def _size(v: Variable | None, axis: int) -> int | None:
    size = None if v is None or v.dims is None else v.dims[axis]
    return size if isinstance(size, int) else None


def _parts(build: Any, x: Any, sizes: list[Any], axis: int) -> list[Variable | None]:
    if len(sizes) == 1:
        return [x]
    if len(sizes) <= _MOST_PARTS:
        return list(build.Split(x, sizes, axis=axis, outputs=len(sizes)))
    many = ceil(len(sizes) / _MOST_PARTS)
    groups = [sizes[i : i + many] for i in range(0, len(sizes), many)]
    splits = build.Split(x, [sum(group) for group in groups], axis=axis, outputs=len(groups))
    return [part for y, group in zip(splits, groups, strict=True) for part in _parts(build, y, group, axis)]


def _log_softmax(build: Any, op: Operator) -> list[Variable | None] | None:
    """x - max(x) - log(sum(exp(x - max(x))))"""
    x, axis = op.inputs[0], [op.attr("axis")]
    centred = build.Sub(x, build.ReduceMax(x, axis, keepdims=1))
    return [build.Sub(centred, build.Log(build.ReduceSum(build.Exp(centred), axis, keepdims=1)))]


def _elements(build: Any, op: Operator) -> list[Variable | None] | None:
    """The product of the shape: Size itself would fetch the tensor to the host."""
    return [build.ReduceProd(build.Shape(op.inputs[0]), keepdims=0)]


def _at_label(build: Any, op: Operator) -> list[Variable | None] | None:
    """data + one-hot(index) * updates, for ScatterElements(add) at one index per row of an axis of known size"""
    data, index, updates = op.inputs
    if data is None or index is None or updates is None or data.dims is None or index.dims is None:
        return None
    axis = op.attr("axis") % len(data.dims)
    size = data.dims[axis]
    others = [i for i in range(len(data.dims)) if i != axis]
    if op.attr("reduction") != "add" or not isinstance(size, int) or index.dims[axis] != 1:
        return None
    of_loss = axis == 1 and _has_label_for_each_row(op)
    if len(index.dims) != len(data.dims) or not (of_loss or all(same_dim(data.dims[i], index.dims[i]) for i in others)):
        return None
    wanted = build.Cast(index, to=6)
    if not of_loss:
        # A label is not negative; another index may count from the end.
        wanted = build.Add(wanted, build.Mul(build.Cast(build.Less(wanted, np.int32(0)), to=6), np.int32(size)))
    positions = np.arange(size, dtype=np.int32).reshape([-1 if i == axis else 1 for i in range(len(data.dims))])
    hot = build.Cast(build.Equal(positions, wanted), to=data.dtype.number)
    return [build.Add(data, build.Mul(hot, updates))]


def _has_label_for_each_row(op: Operator) -> bool:
    """Return whether the gradient of a labelled loss takes 1 from its probabilities at its labels, one for each row."""
    of = op.origin.of if op.origin is not None and is_piece(op, LESS_ONE_AT_LABEL) else None
    loss = producer_of(of, "SoftmaxCrossEntropyLoss")
    column = producer_of(op.inputs[1], "Unsqueeze")
    if loss is None or column is None or entries_of(column.inputs[1]) != (1,):
        return False
    safe = operand_of(column.inputs[0], "Mul") if loss.attr("ignore_index") is not None else column.inputs[0]
    log = operand_of(op.inputs[0], "Exp")
    scores = operand_of(op.inputs[0], "Softmax") if log is None else operand_of(log, "LogSoftmax")
    is_own_log = log is not None and len(loss.outputs) > 1 and loss.outputs[1] is log
    has_scores = is_own_log or (scores is not None and scores is loss.inputs[0])
    return has_scores and any(v is loss.inputs[1] for v in (safe, operand_of(safe, "Cast")))


PASSES: list[GraphPass] = [
    TRAINING_BATCH_NORMALIZATION,
    LABELLED_LOSSES,
    Pass("pool_gradient", forms={"ScatterElements": pool_gradient}, rounding="order"),
    Pass("at_label", forms={"ScatterElements": _at_label}),
    Pass("size_as_product", forms={"Size": _elements}),
    Pass("narrow_split", forms={"Split": _split}),
    # What is written out of losses has LogSoftmax in it.
    Pass("log_softmax", forms={"LogSoftmax": _log_softmax}, after=("labelled_losses",), rounding="order"),
    UNREAD_INDICES,
]
