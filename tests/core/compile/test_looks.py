"""Operators that a user writes and that look like those of a gradient rule are computed as they are written."""

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.providers.losses import vocabulary
from onnxgrad.core.providers.registry import PROVIDERS

DRAW = np.random.default_rng(0)


def run(graph, feed):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(write_model(graph).SerializeToString(), options).run(None, feed)


def check(outputs, feed, provider="cpu", known=True):
    """Compare the forms of a provider with the plain graph; what rewrote something."""
    program = outputs[0].block.program
    shapes = {name: value.shape for name, value in feed.items()} if known else None
    graph = compile(program, outputs, provider, shapes)
    for a, b in zip(run(compile(program, outputs), feed), run(graph, feed), strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)
    return [each.name for each in graph.rewrites]


def real(*shape):
    return DRAW.normal(size=shape).astype(np.float32)


# Losses over many classes ----------------------------------------------------------------------------------------------

CLASSES = 4096


@pytest.fixture
def small_vocabulary(monkeypatch):
    """A loss over few words is computed in blocks of rows"""
    for name, value in {"_LARGE": 60, "_WIDE": 10, "_LEAST_ROWS": 2, "_MOST_ROWS": 4}.items():
        monkeypatch.setattr(vocabulary, name, value)


@pytest.mark.parametrize("known", [True, False], ids=["known batch", "unknown batch"])
@pytest.mark.parametrize("turned", [True, False])
def test_a_policy_gradient_beside_a_loss_that_is_watched(known, turned):
    x, label, action = static.data("x", [None, 8]), static.data("label", [None], "int64"), static.data("action", [None], "int64")
    advantage, w = static.data("advantage", [None, 1]), static.data("w", [CLASSES, 8] if turned else [8, CLASSES])
    build = x.block.build
    scores = build.Gemm(x, w, transB=int(turned))
    loss = build.SoftmaxCrossEntropyLoss(scores, label)
    column = build.Unsqueeze(action, [1])
    less = build.Expand(build.constant(np.float32(-1)), build.Shape(column))
    change = build.ScatterElements(build.Softmax(scores, axis=1), column, less, axis=1, reduction="add")
    g = build.Mul(change, advantage)
    gw = build.Gemm(g, x, transA=1) if turned else build.Gemm(x, g, transA=1)
    feed = {"x": real(6, 8), "w": real(*w.shape), "label": np.arange(6), "action": np.arange(6)[::-1] * 7, "advantage": real(6, 1)}
    for op in x.block.ops[1:]:
        op.role = Role.BACKWARD
    check([gw, loss], feed, known=known)
    watched = run(compile(x.block.program, [gw, loss], "cpu"), feed)[0]
    alone = run(compile(x.block.program, [gw], "cpu"), {name: value for name, value in feed.items() if name != "label"})[0]
    np.testing.assert_allclose(watched, alone, rtol=1e-5, atol=1e-6)


def gradient_of_a_loss(*shape, **attributes):
    """A loss, the gradient of its scores and their product's operands"""
    x, label = static.data("x", [6, 5]), static.data("label", [6], "int64")
    w = static.data("w", [5, 12])
    x.stop_gradient = w.stop_gradient = False
    build = x.block.build
    scores = build.MatMul(x, w)
    loss = build.SoftmaxCrossEntropyLoss(scores, label, **attributes)
    (g,) = static.gradients([loss], [scores])
    return build, x, w, scores, loss, g


FEED = {"x": real(6, 5), "w": real(5, 12), "label": np.arange(6) * 2}


def test_a_factor_of_each_word_behind_the_gradient_of_a_loss(small_vocabulary):
    """With a sum, the gradient itself has no factor, and the user's is the first"""
    build, _, w, _, loss, g = gradient_of_a_loss(reduction="sum")
    factor = static.data("factor", [12])
    gx = build.MatMul(build.Mul(g, factor), build.Transpose(w, perm=[1, 0]))
    check([loss, gx], {**FEED, "factor": real(12)})


def test_the_first_number_of_a_gradient_is_watched(small_vocabulary):
    build, _, w, _, loss, g = gradient_of_a_loss()
    first = build.Mul(build.Slice(build.Reshape(g, [-1]), [0], [1]), 2.0)
    gx = build.MatMul(g, build.Transpose(w, perm=[1, 0]))
    check([loss, first, gx], FEED)


