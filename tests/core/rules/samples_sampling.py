"""Samples of AffineGrid, GridSample and DeformConv."""

import numpy as np

from onnxgrad.testing import Sample
from tests.core.rules.samples import samples


@samples("AffineGrid")
def affine_grid(draw):
    for corners in (0, 1):
        yield Sample(draw.real(2, 2, 3), np.array([2, 5, 3, 4]), align_corners=corners)
        yield Sample(draw.real(2, 3, 4), np.array([2, 1, 3, 2, 4]), align_corners=corners)
        # Where one element would be both corners, onnxruntime takes 1 and onnx -1; the gradient follows either.
        yield Sample(draw.real(1, 2, 3), np.array([1, 1, 1, 3]), align_corners=corners, runs=not corners)
        yield Sample(draw.real(0, 2, 3), np.array([0, 1, 3, 2]), align_corners=corners)


@samples("GridSample")
def grid_sample(draw):
    x, grid = draw.real(2, 2, 3, 4), draw.real(2, 2, 5, 2, low=-1.9, high=1.9)
    for mode in ("linear", "nearest", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (0, 1):
                yield Sample(x, grid, mode=mode, padding_mode=padding, align_corners=corners)
    x, grid = draw.real(1, 2, 2, 3, 4), draw.real(1, 2, 1, 3, 3, low=-1.5, high=1.5)
    for mode in ("linear", "nearest"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (0, 1):
                yield Sample(x, grid, mode=mode, padding_mode=padding, align_corners=corners)


@samples("GridSample")
def grid_sample_at_the_edges(draw):
    # onnxruntime has no cubic kernel for five dimensions, but the gradient does not need the forward operator.
    yield Sample(draw.real(1, 2, 3, 4, 3), draw.real(1, 1, 1, 2, 3), mode="cubic", padding_mode="border")
    yield Sample(draw.real(1, 1, 1, 1), draw.real(1, 2, 2, 2), padding_mode="reflection", align_corners=1)
    yield Sample(draw.real(1, 1, 2, 2), draw.real(1, 2, 3, 2, spread=9.0), padding_mode="reflection")
    yield Sample(draw.real(1, 3, 2, 2), draw.real(1, 0, 3, 2))
    yield Sample(draw.real(0, 3, 2, 2), draw.real(0, 2, 3, 2), mode="cubic")
    yield Sample(draw.real(1, 2, 3, 4), Sample.fixed(draw.real(1, 2, 3, 2)))
    yield Sample(Sample.fixed(draw.real(1, 2, 3, 4)), draw.real(1, 2, 3, 2))
    yield Sample(draw.real(1, 2, 5), draw.real(1, 3, 1), runs=False)  # onnxruntime has no kernel for three dimensions


@samples("DeformConv")
def deform_conv(draw):
    def offset(*shape):
        """Points between the elements, some beyond the edge"""
        return draw.real(*shape, low=-1.4, high=1.4)

    yield Sample(draw.real(1, 2, 4, 5), draw.real(3, 2, 2, 2), offset(1, 8, 3, 4))
    for group, sets in ((1, 1), (2, 1), (1, 2), (2, 2)):
        yield Sample(
            draw.real(2, 4, 6, 7), draw.real(2, 4 // group, 3, 2), offset(2, sets * 12, 4, 3), draw.real(2), draw.real(2, sets * 6, 4, 3),
            group=group, offset_group=sets, strides=[2, 2], pads=[1, 0, 2, 1], dilations=[1, 2],
        )  # fmt: skip
    yield Sample(draw.real(1, 1, 3, 3), draw.real(1, 1, 2, 2), offset(1, 8, 2, 2), None, draw.real(1, 4, 2, 2), kernel_shape=[2, 2])
    yield Sample(draw.real(0, 1, 3, 3), draw.real(1, 1, 2, 2), offset(0, 8, 2, 2))
    yield Sample(Sample.fixed(draw.real(1, 1, 3, 3)), Sample.fixed(draw.real(1, 1, 2, 2)), offset(1, 8, 2, 2))
