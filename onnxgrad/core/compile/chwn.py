"""Convolutional networks in the CHWN layout: images [N, C, H, W] as one image [1, C, H, W * N].

A convolution is then one of a single image, with dilation N along the width: onnxruntime makes one large matrix product of it,
where otherwise it makes one per image. Measured on the layers of a ResNet-18 (batch 16, 2 threads): at the speed of plain
matrix products for all map sizes, 1.0 to 4 times as fast as image by image, and 3 to 6 times for depthwise filters on small maps.
Values per channel keep their shape [1, C, 1, 1], and the sums that make them run over contiguous rows.

A stride along the width cannot be expressed so: there the input is gathered and multiplied, or every position is computed and the
others are dropped; backwards, zeros are put between. The gradient of a filter is a product with the gathered input too.

Applies to 4-D images of known shape in float32 and a batch of at least 4; what has no form here reads its operand in the usual
order, for one Transpose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from operator import le
from typing import Any

import numpy as np

from onnxgrad.core.compile.graph import Graph
from onnxgrad.core.compile.patterns import SWAPPED, im2col_indices, im2col_indices_of_image, operand_of
from onnxgrad.core.compile.rewriting import name_results, stage_builder
from onnxgrad.core.ir.bodies import as_tuple
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.variable import Variable

__all__ = ["use_chwn_layout"]

_SMALLEST_BATCH = 4
_LARGEST_COLUMNS = 2**24
"""Numbers in an im2col matrix: 64 MB."""
_HIGHEST = 64
"""Rows up to which the products of all pairs of rows cost less than nine products of what meets."""
_LAST = [1, 2, 3, 0]
_FIRST = [3, 0, 1, 2]


def use_chwn_layout(graph: Graph) -> None:
    """Write the convolutions of a graph, and what lies between them, for [C, H, W, N]."""
    if any(op.type == "Conv" and not op.domain and _is_image(op.inputs[0]) for op in graph.operators):
        _Pass(graph).run()


def _shape(v: Variable | None) -> tuple[int, ...]:
    """The known shape, with ones in front up to rank 4; empty if it is not known or longer."""
    shape = None if v is None else v.static_shape
    return () if shape is None or len(shape) > 4 else (1,) * (4 - len(shape)) + tuple(shape)


def _is_filter(v: Variable | None) -> bool:
    return v is not None and v.static_shape is not None and len(v.static_shape) == 4 and v.dtype.name == "float32"


def _is_image(v: Variable | None) -> bool:
    return _is_filter(v) and _shape(v)[0] >= _SMALLEST_BATCH and all(_shape(v))


class _Pass:
    """Goes through the operators in order; ``twins`` holds the images that there are in the CHWN layout."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.twins: dict[Variable, Variable] = {}
        self.hidden: dict[Variable, tuple[Variable, tuple[int, ...], list[int]]] = {}
        """What is not computed in the usual order: from what, in which shape and by which Transpose it can be made."""
        self.fresh: list[Variable] = []
        """Twins that the form of the present operator has made."""
        self.build: Any = None

    def run(self) -> None:
        done: list[Operator] = []
        for op in self.graph.operators:
            self.build = stage_builder(self.graph, op)
            form = _FORMS.get(op.type) if not op.domain else None
            self.fresh.clear()
            is_kept = form is None or not form(self, op)
            if is_kept:
                self.build.stage.clear()
                for v in self.fresh:
                    del self.twins[v]
                self._transpose_back([v for v in op.operands() if v is not None])
            name_results(self.graph, self.build.stage, self.build.key)
            done.extend(self.build.stage)
            if is_kept:
                done.append(op)
        self.build = stage_builder(self.graph, None)
        self._transpose_back([v for _, v in self.graph.outputs])
        name_results(self.graph, self.build.stage, self.build.key)
        self.graph.operators = [*done, *self.build.stage]

    # Both orders -----------------------------------------------------------------------------------------------------------

    def has(self, v: Variable | None) -> bool:
        return v is not None and v in self.twins

    def twin(self, v: Variable) -> Variable:
        """The image ``v`` in the CHWN layout, [1, C, H, W * N]."""
        found = self.twins.get(v)
        if found is None:
            found = self.operand(v, _shape(v))
            self.twins[v] = found
            self.fresh.append(v)
        return found

    def operand(self, v: Variable, image: tuple[int, ...]) -> Any:
        """``v``, which broadcasts against images of a shape, in the form that does so in the CHWN layout."""
        batch, channels, height, width = shape = _shape(v)
        held = self.twins.get(v)
        whole = (batch, width) == (image[0], image[3])
        if held is not None and whole:
            return held
        if (batch, width) == (1, 1):
            return v
        if held is not None:
            chwn = self.build.Reshape(held, [channels, height, width, batch])
        else:
            chwn = self.build.Transpose(v if v.rank == 4 else self.build.Reshape(v, shape), perm=_LAST)
        if not whole:
            chwn = self.build.Expand(chwn, [channels, height, image[3], image[0]])
        return self.build.Reshape(chwn, [1, channels, height, image[3] * image[0]])

    def give(self, v: Variable | None, twin: Variable) -> bool:
        """The image ``v`` is computed in the CHWN layout; the usual order is made where somebody reads it."""
        assert v is not None
        batch, channels, height, width = _shape(v)
        self.twins[v] = twin
        self.hidden[v] = (twin, (channels, height, width, batch), _FIRST)
        return True

    def replace(self, v: Variable | None, new: Variable) -> bool:
        """``new`` stands for ``v`` in the usual order."""
        assert v is not None
        self.graph.replace(v, new)
        return True

    def _transpose_back(self, wanted: Sequence[Variable]) -> None:
        for v in wanted:
            source = self.hidden.pop(v, None)
            if source is not None:
                new, shape, perm = source
                self.replace(v, self.build.Transpose(self.build.Reshape(new, shape), perm=perm))


