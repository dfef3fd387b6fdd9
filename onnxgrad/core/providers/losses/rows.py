"""Forms for the CPU provider of what selects by index: cross-entropy of labels, gradients of small embeddings and of maxima."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.contract import CPU_FORMS, Pass
from onnxgrad.core.graph.matching import is_zero, operand_of, producer_of, summed_pool
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.origin import is_written_for
from onnxgrad.core.ir.types import same_dims
from onnxgrad.core.ir.variable import Variable

__all__ = ["CROSS_ENTROPY_ROWS", "SCATTERED_ROWS", "cross_entropy", "embedding_gradient", "scatter"]

_SMALL_EMBEDDING = COSTS.count("rows.most_rows_of_a_table")
_SMALL_MATRIX = COSTS.count("rows.largest_one_hot")
_NARROW = COSTS.count("rows.fewest_columns")


def cross_entropy(build: Any, op: Operator) -> list[Variable | None] | None:
    """loss = -mean(log_softmax(scores) at the label): five operators, where onnxruntime's own expansion has about ten.

    For a matrix of scores, without weights, ignored labels and the second output.
    """
    scores, label = op.inputs[:2]
    plain = op.attr("ignore_index") is None and op.attr("reduction") in (None, "mean") and len(op.inputs) == 2
    if not plain or scores is None or scores.rank != 2 or any(v is not None for v in op.outputs[1:]):
        return None
    at_label = build.GatherElements(build.LogSoftmax(scores, axis=1), build.Unsqueeze(label, [1]), axis=1)
    return [build.Neg(build.ReduceMean(at_label, keepdims=0))]


def embedding_gradient(build: Any, op: Operator) -> list[Variable | None] | None:
    """gradient = one-hot matrix [all rows, selected rows] times updates, for ScatterElements(add) of whole rows into zeros.

    In the gradient of a Gather only, which has refused indices out of range. For at most 256 rows, and at most 65,536 elements
    of the one-hot matrix; beyond, it is slower. A row that is not finite makes all of the gradient NaN, not one row of it.
    """
    data, index, updates = op.inputs
    if not is_written_for(op, "Gather") or op.attr("reduction") != "add":
        return None
    if op.attr("axis") != 0 or data is None or updates is None or data.dtype.name != "float32":
        return None
    selected = _rows_of(index)
    shape, updates_shape = data.static_shape, updates.static_shape
    if (
        selected is None
        or not is_zero(data)
        or shape is None
        or updates_shape is None
        or len(shape) != 2
        or shape[1:] != updates_shape[1:]
    ):
        return None
    if selected.static_shape != (updates_shape[0], 1):
        return None
    if shape[0] > _SMALL_EMBEDDING or shape[0] * updates_shape[0] > _SMALL_MATRIX or shape[1] < _NARROW:
        return None
    rows = np.arange(shape[0], dtype=selected.dtype.numpy)[:, None]
    # Mod: an index may count from the end.
    hot = build.Equal(rows, build.Reshape(build.Mod(selected, np.asarray(shape[0], selected.dtype.numpy)), [1, -1]))
    return [build.MatMul(build.Cast(hot, to=1), updates)]


def scatter(build: Any, op: Operator) -> list[Variable | None] | None:
    """The forms of ScatterElements, whichever applies."""
    return embedding_gradient(build, op) or unpool(build, op)


def unpool(build: Any, op: Operator) -> list[Variable | None] | None:
    """MaxUnpool, for the gradient of a MaxPool whose windows do not overlap: every element gets one value, so nothing is summed."""
    data, _, updates = op.inputs
    pool = summed_pool(op)
    if pool is None or data is None:
        return None
    kernel, image, values = pool.attr("kernel_shape"), pool.inputs[0], operand_of(updates, "Reshape")
    strides, dilations = pool.attr("strides") or [1] * len(kernel), pool.attr("dilations") or [1] * len(kernel)
    overlap = any(s < (k - 1) * d + 1 for s, k, d in zip(strides, kernel, dilations, strict=True))
    if overlap or image is None or values is None or data.dtype.name != "float32":
        return None
    if not same_dims(values.dims, pool.outputs[1].dims):  # type: ignore[union-attr]
        return None
    # The kernel only says how large the result is at least, where the shape is given.
    ones = [1] * len(kernel)
    whole = build.MaxUnpool(values, pool.outputs[1], _shape_of(build, image), kernel_shape=ones, strides=ones)
    return [build.Reshape(whole, _shape_of(build, data))]


def _shape_of(build: Any, v: Variable) -> Any:
    """Return the shape of a tensor: as numbers if it is known; of an Expand, its operand."""
    if v.static_shape is not None:
        return list(v.static_shape)
    expand = producer_of(v, "Expand")
    return build.Shape(v) if expand is None else expand.inputs[1]


def _rows_of(index: Variable | None) -> Variable | None:
    """Return the vector of rows that an index repeats along all columns; None of any other index."""
    column = operand_of(index, "Expand")
    return None if column is None or column.dims is None or len(column.dims) != 2 or column.dims[1] != 1 else column


CROSS_ENTROPY_ROWS = Pass("cross_entropy_rows", forms={"SoftmaxCrossEntropyLoss": cross_entropy}, rounding="order", gain=CPU_FORMS)
SCATTERED_ROWS = Pass("scattered_rows", forms={"ScatterElements": scatter}, rounding="order", gain=CPU_FORMS)
