"""Depthwise convolutions with a stride compute what the plain form does, result and gradients."""

import numpy as np
import onnxruntime
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.providers.layouts import channel_strips

BATCH, CHANNELS = 4, 6
GEOMETRIES = [
    ((3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    ((3, 3), (2, 2), (0, 0, 1, 1), (1, 1)),
    ((3, 3), (2, 2), (0, 0, 0, 0), (1, 1)),
    ((5, 5), (2, 2), (2, 2, 2, 2), (1, 1)),
    ((5, 3), (3, 2), (1, 0, 2, 2), (1, 1)),
    ((2, 2), (2, 2), (0, 0, 0, 0), (1, 1)),
    ((2, 3), (3, 4), (0, 1, 0, 3), (1, 1)),
    ((1, 1), (2, 3), (0, 0, 0, 0), (1, 1)),
    ((1, 1), (2, 2), (1, 2, 1, 0), (1, 1)),
    ((3, 3), (2, 2), (2, 2, 2, 2), (2, 2)),
    ((3, 2), (2, 3), (0, 3, 3, 1), (2, 3)),
    ((3, 3), (1, 2), (1, 1, 1, 1), (1, 1)),
    ((3, 3), (2, 1), (1, 1, 1, 1), (1, 1)),
    ((2, 2), (2, 5), (0, 4, 0, 9), (1, 2)),
]
UNFOLDED = [((2, 2), (2, 2)), ((3, 2), (3, 2)), ((1, 4), (1, 4))]


def same(build, shape):
    """Assert that what ``build`` writes of x computes the same plain and for the CPU; the operators of both."""
    main, draw = static.Program(), np.random.default_rng(0)
    with static.program_guard(main):
        x = static.data("x", shape)
        x.stop_gradient = False
        wanted, feed = [], {"x": draw.normal(size=shape).astype(np.float32)}
        for number, (y, parameters) in enumerate(build(x)):
            gy = static.data(f"gy{number}", y.shape)
            feed[gy.name] = draw.normal(size=y.static_shape).astype(np.float32)
            wanted += [y, *static.gradients([paddle.sum(y * gy)], [x, *parameters])]
            for v in parameters:
                feed[v.name] = draw.normal(size=v.static_shape).astype(np.float32)
    results = []
    for form in (None, "cpu"):
        graph = compile(main, wanted, form)
        session = onnxruntime.InferenceSession(write_model(graph).SerializeToString())
        results.append((session.run(None, feed), graph.operators))
    (plain, before), (lowered, after) = results
    for a, b in zip(plain, lowered, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5 * np.abs(a).max())
    return before, after


def weight(name, *shape):
    v = static.data(name, shape)
    v.stop_gradient = False
    return v


@pytest.mark.parametrize("strip", [2**18, 1], ids=["whole", "in strips"])
@pytest.mark.parametrize("height", [9, 34], ids=["low maps", "high maps"])
def test_strided_equals_the_plain_form(monkeypatch, height, strip):
    monkeypatch.setattr(channel_strips, "_STRIP", strip)

    def layers(x):
        for number, (kernel, strides, pads, dilations) in enumerate(GEOMETRIES):
            w, bias = weight(f"w{number}", CHANNELS, 1, *kernel), weight(f"bias{number}", CHANNELS)
            attrs = {"strides": list(strides), "pads": list(pads), "dilations": list(dilations)}
            yield (
                x.block.build.Conv(x, w, *([bias] if number % 2 else []), group=CHANNELS, **attrs),
                [w, *([bias] if number % 2 else [])],
            )

    before, after = same(layers, [BATCH, CHANNELS, height, 10])
    assert sum(op.type == "ConvTranspose" for op in before) == len(GEOMETRIES)
    assert not any(op.type in ("ConvTranspose", "Pad") and op.role.name == "BACKWARD" and op.inputs[0].rank == 5 for op in after)
    assert any(op.type == "Scan" for op in after) is (strip == 1)


def test_transposed_without_overlap_is_a_product():
    def layers(x):
        for number, (kernel, strides) in enumerate(UNFOLDED):
            w, bias = weight(f"w{number}", CHANNELS, 5, *kernel), weight(f"bias{number}", 5)
            yield (
                x.block.build.ConvTranspose(x, w, *([bias] if number else []), strides=list(strides)),
                [w, *([bias] if number else [])],
            )

    before, after = same(layers, [BATCH, CHANNELS, 5, 4])
    assert sum(op.type == "ConvTranspose" for op in before) == len(UNFOLDED)
    assert not any(op.type == "ConvTranspose" for op in after)