# Operators ---------------------------------------------------------------------------------------------------------------


class _Window:
    """Kernel, strides, dilations and pads of a convolution of images."""

    def __init__(self, op: Operator, kernel: tuple[int, ...]) -> None:
        self.kernel = kernel
        self.strides = op.attr("strides") or [1, 1]
        self.dilations = op.attr("dilations") or [1, 1]
        self.pads = op.attr("pads") or [0, 0, 0, 0]
        self.group = op.attr("group") or 1

    @property
    def reach(self) -> list[int]:
        """How far the filter reaches beyond its first tap: the largest pads of a convolution that runs backwards."""
        return [d * (k - 1) for d, k in zip(self.dilations, self.kernel, strict=True)] * 2

    def wide(self, batch: int) -> dict[str, Any]:
        """The attributes for one image of width W * batch, without the stride along the width"""
        top, left, bottom, right = self.pads
        pads, dilations = [top, left * batch, bottom, right * batch], [self.dilations[0], self.dilations[1] * batch]
        return {"pads": pads, "dilations": dilations, "strides": [self.strides[0], 1], "group": self.group}


def _applies(op: Operator, image: Variable | None, filters: Variable | None, result: Variable | None) -> bool:
    if op.attr("auto_pad") not in (None, "NOTSET") or not _is_image(image) or not _is_filter(filters) or not _is_image(result):
        return False
    return bool(min(op.attr("pads") or [0]) >= 0)


