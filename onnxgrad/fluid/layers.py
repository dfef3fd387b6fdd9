"""fluid.layers: the functions of Paddle 1, with their old argument names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, NotOffered
from onnxgrad.fluid import rates
from onnxgrad.fluid.renamed import renamed
from onnxgrad.internal.losses import huber, logistic_of_scores
from onnxgrad.internal.refusals import refusals
from onnxgrad.nn.types import Padding
from onnxgrad.static.nn import refused
from onnxgrad.static.nn.norm import spectral_norm
from onnxgrad.tensor import creation, elementwise, joining, linalg, logic, manipulation, math, search
from onnxgrad.tensor.common import axes_of
from onnxgrad.tensor.layer import LayerHelper
from onnxgrad.tensor.reduction import reduce

# The same as today ---------------------------------------------------------------------------------------------------

_AS_TODAY: list[Callable[..., Any]] = [
    *(static.create_global_var, static.create_parameter, static.Print, static.accuracy, static.auc),
    *(static.nn.case, static.nn.cond, static.nn.switch_case, static.nn.while_loop, refused.py_func),
    *(static.nn.bilinear_tensor_product, static.nn.prelu, static.nn.row_conv, static.nn.conv2d, static.nn.conv2d_transpose),
    *(static.nn.conv3d, static.nn.conv3d_transpose, static.nn.batch_norm, static.nn.data_norm, static.nn.group_norm),
    *(static.nn.instance_norm, static.nn.layer_norm, spectral_norm, refused.nce, refused.sequence_conv),
    *(refused.sequence_expand, refused.sequence_first_step, refused.sequence_last_step, refused.sequence_pool),
    *(refused.sequence_softmax, logic.logical_not, math.abs, math.ceil, math.cos, math.exp, math.floor, math.log),
    *(math.reciprocal, math.rsqrt, math.scale, math.sign, math.sin, math.sqrt, math.square, math.tanh, F.elu, F.sigmoid),
    *(F.softsign, F.square_error_cost, joining.slice, joining.stack, manipulation.transpose, manipulation.cast),
    *(getattr(rates, name) for name in rates.__all__),
]

# Under other arguments -----------------------------------------------------------------------------------------------

_RENAMED = [
    renamed("fill_constant(shape, dtype, value, force_cpu=False, out=None, name=None)", creation.full, fill_value="value"),
    renamed("zeros(shape, dtype, force_cpu=False, name=None)", creation.zeros),
    renamed("ones(shape, dtype, force_cpu=False)", creation.ones),
    renamed("round(x, name=None)", math.round),
    renamed("clip(x, min, max, name=None)", math.clip),
    renamed("argmax(x, axis=0)", search.argmax),
    renamed("argmin(x, axis=0)", search.argmin),
    renamed("increment(x, value=1.0, in_place=True)", math.increment),
    renamed("sums(input, out=None)", elementwise.add_n, inputs="input"),
    renamed("sum(x)", elementwise.add_n, inputs="x"),
    renamed("equal(x, y, cond=None, name=None)", logic.equal),
    renamed("not_equal(x, y, cond=None, name=None)", logic.not_equal),
    renamed("less_than(x, y, cond=None, name=None)", logic.less_than),
    renamed("less_equal(x, y, cond=None, name=None)", logic.less_equal),
    renamed("greater_than(x, y, cond=None, name=None)", logic.greater_than),
    renamed("greater_equal(x, y, cond=None, name=None)", logic.greater_equal),
    renamed("logical_and(x, y, cond=None, name=None)", logic.logical_and),
    renamed("logical_or(x, y, cond=None, name=None)", logic.logical_or),
    renamed("logical_xor(x, y, cond=None, name=None)", logic.logical_xor),
    renamed("concat(input, axis=0, name=None)", joining.concat, x="input"),
    renamed("split(input, num_or_sections, dim=-1, name=None)", joining.split, x="input", axis="dim"),
    renamed("softplus(x, name=None)", F.softplus, "log(1 + exp(x))."),
    renamed("leaky_relu(x, alpha=0.02, name=None)", F.leaky_relu, negative_slope="alpha"),
    renamed("gelu(x, approximate=False)", F.gelu),
    renamed("softmax(input, use_cudnn=False, name=None, axis=-1)", F.softmax, x="input"),
    renamed("log_softmax(input, axis=-1, dtype=None, name=None)", F.log_softmax, x="input"),
    renamed("mse_loss(input, label)", F.mse_loss, "Mean of (input - label)^2."),
    renamed(
        "fc(input, size, num_flatten_dims=1, param_attr=None, bias_attr=None, act=None, name=None)",
        static.nn.fc,
        """``static.nn.fc`` under its old argument names.

    Example:
        >>> x = fluid.layers.data(name="x", shape=[13])
        >>> fluid.layers.fc(input=x, size=1, act="relu").shape
        (-1, 1)
    """,
        x="input",
        weight_attr="param_attr",
        activation="act",
    ),
]


def _reduction(layer_name: str, op_type: str, what: str) -> Callable[..., Variable]:
    signature, about = (
        f"{layer_name}(input, dim=None, keep_dim=False, name=None)",
        f"{what} over the axes ``dim``, or of all elements.",
    )
    return renamed(signature, partial(reduce, layer_name, op_type), about, x="input", axis="dim", keepdim="keep_dim")


def _elementwise(layer_name: str, function: Callable[..., Variable], sign: str) -> Callable[..., Variable]:
    """A function of two operands, one of which is aligned with some axes of the other"""

    def aligned(x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None) -> Variable:
        layer = LayerHelper(layer_name, x, y, name=name)
        # y gets axes of size 1 behind its own, so that it meets x from ``axis`` on.
        missing = 0 if axis == -1 else x.ndim - axis - y.ndim
        if missing < 0:
            raise ArgumentError(f"{layer.name}: {y!r} has too many axes to meet {x!r} from axis {axis} on.")
        y = layer.op.Unsqueeze(y, list(range(y.ndim, y.ndim + missing))) if missing else y
        return layer.activate(function(x, y, name=layer.name), act)

    aligned.__name__ = aligned.__qualname__ = layer_name
    aligned.__doc__ = f"{sign}; y's axes are x's from ``axis`` on (the last ones for -1). ``act`` is applied last."
    return aligned


def _plain(op_type: str) -> Callable[..., Variable]:
    """An operator on operands as they are, where Paddle 2 promotes them first"""
    return lambda x, y, name: LayerHelper("", x, y, name=name).result(op_type, x, y)


_RENAMED += [
    _reduction("reduce_sum", "ReduceSum", "The sum"),
    _reduction("reduce_mean", "ReduceMean", "The mean"),
    _reduction("reduce_max", "ReduceMax", "The largest element"),
    _reduction("reduce_min", "ReduceMin", "The smallest element"),
    _reduction("reduce_prod", "ReduceProd", "The product"),
    _elementwise("elementwise_add", elementwise.add, "x + y"),
    _elementwise("elementwise_sub", elementwise.subtract, "x - y"),
    _elementwise("elementwise_mul", elementwise.multiply, "x * y"),
    _elementwise("elementwise_div", _plain("Div"), "x / y, without the fraction for integers"),
    _elementwise("elementwise_floordiv", _plain("Div"), "x / y for integers, without the fraction"),
    _elementwise("elementwise_max", elementwise.maximum, "The larger of x and y"),
    _elementwise("elementwise_min", elementwise.minimum, "The smaller of x and y"),
    _elementwise("elementwise_mod", elementwise.remainder, "The remainder of x / y, with the sign of y"),
    _elementwise("elementwise_pow", _plain("Pow"), "x to the power y"),
]

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

# Functions that are gone or differ -----------------------------------------------------------------------------------


def data(
    name: str,
    shape: Sequence[int],
    append_batch_size: bool = True,
    dtype: Any = "float32",
    lod_level: int = 0,
    type: Any = None,
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

    Raises:
        NotOffered: if ``output`` is given: values are never overwritten.
    """
    if output is not None:
        raise NotOffered("fluid.layers.assign(output=...): variables are assigned once. Use the returned variable.")
    return creation.assign(input)


