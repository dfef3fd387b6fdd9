"""Convolutions of one tap as matrix products over the channels of an image, for OpenVINO's provider.

Tests: tests/core/providers/test_one_tap.py.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.graph.contract import OPENVINO_FORMS, Pass
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable

__all__ = ["ONE_TAP"]


def _one_tap(build: Any, op: Operator) -> list[Variable | None] | None:
    """Multiply filters [O, C] by an image [C, H W]: Conv and ConvTranspose put its channels last before, and back after.

    Of one image, as a batch is one in the CHWN layout.
    """
    x, w = op.inputs[:2]
    image, filters = (None if v is None else v.static_shape for v in (x, w))
    if image is None or filters is None or len(filters) != 4 or image[0] != 1 or filters[2:] != (1, 1):
        return None
    if op.attr("group") not in (None, 1) or (len(op.inputs) > 2 and op.inputs[2] is not None):
        return None
    moves = [*(op.attr("pads") or ()), *(op.attr("output_padding") or () if op.type == "ConvTranspose" else ())]
    if any(moves) or any(s != 1 for s in op.attr("strides") or ()) or (op.type == "ConvTranspose" and op.attr("output_shape")):
        return None
    if op.attr("auto_pad") not in (None, "NOTSET", "VALID"):
        return None
    channels, *sizes = image[1:]
    positions = sizes[0] * sizes[1]
    rows, columns = build.Reshape(w, list(filters[:2])), build.Reshape(x, [channels, positions])
    if op.type == "Conv":
        return [build.Reshape(build.MatMul(rows, columns), [1, filters[0], *sizes])]
    return [build.Reshape(build.Gemm(rows, columns, transA=1), [1, filters[1], *sizes])]


ONE_TAP = Pass("one_tap", forms={"Conv": _one_tap, "ConvTranspose": _one_tap}, rounding="order", gain=OPENVINO_FORMS)
