"""Who wrote an operator: said by rules, kept by copies and files, and never believed alone."""

import json

import numpy as np
import onnx
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.interop.program_bytes import parse_program, write_program
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.origin import FILTER_GRADIENT, LESS_ONE_AT_LABEL, PIECES, Origin, is_piece, is_written_for
from onnxgrad.errors import ModelError

RANDOM = np.random.default_rng(0)


def convolution():
    """A step of one convolution over images of known size"""
    program = static.Program()
    with static.program_guard(program, static.Program()):
        x = static.data("x", [8, 4, 6, 6])
        loss = paddle.mean(paddle.nn.functional.relu(static.nn.conv2d(x, 8, 3)))
        paddle.optimizer.SGD(0.1).minimize(loss)
    return program, loss


def test_a_rule_names_itself_its_piece_and_the_result():
    program, _ = convolution()
    (conv,) = [op for op in program.global_block().ops if op.type == "Conv" and op.role is Role.FORWARD]
    (gradient,) = [op for op in program.global_block().ops if is_piece(op, FILTER_GRADIENT)]
    assert gradient.origin == Origin("Conv", FILTER_GRADIENT, conv.outputs[0])
    assert conv.origin is None
    written = [op for op in program.global_block().ops if op.role is Role.BACKWARD and is_written_for(op, "Relu")]
    assert {op.type for op in written} == {"Cast", "Greater", "Mul"}


def test_two_losses_of_one_tensor_are_told_apart():
    program = static.Program()
    with static.program_guard(program):
        scores = static.data("scores", [6, 5])
        scores.stop_gradient = False
        build = program.global_block().build
        first, second = (build.SoftmaxCrossEntropyLoss(scores, static.data(name, [6], "int64")) for name in ("first", "second"))
        static.gradients([first, second], [scores])
    pieces = [op for op in program.global_block().ops if is_piece(op, LESS_ONE_AT_LABEL)]
    assert {op.origin.of for op in pieces} == {first, second}


def test_copies_and_expansions_keep_it():
    program = static.Program()
    with static.program_guard(program, static.Program()):
        h = static.nn.batch_norm(static.data("x", [4, 3, 5, 5]))
        loss = paddle.mean(paddle.square(h))
        paddle.optimizer.SGD(0.1).minimize(loss)
    graph = compile(program, [loss], state_as_inputs=True)
    (layer,) = [op for op in graph.operators if op.type == "BatchNormalization"]
    pieces = [op for op in graph.operators if op.origin is not None and op.origin.piece.startswith("batch")]
    assert {op.origin.piece for op in pieces} == {"batch mean", "batch variance"}
    assert {op.origin.of for op in pieces} == {layer.outputs[0]}
    copy = program.clone()
    of = [op.origin.of for op in copy.global_block().ops if op.origin is not None and op.origin.of is not None]
    assert of and all(v.block is copy.global_block() for v in of)


def test_a_saved_program_has_the_same_forms():
    program, loss = convolution()
    again = parse_program(write_program(program))
    graphs = [
        compile(each, [each.find(loss.name)], "cpu", {"x": (8, 4, 6, 6)}, state_as_inputs=True, ordered=True)
        for each in (program, again)
    ]
    assert [str(each) for each in graphs[0].rewrites] == [str(each) for each in graphs[1].rewrites]
    assert "chwn" in {each.name for each in graphs[1].rewrites} | {"chwn" for each in graphs[1].rewrites if each.name == "hwnc"}


@pytest.mark.parametrize("text", ["no JSON", "[]", '["Conv", "filter gradient"]', '["Conv", 1, "y"]', "[" * 100_000])
def test_a_damaged_origin_is_refused_by_name(text):
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            [onnx.helper.make_node("Exp", ["x"], ["y"], name="the node")],
            "g",
            [onnx.helper.make_tensor_value_info("x", 1, [2])],
            [onnx.helper.make_tensor_value_info("y", 1, [2])],
        )
    )
    model.graph.node[0].metadata_props.add(key="onnxgrad.origin", value=text)
    with pytest.raises(ModelError, match=r"the node.*its origin"):
        paddle.from_onnx(model)
    model.graph.node[0].metadata_props[0].key = "onnxgrad.reduction"
    with pytest.raises(ModelError, match=r"the node.*its reduction"):
        paddle.from_onnx(model)


