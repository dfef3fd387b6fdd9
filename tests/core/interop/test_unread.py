"""What nobody here reads of a file is written back, also where something has been renamed, copied or trained."""

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto
from onnx.parser import parse_model

import onnxgrad as og
from onnxgrad.core.interop.messages import unread

TEXT = """<ir_version: 11, opset_import: ["": 21, "own": 1]> f (float[N, 2] x, bool c) => (float[N, 2] y)
    <float[2, 2] w = {1, 2, 3, 4}> {
    m = MatMul(x, w)  h = own.twice <scale: float = 2.0> (m)
    y = If (c) <then_branch = t () => (float[N, 2] a) { a = Neg(h) }, else_branch = e () => (float[N, 2] b) { b = LeakyRelu <alpha = 0.1> (h) }> }
    <domain: "own", opset_import: ["": 21]> twice <scale> (p) => (q) { k = Constant <value_float: float = @scale> ()  q = Mul(p, k) }"""
KINDS = ("ModelProto", "GraphProto", "NodeProto", "AttributeProto", "FunctionProto", "ValueInfoProto", "TensorProto")
# Field 1000 in each way that the wire format has: a number, 8 bytes, a text, a group with a number, 4 bytes.
FUTURE = b"\xc0\x3e\x96\x01" + b"\xc1\x3e12345678" + b"\xc2\x3e\x06future" + b"\xc3\x3e\x08\x07\xc4\x3e" + b"\xc5\x3e1234"


def messages(message):
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in [value] if hasattr(value, "ListFields") else value:
                yield from messages(inner)


def marked():
    """A model whose messages all have fields that no onnx knows yet, and devices"""
    model = parse_model(TEXT)
    model.configuration.add(name="two", num_devices=2)
    for message in list(messages(model)):
        if message.DESCRIPTOR.name in KINDS:
            message.MergeFromString(FUTURE)
    for node in (*model.graph.node, *model.functions[0].node):
        devices = node.device_configurations.add(configuration_id="two", pipeline_stage=1)
        for name in (*node.input, *node.output):
            devices.sharding_spec.add(tensor_name=name, device=[0, 1])
    return ModelProto.FromString(model.SerializeToString())


def counts(model):
    """How many messages of each kind have the fields of the future"""
    marks = []
    for message in messages(model):
        if message.DESCRIPTOR.name in KINDS and unread(message).endswith(FUTURE):
            marks.append(message.DESCRIPTOR.name)
    return {kind: marks.count(kind) for kind in KINDS}


def test_the_example_has_every_kind():
    assert min(counts(marked()).values()) > 0


def test_a_file_is_written_back_as_it_was():
    model = marked()
    written = og.to_onnx(og.from_onnx(model))
    assert counts(written) == counts(model)
    assert [n.device_configurations for n in written.graph.node] == [n.device_configurations for n in model.graph.node]


def test_a_clone_keeps_it():
    model = marked()
    assert counts(og.to_onnx(og.from_onnx(model).clone())) == counts(model)


def test_bytes_of_a_program_keep_it():
    program = og.static.Program.parse_from_string(og.from_onnx(marked()).serialize_to_string())
    found = counts(ModelProto.FromString(program.serialize_to_string()))
    assert found["NodeProto"] >= 4 and found["AttributeProto"] >= 3 and found["ModelProto"] == 1


def test_devices_name_tensors_as_they_are_called_now():
    program = og.from_onnx(marked())
    block = program.global_block()
    block.vars["x"].name, block.vars["m"].name = "image", "product"
    written = og.to_onnx(program)
    node = next(n for n in written.graph.node if n.op_type == "MatMul")
    assert [s.tensor_name for s in node.device_configurations[0].sharding_spec] == ["image", "w", "product"]
    infos = {v.name: unread(v) for v in written.graph.input}
    assert infos["image"] == FUTURE


def test_a_trained_weight_keeps_what_the_file_says_of_it():
    model = marked()
    model.graph.initializer[0].doc_string = "of the first layer"
    program = og.from_onnx(model)
    program.parameters[0].set_value(np.ones((2, 2), np.float32))
    tensor = og.to_onnx(program).graph.initializer[0]
    assert tensor.doc_string == "of the first layer" and unread(tensor).endswith(FUTURE)
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor), 1)


def test_gradients_are_written_beside_it():
    program = og.from_onnx(marked())
    (x,) = [v for v in program.inputs if v.name == "x"]
    x.stop_gradient = False
    grads = og.gradients(list(program.outputs), [x])
    found = counts(og.to_onnx(program, [*program.outputs, *grads]))
    assert found["NodeProto"] >= 4 and found["GraphProto"] >= 3 and found["ModelProto"] == 1
    feed = {"x": np.ones((3, 2), np.float32), "c": np.array(True)}
    np.testing.assert_allclose(og.Executor().run(program, feed, grads)[0], np.tile([-6, -14], (3, 1)))


@pytest.mark.parametrize("content", [b"", b"\x08\x01"])
def test_nothing_unread_is_nothing(content):
    assert unread(TensorProto.FromString(content)) == b""
