"""to_mixed_precision: what it lowers, what it leaves, and that values and gradients stay those of float32, rounded."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import onnxgrad
from onnxgrad import static
from onnxgrad.amp import AutoMixedPrecisionLists, to_mixed_precision
from onnxgrad.errors import ArgumentError, ArgumentTypeError
from onnxgrad.testing import _Case, evaluate
from tests.core.rules.samples import all_samples, thoroughly

DIGITS = Path(__file__).parents[3] / "models" / "digits" / "digits.onnx"
LISTED = AutoMixedPrecisionLists()
LISTED_SAMPLES = [s for s in all_samples() if s.op_type in LISTED.white_list | LISTED.gray_list and s.reference is None]


def gradients_of(sample, lowered):
    """Gradients of a sample in float32, of which the operator itself is lowered or not"""
    case = _Case(sample, "float32", rounded="float16", opset=max(sample.opset, 21))
    values = evaluate(onnxgrad.to_onnx(case.program, case.outputs), case.feeds)
    case.program.global_block().outputs = list(case.outputs)
    if lowered:
        to_mixed_precision(case.program, lists=AutoMixedPrecisionLists(custom_white_list=[sample.op_type]))
    seeds = case.cotangents(case.outputs, values)
    found = [g for g in onnxgrad.gradients(case.outputs, case.differentiated, seeds) if g is not None]
    if not found:
        return None, None
    operands = [v for op in case.program.global_block().ops if op.type == sample.op_type and op.role == 0 for v in op.inputs]
    kinds = {v.dtype.name for v in operands if v is not None and v.is_float}
    return evaluate(onnxgrad.to_onnx(case.program, found), case.feeds), kinds


@pytest.mark.parametrize("sample", thoroughly(s for s in LISTED_SAMPLES if s.outputs == 1 or s.op_type == "Split"))
def test_gradients_of_listed_operators_stay_right(sample):
    wanted, _ = gradients_of(sample, lowered=False)
    found, kinds = gradients_of(sample, lowered=True)
    if wanted is None:
        return
    assert "float16" in kinds or not kinds
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == b.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=2e-2, atol=2e-2 * max(1.0, np.abs(b).max(initial=0.0)))


def small_model(nodes, initializers=(), outputs=("y",), dims=("n", 4)):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name in outputs],
        list(initializers),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def weight(name, *shape):
    array = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    return onnx.numpy_helper.from_array(array, name)


def kinds(program):
    """Element type of the first operand of every operator but Cast"""
    ops = [op for block in program.blocks for op in block.ops if op.type != "Cast" and op.inputs and op.inputs[0].is_float]
    return [(op.type, op.inputs[0].dtype.name) for op in ops]


def outputs_of(program, feeds):
    return evaluate(onnxgrad.to_onnx(program), feeds)


def test_a_loaded_model_keeps_its_interface():
    plain = onnxgrad.from_onnx(DIGITS)
    program = to_mixed_precision(onnxgrad.from_onnx(DIGITS))
    model = onnxgrad.to_onnx(program)
    onnx.checker.check_model(model, full_check=True)
    before = onnxgrad.to_onnx(plain)
    assert [v.name for v in model.graph.input] == [v.name for v in before.graph.input]
    assert [v.type.tensor_type.elem_type for v in model.graph.output] == [1] * len(before.graph.output)
    assert {i.name for i in before.graph.initializer if i.data_type == 1} <= {i.name for i in model.graph.initializer}
    feed = {"image": np.random.default_rng(0).random((4, 1, 8, 8), np.float32)}
    (found,), (wanted,) = outputs_of(program, feed), outputs_of(plain, feed)
    np.testing.assert_allclose(found, wanted, rtol=2e-2, atol=2e-2)
    assert not np.array_equal(found, wanted)
    assert ("Conv", "float16") in kinds(program)


def test_a_loaded_model_trains():
    program = onnxgrad.from_onnx(DIGITS).train()
    with static.program_guard(program):
        label = static.data("label", ["batch"], "int64")
        loss = onnxgrad.nn.functional.cross_entropy(program.outputs[0], label)
    static.amp.decorate(onnxgrad.optimizer.AdamW(1e-2), init_loss_scaling=128.0).minimize(loss)
    batch = {"image": np.random.default_rng(0).random((8, 1, 8, 8), np.float32), "label": np.arange(8)}
    executor = onnxgrad.Executor()
    losses = [executor.run(program, batch, [loss])[0].item() for _ in range(10)]
    assert losses[-1] < 0.8 * losses[0]
    assert ("Conv", "float16") in kinds(program)
    tuned = onnxgrad.to_onnx(program)
    onnx.checker.check_model(tuned, full_check=True)


def test_gray_operators_follow_and_black_ones_do_not():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Exp", ["b"], ["c"]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Add", ["b", "d"], ["e"]),
        helper.make_node("Relu", ["x"], ["f"]),
        helper.make_node("Add", ["b", "f"], ["h"]),
        helper.make_node("Add", ["e", "h"], ["y"]),
    ]
    program = to_mixed_precision(onnxgrad.from_onnx(small_model(nodes, [weight("w", 4, 4)])))
    expected = ["float16", "float16", "float32", "float32", "float32", "float32", "float16", "float32"]
    assert [kind for _, kind in kinds(program)] == expected


def test_constants_that_float16_cannot_hold_stay():
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Add", ["a", "c"], ["y"])]
    for value, kind in ((-1e9, "float32"), (1e-12, "float32"), (0.5, "float16"), (0.0, "float16"), (-np.inf, "float16")):
        constant = onnx.numpy_helper.from_array(np.array(value, np.float32), "c")
        program = onnxgrad.from_onnx(small_model(nodes, [weight("w", 4, 4), constant]), parameters=["w"])
        assert kinds(to_mixed_precision(program)) == [("MatMul", "float16"), ("Add", kind)]


def test_bodies_are_rewritten_and_keep_what_goes_in_and_out():
    def branch(name, op_type):
        out = helper.make_tensor_value_info(f"{name}_z", TensorProto.FLOAT, ["n", 4])
        nodes = [helper.make_node("MatMul", ["a", "w"], [f"{name}_m"]), helper.make_node(op_type, [f"{name}_m"], [f"{name}_z"])]
        return helper.make_graph(nodes, name, [], [out])

    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Cast", ["s"], ["p"], to=TensorProto.BOOL),
        helper.make_node("If", ["p"], ["y"], then_branch=branch("t", "Relu"), else_branch=branch("e", "Exp")),
    ]
    plain = onnxgrad.from_onnx(small_model(nodes, [weight("w", 4, 4)]))
    program = to_mixed_precision(onnxgrad.from_onnx(small_model(nodes, [weight("w", 4, 4)])))
    assert [kind for name, kind in kinds(program) if name == "MatMul"] == ["float16"] * 3
    onnx.checker.check_model(onnxgrad.to_onnx(program), full_check=True)
    for feed in ({"x": np.full((2, 4), 0.3, np.float32)}, {"x": np.zeros((2, 4), np.float32)}):
        for a, b in zip(outputs_of(program, feed), outputs_of(plain, feed), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-2, atol=1e-2)
    pairs = onnxgrad.append_backward(program.outputs[0])
    wanted = onnxgrad.append_backward(plain.outputs[0])
    feed = {"x": np.tile(np.array([0.25, -0.25, 0.5, -0.5], np.float32), (2, 1))}
    (found,) = evaluate(onnxgrad.to_onnx(program, [g for _, g in pairs]), feed)
    (exact,) = evaluate(onnxgrad.to_onnx(plain, [g for _, g in wanted]), feed)
    np.testing.assert_allclose(found, exact, rtol=1e-2, atol=1e-2)
    assert found.dtype == np.float32 and np.abs(exact).max() > 0.1


def test_a_loop_body_reads_weights_that_are_cast_once():
    cond = helper.make_tensor_value_info("go", TensorProto.BOOL, [])
    body = helper.make_graph(
        [helper.make_node("MatMul", ["h", "w"], ["h2"]), helper.make_node("Identity", ["go"], ["go2"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            cond,
            helper.make_tensor_value_info("h", TensorProto.FLOAT, None),
        ],
        [helper.make_tensor_value_info("go2", TensorProto.BOOL, []), helper.make_tensor_value_info("h2", TensorProto.FLOAT, None)],
    )
    trips = onnx.numpy_helper.from_array(np.array(3), "trips")
    model = small_model([helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body)], [weight("w", 4, 4), trips])
    program, plain = to_mixed_precision(onnxgrad.from_onnx(model)), onnxgrad.from_onnx(model)
    outside = [op.inputs[0].name for op in program.global_block().ops if op.type == "Cast"]
    assert outside == ["w"]
    feed = {"x": np.full((2, 4), 0.5, np.float32)}
    np.testing.assert_allclose(outputs_of(program, feed)[0], outputs_of(plain, feed)[0], rtol=2e-2, atol=2e-2)


def test_results_that_are_lowered_still_stop_and_carry_gradients():
    x = static.data("x", [2, 4])
    hidden = static.nn.fc(x, size=4)
    y = onnxgrad.mean(static.nn.fc(hidden, size=1))
    program = static.default_main_program()
    to_mixed_precision(program)
    (g,) = onnxgrad.gradients(y, hidden)
    assert g is not None and g.dtype == hidden.dtype == "float16"
    first = program.parameters[0]
    assert onnxgrad.gradients(y, first, no_grad_set=[hidden]) == [None]


def test_other_element_types_are_left_alone():
    x = static.data("x", [2, 4], "float64")
    y = onnxgrad.matmul(x, x, transpose_y=True)
    to_mixed_precision(static.default_main_program())
    assert y.dtype == "float64" and not any(op.type == "Cast" for op in y.block.ops)


def test_twice_is_once_and_another_type_is_refused():
    program = to_mixed_precision(onnxgrad.from_onnx(DIGITS))
    count = len(program.global_block().ops)
    assert len(to_mixed_precision(program).global_block().ops) == count
    with pytest.raises(ArgumentError, match="computes in float16 already"):
        to_mixed_precision(program, "bfloat16")
    again = onnxgrad.from_onnx(onnxgrad.to_onnx(program))
    size = len(again.global_block().ops)
    assert len(to_mixed_precision(again).global_block().ops) == size
    assert "mixed_precision" not in onnxgrad.explain_parameters(program)


def test_arguments_are_checked():
    program = onnxgrad.from_onnx(DIGITS)
    with pytest.raises(ArgumentTypeError, match="Program"):
        to_mixed_precision(DIGITS)
    with pytest.raises(ArgumentError, match="float16"):
        to_mixed_precision(program, "float32")
    with pytest.raises(ArgumentError, match="level"):
        to_mixed_precision(program, level="O9")
    with pytest.raises(ArgumentError, match="lists are for"):
        to_mixed_precision(program, "bfloat16", AutoMixedPrecisionLists())


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_a_branch_that_declares_types_inside_is_lowered_and_written(level):
    text = """<ir_version: 8, opset_import: ["": 17]> f (float[1, 2] x, float[2, 2] w, bool go) => (float[1, 2] y) {
      y = If (go) <then_branch = t () => (float[1, 2] a) <float[1, 2] q, float[1, 2] r> { q = MatMul (x, w) r = Mul (q, q) a = Tanh (r) },
        else_branch = e () => (float[1, 2] b) { b = Sin (x) }> }"""
    program = onnxgrad.from_onnx(onnx.parser.parse_model(text))
    for v in program.inputs[:2]:
        v.stop_gradient = False
    feed = {"x": np.array([[0.5, -0.3]], np.float32), "w": np.array([[1.2, 0.7], [0.2, -0.4]], np.float32)}
    feed |= {"go": np.array(True)}
    plain = program.clone()
    expected = static.Executor().run(plain, feed, onnxgrad.gradients(plain.outputs, plain.inputs[:2]))
    to_mixed_precision(program, level=level)
    onnx.checker.check_model(onnxgrad.to_onnx(program), full_check=True)
    assert "elem_type: 10" in str(onnxgrad.to_onnx(program))
    found = onnxgrad.gradients(program.outputs, program.inputs[:2])
    onnx.checker.check_model(onnxgrad.to_onnx(program, found), full_check=True)
    for a, b in zip(static.Executor().run(program, feed, found), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=5e-3, atol=1e-3)
