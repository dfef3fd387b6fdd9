"""Smoothed labels, weights of classes and of examples: against the formulas in numpy, and gradients against differences of these."""

import numpy as np
import pytest
from onnx.parser import parse_model

from onnxgrad.errors import ArgumentError
from onnxgrad.training import Term, Trainer
from tests.training.small import weights

LINEAR = """<ir_version: 8, opset_import: ["": 17]> f (float[N, 3] x) => ({out} y)
    <float[3, 4] w = {{0.3, -0.2, 0.5, 0.1, -0.4, 0.2, 0.6, -0.1, 0.05, 0.7, -0.3, 0.2}}> {{ {body} }}"""
RNG = np.random.default_rng(0)
X, S = RNG.normal(0, 1, (6, 3)).astype("f4"), np.array([1.0, 0.5, 2.0, 0.0, 3.0, 1.0], "f4")
LABELS, ONES = np.array([0, 3, 1, 2, -100, 3]), RNG.integers(0, 2, (6, 4)).astype("f4")
W = [0.5, 2.0, 1.0, 3.0]


def net(out="float[N, 4]", body="y = MatMul(x, w)"):
    return parse_model(LINEAR.format(out=out, body=body))


def log_softmax(z):
    return z - np.log(np.exp(z - z.max(1, keepdims=True)).sum(1, keepdims=True)) - z.max(1, keepdims=True)


def cross_entropy(w, e, classes, s):
    log, c = log_softmax(X.astype(float) @ w), np.ones(4) if classes is None else np.asarray(classes)
    s = np.ones(6) if s is None else s
    total = share = 0.0
    for i, label in enumerate(LABELS):
        if label != -100:
            total += s[i] * ((1 - e) * c[label] * -log[i, label] + e / 4 * (c * -log[i]).sum())
            share += s[i] * c[label]
    return total / share


def binary(w, e, classes, s):
    z, t = X.astype(float) @ w, ONES * (1 - e) + e / 2
    value = np.maximum(z, 0) - z * t + np.log1p(np.exp(-np.abs(z)))
    c = np.where(ONES > 0.5, *([1.0, 1.0] if classes is None else [classes[1], classes[0]]))
    share = c * (np.ones(6) if s is None else s)[:, None]
    return (value * share).sum() / share.sum()


@pytest.mark.parametrize("s", [None, S])
@pytest.mark.parametrize("classes", [None, W])
@pytest.mark.parametrize("e", [0.0, 0.1])
@pytest.mark.parametrize(("loss", "formula"), [("cross_entropy", cross_entropy), ("bce_with_logits", binary)])
def test_loss_and_gradient_are_those_of_the_formula(loss, formula, e, classes, s):
    chosen = None if classes is None else classes if loss == "cross_entropy" else classes[:2]
    column = None if s is None else "importance"
    term = Term(loss, label_smoothing=e, class_weights=chosen, sample_weight=column)
    t = Trainer(net(), loss=term, optimizer="sgd", learning_rate=1.0)
    batch = {"x": X, "target": LABELS if loss == "cross_entropy" else ONES, **({} if s is None else {"importance": s})}
    before = weights(t)["w"].astype(float)
    found = t.step(batch)["loss"]
    assert found == pytest.approx(formula(before, e, chosen, s), rel=2e-6)
    gradient = before - weights(t)["w"]
    for index in np.ndindex(3, 4):
        step = np.zeros((3, 4))
        step[index] = 1e-5
        slope = (formula(before + step, e, chosen, s) - formula(before - step, e, chosen, s)) / 2e-5
        assert gradient[index] == pytest.approx(slope, rel=2e-4, abs=2e-6)


def test_log_probabilities_and_probabilities_are_weighed_alike():
    term = {"label_smoothing": 0.1, "class_weights": W, "sample_weight": "s"}
    batch = {"x": X, "target": LABELS, "s": S}
    plain = Trainer(net(), loss=Term("cross_entropy", **term)).step(batch)["loss"]
    for kind in ("Softmax", "LogSoftmax"):
        made = Trainer(net(body=f"z = MatMul(x, w) y = {kind}(z)"), loss=Term("cross_entropy", **term)).step(batch)["loss"]
        assert made == pytest.approx(plain, rel=1e-6)


def test_classes_last_and_classes_first_are_weighed_alike():
    labels = np.array([[0, 1, 2], [3, -100, 1]])
    batch = {"x": X, "target": labels, "s": np.array([1.0, 3.0], "f4")}
    term = {"label_smoothing": 0.1, "class_weights": W, "sample_weight": "s"}
    last = net("float[A, 3, 4]", "z = MatMul(x, w) k = Constant<value_ints = [-1, 3, 4]>() y = Reshape(z, k)")
    first = net(
        "float[A, 4, 3]",
        "z = MatMul(x, w) k = Constant<value_ints = [-1, 3, 4]>() r = Reshape(z, k) y = Transpose<perm = [0, 2, 1]>(r)",
    )
    a = Trainer(last, loss=Term("cross_entropy", layout="NTC", **term)).step(batch)["loss"]
    b = Trainer(first, loss=Term("cross_entropy", layout="NCT", **term)).step(batch)["loss"]
    c = Trainer(first, loss=Term("cross_entropy", "y.transpose(0, 2, 1)", layout="NTC", **term)).step(batch)["loss"]
    assert a == pytest.approx(b, rel=1e-6) and a == pytest.approx(c, rel=1e-6)


