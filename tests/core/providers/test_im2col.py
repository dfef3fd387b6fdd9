"""Convolutions with small feature maps: same values as the plain forms, where it applies; nothing where it does not."""

from collections import Counter

import numpy as np
import onnxruntime
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.graph.rewriting import rewrite_operators
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.providers.layouts.im2col import convolution, transposed_convolution

DRAW = np.random.default_rng(0)


def weight(block, name, *shape):
    return block.create_parameter(name, shape, "float32", value=TensorValue.of(DRAW.normal(size=shape).astype(np.float32)))


def results(size, filters, *, bias=True, batch=9, declared=9, **attrs):
    """Output, gradients, and the counts of operators, plain and lowered, of Conv and its backward pass"""
    main = static.Program()
    with static.program_guard(main):
        x = static.data("x", [declared, filters[1] * attrs.get("group", 1), *size])
        x.stop_gradient = False
        block = x.block
        operands = [weight(block, "w", *filters)] + ([weight(block, "b", filters[0])] if bias else [])
        y = block.build.Conv(x, *operands, **attrs)
        wanted = [y, *static.gradients([paddle.sum(y * y)], [x, *operands])]
    feed = {"x": DRAW.normal(size=(batch, *x.shape[1:])).astype(np.float32)}
    found = []
    for lowered in (False, True):
        graph = compile(main, wanted)
        if lowered:
            rewrite_operators(graph, {"Conv": convolution, "ConvTranspose": transposed_convolution})
            graph.settle()
        session = onnxruntime.InferenceSession(write_model(graph).SerializeToString())
        found.append((session.run(None, feed), Counter(op.type for op in graph.operators)))
    return found


SAME = {
    "small map": ((4, 4), (40, 8, 3, 3), {"pads": [1] * 4}),
    "no padding": ((4, 4), (40, 8, 2, 2), {}),
    "stride": ((7, 6), (32, 8, 3, 3), {"pads": [1] * 4, "strides": [2, 2]}),
    "stride that leaves a rest": ((8, 8), (32, 8, 3, 3), {"strides": [3, 2]}),
    "uneven pads": ((3, 4), (33, 8, 3, 3), {"pads": [0, 1, 2, 1]}),
    "dilation": ((6, 5), (32, 8, 3, 3), {"pads": [2] * 4, "dilations": [2, 2], "strides": [2, 2]}),
    "no bias": ((2, 2), (32, 16, 3, 3), {"pads": [1] * 4, "bias": False}),
    "one axis": ((9,), (32, 32, 3), {"pads": [1, 1]}),
    "three axes": ((2, 3, 2), (32, 8, 2, 3, 2), {"pads": [0, 1, 1, 1, 0, 0]}),
    "whole map": ((4, 4), (32, 8, 4, 4), {}),
    "filter of 1": ((5, 5), (16, 12, 1, 1), {}),
    "filter of 1, wide": ((5, 4), (33, 32, 1, 1), {}),
    "filter of 1, strided": ((5, 4), (33, 32, 1, 1), {"strides": [2, 2]}),
    "filter of 1 between the padding": ((5, 5), (33, 32, 1, 1), {"pads": [2] * 4, "strides": [2, 2]}),
}


@pytest.mark.parametrize("name", SAME)
def test_same_values(name):
    size, filters, attrs = SAME[name]
    (plain, before), (lowered, after) = results(size, filters, **attrs)
    assert after["Conv"] + after["ConvTranspose"] < before["Conv"] + before["ConvTranspose"]
    for a, b in zip(plain, lowered, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=2e-4 * np.abs(a).max())


def test_all_three_convolutions_of_a_small_map():
    (_, before), (_, after) = results((4, 4), (40, 8, 3, 3), pads=[1] * 4)
    assert (before["Conv"], before["ConvTranspose"]) == (2, 1)
    assert (after["Conv"], after["ConvTranspose"]) == (0, 0)


LEFT = {
    "groups": ((4, 4), (32, 8, 3, 3), {"group": 2, "pads": [1] * 4}),
    "unknown batch": ((4, 4), (32, 8, 3, 3), {"declared": None}),
    "automatic pads": ((4, 4), (32, 8, 3, 3), {"auto_pad": "SAME_UPPER"}),
}


@pytest.mark.parametrize("name", LEFT)
def test_left_as_it_is(name):
    size, filters, attrs = LEFT[name]
    (_, before), (_, after) = results(size, filters, **attrs)
    assert after["Conv"] >= 1
    if name != "automatic pads":
        assert before == after


def test_large_maps_keep_forward_and_input_gradient():
    (_, _), (_, after) = results((12, 12), (32, 8, 3, 3), pads=[1] * 4)
    assert (after["Conv"], after["ConvTranspose"]) == (1, 1)