def shape(input: Variable) -> Variable:
    """The dimensions, as int32."""
    layer = LayerHelper("shape", input)
    return layer.result("Cast", layer.op.Shape(input), to=6)


def mean(x: Variable, name: str | None = None) -> Variable:
    """The mean of all elements, without axes."""
    return reduce("mean", "ReduceMean", x, None, False, name)


def mul(x: Variable, y: Variable, x_num_col_dims: int = 1, y_num_col_dims: int = 1, name: str | None = None) -> Variable:
    """The product of x and y seen as matrices: the axes before ``x_num_col_dims`` are rows, the others columns."""
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
    """``alpha`` times the matrix product over the last two axes."""
    layer = LayerHelper("matmul", x, y, name=name)
    product = linalg.matmul(x, y, transpose_x, transpose_y, layer.name)
    return product if alpha == 1.0 else layer.result("Mul", product, alpha)


def pow(x: Variable, factor: float | Variable = 1.0, name: str | None = None) -> Variable:
    """x to the power ``factor``, in the element type of x."""
    return LayerHelper("pow", x, name=name).result("Pow", x, factor)


def topk(input: Variable, k: int, name: str | None = None) -> tuple[Variable, Variable]:
    """The ``k`` largest elements of the last axis, and their positions."""
    values, positions = LayerHelper("top_k", input, name=name).results(2, "TopK", input, np.array([k]))
    return values, positions


