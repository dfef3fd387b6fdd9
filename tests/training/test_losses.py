"""Losses against numpy formulas, and their gradients against finite differences in float64."""

import itertools

import numpy as np
import pytest
from onnx.parser import parse_model

import onnxgrad as og
import onnxgrad.nn.functional as F
from onnxgrad.interop.onnx_export import to_onnx
from onnxgrad.testing import evaluate
from onnxgrad.training import Term, Trainer
from onnxgrad.training.losses import attach

RNG = np.random.default_rng(3)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def cross_entropy(x, t):
    p = np.moveaxis(softmax(x, 1), 1, -1).reshape(-1, x.shape[1])
    return -np.log(p[np.arange(len(p)), t.reshape(-1)]).mean()


def bce(x, t):
    p = 1 / (1 + np.exp(-x))
    return -(t * np.log(p) + (1 - t) * np.log(1 - p)).mean()


def smooth_l1(x, t):
    d = np.abs(x - t)
    return np.where(d < 1, d**2 / 2, d - 0.5).mean()


def kl(x, t):
    terms = np.where(t > 0, t * (np.log(np.where(t > 0, t, 1)) - np.log(softmax(x))), 0)
    return terms.sum(-1).mean()


def cosine(x, t):
    return (1 - (x * t).sum(-1) / np.linalg.norm(x, axis=-1) / np.linalg.norm(t, axis=-1)).mean()


def triplet(x, label):
    d = np.sqrt(np.maximum(((x[:, None] - x[None]) ** 2).sum(-1), 1e-12))
    same = label[:, None] == label[None]
    return np.mean([np.log1p(np.exp(d[i][same[i]].max() - d[i][~same[i]].min())) for i in range(len(x))])


def ctc(x, labels):
    """By enumeration of all alignments"""
    found = []
    for scores, row in zip(np.log(softmax(x)), labels, strict=True):
        wanted = [int(c) for c in row if c >= 0]
        total = 0.0
        for path in itertools.product(range(x.shape[2]), repeat=x.shape[1]):
            merged = [c for c, _ in itertools.groupby(path)]
            if [c for c in merged if c != 0] == wanted:
                total += np.exp(sum(scores[t, c] for t, c in enumerate(path)))
        found.append(-np.log(total))
    return np.mean(found)


def real(*shape):
    return RNG.normal(0, 1.5, shape)


SPARSE = np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.2, 0.3, 0.5]])
CASES = {
    "cross_entropy": ("cross_entropy", cross_entropy, real(5, 3), np.array([0, 2, 1, 1, 0])),
    "cross_entropy over pixels": ("cross_entropy", cross_entropy, real(2, 3, 4), RNG.integers(0, 3, (2, 4))),
    "bce": ("bce_with_logits", bce, real(4, 3), RNG.integers(0, 2, (4, 3)).astype(float)),
    "mse": ("mse", lambda x, t: ((x - t) ** 2).mean(), real(4, 3), real(4, 3)),
    "l1": ("l1", lambda x, t: np.abs(x - t).mean(), real(4, 3), real(4, 3)),
    "smooth_l1": ("smooth_l1", smooth_l1, real(4, 3), real(4, 3)),
    "huber": ("huber", smooth_l1, real(6), real(6)),
    "kl": ("kl", kl, real(3, 3), SPARSE),
    "cosine": ("cosine", cosine, real(4, 3), real(4, 3)),
    "triplet": ("triplet", triplet, real(6, 3), np.array([0, 1, 0, 2, 1, 2])),
    "ctc": ("ctc", ctc, real(3, 4, 3), np.array([[1, 2], [1, -1], [2, 1]])),
    "ctc repeats": ("ctc", ctc, real(2, 5, 3), np.array([[1, 1, 2], [2, 2, -100]])),
    "ctc nothing": ("ctc", ctc, real(2, 3, 3), np.array([[-1, -1], [1, 2]])),
}