def _convolution(pass_: _Pass, op: Operator) -> bool:
    """One image of width W * N; for a filter of one tap, the positions that a stride leaves out are dropped first"""
    x, w, y = op.inputs[0], op.inputs[1], op.outputs[0]
    if op.role is Role.BACKWARD and not pass_.has(x):
        return _filter_gradient(pass_, op)
    if not _applies(op, x, w, y) or x is None or w is None or y is None:
        return False
    build, (batch, channels, height, width), (_, out, rows, columns) = pass_.build, _shape(x), _shape(y)
    window, image = _Window(op, _shape(w)[2:]), pass_.twin(x)
    if window.kernel == (1, 1) and max(window.strides) > 1 and not any(window.pads):
        image = build.Reshape(image, [channels, height, width, batch])
        image = build.Slice(image, [0, 0], [height, width], [1, 2], window.strides)
        image, window.strides = build.Reshape(image, [1, channels, rows, columns * batch]), [1, 1]
    bias = op.inputs[2] if len(op.inputs) > 2 else None
    taps = channels * prod(window.kernel)
    if window.strides[1] > 1 and window.group == 1 and taps * rows * columns * batch <= _LARGEST_COLUMNS:
        product = build.MatMul(build.Reshape(w, [out, taps]), _im2col(pass_, x, window, rows, columns))
        product = product if bias is None else build.Add(product, build.Reshape(bias, [out, 1]))
        return pass_.give(y, build.Reshape(product, [1, out, rows, columns * batch]))
    covered = build.Conv(image, w, bias, **window.wide(batch))
    if window.strides[1] > 1:
        covered = build.Reshape(covered, [out, rows, -1, batch])
        covered = build.Slice(covered, [0], [np.iinfo(np.int64).max], [2], [window.strides[1]])
        covered = build.Reshape(covered, [1, out, rows, columns * batch])
    return pass_.give(y, covered)


def _transposed_convolution(pass_: _Pass, op: Operator) -> bool:
    """The same backwards; depthwise it is a convolution with the filter flipped, which onnxruntime does faster"""
    g, w, x = op.inputs[0], op.inputs[1], op.outputs[0]
    if not _applies(op, g, w, x) or op.attr("output_shape") or g is None or w is None or x is None:
        return False
    build, (batch, out, rows, columns), (_, wide, height, width) = pass_.build, _shape(g), _shape(x)
    window, image = _Window(op, _shape(w)[2:]), pass_.twin(g)
    bias = op.inputs[2] if len(op.inputs) > 2 else None
    extra = op.attr("output_padding") or [0, 0]
    if window.group == out == wide and bias is None and all(map(le, window.pads, window.reach)):
        return pass_.give(x, _depthwise_backwards(build, image, w, window, _shape(g), extra))
    if window.kernel == (1, 1) and window.group == 1 and bias is None and not any(window.pads):
        flat_w = build.Transpose(build.Reshape(w, [out, wide]), perm=[1, 0])
        flat = build.MatMul(flat_w, build.Reshape(image, [out, rows * columns * batch]))
        spread = _spread(build, flat, (wide, rows, columns, batch), window.strides, (height, width))
        return pass_.give(x, build.Reshape(spread, [1, wide, height, width * batch]))
    full = (columns - 1) * window.strides[1] + 1 + extra[1]
    if wide // window.group * prod(window.kernel) * rows * full * batch > _LARGEST_COLUMNS:
        # onnxruntime computes these columns for a whole image at once, which here is the batch.
        return False
    spread = _spread(build, image, (out, rows, columns, batch), [1, window.strides[1]], (rows, full))
    spread = build.Reshape(spread, [1, out, rows, full * batch])
    return pass_.give(x, build.ConvTranspose(spread, w, bias, output_padding=[extra[0], 0], **window.wide(batch)))


def _spread(build: Any, x: Any, shape: tuple[int, ...], strides: list[int], sizes: tuple[int, int]) -> Any:
    """x, read as [C, H, W, N], with ``stride - 1`` zeros behind every position, up to these sizes"""
    for axis, stride, size in zip((1, 2), strides, sizes, strict=True):
        if stride == 1:
            continue
        pads = [0] * 10
        pads[5 + axis + 1] = stride - 1
        apart = build.Pad(build.Reshape(x, [*shape[: axis + 1], 1, *shape[axis + 1 :]]), pads)
        x = build.Reshape(apart, [*shape[:axis], shape[axis] * stride, *shape[axis + 1 :]])
        x = build.Slice(x, [0], [size], [axis]) if size < shape[axis] * stride else x
        shape = (*shape[:axis], size, *shape[axis + 1 :])
    return x


