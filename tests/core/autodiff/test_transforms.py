"""vjp, jvp, jacobian, hessian, hvp and gradients per example as appended operators."""

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxgrad as paddle
from onnxgrad import errors, static
from onnxgrad.testing import check_adjointness, evaluate
from tests.core.rules.samples import all_samples, thoroughly

SAMPLES = all_samples()
# Bodies and sequences are differentiated with the free cotangent among their values; nothing of it reaches the result.
BODIES = {"If", "Scan", "Loop", "SequenceMap", "SequenceConstruct", "SequenceInsert", "SplitToSequence", "ConcatFromSequence"}
# Inference does not know the shape of their results, or of what their rule reshapes.
UNKNOWN_SHAPE = {
    "GroupNormalization",
    "MeanVarianceNormalization",
    "RMSNormalization",
    "Range",
    "Tile",
    "STFT",
    "DeformConv",
    "Resize",
}
# Their rule looks where the cotangent is 0, to keep NaN away there.
READS_COTANGENT = {"CumProd", "LRN"}
RNG = np.random.default_rng(3)


def nodes_of(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes_of(attribute.g)


@pytest.mark.parametrize("sample", thoroughly(SAMPLES))
def test_jvp_is_the_adjoint_of_vjp(sample):
    model = check_adjointness(sample)
    assert all(node.domain == "" for node in nodes_of(model.graph))
    # Samples that build more than one operator forget ranks, and what is fed for the cotangent then stays.
    keeps = sample.build is not None or sample.op_type in UNKNOWN_SHAPE | READS_COTANGENT
    if not keeps and BODIES.isdisjoint(node.op_type for node in model.graph.node):
        assert not any(node.name.startswith("free/Identity") for node in model.graph.node)


@pytest.mark.parametrize("sample", thoroughly(SAMPLES))
def test_jvp_with_unknown_dimensions_is_the_adjoint_of_vjp(sample):
    check_adjointness(sample, symbolic=True)


def run(outputs, feeds):
    """Values from onnxruntime; the checker and the reference evaluator (which has no Loop of length zero) agree with it."""
    program = outputs[0].block.program
    model = paddle.to_onnx(program, outputs)
    onnx.checker.check_model(model, full_check=True)
    assert all(node.domain == "" for node in nodes_of(model.graph))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {v.name: feeds[v.name] for v in session.get_inputs()})
    for ours, theirs in zip(found, evaluate(model, feeds) if all(a.size for a in found) else [], strict=False):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    return found


def data(name, *shape, dynamic=True):
    return static.data(name, [None] * len(shape) if dynamic else list(shape), "float64")


@pytest.fixture(params=[True, False], ids=["dynamic", "static"])
def case(request):
    """y = tanh(x @ w) with its feeds, and the derivatives that numpy finds."""
    x, w = data("x", 4, 3, dynamic=request.param), data("w", 3, 2, dynamic=request.param)
    feeds = {"x": RNG.normal(size=(4, 3)), "w": RNG.normal(size=(3, 2))}
    return x, w, paddle.tanh(paddle.matmul(x, w)), feeds


def numpy_jacobians(feeds):
    x, w = feeds["x"], feeds["w"]
    slope = 1 - np.tanh(x @ w) ** 2
    by_x = np.einsum("ij,ia,kj->ijak", slope, np.eye(4), w)
    by_w = np.einsum("ij,ik,jb->ijkb", slope, x, np.eye(2))
    return by_x, by_w


def test_jacobian_equals_the_formula(case):
    x, w, y, feeds = case
    found = run(paddle.jacobian(y, [x, w]), feeds)
    for ours, expected in zip(found, numpy_jacobians(feeds), strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-12)


def test_jvp_and_vjp_equal_products_with_the_jacobian(case):
    x, w, y, feeds = case
    t, s, c = data("t", 4, 3), data("s", 3, 2), data("c", 4, 2)
    feeds |= {"t": RNG.normal(size=(4, 3)), "s": RNG.normal(size=(3, 2)), "c": RNG.normal(size=(4, 2))}
    by_x, by_w = numpy_jacobians(feeds)
    pushed, gx, gw = run([*paddle.jvp(y, [x, w], [t, s]), *paddle.vjp(y, [x, w], c)], feeds)
    np.testing.assert_allclose(pushed, np.tensordot(by_x, feeds["t"]) + np.tensordot(by_w, feeds["s"]), atol=1e-12)
    np.testing.assert_allclose(gx, np.einsum("ij,ijak->ak", feeds["c"], by_x), atol=1e-12)
    np.testing.assert_allclose(gw, np.einsum("ij,ijkb->kb", feeds["c"], by_w), atol=1e-12)


