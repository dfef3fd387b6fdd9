"""use_chwn_layout: networks of images compute the same with the batch as the last axis, through training as well."""

from collections import Counter

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.graph.contract import Target
from onnxgrad.core.providers.layouts.chwn import use_chwn_layout
from onnxgrad.core.providers.registry import PROVIDERS
from tests.core.providers.image_nets import ImageNet, differentiated, run

BATCH, CHANNELS = 5, 6


class Net(ImageNet):
    def transposed(self, x, out, *kernel, bias=False, **attrs):
        w = self.weight(x.dims[1], out // attrs.get("group", 1), *kernel)
        return self.op.ConvTranspose(x, w, *([self.weight(out)] if bias else []), **attrs)

    def batch_norm(self, x):
        wide = x.dims[1]
        statistics = (np.zeros(wide, np.float32), np.ones(wide, np.float32))
        results = self.op.BatchNormalization(
            x, self.weight(wide, around=1.0), self.weight(wide), *statistics, training_mode=1, outputs=3
        )
        return results


def _gate(net):
    """Squeeze and excitation: a mean over each image scales its channels"""
    y = net.conv(net.x, 4, 3, 3, pads=[1] * 4)
    return net.op.Mul(y, net.op.Sigmoid(net.op.ReduceMean(y, [2, 3], keepdims=1)))


def _gate_of_convolutions(net):
    """The same with convolutions of the means, and a factor for each row"""
    y = net.conv(net.x, 4, 3, 3, pads=[1] * 4)
    inner = net.op.Relu(net.conv(net.op.GlobalAveragePool(y), 5, 1, 1, bias=True))
    y = net.op.Mul(y, net.op.HardSigmoid(net.conv(inner, 4, 1, 1, bias=True)))
    return net.op.Mul(net.op.Tanh(net.conv(y, 1, 1, 8)), y)


def _residual(net):
    y = net.conv(net.x, 6, 3, 3, pads=[1] * 4)
    normed, mean, variance = net.batch_norm(y)
    out = net.op.Relu(net.op.Add(normed, net.x))
    return out, mean, variance


def _operands(net):
    """Operands of all shapes that broadcast against images"""
    y = net.conv(net.x, 4, 3, 3)
    y = net.op.Mul(net.op.Add(y, net.weight(6)), net.weight(4, 1, 1))
    y = net.op.Sub(y, net.weight(5, 1, 1, 1))
    y = net.op.Div(y, net.op.Exp(net.weight(1, 1, 5, 1)))
    return net.op.Where(net.op.Greater(y, 0.1), y, net.op.Mul(y, net.weight()))


def _read_between(net):
    """What other operators read in between stands in the usual order"""
    y = net.conv(net.x, 4, 3, 3)
    transposed = net.op.Transpose(y, perm=[0, 2, 3, 1])
    return net.op.Relu(y), net.op.MatMul(transposed, net.weight(4, 3)), net.op.ReduceSum(y, [1], keepdims=0)


NETS = {
    "plain": lambda net: net.conv(net.x, 4, 3, 3, bias=True),
    "padding": lambda net: net.conv(net.x, 4, 3, 3, pads=[1] * 4),
    "uneven padding": lambda net: net.conv(net.x, 4, 2, 3, pads=[0, 1, 2, 3]),
    "stride": lambda net: net.conv(net.x, 4, 3, 3, pads=[1] * 4, strides=[2, 2]),
    "stride that leaves a rest": lambda net: net.conv(net.x, 4, 3, 2, strides=[3, 5]),
    "dilation": lambda net: net.conv(net.x, 4, 3, 2, pads=[2] * 4, dilations=[2, 3], strides=[1, 2]),
    "filter of 1": lambda net: net.conv(net.x, 4, 1, 1, bias=True),
    "filter of 1, strided": lambda net: net.conv(net.x, 4, 1, 1, strides=[2, 3]),
    "filter of 1, padded": lambda net: net.conv(net.x, 4, 1, 1, pads=[1] * 4, strides=[2, 2]),
    "whole map": lambda net: net.conv(net.x, 4, 7, 8),
    "depthwise": lambda net: net.conv(net.x, 6, 3, 3, group=6, pads=[1] * 4),
    "depthwise, strided": lambda net: net.conv(net.x, 6, 3, 3, group=6, pads=[1] * 4, strides=[2, 2]),
    "depthwise, dilated": lambda net: net.conv(net.x, 6, 2, 3, group=6, pads=[0, 2, 1, 2], dilations=[1, 2]),
    "depthwise, large": lambda net: net.conv(net.x, 6, 5, 5, group=6, pads=[2] * 4, strides=[1, 3], bias=True),
    "depthwise, padding above all": lambda net: net.conv(net.x, 6, 1, 2, group=6, pads=[0, 9, 0, 9], strides=[1, 8]),
    "groups": lambda net: net.conv(net.x, 4, 3, 3, group=2, pads=[1] * 4),
    "groups with more results": lambda net: net.conv(net.x, 12, 3, 3, group=6),
    "transposed": lambda net: net.transposed(net.x, 4, 3, 3, bias=True),
    "transposed, strided": lambda net: net.transposed(net.x, 4, 3, 3, strides=[2, 3], pads=[1, 0, 1, 2], output_padding=[1, 1]),
    "transposed, dilated": lambda net: net.transposed(net.x, 4, 2, 2, dilations=[3, 2], strides=[1, 2]),
    "transposed, depthwise": lambda net: net.transposed(net.x, 6, 3, 3, group=6, strides=[2, 2], output_padding=[1, 0]),
    "transposed, groups": lambda net: net.transposed(net.x, 4, 3, 3, group=2),
    "transposed, filter of 1": lambda net: net.transposed(net.x, 4, 1, 1, strides=[2, 1]),
    "two": lambda net: net.op.Relu(net.conv(net.op.Tanh(net.conv(net.x, 4, 3, 3)), 3, 3, 3, pads=[1] * 4)),
    "pool": lambda net: net.conv(net.op.MaxPool(net.conv(net.x, 4, 3, 3), kernel_shape=[2, 2], strides=[2, 2]), 3, 2, 2),
    "average": lambda net: net.op.Flatten(net.op.GlobalAveragePool(net.conv(net.x, 4, 3, 3))),
    "statistics": lambda net: net.op.ReduceMax(net.conv(net.x, 4, 3, 3), [0, 2, 3], keepdims=0),
    "concatenation": lambda net: net.conv(net.op.Concat(net.conv(net.x, 4, 3, 3, pads=[1] * 4), net.x, axis=1), 2, 3, 3),
    "parts of the channels": lambda net: tuple(net.op.Split(net.conv(net.x, 5, 3, 3), [2, 3], axis=1, outputs=2)),
    "parts of the rows": lambda net: tuple(net.op.Split(net.conv(net.x, 5, 3, 3), [2, 3], axis=2, outputs=2)),
    "concatenation of rows": lambda net: net.op.Concat(net.conv(net.x, 6, 1, 1), net.x, axis=2),
    "normalisation": lambda net: net.batch_norm(net.conv(net.x, 4, 3, 3)),
    "residual": _residual,
    "gate": _gate,
    "gate of convolutions": _gate_of_convolutions,
    "operands": _operands,
    "read between": _read_between,
}


def graphs(build, lower, shape=(BATCH, CHANNELS, 7, 8), declared=BATCH):
    """Results and gradients, and the counts of operators, of the plain and of the lowered graph"""
    main, wanted = differentiated(lambda: Net([declared, *shape[1:]]), build)
    results = []
    for form in (None, lower):
        graph = compile(main, wanted, "cpu" if form == "cpu" else None)
        if callable(form):
            form(graph, Target())
            graph.settle()
        results.append((run(graph, shape), graph.operators))
    return results


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("lower", [use_chwn_layout, "cpu"])
def test_same_values(name, lower):
    (plain, _), (lowered, operators) = graphs(NETS[name], lower)
    if lower is use_chwn_layout:
        assert any(op.type in ("Conv", "ConvTranspose") and op.inputs[0].static_shape[0] == 1 for op in operators)
    for a, b in zip(plain, lowered, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=1e-4 * np.abs(a).max())


@pytest.mark.parametrize("name", ["two", "residual", "depthwise, strided"])
def test_everything_of_a_network_is_put_so(name):
    (_, before), (_, after) = graphs(NETS[name], "cpu")
    images = [op for op in after if op.type in ("Conv", "ConvTranspose", "Relu", "Mul", "BatchNormalization")]
    batches = Counter(op.inputs[0].static_shape[0] for op in images if op.inputs[0].rank == 4)
    # The rest is the sum of squares that the test adds.
    assert batches[1] > batches[BATCH]
    assert sum(op.type == "Transpose" for op in after) < sum(op.type == "Transpose" for op in before) + 12


FILTERS = [name for name in NETS if name not in ("operands", "gate") and "transposed" not in name]


@pytest.mark.parametrize("name", FILTERS)
def test_filters_of_an_unknown_number_of_images(name):
    (plain, before), (lowered, after) = graphs(NETS[name], "cpu", declared=None)
    if "groups" not in name and name != "whole map":
        products = [sum(op.type in ("Gemm", "MatMul") for op in operators) for operators in (before, after)]
        assert products[1] > products[0]
    for a, b in zip(plain, lowered, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=1e-4 * np.abs(a).max())


LEFT = {
    "unknown batch": {"declared": None},
    "few images": {"shape": (3, CHANNELS, 7, 8), "declared": 3},
}


@pytest.mark.parametrize("name", LEFT)
def test_left_as_it_is(name):
    (_, before), (_, after) = graphs(NETS["padding"], use_chwn_layout, **LEFT[name])
    assert [op.type for op in before] == [op.type for op in after]


@pytest.mark.parametrize("limit", [1, 2500, 4000])
@pytest.mark.parametrize("name", ["padding", "stride", "dilation"])
def test_little_room_for_columns(monkeypatch, name, limit):
    """The gradient of the input is taken image by image, that of the filter some rows at a time"""
    for module in ("dilated_image", "filter_products"):
        monkeypatch.setattr(f"onnxgrad.core.providers.layouts.{module}._LARGEST_COLUMNS", limit)
    (plain, _), (lowered, after) = graphs(NETS[name], use_chwn_layout)
    batches = [(op.type, op.inputs[0].static_shape[0]) for op in after if op.type in ("Conv", "ConvTranspose")]
    assert sorted(batches) == [("Conv", 1), ("ConvTranspose", BATCH)]
    assert sum(op.type == "Gemm" for op in after) > 1
    for a, b in zip(plain, lowered, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=1e-4 * np.abs(a).max())


HIGH = {
    "pads": {"pads": [1] * 4},
    "strided": {"pads": [1] * 4, "strides": [2, 2]},
    "strided past the end": {"strides": [1, 3]},
    "dilated": {"dilations": [3, 2], "pads": [3, 2, 3, 2]},
    "uneven": {"pads": [0, 2, 4, 1], "strides": [1, 2]},
    "without a divisor": {"kernel": (4, 2)},
}


@pytest.mark.parametrize("name", HIGH)
def test_depthwise_filters_of_high_maps(name):
    attrs = dict(HIGH[name])
    kernel = attrs.pop("kernel", (3, 3))
    shape = (4, 3, 71, 6) if name != "without a divisor" else (4, 3, 34, 6)
    (plain, _), (lowered, after) = graphs(lambda net: net.conv(net.x, 3, *kernel, group=3, **attrs), use_chwn_layout, shape, 4)
    assert {op.inputs[0].static_shape[0] for op in after if op.type == "Conv"} == {1}
    assert sum(op.type == "MatMul" for op in after) == kernel[1] + 1
    for a, b in zip(plain, lowered, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=1e-5 * np.abs(a).max())


SHARED = {
    "both axes": ({"pads": [1] * 4}, (4, 6, 9, 10), 6),
    "dilated": ({"pads": [2, 3, 2, 3], "dilations": [2, 3]}, (4, 6, 9, 10), 6),
    "stride down": ({"pads": [1] * 4, "strides": [2, 1]}, (4, 6, 9, 10), 6),
    "stride across": ({"pads": [1] * 4, "strides": [1, 2]}, (4, 6, 9, 10), 6),
    "without pads": ({}, (4, 6, 9, 10), 6),
    "more pads than reach": ({"pads": [4, 3, 0, 1]}, (4, 6, 9, 10), 6),
    "few results": ({"pads": [1] * 4}, (4, 12, 9, 10), 1),
    "few channels": ({"pads": [1] * 4}, (4, 1, 9, 10), 12),
    "in strips": ({"pads": [1] * 4}, (8, 4, 40, 41), 5),
}


@pytest.mark.parametrize("declared", ["known", None])
@pytest.mark.parametrize("name", SHARED)
def test_taps_are_shared_out_between_image_and_gradient(name, declared):
    """Against a float64 convolution of the same numbers, written as the definition"""
    attrs, shape, out = SHARED[name]
    declared = shape[0] if declared else None
    (plain, _), (lowered, after) = graphs(lambda net: net.conv(net.x, out, 3, 3, **attrs), "cpu", shape, declared)
    gemms = [op.inputs for op in after if op.type == "Gemm"]
    rows = {inputs[0].dims[0] for inputs in gemms}
    assert rows == {out * {"few channels": 1, "few results": 9}.get(name, 3)}
    assert (len(gemms) > 1) == (name == "in strips")
    y, _, gw = plain
    exact = _filter_gradient(np.random.default_rng(1).normal(size=shape).astype(np.float32), y + 1.0, attrs)
    np.testing.assert_allclose(lowered[2], exact, rtol=1e-4, atol=2e-6 * np.abs(exact).max())
    np.testing.assert_allclose(gw, exact, rtol=1e-4, atol=1e-5 * np.abs(exact).max())


def _filter_gradient(x, gy, attrs):
    """The gradient of a 3x3 filter in float64, tap by tap"""
    top, left, bottom, right = attrs.get("pads", [0] * 4)
    (down, across), (apart, aside) = attrs.get("strides", [1, 1]), attrs.get("dilations", [1, 1])
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    rows, columns = gy.shape[2:]
    found = np.zeros((gy.shape[1], x.shape[1], 3, 3))
    for i in range(3):
        for j in range(3):
            read = padded[:, :, i * apart :: down, j * aside :: across][:, :, :rows, :columns]
            found[:, :, i, j] = np.einsum("nohw,nchw->oc", gy.astype(np.float64), read)
    return found


def test_large_maps_go_back_through_flipped_filters():
    build = {"pads": [1, 0, 0, 2], "dilations": [1, 2]}
    (plain, _), (lowered, after) = graphs(lambda net: net.conv(net.x, 5, 3, 3, **build), "cpu", (16, 4, 12, 14), 16)
    assert not any(op.type == "ConvTranspose" for op in after)
    for a, b in zip(plain, lowered, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=1e-5 * np.abs(a).max())


def test_a_concatenation_is_taken_apart_in_the_layout():
    """A path that goes around, as in a U-Net: nothing turns between the convolutions"""

    def around(net):
        y = net.op.Relu(net.conv(net.x, 4, 3, 3, pads=[1] * 4))
        inner = net.op.Relu(net.conv(y, 4, 3, 3, pads=[1] * 4))
        return net.conv(net.op.Concat(y, inner, axis=1), 3, 1, 1)

    (plain, _), (lowered, after) = graphs(around, use_chwn_layout)
    images = {(BATCH, 8, 7, 8), (BATCH, 4, 7, 8), (4, 7, 8, BATCH), (8, 7, 8, BATCH)}
    assert not any(op.type == "Transpose" and op.inputs[0].static_shape in images for op in after)
    assert all(v.static_shape[0] == 1 for op in after if op.type == "Split" for v in op.outputs)
    for a, b in zip(plain, lowered, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=1e-5 * np.abs(a).max())


def test_automatic_pads_stay():
    (_, _), (_, after) = graphs(lambda net: net.conv(net.x, 4, 3, 3, auto_pad="SAME_UPPER"), use_chwn_layout)
    assert any(op.type == "Conv" and op.inputs[0].static_shape[0] == BATCH for op in after)


def test_training_agrees(monkeypatch):
    """Through the Executor: losses of ten steps with BatchNormalization, and its running statistics"""
    found = []
    for lowered in (True, False):
        if not lowered:
            monkeypatch.setitem(PROVIDERS, "cpu", [])
        paddle.seed(3)
        main, startup = static.Program(), static.Program()
        with static.program_guard(main, startup), paddle.utils.unique_name.guard():
            x = static.data("x", [8, 3, 9, 9])
            y = static.nn.batch_norm(static.nn.conv2d(x, 6, 3, padding=1, bias_attr=False), act="relu")
            y = static.nn.conv2d(y, 6, 3, stride=2, groups=6)
            loss = paddle.mean(paddle.square(y - 0.3))
            paddle.optimizer.Momentum(0.2, 0.9).minimize(loss)
        executor, scope = static.Executor(), static.Scope()
        executor.run(startup, scope=scope)
        feed = {"x": np.random.default_rng(2).normal(size=(8, 3, 9, 9)).astype(np.float32)}
        losses = [float(executor.run(main, feed, [loss], scope=scope)[0]) for _ in range(10)]
        state = {v.name: np.asarray(scope.get(v.name)) for v in main.list_vars() if v.persistable}
        found.append((losses, state))
    (ours, state), (plain, expected) = found
    np.testing.assert_allclose(ours, plain, rtol=1e-4)
    assert ours[-1] < 0.8 * ours[0]
    for name, value in expected.items():
        np.testing.assert_allclose(state[name], value, rtol=1e-3, atol=1e-4 * max(1.0, np.abs(value).max()), err_msg=name)
