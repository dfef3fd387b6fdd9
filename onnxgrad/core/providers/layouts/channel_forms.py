"""Forms over the channels of images for OpenVINO's provider: convolutions of one tap as products, of parts of channels apart.

Tests: tests/core/providers/test_channel_forms.py.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.graph.contract import OPENVINO_FORMS, Form, Pass
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.rewriting import Links
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable

__all__ = ["CHANNELS_APART", "ONE_TAP"]


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


def _apart(graph: Graph) -> dict[str, Form]:
    """Convolve to each part of the channels apart, where nothing else reads the whole: the gradient of a Concat of images.

    The parts of a Split lie within it, and bringing such a part into another layout takes longer than the convolution.
    """
    links = Links(graph)

    def form(build: Any, op: Operator) -> list[Variable | None] | None:
        whole = op.inputs[0]
        maker = None if whole is None else links.makers.get(whole)
        if whole is None or maker is None or whole.rank != 4 or op.attr("axis") != 1 or maker.type not in ("Conv", "ConvTranspose"):
            return None
        if maker.domain or whole in links.returned or len(links.readers[whole]) > 1 or maker.attr("group") not in (None, 1):
            return None
        x, w, *bias = maker.inputs
        axis = 0 if maker.type == "Conv" else 1
        parts, end = [], 0
        for v in op.outputs:
            width = None if v is None or v.dims is None else v.dims[1]
            if not isinstance(width, int):
                return None
            each = [build.Slice(w, [end], [end + width], [axis]), *(build.Slice(b, [end], [end + width], [0]) for b in bias)]
            parts.append(build.emit(maker.type, [x, *each], dict(maker.attrs)))
            end += width
        return parts

    return {"Split": form}


CHANNELS_APART = Pass("channels_apart", forms=_apart, rounding="order", gain=OPENVINO_FORMS)
