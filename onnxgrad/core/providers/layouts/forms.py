"""Write what lies between convolutions for a layout of images, whose order of axes each form reads from ``pass_.LAYOUT``.

Tests: tests/core/providers/test_chwn.py, tests/core/providers/test_hwnc.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxgrad.core.graph.matching import SWAPPED
from onnxgrad.core.ir import traits
from onnxgrad.core.ir.bodies import as_tuple
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.providers.layouts.feature_maps import MapWindow, is_image, shape_of
from onnxgrad.core.providers.layouts.layout import C, Form, H, LayoutPass, N, W

__all__ = ["ELEMENTWISE", "FORMS", "REDUCTIONS", "expand", "filter_gradient", "has_form", "swap_back"]

REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")
ELEMENTWISE = traits.ELEMENTWISE - {"CastLike"}
"""The second operand of CastLike has a shape of its own."""
_SPACE = {H, W}
_ALL_BUT_CHANNELS = {N, H, W}


def has_form(op: Operator, is_usual: Callable[[Variable | None], bool]) -> bool:
    """Tell whether one of ``FORMS`` can write an operator, some of whose operands are images.

    Args:
        is_usual: whether a variable is an image of the type and the sizes that the layout is for.
    """
    y = op.outputs[0]
    if op.type in ELEMENTWISE:
        return is_image(y) and all(v is None or shape_of(v) for v in op.inputs)
    if op.type in REDUCTIONS:
        return _reduced(op) in (_SPACE, _ALL_BUT_CHANNELS)
    if op.type == "GlobalAveragePool":
        return True
    if op.type == "BatchNormalization":
        return is_usual(y)
    if op.type == "Concat":
        return _is_of_channels(op) and all(map(is_usual, [*op.inputs, y]))
    if op.type == "Split":
        sizes = op.inputs[1] if len(op.inputs) > 1 else None
        return _is_of_channels(op) and sizes is not None and sizes.value is not None and all(map(is_usual, op.outputs))
    return False


def _is_of_channels(op: Operator) -> bool:
    return bool(op.attr("axis") % 4 == C)


def _reduced(op: Operator) -> set[int]:
    """The axes of an image that an operator reduces; empty where they are not known"""
    axes = op.inputs[1] if len(op.inputs) > 1 else None
    return set() if axes is None or axes.value is None else {int(axis) % 4 for axis in axes.value.numpy().reshape(-1)}


# Operators ---------------------------------------------------------------------------------------------------------------


def _elementwise(pass_: LayoutPass, op: Operator) -> bool:
    result = op.outputs[0]
    operands = [None if v is None else pass_.operand(v, shape_of(result)) for v in op.inputs]
    return pass_.give(result, pass_.build.emit(op.type, operands, dict(op.attrs)))


def expand(pass_: LayoutPass, op: Operator) -> bool:
    """Expand numbers to images in the layout."""
    x, y = op.inputs[0], op.outputs[0]
    assert x is not None
    return pass_.give(y, pass_.build.Expand(pass_.operand(x, shape_of(y)), pass_.LAYOUT.shape(shape_of(y))))


def _batch_normalization(pass_: LayoutPass, op: Operator) -> bool:
    """The operator itself, where the channels are the second axis: its statistics are over all others"""
    assert pass_.LAYOUT.channels == 1
    x, *vectors = op.inputs
    results = pass_.build.emit(op.type, [pass_.image(x), *vectors], dict(op.attrs), outputs=len(op.outputs))
    y, *statistics = as_tuple(results)
    for old, new in zip(op.outputs[1:], statistics, strict=True):
        if old is not None:
            pass_.replace(old, new)
    return pass_.give(op.outputs[0], y)


def _concat(pass_: LayoutPass, op: Operator) -> bool:
    """Of channels"""
    return pass_.give(op.outputs[0], pass_.build.Concat(*map(pass_.image, op.inputs), axis=pass_.LAYOUT.channels))


def _split(pass_: LayoutPass, op: Operator) -> bool:
    """Of channels, as the gradient of a Concat is"""
    x, sizes = op.inputs
    parts = pass_.build.Split(pass_.image(x), sizes, axis=pass_.LAYOUT.channels, outputs=len(op.outputs))
    return all(pass_.give(v, part) for v, part in zip(op.outputs, as_tuple(parts), strict=True))


def _reduction(pass_: LayoutPass, op: Operator) -> bool:
    """Over the space of each image, or over all but the channels"""
    numbers = pass_.over_space(op.type, op.inputs[0]) if _reduced(op) == _SPACE else pass_.over_all_but_channels(op)
    return _give_numbers(pass_, op.outputs[0], numbers)


def _global_average(pass_: LayoutPass, op: Operator) -> bool:
    return _give_numbers(pass_, op.outputs[0], pass_.over_space("ReduceMean", op.inputs[0]))


def _give_numbers(pass_: LayoutPass, y: Variable | None, numbers: Any) -> bool:
    """Numbers of [N, C] or [C], which are an image of one pixel where batch and channels are the last axes of the layout"""
    assert y is not None
    if y.rank == 4 and pass_.LAYOUT.axes[-2:] == ((N,), (C,)):
        return pass_.give(y, pass_.build.Reshape(numbers, pass_.LAYOUT.shape(shape_of(y))))
    return pass_.replace(y, pass_.build.Reshape(numbers, list(y.static_shape or ())))


def filter_gradient(pass_: LayoutPass, op: Operator, x: Variable, gy: Variable, product: Callable[..., Any]) -> bool:
    """Compute the gradient of a filter, which the backward pass writes as Conv of x and gy with batch and channels of both swapped.

    Args:
        product: writes it as [O, C, *kernel], of x, gy and the window of the filter, or returns None.
    """
    result = op.outputs[0]
    assert result is not None
    gradient = product(pass_, x, gy, MapWindow.of_filter(op, shape_of(pass_.cropped(result) or result)[2:]))
    return gradient is not None and pass_.give_filter(result, gradient)


def swap_back(pass_: LayoutPass, op: Operator) -> bool:
    """Leave out the Transpose of the gradient of a filter, which is computed in the order that is asked for."""
    source = None if op.inputs[0] is None else pass_.deferred.get(op.inputs[0])
    if source is None or source[2] != SWAPPED or op.attr("perm") != SWAPPED:
        return False
    return pass_.replace(op.outputs[0], source[0])


FORMS: dict[str, Form] = {
    "BatchNormalization": _batch_normalization,
    "Concat": _concat,
    "GlobalAveragePool": _global_average,
    "Split": _split,
    **dict.fromkeys(REDUCTIONS, _reduction),
    **dict.fromkeys(ELEMENTWISE, _elementwise),
}
