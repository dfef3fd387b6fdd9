"""Losses against numpy formulas, and their gradients against finite differences in float64."""

import itertools

import numpy as np
import pytest
from onnx.parser import parse_model

import onnxgrad as og
import onnxgrad.nn.functional as F
from onnxgrad.core.interop.onnx_export import to_onnx
from onnxgrad.testing import evaluate
from onnxgrad.training import Term, Trainer
from onnxgrad.training.losses.detection import signed_distances
from onnxgrad.training.losses.terms import attach

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


def info_nce(x, group, temperature=0.05):
    """By the formula, row after row"""
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    found = []
    for i in range(len(x)):
        others = [j for j in range(len(x)) if j != i]
        total = np.log(sum(np.exp(u[i] @ u[j] / temperature) for j in others))
        positives = [j for j in others if group[j] == group[i] and group[i] >= 0]
        if positives:
            found.append(np.mean([total - u[i] @ u[j] / temperature for j in positives]))
    return np.mean(found) if found else 0.0


def cosine_pairs(x, score):
    a, b = x[0::2], x[1::2]
    return (((a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1) - score[0::2]) ** 2).mean()


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
    "pairs": ("info_nce", info_nce, real(6, 3), np.array([4, 4, 0, 0, 9, 9])),
    "triplets": ("info_nce", info_nce, real(6, 3), np.array([0, 0, -1, 1, 1, -2])),
    "several positives": ("info_nce", info_nce, real(6, 3), np.array([0, 1, 0, 0, 1, 5])),
    "scored pairs": ("cosine_pairs", cosine_pairs, real(6, 3), np.repeat([0.1, 0.9, 0.5], 2)),
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
    ("cross_entropy", "y = Identity (x)", "read as logits"),
    ("bce_with_logits", "y = Sigmoid (x)", "probabilities (it comes from Sigmoid)"),
    ("kl", "y = Softmax (x)", "read as probabilities"),
    ("kl", "y = LogSoftmax (x)", "read as log-probabilities"),
    ("ctc", "y = Softmax (x)", "read as probabilities"),
    ("ctc", "y = LogSoftmax (x)", "read as log-probabilities"),
]


@pytest.mark.parametrize(("loss", "text", "remark"), PROBABILITIES)
def test_probabilities_are_detected_and_said(loss, text, remark):
    _, formula, x, target = next(case for case in CASES.values() if case[0] == loss)
    program, attached = program_of(x.shape, loss, text)
    (value,) = evaluate(to_onnx(program, [attached.loss]), {"x": x, "target": target})
    assert value == pytest.approx(formula(x, target), rel=1e-9)
    assert remark in attached.remarks[0]


MOVED = [
    ("cross_entropy", "p = Softmax <axis = 1> (x) y = Identity (p)", (5, 3), lambda y: y),
    ("cross_entropy", "p = Softmax <axis = 1> (x) q = Cast <to = 11> (p) y = Identity (q)", (5, 3), lambda y: y),
    ("cross_entropy", "p = LogSoftmax <axis = 1> (x) y = Identity (p)", (5, 3), lambda y: y),
    ("cross_entropy", "p = Softmax (x) y = Transpose <perm = [0, 2, 1]> (p)", (2, 4, 3), lambda y: y.transpose(0, 2, 1)),
    ("cross_entropy", "p = Softmax <axis = 1> (x) y = Flatten (p)", (5, 3, 1), lambda y: y[..., 0]),
    (
        "cross_entropy",
        "a = Constant <value_ints = [2]> () p = Softmax <axis = 1> (x) y = Squeeze (p, a)",
        (5, 3, 1),
        lambda y: y[..., 0],
    ),
    (
        "cross_entropy",
        "s = Constant <value_ints = [6, 3]> () p = Softmax (x) y = Reshape (p, s)",
        (2, 3, 3),
        lambda y: y.reshape(6, 3),
    ),
    (
        "cross_entropy",
        "a = Constant <value_ints = [0]> () p = Softmax <axis = 0> (x) y = Unsqueeze (p, a)",
        (3, 4),
        lambda y: y[None],
    ),
    ("cross_entropy", "r = Constant <value_float = 0.5> () p = Softmax (x) q = Dropout (p) y = Identity (q)", (5, 3), lambda y: y),
    ("bce_with_logits", "p = Sigmoid (x) y = Identity (p)", (4, 3), lambda y: y),
    ("bce_with_logits", "p = Sigmoid (x) y = Transpose (p)", (4, 3), lambda y: y.T),
    ("bce_with_logits", "p = Sigmoid (x) y = Flatten (p)", (4, 3, 2), lambda y: y.reshape(4, 6)),
    ("bce_with_logits", "a = Constant <value_ints = [1]> () p = Sigmoid (x) y = Squeeze (p, a)", (4, 1), lambda y: y[:, 0]),
    ("kl", "p = Softmax (x) y = Identity (p)", (3, 3), lambda y: y),
    ("kl", "p = Softmax <axis = 0> (x) y = Transpose (p)", (3, 3), lambda y: y.T),
    ("ctc", "p = Softmax (x) y = Identity (p)", (3, 4, 3), lambda y: y),
]


