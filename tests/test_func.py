"""Derivatives of models as functions of numpy arrays."""

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxgrad
from onnxgrad import errors, func, static
from tests.real_models import ALL, REFUSED_BY_ONNXRUNTIME, RealModel

TEXT = """<ir_version: 8, opset_import: ["": 17]>
    g (float[N, 3] x, int64[N] label) => (float[N] loss, float[N, 2] scores) <float[3, 2] w = {1, 2, 3, -1, 0.5, 0.25}> {
        scores = MatMul (x, w)
        squares = Mul (scores, scores)
        axes = Constant <value_ints = [1]> ()
        sums = ReduceSum <keepdims = 0> (squares, axes)
        weight = Cast <to = 1> (label)
        loss = Mul (sums, weight)
    }"""
W = np.array([[1, 2], [3, -1], [0.5, 0.25]], np.float32)
FEEDS = {"x": np.arange(12, dtype=np.float32).reshape(4, 3) / 10, "label": np.array([1, 2, 0, 1])}


@pytest.fixture
def model():
    return onnx.parser.parse_model(TEXT)


def weight_gradients():
    """One for each example."""
    x, label = FEEDS["x"], FEEDS["label"]
    return np.einsum("n,nk,nj->nkj", 2 * label, x, x @ W)


def check_model(function):
    """An ordinary model: the checker and stock onnxruntime take it, and it holds standard operators only."""
    onnx.checker.check_model(function.model, full_check=True)
    assert {node.domain for node in function.model.graph.node} == {""}
    session = onnxruntime.InferenceSession(function.model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [v.name for v in session.get_inputs()]


@pytest.mark.parametrize("form", ["message", "bytes", "path", "program"])
def test_value_and_grad_of_a_model_in_any_form(model, form, tmp_path):
    onnx.save(model, tmp_path / "model.onnx")
    source = {"message": model, "bytes": model.SerializeToString(), "path": tmp_path / "model.onnx"}.get(form)
    function = onnxgrad.value_and_grad(source if source is not None else onnxgrad.from_onnx(model), "loss")
    values, gradients = function(FEEDS)
    assert list(values) == ["loss"] and list(gradients) == ["w"]
    np.testing.assert_allclose(values["loss"], (FEEDS["x"] @ W).__pow__(2).sum(1) * FEEDS["label"], rtol=1e-5)
    np.testing.assert_allclose(gradients["w"], weight_gradients().sum(0), rtol=1e-5)
    assert check_model(function) == ["x", "label"]


def test_variables_are_taken_as_their_names_are(model):
    program = onnxgrad.from_onnx(model)
    loss, scores = program.find("loss"), program.find("scores")
    by_name = func.grad(program, "loss", ["x", "scores", "w"])(FEEDS)
    for outputs, wrt in [(loss, [program.find("x"), scores, program.find("w")]), ([loss], ["x", scores, "w"])]:
        by_variable = func.grad(program, outputs, wrt)(FEEDS)
        assert list(by_variable) == list(by_name)
        for name in by_name:
            np.testing.assert_array_equal(by_variable[name], by_name[name])
    assert list(func.hvp(program, loss, scores)(FEEDS, {"scores": np.ones((4, 2), np.float32)})) == ["scores"]


@pytest.mark.parametrize("function", [func.value_and_grad, func.grad, func.vjp, func.jvp, func.jacobian, func.hessian, func.hvp])
def test_variables_of_another_program_are_refused_by_name(model, function):
    program, other = onnxgrad.from_onnx(model), onnxgrad.from_onnx(model)
    with pytest.raises(errors.UnknownName, match="wrt: the variable 'scores' is of another program"):
        function(program, "loss", other.find("scores"))
    with pytest.raises(errors.UnknownName, match="outputs: the variable 'loss' is of another program"):
        function(model, program.find("loss"))


def test_grad_with_respect_to_inputs_and_inner_values(model):
    found = func.grad(model, "loss", ["x", "scores"])(FEEDS)
    scores = 2 * (FEEDS["x"] @ W) * FEEDS["label"][:, None]
    np.testing.assert_allclose(found["scores"], scores, rtol=1e-5)
    np.testing.assert_allclose(found["x"], scores @ W.T, rtol=1e-5)


def test_model_without_weights_is_differentiated_with_respect_to_its_inputs():
    text = '<ir_version: 8, opset_import: ["": 17]> f (float[N] x, int64[N] i) => (float[N] y) { y = Exp(x) }'
    assert list(func.grad(onnx.parser.parse_model(text))({"x": np.ones(2, np.float32)})) == ["x"]


def test_vjp_and_jvp_are_adjoint(model):
    rng = np.random.default_rng(0)
    cotangents = {"loss": rng.normal(size=4).astype(np.float32), "scores": rng.normal(size=(4, 2)).astype(np.float32)}
    tangents = {"w": rng.normal(size=(3, 2)).astype(np.float32), "x": rng.normal(size=(4, 3)).astype(np.float32)}
    back, forward = func.vjp(model, wrt=["w", "x"]), func.jvp(model, wrt=["w", "x"])
    values, gradients = back(FEEDS, cotangents)
    same, pushed = forward(FEEDS, tangents)
    np.testing.assert_array_equal(values["loss"], same["loss"])
    left = sum((gradients[name] * tangents[name]).sum() for name in tangents)
    assert left == pytest.approx(sum((pushed[name] * cotangents[name]).sum() for name in cotangents), rel=1e-5)
    assert check_model(back) == ["x", "label", "loss@COTANGENT", "scores@COTANGENT"]
    assert check_model(forward) == ["x", "label", "w@TANGENT", "x@TANGENT"]


def test_jacobian_by_output_and_input(model):
    function = func.jacobian(model, wrt=["w", "x"])
    found = function(FEEDS)
    assert found["loss"]["w"].shape == (4, 3, 2) and found["scores"]["x"].shape == (4, 2, 4, 3)
    np.testing.assert_allclose(found["loss"]["w"], weight_gradients(), rtol=1e-5)
    check_model(function)


def test_hessian_times_vector_is_hvp(model):
    full, product = func.hessian(model, "loss", ["w", "x"]), func.hvp(model, "loss", ["w", "x"])
    rng = np.random.default_rng(0)
    vectors = {"w": rng.normal(size=(3, 2)).astype(np.float32), "x": rng.normal(size=(4, 3)).astype(np.float32)}
    blocks, found = full(FEEDS), product(FEEDS, vectors)
    for a in vectors:
        expected = sum(np.tensordot(blocks[a][b], vectors[b]) for b in vectors)
        np.testing.assert_allclose(found[a], expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(blocks["w"]["x"], blocks["x"]["w"].transpose(2, 3, 0, 1), atol=1e-5)
    check_model(full)
    assert check_model(product) == ["x", "label", "w@VECTOR", "x@VECTOR"]


def test_gradients_per_example(model):
    function = func.per_example_gradients(model, "loss")
    np.testing.assert_allclose(function(FEEDS)["w"], weight_gradients(), rtol=1e-5)
    check_model(function)


def test_program_stays_as_it_was_and_is_not_trained(model):
    program = onnxgrad.from_onnx(model)
    loss = program.global_block().var("loss")
    with static.program_guard(program):
        onnxgrad.optimizer.SGD(0.1).minimize(onnxgrad.sum(loss))
    before, count = program.parameters[0].get_value(), len(program.global_block().ops)
    _, gradients = onnxgrad.value_and_grad(program, "loss", "w")(FEEDS)
    np.testing.assert_allclose(gradients["w"], weight_gradients().sum(0), rtol=1e-5)
    np.testing.assert_array_equal(program.parameters[0].get_value(), before)
    assert len(program.global_block().ops) == count


def test_new_weights_of_a_program_are_used(model):
    program = onnxgrad.from_onnx(model)
    function = onnxgrad.value_and_grad(program, "scores")
    program.parameters[0].set_value(np.zeros((3, 2), np.float32))
    assert not function(FEEDS)[0]["scores"].any()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: func.grad(m, "nothing"), errors.UnknownName, "outputs: the model has nothing called 'nothing'"),
        (lambda m: func.grad(m, wrt=["nothing"]), errors.UnknownName, "wrt: the model has nothing called 'nothing'"),
        (lambda m: func.grad(m, wrt="label"), errors.ArgumentError, r"label: int64\[N\]\) is not a floating-point tensor"),
        (lambda m: func.hessian(m), errors.ArgumentError, "hessian takes one output"),
        (lambda m: func.grad(m)({"y": 1}), errors.FeedError, "feeds holds 'y'"),
        (lambda m: func.grad(m)({"x": FEEDS["x"]}), errors.FeedError, "'label' is not fed"),
        (lambda m: func.jvp(m)(FEEDS), errors.FeedError, r"lacks \['w'\]"),
        (lambda m: func.jvp(m)([1]), errors.ArgumentTypeError, "feeds is a dict"),
    ],
)
def test_mistakes_are_named(model, call, error, message):
    with pytest.raises(error, match=message):
        call(model)