def test_any_loss_of_examples_takes_a_weight():
    target = RNG.normal(0, 1, (6, 4)).astype("f4")
    t = Trainer(net(), loss=Term("mse", sample_weight="s"))
    error = ((X @ weights(t)["w"] - target) ** 2).mean(axis=1)
    assert t.step({"x": X, "target": target, "s": S})["loss"] == pytest.approx(float((error * S).sum() / S.sum()), rel=1e-6)


def test_balanced_weights_follow_the_training_data_and_are_in_the_checkpoint(tmp_path):
    data = {"x": RNG.normal(0, 1, (20, 3)).astype("f4"), "target": np.array([0] * 14 + [1] * 4 + [2] * 2)}
    t = Trainer(net(), loss=Term("cross_entropy", class_weights="balanced"))
    t.fit(data, 1, out=tmp_path)
    (held,) = [name for name in weights(t) if "class_weights" in name]
    np.testing.assert_allclose(weights(t)[held], [20 / 42, 20 / 12, 20 / 6, 1], rtol=1e-6)
    assert any("classes are weighed by n / (classes * count): 0: 0.4762" in said for said in t.remarks)
    again = Trainer(net(), loss=Term("cross_entropy", class_weights="balanced"))
    again.load(tmp_path / "last.safetensors")
    np.testing.assert_array_equal(weights(again)[held], weights(t)[held])
    with pytest.raises(ArgumentError, match="needs data that tells its labels"):
        t.fit(lambda epoch: [data], 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"label_smoothing": 1.0}, "label_smoothing is a share"),
        ({"class_weights": "even"}, "class_weights is a number for each class"),
        ({"class_weights": [1, -1]}, "at least 0"),
        ({"class_weights": [1, 2]}, "has 2 numbers, the output has 4 classes"),
    ],
)
def test_what_is_refused(options, said):
    with pytest.raises(ArgumentError, match=said):
        Trainer(net(), loss=Term("cross_entropy", **options))
    with pytest.raises(ArgumentError, match="are for the losses cross_entropy"):
        Term("mse", label_smoothing=0.1)


class TestBent:
    """Outputs that the loss reads in another form."""

    @pytest.mark.parametrize(
        ("text", "wanted"),
        [
            ("y", lambda y: y),
            ("y.transpose(1, 0)", lambda y: y.T),
            ("y[:, 1:3]", lambda y: y[:, 1:3]),
            ("y[..., -1]", lambda y: y[..., -1]),
            ("y[::-1, 0]", lambda y: y[::-1, 0]),
            ("y.reshape(-1, 2, 2)[:, 1].transpose(1, 0)", lambda y: y.reshape(-1, 2, 2)[:, 1].T),
            ("y[:, 2:3].squeeze(axis=1)", lambda y: y[:, 2]),
            ("y.softmax(-1)", lambda y: np.exp(log_softmax(y))),
            ("y.argmax(1)", lambda y: y.argmax(1)),
        ],
    )
    def test_values_are_those_of_numpy(self, text, wanted):
        import onnxgrad as og
        from onnxgrad.training.losses.expressions import append_expression

        program = og.from_onnx(net())
        found = append_expression(program, text)
        y, value = og.Executor().run(program, {"x": X}, ["y", found.name])
        np.testing.assert_allclose(value, wanted(y), rtol=1e-6)

    @pytest.mark.parametrize(
        "text",
        [
            "y.T",
            "y.max(0)",
            "y + 1",
            "y.transpose(0)",
            "y[9, 9, 9]",
            "y.reshape(a)",
            "y.__class__",
            "y[0](1)",
            "y.squeeze(1)",
            "y[:, 7]",
            "y[",
        ],
    )
    def test_everything_else_is_refused(self, text):
        from onnxgrad.errors import UnknownName

        with pytest.raises((ArgumentError, UnknownName), match=r"y"):
            Trainer(net(), loss="mse") and Trainer(net(), loss=Term("mse", text))

    def test_the_export_is_the_model_that_came_in(self, tmp_path):
        import onnx

        t = Trainer(net(), loss=Term("mse", "y[:, 0]"))
        t.step({"x": X, "target": X[:, 0]})
        t.export(tmp_path / "m.onnx")
        assert [node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node] == ["MatMul"]
