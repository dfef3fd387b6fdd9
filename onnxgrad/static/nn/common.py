"""Products with new weights: fully connected layers, embeddings, bilinear forms, PReLU.

Tests: tests/static/test_layers.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

import onnxgrad.nn.functional as F
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DTypeLike, dtype_of
from onnxgrad.errors import ArgumentError, ProgramError
from onnxgrad.internal.arguments import as_kind, checked
from onnxgrad.tensor.initializer import Constant, XavierUniform
from onnxgrad.tensor.layer import ActivationName, LayerHelper
from onnxgrad.tensor.param_attr import ParamAttr

__all__ = ["Attr", "bilinear_tensor_product", "embedding", "fc", "known_channels", "prelu", "row_conv"]

Attr = ParamAttr | str | bool | None
ChannelLayout = Literal["NC", "NCL", "NCHW", "NCDHW", "NLC", "NHWC", "NDHWC"]


def known_channels(kind: str, x: Variable, axis: int = 1) -> int:
    """The number of channels, which new parameters have to fit.

    Raises:
        ProgramError: if it is not known.
    """
    if not -x.ndim <= axis < x.ndim or x.shape[axis] < 0:
        raise ProgramError(f"{kind}: the number of channels of {x!r} must be known. Declare it in data().")
    return x.shape[axis]


@checked
def fc(
    x: Variable | Sequence[Variable],
    size: int,
    num_flatten_dims: int = 1,
    weight_attr: Attr | Sequence[Attr] = None,
    bias_attr: Attr = None,
    activation: ActivationName | None = None,
    name: str | None = None,
) -> Variable:
    """Multiply ``x`` by a new weight and add a new bias.

    Args:
        x: variable of rank 2 or more; of several, the products are added up.
        size: number of output features.
        num_flatten_dims: how many leading dimensions are kept; the others are flattened.
        weight_attr: name, initializer and learning rate of the weight (Xavier uniform by default); one for each where ``x`` is
            several.
        bias_attr: the same for the bias (0 by default); ``False`` for no bias.
        activation: name of an activation applied last, such as ``"relu"``.
        name: prefix of the parameter names.

    Returns:
        A variable of shape ``[*x.shape[:num_flatten_dims], size]``.

    Raises:
        ProgramError: if the flattened dimensions of ``x`` are not known.
        ArgumentError: if there is another number of attributes than of variables.

    Example:
        >>> x = static.data("x", [None, 13], "float32")
        >>> static.nn.fc(x, size=1).shape
        (-1, 1)
    """
    items = [x] if isinstance(x, Variable) else list(x)
    attrs = list(weight_attr) if isinstance(weight_attr, (list, tuple)) else [weight_attr] * len(items)
    if len(attrs) != len(items):
        raise ArgumentError(f"fc: {len(attrs)} weight_attr for {len(items)} variables. Pass one, or one for each.")
    layer = LayerHelper("fc", *items, name=name)
    products = []
    for item, attr in zip(items, attrs, strict=True):
        tail = item.shape[num_flatten_dims:]
        if any(dim < 0 for dim in tail) or not tail:
            raise ProgramError(f"fc: dimensions {num_flatten_dims} and up of {item!r} must be known. Declare them in data().")
        features = math.prod(tail)
        weight = layer.parameter(attr, "w", [features, size], item.dtype, XavierUniform())
        if len(tail) > 1:
            item = layer.op.Reshape(item, np.array([*[0] * num_flatten_dims, features]))
        products.append(layer.result("MatMul", item, weight))
    y = products[0] if len(products) == 1 else layer.result("Sum", *products)
    bias = layer.parameter(bias_attr, "b", [size], items[0].dtype, Constant(0.0))
    if bias is not None:
        y = layer.result("Add", y, bias)
    return layer.activate(y, activation)


@checked
def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Attr = None,
    dtype: DTypeLike = "float32",
) -> Variable:
    """Rows of a new embedding, looked up by integer.

    Args:
        input: int64 or int32 indices of any shape; negative ones count from the end.
        size: [rows, columns] of the embedding.
        padding_idx: index whose row reads as zeros and receives no gradient.
        param_attr: attributes of the embedding (Xavier uniform by default).
        dtype: element type of the embedding.
        is_sparse: whether ``Adam(lazy_mode=True)`` leaves the rows alone that a batch does not look up.
        is_distributed: accepted for compatibility.

    Returns:
        A variable of shape ``[*input.shape, columns]``.

    Example:
        >>> static.nn.embedding(static.data("ids", [None, 13], "int64"), size=[100, 256]).shape
        (-1, 13, 256)
    """
    layer = LayerHelper("embedding", input)
    rows, columns = (int(n) for n in size)
    weight = layer.parameter(param_attr, "w", [rows, columns], dtype_of(dtype), XavierUniform())
    assert weight is not None
    return F.embedding(input, weight, padding_idx, sparse=is_sparse, name=layer.name)


@checked
def bilinear_tensor_product(
    x: Variable,
    y: Variable,
    size: int,
    act: ActivationName | None = None,
    name: str | None = None,
    param_attr: Attr = None,
    bias_attr: Attr = None,
) -> Variable:
    """``x W_i y`` for ``size`` new matrices W_i, one for each column of the result, and a new bias added.

    Args:
        x: variable of shape [N, A].
        y: variable of shape [N, B].
        size: number of matrices.
        act: activation applied last.
        param_attr, bias_attr: attributes of the weight [size, A, B] and the bias [1, size].

    Example:
        >>> x, y = static.data("x", [None, 3]), static.data("y", [None, 4])
        >>> static.nn.bilinear_tensor_product(x, y, size=5).shape
        (-1, 5)
    """
    layer = LayerHelper("bilinear_tensor_product", x, y, name=name)
    weight = layer.parameter(param_attr, "w", [size, x.shape[1], y.shape[1]], x.dtype, XavierUniform())
    bias = layer.parameter(bias_attr, "b", [1, size], x.dtype, Constant(0.0))
    assert weight is not None
    return layer.activate(F.bilinear(x, y, weight, bias, layer.name), act)


@checked
def prelu(
    x: Variable,
    mode: Literal["all", "channel", "element"],
    param_attr: Attr = None,
    data_format: ChannelLayout = "NCHW",
    name: str | None = None,
) -> Variable:
    """``x`` where positive, else ``x`` times a new slope (0.25 at the start). He et al. 2015.

    Args:
        x: variable of rank 2 or more, channels on axis 1 or, for ``NHWC`` and its like, on the last.
        mode: one slope for 'all', for each 'channel' or for each 'element'.
        param_attr: attributes of the slope.
    """
    as_kind("prelu", "mode", mode, Literal["all", "channel", "element"])
    as_kind("prelu", "data_format", data_format, ChannelLayout)
    layer = LayerHelper("prelu", x, name=name)
    rank = x.ndim
    shape, spread = [1], [1]
    if mode == "channel":
        axis = 1 if data_format[1] == "C" else rank - 1
        shape = [1, x.shape[1], 1, 1] if axis == 1 else [1, 1, 1, x.shape[-1]]
        spread = [x.shape[i] if i == axis else 1 for i in range(rank)]
    if mode == "element":
        shape = spread = [1, *x.shape[1:]]
    if any(dim < 0 for dim in shape):
        raise ProgramError(f"prelu: the axes of {x!r} that have slopes must be known. Declare them in data().")
    slope: Variable | None = layer.parameter(param_attr, "w", shape, x.dtype, Constant(0.25))
    if shape != spread:
        slope = layer.op.Reshape(slope, np.array(spread))
    return layer.result("PRelu", x, slope)


@checked
def row_conv(input: Variable, future_context_size: int, param_attr: Attr = None, act: ActivationName | None = None) -> Variable:
    """Sum over the present and the next ``future_context_size`` steps, each channel with new weights of its own.

    Amodei et al. 2015.

    Args:
        input: variable of shape [N, T, C]; steps after the end count as zero.
        future_context_size: number of future steps.
        param_attr: attributes of the weight [future_context_size + 1, C].
        act: activation applied last.
    """
    layer = LayerHelper("row_conv", input)
    op, channels = layer.op, input.shape[-1]
    if channels < 0 or input.ndim != 3:
        raise ProgramError(f"row_conv: {input!r} must have shape [N, T, C] with a known C.")
    weight = layer.parameter(param_attr, "w", [future_context_size + 1, channels], input.dtype, XavierUniform())
    filters = op.Unsqueeze(op.Transpose(weight, perm=[1, 0]), [1])
    steps = op.Conv(op.Transpose(input, perm=[0, 2, 1]), filters, group=channels, pads=[0, future_context_size])
    return layer.activate(layer.result("Transpose", steps, perm=[0, 2, 1]), act)
