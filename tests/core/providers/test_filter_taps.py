"""The gradient of a filter by taps is that of Conv with exchanged axes."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.graph.rewriting import rewrite_operators
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.providers.layouts.filter_taps import filter_taps
from onnxgrad.testing import evaluate


def both(kernel, channels=16, out=17, batch=2, most=np.inf, **attrs):
    """The gradient of a filter without the form and with it, and the types of operators with it"""
    x = static.data("x", [batch, channels, 7, 6])
    w = static.data("w", [out, channels // attrs.get("group", 1), *kernel])
    w.stop_gradient = False
    y = x.block.build.Conv(x, w, **attrs)
    (gw,) = static.gradients(paddle.sum(y * y), w)
    plain, graph = compile(x.block.program, [gw]), compile(x.block.program, [gw])
    rewrite_operators(graph, filter_taps(most).forms)
    graph.settle()
    draw = np.random.default_rng(0)
    feed = {"x": draw.normal(size=(2, channels, 7, 6)), "w": draw.normal(size=w.shape)}
    feed = {name: value.astype(np.float32) for name, value in feed.items()}
    expected, found = (evaluate(write_model(each), feed)[0] for each in (plain, graph))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    return [op.type for op in graph.operators]


@pytest.mark.parametrize(
    ("kernel", "attrs"),
    [
        ((3, 3), {"pads": [1, 1, 1, 1]}),
        ((3, 2), {"pads": [2, 0, 1, 1]}),
        ((1, 3), {}),
        ((2, 3), {"pads": [0, 2, 1, 2], "dilations": [2, 1]}),
    ],
    ids=["3x3", "pads of each side", "without pads", "dilations"],
)
def test_a_filter_of_stride_1_has_a_product_for_each_tap(kernel, attrs):
    types = both(kernel, **attrs)
    assert types.count("Gemm") == kernel[0] * kernel[1] and types.count("Conv") == 1


@pytest.mark.parametrize(
    ("kernel", "attrs"),
    [
        ((3, 3), {"strides": [2, 2]}),
        ((1, 1), {}),
        ((5, 3), {}),
        ((3, 3), {"group": 16, "out": 16}),
        ((3, 3), {"channels": 3}),
        ((3, 3), {"batch": None}),
        ((3, 3), {"pads": [1, 1, 1, 1], "most": 83}),
    ],
    ids=["stride 2", "one tap", "many taps", "depthwise", "few channels", "unknown batch", "many terms"],
)
def test_other_filters_stay(kernel, attrs):
    types = both(kernel, **attrs)
    assert "Gemm" not in types and types.count("Conv") == 2
