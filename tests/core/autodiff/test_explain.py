"""explain says what carries gradient, what stops it, what is refused and what to do."""

import json

import onnx
import pytest

import onnxgrad
from onnxgrad import errors, static
from tests.real_models import ALL

THREE = """<ir_version: 8, opset_import: ["": 17, "acme": 1, "local": 1, "ai.onnx.ml": 3]>
    f (float[N] x, int64[N] i) => (float[N] y) <float[1] w = {2}> {
        a = Mul (x, w)
        b = Floor (a)
        c = ai.onnx.ml.Normalizer (a)
        d = acme.Spin (a)
        e = local.Twice (a)
        same = Equal (i, i)
        all_same = ReduceMin <keepdims = 0> (i)
        condition = Cast <to = 9> (all_same)
        g = If (condition) <
            then_branch = g1 () => (float[N] t) { t = ai.onnx.ml.Normalizer (x) },
            else_branch = g2 () => (float[N] u) { v = Exp (x) u = acme.Turn (v) }
        >
        unused = ai.onnx.ml.Normalizer (x)
        y = Sum (b, c, d, e, g)
    }
    <domain: "local", opset_import: ["": 17, "ai.onnx.ml": 3]> Twice (x) => (y) { z = Add (x, x) u = ai.onnx.ml.Normalizer (z) y = Exp (u) }"""


@pytest.fixture
def found():
    return onnxgrad.explain(onnx.parser.parse_model(THREE))


def locations(found, operator, state="refused"):
    return [where for row in found.rows if (row.operator, row.state) == (operator, state) for where in row.where]


def test_every_refusal_is_listed_also_in_bodies_and_functions(found):
    scaled = locations(found, "ai.onnx.ml:Normalizer")
    assert len(scaled) == 4
    assert sum("If" in where for where in scaled) == 1 and sum("local:Twice" in where for where in scaled) == 1
    assert locations(found, "acme:Spin") == ["(-> d)"]
    assert len(locations(found, "acme:Turn")) == 1
    assert not found.is_differentiable


def test_each_refusal_comes_with_reason_and_advice(found):
    advice = {row.operator: (row.reason, row.advice) for row in found.refused}
    assert advice["acme:Spin"][0] == "no gradient rule is registered for Spin of domain 'acme'"
    assert "@onnxgrad.gradient" in advice["acme:Spin"][1]
    reason, way_out = advice["ai.onnx.ml:Normalizer"]
    assert "read but not differentiated" in reason and "stop_gradient" in way_out


def test_what_stops_says_why_and_what_carries_is_listed(found):
    reasons = {row.operator: row.reason for row in found.rows if row.state == "stops"}
    assert reasons["Floor"] == "the derivative is zero almost everywhere"
    assert reasons["ReduceMin"] == "no operand is of floating-point type"
    assert {"Mul", "Sum", "If", "Exp"} <= {row.operator for row in found.rows if row.state == "gradient"}


def test_form_that_a_rule_refuses_is_found_though_the_operator_has_a_rule():
    x = static.data("x", [1, 1, "n"])
    y = x.block.build.AveragePool(x, kernel_shape=[2], dilations=[2], auto_pad="SAME_UPPER")
    (row,) = onnxgrad.explain(y.block.program).refused
    assert row.operator == "AveragePool" and "otherwise than the specification" in row.reason
    assert row.advice == "Write the pads out."


def test_refusal_off_the_path_does_not_matter():
    text = """<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 3]> f (float[N] x, float[N] z) => (float[N] y, int64 n) {
        u = ai.onnx.ml.Normalizer (z) n = Size (u) y = Exp (x) }"""
    found = onnxgrad.explain(onnx.parser.parse_model(text))
    assert [row.matters for row in found.refused] == [False]
    assert found.is_differentiable and "no gradient reaches it" in str(found)


def test_rows_are_plain_data(found):
    rows = json.loads(json.dumps(found.to_rows()))
    assert {"operator", "state", "reason", "advice", "where", "matters", "count"} == set(rows[0])
    assert sum(row["count"] for row in rows) == len([where for row in found.rows for where in row.where])


def test_program_is_not_changed():
    program = onnxgrad.from_onnx(onnx.parser.parse_model(THREE))
    before = (str(program), program.opset_imports)
    onnxgrad.explain(program)
    assert (str(program), program.opset_imports) == before


@pytest.mark.one_in(4)
@pytest.mark.parametrize("folder", ALL, ids=lambda folder: folder.name)
def test_verdict_on_real_models_is_what_differentiation_finds(folder):
    program = onnxgrad.from_onnx(folder / "model.onnx")
    sources = [v for v in [*program.parameters, *program.inputs] if v.is_float]
    for v in sources:
        v.stop_gradient = False
    targets = [v for v in program.outputs if v.is_float]
    try:
        static.gradients(targets, sources)
        works = True
    except errors.UnsupportedGradient:
        works = False
    assert onnxgrad.explain(folder / "model.onnx").is_differentiable == works


@pytest.mark.parametrize(("scales", "refused"), [("input", True), ("constant", False)])
def test_a_constant_setting_is_no_reason_to_refuse(scales, refused):
    given, held = (", float[4] s", "") if scales == "input" else ("", "<float[4] s = {1.0, 1.0, 2.0, 2.0}>")
    text = f"""<ir_version: 8, opset_import: ["": 17]> f (float[1, 1, 2, 2] x{given}) => (float[1, 1, 4, 4] y) {held} {{
        y = Resize <mode: string = "nearest"> (x, , s) }}"""
    found = onnxgrad.explain(onnx.parser.parse_model(text))
    assert bool(found.refused) == refused and found.is_differentiable != refused
