"""Rewrite operators for onnxruntime-web's WebGPU provider."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from onnxgrad.core.graph.contract import GraphPass, Pass
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.origin import LESS_ONE_AT_LABEL, is_piece
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
    # In the gradient of a labelled loss there is a label for each row.
    of_loss = is_piece(op, LESS_ONE_AT_LABEL) and data.op is not None and data.op.type in ("Exp", "Softmax")
    if not of_loss and any(data.dims[i] != index.dims[i] for i in others):
        return None
    positions = np.arange(size, dtype=np.int32).reshape([-1 if i == axis else 1 for i in range(len(data.dims))])
    hot = build.Cast(build.Equal(positions, build.Cast(index, to=6)), to=data.dtype.number)
    return [build.Add(data, build.Mul(hot, updates))]


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
