"""Sums over images [H, W, N, C] as products: of a row of equal numbers, and of the matrix whose columns are summed.

Tests: tests/core/providers/test_hwnc.py.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from onnxgrad.core.graph.contract import Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.providers.layouts.feature_maps import shape_of
from onnxgrad.core.providers.layouts.layout import LayoutPass

__all__ = ["RowSums", "batch_normalization"]


class RowSums(LayoutPass):
    """Reduce images whose channels are the last axis.

    Attributes:
        means: by image, its mean per channel.
    """

    def __init__(self, graph: Graph, target: Target) -> None:
        super().__init__(graph, target)
        self.means: dict[Variable, Any] = {}

    def over_space(self, op_type: str, x: Variable | None) -> Any:
        batch, channels, height, width = shape_of(x)
        return self._over_rows(op_type, self.build.Reshape(self.image(x), [height * width, batch * channels]))

    def over_all_but_channels(self, op: Operator) -> Any:
        if op.type == "ReduceMean":
            return self.mean(op.inputs[0])
        return self._over_rows(op.type, self._positions(self.image(op.inputs[0])))

    def mean(self, x: Variable | None) -> Any:
        """The mean of an image per channel, computed once."""
        assert x is not None
        if x not in self.means:
            self.means[x] = self.mean_of(self.image(x))
        return self.means[x]

    def mean_of(self, image: Any) -> Any:
        """The mean per channel of an image in the layout, which broadcasts against images."""
        mean = self._over_rows("ReduceMean", self._positions(image))
        return self.build.Reshape(mean, self.LAYOUT.per_channel(image.static_shape[-1]))

    def _positions(self, image: Any) -> Any:
        """An image in the layout as a matrix [positions * N, C]"""
        *positions, channels = image.static_shape
        return self.build.Reshape(image, [prod(positions), channels])

    def _over_rows(self, op_type: str, matrix: Any) -> Any:
        rows = matrix.static_shape[0]
        if op_type in ("ReduceMax", "ReduceMin"):
            return self.build.emit(op_type, [matrix, self.build.constant(np.array([0]))], {"keepdims": 1})
        return self.build.MatMul(np.full((1, rows), 1 if op_type == "ReduceSum" else 1 / rows, np.float32), matrix)


def batch_normalization(pass_: RowSums, op: Operator) -> bool:
    """Normalise a batch as the gradient of that does, so that onnxruntime sees what both have in common."""
    x, scale, shift, *running = op.inputs
    build, image, channels = pass_.build, pass_.image(x), shape_of(x)[1]
    per_channel = pass_.LAYOUT.per_channel(channels)
    epsilon, momentum = np.float32(op.attr("epsilon")), np.float32(op.attr("momentum"))
    if not op.attr("training_mode"):
        mean, variance = (build.Reshape(v, per_channel) for v in running)
        centred = build.Sub(image, mean)
    else:
        mean = pass_.mean(x)
        centred = build.Sub(image, mean)
        variance = pass_.mean_of(build.Mul(centred, centred))
    factor = build.Mul(build.Reciprocal(build.Sqrt(build.Add(variance, epsilon))), build.Reshape(scale, per_channel))
    for old, before, now in zip(op.outputs[1:], running, (mean, variance), strict=False):
        if old is not None:
            kept = build.Mul(before, momentum)
            pass_.replace(old, build.Add(kept, build.Mul(build.Reshape(now, [channels]), np.float32(1) - momentum)))
    return pass_.give(op.outputs[0], build.Add(build.Mul(centred, factor), build.Reshape(shift, per_channel)))