def _depthwise_backwards(build: Any, g: Any, w: Any, window: _Window, given: tuple[int, ...], extra: Sequence[int]) -> Any:
    batch, channels, rows, columns = given
    height, width = ((n - 1) * s + 1 + e for n, s, e in zip((rows, columns), window.strides, extra, strict=True))
    spread = _spread(build, g, (channels, rows, columns, batch), window.strides, (height, width))
    taps = prod(window.kernel)
    flipped = build.Gather(build.Reshape(w, [channels, taps]), np.arange(taps)[::-1].copy(), axis=1)
    window.pads, window.strides = [far - pad for far, pad in zip(window.reach, window.pads, strict=True)], [1, 1]
    image = build.Reshape(spread, [1, channels, height, width * batch])
    return build.Conv(image, build.Reshape(flipped, [channels, 1, *window.kernel]), **window.wide(batch))


def _filter_gradient(pass_: _Pass, op: Operator) -> bool:
    """The backward pass writes it as Conv with batch and channels of both operands swapped, and strides and dilations"""
    result, group = op.outputs[0], op.attr("group") or 1
    x = _swapped_image(op.inputs[0], group)
    gy = operand_of(op.inputs[1], "Transpose", SWAPPED)
    if x is None or gy is None or result is None or not _applies(op, x, gy, x) or not _shape(result):
        return False
    if not (pass_.has(x) or pass_.has(gy)):
        return False
    window = _Window(op, _shape(result)[2:])
    window.strides, window.dilations = window.dilations, window.strides
    if group == 1:
        swapped = _dense_filter(pass_, x, gy, window)
    else:
        swapped = _depthwise_filter(pass_, x, gy, window) if group == _shape(x)[1] == _shape(gy)[1] else None
    if swapped is not None:
        pass_.hidden[result] = (swapped, tuple(swapped.static_shape), SWAPPED)
    return swapped is not None