def program_of(dims, loss, text="y = Identity (x)", dtype="double"):
    shape = ", ".join(str(d) for d in dims)
    made = og.from_onnx(
        parse_model(f'<ir_version: 10, opset_import: ["": 21]> f ({dtype}[{shape}] x) => ({dtype}[{shape}] y) {{ {text} }}')
    )
    made.is_oracle = True
    made.inputs[0].stop_gradient = False
    return made, attach(made, loss if isinstance(loss, list) else [Term(loss)])


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("case", CASES)
def test_value_is_the_formula_and_gradient_matches_differences(case, unknown):
    loss, formula, x, target = CASES[case]
    classes = {"cross_entropy": [1], "ctc": [2], "triplet": [1]}.get(loss, [])
    dims = [f"D{i}" if unknown and i not in classes else n for i, n in enumerate(x.shape)]
    program, attached = program_of(dims, loss)
    (gradient,) = og.gradients([attached.loss], [program.inputs[0]])
    value, found = evaluate(to_onnx(program, [attached.loss, gradient]), {"x": x, "target": target})
    assert value == pytest.approx(formula(x, target), rel=1e-9)
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = 1e-5
        expected = (formula(x + step, target) - formula(x - step, target)) / 2e-5
        assert found[i] == pytest.approx(expected, abs=2e-8, rel=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_onnxruntime_agrees_in_float32(case):
    loss, formula, x, target = CASES[case]
    program, attached = program_of([f"D{i}" for i in range(x.ndim)] if loss != "cross_entropy" else x.shape, loss, dtype="float")
    (gradient,) = og.gradients([attached.loss], [program.inputs[0]])
    feed = {"x": x.astype("f4"), "target": target.astype(attached.targets[0].dtype.numpy)}
    value, found = og.Executor().run(program, feed, [attached.loss, gradient])
    assert value == pytest.approx(formula(x, target), rel=1e-5)
    assert np.isfinite(found).all() and (found != 0).any()


PROBABILITIES = [
    ("cross_entropy", "y = Softmax <axis = 1> (x)", "probabilities (it comes from Softmax)"),
    ("cross_entropy", "y = LogSoftmax <axis = 1> (x)", "log-probabilities"),
    ("cross_entropy", "y = Identity (x)", "taken as logits"),
    ("bce_with_logits", "y = Sigmoid (x)", "probabilities (it comes from Sigmoid)"),
    ("kl", "y = Softmax (x)", "taken as probabilities"),
    ("kl", "y = LogSoftmax (x)", "taken as log-probabilities"),
    ("ctc", "y = Softmax (x)", "taken as probabilities"),
    ("ctc", "y = LogSoftmax (x)", "taken as log-probabilities"),
]


@pytest.mark.parametrize(("loss", "text", "remark"), PROBABILITIES)
def test_probabilities_are_detected_and_said(loss, text, remark):
    _, formula, x, target = next(case for case in CASES.values() if case[0] == loss)
    program, attached = program_of(x.shape, loss, text)
    (value,) = evaluate(to_onnx(program, [attached.loss]), {"x": x, "target": target})
    assert value == pytest.approx(formula(x, target), rel=1e-9)
    assert remark in attached.remarks[0]


def test_large_logits_stay_finite():
    x = np.array([[-1000.0, 1000.0]], np.float32)
    for loss, target in (("bce_with_logits", np.ones((1, 2), np.float32)), ("cross_entropy", np.array([0]))):
        program, attached = program_of((1, 2), loss, dtype="float")
        (gradient,) = og.gradients([attached.loss], [program.inputs[0]])
        value, found = og.Executor().run(program, {"x": x, "target": target}, [attached.loss, gradient])
        assert value == pytest.approx(1000.0 if loss == "bce_with_logits" else 2000.0, rel=0.5) and np.isfinite(found).all()


def test_weighted_terms_over_several_outputs_add_up():
    text = """<ir_version: 10, opset_import: ["": 21]> f (float[N, 2] x) => (float[N, 2] a, float[N, 2] b)
              <float[2, 2] w = {1, 0, 0, 1}> { a = MatMul(x, w)  b = Neg(a) }"""
    t = Trainer(parse_model(text), loss=[Term("mse", "a", "p", 0.25), Term("l1", "b", "q", 2.0), Term("mse", "b", "p")])
    x, p, q = real(3, 2), real(3, 2), real(3, 2)
    assert t.columns == ["x", "p", "q"]
    expected = 0.25 * ((x - p) ** 2).mean() + 2 * np.abs(-x - q).mean() + ((-x - p) ** 2).mean()
    assert t.evaluate({"x": x, "p": p, "q": q})["loss"] == pytest.approx(expected, rel=1e-5)


def test_a_function_builds_its_loss_with_the_static_api():
    def focal(y, label):
        p = F.softmax(y, axis=1)
        chosen = og.sum(p * F.one_hot(label, 3), axis=1)
        return -og.mean((1.0 - chosen) ** 2 * og.log(chosen))

    text = (
        '<ir_version: 10, opset_import: ["": 21]> f (float[N, 3] x) => (float[N, 3] y) <float[3] w = {1, 1, 1}> { y = Mul(x, w) }'
    )
    t = Trainer(parse_model(text), loss=Term(focal, target="label", dtype="int64", shape=[None]))
    x, label = real(4, 3), np.array([0, 1, 2, 1])
    p = softmax(x)[np.arange(4), label]
    assert t.evaluate({"x": x, "label": label})["loss"] == pytest.approx(float(-((1 - p) ** 2 * np.log(p)).mean()), rel=1e-5)
    assert t.step({"x": x, "label": label})["loss"] > 0


def test_sequences_too_long_for_ctc_are_data_errors():
    text = '<ir_version: 10, opset_import: ["": 21]> f (float[N, 3, 4] x) => (float[N, 3, 4] y) <float[4] w = {1, 1, 1, 1}> { y = Mul(x, w) }'
    t = Trainer(parse_model(text), loss="ctc")
    with pytest.raises(og.errors.DataError, match="example 1 of the batch needs 4 steps, the model has 3"):
        t.step({"x": real(2, 3, 4), "target": np.array([[1, 2, 3], [1, 1, 2]])})
    with pytest.raises(og.errors.DataError, match="the label 4; the output has classes 0 to 3"):
        t.step({"x": real(1, 3, 4), "target": np.array([[1, 4, -1]])})


def test_an_impossible_sequence_stops_the_run_where_the_number_of_steps_is_open():
    text = '<ir_version: 10, opset_import: ["": 21]> f (float[N, T, 4] x) => (float[N, T, 4] y) <float[4] w = {1, 1, 1, 1}> { y = Mul(x, w) }'
    t = Trainer(parse_model(text), loss="ctc")
    assert t.step({"x": real(1, 5, 4), "target": np.array([[1, 1]])})["loss"] < 100
    with pytest.raises(og.errors.TrainingError, match="loss is inf at step 2"):
        t.step({"x": real(1, 2, 4), "target": np.array([[1, 1]])})


def test_ctc_learns_a_sequence():
    text = '<ir_version: 10, opset_import: ["": 21]> f (float[N, 6, 4] x) => (float[N, 6, 4] y) <float[4, 4] w = {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}> { y = MatMul(x, w) }'
    t = Trainer(parse_model(text), loss="ctc", learning_rate=0.1)
    batch = {"x": np.eye(4)[[[1, 0, 2, 0, 3, 0]]].astype("f4"), "target": np.array([[1, 2, 3]])}
    losses = [t.step(batch)["loss"] for _ in range(60)]
    assert losses[-1] < 0.3 < losses[0]