def test_jvp_equals_central_differences(case):
    x, _, y, feeds = case
    t = data("t", 4, 3)
    feeds["t"] = RNG.normal(size=(4, 3))
    (found,) = run(paddle.jvp(y, x, t), feeds)
    up, down = (np.tanh((feeds["x"] + h * feeds["t"]) @ feeds["w"]) for h in (1e-6, -1e-6))
    np.testing.assert_allclose(found, (up - down) / 2e-6, atol=1e-8)


def test_jvp_appends_nothing_that_its_result_does_not_need(case):
    x, _, y, _ = case
    t = data("t", 4, 3)
    before = len(x.block.ops)
    (found,) = paddle.jvp(y, x, t)
    model = paddle.to_onnx(x.block.program, [found])
    assert len(model.graph.node) == len(x.block.ops)
    assert len(x.block.ops) - before <= (4 if x.static_shape else 16)


def test_hessian_is_symmetric_and_equals_differences_of_gradients(case):
    _, w, y, feeds = case
    loss = paddle.sum(y * y * y)
    (found,) = run([paddle.hessian(loss, w)], feeds)
    np.testing.assert_allclose(found, found.transpose(2, 3, 0, 1), atol=1e-12)

    def gradient(value):
        z = np.tanh(feeds["x"] @ value)
        return feeds["x"].T @ (3 * z**2 * (1 - z**2))

    for index in np.ndindex(3, 2):
        step = np.zeros((3, 2))
        step[index] = 1e-6
        differences = (gradient(feeds["w"] + step) - gradient(feeds["w"] - step)) / 2e-6
        np.testing.assert_allclose(found[index], differences, atol=1e-7)


def test_hvp_equals_hessian_times_vector(case):
    x, w, y, feeds = case
    v, u = data("v", 4, 3), data("u", 3, 2)
    feeds |= {"v": RNG.normal(size=(4, 3)), "u": RNG.normal(size=(3, 2))}
    loss = paddle.sum(y * y * y)
    blocks = paddle.hessian(loss, [x, w])
    hx, hw, xx, xw, wx, ww = run([*paddle.hvp(loss, [x, w], [v, u]), *blocks[0], *blocks[1]], feeds)
    np.testing.assert_allclose(hx, np.tensordot(xx, feeds["v"]) + np.tensordot(xw, feeds["u"]), atol=1e-11)
    np.testing.assert_allclose(hw, np.tensordot(wx, feeds["v"]) + np.tensordot(ww, feeds["u"]), atol=1e-11)
    np.testing.assert_allclose(wx, xw.transpose(2, 3, 0, 1), atol=1e-12)


@pytest.mark.parametrize("batch", [5, 1, 0])
def test_gradient_per_example_is_that_of_a_batch_of_one(batch):
    x, w = data("x", 4, 3), data("w", 3, 2)
    loss = paddle.sum(paddle.tanh(paddle.matmul(x, w)), axis=1)
    feeds = {"x": RNG.normal(size=(batch, 3)), "w": RNG.normal(size=(3, 2))}
    (found,) = run(paddle.per_example_gradients(loss, [w]), feeds)
    assert found.shape == (batch, 3, 2)
    for row, example in zip(found, feeds["x"], strict=True):
        np.testing.assert_allclose(row, np.outer(example, 1 - np.tanh(example @ feeds["w"]) ** 2), atol=1e-12)


def test_jacobian_of_a_scalar_is_its_gradient():
    x = data("x", 3)
    (found,) = run([paddle.jacobian(paddle.sum(x * x), x)], {"x": np.arange(3.0)})
    np.testing.assert_allclose(found, [0, 2, 4])


@pytest.mark.parametrize("dynamic", [True, False])
def test_empty_output_has_an_empty_jacobian(dynamic):
    x = data("x", 0, 2, dynamic=dynamic)
    (found,) = run([paddle.jacobian(x * x, x)], {"x": np.zeros((0, 2))})
    assert found.shape == (0, 2, 0, 2)


def test_several_outputs_are_added_up_by_vjp_and_kept_apart_by_jvp():
    x, t = data("x", 3), data("t", 3)
    outputs = [x * x, paddle.exp(x)]
    feeds = {"x": np.arange(3.0), "t": np.array([1.0, -1.0, 2.0])}
    g, first, second = run([*paddle.vjp(outputs, x), *paddle.jvp(outputs, x, t)], feeds)
    np.testing.assert_allclose(g, 2 * feeds["x"] + np.exp(feeds["x"]))
    np.testing.assert_allclose(first, 2 * feeds["x"] * feeds["t"])
    np.testing.assert_allclose(second, np.exp(feeds["x"]) * feeds["t"])


def test_unused_input_has_a_derivative_of_zero():
    x, z, t = data("x", 3), data("z", 2), data("t", 2)
    y = x * x
    feeds = {"x": np.arange(3.0), "z": np.ones(2), "t": np.ones(2)}
    found = run([*paddle.vjp(y, [z]), *paddle.jvp(y, [z], [t]), paddle.jacobian(y, z), paddle.hessian(y, z)], feeds)
    assert [array.shape for array in found] == [(2,), (3,), (3, 2), (2, 2)]
    assert not any(array.any() for array in found)