def _dense_filter(pass_: _Pass, x: Variable, gy: Variable, window: _Window) -> Any:
    """gy [O, positions * N] times the transposed im2col matrix; for some taps at a time where all would take much memory"""
    (batch, out, rows, columns), channels, build = _shape(gy), _shape(x)[1], pass_.build
    taps = prod(window.kernel)
    at_once = min(taps, max(1, _LARGEST_COLUMNS // (channels * rows * columns * batch)))
    result = build.Reshape(pass_.twin(gy), [out, rows * columns * batch])
    parts = []
    for first in range(0, taps, at_once):
        chosen = slice(first, min(first + at_once, taps))
        product = build.Gemm(result, _im2col(pass_, x, window, rows, columns, chosen), transB=1)
        parts.append(build.Reshape(product, [out, channels, chosen.stop - first]))
    whole = parts[0] if len(parts) == 1 else build.Concat(*parts, axis=2)
    return build.Reshape(whole, [out, channels, *window.kernel])


def _im2col(pass_: _Pass, x: Variable, window: _Window, rows: int, columns: int, taps: slice = slice(None)) -> Any:
    """The im2col matrix of x, [C * taps, positions * N]"""
    (batch, channels, *_), build = _shape(x), pass_.build
    image = _padded(pass_, x, window)
    height, width = image.static_shape[1:3]
    if (window.kernel, rows, columns) != ((1, 1), height, width):
        indices = im2col_indices_of_image(window.dilations, window.strides, window.kernel, (rows, columns), width)[taps]
        flat = build.Reshape(image, [channels, height * width, batch])
        image = build.Gather(flat, indices.reshape(-1), axis=1)
    return build.Reshape(image, [-1, rows * columns * batch])


def _depthwise_filter(pass_: _Pass, x: Variable, gy: Variable, window: _Window) -> Any:
    """Per channel and tap across, the products of all rows of the input, shifted, with all rows of gy, summed over columns and
    batch; of these, the pairs of rows that a tap down brings together. More products than needed, but of contiguous rows."""
    (_, channels, height, width), (_, _, rows, columns) = _shape(x), _shape(gy)
    (taps, across), build = window.kernel, pass_.build
    if max(height, rows) > _HIGHEST:
        return None
    image = build.Reshape(pass_.twin(x), [channels, height, width, -1])
    result = build.Reshape(pass_.twin(gy), [channels, rows, columns, -1])
    pairs = []
    for indices in im2col_indices(window.dilations[1], window.strides[1], window.pads[1], across, columns):
        inside = np.flatnonzero((indices >= 0) & (indices < width))
        if not inside.size:
            return None
        left = _columns(build, image, indices[inside[0]], indices[inside[-1]] + 1, window.strides[1])
        right = build.Transpose(_columns(build, result, inside[0], inside[-1] + 1, 1), perm=[0, 2, 1])
        pairs.append(build.Reshape(build.MatMul(left, right), [channels, 1, height * rows]))
    met = np.zeros((height, rows, taps), np.float32)
    for tap, indices in enumerate(im2col_indices(window.dilations[0], window.strides[0], window.pads[0], taps, rows)):
        inside = np.flatnonzero((indices >= 0) & (indices < height))
        met[indices[inside], inside, tap] = 1
    summed = build.Reshape(build.MatMul(build.Concat(*pairs, axis=1), met.reshape(-1, taps)), [channels, across * taps])
    # A Transpose of so few numbers at a time takes longer.
    ordered = build.Gather(summed, np.arange(across * taps).reshape(across, taps).T.reshape(-1), axis=1)
    return build.Reshape(ordered, [channels, 1, taps, across])


def _columns(build: Any, image: Any, start: Any, end: Any, step: int) -> Any:
    """Some columns of [C, H, W, N], as [C, H, columns * N]"""
    channels, height, width, _ = image.static_shape
    if (start, end, step) != (0, width, 1):
        image = build.Slice(image, [int(start)], [int(end)], [2], [step])
    return build.Reshape(image, [channels, height, -1])


def _padded(pass_: _Pass, x: Variable, window: _Window) -> Any:
    """x with its padding, [C, H, W, N]"""
    (batch, channels, height, width), (top, left, bottom, right) = _shape(x), window.pads
    image = pass_.build.Reshape(pass_.twin(x), [channels, height, width, batch])
    return pass_.build.Pad(image, [0, top, left, 0, 0, bottom, right, 0]) if any(window.pads) else image


def _swapped_image(v: Variable | None, group: int) -> Variable | None:
    """x, where ``v`` is x with the batch and the channels of a group swapped"""
    if group == 1:
        return operand_of(v, "Transpose", SWAPPED)
    apart = operand_of(operand_of(v, "Reshape"), "Transpose", [2, 1, 0, 3, 4])
    return operand_of(apart, "Reshape")


def _transpose(pass_: _Pass, op: Operator) -> bool:
    """What is held in the order that is asked for needs no Transpose"""
    x = op.inputs[0]
    source = None if x is None else pass_.hidden.get(x)
    if source is None or source[2] != SWAPPED or op.attr("perm") != SWAPPED:
        return False
    return pass_.replace(op.outputs[0], source[0])


def _elementwise(pass_: _Pass, op: Operator) -> bool:
    result = op.outputs[0]
    image = _shape(result)
    if not any(pass_.has(v) for v in op.inputs) or result is None or result.rank != 4 or not image or len(op.outputs) > 1:
        return False
    if not all(v is None or _shape(v) for v in op.inputs):
        return False
    operands = [None if v is None else pass_.operand(v, image) for v in op.inputs]
    return pass_.give(result, pass_.build.emit(op.type, operands, dict(op.attrs)))


def _batch_normalization(pass_: _Pass, op: Operator) -> bool:
    """One image of width W * N has the same statistics"""
    x = op.inputs[0]
    if not pass_.has(x) or x is None or not _is_image(op.outputs[0]):
        return False
    results = pass_.build.emit(op.type, [pass_.twin(x), *op.inputs[1:]], dict(op.attrs), outputs=len(op.outputs))
    first, *rest = as_tuple(results)
    for old, new in zip(op.outputs[1:], rest, strict=True):
        if old is not None:
            pass_.replace(old, new)
    return pass_.give(op.outputs[0], first)


def _reduction(pass_: _Pass, op: Operator) -> bool:
    """Over all but the channels, or over the space of each image"""
    x, axes, y = op.inputs[0], op.inputs[1] if len(op.inputs) > 1 else None, op.outputs[0]
    if not pass_.has(x) or x is None or axes is None or axes.value is None or y is None:
        return False
    summed, build = {int(axis) % 4 for axis in axes.value.numpy().reshape(-1)}, pass_.build
    if summed == {0, 2, 3}:
        return pass_.replace(y, build.emit(op.type, [pass_.twin(x), axes], dict(op.attrs)))
    if summed != {2, 3} or y.static_shape is None:
        return False
    return pass_.replace(y, _over_space(pass_, op.type, x, y.static_shape))


def _over_space(pass_: _Pass, op_type: str, x: Variable, shape: Sequence[int]) -> Any:
    build, (batch, channels, height, width) = pass_.build, _shape(x)
    flat = build.Reshape(pass_.twin(x), [channels, height * width, batch])
    summed = build.emit(op_type, [flat, build.constant(np.array([1]))], {"keepdims": 0})
    return build.Reshape(build.Transpose(summed, perm=[1, 0]), list(shape))


def _global_average(pass_: _Pass, op: Operator) -> bool:
    x, y = op.inputs[0], op.outputs[0]
    if not pass_.has(x) or x is None or y is None or y.static_shape is None:
        return False
    return pass_.replace(y, _over_space(pass_, "ReduceMean", x, y.static_shape))


def _concat(pass_: _Pass, op: Operator) -> bool:
    """Of channels"""
    y = op.outputs[0]
    if not any(pass_.has(v) for v in op.inputs) or op.attr("axis") % 4 != 1 or not all(map(_is_image, [*op.inputs, y])):
        return False
    return pass_.give(y, pass_.build.Concat(*(pass_.twin(v) for v in op.inputs if v is not None), axis=1))


def _mask(pass_: _Pass, op: Operator) -> bool:
    """Of a Dropout, which is drawn in the usual order and turned while its elements are bytes"""
    x, y = op.inputs[0], op.outputs[0]
    if x is None or y is None or x.op is None or x.op.type not in ("GreaterOrEqual", "Slice"):
        return False
    shape, build = _shape(y), pass_.build
    if y.rank != 4 or not any(shape == _shape(v) for v in pass_.twins):
        return False
    batch, channels, height, width = shape
    turned = build.Transpose(build.Reshape(x, [batch, channels * height * width]), perm=[1, 0])
    return pass_.give(y, build.Reshape(turned, [1, channels, height, width * batch]))


_FORMS: dict[str, Callable[[_Pass, Operator], bool]] = {
    "Conv": _convolution,
    "ConvTranspose": _transposed_convolution,
    "Transpose": _transpose,
    "Reshape": _mask,
    "BatchNormalization": _batch_normalization,
    "GlobalAveragePool": _global_average,
    "Concat": _concat,
    **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"), _reduction),
}
_ELEMENTWISE = """
    Abs Add And BitwiseAnd BitwiseXor Cast Ceil Clip Cos Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual
    HardSigmoid HardSwish Identity LeakyRelu Less LessOrEqual Log Max Min Mish Mod Mul Neg Not Or Pow PRelu Reciprocal
    Relu Round Selu Sigmoid Sign Sin Softplus Softsign Sqrt Sub Sum Swish Tanh ThresholdedRelu Where Xor"""
_FORMS.update(dict.fromkeys(_ELEMENTWISE.split(), _elementwise))
