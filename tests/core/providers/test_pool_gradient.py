"""The gradient of maximum pooling by taps is that of the plain form, in float64."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.graph.contract import Target
from onnxgrad.core.graph.rewriting import rewrite_operators
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.providers.layouts.pool_gradient import drop_unread_indices, pool_gradient
from onnxgrad.testing import evaluate

CASES = [
    ((9, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((8, 8), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ((7, 9), {"kernel_shape": [2, 3]}),
    ((9, 9), {"kernel_shape": [2, 2], "strides": [3, 4]}),
    ((8, 9), {"kernel_shape": [3, 2], "strides": [2, 1], "dilations": [2, 3], "pads": [1, 0, 2, 1]}),
    ((7, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ((8, 8), {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((8, 8), {"kernel_shape": [4, 3], "strides": [3, 2], "auto_pad": "SAME_LOWER"}),
    ((9, 8), {"kernel_shape": [3, 2], "strides": [2, 3], "auto_pad": "VALID"}),
    ((11,), {"kernel_shape": [3], "strides": [2], "pads": [1, 0]}),
    ((5, 6, 4), {"kernel_shape": [2, 2, 2], "strides": [2, 1, 2]}),
]


@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "ties"])
@pytest.mark.parametrize("batch", [2, None])
@pytest.mark.parametrize(
    ("space", "attrs"), CASES, ids=["3x3/2", "2x2/2", "2x3/1", "2x2/3", "dilated", "ceil", "upper", "lower", "valid", "1-D", "3-D"]
)
def test_equals_the_plain_form(space, attrs, batch, ties):
    x = static.data("x", [batch, 3, *space], "float64")
    x.stop_gradient = False
    y = x.block.build.MaxPool(x, **attrs)
    weight = static.data("weight", [batch, *y.shape[1:]], "float64")
    (gx,) = static.gradients(paddle.sum(y * weight), x)
    draw = np.random.default_rng(0)
    data = draw.normal(size=(2, 3, *space))
    feed = {"x": np.round(data) if ties else data, "weight": draw.normal(size=(2, *y.shape[1:]))}
    results = []
    for forms in ({}, {"ScatterElements": pool_gradient}):
        graph = compile(x.block.program, [gx])
        rewrite_operators(graph, forms)
        graph.settle()
        drop_unread_indices(graph, Target())
        types = [op.type for op in graph.operators]
        assert ("ScatterElements" in types) == (not forms) and ("Mod" in types) == (not forms)
        results.append(evaluate(write_model(graph), feed)[0])
    np.testing.assert_allclose(results[1], results[0], rtol=1e-14)


def test_leaves_other_sums_alone():
    x, index = static.data("x", [4, 3]), static.data("index", [2, 3], "int64")
    y = x.block.build.ScatterElements(x, index, x[:2], axis=0, reduction="add")
    graph = compile(x.block.program, [y])
    rewrite_operators(graph, {"ScatterElements": pool_gradient})
    assert "ScatterElements" in [op.type for op in graph.operators]