def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Any = None,
    dtype: Any = "float32",
) -> Variable:
    """Rows of a new embedding. The last axis of ``input`` is 1 and is taken off; ``fluid.embedding`` keeps all axes.

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
    data_format: str = "NCHW",
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
    """max(x, 0), in the element type of x."""
    return LayerHelper("relu", x, name=name).result("Relu", x)


def relu6(x: Variable, threshold: float = 6.0, name: str | None = None) -> Variable:
    """x limited to [0, threshold]."""
    return F.hardtanh(x, 0.0, threshold, LayerHelper("relu6", x, name=name).name)


def swish(x: Variable, beta: float = 1.0, name: str | None = None) -> Variable:
    """x * sigmoid(beta * x)."""
    layer = LayerHelper("swish", x, name=name)
    return layer.result("Mul", x, layer.op.Sigmoid(layer.op.Mul(x, beta)))


def cross_entropy(input: Variable, label: Variable, soft_label: bool = False, ignore_index: int = -100) -> Variable:
    """-log of the probability of the label, one value per row of shape [..., 1]. ``input`` holds probabilities, not logits.

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
    """max(x, 0) - x * label + log(1 + exp(-|x|)), 0 where the label is ``ignore_index``."""
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
    """Sum over all but the first axis of 0.5 (sigma d)^2 where abs(d) < 1 / sigma^2, else abs(d) - 0.5 / sigma^2."""
    layer = LayerHelper("smooth_l1_loss", x, y)
    op, square = layer.op, 1.0 if sigma is None else float(sigma) ** 2
    d = op.Sub(x, y) if inside_weight is None else op.Mul(op.Sub(x, y), inside_weight)
    loss = huber(op, d, 1.0 / square)
    loss = loss if sigma is None else op.Mul(loss, square)
    loss = loss if outside_weight is None else op.Mul(loss, outside_weight)
    return layer.result("ReduceSum", op.Flatten(loss, axis=1), [1], keepdims=1)


def one_hot(input: Variable, depth: int, allow_out_of_range: bool = False) -> Variable:
    """1 at each index and 0 elsewhere; a last axis of size 1 is replaced. Indices outside are all zeros."""
    layer = LayerHelper("one_hot", input)
    op = layer.op
    index = op.Squeeze(input, [-1]) if input.ndim > 1 and input.shape[-1] == 1 else input
    same = op.Equal(op.Unsqueeze(op.Cast(index, to=7), [-1]), np.arange(depth))
    return layer.result("Cast", same, to=1)


def label_smooth(
    label: Variable, prior_dist: Variable | None = None, epsilon: float = 0.1, dtype: Any = "float32", name: str | None = None
) -> Variable:
    """(1 - epsilon) * label + epsilon * prior, the uniform distribution unless given."""
    layer = LayerHelper("label_smooth", label, name=name)
    prior: Any = 1.0 / label.shape[-1] if prior_dist is None else prior_dist
    return layer.result("Add", layer.op.Mul(label, 1.0 - epsilon), prior * epsilon)


