"""The gradient of maximum pooling by residues is that of the plain form: the numbers of the form by taps, in the same order."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.graph.contract import Target
from onnxgrad.core.graph.rewriting import rewrite_operators
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.providers.layouts.pool_gradient import drop_unread_indices
from onnxgrad.core.providers.layouts.pool_residues import pool_gradient_by_residues
from onnxgrad.testing import evaluate

TAKEN = [
    ((9, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((8, 8), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ((7, 9), {"kernel_shape": [4, 3], "strides": [3, 3], "pads": [2, 0, 1, 1]}),
    ((7, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ((9, 7), {"kernel_shape": [5, 2], "strides": [2, 2], "pads": [1, 0, 2, 1]}),
]
LEFT = [
    ((9, 9), {"kernel_shape": [2, 2], "strides": [3, 3]}),
    ((8, 9), {"kernel_shape": [3, 2], "strides": [2, 1]}),
    ((8, 9), {"kernel_shape": [3, 3], "strides": [2, 2], "dilations": [2, 1]}),
    ((7, 9), {"kernel_shape": [2, 3]}),
    ((11,), {"kernel_shape": [3], "strides": [2]}),
    ((8, 8), {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
]


def made(space, attrs, batch=2):
    x = static.data("x", [batch, 3, *space])
    x.stop_gradient = False
    y = x.block.build.MaxPool(x, **attrs)
    weight = static.data("weight", [batch, *y.shape[1:]])
    (gx,) = static.gradients(paddle.sum(y * weight), x)
    return x, y, gx


def rewritten(x, gx, forms):
    graph = compile(x.block.program, [gx])
    rewrite_operators(graph, forms)
    graph.settle()
    drop_unread_indices(graph, Target())
    return graph, [op.type for op in graph.operators]


FORM = {"ScatterElements": pool_gradient_by_residues}


@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "ties"])
@pytest.mark.parametrize("batch", [2, None])
@pytest.mark.parametrize(("space", "attrs"), TAKEN, ids=["3x3/2", "2x2/2", "4x3/3", "ceil", "5x2/2"])
def test_equals_the_plain_form(space, attrs, batch, ties):
    x, y, gx = made(space, attrs, batch)
    draw = np.random.default_rng(0)
    data = draw.normal(size=(2, 3, *space)).astype(np.float32)
    feed = {"x": np.round(data) if ties else data, "weight": draw.normal(size=(2, *y.shape[1:])).astype(np.float32)}
    (plain, _), (graph, types) = rewritten(x, gx, {}), rewritten(x, gx, FORM)
    assert "ScatterElements" not in types and types.count("SpaceToDepth") == types.count("DepthToSpace") == 1
    assert not any(op.type == "Slice" and len(op.inputs) > 4 for op in graph.operators)
    expected, found = (evaluate(write_model(g), feed)[0] for g in (plain, graph))
    # An element in several windows gets their gradients added in another order.
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("space", "attrs"), LEFT, ids=["gaps", "two strides", "dilated", "stride 1", "1-D", "auto_pad"])
def test_leaves_other_pools_alone(space, attrs):
    x, _, gx = made(space, attrs)
    assert "ScatterElements" in rewritten(x, gx, FORM)[1]
