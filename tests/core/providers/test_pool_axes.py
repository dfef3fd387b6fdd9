"""Maximum pooling axis by axis computes what the plain form does: the first of several equal elements takes the gradient."""

from itertools import product

import numpy as np
import onnxruntime
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.providers.layouts import channel_strips, pool_axes

BATCH, CHANNELS = 4, 3
KERNELS = [(3, 3), (2, 2), (1, 3), (4, 1)]
STRIDES = [(2, 2), (1, 1), (3, 2)]
MODES = {
    "no pads": lambda down, across: {},
    "pads": lambda down, across: {"pads": [down // 2, across // 2, (down - 1) // 2, (across - 1) // 2]},
    "ceil_mode": lambda down, across: {"pads": [0, 0, down - 1, across - 1], "ceil_mode": 1},
    "dilations": lambda down, across: {"dilations": [2, 1], "pads": [down // 2, 0, 0, across // 2]},
    "upper": lambda down, across: {"auto_pad": "SAME_UPPER"},
    "lower": lambda down, across: {"auto_pad": "SAME_LOWER"},
    "valid": lambda down, across: {"auto_pad": "VALID", "ceil_mode": 1},
}


@pytest.fixture(autouse=True)
def small_images(monkeypatch):
    monkeypatch.setattr(pool_axes, "_SMALLEST", 1)


def pooled(pools, data, declared=BATCH, read_indices=False):
    """Results and gradients of pools behind a convolution, and the operators, plain and for the CPU"""
    main = static.Program()
    with static.program_guard(main):
        x = static.data("x", [declared, *data.shape[1:]])
        x.stop_gradient = False
        ones = TensorValue.of(np.ones((CHANNELS, 1, 1, 1), np.float32))
        image = x.block.build.Conv(x, x.block.create_parameter("w", ones.shape, "float32", value=ones), group=CHANNELS)
        wanted = []
        for attrs in pools:
            y, indices = x.block.build.MaxPool(image, outputs=2, **attrs)
            # Each window has a weight of its own.
            weight = np.random.default_rng(1).normal(size=y.static_shape or ()).astype(np.float32)
            wanted += [y, *static.gradients([paddle.sum(y * weight)], [x]), *([indices] if read_indices else [])]
    found = []
    for form in (None, "cpu"):
        graph = compile(main, wanted, form)
        session = onnxruntime.InferenceSession(write_model(graph).SerializeToString())
        found.append((session.run(None, {"x": data}), graph.operators))
    return found


def images(height=9, width=8, channels=CHANNELS):
    """Images of few different numbers, so that most windows have several equal maxima"""
    return np.round(np.random.default_rng(0).normal(size=(BATCH, channels, height, width))).astype(np.float32)


def has_indices(operators):
    return any((op.type == "MaxPool" and len(op.outputs) > 1) or op.type in ("ScatterElements", "MaxUnpool") for op in operators)


@pytest.mark.parametrize("strip", [2**18, 1], ids=["whole", "in strips"])
@pytest.mark.parametrize("mode", MODES)
def test_equals_the_plain_form(monkeypatch, mode, strip):
    monkeypatch.setattr(channel_strips, "_STRIP", strip)
    pools = [
        {"kernel_shape": list(kernel), "strides": list(strides), **MODES[mode](*kernel)}
        for kernel, strides in product(KERNELS, STRIDES)
        # There are automatic pads for windows that leave gaps, but runtimes place them elsewhere.
        if mode not in ("upper", "lower") or (kernel[0] >= strides[0] and kernel[1] >= strides[1])
    ]
    (plain, before), (axes, after) = pooled(pools, images())
    assert has_indices(before) and not has_indices(after)
    assert any(op.type == "Scan" for op in after) is (strip == 1)
    for a, b in zip(plain, axes, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=2e-6)


def test_infinities_and_the_lowest_number_are_maxima():
    data = images()
    data[0], data[1], data[2, :, ::2], data[3, :, :, ::2] = -np.inf, np.finfo("f").min, np.inf, -np.inf
    (plain, _), (axes, after) = pooled([{"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}], data)
    assert not has_indices(after)
    for a, b in zip(plain, axes, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=2e-6)


def test_small_images_keep_their_indices(monkeypatch):
    data, pool = images(), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    monkeypatch.setattr(pool_axes, "_SMALLEST", data.size)
    assert not has_indices(pooled([pool], data)[1][1])
    monkeypatch.setattr(pool_axes, "_SMALLEST", data.size + 1)
    assert has_indices(pooled([pool], data)[1][1])


KEPT = {
    "the Indices are read": {"read_indices": True},
    "an unknown batch": {"declared": None},
    "column-major Indices": {"more": {"storage_order": 1}},
    "automatic pads and gaps": {"more": {"kernel_shape": [3, 1], "strides": [2, 3], "pads": None, "auto_pad": "SAME_UPPER"}},
}


@pytest.mark.parametrize("name", KEPT)
def test_keeps_the_plain_form(name):
    options = dict(KEPT[name])
    pool = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], **options.pop("more", {})}
    pool = {attr: value for attr, value in pool.items() if value is not None}
    (plain, _), (lowered, after) = pooled([pool], images(), **options)
    assert has_indices(after)
    for a, b in zip(plain, lowered, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=2e-6)
