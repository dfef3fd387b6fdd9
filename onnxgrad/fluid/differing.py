"""Functions of Paddle 1 that Paddle 2 dropped or changed, written out.

Tests: tests/fluid/test_fluid.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DTypeLike
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import as_kind
from onnxgrad.internal.losses import huber, logistic_of_scores
from onnxgrad.nn.types import Padding
from onnxgrad.static.nn.common import Attr
from onnxgrad.tensor import creation, elementwise, linalg, manipulation, math
from onnxgrad.tensor.layer import ActivationName, LayerHelper, variables_in

__all__ = [
    "aligned", "cos_sim", "data", "dropout", "embedding", "flatten", "increment", "l2_normalize", "lrn", "matmul", "mul",
    "one_hot", "pool2d", "reshape", "shape", "sigmoid_cross_entropy_with_logits", "smooth_l1", "sums", "swish",
    "unpromoted",
]  # fmt: skip


def aligned(
    layer_name: str,
    function: Callable[..., Variable],
    x: Variable,
    y: Variable,
    axis: int,
    act: ActivationName | None,
    name: str | None,
) -> Variable:
    """Compute a function of two operands, one of which is aligned with some axes of the other.

    Args:
        layer_name: prefix of the names of results.
        function: of two variables that broadcast, with the name of the result.
        x: variable of any shape.
        y: variable whose axes are some of those of ``x``, in order.
        axis: the axis of ``x`` that the first of ``y`` meets; -1 for the last ones.
        act: activation that is applied last; None for none.
    """
    layer = LayerHelper(layer_name, x, y, name=name)
    # y gets axes of size 1 behind its own, so that it meets x from ``axis`` on.
    missing = 0 if axis == -1 else x.ndim - axis - y.ndim
    if missing < 0:
        raise ArgumentError(f"{layer.name}: {y!r} has too many axes to meet {x!r} from axis {axis} on.")
    y = layer.op.Unsqueeze(y, list(range(y.ndim, y.ndim + missing))) if missing else y
    return layer.activate(function(x, y, name=layer.name), act)


def unpromoted(layer_name: str, op_type: str, x: Variable, y: float | Variable | None = None, name: str | None = None) -> Variable:
    """Apply an operator to operands as they are, where Paddle 2 promotes them first.

    Args:
        layer_name: prefix of the name of the result.
        op_type: the operator.
        x: variable of any shape.
        y: a number, or a variable of a shape that broadcasts with ``x``; None if the operator has one operand.
    """
    return LayerHelper(layer_name, *variables_in(x, y), name=name).result(op_type, x, *([] if y is None else [y]))


def data(
    name: str,
    shape: Sequence[int],
    append_batch_size: bool = True,
    dtype: DTypeLike = "float32",
    lod_level: int = 0,
    type: object = None,
    stop_gradient: bool = True,
) -> Variable:
    """An input; a batch axis of any size is put in front.

    Args:
        name: its name.
        shape: its dimensions without the batch axis.
        append_batch_size: False if ``shape`` has it; it is not added either where a dimension is -1 or None.
        dtype: element type.
        lod_level, type: accepted for compatibility.
        stop_gradient: whether gradients stop there.

    Example:
        >>> fluid.layers.data(name="x", shape=[13], dtype="float32").shape
        (-1, 13)
    """
    dims = [None if dim is None or dim < 0 else dim for dim in shape]
    if append_batch_size and None not in dims:
        dims = [None, *dims]
    variable = static.data(name, dims, dtype, lod_level)
    variable.stop_gradient = stop_gradient
    return variable


def increment(x: Variable, value: float = 1.0, in_place: bool = True) -> Variable:
    """Add ``value`` to a variable of one element.

    Args:
        x: variable of one element.
        value: what is added.
        in_place: whether ``x`` becomes the sum; else that is a new variable.
    """
    return math.increment(x, value) if in_place else math.scale(x, bias=value)


def sums(input: Variable | Sequence[Variable], out: Variable | None = None) -> Variable:
    """Add up several tensors of one shape.

    Args:
        input: variables of one shape.
        out: variable that becomes the sum; None for a new one.
    """
    total = elementwise.add_n(input)
    return total if out is None else creation.assign(total, out)


def shape(input: Variable) -> Variable:
    """The dimensions, as int32.

    Args:
        input: variable of any shape.
    """
    layer = LayerHelper("shape", input)
    return layer.result("Cast", layer.op.Shape(input), to=6)


def mul(x: Variable, y: Variable, x_num_col_dims: int = 1, y_num_col_dims: int = 1, name: str | None = None) -> Variable:
    """The product of x and y seen as matrices: the axes before ``x_num_col_dims`` are rows, the others columns.

    Args:
        x: variable of any shape.
        y: variable of any shape.
        x_num_col_dims: how many axes of ``x`` are rows.
        y_num_col_dims: how many axes of ``y`` are rows.
    """
    layer = LayerHelper("mul", x, y, name=name)
    op = layer.op
    if x.ndim == 2 and y.ndim == 2:
        return layer.result("MatMul", x, y)
    product = op.MatMul(op.Flatten(x, axis=x_num_col_dims), op.Flatten(y, axis=y_num_col_dims))
    kept = op.Concat(op.Shape(x, end=x_num_col_dims), op.Shape(y, start=y_num_col_dims), axis=0)
    return layer.result("Reshape", product, kept)


def matmul(
    x: Variable, y: Variable, transpose_x: bool = False, transpose_y: bool = False, alpha: float = 1.0, name: str | None = None
) -> Variable:
    """``alpha`` times the matrix product over the last two axes.

    Args:
        x: [..., n, k].
        y: [..., k, m].
        transpose_x: whether the last two axes of ``x`` are swapped.
        transpose_y: whether those of ``y`` are.
        alpha: factor of the product.
    """
    layer = LayerHelper("matmul", x, y, name=name)
    product = linalg.matmul(x, y, transpose_x, transpose_y, layer.name)
    return product if alpha == 1.0 else layer.result("Mul", product, alpha)


def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Attr = None,
    dtype: DTypeLike = "float32",
) -> Variable:
    """Rows of a new embedding. The last axis of ``input`` is 1 and is taken off; ``fluid.embedding`` keeps all axes.

    Args:
        input: integers [..., 1].
        size: [rows, features].
        is_sparse, is_distributed: accepted for compatibility.
        padding_idx: row that is zeros and gets no gradient.
        param_attr: name, initial value and other options of the rows.
        dtype: element type.

    Example:
        >>> fluid.layers.embedding(fluid.layers.data("ids", shape=[1], dtype="int64"), size=[100, 8]).shape
        (-1, 8)
    """
    if input.shape[-1] != 1:
        raise ArgumentError(f"fluid.layers.embedding: the last axis of {input!r} must be 1. Use fluid.embedding.")
    flat = LayerHelper("squeeze2", input).result("Squeeze", input, [-1])
    return static.nn.embedding(flat, size, is_sparse, is_distributed, padding_idx, param_attr, dtype)


def pool2d(
    input: Variable,
    pool_size: int | Sequence[int] = -1,
    pool_type: str = "max",
    pool_stride: int | Sequence[int] = 1,
    pool_padding: Padding = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
    data_format: Literal["NCHW"] = "NCHW",
) -> Variable:
    """Largest element or mean of each window of [N, C, H, W].

    Args:
        pool_size: window; the whole plane with ``global_pooling``.
        pool_type: 'max' or 'avg'.
        pool_stride, pool_padding: numbers, one per axis; padding also [top, bottom, left, right], 'SAME' or 'VALID'.
        exclusive: leave padding out of the mean.
        data_format: only 'NCHW'.
    """
    as_kind("pool2d", "pool_type", pool_type, Literal["max", "avg"])
    if data_format != "NCHW":
        raise ArgumentError("pool2d: only data_format='NCHW' is offered. Transpose before and after.")
    if global_pooling:
        op_type = "GlobalMaxPool" if pool_type == "max" else "GlobalAveragePool"
        return LayerHelper("pool2d", input, name=name).result(op_type, input)
    pooled: Variable
    if pool_type == "max":
        pooled = F.max_pool2d(input, pool_size, pool_stride, pool_padding, ceil_mode=ceil_mode, name=name)
    else:
        pooled = F.avg_pool2d(input, pool_size, pool_stride, pool_padding, ceil_mode=ceil_mode, exclusive=exclusive, name=name)
    return pooled


def dropout(
    x: Variable,
    dropout_prob: float,
    is_test: bool | None = None,
    seed: int | None = None,
    name: str | None = None,
    dropout_implementation: str = "downgrade_in_infer",
) -> Variable:
    """Zero each element with probability ``dropout_prob`` in training.

    Args:
        is_test: True for inference; a test clone of the program switches by itself.
        seed: accepted for compatibility; set ``program.random_seed``.
        dropout_implementation: 'upscale_in_train' scales by 1 / (1 - p) in training; 'downgrade_in_infer' scales by 1 - p in
            inference. Here the latter scales by 1 - p in both and up again in training, which is the same.
    """
    as_kind("dropout", "dropout_implementation", dropout_implementation, Literal["downgrade_in_infer", "upscale_in_train"])
    upscales = dropout_implementation == "upscale_in_train"
    return F.dropout(x, dropout_prob, None, not is_test, False, "upscale_in_train" if upscales else "downscale_in_infer", name)


def swish(x: Variable, beta: float = 1.0, name: str | None = None) -> Variable:
    """x * sigmoid(beta * x).

    Args:
        x: floats of any shape.
        beta: factor within the sigmoid.
    """
    layer = LayerHelper("swish", x, name=name)
    return layer.result("Mul", x, layer.op.Sigmoid(layer.op.Mul(x, beta)))


def sigmoid_cross_entropy_with_logits(
    x: Variable, label: Variable, ignore_index: int = -100, name: str | None = None, normalize: bool = False
) -> Variable:
    """max(x, 0) - x * label + log(1 + exp(-|x|)), 0 where the label is ``ignore_index``.

    Args:
        x: logits of any shape.
        label: numbers from 0 to 1, of that shape.
        ignore_index: label that counts for nothing.
        normalize: whether it is divided by the number of labels that count.
    """
    layer = LayerHelper("sigmoid_cross_entropy_with_logits", x, label, name=name)
    op = layer.op
    kept = op.Cast(op.Not(op.Equal(label, op.constant(ignore_index, label.dtype))), to=x.dtype.number)
    loss = logistic_of_scores(op, x, label)
    if not normalize:
        return layer.result("Mul", loss, kept)
    return layer.result("Div", op.Mul(loss, kept), op.Max(op.ReduceSum(kept, keepdims=0), 1.0))


def smooth_l1(
    x: Variable,
    y: Variable,
    inside_weight: Variable | None = None,
    outside_weight: Variable | None = None,
    sigma: float | None = None,
) -> Variable:
    """Sum over all but the first axis of 0.5 (sigma d)^2 where abs(d) < 1 / sigma^2, else abs(d) - 0.5 / sigma^2.

    Args:
        x: floats [N, ...].
        y: the same.
        inside_weight: factors of the differences, of that shape.
        outside_weight: factors of the losses, of that shape.
        sigma: where the square ends; 1 unless given.
    """
    layer = LayerHelper("smooth_l1_loss", x, y)
    op, square = layer.op, 1.0 if sigma is None else float(sigma) ** 2
    d = op.Sub(x, y) if inside_weight is None else op.Mul(op.Sub(x, y), inside_weight)
    loss = huber(op, d, 1.0 / square)
    loss = loss if sigma is None else op.Mul(loss, square)
    loss = loss if outside_weight is None else op.Mul(loss, outside_weight)
    return layer.result("ReduceSum", op.Flatten(loss, axis=1), [1], keepdims=1)


def one_hot(input: Variable, depth: int, allow_out_of_range: bool = False) -> Variable:
    """1 at each index and 0 elsewhere; a last axis of size 1 is replaced. Indices outside are all zeros.

    Args:
        input: integers of any shape.
        depth: how many classes.
        allow_out_of_range: accepted for compatibility.
    """
    layer = LayerHelper("one_hot", input)
    op = layer.op
    index = op.Squeeze(input, [-1]) if input.ndim > 1 and input.shape[-1] == 1 else input
    same = op.Equal(op.Unsqueeze(op.Cast(index, to=7), [-1]), np.arange(depth))
    return layer.result("Cast", same, to=1)


def cos_sim(X: Variable, Y: Variable) -> Variable:  # noqa: N803
    """The cosine of the angle between rows, as a column.

    Args:
        X: floats [N, features].
        Y: the same, or one row for all.

    Example:
        >>> fluid.layers.cos_sim(fluid.data("x", [4, 3]), fluid.data("y", [1, 3])).shape
        (4, 1)
    """
    layer = LayerHelper("cos_sim", X, Y)
    op = layer.op
    product = op.ReduceSum(op.Mul(X, Y), [1], keepdims=1)
    lengths = op.Mul(op.ReduceL2(X, [1], keepdims=1), op.ReduceL2(Y, [1], keepdims=1))
    return layer.result("Div", product, lengths)


def l2_normalize(x: Variable, axis: int, epsilon: float = 1e-12, name: str | None = None) -> Variable:
    """x divided by its norm along ``axis``: x / sqrt(sum(x^2) + epsilon).

    Args:
        x: floats of any shape.
        axis: the axis.
        epsilon: what is added to the sum of squares.
    """
    layer = LayerHelper("l2_normalize", x, name=name)
    op = layer.op
    length = op.Sqrt(op.Add(op.ReduceSumSquare(x, [axis], keepdims=1), epsilon))
    return layer.result("Div", x, length)


def lrn(
    input: Variable,
    n: int = 5,
    k: float = 1.0,
    alpha: float = 1e-4,
    beta: float = 0.75,
    name: str | None = None,
    data_format: Literal["NCHW"] = "NCHW",
) -> Variable:
    """x / (k + alpha * sum of squares of n neighbouring channels)^beta. Krizhevsky et al. 2012.

    Args:
        input: [N, C, H, W].
        n: channels in a window.
        k: what is added to the sum.
        alpha: factor of the sum.
        beta: the exponent.
        data_format: only 'NCHW'.
    """
    layer = LayerHelper("lrn", input, name=name)
    return layer.result("LRN", input, size=n, bias=float(k), alpha=float(alpha) * n, beta=float(beta))


def reshape(
    x: Variable,
    shape: Sequence[int] | Variable,
    actual_shape: Variable | None = None,
    act: ActivationName | None = None,
    inplace: bool = False,
    name: str | None = None,
) -> Variable:
    """The elements of ``x`` in another shape; -1 for one dimension to compute, 0 to keep the one of ``x``.

    Args:
        x: variable of any shape.
        shape: the new dimensions.
        actual_shape: the same as a variable, in place of ``shape``.
        act: activation that is applied last; None for none.
        inplace: accepted for compatibility.

    Example:
        >>> fluid.layers.reshape(fluid.layers.data("x", [4, 6]), shape=[0, -1], act="relu").shape
        (-1, 24)
    """
    layer = LayerHelper("reshape2", x, name=name)
    return layer.activate(manipulation.reshape(x, shape if actual_shape is None else actual_shape, layer.name), act)


def flatten(x: Variable, axis: int = 1, name: str | None = None) -> Variable:
    """A matrix: the axes before ``axis`` become rows, the others columns.

    Args:
        x: variable of any shape.
        axis: the first axis that is a column.
    """
    return LayerHelper("flatten", x, name=name).result("Flatten", x, axis=axis)
