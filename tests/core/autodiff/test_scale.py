"""The work of differentiating grows with the program and no faster; counted in calls of functions, which no other load changes."""

from itertools import pairwise

import pytest
from onnx import TensorProto, helper

import onnxgrad as og
from tests.calls import count_calls


def model(nodes, initializers=()):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", None])
    graph = helper.make_graph(nodes, "g", [x], [y], initializer=initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def chain(length):
    names = ["x", *(f"t{i}" for i in range(1, length)), "y"]
    return model([helper.make_node("Tanh", [a], [b]) for a, b in pairwise(names)])


def wide(count):
    parts = [f"t{i}" for i in range(count)]
    return model([*(helper.make_node("Tanh", ["x"], [part]) for part in parts), helper.make_node("Concat", parts, ["y"], axis=1)])


def nested(depth):
    node = helper.make_node("Tanh", [f"v{depth}"], [f"w{depth}"])
    for i in range(depth, 0, -1):
        inputs = [(f"i{i}", TensorProto.INT64, []), (f"c{i}", TensorProto.BOOL, []), (f"v{i}", TensorProto.FLOAT, ["N", 4])]
        outputs = [(f"d{i}", TensorProto.BOOL, []), (f"w{i}", TensorProto.FLOAT, ["N", 4])]
        again = helper.make_node("Identity", [f"c{i}"], [f"d{i}"])
        infos = [[helper.make_tensor_value_info(*info) for info in infos] for infos in (inputs, outputs)]
        body = helper.make_graph([node, again], f"b{i}", *infos)
        source, result = (f"v{i - 1}", f"w{i - 1}") if i > 1 else ("x", "y")
        node = helper.make_node("Loop", ["trips", "", source], [result], body=body)
    return model([node], [helper.make_tensor("trips", TensorProto.INT64, [], [1])])


def calls_of(build, size):
    program = og.from_onnx(build(size))
    program.inputs[0].stop_gradient = False
    return count_calls(lambda: og.gradients(program.outputs, program.inputs))


@pytest.mark.parametrize(("build", "size", "growth"), [(chain, 100, 4.4), (wide, 100, 4.4), (nested, 4, 12)])
def test_four_times_as_much_takes_four_times_the_work(build, size, growth):
    calls_of(build, size)  # fills the memo of inference
    assert calls_of(build, 4 * size) < growth * calls_of(build, size)
