"""onnxgrad check: right, proven wrong, or not resolvable by differences."""

import json
import sys
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model

import onnxgrad
from onnxgrad.cli.common import assumed_sizes, feeds_for
from onnxgrad.cli.main import main
from onnxgrad.core.passes.double_precision import in_double_precision
from onnxgrad.core.rules.registry import TABLE
from onnxgrad.training.run import progress

REAL = Path(__file__).parents[1] / "data" / "real_models" / "torch"
LANGUAGE = Path(__file__).parents[1] / "data" / "llm_models"


@pytest.fixture
def check(tmp_path, capsys):
    """Exit code and rows of the command on a graph in text form, or a file."""

    def run(model, *arguments, feeds=None, opset=17):
        path = model
        if isinstance(model, str):
            model = parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> f {model}')
        if not isinstance(model, Path):
            path = tmp_path / "m.onnx"
            onnx.save(model, path)
        if feeds is not None:
            np.savez(tmp_path / "feeds.npz", **feeds)
            arguments = (*arguments, "--feeds", str(tmp_path / "feeds.npz"))
        code = main(["check", str(path), "--json", *map(str, arguments)])
        out, err = capsys.readouterr()
        return (code, json.loads(out)["numeric"]) if out else (code, err)

    return run


@pytest.fixture
def wrong_rule():
    """Replace the rule of an operator for a test."""
    kept = dict(TABLE)

    def replace(name, rule):
        for key in [key for key in TABLE if name in str(key)]:
            del TABLE[key]
        onnxgrad.gradient(name)(rule)

    yield replace
    TABLE.clear()
    TABLE.update(kept)


STEEP = "(float[N, 4] x) => (float[N, 4] y) { s = Constant <value_float = 3000.0> () a = Mul(x, s) b = Sin(a) y = Exp(b) }"


class TestRight:
    def test_a_steep_model(self, check):
        code, rows = check(STEEP)
        assert code == 0 and [row["right"] for row in rows] == [True]
        assert abs(rows[0]["gradient"]) > 1000

    @pytest.mark.parametrize("name", ["crnn-dyn18", "crnn-legacy14"])
    def test_a_text_recogniser(self, name, check):
        code, rows = check(REAL / name / "model.onnx", feeds=dict(np.load(REAL / name / "feed.npz")))
        assert code == 0 and len(rows) >= 10 and all(row["right"] is True for row in rows)
        assert all(row["error"] < 1e-3 * abs(row["differences"]) for row in rows)

    @pytest.mark.parametrize("name", ["bert-dyn21", "mlp_math_zoo-dyn22", "lstm_clf-dyn18", "jax-fori", "cond_if-dyn18"])
    def test_no_real_gradient_is_called_wrong(self, name, check):
        folder = next(REAL.parent.glob(f"*/{name}"))
        code, rows = check(folder / "model.onnx", feeds=dict(np.load(folder / "feed.npz")))
        assert code == 0 and sum(row["right"] is True for row in rows) >= 0.75 * len(rows)

    def test_what_has_no_influence(self, check):
        code, rows = check(
            "(float[N] x) => (float[N] y) <float[2] w = {1.0, 2.0}> { a = Shape(x) f = Cast<to = 1>(a) m = ReduceSum(f) y = Add(x, m) z = Mul(w, m) }"
        )
        assert code == 0 and {row["right"] for row in rows} == {True}

    def test_weights_of_16_bits(self, check):
        rng = np.random.default_rng(0)
        model = parse_model(
            '<ir_version: 8, opset_import: ["": 17]> f (float16[N, 8] x) => (float16[N, 8] y) { a = MatMul(x, w) b = Tanh(a) y = MatMul(b, w) }'
        )
        model.graph.initializer.append(numpy_helper.from_array(rng.normal(0, 1, (8, 8)).astype(np.float16), "w"))
        code, rows = check(model)
        assert code == 0 and [row["right"] for row in rows] == [True, True]


