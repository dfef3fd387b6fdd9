"""Gradient, Adam, Adagrad and Momentum of ai.onnx.preview.training, written out: they do what the specification says."""

import warnings
from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test.case.node as node_cases
import onnxruntime
import pytest
from onnx import parser

import onnxgrad as paddle
from onnxgrad.core.autodiff.training_operators import TRAINING_DOMAIN
from onnxgrad.errors import ArgumentError, ModelError
from tests.core.rules.official_cases import Case, read_group

HEADER = '<ir_version: 8, opset_import: ["": 17, "ai.onnx.preview.training": 1]>'
RANDOM = np.random.default_rng(0)


GROUPS = ("adagrad", "adam", "momentum")
"""Modules of onnx with cases of one such operator; its cases with several are its models."""


def specified_cases():
    from onnx.backend.test.case.model import collect_testcases as models

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [case for group in GROUPS for case in read_group(f"node.{group}")]
        for case in models():
            if case.model is not None and any(entry.domain == TRAINING_DOMAIN for entry in case.model.opset_import):
                ((inputs, outputs),) = case.data_sets
                names = [info.name for info in case.model.graph.input]
                cases.append(Case(case.name, case.model, dict(zip(names, inputs, strict=True)), outputs))
    return cases


def written_out(source):
    model = paddle.to_onnx(paddle.from_onnx(source, expand=TRAINING_DOMAIN, parameters=[]))
    onnx.checker.check_model(model, full_check=True)
    assert {node.domain for node in model.graph.node} == {""}
    assert TRAINING_DOMAIN not in {entry.domain for entry in model.opset_import}
    return model


def run(source, feeds):
    model = written_out(parser.parse_model(HEADER + source) if isinstance(source, str) else source)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, feeds)


CASES = specified_cases()


def test_the_specification_has_cases():
    assert {"test_adam", "test_adagrad", "test_nesterov_momentum", "test_gradient_of_add_and_mul"} <= {case.name for case in CASES}
    folder = Path(node_cases.__path__[0])
    assert {path.stem for path in folder.glob("[!_]*.py") if "PREVIEW_TRAINING" in path.read_text()} == set(GROUPS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cases_of_the_specification(case):
    feeds = {name: np.asarray(value) for name, value in case.inputs.items()}
    for ours, expected in zip(run(case.model, feeds), case.outputs, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-7)
        assert ours.dtype == expected.dtype


def adam(rate, t, x, g, v, h, alpha=0.9, beta=0.999, epsilon=1e-6, post=0.0):
    v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
    rate = rate * np.sqrt(1 - beta**t) / (1 - alpha**t) if t > 0 else rate
    return (1 - post) * (x - rate * v / (np.sqrt(h) + epsilon)), v, h


@pytest.mark.parametrize("t", [0, 1, 1000])
@pytest.mark.parametrize("post", [0.0, 0.25])
def test_adam_with_default_attributes(t, post):
    x, g, v, h = RANDOM.normal(size=(4, 3)).astype(np.float32) ** 2
    text = f"""f (float R, int64 T, float[3] X, float[3] G, float[3] V, float[3] H) => (float[3] A, float[3] B, float[3] C) {{
        A, B, C = ai.onnx.preview.training.Adam <norm_coefficient_post: float = {post}> (R, T, X, G, V, H) }}"""
    feeds = {"R": np.float32(0.1).reshape(()), "T": np.int64(t).reshape(()), "X": x, "G": g, "V": v, "H": h}
    feeds = {name: np.asarray(value) for name, value in feeds.items()}
    for ours, expected in zip(run(text, feeds), adam(0.1, t, x, g, v, h, post=post), strict=True):
        # 1 - 0.999 in float32, and an x that the step takes almost to zero.
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-6)


def test_momentum_takes_beta_as_one_in_the_first_step():
    text = """f (float R, int64 T, float[2] X, float[2] G, float[2] V) => (float[2] A, float[2] B) {
        A, B = ai.onnx.preview.training.Momentum <alpha: float = 0.5, beta: float = 0.25, mode: string = "standard",
            norm_coefficient: float = 0.0> (R, T, X, G, V) }"""
    one = np.ones(2, np.float32)
    feeds = {"R": np.array(1.0, np.float32), "X": one, "G": 4 * one, "V": 2 * one}
    assert run(text, {**feeds, "T": np.array(0)})[1].tolist() == [5.0, 5.0]
    assert run(text, {**feeds, "T": np.array(1)})[1].tolist() == [2.0, 2.0]


