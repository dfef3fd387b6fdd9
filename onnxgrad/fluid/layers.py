"""fluid.layers: the functions of Paddle 1, with their old argument names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import numpy as np

import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DTypeLike
from onnxgrad.errors import ArgumentError, NotOffered
from onnxgrad.fluid.rates import (
    cosine_decay,
    exponential_decay,
    inverse_time_decay,
    linear_lr_warmup,
    natural_exp_decay,
    noam_decay,
    piecewise_decay,
    polynomial_decay,
)
from onnxgrad.internal.losses import huber, logistic_of_scores
from onnxgrad.internal.refusals import absence_hooks, refusals
from onnxgrad.nn.functional import elu, sigmoid, softsign, square_error_cost
from onnxgrad.nn.types import Padding
from onnxgrad.static import Print, accuracy, auc, create_global_var, create_parameter
from onnxgrad.static.nn import (
    batch_norm,
    bilinear_tensor_product,
    case,
    cond,
    conv2d,
    conv2d_transpose,
    conv3d,
    conv3d_transpose,
    data_norm,
    group_norm,
    instance_norm,
    layer_norm,
    nce,
    prelu,
    py_func,
    row_conv,
    sequence_conv,
    sequence_expand,
    sequence_first_step,
    sequence_last_step,
    sequence_pool,
    sequence_softmax,
    spectral_norm,
    switch_case,
    while_loop,
)
from onnxgrad.static.nn.common import Attr
from onnxgrad.tensor import creation, elementwise, joining, linalg, logic, manipulation, math, search
from onnxgrad.tensor.common import Axes, Number, Shape, axes_of
from onnxgrad.tensor.joining import slice, stack
from onnxgrad.tensor.layer import ActivationName, LayerHelper
from onnxgrad.tensor.logic import logical_not
from onnxgrad.tensor.manipulation import cast, transpose
from onnxgrad.tensor.math import abs, ceil, cos, exp, floor, log, reciprocal, rsqrt, scale, sign, sin, sqrt, square, tanh
from onnxgrad.tensor.reduction import reduce
from onnxgrad.tensor.tables import named_function

__all__ = [
    "Print", "abs", "accuracy", "argmax", "argmin", "assign", "auc", "batch_norm", "bilinear_tensor_product", "case", "cast",
    "ceil", "clip", "concat", "cond", "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose", "cos", "cos_sim", "cosine_decay",
    "create_global_var", "create_parameter", "cross_entropy", "data", "data_norm", "dropout", "elementwise_add",
    "elementwise_div", "elementwise_floordiv", "elementwise_max", "elementwise_min", "elementwise_mod", "elementwise_mul",
    "elementwise_pow", "elementwise_sub", "elu", "embedding", "equal", "exp", "expand", "exponential_decay", "fc",
    "fill_constant", "flatten", "floor", "gather", "gelu", "greater_equal", "greater_than", "group_norm", "increment",
    "instance_norm", "inverse_time_decay", "l2_normalize", "label_smooth", "layer_norm", "leaky_relu", "less_equal",
    "less_than", "linear_lr_warmup", "log", "log_softmax", "logical_and", "logical_not", "logical_or", "logical_xor", "lrn",
    "matmul", "mean", "mse_loss", "mul", "natural_exp_decay", "nce", "noam_decay", "not_equal", "one_hot", "ones", "pad",
    "piecewise_decay", "polynomial_decay", "pool2d", "pow", "prelu", "py_func", "reciprocal", "reduce_max", "reduce_mean",
    "reduce_min", "reduce_prod", "reduce_sum", "relu", "relu6", "reshape", "round", "row_conv", "rsqrt", "scale",
    "sequence_conv", "sequence_expand", "sequence_first_step", "sequence_last_step", "sequence_pool", "sequence_softmax",
    "shape", "sigmoid", "sigmoid_cross_entropy_with_logits", "sign", "sin", "slice", "smooth_l1", "softmax",
    "softmax_with_cross_entropy", "softplus", "softsign", "spectral_norm", "split", "sqrt", "square", "square_error_cost",
    "squeeze", "stack", "sum", "sums", "swish", "switch_case", "tanh", "topk", "transpose", "unsqueeze", "unstack",
    "while_loop", "zeros",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


# Under other arguments than today ------------------------------------------------------------------------------------


def fill_constant(
    shape: Shape, dtype: DTypeLike, value: Number, force_cpu: bool = False, out: None = None, name: str | None = None
) -> Variable:
    """A tensor of one value; ``force_cpu`` and ``out`` are accepted for compatibility.

    Args:
        shape: ints, an integer variable, or a list that mixes ints and variables of one element.
        dtype: element type.
        value: a number, or a variable of one element.
        force_cpu, out: accepted for compatibility.
    """
    return creation.full(shape, value, dtype, name)


def zeros(shape: Shape, dtype: DTypeLike, force_cpu: bool = False, name: str | None = None) -> Variable:
    """A tensor of zeros.

    Args:
        shape: ints, an integer variable, or a list that mixes ints and variables of one element.
        dtype: element type.
        force_cpu: accepted for compatibility.
    """
    return creation.zeros(shape, dtype, name)


def ones(shape: Shape, dtype: DTypeLike, force_cpu: bool = False) -> Variable:
    """A tensor of ones.

    Args:
        shape: ints, an integer variable, or a list that mixes ints and variables of one element.
        dtype: element type.
        force_cpu: accepted for compatibility.
    """
    return creation.ones(shape, dtype)


def round(x: Variable, name: str | None = None) -> Variable:
    """Nearest integer; a half goes to the even neighbour.

    Args:
        x: floats of any shape.
    """
    return math.round(x, name=name)


def clip(x: Variable, min: Number, max: Number, name: str | None = None) -> Variable:
    """Elements limited to [min, max]; the gradient passes at the limits.

    Args:
        x: variable of any shape.
        min: the lower limit.
        max: the upper limit.
    """
    return math.clip(x, min, max, name)


def argmax(x: Variable, axis: int = 0) -> Variable:
    """Index of the largest element along ``axis``; the first of equal ones.

    Args:
        x: variable of any shape.
        axis: the axis.
    """
    return search.argmax(x, axis)


def argmin(x: Variable, axis: int = 0) -> Variable:
    """Index of the smallest element along ``axis``; the first of equal ones.

    Args:
        x: variable of any shape.
        axis: the axis.
    """
    return search.argmin(x, axis)


def increment(x: Variable, value: float = 1.0, in_place: bool = True) -> Variable:
    """``x + value`` for one element. The result is a new variable: programs here never overwrite one.

    Args:
        x: variable of one element.
        value: what is added.
        in_place: accepted for compatibility.
    """
    return math.increment(x, value)


def sums(input: Variable | Sequence[Variable], out: None = None) -> Variable:
    """Sum of several tensors of one shape.

    Args:
        input: variables of one shape.
        out: accepted for compatibility.
    """
    return elementwise.add_n(input)


def sum(x: Variable | Sequence[Variable]) -> Variable:
    """Sum of several tensors of one shape.

    Args:
        x: variables of one shape.
    """
    return elementwise.add_n(x)


def concat(input: Sequence[Variable], axis: int | Variable = 0, name: str | None = None) -> Variable:
    """Several tensors joined along ``axis``.

    Args:
        input: variables whose sizes are equal on the other axes.
        axis: the axis.
    """
    return joining.concat(input, axis, name)


def split(
    input: Variable, num_or_sections: int | Sequence[int], dim: int | Variable = -1, name: str | None = None
) -> list[Variable]:
    """Parts of ``input`` along ``dim``: a number of equal ones, or of given sizes (one may be -1).

    Args:
        input: variable of any shape.
        num_or_sections: how many parts, or their sizes.
        dim: the axis.
    """
    return joining.split(input, num_or_sections, dim, name)


def softplus(x: Variable, name: str | None = None) -> Variable:
    """log(1 + exp(x)).

    Args:
        x: floats of any shape.
    """
    return F.softplus(x, name=name)


def leaky_relu(x: Variable, alpha: float = 0.02, name: str | None = None) -> Variable:
    """x where positive, else ``alpha * x``. Maas et al. 2013.

    Args:
        x: floats of any shape.
        alpha: slope of the negative part.
    """
    return F.leaky_relu(x, alpha, name)


def gelu(x: Variable, approximate: bool = False) -> Variable:
    """x times the normal distribution function of x, exact or by tanh. Hendrycks and Gimpel 2016.

    Args:
        x: floats of any shape.
        approximate: whether by tanh.
    """
    return F.gelu(x, approximate)


def softmax(input: Variable, use_cudnn: bool = False, name: str | None = None, axis: int = -1) -> Variable:
    """exp(x) divided by its sum over ``axis``.

    Args:
        input: floats of any shape.
        use_cudnn: accepted for compatibility.
        axis: the axis.
    """
    return F.softmax(input, axis, name=name)


def log_softmax(input: Variable, axis: int = -1, dtype: DTypeLike | None = None, name: str | None = None) -> Variable:
    """The logarithm of ``softmax``, stably.

    Args:
        input: floats of any shape.
        axis: the axis.
        dtype: element type that ``input`` is cast to first.
    """
    return F.log_softmax(input, axis, dtype, name)


def mse_loss(input: Variable, label: Variable) -> Variable:
    """Mean of (input - label)^2.

    Args:
        input: floats of any shape.
        label: the same, of that shape.
    """
    return F.mse_loss(input, label)


def fc(
    input: Variable | Sequence[Variable],
    size: int,
    num_flatten_dims: int = 1,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    act: ActivationName | None = None,
    name: str | None = None,
) -> Variable:
    """``static.nn.fc`` under its old argument names.

    Args:
        input: [N, ...], or several, whose products are added.
        size: features of the result.
        num_flatten_dims: how many axes stay; the others are flattened.
        param_attr: name, initial value and other options of the weights.
        bias_attr: the same of the bias; False for none.
        act: activation that is applied last; None for none.

    Example:
        >>> x = fluid.layers.data(name="x", shape=[13])
        >>> fluid.layers.fc(input=x, size=1, act="relu").shape
        (-1, 1)
    """
    return static.nn.fc(input, size, num_flatten_dims, param_attr, bias_attr, act, name)


# Families of one signature: old name, function or operator of today, first sentence.


class _Compared(Protocol):
    def __call__(self, x: Variable, y: Variable, cond: None = None, name: str | None = None) -> Variable: ...


def _compared(old: str, function: Callable[..., Variable], doc: str) -> _Compared:
    def compared(x: Variable, y: Variable, cond: None = None, name: str | None = None) -> Variable:
        return function(x, y, name=name)

    operands = (
        "x: variable of any shape.",
        "y: the same, of a shape that broadcasts with ``x``.",
        "cond: accepted for compatibility.",
    )
    return named_function(compared, old, doc, *operands)


equal = _compared("equal", logic.equal, "Whether elements are equal.")
not_equal = _compared("not_equal", logic.not_equal, "Whether elements differ.")
less_than = _compared("less_than", logic.less_than, "Whether ``x < y``, element by element.")
less_equal = _compared("less_equal", logic.less_equal, "Whether ``x <= y``, element by element.")
greater_than = _compared("greater_than", logic.greater_than, "Whether ``x > y``, element by element.")
greater_equal = _compared("greater_equal", logic.greater_equal, "Whether ``x >= y``, element by element.")
logical_and = _compared("logical_and", logic.logical_and, "Whether both elements are true (not 0).")
logical_or = _compared("logical_or", logic.logical_or, "Whether an element is true (not 0).")
logical_xor = _compared("logical_xor", logic.logical_xor, "Whether exactly one element is true (not 0).")


class _Reduced(Protocol):
    def __call__(self, input: Variable, dim: Axes = None, keep_dim: bool = False, name: str | None = None) -> Variable: ...


def _reduced(old: str, op_type: str, doc: str) -> _Reduced:
    def reduced(input: Variable, dim: Axes = None, keep_dim: bool = False, name: str | None = None) -> Variable:
        return reduce(old, op_type, input, dim, keep_dim, name)

    lines = "input: variable of any shape.", "dim: an axis, several, or None for all.", "keep_dim: keep the axes with size 1."
    return named_function(reduced, old, doc, *lines)


reduce_sum = _reduced("reduce_sum", "ReduceSum", "The sum over the axes ``dim``, or of all elements.")
reduce_mean = _reduced("reduce_mean", "ReduceMean", "The mean over the axes ``dim``, or of all elements.")
reduce_max = _reduced("reduce_max", "ReduceMax", "The largest element over the axes ``dim``, or of all elements.")
reduce_min = _reduced("reduce_min", "ReduceMin", "The smallest element over the axes ``dim``, or of all elements.")
reduce_prod = _reduced("reduce_prod", "ReduceProd", "The product over the axes ``dim``, or of all elements.")


def _aligned(
    layer_name: str,
    function: Callable[..., Variable],
    x: Variable,
    y: Variable,
    axis: int,
    act: ActivationName | None,
    name: str | None,
) -> Variable:
    """A function of two operands, one of which is aligned with some axes of the other"""
    layer = LayerHelper(layer_name, x, y, name=name)
    # y gets axes of size 1 behind its own, so that it meets x from ``axis`` on.
    missing = 0 if axis == -1 else x.ndim - axis - y.ndim
    if missing < 0:
        raise ArgumentError(f"{layer.name}: {y!r} has too many axes to meet {x!r} from axis {axis} on.")
    y = layer.op.Unsqueeze(y, list(range(y.ndim, y.ndim + missing))) if missing else y
    return layer.activate(function(x, y, name=layer.name), act)


def _plain(op_type: str) -> Callable[..., Variable]:
    """An operator on operands as they are, where Paddle 2 promotes them first"""
    return lambda x, y, name: LayerHelper("", x, y, name=name).result(op_type, x, y)


class _Elementwise(Protocol):
    def __call__(
        self, x: Variable, y: Variable, axis: int = -1, act: ActivationName | None = None, name: str | None = None
    ) -> Variable: ...


def _elementwise(old: str, function: Callable[..., Variable], doc: str) -> _Elementwise:
    def aligned(x: Variable, y: Variable, axis: int = -1, act: ActivationName | None = None, name: str | None = None) -> Variable:
        return _aligned(old, function, x, y, axis, act, name)

    return named_function(
        aligned,
        old,
        f"{doc}; y's axes are x's from ``axis`` on (-1: the last). ``act`` is applied last.",
        "x: variable of any shape.",
        "y: variable whose axes are some of those of ``x``, in order.",
        "axis: the axis of ``x`` that the first of ``y`` meets; -1 for the last ones.",
        "act: activation that is applied last; None for none.",
    )


elementwise_add = _elementwise("elementwise_add", elementwise.add, "x + y")
elementwise_sub = _elementwise("elementwise_sub", elementwise.subtract, "x - y")
elementwise_mul = _elementwise("elementwise_mul", elementwise.multiply, "x * y")
elementwise_div = _elementwise("elementwise_div", _plain("Div"), "x / y, without the fraction for integers")
elementwise_floordiv = _elementwise("elementwise_floordiv", _plain("Div"), "x / y for integers, without the fraction")
elementwise_max = _elementwise("elementwise_max", elementwise.maximum, "The larger of x and y")
elementwise_min = _elementwise("elementwise_min", elementwise.minimum, "The smaller of x and y")
elementwise_mod = _elementwise("elementwise_mod", elementwise.remainder, "The remainder of x / y, with the sign of y")
elementwise_pow = _elementwise("elementwise_pow", _plain("Pow"), "x to the power y")


# Functions that are gone or differ -----------------------------------------------------------------------------------


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


def assign(input: Variable | np.ndarray[Any, Any], output: Variable | None = None) -> Variable:
    """A copy of a variable, or an array as a constant.

    Args:
        input: what is copied.
        output: refused: values are never overwritten.

    Raises:
        NotOffered: if ``output`` is given: values are never overwritten.
    """
    if output is not None:
        raise NotOffered("fluid.layers.assign(output=...): variables are assigned once. Use the returned variable.")
    return creation.assign(input)


def shape(input: Variable) -> Variable:
    """The dimensions, as int32.

    Args:
        input: variable of any shape.
    """
    layer = LayerHelper("shape", input)
    return layer.result("Cast", layer.op.Shape(input), to=6)


def mean(x: Variable, name: str | None = None) -> Variable:
    """The mean of all elements, without axes.

    Args:
        x: variable of any shape.
    """
    return reduce("mean", "ReduceMean", x, None, False, name)


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


def pow(x: Variable, factor: float | Variable = 1.0, name: str | None = None) -> Variable:
    """x to the power ``factor``, in the element type of x.

    Args:
        x: variable of any shape.
        factor: the exponent.
    """
    return LayerHelper("pow", x, name=name).result("Pow", x, factor)


def topk(input: Variable, k: int, name: str | None = None) -> tuple[Variable, Variable]:
    """The ``k`` largest elements of the last axis, and their positions.

    Args:
        input: variable of any shape.
        k: how many.
    """
    values, positions = LayerHelper("top_k", input, name=name).results(2, "TopK", input, np.array([k]))
    return values, positions


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
    if pool_type not in ("max", "avg"):
        raise ArgumentError(f"pool2d: pool_type is 'max' or 'avg', not {pool_type!r}.")
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
    if dropout_implementation not in ("downgrade_in_infer", "upscale_in_train"):
        raise ArgumentError(f"dropout: {dropout_implementation!r} is neither 'downgrade_in_infer' nor 'upscale_in_train'.")
    y = F.dropout(x, dropout_prob, training=not is_test, name=name)
    return y if dropout_implementation == "upscale_in_train" else y * (1.0 - dropout_prob)


def relu(x: Variable, name: str | None = None) -> Variable:
    """max(x, 0), in the element type of x.

    Args:
        x: variable of any shape.
    """
    return LayerHelper("relu", x, name=name).result("Relu", x)


def relu6(x: Variable, threshold: float = 6.0, name: str | None = None) -> Variable:
    """x limited to [0, threshold].

    Args:
        x: variable of any shape.
        threshold: the upper limit.
    """
    return F.hardtanh(x, 0.0, threshold, LayerHelper("relu6", x, name=name).name)


def swish(x: Variable, beta: float = 1.0, name: str | None = None) -> Variable:
    """x * sigmoid(beta * x).

    Args:
        x: floats of any shape.
        beta: factor within the sigmoid.
    """
    layer = LayerHelper("swish", x, name=name)
    return layer.result("Mul", x, layer.op.Sigmoid(layer.op.Mul(x, beta)))


def cross_entropy(input: Variable, label: Variable, soft_label: bool = False, ignore_index: int = -100) -> Variable:
    """-log of the probability of the label, one value per row of shape [..., 1]. ``input`` holds probabilities, not logits.

    Args:
        input: probabilities [..., classes].
        label: classes [..., 1] as integers; probabilities [..., classes] if ``soft_label``.
        soft_label: whether labels are probabilities.
        ignore_index: label that counts for nothing.

    Example:
        >>> x, label = fluid.layers.data("x", [10]), fluid.layers.data("label", [1], dtype="int64")
        >>> fluid.layers.cross_entropy(input=fluid.layers.softmax(x), label=label).shape
        (-1, 1)
    """
    return F.cross_entropy(input, label, None, ignore_index, "none", soft_label, use_softmax=False)


softmax_with_cross_entropy = F.softmax_with_cross_entropy


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


def label_smooth(
    label: Variable, prior_dist: Variable | None = None, epsilon: float = 0.1, dtype: DTypeLike = "float32", name: str | None = None
) -> Variable:
    """(1 - epsilon) * label + epsilon * prior, the uniform distribution unless given.

    Args:
        label: probabilities [..., classes].
        prior_dist: probabilities of the classes; the uniform distribution unless given.
        epsilon: weight of the prior.
        dtype: accepted for compatibility.
    """
    layer = LayerHelper("label_smooth", label, name=name)
    prior: Any = 1.0 / label.shape[-1] if prior_dist is None else prior_dist
    return layer.result("Add", layer.op.Mul(label, 1.0 - epsilon), prior * epsilon)


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


def unstack(x: Variable, axis: int = 0, num: int | None = None) -> list[Variable]:
    """The slices along ``axis``, without it.

    Args:
        x: variable of any shape.
        axis: the axis.
        num: how many slices there are, where the axis is not known.
    """
    count = x.shape[axis] if num is None else num
    if count < 0:
        raise ArgumentError(f"unstack: axis {axis} of {x!r} must be known, or give num.")
    layer = LayerHelper("unstack", x)
    return [layer.result("Squeeze", part, [axis]) for part in joining.split(x, count, axis)]


def squeeze(input: Variable, axes: Sequence[int], name: str | None = None) -> Variable:
    """Without the given axes of size 1; all of size 1 if ``axes`` is empty.

    Args:
        input: variable of any shape.
        axes: axes of size 1.
    """
    return LayerHelper("squeeze2", input, name=name).result("Squeeze", input, axes_of(axes))


def unsqueeze(input: Variable, axes: int | Sequence[int], name: str | None = None) -> Variable:
    """With axes of size 1 inserted.

    Args:
        input: variable of any shape.
        axes: where the axes stand in the result.
    """
    return LayerHelper("unsqueeze2", input, name=name).result("Unsqueeze", input, axes_of(axes))


def expand(x: Variable, expand_times: Sequence[int] | Variable, name: str | None = None) -> Variable:
    """Repeated so many times along each axis.

    Args:
        x: variable of any shape.
        expand_times: a number for each axis.
    """
    return manipulation.tile(x, expand_times, LayerHelper("expand", x, name=name).name)


def gather(input: Variable, index: Variable, overwrite: bool = True) -> Variable:
    """Rows of ``input`` by integer; an index of shape [N, 1] counts as [N].

    Args:
        input: variable of any shape.
        index: integers [N] or [N, 1].
        overwrite: accepted for compatibility.
    """
    layer = LayerHelper("gather", input, index)
    return layer.result("Gather", input, layer.op.Squeeze(index, [1]) if index.ndim == 2 else index, axis=0)


def pad(x: Variable, paddings: Sequence[int], pad_value: float = 0.0, name: str | None = None) -> Variable:
    """With a value before and after each axis: ``paddings`` is [before_0, after_0, before_1, after_1, ...].

    Args:
        x: variable of any shape.
        paddings: two sizes for each axis.
        pad_value: the value.
    """
    return F.pad(x, paddings, value=pad_value, name=LayerHelper("pad", x, name=name).name)


# Not offered ---------------------------------------------------------------------------------------------------------

_ONCE = "variables are assigned once and never overwritten"
_LOD = "ONNX tensors have no levels of detail (LoD)"
_REFUSED = refusals(
    "fluid.layers",
    {
        "While": f"{_ONCE}. Use while_loop, whose body returns the new values.",
        "Switch": f"{_ONCE}. Use case or switch_case, whose functions return values.",
        "IfElse": "it splits the rows of a batch between two networks. Compute both and use paddle.where.",
        "StaticRNN": f"{_ONCE}. Use while_loop, or write the steps out.",
        "DynamicRNN": f"{_LOD}. Pad to [N, T, C] and use while_loop.",
        "dynamic_lstm": f"{_LOD}. Pad to [N, T, C] and append an LSTM operator with block.append_op.",
        "dynamic_gru": f"{_LOD}. Pad to [N, T, C] and append a GRU operator with block.append_op.",
        "create_array": f"{_ONCE}. Keep a Python list, or concatenate in a while_loop.",
        "array_read": f"{_ONCE}. Keep a Python list, or gather from a stacked tensor.",
        "array_write": f"{_ONCE}. Keep a Python list, or concatenate in a while_loop.",
        "array_length": f"{_ONCE}. Keep a Python list.",
    },
)
globals().update(_REFUSED)


globals().update(absence_hooks(__name__))