class TestWrong:
    @pytest.mark.parametrize(
        ("name", "rule"),
        [
            ("Sin", lambda op, node, gy: op.Mul(gy, op.Mul(op.Cos(node.inputs[0]), 0.9))),
            ("Sin", lambda op, node, gy: op.Neg(op.Mul(gy, op.Cos(node.inputs[0])))),
            ("Exp", lambda op, node, gy: op.Mul(gy, 0.0)),
        ],
        ids=["a tenth", "a sign", "a zero"],
    )
    def test_a_wrong_rule_is_proven_wrong_on_a_steep_model(self, name, rule, check, wrong_rule):
        wrong_rule(name, rule)
        code, rows = check(STEEP)
        assert code == 1 and [row["right"] for row in rows] == [False]

    @pytest.mark.parametrize("name", ["crnn-dyn18", "crnn-legacy14"])
    def test_a_wrong_rule_in_a_text_recogniser(self, name, check, wrong_rule):
        """Convolutions run in float32, as onnxruntime has no others; that hides no factor."""
        wrong_rule("LogSoftmax", lambda op, node, gy: op.Mul(gy, 1.1))
        code, rows = check(REAL / name / "model.onnx", feeds=dict(np.load(REAL / name / "feed.npz")))
        assert code == 1 and any(row["right"] is False for row in rows)

    def test_the_text_says_so(self, check, wrong_rule, tmp_path, capsys):
        wrong_rule("Tanh", lambda op, node, gy: op.Mul(gy, 0.9))
        onnx.save(
            parse_model('<ir_version: 8, opset_import: ["": 17]> f (float[N] x) => (float[N] y) { a = Tanh(x) y = Exp(a) }'),
            tmp_path / "m.onnx",
        )
        assert main(["check", str(tmp_path / "m.onnx")]) == 1
        out = capsys.readouterr().out
        assert "WRONG" in out and "numerical check: 0 of 1 right, 1 wrong, 0 cannot be resolved" in out


class TestNotResolvable:
    @pytest.mark.parametrize(
        ("model", "feeds", "why"),
        [
            ("(float[N] x) => (float[N] y) { y = Relu(x) }", {"x": np.zeros(3, np.float32)}, "the model has a kink here"),
            ("(float[N] x) => (float[N] y) { y = Abs(x) }", {"x": np.full(3, 1e-20, np.float32)}, "the model has a kink here"),
            (STEEP.replace("3000.0", "1.0e17"), None, "the function changes too fast for finite differences"),
            (
                "(float[N] x) => (float[N] y) { k = Constant <value_float = 1.0e-16> () t = Constant <value_float = 2.0> () a = Mul(x, k) b = Add(a, t) y = Exp(b) }",
                None,
                "rounding hides it",
            ),
            ("(float[N] x) => (float[N] y) { y = Log(x) }", {"x": np.full(3, -1.0, np.float32)}, "the outputs are not finite near this point"),
        ],
        ids=["kink", "kink beside", "too fast", "rounding", "not finite"],
    )  # fmt: skip
    def test_that_is_said_and_no_failure(self, model, feeds, why, check):
        code, rows = check(model, feeds=feeds)
        assert code == 0 and [(row["right"], row["why"]) for row in rows] == [(None, why)]

    def test_rounding_by_convention(self, check):
        model = """(float[N] x) => (float[N] y) <float s = {0.5}, int8 z = {0}> {
            a = Mul(x, k) q = QuantizeLinear(a, s, z) y = DequantizeLinear(q, s, z) k = Constant <value_float = 2.0> () }"""
        model = model.replace("a = Mul(x, k)", "k = Constant <value_float = 2.0> () a = Mul(x, k)").replace(
            " k = Constant <value_float = 2.0> () }", " }"
        )
        code, rows = check(model, feeds={"x": np.array([0.3, -0.7, 1.1], np.float32)})
        assert code == 0 and any(row["why"] == "the gradient passes through QuantizeLinear by convention" for row in rows)


class TestSizes:
    MODEL = "(float[rows, cols] x, float[cols, rows] z) => (float[rows, rows] y) { y = MatMul(x, z) }"

    def test_dimensions_are_sized_by_name(self, check, monkeypatch):
        seen = {}
        monkeypatch.setattr("onnxgrad.cli.check.compare", lambda program, feeds, *rest: seen.update(feeds) or [])
        assert check(self.MODEL, "--dim", "rows=3", "--dim", "cols=5")[0] == 0
        assert seen["x"].shape == (3, 5) and seen["z"].shape == (5, 3)

    def test_dimensions_without_a_name_by_input_and_axis(self, check, monkeypatch):
        seen = {}
        monkeypatch.setattr("onnxgrad.cli.check.compare", lambda program, feeds, *rest: seen.update(feeds) or [])
        value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 4, None])
        graph = helper.make_graph(
            [helper.make_node("Exp", ["x"], ["y"])], "f", [value], [helper.make_tensor_value_info("y", 1, None)]
        )
        model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
        assert check(model, "--dim", "x.2=7")[0] == 0
        assert seen["x"].shape == (2, 4, 7)

    def test_an_unknown_name(self, check):
        code, said = check(self.MODEL, "--dim", "row=3")
        assert code == 2 and "--dim row: the inputs have the dynamic dimensions ['rows', 'cols']. Name one of them." in said


