"""Pools over sizes that are known at run time only."""

import numpy as np
import pytest
from onnx.parser import parse_model

from onnxgrad import func


def pool(attrs, opset):
    dims = "float[N, C, H, W]"
    return parse_model(
        f'<ir_version: 8, opset_import: ["": {opset}]> f ({dims} x) => (float[a, b, c, d] y) {{ y = AveragePool <{attrs}> (x) }}'
    )


@pytest.mark.parametrize("size", [(7, 6), (3, 2), (3, 6), (2, 2), (1, 2), (1, 6)])
@pytest.mark.parametrize(
    ("attrs", "opset"),
    [
        ("kernel_shape=[3,2], strides=[3,2]", 12),
        ("kernel_shape=[3,2], strides=[3,2], count_include_pad=1", 12),
        ("kernel_shape=[4,2], strides=[3,2], pads=[0,1,1,0], count_include_pad=1", 12),
        ("kernel_shape=[4,2], strides=[3,2], pads=[0,1,1,0]", 12),
        ("kernel_shape=[3,2], strides=[3,2], auto_pad=\"VALID\"", 12),
        ("kernel_shape=[2,2], strides=[3,2], dilations=[2,1]", 19),
    ],
)  # fmt: skip
def test_an_average_over_less_than_a_window_gives_back_what_was_averaged(attrs, opset, size):
    """The specification has no output for the smallest of these, onnxruntime has one; the function is linear."""
    f = func.vjp(pool(attrs, opset), wrt="x")
    x = np.random.default_rng(0).normal(0, 1, (1, 2, *size)).astype(np.float32)
    y = func.value_and_grad(pool(attrs, opset), wrt="x")({"x": x})[0]["y"]
    c = np.random.default_rng(1).normal(0, 1, y.shape).astype(np.float32)
    _, found = f({"x": x}, {"y": c})
    assert y.size and found["x"].shape == x.shape
    np.testing.assert_allclose((found["x"].astype(np.float64) * x).sum(), (y.astype(np.float64) * c).sum(), rtol=1e-5)
