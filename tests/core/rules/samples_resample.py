"""Samples of Resize."""

import numpy as np

from onnxgrad.core.ir.types import TensorType
from onnxgrad.testing import Sample
from tests.core.rules.samples import samples

TRANSFORMS = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")


def scales(*factors):
    return Sample.fixed(np.array(factors, np.float32))


@samples("Resize")
def resize(draw):
    x = draw.real(1, 2, 4, 3)
    up = np.array([1, 2, 7, 6])
    for mode in ("nearest", "linear", "cubic"):
        for transform in TRANSFORMS:
            yield Sample(x, None, None, up, mode=mode, coordinate_transformation_mode=transform)
    for nearest_mode in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"):
        yield Sample(x, None, scales(1, 1, 2, 1.5), mode="nearest", nearest_mode=nearest_mode)
    for mode in ("linear", "cubic"):
        yield Sample(x, None, None, np.array([1, 2, 2, 2]), mode=mode)
        yield Sample(x, None, scales(1, 1, 0.6, 2.1), mode=mode, coordinate_transformation_mode="half_pixel_symmetric")
    yield Sample(x, None, None, up, mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1)
    for exclude in (0, 1):
        yield Sample(draw.real(1, 1, 6, 6), None, None, np.array([1, 1, 3, 4]), mode="cubic", antialias=1, exclude_outside=exclude)
    yield Sample(draw.real(1, 1, 6, 6), None, None, np.array([1, 1, 3, 4]), mode="linear", antialias=1)
    # A length of one in the output has a meaning of its own in several transforms.
    for transform in ("pytorch_half_pixel", "align_corners"):
        yield Sample(x, None, None, np.array([1, 2, 1, 5]), mode="linear", coordinate_transformation_mode=transform)


@samples("Resize")
def resize_of_some_axes(draw):
    yield Sample(draw.real(2, 3), None, None, np.array([4, 5]), mode="linear")
    yield Sample(draw.real(2, 3, 4), None, scales(1, 2, 1.5), mode="linear")
    yield Sample(draw.real(3), None, scales(2), mode="nearest")
    yield Sample(draw.real(1, 2, 3, 2, 3), None, None, np.array([1, 2, 4, 3, 5]), mode="linear")
    yield Sample(draw.real(1, 2, 3, 4), None, None, np.array([5, 4]), axes=[3, 2], mode="linear")
    yield Sample(draw.real(1, 2, 3, 4), None, scales(1.5, 2), axes=[-1, 2], mode="cubic")
    yield Sample(draw.real(3, 2, 2, 1), None, None, np.array([4, 3]), axes=[0, 1], mode="nearest")
    yield Sample(draw.real(0, 2, 3, 4), None, None, np.array([5, 6]), axes=[2, 3], mode="linear")


@samples("Resize")
def resize_of_a_crop(draw):
    x = draw.real(1, 2, 4, 5)
    crop = {"coordinate_transformation_mode": "tf_crop_and_resize"}
    inside, beyond, flipped = ([0.15, 0.1, 0.8, 0.9], [-0.3, 0.1, 0.8, 1.4], [0.9, 0.1, 0.1, 0.9])
    for mode in ("nearest", "linear", "cubic"):
        for roi in (inside, beyond, flipped):
            corners = np.array([0, 0, *roi[:2], 1, 1, *roi[2:]])
            yield Sample(x, Sample.fixed(corners), None, np.array([1, 2, 3, 6]), mode=mode, extrapolation_value=3.0, **crop)
    yield Sample(x, Sample.fixed(np.array(beyond)), None, np.array([3, 1]), axes=[2, 3], mode="linear", **crop)
    yield Sample(x, Sample.fixed(np.array(inside)), scales(0.5, 2), axes=[2, 3], mode="linear", **crop)
    # The crop of an axis that keeps its length still moves its elements. onnxruntime copies them, in its gradient too.
    for sizes in ([4, 7], [4, 5]):
        yield Sample(x, Sample.fixed(np.array(inside)), None, np.array(sizes), axes=[2, 3], mode="linear", runs=False, **crop)


@samples("Resize")
def resize_keeping_the_aspect_ratio(draw):
    for policy in ("not_larger", "not_smaller"):
        for mode in ("nearest", "linear", "cubic"):
            for transform in ("half_pixel", "asymmetric"):
                yield Sample(
                    draw.real(1, 1, 4, 7), None, None, np.array([7, 9]),
                    axes=[2, 3], mode=mode, keep_aspect_ratio_policy=policy, coordinate_transformation_mode=transform,
                )  # fmt: skip
        # onnx.reference divides by the length before rounding, onnxruntime by the one after it: each has its own values.
        yield Sample(
            draw.real(1, 1, 4, 7), None, None, np.array([7, 9]), runs=False,
            axes=[2, 3], mode="linear", keep_aspect_ratio_policy=policy, coordinate_transformation_mode="align_corners",
        )  # fmt: skip
        yield Sample(
            draw.real(1, 1, 3, 5), Sample.fixed(np.array([0.1, 0.2, 0.9, 1.1])), None, np.array([6, 7]), runs=False,
            axes=[2, 3], mode="linear", keep_aspect_ratio_policy=policy, coordinate_transformation_mode="tf_crop_and_resize",
        )  # fmt: skip
        yield Sample(draw.real(1, 3, 4, 2), None, None, np.array([1, 5, 6, 3]), mode="linear", keep_aspect_ratio_policy=policy)


def of_unknown_rank(op, x):
    """2x, whose shape is forgotten"""
    y = op.Mul(x, 2.0)
    y.type = TensorType(x.dtype, None)
    return y


@samples("Resize")
def resize_of_unknown_rank(draw):
    def scaled(op, x):
        return op.Resize(of_unknown_rank(op, x), None, np.array([2.0, 1.5, 1.0], np.float32), mode="linear")

    def sized(op, x):
        return op.Resize(of_unknown_rank(op, x), None, None, [4, 5], axes=[2, 1], mode="linear")

    yield Sample(draw.real(2, 3, 4), build=scaled)
    yield Sample(draw.real(2, 3, 4), build=sized)


@samples("Resize")
def resize_to_a_size_known_at_run_time(draw):
    def half_more(op, x):
        sizes = op.Div(op.Mul(op.Shape(x), [1, 1, 3, 3]), [1, 1, 2, 2])
        return op.Resize(x, None, None, sizes, mode="linear", coordinate_transformation_mode="align_corners")

    def scaled_by_shape(op, x):
        scales = op.Div(op.Cast(op.Add(op.Shape(x), [0, 0, 1, 2]), to=1), op.Cast(op.Shape(x), to=1))
        return op.Resize(x, None, scales, mode="linear")

    def fitted(op, x):
        sizes = op.Add(op.Shape(x, start=2), [2, 5])
        return op.Resize(x, None, None, sizes, axes=[2, 3], mode="linear", keep_aspect_ratio_policy="not_larger")

    for build in (half_more, scaled_by_shape, fitted):
        yield Sample(draw.real(2, 1, 4, 4), build=build)
