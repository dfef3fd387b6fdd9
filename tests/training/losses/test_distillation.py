"""A teacher beside the labels, and a learning rate from a sweep."""

import numpy as np
import pytest
from onnx.parser import parse_model

from onnxgrad.errors import ArgumentError
from onnxgrad.training import Distillation, Trainer, find_learning_rate
from tests.training.small import assert_equal, data, line, model, weights

RNG = np.random.default_rng(1)
X = RNG.normal(0, 1, (5, 3)).astype("f4")
LABELS = np.array([0, 1, 3, 2, 1])


def net(values, body="y = MatMul(x, w)", name="x"):
    text = ", ".join(f"{v:.6f}" for v in np.asarray(values).reshape(-1))
    return parse_model(f"""<ir_version: 8, opset_import: ["": 17]> f (float[N, 3] {name}) => (float[N, 4] y)
        <float[3, 4] w = {{{text}}}> {{ {body.replace("(x", f"({name}")} }}""")


STUDENT, TEACHER = RNG.normal(0, 0.5, (3, 4)), RNG.normal(0, 1, (3, 4))


def log_softmax(z):
    return z - np.log(np.exp(z).sum(1, keepdims=True))


def formula(w, temperature, alpha):
    z, t = X.astype(float) @ w, X.astype(float) @ np.round(TEACHER, 6)
    labels = -log_softmax(z)[np.arange(5), LABELS].mean()
    wanted, said = log_softmax(t / temperature), log_softmax(z / temperature)
    return (1 - alpha) * labels + alpha * temperature**2 * (np.exp(wanted) * (wanted - said)).sum(1).mean()


@pytest.mark.parametrize("body", ["y = MatMul(x, w)", "z = MatMul(x, w) y = Softmax(z)", "z = MatMul(x, w) y = LogSoftmax(z)"])
@pytest.mark.parametrize(("temperature", "alpha"), [(1.0, 0.5), (3.0, 0.9), (2.0, 1.0)])
def test_loss_and_gradient_are_those_of_the_formula(temperature, alpha, body):
    teacher = Distillation(net(TEACHER, body), temperature, alpha)
    t = Trainer(net(STUDENT), loss="cross_entropy", teacher=teacher, optimizer="sgd", learning_rate=1.0)
    before = weights(t)["w"].astype(float)
    assert t.columns == ["x", "target"]
    assert t.step({"x": X, "target": LABELS})["loss"] == pytest.approx(formula(before, temperature, alpha), rel=1e-5)
    gradient = before - weights(t)["w"]
    for index in np.ndindex(3, 4):
        step = np.zeros((3, 4))
        step[index] = 1e-5
        slope = (formula(before + step, temperature, alpha) - formula(before - step, temperature, alpha)) / 2e-5
        assert gradient[index] == pytest.approx(slope, rel=1e-3, abs=1e-5)


def test_sigmoids_learn_from_sigmoids():
    teacher = Distillation(net(TEACHER, "z = MatMul(x, w) y = Sigmoid(z)"), 2.0, 1.0)
    t = Trainer(net(STUDENT), loss="bce_with_logits", teacher=teacher)
    z, p = X @ weights(t)["w"] / 2, 1 / (1 + np.exp(-(X @ TEACHER) / 2))
    wanted = 4 * (np.maximum(z, 0) - z * p + np.log1p(np.exp(-np.abs(z)))).mean()
    assert t.step({"x": X, "target": np.ones((5, 4), "f4")})["loss"] == pytest.approx(float(wanted), rel=1e-4)


def test_a_student_comes_to_answer_as_its_teacher_and_resumes_bitwise(tmp_path):
    teacher = Distillation(model(), 2.0, 0.9)
    big = Trainer(model(), loss="cross_entropy", learning_rate=0.05)
    big.fit(data(200), 10)
    big.export(tmp_path / "big.onnx")
    teacher = Distillation(tmp_path / "big.onnx", 2.0, 1.0)
    wrong = {"x": data(200)["x"], "target": np.zeros(200, np.int64)}
    small = Trainer(model(), loss="cross_entropy", teacher=teacher, learning_rate=0.05, metrics=["accuracy"], seed=2)
    small.fit(wrong, 40, out=tmp_path / "run")
    again = Trainer(model(), loss="cross_entropy", teacher=teacher, learning_rate=0.05, metrics=["accuracy"], seed=2)
    again.fit(wrong, 7, out=tmp_path / "other")
    again.fit(wrong, total_epochs=40, out=tmp_path / "other", resume=True)
    assert_equal(weights(small), weights(again))
    answers = big.predict({"x": data(100, seed=3)["x"]})["scores"].argmax(1)
    assert (small.predict({"x": data(100, seed=3)["x"]})["scores"].argmax(1) == answers).mean() > 0.9


def test_what_is_refused():
    with pytest.raises(ArgumentError, match="the teacher reads the input 'other'"):
        Trainer(net(STUDENT), loss="cross_entropy", teacher=net(TEACHER, name="other"))
    with pytest.raises(ArgumentError, match="a teacher stands beside one loss"):
        Trainer(net(STUDENT), loss="mse", teacher=net(TEACHER))
    for numbers in ((0.0, 0.5), (2.0, 0.0), (2.0, 1.5)):
        with pytest.raises(ArgumentError, match="a teacher has a temperature above 0"):
            Trainer(net(STUDENT), loss="cross_entropy", teacher=Distillation(net(TEACHER), *numbers))


class TestSweep:
    @pytest.mark.parametrize("options", [{}, {"schedule": "cosine"}, {"accumulate": 2}])
    def test_finds_a_rate_and_leaves_everything_as_it_was(self, options, tmp_path):
        pytest.importorskip("matplotlib")
        t = Trainer(model(), loss="cross_entropy", learning_rate=0.01, optimizer="adam", seed=1, **options)
        untouched = Trainer(model(), loss="cross_entropy", learning_rate=0.01, optimizer="adam", seed=1, **options)
        before = weights(t)
        found = find_learning_rate(t, data(200), steps=60, lowest=1e-6, highest=10.0)
        assert_equal(before, weights(t))
        assert found.rates == sorted(found.rates) and 1e-4 < found.suggestion < 5 and len(found.rates) <= 60
        assert t.step_number == 0 and t.optimizer.get_lr() == untouched.optimizer.get_lr()
        t.fit(data(), 2)
        untouched.fit(data(), 2)
        assert_equal(weights(t), weights(untouched))
        found.plot(tmp_path / "rate.png")
        assert (tmp_path / "rate.png").read_bytes().startswith(b"\x89PNG")

    def test_rates_that_are_none(self):
        t = Trainer(line(), loss="mse")
        with pytest.raises(ArgumentError, match="a sweep has rates"):
            find_learning_rate(t, {"x": np.ones((4, 2), "f4"), "target": np.ones((4, 1), "f4")}, lowest=1.0, highest=0.1)