def test_outputs_that_no_input_affects_are_pushed_to_zeros_of_their_shapes():
    x, z, t = data("x", 3), data("z", 2), data("t", 2)
    found = run(paddle.jvp([x * x, paddle.sum(x)], z, t), {"x": np.arange(3.0), "z": np.ones(2), "t": np.ones(2)})
    assert [array.shape for array in found] == [(3,), ()]
    assert not any(array.any() for array in found)


def test_a_program_that_trains_is_tested_in_the_forms_of_its_file_after_a_jvp():
    """What jvp takes back again are no training forms"""
    x, t = data("x", 4), data("t", 4)
    loss = paddle.mean(paddle.nn.functional.dropout(static.nn.fc(paddle.reshape(x, [1, 4]), 3), 0.5))
    paddle.optimizer.SGD(0.1).minimize(loss)
    forms = {op.outputs[0].name: op.replaces for op in loss.block.ops if op.replaces is not None}
    paddle.jvp(x * x, x, t)
    assert forms
    assert forms == {op.outputs[0].name: op.replaces for op in loss.block.ops if op.replaces is not None}


def test_linear_function_has_a_hessian_of_zero():
    x = data("x", 3)
    (found,) = run([paddle.hessian(paddle.sum(x), x)], {"x": np.arange(3.0)})
    np.testing.assert_array_equal(found, np.zeros((3, 3)))


def test_output_that_is_the_input_has_the_identity_as_jacobian():
    x, t = data("x", 3), data("t", 3)
    found, pushed = run([paddle.jacobian(x, x), *paddle.jvp(x, x, t)], {"x": np.ones(3), "t": np.arange(3.0)})
    np.testing.assert_array_equal(found, np.eye(3))
    np.testing.assert_array_equal(pushed, np.arange(3.0))


def test_inner_variable_is_an_input_like_any_other():
    x = data("x", 3)
    h = paddle.exp(x)
    (found,) = run([paddle.jacobian(h * h, h)], {"x": np.arange(3.0)})
    np.testing.assert_allclose(found, np.diag(2 * np.exp(np.arange(3.0))))


def test_frozen_parameter_that_is_named_is_differentiated_and_stays_frozen():
    x = static.data("x", [2, 3])
    weight = static.nn.fc(x, size=1, name="line", weight_attr=paddle.ParamAttr(trainable=False))
    parameter = weight.block.program.parameters[0]
    assert parameter.stop_gradient
    (g,) = paddle.vjp(weight, parameter)
    assert g.op.type != "Expand" and parameter.stop_gradient


def test_stopped_inner_variable_cuts():
    x = data("x", 3)
    h = paddle.exp(x)
    h.stop_gradient = True
    (found,) = run(paddle.vjp(h * x, x), {"x": np.arange(3.0)})
    np.testing.assert_allclose(found, np.exp(np.arange(3.0)))


def test_integer_input_is_refused():
    x, i = data("x", 3), static.data("i", [3], "int64")
    with pytest.raises(errors.ArgumentError, match=r"inputs: .*i: int64\[3\]\) is not a floating-point tensor"):
        paddle.jacobian(x * x, i)
    with pytest.raises(errors.ArgumentError, match=r"outputs: .* is not a floating-point tensor"):
        paddle.vjp(i, x)


@pytest.mark.parametrize(
    ("tangents", "message"),
    [
        (list, "tangents is empty"),
        (lambda: data("t", 4, dynamic=False), r"tangents: .*t: float64\[4\]\) does not have the shape"),
        (lambda: static.data("t", [3], "float32"), "does not have the element type"),
    ],
)
def test_tangents_that_do_not_fit_are_refused(tangents, message):
    x = data("x", 3, dynamic=False)
    with pytest.raises(errors.ArgumentError, match=message):
        paddle.jvp(x * x, x, tangents())


def test_loss_per_example_is_a_vector():
    x = data("x", 3, 2)
    with pytest.raises(errors.ArgumentError, match="one loss per example"):
        paddle.per_example_gradients(x * x, [x])


def test_failure_leaves_the_program_as_it_was():
    x = static.data("x", [3])
    x.block.program.set_opset_version(3, "ai.onnx.ml")
    y = x.block.build.emit("Normalizer", [x * x], {}, domain="ai.onnx.ml")
    before = (list(x.block.ops), dict(x.block.vars), str(x.block.program))
    for call in (lambda: paddle.jacobian(y, x), lambda: paddle.hessian(y, x), lambda: paddle.jvp(y, x, x)):
        with pytest.raises(errors.UnsupportedGradient, match="Normalizer"):
            call()
        assert (list(x.block.ops), dict(x.block.vars), str(x.block.program)) == before