class TestLanguageModels:
    """Files of builders have inputs that follow from the tokens, and dimensions that several of them share"""

    @pytest.mark.parametrize("name", ["llama-fp32", pytest.param("llama-int4", marks=pytest.mark.exhaustive), "qwen2-fp32"])
    def test_the_inputs_fit_each_other(self, check, name):
        weight = "model.layers.1.post_attention_layernorm.weight"
        code, rows = check(LANGUAGE / f"{name}.onnx", "--wrt", weight)
        assert code == 0 and [row["name"] for row in rows] == [weight]

    def test_a_dimension_has_one_size_whatever_axis_it_is_of(self):
        text = "f (float[n, batch] x, float[batch, n] y) => (float[n, m] z) { z = MatMul(x, y) }"
        program = onnxgrad.from_onnx(parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}'))
        feeds = feeds_for(program, None, {}, 0)
        assert feeds["x"].shape == feeds["y"].shape[::-1] == (2, 2)
        assert assumed_sizes(program, feeds, {}) == {"n": 2, "batch": 2}
        assert feeds_for(program, None, {"batch": 5}, 0)["x"].shape == (2, 5)

    def test_a_cache_has_the_size_that_is_given(self):
        program = onnxgrad.from_onnx(LANGUAGE / "llama-fp32.onnx")
        empty, filled = (feeds_for(program, None, sizes, 0) for sizes in ({}, {"past_sequence_length": 3}))
        assert empty["past_key_values.0.key"].shape == (2, 2, 0, 16) and empty["attention_mask"].shape == (2, 8)
        assert filled["past_key_values.0.key"].shape == (2, 2, 3, 16) and filled["attention_mask"].shape == (2, 11)
        assert filled["past_key_values.0.key"].any() and (filled["attention_mask"] == 1).all()


class TestProgress:
    def test_it_is_never_silent_for_long(self, monkeypatch, capsys):
        monkeypatch.setattr(progress, "SILENCE", 0.05)
        with progress.Working("reading") as working:
            time.sleep(0.2)
            working.say("checking w", 3, 7)
            time.sleep(0.2)
        said = capsys.readouterr().err.splitlines()
        assert sum(line.startswith("reading, ") for line in said) >= 2
        assert any(line.startswith("checking w (3 of 7), ") for line in said)

    def test_what_is_quick_says_nothing(self, check, capsys):
        check(STEEP)
        assert capsys.readouterr().err == ""
        assert not [thread for thread in threading.enumerate() if thread.name == "onnxgrad-progress"]

    def test_a_terminal_gets_a_bar(self, monkeypatch, capsys):
        monkeypatch.setattr(progress, "SILENCE", 0.05)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        with progress.Working("reading") as working:
            working.say("checking w", 3, 7)
            time.sleep(0.3)
        assert "checking w:  43%" in capsys.readouterr().err


class TestDoublePrecision:
    def test_every_float_is_wide_and_kept_operators_are_not(self):
        text = """<ir_version: 8, opset_import: ["": 17]> f (float[N, 4] x) => (float[N, 4] y) <float[4] w = {1.0, 2.0, 3.0, 4.0}> {
            a = Mul(x, w) h = Cast <to = 10> (a) b = Cast <to = 1> (h) c = Erf(b) n = Shape(c) z = ConstantOfShape(n) y = Add(c, z) }"""
        program = onnxgrad.from_onnx(parse_model(text))
        before = str(program)
        wide = in_double_precision(program, {"Erf"})
        assert str(program) == before and program.parameters[0].get_value().dtype == np.float32
        x = np.random.default_rng(0).normal(0, 1, (3, 4))
        (y,) = onnxgrad.Executor().run(wide, {"x": x}, ["y"])
        (same,) = onnxgrad.Executor().run(program, {"x": x.astype(np.float32)}, ["y"])
        assert y.dtype == np.float64
        np.testing.assert_allclose(y, same, rtol=2e-3, atol=1e-3)
        types = {op.type: [v.dtype.name for v in op.inputs] for op in wide.global_block().ops}
        assert types["Erf"] == ["float32"] and types["Mul"] == types["Add"] == ["float64", "float64"]