def l2_normalize(x: Variable, axis: int, epsilon: float = 1e-12, name: str | None = None) -> Variable:
    """x divided by its norm along ``axis``: x / sqrt(sum(x^2) + epsilon)."""
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
    data_format: str = "NCHW",
) -> Variable:
    """x / (k + alpha * sum of squares of n neighbouring channels)^beta. Krizhevsky et al. 2012."""
    layer = LayerHelper("lrn", input, name=name)
    return layer.result("LRN", input, size=n, bias=float(k), alpha=float(alpha) * n, beta=float(beta))


def reshape(
    x: Variable,
    shape: Sequence[int] | Variable,
    actual_shape: Variable | None = None,
    act: str | None = None,
    inplace: bool = False,
    name: str | None = None,
) -> Variable:
    """The elements of ``x`` in another shape; -1 for one dimension to compute, 0 to keep the one of ``x``.

    Example:
        >>> fluid.layers.reshape(fluid.layers.data("x", [4, 6]), shape=[0, -1], act="relu").shape
        (-1, 24)
    """
    layer = LayerHelper("reshape2", x, name=name)
    return layer.activate(manipulation.reshape(x, shape if actual_shape is None else actual_shape, layer.name), act)


def flatten(x: Variable, axis: int = 1, name: str | None = None) -> Variable:
    """A matrix: the axes before ``axis`` become rows, the others columns."""
    return LayerHelper("flatten", x, name=name).result("Flatten", x, axis=axis)


def unstack(x: Variable, axis: int = 0, num: int | None = None) -> list[Variable]:
    """The slices along ``axis``, without it."""
    count = x.shape[axis] if num is None else num
    if count < 0:
        raise ArgumentError(f"unstack: axis {axis} of {x!r} must be known, or give num.")
    layer = LayerHelper("unstack", x)
    return [layer.result("Squeeze", part, [axis]) for part in joining.split(x, count, axis)]


def squeeze(input: Variable, axes: Sequence[int], name: str | None = None) -> Variable:
    """Without the given axes of size 1; all of size 1 if ``axes`` is empty."""
    return LayerHelper("squeeze2", input, name=name).result("Squeeze", input, axes_of(axes))


def unsqueeze(input: Variable, axes: int | Sequence[int], name: str | None = None) -> Variable:
    """With axes of size 1 inserted."""
    return LayerHelper("unsqueeze2", input, name=name).result("Unsqueeze", input, axes_of(axes))


def expand(x: Variable, expand_times: Sequence[int] | Variable, name: str | None = None) -> Variable:
    """Repeated so many times along each axis."""
    return manipulation.tile(x, expand_times, LayerHelper("expand", x, name=name).name)


def gather(input: Variable, index: Variable, overwrite: bool = True) -> Variable:
    """Rows of ``input`` by integer; an index of shape [N, 1] counts as [N]."""
    layer = LayerHelper("gather", input, index)
    return layer.result("Gather", input, layer.op.Squeeze(index, [1]) if index.ndim == 2 else index, axis=0)


def pad(x: Variable, paddings: Sequence[int], pad_value: float = 0.0, name: str | None = None) -> Variable:
    """With a value before and after each axis: ``paddings`` is [before_0, after_0, before_1, after_1, ...]."""
    return F.pad(x, paddings, value=pad_value, name=LayerHelper("pad", x, name=name).name)


_FUNCTIONS: dict[str, Any] = {function.__name__.rpartition(".")[2]: function for function in [*_AS_TODAY, *_RENAMED]} | _REFUSED
globals().update(_FUNCTIONS)
__all__ = [
    *_FUNCTIONS,
    *("data", "assign", "shape", "mean", "mul", "matmul", "pow", "topk", "embedding", "pool2d"),
    *("dropout", "relu", "relu6", "swish", "cross_entropy", "softmax_with_cross_entropy"),
    *("sigmoid_cross_entropy_with_logits", "smooth_l1", "one_hot", "label_smooth", "l2_normalize", "lrn", "reshape"),
    *("flatten", "unstack", "squeeze", "unsqueeze", "expand", "gather", "pad"),
]


def __dir__() -> list[str]:
    return __all__
