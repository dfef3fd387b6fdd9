"""A few channels at a time: the same numbers, in as many strips as their size asks for."""

import numpy as np
import onnxruntime
import pytest

from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.providers.layouts import channel_strips


@pytest.mark.parametrize(("strip", "strips"), [(48, None), (47, 2), (24, 2), (23, 3), (1, 6)])
def test_strips_divide_the_channels(monkeypatch, strip, strips):
    monkeypatch.setattr(channel_strips, "_STRIP", strip)
    x, factors = static.data("x", [6, 2, 4]), static.data("factors", [12, 1])

    def write(build, x, factors):
        return build.Mul(x, build.Reshape(factors, [x.static_shape[0], 2, 1]))

    y = channel_strips.by_channels(x.block.build, 6, 48, [x, factors], write)
    graph = compile(x.block.program, [y])
    scans = [op for op in graph.operators if op.type == "Scan"]
    assert [op.inputs[0].static_shape[0] for op in scans] == ([] if strips is None else [strips])
    draw = np.random.default_rng(0)
    feed = {"x": draw.normal(size=(6, 2, 4)).astype("float32"), "factors": draw.normal(size=(12, 1)).astype("float32")}
    (result,) = onnxruntime.InferenceSession(write_model(graph).SerializeToString()).run(None, feed)
    np.testing.assert_array_equal(result, feed["x"] * feed["factors"].reshape(6, 2, 1))
