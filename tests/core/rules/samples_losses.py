import numpy as np

from onnxgrad.testing import Sample
from tests.core.rules.samples import samples


@samples("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
def class_weights(draw):
    labels = np.array([0, 2, 1, 2])
    for reduction in ("mean", "sum", "none"):
        yield Sample(draw.real(4, 3), labels, draw.positive(3), reduction=reduction)
        yield Sample(draw.real(4, 3), labels, draw.positive(3), reduction=reduction, ignore_index=2)
        yield Sample(draw.real(4, 3), np.array([0, -7, 1, -7]), draw.positive(3), reduction=reduction, ignore_index=-7)
        yield Sample(draw.real(2, 3, 2, 1), np.array([[[0], [2]], [[1], [0]]], np.int32), draw.positive(3), reduction=reduction)


@samples("SoftmaxCrossEntropyLoss")
def both_outputs(draw):
    for only in ([0], [1], [0, 1]):
        yield Sample(draw.real(4, 3), np.array([0, 2, 1, 2]), draw.positive(3), outputs=2, only=only)