def test_a_result_that_a_file_does_not_have_is_no_result():
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y) { y = Exp (x) }"""
    model = onnx.parser.parse_model(text)
    model.graph.node[0].metadata_props.add(key="onnxgrad.origin", value=json.dumps(["Conv", FILTER_GRADIENT, "lost"]))
    (op,) = paddle.from_onnx(model).global_block().ops
    assert op.origin == Origin("Conv", FILTER_GRADIENT, None)
    (node,) = paddle.to_onnx(paddle.from_onnx(model)).graph.node
    assert [(entry.key, entry.value) for entry in node.metadata_props] == [
        ("onnxgrad.origin", json.dumps(["Conv", FILTER_GRADIENT, ""]))
    ]


FOOLED = {
    "conv": """f (float[8, 4, 6, 6] x, float[5, 4, 3, 3] w) => (float[8, 5, 4, 4] y) { y = Conv (x, w) }""",
    "swapped conv": """f (float[4, 8, 6, 6] x, float[4, 5, 3, 3] w) => (float[8, 5, 4, 4] y) {
        a = Transpose <perm = [1, 0, 2, 3]> (x)  b = Transpose <perm = [1, 0, 2, 3]> (w)  y = Conv (a, b) }""",
    "scatter": """f (float[8, 16] x, int64[3, 16] i, float[3, 16] u) => (float[8, 16] y) {
        y = ScatterElements <axis = 0, reduction = "add"> (x, i, u) }""",
    "scatter into zeros": """f (int64[3, 1] rows, float[3, 16] u) => (float[8, 16] y) <float zero = {0}, int64[2] s = {8, 16}, int64[2] t = {3, 16}> {
        z = Expand (zero, s)  i = Expand (rows, t)  y = ScatterElements <axis = 0, reduction = "add"> (z, i, u) }""",
    "scatter into ones": """f (int64[3, 1] rows, float[3, 16] u) => (float[8, 16] y) <float one = {1}, int64[2] s = {8, 16}, int64[2] t = {3, 16}> {
        z = Expand (one, s)  i = Expand (rows, t)  y = ScatterElements <axis = 0, reduction = "add"> (z, i, u) }""",
    "mask": """f (float[8, 16] x) => (bool[8, 16] y) <float low = {-0.5}, float high = {0.5}> {
        c = Clip (x, low, high)  a = GreaterOrEqual (x, low)  b = LessOrEqual (c, high)  y = And (a, b) }""",
    "mean": """f (float[4, 3, 16, 16] x) => (float[1, 3, 1, 1] y, float[3] v) <int64[3] axes = {0, 2, 3}> {
        y = ReduceMean <keepdims = 1> (x, axes)  d = Mul (x, x)  v = ReduceMean <keepdims = 0> (d, axes) }""",
    "probabilities": """f (float[6, 5] x, int64[6] label, int64[6, 1] other) => (float loss, float[6, 5] y) <float[6, 1] u = {-1, -1, -1, -1, -1, -1}> {
        loss = SoftmaxCrossEntropyLoss (x, label)  p = Softmax <axis = 1> (x)
        y = ScatterElements <axis = 1, reduction = "add"> (p, other, u) }""",
}
"""Operators that look, more or less, like pieces of a rule, and are none."""


@pytest.mark.parametrize("provider", ["cpu", "openvino", "webgpu", "cuda"])
@pytest.mark.parametrize("text", FOOLED.values(), ids=FOOLED)
def test_a_false_origin_changes_no_result(text, provider):
    model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["": 21]> ' + text)
    feed = {}
    for v in model.graph.input:
        shape = [d.dim_value for d in v.type.tensor_type.shape.dim]
        is_integer = v.type.tensor_type.elem_type == onnx.TensorProto.INT64
        feed[v.name] = RANDOM.integers(0, 3, shape) if is_integer else RANDOM.normal(size=shape).astype(np.float32)
    expected = onnx.reference.ReferenceEvaluator(model).run(None, feed)
    rules = {
        "Conv",
        "ConvTranspose",
        "MaxPool",
        "Gather",
        "SoftmaxCrossEntropyLoss",
        "Clip",
        "BatchNormalization",
        "Softmax",
        "Relu",
    }
    for piece in PIECES:
        for rule in rules:
            program = paddle.from_onnx(model, parameters=[])
            of = program.global_block().ops[0].outputs[0]
            for op in program.global_block().ops[1:] or program.global_block().ops:
                op.origin, op.role = Origin(rule, piece, of), Role.BACKWARD
            graph = compile(program, program.outputs, provider, {name: v.shape for name, v in feed.items()}, runs=True)
            if not graph.rewrites:
                continue
            found = paddle.testing.evaluate(write_model(graph), feed)
            for a, b in zip(expected, found, strict=True):
                np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5, err_msg=f"{rule}, {piece}: {graph.rewrites}")