def test_classes_lie_along_the_axis_to_which_probabilities_were_moved():
    x, target = real(2, 4, 3), RNG.integers(0, 4, (2, 3))
    text = "p = Softmax <axis = 1> (x) y = Transpose <perm = [0, 2, 1]> (p)"
    program, attached = moved_program(text, (2, 4, 3), (2, 3, 4), "cross_entropy")
    (value,) = evaluate(to_onnx(program, [attached.loss]), {"x": x, "target": target})
    y = (np.exp(x) / np.exp(x).sum(1, keepdims=True)).transpose(0, 2, 1)
    assert value == pytest.approx(-np.log(np.take_along_axis(y, target[..., None], 2)).mean())


@pytest.mark.parametrize(("loss", "text", "dims", "move"), MOVED)
def test_an_activation_is_found_through_operators_that_only_move_elements(loss, text, dims, move):
    x = real(*dims)
    _, formula, _, target = next(case for case in CASES.values() if case[0] == loss)
    y = move(x)
    if loss == "cross_entropy":
        target = RNG.integers(0, 3, (y.shape[0], *y.shape[2:]))
    elif loss == "bce_with_logits":
        target = RNG.integers(0, 2, y.shape).astype(float)
    program, attached = moved_program(text, dims, y.shape, loss)
    (gradient,) = og.gradients([attached.loss], [program.inputs[0]])
    value, found = evaluate(to_onnx(program, [attached.loss, gradient]), {"x": x, "target": target})
    assert value == pytest.approx(formula(y, target), rel=1e-9)
    assert "probabilities" in attached.remarks[0]
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = 1e-5
        expected = (formula(move(x + step), target) - formula(move(x - step), target)) / 2e-5
        assert found[i] == pytest.approx(expected, abs=2e-8, rel=1e-5)


def moved_program(text, dims, out, loss):
    shapes = [", ".join(map(str, d)) for d in (dims, out)]
    made = og.from_onnx(
        parse_model(f'<ir_version: 10, opset_import: ["": 21]> f (double[{shapes[0]}] x) => (double[{shapes[1]}] y) {{ {text} }}')
    )
    made.is_oracle = True
    made.inputs[0].stop_gradient = False
    return made, attach(made, [Term(loss)])


REFUSED = [
    ("cross_entropy", "y = Sigmoid (x)", "each class has a probability of its own. Use bce_with_logits, or name the tensor .* 'x'"),
    ("bce_with_logits", "y = Softmax (x)", "the classes exclude each other. Use cross_entropy"),
    ("kl", "p = Sigmoid (x) y = Identity (p)", "kl does not fit y: it comes from Sigmoid"),
    ("ctc", "y = Sigmoid (x)", "do not add up to 1"),
    ("cross_entropy", "y = Softmax <axis = 0> (x)", "reads the classes along axis 1 .* but Softmax normalises along another"),
    ("kl", "p = Softmax <axis = 1> (x) y = Identity (p)", "reads the classes along the last axis"),
    ("ctc", "y = LogSoftmax <axis = 1> (x)", "LogSoftmax normalises along another"),
]


