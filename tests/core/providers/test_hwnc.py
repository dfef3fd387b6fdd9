"""use_hwnc_layout: parts of a step in [H, W, N, C] compute the same, within the error that their forms state."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.graph.contract import Target
from onnxgrad.core.providers.layouts import plan as layout_plan, winograd
from onnxgrad.core.providers.layouts.chwn import use_chwn_layout
from onnxgrad.core.providers.layouts.hwnc import use_hwnc_layout
from onnxgrad.errors import ArgumentError
from tests.core.providers.image_nets import ImageNet, differentiated, run

F2_ERROR = 2e-6
"""Relative to the largest number; a layer has 2e-7 to 7e-7, and here several follow each other."""

F4_ERROR = 2e-5


class Net(ImageNet):
    deviation = 0.3

    def filters(self, *shape):
        return self.weight(*shape, deviation=np.prod(shape[1:]) ** -0.5)

    def batch_norm(self, x, **attrs):
        wide = x.dims[1]
        statistics = self.draw.normal(size=wide).astype(self.dtype), np.full(wide, 1.5, self.dtype)
        return self.op.BatchNormalization(x, self.weight(wide, around=1.0), self.weight(wide), *statistics, **attrs)


def _padded(net, x, out, **attrs):
    return net.conv(x, out, 3, 3, pads=[1] * 4, **attrs)


def _parts(net):
    first, second = net.op.Split(_padded(net, net.x, 5), [2, 3], axis=1, outputs=2)
    return net.op.Tanh(_padded(net, net.op.Relu(second), 3)), first


def _normalisation(net):
    y, mean, variance = net.batch_norm(_padded(net, net.x, 4), training_mode=1, outputs=3, momentum=0.7)
    return net.op.Tanh(y), mean, variance


def _residual(net):
    op, block = net.op, lambda x, out, **attrs: net.batch_norm(_padded(net, x, out, **attrs), training_mode=1, outputs=3)
    y, mean, variance = block(net.x, 6, strides=[2, 2])
    z = block(op.Relu(y), 6)[0]
    short = net.batch_norm(net.conv(net.x, 6, 1, 1, strides=[2, 2]), training_mode=1, outputs=3)[0]
    out = op.Relu(op.Add(z, short))
    return op.Relu(op.Add(block(out, 6)[0], out)), mean, variance


def _shared(net):
    w = net.weight(6, 6, 3, 3)
    y = net.op.Conv(net.op.Relu(net.op.Conv(net.x, w, pads=[1] * 4)), w, pads=[1] * 4)
    return net.op.Mul(y, net.op.ReduceSum(w))


def _gate(net):
    y = _padded(net, net.x, 4)
    inner = net.op.Relu(net.conv(net.op.GlobalAveragePool(y), 5, 1, 1, bias=True))
    gate = net.op.Sigmoid(net.conv(inner, 4, 1, 1))
    return net.op.Mul(y, gate), net.op.ReduceMean(y, [2, 3], keepdims=0), net.op.ReduceMax(y, [0, 2, 3], keepdims=0)


def _operands(net):
    y = _padded(net, net.x, 4)
    y = net.op.Mul(net.op.Add(y, net.weight(8)), net.weight(4, 1, 1))
    y = net.op.Sub(y, net.weight(5, 1, 1, 1))
    y = net.op.Div(y, net.op.Exp(net.weight(1, 1, 7, 1)))
    return net.op.Where(net.op.Greater(y, 0.1), y, net.op.Mul(y, net.weight()))


def _read_between(net):
    y = _padded(net, net.x, 4)
    transposed = net.op.Transpose(y, perm=[0, 2, 3, 1])
    pooled = net.op.MaxPool(net.op.Relu(y), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    return _padded(net, pooled, 4), net.op.MatMul(transposed, net.weight(4, 3)), net.op.ReduceSum(y, [1], keepdims=0)


NETS = {
    "one layer": lambda net: _padded(net, net.x, 4),
    "bias": lambda net: _padded(net, net.x, 4, bias=True),
    "no padding": lambda net: net.conv(net.x, 4, 3, 3),
    "uneven padding": lambda net: net.conv(net.x, 4, 3, 3, pads=[0, 2, 1, 0]),
    "stride": lambda net: _padded(net, net.x, 4, strides=[2, 2]),
    "transposed": lambda net: net.op.ConvTranspose(net.x, net.weight(6, 4, 3, 3), net.weight(4), pads=[1] * 4),
    "transposed, stride": lambda net: net.op.ConvTranspose(
        net.x, net.weight(6, 4, 3, 3), strides=[2, 2], pads=[1] * 4, output_padding=[1, 0]
    ),
    "one tap": lambda net: net.conv(_padded(net, net.x, 4), 5, 1, 1, bias=True),
    "one tap, stride": lambda net: net.conv(_padded(net, net.x, 4), 5, 1, 1, strides=[2, 2]),
    "two layers": lambda net: _padded(net, net.op.Tanh(_padded(net, net.x, 4)), 3),
    "concatenation": lambda net: _padded(net, net.op.Concat(_padded(net, net.x, 4), net.x, axis=1), 3),
    "parts of the channels": _parts,
    "normalisation": _normalisation,
    "fixed statistics": lambda net: net.batch_norm(_padded(net, net.x, 4)),
    "residual": _residual,
    "shared weight": _shared,
    "gate": _gate,
    "operands": _operands,
    "read between": _read_between,
}


def results(build, shape, dtype, lower=None, fast=False):
    """Results and gradients, and the operators of the graph"""
    main, wanted = differentiated(lambda: Net(shape, dtype), build)
    graph = compile(main, wanted, lower if isinstance(lower, str) else None, runs=True)
    if callable(lower):
        lower(graph, Target(fast=fast))
    return run(graph, shape, dtype), graph.operators


def by_pixels(graph, target):
    use_hwnc_layout(graph, target)
    graph.settle()


def both(graph, target):
    by_pixels(graph, target)
    use_chwn_layout(graph, target)
    graph.settle()


@pytest.fixture
def always(monkeypatch):
    """All that has a form for [H, W, N, C] takes it"""
    monkeypatch.setattr(layout_plan, "_FEWEST_CHANNELS", 1)
    monkeypatch.setattr(layout_plan, "_FEWEST_ROWS", 1)
    monkeypatch.setattr(
        "onnxgrad.core.providers.layouts.hwnc.operators_by_pixels",
        lambda graph, is_fast: set(layout_plan._Plan(graph, is_fast).gains),
    )


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("lower", [by_pixels, both, "cpu"])
@pytest.mark.usefixtures("always")
def test_same_values_as_in_float64(name, lower):
    shape = (5, 6, 7, 8)
    exact, _ = results(NETS[name], shape, "float64")
    found, operators = results(NETS[name], shape, "float32", lower)
    assert all(op.inputs[0].static_shape[:1] != (5,) for op in operators if op.type in ("Conv", "ConvTranspose"))
    for a, b in zip(exact, found, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(b, a, rtol=0, atol=F2_ERROR * np.abs(a).max())


@pytest.mark.parametrize("shape", [(1, 6, 14, 14), (9, 6, 5, 4), (2, 6, 3, 3)])
@pytest.mark.parametrize(
    "name", ["one layer", "bias", "uneven padding", "stride", "transposed, stride", "one tap, stride", "residual"]
)
@pytest.mark.usefixtures("always")
def test_maps_of_any_size(name, shape):
    exact, _ = results(NETS[name], shape, "float64")
    found, _ = results(NETS[name], shape, "float32", both)
    for a, b in zip(exact, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=0, atol=F2_ERROR * np.abs(a).max())


@pytest.mark.parametrize("shape", [(2, 6, 16, 12), (3, 6, 15, 7)])
@pytest.mark.parametrize("name", ["one layer", "uneven padding", "stride", "transposed", "transposed, stride", "residual"])
@pytest.mark.parametrize("strip", [1, 700])
@pytest.mark.usefixtures("always")
def test_large_maps_go_by_strips(name, shape, strip, monkeypatch):
    """Of one row of tiles, and of several; a result whose last tile is cut stays in one piece, its gradients do not"""
    exact, _ = results(NETS[name], shape, "float64")
    _, whole = results(NETS[name], shape, "float32", by_pixels)
    monkeypatch.setattr(winograd, "_WORTH_STRIPS", 0)
    monkeypatch.setattr(winograd, "_STRIP", strip)
    found, operators = results(NETS[name], shape, "float32", by_pixels)
    scans = [op for op in operators if op.type == "Scan"]
    assert scans and not any(op.type == "Scan" for op in whole)
    for a, b in zip(exact, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=0, atol=F2_ERROR * np.abs(a).max())


def test_a_map_that_fits_the_cache_is_not_cut():
    few, many = (winograd.convolution((size, size), (size, size), (1, 1), 1, False) for size in (28, 56))
    assert [few._strips(8 * 64), many._strips(8 * 64), many._strips(8 * 48), many._strips(64 * 64)] == [1, 28, 1, 28]


@pytest.mark.parametrize("name", ["one layer", "uneven padding", "transposed", "stride", "two layers", "residual"])
@pytest.mark.usefixtures("always")
def test_fast_forms_round_more(name, monkeypatch):
    monkeypatch.setattr(layout_plan, "_PER_PRODUCT", 1e9)
    shape = (5, 6, 14, 14)
    exact, _ = results(NETS[name], shape, "float64")
    full, fast = (results(NETS[name], shape, "float32", by_pixels, fast=fast)[0] for fast in (False, True))
    errors = [max(np.abs(a - b).max() / np.abs(a).max() for a, b in zip(exact, found, strict=True)) for found in (full, fast)]
    assert errors[0] < F2_ERROR
    assert (errors[1] == errors[0]) if name == "stride" else F4_ERROR > errors[1] > errors[0]


def test_the_executor_takes_the_fast_forms_where_it_is_told_to():
    """Losses of five steps, over an unknown number of images"""
    losses = {}
    for precision in ("full", "fast"):
        paddle.seed(3)
        main, startup = static.Program(), static.Program()
        with static.program_guard(main, startup), paddle.utils.unique_name.guard():
            y = static.data("x", [None, 64, 16, 16])
            for _ in range(2):
                y = paddle.tanh(static.nn.conv2d(y, 64, 3, padding=1, bias_attr=False))
            loss = paddle.mean(paddle.square(y - 0.3))
            paddle.optimizer.SGD(20.0).minimize(loss)
        executor, scope = static.Executor(precision=precision), static.Scope()
        executor.run(startup, scope=scope)
        feed = {"x": np.random.default_rng(2).normal(size=(16, 64, 16, 16)).astype(np.float32)}
        losses[precision] = [float(executor.run(main, feed, [loss], scope=scope)[0]) for _ in range(5)]
    assert losses["fast"] != losses["full"] and losses["full"][-1] < 0.9 * losses["full"][0]
    np.testing.assert_allclose(losses["fast"], losses["full"], rtol=1e-5)
    with pytest.raises(ArgumentError, match="precision is 'full' or 'fast', not 'tf32'"):
        static.Executor(precision="tf32")


def wide(net, **attrs):
    return net.op.Tanh(_padded(net, net.op.Tanh(_padded(net, net.x, net.x.dims[1], **attrs)), net.x.dims[1], **attrs))


LEFT = {
    "few channels": (wide, (16, 16, 8, 8)),
    "few tiles": (wide, (1, 64, 8, 8)),
    "groups": (lambda net: wide(net, group=2), (16, 64, 8, 8)),
    "dilation": (lambda net: net.conv(net.x, 64, 3, 3, dilations=[2, 2]), (16, 64, 8, 8)),
    "another size": (lambda net: net.conv(net.x, 64, 5, 5, pads=[2] * 4), (16, 64, 8, 8)),
    "small maps": (wide, (32, 64, 2, 2)),
}


@pytest.mark.parametrize("name", LEFT)
def test_left_as_it_is(name):
    build, shape = LEFT[name]
    before, after = ([op.type for op in results(build, shape, "float32", lower)[1]] for lower in (None, by_pixels))
    assert before == after


def test_unknown_batch_and_float64_stay():
    for shape, dtype in (((None, 128, 8, 8), "float32"), ((16, 128, 8, 8), "float64")):
        main = static.Program()
        with static.program_guard(main):
            net = Net(shape, dtype)
            wanted = static.gradients([paddle.sum(wide(net))], [net.x, *net.parameters])
        graph = compile(main, wanted, None)
        before = list(graph.operators)
        by_pixels(graph, Target())
        assert graph.operators == before


def test_inference_stays():
    main = static.Program()
    with static.program_guard(main):
        y = wide(Net((16, 128, 8, 8), "float32"))
    graph = compile(main, [y], None)
    before = list(graph.operators)
    by_pixels(graph, Target())
    assert graph.operators == before


def test_layers_that_gain_are_chosen_with_what_lies_between():
    """128 channels on 8x8 maps: all of it, with one Transpose for each image that is fed or returned"""
    exact, _ = results(wide, (16, 128, 8, 8), "float64")
    found, operators = results(wide, (16, 128, 8, 8), "float32", by_pixels)
    assert not any(op.type in ("Conv", "ConvTranspose") for op in operators)
    turns = [op for op in operators if op.type == "Transpose" and op.attr("perm") == [2, 3, 0, 1]]
    # x, the result and the sum of its squares, which the test adds, and the gradients of both.
    assert len(turns) == 3
    for a, b in zip(exact, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=0, atol=F2_ERROR * np.abs(a).max())


def test_a_turn_between_the_layouts_is_that_of_a_matrix():
    def build(net):
        return net.conv(net.op.Tanh(_padded(net, net.x, 128)), 8, 5, 5)

    _, operators = results(build, (16, 128, 12, 12), "float32", "cpu")
    assert sum(op.type == "Transpose" and op.attr("perm") == [1, 0] for op in operators) >= 2


def test_the_cut_costs_least():
    draw = np.random.default_rng(0)
    for nodes in [3, 5, 7] * 20:
        costs = draw.integers(0, 9, (nodes, nodes)) * (draw.random((nodes, nodes)) < 0.6)
        edges = [(i, j, float(costs[i, j])) for i in range(nodes) for j in range(nodes) if i != j and costs[i, j]]
        sides = [{0} | {i for i in range(2, nodes) if bits >> i & 1} for bits in range(0, 2**nodes, 4)]
        sides.append(layout_plan.minimum_cut(nodes, edges))
        cut = [sum(c for i, j, c in edges if i in side and j not in side) for side in sides]
        assert cut[-1] == min(cut)
