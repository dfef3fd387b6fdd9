"""Samples of operators that move elements within planes."""

import itertools

import numpy as np

from onnxgrad.testing import Sample
from tests.core.rules.samples import samples


@samples("CenterCropPad")
def center_crop_pad(draw):
    for target in ([5, 3], [4, 7], [8, 2], [3, 9]):
        yield Sample(draw.real(6, 5), np.array(target))
    yield Sample(draw.real(2, 5, 4), np.array([3, 7]), axes=[1, 2])
    yield Sample(draw.real(2, 5, 4), np.array([7, 1]), axes=[-1, 0])
    yield Sample(draw.real(0, 5), np.array([2, 3]))
    yield Sample(draw.real(4, 5), build=lambda op, x: op.CenterCropPad(x, op.Add(op.Shape(x), [1, -2])))


@samples("Col2Im")
def col2im(draw):
    yield Sample(draw.real(2, 4, 9), np.array([4, 3]), np.array([2, 1]))
    yield Sample(draw.real(1, 8, 9), np.array([4, 4]), np.array([2, 2]))
    yield Sample(draw.real(1, 4, 4), np.array([3, 6]), np.array([2, 2]), pads=[1, 0, 0, 1], strides=[2, 3])
    yield Sample(draw.real(1, 4, 6), np.array([5, 5]), np.array([2, 2]), dilations=[2, 3], strides=[1, 1])
    yield Sample(draw.real(1, 3, 5), np.array([6]), np.array([3]), pads=[1, 0])
    yield Sample(draw.real(1, 8, 12), np.array([3, 4, 3]), np.array([2, 2, 2]))


@samples("MaxUnpool")
def max_unpool(draw):
    indices = np.array([[[[5, 7], [13, 15]]]])
    pairs = {"kernel_shape": [2, 2], "strides": [2, 2]}
    yield Sample(draw.real(1, 1, 2, 2), indices, **pairs)
    yield Sample(draw.real(1, 2, 3), np.array([[[0, 2, 4], [6, 9, 10]]]), kernel_shape=[2], strides=[2])
    yield Sample(draw.real(1, 1, 2, 2), np.array([[[[0, 2], [6, 8]]]]), pads=[0, 0, 1, 1], **pairs)
    # onnx counts the indices within the unpadded plane, onnxruntime within output_shape; the gradient follows either.
    yield Sample(draw.real(1, 1, 2, 2), indices, np.array([1, 1, 5, 5]), runs=False, **pairs)
    yield Sample(draw.real(1, 1, 2, 2), indices, np.array([1, 1, 4, 4]), **pairs)


@samples("DepthToSpace")
def depth_to_space(draw):
    for mode, size in itertools.product(("DCR", "CRD"), (1, 2)):
        yield Sample(draw.real(2, 8, 2, 3), blocksize=size, mode=mode)
    yield Sample(draw.real(0, 8, 2, 3), blocksize=2, mode="CRD")
    for mode in ("DCR", "CRD"):
        yield Sample(draw.real(1, 9, 1, 2), blocksize=3, mode=mode, opset=28, runs=False)  # onnxruntime ends at opset 26


@samples("SpaceToDepth")
def space_to_depth(draw):
    yield Sample(draw.real(2, 3, 4, 6), blocksize=2)
    for mode in ("DCR", "CRD"):
        yield Sample(draw.real(1, 2, 6, 3), blocksize=3, mode=mode, opset=28, runs=False)  # onnxruntime ends at opset 26