@pytest.mark.parametrize("behind", [5, 12])
def test_classes_on_the_second_of_three_axes_of_a_product(small_vocabulary, behind):
    x, w, label = static.data("x", [2, 12, 4]), static.data("w", [4, behind]), static.data("label", [2, behind], "int64")
    build = x.block.build
    loss = build.SoftmaxCrossEntropyLoss(build.MatMul(x, w), label)
    feed = {"x": real(2, 12, 4), "w": real(4, behind), "label": DRAW.integers(0, 12, (2, behind))}
    assert "vocabulary" not in check([loss], feed)


@pytest.mark.parametrize("attributes", [{}, {"ignore_index": 4}, {"reduction": "sum"}], ids=str)
def test_the_gradient_that_a_rule_wrote_is_in_blocks(small_vocabulary, attributes):
    build, _, w, _, loss, g = gradient_of_a_loss(**attributes)
    gx = build.MatMul(g, build.Transpose(w, perm=[1, 0]))
    assert "vocabulary" in check([loss, gx], FEED)


# Indices ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["cpu", "openvino", "webgpu"])
@pytest.mark.parametrize("divisor", [5, 8, 16])
def test_scattering_at_the_indices_of_a_pool_by_hand(divisor, provider):
    x, g = static.data("x", [2, 3, 4, 4]), static.data("g", [2, 3, 4])
    build = x.block.build
    _, indices = build.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2], outputs=2)
    within = build.Mod(build.Reshape(indices, [2, 3, 4]), np.array([divisor]))
    zeros = build.Expand(np.zeros((), np.float32), [2, 3, 16])
    y = build.ScatterElements(zeros, within, g, axis=2, reduction="add")
    x.block.ops[-1].role = Role.BACKWARD
    check([build.Mul(y, 1.0)], {"x": real(2, 3, 4, 4), "g": real(2, 3, 4)}, provider)


@pytest.mark.parametrize("index", [[[1, 0, 3]], [[-1, 0, -4]]], ids=["from the start", "from the end"])
def test_one_index_for_each_row_on_webgpu(index):
    data, at, u = static.data("data", [4, 3]), static.data("at", [1, 3], "int64"), static.data("u", [1, 3])
    y = data.block.build.ScatterElements(data, at, u, axis=0, reduction="add")
    assert check([y], {"data": real(4, 3), "at": np.array(index), "u": real(1, 3)}, "webgpu") == ["at_label"]


# Factors ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "factors", [(1.0,), (2.0, 0.5), (0.5, 4.0, 0.5), (0.0,), (1e30, 1e30), (-1.0, -1.0), (1e-30, 1e-30)], ids=str
)
def test_numbers_before_a_product(factors):
    h, w = static.data("h", [4, 6]), static.data("w", [6, 5])
    build = h.block.build
    scaled, other = build.Mul(h, np.float32(factors[0])), w if len(factors) < 2 else build.Mul(w, np.float32(factors[1]))
    y = build.Gemm(scaled, other)
    if len(factors) > 2:
        y = build.Mul(y, np.float32(factors[2]))
    feed = {"h": real(4, 6), "w": real(6, 5)}
    if abs(factors[0]) > 1e20:
        feed = {name: value * np.float32(1e-25) for name, value in feed.items()}
    if not factors[0]:
        feed["h"][0, 0] = np.inf
    check([y], feed)


def test_a_mean_over_a_last_batch_of_one():
    """1 / N is 1 there"""
    x, w = static.data("x", [None, 6]), static.data("w", [6, 5])
    w.stop_gradient = False
    loss = paddle.mean(paddle.sum(x.block.build.Gemm(x, w), axis=1))
    (g,) = static.gradients([loss], [w])
    for batch in (1, 2, 3):
        check([loss, g], {"x": real(batch, 6), "w": real(6, 5)})


def test_factors_that_an_attribute_does_not_hold_in_float64():
    h, w = static.data("h", [4, 6], "float64"), static.data("w", [6, 5], "float64")
    build = h.block.build
    y = build.Gemm(build.Mul(h, np.float64(np.float32(0.1))), build.Mul(w, np.float64(np.float32(0.3))))
    feed = {"h": DRAW.normal(size=(4, 6)), "w": DRAW.normal(size=(6, 5))}
    plain, lowered = (run(compile(h.block.program, [y], provider), feed)[0] for provider in (None, "cpu"))
    np.testing.assert_allclose(lowered, plain, rtol=1e-14)


# Bounds ----------------------------------------------------------------------------------------------------------------


def test_two_clips_of_one_tensor_have_a_mask_each():
    x = static.data("x", [64])
    x.stop_gradient = False
    build = x.block.build
    total = build.Add(build.Clip(x, -0.5, 0.5), build.Mul(build.Clip(x, -1.5, 1.0), 3.0))
    (g,) = static.gradients([build.ReduceSum(total, keepdims=0)], [x])
    assert "clip_mask" in check([total, g], {"x": np.linspace(-2, 2, 64, dtype=np.float32)})