@pytest.mark.parametrize(("loss", "text", "message"), REFUSED)
def test_an_activation_that_does_not_fit_the_loss_is_refused(loss, text, message):
    with pytest.raises(og.errors.ArgumentError, match=message):
        program_of((2, 4, 3), loss, text)


def test_dropout_that_trains_behind_an_activation_is_refused():
    text = '<ir_version: 10, opset_import: ["": 21]> f (float[N, 3] x) => (float[N, 3] y) { z = Neg (x) p = Softmax (z) y = Dropout (p) }'
    with pytest.raises(og.errors.ArgumentError, match=r"drops probabilities while the model is trained.*'z'"):
        Trainer(parse_model(text), loss="cross_entropy")


TOKENS = """<ir_version: 10, opset_import: ["": 21]> f (double[N, T, 3] x, int64[N, T] mask) => (double[N, T, 3] y) { y = Identity (x) }"""


def test_the_mean_over_tokens_counts_those_of_the_mask():
    program = og.from_onnx(parse_model(TOKENS))
    program.is_oracle = True
    attached = attach(program, [Term("mse", "y.mean(mask)")])
    assert attached.outputs[0].dims == ("N", 3) and [v.name for v in program.outputs] == ["y"]
    x, mask = real(3, 4, 3), np.array([[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]])
    feed = {"x": x, "mask": mask, "target": np.zeros((3, 3))}
    (pooled,) = evaluate(to_onnx(program, [attached.outputs[0]]), feed)
    np.testing.assert_allclose(pooled, [x[0, :2].mean(0), x[1].mean(0), np.zeros(3)])
    plain = attach(og.from_onnx(parse_model(TOKENS)), [Term("mse", "y.mean(1)")])
    assert plain.outputs[0].dims == ("N", 3)


@pytest.mark.parametrize("text", ["y.mean(nothing)", "y[:, 0].mean(mask)", "y.mean()", "y.mean(1, 2)", "y.mean(axis=mask)"])
def test_a_mean_over_something_else_is_refused(text):
    with pytest.raises(og.errors.ArgumentError, match=r"mean takes|whole numbers"):
        attach(og.from_onnx(parse_model(TOKENS)), [Term("mse", text)])


@pytest.mark.parametrize("loss", ["info_nce", "cosine_pairs", "triplet"])
def test_losses_of_embeddings_say_how_tokens_become_one(loss):
    with pytest.raises(og.errors.ArgumentError, match=r"one for each token.*'y.mean\(attention_mask\)' or 'y\[:, 0\]'"):
        attach(og.from_onnx(parse_model(TOKENS)), [Term(loss)])


def test_info_nce_takes_a_temperature_and_counts_nothing_where_nothing_is_alike():
    x, group = real(6, 3), np.array([0, 0, 1, 1, 2, 2])
    program, attached = program_of(x.shape, [Term("info_nce", temperature=0.5)])
    (value,) = evaluate(to_onnx(program, [attached.loss]), {"x": x, "target": group})
    assert value == pytest.approx(info_nce(x, group, 0.5), rel=1e-9)
    (value,) = evaluate(to_onnx(program, [attached.loss]), {"x": x, "target": np.arange(6)})
    assert value == 0.0
    for wrong in ({"loss": "triplet", "temperature": 0.5}, {"loss": "info_nce", "temperature": 0.0}):
        with pytest.raises(og.errors.ArgumentError, match="temperature is a number above 0 for the loss info_nce"):
            Term(**wrong)
    with pytest.raises(og.errors.ArgumentError, match="no value for each row"):
        Term("info_nce", sample_weight="w")


DIAGONAL = {"x": np.eye(3, dtype="f4"), "target": np.array([0, 1, 2])}