def test_gradient_of_an_inner_tensor_holds_it_independent_of_the_weight():
    text = """f (float[2] w, float[2] x) => (float[2] dh, float[2] dw) {
        h = Mul(w, x)
        y = Mul(h, w)
        dh, dw = ai.onnx.preview.training.Gradient <xs: strings = ["h", "w"], y: string = "y"> (h, w) }"""
    w, x = np.array([2.0, 3.0], np.float32), np.array([5.0, 7.0], np.float32)
    dh, dw = run(text, {"w": w, "x": x})
    np.testing.assert_allclose(dh, w)
    np.testing.assert_allclose(dw, w * x)  # h alone, not h + w dh/dw


def test_gradient_at_other_values():
    text = """f (float[2] w, float[2] other) => (float[2] y, float[2] dw) {
        h = Mul(w, w)
        y = Mul(h, w)
        dw = ai.onnx.preview.training.Gradient <xs: strings = ["w"], y: string = "y"> (other) }"""
    w, other = np.array([2.0, 3.0], np.float32), np.array([5.0, 7.0], np.float32)
    y, dw = run(text, {"w": w, "other": other})
    np.testing.assert_allclose(y, w**3)
    np.testing.assert_allclose(dw, 3 * other**2)


def test_gradient_of_a_gradient():
    text = """f (float[2] w, float[2] x) => (float[2] dwx, float[2] dww) {
        s = Mul(w, w)
        y = Mul(s, x)
        dw = ai.onnx.preview.training.Gradient <xs: strings = ["w"], zs: strings = ["x"], y: string = "y"> (w, x)
        dwx, dww = ai.onnx.preview.training.Gradient <xs: strings = ["x", "w"], y: string = "dw"> (x, w) }"""
    w, x = np.array([2.0, 3.0], np.float32), np.array([5.0, 7.0], np.float32)
    dwx, dww = run(text, {"w": w, "x": x})
    np.testing.assert_allclose(dwx, 2 * w)
    np.testing.assert_allclose(dww, 2 * x)


def test_gradient_of_what_does_not_depend_on_it_is_zero_and_an_output_may_be_left_out():
    text = """f (float[2] a, float[3] b) => (float[3] db) {
        y = Mul(a, a)
        "", db = ai.onnx.preview.training.Gradient <xs: strings = ["a", "b"], y: string = "y"> (a, b) }"""
    text = text.replace('""', "unread")
    (db,) = run(text, {"a": np.ones(2, np.float32), "b": np.ones(3, np.float32)})
    np.testing.assert_array_equal(db, np.zeros(3))


def test_a_training_file_trains():
    text = """f (float[8, 3] x, float[8, 1] t, float[3, 1] w, float[3, 1] v, float[3, 1] h, float r, int64 n)
        => (float loss, float[3, 1] w2, float[3, 1] v2, float[3, 1] h2) {
        y = MatMul(x, w)
        d = Sub(y, t)
        s = Mul(d, d)
        loss = ReduceMean <keepdims: int = 0> (s)
        g = ai.onnx.preview.training.Gradient <xs: strings = ["w"], zs: strings = ["x", "t"], y: string = "loss"> (w, x, t)
        w2, v2, h2 = ai.onnx.preview.training.Adam (r, n, w, g, v, h) }"""
    session = onnxruntime.InferenceSession(written_out(parser.parse_model(HEADER + text)).SerializeToString())
    x = RANDOM.normal(size=(8, 3)).astype(np.float32)
    feeds = {"x": x, "t": x @ np.array([[1.0], [2.0], [3.0]], np.float32), "r": np.array(0.2, np.float32)}
    w = v = h = np.zeros((3, 1), np.float32)
    for n in range(200):
        loss, w, v, h = session.run(None, {**feeds, "w": w, "v": v, "h": h, "n": np.array(n)})
    assert loss < 1e-3


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ('Gradient <xs: strings = ["nowhere"], y: string = "y"> (a)', "nowhere"),
        ('Gradient <xs: strings = ["a"], y: string = "y"> (a, a)', "2 inputs for 1"),
        ("Adam (r, n, a, a, a)", "4 lists"),
        (
            'Momentum <alpha: float = 0.9, beta: float = 1.0, mode: string = "odd", norm_coefficient: float = 0.0> (r, n, a, a, a)',
            "odd",
        ),
        ('Momentum <beta: float = 1.0, mode: string = "standard"> (r, n, a, a, a)', "alpha"),
        ("Lion (r, n, a)", "Lion"),
    ],
)
def test_what_cannot_be_written_out_is_refused_by_name(node, message):
    text = f"f (float[2] a, float r, int64 n) => (float[2] z) {{ y = Mul(a, a)  z = {TRAINING_DOMAIN}.{node} }}"
    with pytest.raises(ModelError, match=message):
        paddle.from_onnx(parser.parse_model(HEADER + text), expand=TRAINING_DOMAIN)


def test_an_unknown_domain_is_refused():
    with pytest.raises(ArgumentError, match=r"com\.microsoft"):
        paddle.from_onnx(CASES[0].model, expand="com.example")
