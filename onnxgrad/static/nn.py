"""Layers with parameters, for static graphs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError, ProgramError
from onnxgrad.ir.tensor import Tensor
from onnxgrad.ir.variable import Variable
from onnxgrad.nn.initializer import Constant, Normal, XavierUniform
from onnxgrad.nn.param_attr import ParamAttr
from onnxgrad.passes.modes import attach_training
from onnxgrad.tensor.layer import Layer

__all__ = ["batch_norm", "conv2d", "embedding", "fc", "layer_norm"]

Attr = ParamAttr | str | bool | None


def fc(
    x: Variable | Sequence[Variable],
    size: int,
    num_flatten_dims: int = 1,
    weight_attr: Attr = None,
    bias_attr: Attr = None,
    activation: str | None = None,
    name: str | None = None,
) -> Variable:
    """Multiply ``x`` by a new weight and add a new bias.

    Args:
        x: variable of rank 2 or more; of several, the products are added up.
        size: number of output features.
        num_flatten_dims: how many leading dimensions are kept; the others are flattened.
        weight_attr: name, initializer and learning rate of the weight (Xavier uniform by default).
        bias_attr: the same for the bias (0 by default); ``False`` for no bias.
        activation: name of an activation applied last, such as ``"relu"``.
        name: prefix of the parameter names.

    Returns:
        A variable of shape ``[*x.shape[:num_flatten_dims], size]``.

    Raises:
        ProgramError: if the flattened dimensions of ``x`` are not known.

    Example:
        >>> x = static.data("x", [None, 13], "float32")
        >>> static.nn.fc(x, size=1).shape
        (-1, 1)
    """
    items = [x] if isinstance(x, Variable) else list(x)
    layer = Layer("fc", *items, name=name)
    products = []
    for item in items:
        tail = item.shape[num_flatten_dims:]
        if any(dim < 0 for dim in tail) or not tail:
            raise ProgramError(f"fc: dimensions {num_flatten_dims} and up of {item!r} must be known. Declare them in data().")
        features = math.prod(tail)
        weight = layer.parameter(weight_attr, "w", [features, size], item.dtype, XavierUniform())
        if len(tail) > 1:
            item = layer.op.Reshape(item, np.array([*[0] * num_flatten_dims, features]))
        products.append(layer.emit("MatMul", item, weight))
    y = products[0] if len(products) == 1 else layer.emit("Sum", *products)
    bias = layer.parameter(bias_attr, "b", [size], items[0].dtype, Constant(0.0))
    if bias is not None:
        y = layer.emit("Add", y, bias)
    return layer.activate(y, activation)


def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Attr = None,
    dtype: Any = "float32",
) -> Variable:
    """Rows of a new table, looked up by integer.

    Args:
        input: int64 or int32 indices of any shape; negative ones count from the end.
        size: [rows, columns] of the table.
        padding_idx: index whose row reads as zeros and receives no gradient.
        param_attr: attributes of the table (Xavier uniform by default).
        dtype: element type of the table.
        is_sparse, is_distributed: accepted for compatibility.

    Returns:
        A variable of shape ``[*input.shape, columns]``.

    Example:
        >>> static.nn.embedding(static.data("ids", [None, 13], "int64"), size=[100, 256]).shape
        (-1, 13, 256)
    """
    layer = Layer("embedding", input)
    rows, columns = (int(n) for n in size)
    table = layer.parameter(param_attr, "w", [rows, columns], dtype_of(dtype), XavierUniform())
    if padding_idx is None:
        return layer.emit("Gather", table, input)  # type: ignore[no-any-return]
    if not -rows <= padding_idx < rows:
        raise ArgumentError(f"embedding: padding_idx {padding_idx} is outside the table of {rows} rows.")
    wanted = layer.op.Not(layer.op.Equal(input, layer.op.constant(padding_idx % rows, input.dtype)))
    mask = layer.op.Unsqueeze(layer.op.Cast(wanted, to=dtype_of(dtype).number), [-1])
    return layer.emit("Mul", layer.op.Gather(table, input), mask)  # type: ignore[no-any-return]


def conv2d(
    input: Variable,
    num_filters: int,
    filter_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int | None = None,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Variable:
    """Convolve [N, C, H, W] with new filters and add a new bias.

    Args:
        input: variable of rank 4 with a known number of channels.
        num_filters: number of output channels.
        filter_size, stride, dilation: one number or one per spatial axis.
        padding: one number, one per axis, [top, bottom, left, right], ``"SAME"`` or ``"VALID"``.
        groups: channels are split into so many independent groups.
        param_attr, bias_attr: attributes of filters (normal, std sqrt(2 / fan_in)) and bias (0); ``bias_attr=False`` for none.
        act: activation applied last.
        data_format: ``"NCHW"`` or ``"NHWC"``.

    Returns:
        A variable of rank 4 in the same layout.

    Raises:
        ProgramError: if the number of channels is not known.

    Example:
        >>> static.nn.conv2d(static.data("x", [None, 3, 8, 8]), num_filters=4, filter_size=3).shape
        (-1, 4, 6, 6)
    """
    layer = Layer("conv2d", input, name=name)
    if data_format == "NHWC":
        input = layer.op.Transpose(input, perm=[0, 3, 1, 2])
    channels = input.shape[1]
    if channels < 0:
        raise ProgramError(f"conv2d: the number of channels of {input!r} must be known. Declare it in data().")
    groups = groups or 1
    kernel = _two(filter_size)
    std = math.sqrt(2.0 / (kernel[0] * kernel[1] * channels))
    weight = layer.parameter(param_attr, "w", [num_filters, channels // groups, *kernel], input.dtype, Normal(0.0, std))
    attrs: dict[str, Any] = {"strides": _two(stride), "dilations": _two(dilation), "group": groups, "kernel_shape": kernel}
    attrs.update(_padding(padding))
    bias = layer.parameter(bias_attr, "b", [num_filters], input.dtype, Constant(0.0))
    y = layer.emit("Conv", input, weight, bias, **attrs)
    y = layer.activate(y, act)
    return layer.op.Transpose(y, perm=[0, 2, 3, 1]) if data_format == "NHWC" else y


def _two(value: int | Sequence[int]) -> list[int]:
    return [value, value] if isinstance(value, int) else [int(n) for n in value]


def _padding(padding: int | str | Sequence[int]) -> dict[str, Any]:
    if isinstance(padding, str):
        mode = {"SAME": "SAME_UPPER", "VALID": "VALID"}.get(padding.upper())
        if mode is None:
            raise ArgumentError(f"padding is numbers, 'SAME' or 'VALID', not {padding!r}.")
        return {"auto_pad": mode}
    pads = _two(padding)
    if len(pads) == 2:
        return {"pads": [*pads, *pads]}
    top, bottom, left, right = pads
    return {"pads": [top, left, bottom, right]}


def batch_norm(
    input: Variable,
    act: str | None = None,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    data_layout: str = "NCHW",
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    use_global_stats: bool = False,
) -> Variable:
    """Normalise each channel by the batch in training, by running statistics in inference, then scale and shift.

    The running statistics are ``momentum * old + (1 - momentum) * batch``, with the biased variance of the batch. Ioffe and
    Szegedy 2015.

    Args:
        input: variable of rank 2 to 5, channels on axis 1 (``NCHW``).
        is_test, use_global_stats: use the running statistics.
        param_attr, bias_attr: attributes of scale (1) and shift (0).
    """
    if data_layout != "NCHW":
        raise ArgumentError("batch_norm: only data_layout='NCHW' is offered. Transpose before and after.")
    layer = Layer("batch_norm", input, name=name)
    size, dtype = [input.shape[1]], input.dtype
    scale = layer.parameter(param_attr, "w", size, dtype, Constant(1.0))
    shift = layer.parameter(bias_attr, "b", size, dtype, Constant(0.0))
    mean = layer.parameter(ParamAttr(moving_mean_name, trainable=False), "w", size, dtype, Constant(0.0))
    variance = layer.parameter(ParamAttr(moving_variance_name, trainable=False), "w", size, dtype, Constant(1.0))
    y = layer.emit("BatchNormalization", input, scale, shift, mean, variance, momentum=momentum, epsilon=epsilon)
    if not is_test and not use_global_stats:
        attach_training(y.op)
    return layer.activate(y, act)


def layer_norm(
    input: Variable,
    scale: bool = True,
    shift: bool = True,
    begin_norm_axis: int = 1,
    epsilon: float = 1e-05,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """Normalise over the axes from ``begin_norm_axis`` on, then scale and shift. Ba, Kiros and Hinton 2016.

    Raises:
        ProgramError: if one of those axes has no known size.
    """
    layer = Layer("layer_norm", input, name=name)
    shape = input.shape[begin_norm_axis:]
    if any(dim < 0 for dim in shape):
        raise ProgramError(f"layer_norm: axes {begin_norm_axis} and up of {input!r} must be known. Declare them in data().")
    size = [math.prod(shape)]
    gain = layer.parameter(param_attr, "w", size, input.dtype, Constant(1.0)) if scale else None
    bias = layer.parameter(bias_attr, "b", size, input.dtype, Constant(0.0)) if shift else None
    if gain is None:
        gain = layer.op.constant(Tensor.of(np.ones(size, input.dtype.numpy)).numpy())  # type: ignore[assignment]
    target = np.array(shape)
    operands = [v if v is None or len(shape) == 1 else layer.op.Reshape(v, target) for v in (gain, bias)]
    y: Variable = layer.emit("LayerNormalization", input, *operands, axis=begin_norm_axis, epsilon=epsilon)
    return layer.activate(y, act)