class TestDoubt:
    TEXT = """<ir_version: 10, opset_import: ["": 21]> f (float[N, 3] x) => (float[N, 3] y) <float[3, 3] w = {1, 0, 0, 0, 1, 0, 0, 0, 1}>
              { z = MatMul (x, w)  p = Softmax (z)  y = Relu (p) }"""

    def test_probabilities_taken_as_logits_are_pointed_out_once(self):
        t = Trainer(parse_model(self.TEXT), loss="cross_entropy", learning_rate=0.0)
        with pytest.warns(UserWarning, match="y is read as logits, but all its values in the first batch lie between"):
            t.step(DIAGONAL)
        t.step(DIAGONAL)

    def test_few_logits_that_lie_between_0_and_1_by_chance_are_not(self):
        t = Trainer(parse_model(self.TEXT), loss=Term("cross_entropy", "z"), learning_rate=0.0)
        t.step({**DIAGONAL, "x": np.array([[0.2, 0.3, 0.7], [0.1, 0.9, 0.4], [0.3, 0.2, 0.6]], "f4")})

    def test_many_sigmoids_are_pointed_out(self):
        t = Trainer(parse_model(self.TEXT), loss=Term("cross_entropy", "z"), learning_rate=0.0)
        scores = 1 / (1 + np.exp(-np.random.default_rng(0).normal(size=(32, 3))))
        with pytest.warns(UserWarning, match="z is read as logits"):
            t.step({"x": scores.astype("f4"), "target": np.arange(32) % 3})

    def test_logits_beyond_1_are_not(self):
        t = Trainer(parse_model(self.TEXT), loss=Term("cross_entropy", "z"))
        t.step({**DIAGONAL, "x": 3 * DIAGONAL["x"]})

    def test_a_squared_error_is_not(self):
        Trainer(parse_model(self.TEXT), loss="mse").step({**DIAGONAL, "target": np.eye(3, dtype="f4")})


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


def time_major(batch, steps, **options):
    text = f"""<ir_version: 10, opset_import: ["": 21]> f (float[{batch}, {steps}, 3] x) => (float[{steps}, {batch}, 3] y)
               <float[3] w = {{1, 1, 1}}> {{ z = Mul(x, w)  y = Transpose <perm = [1, 0, 2]> (z) }}"""
    return Trainer(parse_model(text), loss=Term("ctc", **options), learning_rate=0.0)


class TestLayout:
    @pytest.mark.parametrize("sizes", [("N", 4), (2, 4), ("N", "T")])
    def test_the_batch_is_found_where_the_steps_come_first(self, sizes):
        x, labels = real(2, 4, 3).astype("f4"), np.array([[1, 2], [1, -1]])
        t = time_major(*sizes)
        assert "[steps, batch, classes]" in t.remarks[0]
        assert t.step({"x": x, "target": labels})["loss"] == pytest.approx(ctc(x, labels), rel=1e-5)

    def test_as_many_steps_as_examples(self):
        x, labels = real(4, 4, 3).astype("f4"), np.array([[1, 2], [1, -1], [2, 1], [2, 2]])
        assert time_major("N", 4).step({"x": x, "target": labels})["loss"] == pytest.approx(ctc(x, labels), rel=1e-5)
        with pytest.raises(og.errors.ArgumentError, match=r"which axis of .* is the batch .* layout='TNC'"):
            time_major(4, 4)
        t = time_major(4, 4, layout="TNC")
        assert t.step({"x": x, "target": labels})["loss"] == pytest.approx(ctc(x, labels), rel=1e-5)

    @pytest.mark.parametrize("examples", [2, 4])
    def test_a_layout_that_the_first_batch_contradicts_is_refused(self, examples):
        """Nothing in the file says that the steps come first: Max hides what is known of the shape."""
        text = """<ir_version: 10, opset_import: ["": 21]> f (float[A, 4, 3] x) => (float[B, D, 3] y)
                  <float[3] w = {1, 1, 1}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] rest = {-1}, int64[1] three = {3}>
                  { z = Mul (x, w)  a = Transpose <perm = [1, 0, 2]> (z)  n = Shape (z)  m = Slice (n, zero, one)
                    s = Concat <axis = 0> (rest, m, three)  hidden = Max (s, s)  y = Reshape (a, hidden) }"""
        x, labels = real(examples, 4, 3).astype("f4"), np.tile([[1, 2]], (examples, 1))
        t = Trainer(parse_model(text), loss=Term("ctc", layout="TNC"), learning_rate=0.0)
        assert t.step({"x": x, "target": labels})["loss"] == pytest.approx(ctc(x, labels), rel=1e-5)
        t = Trainer(parse_model(text), loss="ctc")
        with pytest.raises(og.errors.ArgumentError, match=r"axis 0 is not the batch. Pass layout='TNC'"):
            t.step({"x": x, "target": labels})

    def test_labels_are_checked_against_steps_and_classes(self):
        t = time_major("N", 4)
        with pytest.raises(og.errors.DataError, match="example 1 of the batch needs 5 steps, the model has 4"):
            t.step({"x": real(2, 4, 3), "target": np.array([[1, 2, 1], [1, 1, 1]])})
        with pytest.raises(og.errors.DataError, match="classes 0 to 2"):
            t.step({"x": real(1, 4, 3), "target": np.array([[1, 3]])})

    def test_a_layout_that_is_none(self):
        with pytest.raises(og.errors.ArgumentError, match="layout is 'NTC', 'TNC', 'NCT' or None, not 'CNT'"):
            Term("ctc", layout="CNT")
        with pytest.raises(
            og.errors.ArgumentError, match="layout is 'NTC' or 'TNC' for the loss ctc, 'NTC' or 'NCT' for cross_entropy"
        ):
            Term("mse", layout="NTC")


