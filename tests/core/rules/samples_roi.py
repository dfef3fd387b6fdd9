"""Samples of RoiAlign and MaxRoiPool."""

import itertools

import numpy as np

from onnxgrad.testing import Sample
from tests.core.rules.samples import samples

BATCH = np.array([0, 1, 1, 0, 0])
# Inside, across the edges, beyond them, narrower than an element, and flipped.
REGIONS = np.array(
    [[0.5, 1.1, 4.2, 5.3], [1.2, 0.15, 6.3, 3.3], [-2.1, -1.3, 9.2, 9.4], [3.1, 3.2, 3.33, 3.4], [5.2, 5.1, 2.3, 2.2]]
)


@samples("RoiAlign")
def roi_align(draw):
    x = draw.real(2, 2, 6, 7)
    for mode, ratio, transform in itertools.product(("avg", "max"), (0, 1, 2), ("half_pixel", "output_half_pixel")):
        yield Sample(
            x, REGIONS, BATCH, output_height=2, output_width=3,
            mode=mode, sampling_ratio=ratio, coordinate_transformation_mode=transform,
        )  # fmt: skip
    for mode in ("avg", "max"):
        yield Sample(x, Sample.fixed(REGIONS), BATCH, spatial_scale=0.7, mode=mode)
        yield Sample(Sample.fixed(x), REGIONS[:2], BATCH[:2], spatial_scale=0.73, mode=mode, output_width=2)
        yield Sample(x, np.zeros((0, 4)), np.zeros(0, np.int64), mode=mode)
        yield Sample(draw.real(1, 0, 3, 4), REGIONS[:1], BATCH[:1], mode=mode)
    yield Sample(x, REGIONS, BATCH, output_height=2, sampling_ratio=2, opset=22)


@samples("MaxRoiPool")
def max_roi_pool(draw):
    x = draw.real(2, 2, 6, 7, apart=0.05)
    corners = np.array([[0.5, 1, 4, 5], [1, 0, 6.3, 3], [-2, -1, 9, 9], [3, 3, 3, 3], [5, 5, 2, 2], [20, 20, 22, 23]])
    regions = np.concatenate([np.array([[0], [1], [1], [0], [0], [0]]), corners], axis=1)
    for scale in (1.0, 0.8):
        yield Sample(x, Sample.fixed(regions), pooled_shape=[2, 3], spatial_scale=scale)
    yield Sample(x, np.array([[0, 0.7, 1.1, 4.2, 5.3], [0, 1.2, 0.1, 6.3, 3]]), pooled_shape=[1, 1])
    yield Sample(x, Sample.fixed(np.zeros((0, 5))), pooled_shape=[2, 2])
