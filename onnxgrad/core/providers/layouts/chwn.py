"""Convolutional networks in the CHWN layout: images [N, C, H, W] as one image [1, C, H, W * N].

A convolution is then one of a single image, with dilation N along the width (``dilated_image``). Values per channel keep their
shape [1, C, 1, 1], and the sums that make them run over contiguous rows.

Applies to 4-D images of known shape in float32 and a batch of at least 4; what has no form here reads its operand in the usual
order, for one Transpose.

Tests: tests/core/providers/test_chwn.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxgrad.core.graph.contract import CPU_FORMS, Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.matching import BY_PIXELS, operand_of
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.providers.layouts import dilated_image, pool_axes
from onnxgrad.core.providers.layouts.feature_maps import shape_of
from onnxgrad.core.providers.layouts.forms import FORMS, has_form, swap_back
from onnxgrad.core.providers.layouts.layout import C, Form, H, Layout, LayoutPass, N, W

__all__ = ["CHWN", "use_chwn_layout"]


def use_chwn_layout(graph: Graph, target: Target) -> int:
    """Write the convolutions of a graph, and what lies between them, for [C, H, W, N]."""
    before = graph.replacements
    if any(op.type == "Conv" and not op.domain and dilated_image.is_batch(op.inputs[0]) for op in graph.operators):
        _ChwnPass(graph, target).run()
    return graph.replacements - before


CHWN = Pass("chwn", use_chwn_layout, rounding="order", gain=CPU_FORMS)


def _by_pixels(v: Variable | None) -> Variable | None:
    """The image in the HWNC layout, if ``v`` is made from it"""
    rows = operand_of(operand_of(v, "Reshape"), "Transpose", [1, 0])
    source = operand_of(rows, "Reshape")
    batch, channels, height, width = shape_of(v) or (0, 0, 0, 0)
    if rows is None or source is None or rows.static_shape != (height * width, batch * channels):
        return None
    return source if source.static_shape == (height, width, batch, channels) else None


class _ChwnPass(LayoutPass):
    LAYOUT = Layout(axes=((), (C,), (H,), (W, N)), back=((C,), (H,), (W,), (N,)), back_perm=(3, 0, 1, 2))

    def form_of(self, op: Operator) -> Form | None:
        """Let what lies between convolutions follow its operands."""
        if op.type in FORMS and not (any(map(self.holds, op.inputs)) and has_form(op, dilated_image.is_batch)):
            return None
        return super().form_of(op)

    def holds(self, v: Variable | None) -> bool:
        return super().holds(v) or (dilated_image.is_batch(v) and _by_pixels(v) is not None)

    def permuted(self, v: Variable) -> Any:
        """Transpose a matrix, if the image is one of the HWNC layout."""
        pixels = _by_pixels(v)
        if pixels is None:
            return super().permuted(v)
        batch, channels, height, width = shape_of(v)
        rows = self.build.Reshape(pixels, [height * width * batch, channels])
        return self.build.Reshape(self.build.Transpose(rows, perm=[1, 0]), [channels, height, width, batch])

    def operand(self, v: Variable, image: Sequence[int]) -> Any:
        """Expand width and batch, which are one axis, to the size of the image, unless both are of size 1."""
        batch, channels, height, width = shape_of(v)
        is_whole = (batch, width) == (image[N], image[W])
        if is_whole and v in self.held:
            return self.held[v]
        if (batch, width) == (1, 1):
            return v
        chwn = self.build.Reshape(self.held[v], [channels, height, width, batch]) if v in self.held else self.permuted(v)
        if not is_whole:
            chwn = self.build.Expand(chwn, [channels, height, image[W], image[N]])
        return self.build.Reshape(chwn, [1, channels, height, image[W] * image[N]])

    def over_space(self, op_type: str, x: Variable | None) -> Any:
        batch, channels, height, width = shape_of(x)
        rows = self.build.Reshape(self.image(x), [channels, height * width, batch])
        reduced = self.build.emit(op_type, [rows, self.build.constant(np.array([1]))], {"keepdims": 0})
        return self.build.Transpose(reduced, perm=[1, 0])

    def over_all_but_channels(self, op: Operator) -> Any:
        """Reduce the same axes of one image."""
        x, axes = op.inputs
        return self.build.emit(op.type, [self.image(x), axes], dict(op.attrs))


def _transpose(pass_: _ChwnPass, op: Operator) -> bool:
    """Transpose an image to [H, W, N, C] as a matrix"""
    x, y = op.inputs[0], op.outputs[0]
    if not pass_.holds(x) or x is None or y is None or y.static_shape is None or op.attr("perm") != BY_PIXELS:
        return swap_back(pass_, op)
    rows = pass_.build.Reshape(pass_.image(x), [shape_of(x)[C], -1])
    return pass_.replace(y, pass_.build.Reshape(pass_.build.Transpose(rows, perm=[1, 0]), list(y.static_shape)))


def _reshape(pass_: _ChwnPass, op: Operator) -> bool:
    return pool_axes.max_pool_gradient(pass_, op) or _mask(pass_, op)


def _mask(pass_: _ChwnPass, op: Operator) -> bool:
    """Transpose the mask of a Dropout, which is drawn in the usual order, while its elements are bytes"""
    x, y = op.inputs[0], op.outputs[0]
    if x is None or y is None or x.op is None or x.op.type not in ("GreaterOrEqual", "Slice"):
        return False
    shape = shape_of(y)
    if y.rank != 4 or not any(shape == shape_of(v) for v in pass_.held):
        return False
    batch, channels, height, width = shape
    transposed = pass_.build.Transpose(pass_.build.Reshape(x, [batch, channels * height * width]), perm=[1, 0])
    return pass_.give(y, pass_.build.Reshape(transposed, pass_.LAYOUT.shape(shape)))


_ChwnPass.FORMS = {
    **FORMS,
    "Conv": dilated_image.convolution,
    "ConvTranspose": dilated_image.transposed_convolution,
    "Transpose": _transpose,
    "MaxPool": pool_axes.max_pool,
    "Reshape": _reshape,
}