def test_ctc_learns_a_sequence():
    text = '<ir_version: 10, opset_import: ["": 21]> f (float[N, 6, 4] x) => (float[N, 6, 4] y) <float[4, 4] w = {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}> { y = MatMul(x, w) }'
    t = Trainer(parse_model(text), loss="ctc", learning_rate=0.1)
    batch = {"x": np.eye(4)[[[1, 0, 2, 0, 3, 0]]].astype("f4"), "target": np.array([[1, 2, 3]])}
    losses = [t.step(batch)["loss"] for _ in range(60)]
    assert losses[-1] < 0.3 < losses[0]


# Distances of masks ------------------------------------------------------------------------------------------------------


def pixels(classes, activation="Identity"):
    text = f"""<ir_version: 10, opset_import: ["": 21]> g (float[N, 3, 12, 16] x) => (float[N, {classes}, 12, 16] y)
        <float[{classes}, 3, 1, 1] w = {{{", ".join(str(0.1 * i - 0.3) for i in range(3 * classes))}}}>
        {{ z = Conv(x, w) y = {activation}(z) }}"""
    return parse_model(text)


@pytest.mark.parametrize("first", ["cross_entropy", "dice"])
def test_boundary_computes_the_distances_of_the_masks_that_another_loss_reads(first):
    rng = np.random.default_rng(0)
    x, mask = rng.normal(size=(8, 3, 12, 16)).astype(np.float32), rng.integers(0, 3, (8, 12, 16))
    if first == "cross_entropy":
        mask[:, :2] = -100
    other = Term(first, target="mask")
    own = Trainer(pixels(3), loss=[other, Term("boundary", target="mask", weight=0.1)])
    given = Trainer(pixels(3), loss=[other, Term("boundary", target="d", weight=0.1)])
    columns = {"x": x, "mask": mask}
    assert own.columns == ["x", "mask"] and given.columns == ["x", "mask", "d"]
    alone = Trainer(pixels(3), loss=other).evaluate(columns)["loss"]
    more = {**columns, "d": signed_distances(mask, 3)}
    assert own.evaluate(columns)["loss"] == given.evaluate(more)["loss"] != alone
    options = {"epochs": 2, "validation": 0.25, "batch_size": 4, "verbose": False}
    assert own.fit(columns, **options) == given.fit(more, **options)


def test_boundary_of_a_single_mask():
    rng = np.random.default_rng(1)
    x, mask = rng.normal(size=(8, 3, 12, 16)).astype(np.float32), rng.integers(0, 2, (8, 1, 12, 16)).astype(np.float32)
    terms = [[Term("dice", target="mask"), Term("boundary", target=name)] for name in ("mask", "d")]
    own, given = (Trainer(pixels(1, "Sigmoid"), loss=each) for each in terms)
    distances = signed_distances(mask[:, 0].astype(int), 2)[:, 1:]
    expected = given.evaluate({"x": x, "mask": mask, "d": distances})
    assert own.evaluate({"x": x, "mask": mask}) == expected
