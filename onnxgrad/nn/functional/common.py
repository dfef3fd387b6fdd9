"""Linear maps, dropout, padding, embeddings, similarities and windows of images.

Tests: tests/nn/test_functional.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.modes import attach_training
from onnxgrad.dtypes import DTypeLike, dtype_of
from onnxgrad.errors import ArgumentError, IllTyped, Mismatch
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.losses import cosine_parts
from onnxgrad.nn.functional.windows import numbers, pads_of
from onnxgrad.nn.types import DropoutMode, Layout, Layout2D, Layout3D, Numbers, PadMode, Sizes
from onnxgrad.optimizer.rows import with_sparse_gradient
from onnxgrad.tensor import linalg
from onnxgrad.tensor.axes import sizes_at
from onnxgrad.tensor.common import as_dtype, known_dim, normal_axis, shape_of
from onnxgrad.tensor.layer import LayerHelper, in_place_result, is_variable, open_layer, present_operands, variables_in
from onnxgrad.tensor.random import sampled
from onnxgrad.tensor.remembered import remembers

__all__ = [
    "alpha_dropout", "bilinear", "cosine_similarity", "dropout", "dropout1d", "dropout2d", "dropout3d", "embedding",
    "feature_alpha_dropout", "fold", "label_smooth", "linear", "one_hot", "pad", "pairwise_distance", "pdist", "sequence_mask",
    "unfold", "zeropad2d",
]  # fmt: skip


@remembers
def linear(x: Variable, weight: Variable, bias: Variable | None = None, name: str | None = None) -> Variable:
    """Compute ``x @ weight + bias`` with a weight of shape [in, out].

    Args:
        x: floats [..., in].
        weight: [in, out].
        bias: [out]; none unless given.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.linear(static.data("x", [None, 3]), static.data("w", [3, 4])).shape
        (-1, 4)
    """
    layer = LayerHelper("linear", x, weight, *present_operands(bias), name=name)
    y = layer.result("MatMul", x, weight)
    return y if bias is None else layer.result("Add", y, bias)


def bilinear(x1: Variable, x2: Variable, weight: Variable, bias: Variable | None = None, name: str | None = None) -> Variable:
    """Compute x1 W_o x2 for each output o, with a weight of shape [out, in1, in2].

    Args:
        x1: floats [N, in1].
        x2: floats [N, in2].
        weight: [out, in1, in2].
        bias: [out] or [1, out]; none unless given.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> a, b, w = static.data("a", [None, 3]), static.data("b", [None, 4]), static.data("w", [2, 3, 4])
        >>> F.bilinear(a, b, w).shape
        (-1, 2)
    """
    layer, op = open_layer("bilinear", x1, x2, weight, *present_operands(bias), name=name)
    y = layer.result("Transpose", op.ReduceSum(op.Mul(op.MatMul(x1, weight), x2), [-1], keepdims=0), perm=[1, 0])
    return y if bias is None else layer.result("Add", y, bias)


# Dropout -------------------------------------------------------------------------------------------------------------


@checked
def dropout(
    x: Variable,
    p: float | Variable = 0.5,
    axis: int | Sequence[int] | None = None,
    training: bool = True,
    inplace: bool = False,
    mode: DropoutMode = "upscale_in_train",
    name: str | None = None,
) -> Variable:
    """Zero each element with probability ``p`` in training and scale the rest by 1 / (1 - p). Srivastava et al. 2014.

    ``Program.clone(for_test=True)`` and ``Program.eval()`` switch it off.

    Args:
        x: floats of any shape.
        p: the probability of a zero, from 0 to 1: a number, or a Variable of one element.
        axis: zero whole slices: one sample for each index along these axes; each element unless given.
        training: False for inference.
        inplace: write the result into an eager ``x``.
        mode: 'upscale_in_train', or 'downscale_in_infer', which does not scale in training but multiplies by 1 - p in inference.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if ``p`` is outside [0, 1], or the mode is unknown.

    Example:
        >>> F.dropout(static.data("x", [None, 3]), 0.2).shape
        (-1, 3)
    """
    result = _dropout(x, p, axis, training, mode, name)
    return in_place_result("dropout", x, result) if inplace else result


def _dropout(
    x: Variable, p: float | Variable, axis: int | Sequence[int] | None, training: bool, mode: DropoutMode, name: str | None
) -> Variable:
    layer, op = open_layer("dropout", x, name=name)
    if not is_variable(p) and not 0 <= p <= 1:
        raise ArgumentError(f"dropout: p must lie in [0, 1], not {p}.")
    # Dropout takes no ratio in bfloat16.
    dtype = np.float32 if x.dtype.name == "bfloat16" else x.dtype.numpy
    ratio: Any = as_dtype(op, p, x.dtype) if is_variable(p) else np.asarray(p, dtype)
    if mode == "downscale_in_infer":
        x = op.Mul(x, op.Sub(1.0, ratio) if is_variable(p) else 1.0 - float(p))
    if not is_variable(p) and p == 1 and training:
        return layer.result("Mul", x, 0.0)
    if axis is None:
        return _dropped(layer, x, ratio, training)
    kept = [normal_axis(a, x.ndim, "dropout") for a in ([axis] if isinstance(axis, int) else axis)]
    ones = op.Expand(op.constant(1.0, x.dtype), sizes_at(op, x, kept))
    return layer.result("Mul", x, _dropped(layer, ones, ratio, training))


def _dropped(layer: LayerHelper, x: Variable, ratio: Any, training: bool) -> Variable:
    if x.is_eager and training:
        op = layer.op
        keep = op.Sub(1.0, ratio) if is_variable(ratio) else 1.0 - float(ratio)
        kept = op.Bernoulli(op.Expand(op.constant(np.float32(1.0 - float(ratio))), shape_of(op, x)), dtype=x.dtype.number)
        return layer.result("Mul", x, op.Div(kept, keep))
    y = layer.result("Dropout", x, ratio)
    if training and y.op is not None:
        attach_training([y.op])
    return y


@checked
def dropout1d(input: Variable, p: float = 0.5, training: bool = True, inplace: bool = False) -> Variable:
    """Zero whole channels of sequences, as ``dropout`` does elements. Tompson et al. 2014.

    Args:
        input: floats [N, C, L].
        p: the probability of a zero, from 0 to 1.
        training: False for inference.
        inplace: write the result into an eager ``input``.

    Raises:
        ArgumentError: if ``p`` is outside [0, 1].

    Example:
        >>> F.dropout1d(static.data("x", [None, 3, 4])).shape
        (-1, 3, 4)
    """
    return dropout(input, p, [0, 1], training, inplace)


@checked
def dropout2d(
    x: Variable, p: float = 0.5, training: bool = True, data_format: Layout2D = "NCHW", name: str | None = None
) -> Variable:
    """Zero whole channels of images, as ``dropout`` does elements. Tompson et al. 2014.

    Args:
        x: floats [N, C, H, W].
        p: the probability of a zero, from 0 to 1.
        training: False for inference.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if ``p`` is outside [0, 1].

    Example:
        >>> F.dropout2d(static.data("x", [None, 3, 4, 4])).shape
        (-1, 3, 4, 4)
    """
    return dropout(x, p, [0, 1] if data_format == "NCHW" else [0, 3], training, name=name)


@checked
def dropout3d(
    x: Variable, p: float = 0.5, training: bool = True, data_format: Layout3D = "NCDHW", name: str | None = None
) -> Variable:
    """Zero whole channels of volumes, as ``dropout`` does elements. Tompson et al. 2014.

    Args:
        x: floats [N, C, D, H, W].
        p: the probability of a zero, from 0 to 1.
        training: False for inference.
        data_format: 'NCDHW', or 'NDHWC' for channels on the last axis.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if ``p`` is outside [0, 1].

    Example:
        >>> F.dropout3d(static.data("x", [None, 3, 2, 4, 4])).shape
        (-1, 3, 2, 4, 4)
    """
    return dropout(x, p, [0, 1] if data_format == "NCDHW" else [0, 4], training, name=name)


_SELU_LIMIT = -1.7580993408473766
"""What selu tends to on the left: -scale alpha."""


@checked
def alpha_dropout(x: Variable, p: float = 0.5, training: bool = True, name: str | None = None) -> Variable:
    """Drop elements so that mean and deviation of the output of ``selu`` stay. Klambauer et al. 2017.

    Unlike ``dropout`` it is fixed to training or inference when the program is built.

    Args:
        x: floats of any shape.
        p: the probability of a dropped element, from 0 to 1.
        training: False for inference.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if ``p`` is outside [0, 1].

    Example:
        >>> F.alpha_dropout(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    return _alpha_dropout("alpha_dropout", x, p, training, None, name)


@checked
def feature_alpha_dropout(x: Variable, p: float = 0.5, training: bool = True, name: str | None = None) -> Variable:
    """Drop whole channels, as ``alpha_dropout`` does elements.

    Args:
        x: floats [N, C, ...].
        p: the probability of a dropped channel, from 0 to 1.
        training: False for inference.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if ``p`` is outside [0, 1].

    Example:
        >>> F.feature_alpha_dropout(static.data("x", [None, 3, 4])).shape
        (-1, 3, 4)
    """
    return _alpha_dropout("feature_alpha_dropout", x, p, training, 2, name)


def _alpha_dropout(layer_name: str, x: Variable, p: float, training: bool, lead: int | None, name: str | None) -> Variable:
    layer, op = open_layer(layer_name, x, name=name)
    if not 0 <= p <= 1:
        raise ArgumentError(f"{layer_name}: p must lie in [0, 1], not {p}.")
    if not training or p == 0:
        return layer.result("Identity", x)
    if p == 1:
        return layer.result("Mul", x, 0.0)
    shape = sizes_at(op, x, list(range(x.ndim))[:lead])
    kept = op.GreaterOrEqual(sampled(op, "RandomUniform", shape, low=0.0, high=1.0), np.float32(p))
    a = ((1 - p) * (1 + p * _SELU_LIMIT**2)) ** -0.5
    y = op.Where(kept, x, op.constant(_SELU_LIMIT, x.dtype))
    return layer.result("Add", op.Mul(y, a), -a * _SELU_LIMIT * p)


# Padding -------------------------------------------------------------------------------------------------------------


@checked
def pad(
    x: Variable,
    pad: Sizes,
    mode: PadMode = "constant",
    value: float = 0.0,
    data_format: Layout | None = None,
    pad_from_left_axis: bool = True,
    name: str | None = None,
) -> Variable:
    """Put a border around ``x``.

    Args:
        x: variable of any rank for a list of two numbers per axis, else of rank 3 to 5.
        pad: starts and ends, as numbers or a Variable of known size: [left, right], [left, right, top, bottom] or [left, right,
            top, bottom, front, back] for the spatial axes, from the last one on; or two for every axis (mode 'constant'), from the
            first one on.
        mode: what the border holds: 'constant' a value, 'reflect' the mirrored input, 'replicate' its outermost elements,
            'circular' its other end.
        value: of a constant border.
        data_format: channels are on axis 1 if its second letter is C, as unless given, else on the last axis.
        pad_from_left_axis: False to list all axes from the last one on.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if the mode is unknown or the numbers do not fit.

    Example:
        >>> F.pad(static.data("x", [None, 3, 4, 4]), [1, 2, 0, 1]).shape
        (-1, 3, 5, 7)
    """
    layer = LayerHelper("pad3d", x, *variables_in(pad), name=name)
    later: Variable | None = None
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    border: Any = pad
    if is_variable(pad):
        later = pad if pad.value is None and not pad.is_eager else None
        border = range(pad.shape[0]) if later is not None else pad.get_value()
    widths = [int(border)] * (2 * (x.ndim - 2)) if isinstance(border, int) else [int(n) for n in border]
    if len(widths) % 2:
        raise ArgumentError(f"pad: {widths} must hold a start and an end for each axis.")
    pairs = list(zip(widths[::2], widths[1::2], strict=True))
    if len(pairs) == x.ndim and mode == "constant":
        axes = list(range(x.ndim)) if pad_from_left_axis else list(range(x.ndim))[::-1]
    else:
        last = data_format is not None and data_format[1] != "C"
        axes = list(range(2 - last, x.ndim - last))[::-1][: len(pairs)]
        if data_format is not None and len(data_format) != x.ndim:
            raise Mismatch(f"pad: the layout {data_format!r} has {len(data_format)} axes, {x!r} has {x.ndim}.")
    if len(axes) != len(pairs):
        raise ArgumentError(f"pad: {widths} does not fit the {x.ndim} axes of {x!r}.")
    ordered = sorted(zip(axes, pairs, strict=True))
    for axis, pair in ordered if later is None and mode != "constant" else []:
        most = x.shape[axis] - (mode == "reflect")
        if x.shape[axis] >= 0 and max(pair) > 0 and (most < 1 or (mode == "reflect" and max(pair) > most)):
            raise ArgumentError(f"pad: mode {mode!r} cannot add {max(pair)} to axis {axis} of {x!r}. Add fewer.")
    pads: Any = np.array([start for _, (start, _) in ordered] + [end for _, (_, end) in ordered])
    if later is not None:
        # The numbers so far are places in it.
        pads = layer.op.Cast(layer.op.Gather(later, pads), to=7)
    constant = layer.op.constant(np.asarray(value), x.dtype) if mode == "constant" else None
    return layer.result("Pad", x, pads, constant, np.array([a for a, _ in ordered]), mode=modes[mode])


@checked
def zeropad2d(x: Variable, padding: Sizes, data_format: Layout2D = "NCHW", name: str | None = None) -> Variable:
    """Put zeros around images.

    Args:
        x: [N, C, H, W].
        padding: one number, or [left, right, top, bottom].
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.zeropad2d(static.data("x", [None, 3, 4, 4]), 1).shape
        (-1, 3, 6, 6)
    """
    return pad(x, [padding] * 4 if isinstance(padding, int) else padding, "constant", 0.0, data_format, name=name)


# Integers ------------------------------------------------------------------------------------------------------------


@checked
def embedding(
    x: Variable,
    weight: Variable,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    sparse: bool = False,
    scale_grad_by_freq: bool = False,
    name: str | None = None,
) -> Variable:
    """Look up rows of an embedding by integer.

    Args:
        x: int32 or int64 indices of any shape.
        weight: [rows, columns].
        padding_idx: index whose row reads as zeros and receives no gradient; a negative one counts from the end.
        max_norm: rows read are scaled down to this norm; None for no limit.
        norm_type: the p of this p-norm.
        sparse: whether ``Adam(lazy_mode=True)`` leaves the rows alone that a batch does not look up.
        scale_grad_by_freq: not offered.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if ``padding_idx`` is outside the embedding, or for ``scale_grad_by_freq``, which is not offered.

    Example:
        >>> F.embedding(static.data("ids", [None, 5], "int64"), static.data("weight", [10, 4])).shape
        (-1, 5, 4)
    """
    layer, op = open_layer("embedding", x, weight, name=name)
    if scale_grad_by_freq:
        raise ArgumentError("embedding: scale_grad_by_freq is not offered. Divide the learning rate of rare rows instead.")
    indices = x if x.dtype.name in ("int32", "int64") else op.Cast(x, to=7)
    if max_norm is None and padding_idx is None:
        return with_sparse_gradient(layer.result("Gather", weight, indices), sparse)
    rows = with_sparse_gradient(op.Gather(weight, indices), sparse)
    if max_norm is not None:
        rows = op.Mul(rows, linalg.shortening(op, rows, norm_type, -1, max_norm))
    if padding_idx is None:
        return layer.result("Identity", rows)
    size = known_dim(weight, 0, "embedding with padding_idx")
    if not -size <= padding_idx < size:
        raise ArgumentError(f"embedding: padding_idx {padding_idx} is outside the embedding of {size} rows.")
    wanted = op.Not(op.Equal(x, op.constant(padding_idx % size, x.dtype)))
    return layer.result("Mul", rows, op.Unsqueeze(op.Cast(wanted, to=weight.dtype.number), [-1]))


@checked
def one_hot(x: Variable, num_classes: int | Variable = -1, name: str | None = None) -> Variable:
    """Write a new last axis with 1 at the index that ``x`` gives, else 0, in float32.

    Args:
        x: integers of any shape.
        num_classes: size of the new axis; -1 for the largest index plus 1.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.one_hot(static.data("ids", [None, 5], "int64"), 7).shape
        (-1, 5, 7)
    """
    if x.is_float:
        raise IllTyped(f"one_hot takes integers, not {x!r}. Cast them first.")
    layer, op = open_layer("one_hot_v2", x, *variables_in(num_classes), name=name)
    count: Any = num_classes
    if not is_variable(count) and count == -1:
        count = op.Add(op.ReduceMax(as_dtype(op, x, "int64"), keepdims=0), np.array(1))
    depth = as_dtype(op, count, "int64") if is_variable(count) else np.array(int(count))
    index = as_dtype(op, x, "int64")
    if x.ndim == 0:
        rows = op.OneHot(op.Unsqueeze(index, [0]), depth, np.array([0.0, 1.0], np.float32), axis=-1)
        return layer.result("Squeeze", rows, [0])
    return layer.result("OneHot", index, depth, np.array([0.0, 1.0], np.float32), axis=-1)


@checked
def sequence_mask(
    x: Variable, maxlen: int | Variable | None = None, dtype: DTypeLike = "int64", name: str | None = None
) -> Variable:
    """Write a new last axis with 1 at the first ``x`` indices, else 0.

    Args:
        x: integer lengths of any shape.
        maxlen: size of the new axis; the largest length unless given.
        dtype: element type of the result.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.sequence_mask(static.data("x", [None], "int64"), 4).shape
        (-1, 4)
    """
    layer, op = open_layer("sequence_mask", x, *variables_in(maxlen), name=name)
    lengths = as_dtype(op, x, "int64")
    if maxlen is None:
        maxlen = op.ReduceMax(lengths, keepdims=0)
    end: Any = op.Reshape(as_dtype(op, maxlen, "int64"), np.empty(0, np.int64)) if is_variable(maxlen) else np.array(maxlen)
    indices = op.Range(np.array(0), end, np.array(1))
    return layer.result("Cast", op.Less(indices, op.Unsqueeze(lengths, [-1])), to=dtype_of(dtype).number)


@checked
def label_smooth(label: Variable, prior_dist: Variable | None = None, epsilon: float = 0.1, name: str | None = None) -> Variable:
    """Mix labels with a prior distribution: (1 - epsilon) label + epsilon prior. Szegedy et al. 2015.

    Args:
        label: distributions [..., classes].
        prior_dist: [1, classes]; uniform unless given.
        epsilon: the part of the prior, from 0 to 1.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if epsilon is outside [0, 1].

    Example:
        >>> F.label_smooth(static.data("x", [None, 3])).shape
        (-1, 3)
    """
    if not 0 <= epsilon <= 1:
        raise ArgumentError(f"label_smooth: epsilon must lie in [0, 1], not {epsilon}.")
    layer, op = open_layer("label_smooth", label, *present_operands(prior_dist), name=name)
    prior: Any = op.Mul(prior_dist, float(epsilon)) if prior_dist is not None else epsilon / known_dim(label, -1, "label_smooth")
    return layer.result("Add", op.Mul(label, 1.0 - epsilon), prior)


# Similarity ----------------------------------------------------------------------------------------------------------


@checked
def cosine_similarity(x1: Variable, x2: Variable, axis: int = 1, eps: float = 1e-8) -> Variable:
    """Compute the cosine of the angle between vectors along ``axis``.

    Args:
        x1: vectors along ``axis``.
        x2: vectors to compare with, of that shape or one that broadcasts.
        axis: the axis of the vectors; it is reduced.
        eps: what the product of the lengths counts as at least.

    Example:
        >>> F.cosine_similarity(static.data("x", [None, 3]), static.data("y", [None, 3])).shape
        (-1,)
    """
    layer, op = open_layer("cosine_similarity", x1, x2)
    product, first, second = cosine_parts(op, x1, x2, axis)
    return layer.result("Div", product, op.Sqrt(op.Clip(op.Mul(first, second), float(eps) ** 2)))


@checked
def pairwise_distance(
    x: Variable, y: Variable, p: float = 2.0, epsilon: float = 1e-6, keepdim: bool = False, name: str | None = None
) -> Variable:
    """Compute the p-norm of ``x - y + epsilon`` along the last axis.

    Args:
        x: vectors [N, features] or [features].
        y: vectors of that shape.
        p: the p of the p-norm.
        epsilon: added to each difference.
        keepdim: keep the reduced axis with size 1.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> F.pairwise_distance(static.data("x", [None, 3]), static.data("y", [None, 3])).shape
        (-1,)
    """
    op = LayerHelper("pairwise_distance", x, y, name=name).op
    return linalg.vector_norm(op.Add(op.Sub(x, y), float(epsilon)), float(p), -1, keepdim)


@checked
def pdist(x: Variable, p: float = 2.0, name: str | None = None) -> Variable:
    """Compute the distances of all pairs of rows, first with all later ones, as a vector.

    Args:
        x: vectors [N, features], with a known N.
        p: the p of the p-norm.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if N is not known.

    Example:
        >>> F.pdist(static.data("x", [4, 3])).shape
        (6,)
    """
    return linalg.pdist(x, p, name=name)


# Windows of images ---------------------------------------------------------------------------------------------------


@checked
def unfold(
    x: Variable, kernel_sizes: Numbers, strides: Numbers = 1, paddings: Numbers = 0, dilations: Numbers = 1, name: str | None = None
) -> Variable:
    """Write the windows of an image as columns, of shape [N, C * height * width of a window, windows].

    A convolution with filters that select one element each.

    Args:
        x: [N, C, H, W] with a known C.
        kernel_sizes: height and width of the windows, or one number for both.
        strides: steps between windows, in the same form.
        paddings: border of zeros: one number, one for each axis, or [top, left, bottom, right].
        dilations: distance between the elements of a window, in the form of ``kernel_sizes``.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if C is not known.

    Example:
        >>> F.unfold(static.data("x", [None, 3, 4, 4]), 2).shape
        (-1, 12, 9)
    """
    layer, op = open_layer("unfold", x, name=name)
    channels = known_dim(x, 1, "unfold")
    kernel = numbers(kernel_sizes, 2)
    taps = kernel[0] * kernel[1]
    filters = np.tile(np.eye(taps).reshape(taps, 1, *kernel), (channels, 1, 1, 1))
    window: dict[str, Any] = {"strides": numbers(strides, 2), "dilations": numbers(dilations, 2), "pads": _image_pads(paddings)}
    columns = op.Conv(x, op.constant(filters, x.dtype), group=channels, **window)
    return layer.result("Reshape", columns, np.array([0, 0, -1]))


def _image_pads(paddings: Any) -> list[int]:
    """Starts and ends from one number, one per axis, or [top, left, bottom, right]"""
    sizes = [paddings] if isinstance(paddings, int) else list(paddings)
    pads = sizes if len(sizes) == 4 else pads_of(paddings, 2)
    assert not isinstance(pads, str)
    return pads


@checked
def fold(
    x: Variable,
    output_sizes: Numbers,
    kernel_sizes: Numbers,
    strides: Numbers = 1,
    paddings: Numbers = 0,
    dilations: Numbers = 1,
    name: str | None = None,
) -> Variable:
    """Add columns back to the windows of an image: the transpose of ``unfold``.

    Args:
        x: [N, C * height * width of a window, windows].
        output_sizes: height and width of the image, or one number for both.
        kernel_sizes: height and width of the windows, or one number for both.
        strides: steps between windows, in the same form.
        paddings: border that is cut off: one number, one for each axis, or [top, left, bottom, right].
        dilations: distance between the elements of a window, in the form of ``kernel_sizes``.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if the windows do not fit the image.

    Example:
        >>> F.fold(static.data("x", [2, 12, 9]), [4, 4], 2).shape
        (2, 3, 4, 4)
    """
    layer = LayerHelper("fold", x, name=name)
    size, kernel = numbers(output_sizes, 2), numbers(kernel_sizes, 2)
    step, apart, pads = numbers(strides, 2), numbers(dilations, 2), _image_pads(paddings)
    if min(*size, *kernel, *step, *apart) < 1:
        raise ArgumentError(f"fold: sizes, strides and dilations are 1 or more, not {size}, {kernel}, {step}, {apart}.")
    free = [n + pads[i] + pads[i + 2] - (k - 1) * d - 1 for i, (n, k, d) in enumerate(zip(size, kernel, apart, strict=True))]
    count = math.prod(max(extent // s + 1, 0) for extent, s in zip(free, step, strict=True))
    if x.shape[2] not in (-1, count) or count < 1:
        raise ArgumentError(f"fold: an image of {size} has {count} windows of {kernel}, but {x!r} holds {x.shape[2]}.")
    window: dict[str, Any] = {"strides": step, "dilations": apart, "pads": pads}
    return layer.result("Col2Im", x, np.array(size), np.array(kernel), **window)