# Integers --------------------------------------------------------------------------------------------------------------

QUANTISED = """<ir_version: 11, opset_import: ["": 23]> f (float[2, 3, 6, 6] x{more}) => (float[2, 3, 3, 3] y)
    <float s = {{{scale}}}, int8 z = {{3}}> {{ {half} q = QuantizeLinear (x, a, z) d = DequantizeLinear {type} ({what}, {by}, z)
    t = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (d) e = Cast <to = 1> (t) y = Neg (e) }}"""


def quantised(scale="0.05", more="", type="", by="s", half=""):
    text = QUANTISED.format(scale=scale, more=more, type=type, by=by, half="a = Abs (s) " + half, what="q")
    program = paddle.from_onnx(onnx.parser.parse_model(text), parameters=[])
    program.inputs[0].stop_gradient = False
    return program, [*program.outputs, *paddle.gradients(program.outputs, program.inputs[:1])]


@pytest.mark.parametrize("scale", ["0.05", "-0.05", "1e37"])
def test_a_pool_of_integers_that_a_negative_scale_puts_in_another_order(scale):
    program, outputs = quantised(scale)
    x = (DRAW.uniform(-30, 30, (2, 3, 6, 6)) * abs(float(scale))).astype(np.float32)
    graph = compile(program, outputs, None)
    assert any(each.name == "sink_dequantize" for each in graph.rewrites) is (scale == "0.05")
    plain = onnx.reference.ReferenceEvaluator(paddle.to_onnx(program, program.outputs)).run(None, {"x": x})
    np.testing.assert_allclose(run(graph, {"x": x})[0], plain[0], rtol=1e-5)


def test_a_pool_of_integers_with_a_scale_that_is_fed():
    program, outputs = quantised(more=", float b", by="b")
    for b in (0.05, -0.05):
        feed = {"x": DRAW.uniform(-5, 5, (2, 3, 6, 6)).astype(np.float32), "b": np.array(b, np.float32)}
        plain = onnx.reference.ReferenceEvaluator(paddle.to_onnx(program, program.outputs)).run(None, feed)
        np.testing.assert_allclose(run(compile(program, outputs), feed)[0], plain[0], rtol=1e-5)


def test_what_integers_become_is_kept():
    program, outputs = quantised(type="<output_dtype = 1>", by="h", half="h = Cast <to = 10> (s)")
    moved = [op for op in compile(program, outputs, None, {"x": (2, 3, 6, 6)}).operators if op.type == "DequantizeLinear"]
    assert [op.outputs[0].dtype.name for op in moved] == ["float32"] * len(moved) and moved


# Files -----------------------------------------------------------------------------------------------------------------


def step_of_images(batch):
    x, label = static.data("x", [batch, 3, 8, 8]), static.data("label", [batch], "int64")
    h = static.nn.conv2d(x, 8, 3, act="relu", name="conv")
    h = paddle.nn.functional.max_pool2d(paddle.clip(h, 0.1, 2.0), 2)
    scores = static.nn.fc(paddle.flatten(h, 1), 5, name="fc")
    loss = paddle.nn.functional.cross_entropy(scores, label)
    paddle.optimizer.SGD(0.1).minimize(loss)
    return loss


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
@pytest.mark.parametrize("batch", [4, None])
def test_a_file_with_gradients_has_the_forms_of_the_program_that_wrote_it(batch, provider):
    loss = step_of_images(batch)
    program = loss.block.program
    grads = [
        v for v in program.list_vars() if v.name.endswith("@GRAD") and v.name.split("@")[0] in {p.name for p in program.parameters}
    ]
    grads = sorted(grads, key=lambda v: v.name)
    assert len(grads) == 4
    paddle.Executor().run(static.default_startup_program())
    again = paddle.from_onnx(paddle.to_onnx(program, [loss, *grads]))
    pieces = [[op.origin.piece for op in each.global_block().ops if op.origin is not None] for each in (program, again)]
    assert pieces[0] and set(pieces[1]) >= set(pieces[0])
    shapes = {"x": (4, 3, 8, 8), "label": (4,)} if batch else None
    first = compile(program, [loss, *grads], provider, shapes, state_as_inputs=True, updates=False)
    second = compile(again, again.outputs, provider, shapes, state_as_inputs=True, updates=False)
    # The file has the labels' range already.
    expected = {each.name: each.places for each in first.rewrites if each.name != "label_range"}
    assert {each.name: each.places for each in second.rewrites} == expected
    assert first.rewrites
