"""Convolutional networks in the HWNC layout: images [N, C, H, W] as [H, W, N, C].

Convolutions are matrix products there (``pixel_products``), and sums too (``row_sums``). ``plan`` says which operators are written
so. Between this layout, the usual one and CHWN lies one Transpose of a matrix each.

Tests: tests/core/providers/test_hwnc.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

from onnxgrad.core.graph.contract import CPU_FORMS, Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.providers.layouts import pixel_products, row_sums
from onnxgrad.core.providers.layouts.feature_maps import shape_of
from onnxgrad.core.providers.layouts.forms import FORMS, expand, swap_back
from onnxgrad.core.providers.layouts.layout import C, Form, H, Layout, N, W
from onnxgrad.core.providers.layouts.plan import operators_by_pixels

__all__ = ["HWNC", "use_hwnc_layout"]


def use_hwnc_layout(graph: Graph, target: Target) -> int:
    """Write the part of a training step for [H, W, N, C] that is faster so."""
    before = graph.replacements
    chosen = operators_by_pixels(graph, target.fast)
    if chosen:
        _HwncPass(graph, target, chosen).run()
    return graph.replacements - before


HWNC = Pass("hwnc", use_hwnc_layout, rounding="fast", bound=64.0, gain=CPU_FORMS)
"""Winograd's products round more than the convolution: ``winograd.py`` has the table of errors.

Measured with tiles of 4 x 4, in eps times the sum of the absolute values of the terms: 42 for a result, 54 for the gradient of an
image and 18 for that of a filter, of normal numbers and after Relu; with tiles of 2 x 2 no more than 5. An element that reads
little but zeros has smaller terms than the tile that it is computed with: up to 900 where 14 of 15 numbers are 0.
"""


class _HwncPass(row_sums.RowSums):
    LAYOUT = Layout(axes=((H,), (W,), (N,), (C,)), back=((H, W), (N, C)), back_perm=(1, 0))
    FORMS: ClassVar = {
        **FORMS,
        "Conv": pixel_products.convolution,
        "ConvTranspose": pixel_products.transposed_convolution,
        "BatchNormalization": row_sums.batch_normalization,
        "Expand": expand,
        "Transpose": swap_back,
    }

    def __init__(self, graph: Graph, target: Target, chosen: set[Operator]) -> None:
        super().__init__(graph, target)
        self.chosen = chosen

    def form_of(self, op: Operator) -> Form | None:
        return super().form_of(op) if op in self.chosen or op.type == "Transpose" else None

    def transposed(self, v: Variable) -> Any:
        """Transpose an image; one number per channel needs a Reshape only."""
        shape, channels = shape_of(v), shape_of(v)[C]
        if prod(shape) == channels:
            return v if channels == 1 else self.build.Reshape(v, self.LAYOUT.per_channel(channels))
        return super().transposed(v)

    def operand(self, v: Variable, image: Sequence[int]) -> Any:
        return self.image(v) if v in self.held or shape_of(v) == tuple(image) else self.transposed(v)