# Why there is no jvp: estimators are not differentiated; the branches of an If differ in rank.
WITHOUT_JVP = {"sk-forest", "sk-logreg-cancer", "sk-ridge-diabetes", "sk-svc-cancer", "dlrm-legacy13"}
IN_DEFAULT_SUITE = {"mobilenetv2-dyn18", "whisper-legacy14", "dlrm-dyn18"}


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(folder, id=folder.name, marks=[] if folder.name in IN_DEFAULT_SUITE else pytest.mark.exhaustive)
        for folder in ALL
        if folder.name not in WITHOUT_JVP | REFUSED_BY_ONNXRUNTIME
    ],
)
def test_vjp_and_jvp_of_real_models_are_adjoint_on_onnxruntime(folder):
    real = RealModel(folder)
    forward, back = func.jvp(real.path), func.vjp(real.path)
    feeds = {name: array for name, array in real.feed.items() if name in forward.inputs}
    rng = np.random.default_rng(0)

    def like(array):
        return rng.normal(size=array.shape).astype(array.dtype)

    weights = {p.name: p.get_value() for p in forward.program.parameters}
    tangents = {name: like(weights[name] if name in weights else feeds[name]) for name in forward.directions}
    values, pushed = forward(feeds, tangents)
    cotangents = {name: like(array) for name, array in values.items()}
    _, gradients = back(feeds, cotangents)
    left = sum(float((gradients[name].astype(float) * tangents[name]).sum()) for name in tangents)
    right = sum(float((pushed[name].astype(float) * cotangents[name]).sum()) for name in cotangents)
    assert left == pytest.approx(right, rel=1e-3, abs=1e-3)
