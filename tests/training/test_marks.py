"""Marks in the metadata of a file, which anybody may have written: what they are on is looked at before it is taken out."""

from contextlib import nullcontext

import numpy as np
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

import onnxgrad as og
from onnxgrad.errors import ModelError, UnknownName
from onnxgrad.training import add_lora, insert_batch_norm, insert_dropout, merge_lora
from onnxgrad.training.surgery.batch_norm import fold_added_batch_norm
from onnxgrad.training.surgery.heads import remove_added_dropout
from tests.training.small import data, model

X = {"x": data()["x"]}


def outputs(program):
    return og.Executor().run(program, X, program.outputs)[0]


def with_branches(times=1):
    program = og.from_onnx(model())
    for seed in range(times):
        for name in add_lora(program, "*", rank=2, seed=seed):
            v = program.find(name)
            v.set_value(np.random.default_rng(seed).normal(size=v.static_shape).astype("f4"))
    return program


def node(message, output):
    return next(n for n in message.graph.node if output in n.output)


def by_kind(message, *kinds):
    return [n for n in message.graph.node if n.op_type in kinds and n.metadata_props]


class TestLora:
    @pytest.mark.parametrize("times", [1, 2, 3])
    def test_branches_of_one_layer_are_all_merged(self, times):
        program = with_branches(times)
        merged = merge_lora(og.from_onnx(og.to_onnx(program)))
        assert [op.type for op in merged.global_block().ops] == [op.type for op in og.from_onnx(model()).global_block().ops]
        np.testing.assert_allclose(outputs(merged), outputs(program), rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(lambda m, low, up, mul, add: low.input.__setitem__(0, "active"), id="rows"),
            pytest.param(lambda m, low, up, mul, add: setattr(up, "op_type", "Add"), id="kind"),
            pytest.param(lambda m, low, up, mul, add: mul.input.__setitem__(1, mul.input[0]), id="scale"),
            pytest.param(lambda m, low, up, mul, add: add.input.reverse(), id="order"),
            pytest.param(lambda m, low, up, mul, add: low.ClearField("metadata_props"), id="mark"),
            pytest.param(lambda m, low, up, mul, add: m.graph.output.add(name=low.output[0]), id="read"),
            pytest.param(lambda m, low, up, mul, add: add.input.__setitem__(1, add.input[0]), id="none"),
            pytest.param(
                lambda m, low, up, mul, add: (up.ClearField("input"), setattr(up, "op_type", "RandomNormal")), id="random"
            ),
        ],
    )
    def test_a_mark_on_something_else(self, change):
        message = og.to_onnx(with_branches())
        change(message, *by_kind(message, "MatMul")[2:], by_kind(message, "Mul")[1], by_kind(message, "Add")[1])
        for node in message.graph.node:
            if node.op_type == "RandomNormal":
                node.attribute.add(name="shape", type=7, ints=[1])
        with pytest.raises(ModelError, match=r"the LoRA branch at Add .* is not as add_lora made it"):
            merge_lora(og.from_onnx(message))

    def test_shapes_that_do_not_fit_the_weight(self):
        message = og.to_onnx(with_branches())
        for tensor in message.graph.initializer:
            if tensor.name == "head.weight.lora_B":
                tensor.CopyFrom(numpy_helper.from_array(np.ones((2, 1), "f4"), tensor.name))
        with pytest.raises(ModelError, match="is not as add_lora made it"):
            merge_lora(og.from_onnx(message))

    def test_a_weight_behind_a_transpose_that_moves_nothing(self):
        message = model()
        gemm = message.graph.node[-1]
        turned = message.graph.node.add(op_type="Transpose", input=[gemm.input[1]], output=["same"])
        turned.attribute.add(name="perm", type=7, ints=[0, 1])
        gemm.input[1] = "same"
        nodes = list(message.graph.node)
        del message.graph.node[:]
        message.graph.node.extend([nodes[-1], *nodes[:-1]])
        program = og.from_onnx(message)
        for name in add_lora(program, "head*", rank=2):
            v = program.find(name)
            v.set_value(np.random.default_rng(0).normal(size=v.static_shape).astype("f4"))
        np.testing.assert_allclose(outputs(merge_lora(program)), outputs(program), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dims", [[3], [4, 0], [0, 4]])
@pytest.mark.parametrize("kind", ["Conv", "MatMul"])
def test_a_weight_that_can_hold_no_branch_is_no_layer(kind, dims):
    elements = "" if 0 in dims else "1, 2, 3"
    text = (
        f'<ir_version: 8, opset_import: ["": 17]> f (float[N, M] x) => (y) <float{dims} w = {{{elements}}}> {{ y = {kind}(x, w) }}'
    )
    with pytest.raises(UnknownName, match="There are: none"):
        add_lora(og.from_onnx(parse_model(text)))


def test_groups_that_do_not_divide_a_weight():
    text = '<ir_version: 8, opset_import: ["": 17]> f (float[N, 3, 4, 4] x) => (y) <float[4, 3, 1, 1] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}>'
    with pytest.raises(UnknownName, match="There are: none"):
        add_lora(og.from_onnx(parse_model(text + "{ y = Conv <group = 3> (x, w) }")))


class TestAdded:
    def test_a_mark_of_dropout_on_something_else(self):
        message = model()
        node(message, "active").metadata_props.add(key="onnxgrad.added", value="dropout")
        with pytest.raises(ModelError, match=r"Relu \(-> active\) is marked as added by insert_dropout"):
            remove_added_dropout(og.from_onnx(message))

    def test_a_marked_dropout_that_is_an_output(self):
        program = og.from_onnx(model())
        insert_dropout(program, "active", 0.5)
        message = og.to_onnx(program)
        message.graph.output.add(name=by_kind(message, "Dropout")[0].output[0])
        with pytest.raises(ModelError, match="is marked as added by insert_dropout"):
            remove_added_dropout(og.from_onnx(message))

    def test_a_mark_on_an_operator_without_operands(self):
        text = '<ir_version: 8, opset_import: ["": 17]> f () => (float[2] y) { x = RandomNormal <shape = [2]> ()  y = Neg(x) }'
        for kind, error in (("dropout", "is marked as added"), ("batch_norm", None)):
            message = parse_model(text)
            message.graph.node[0].metadata_props.add(key="onnxgrad.added", value=kind)
            program = og.from_onnx(message)
            fold_added_batch_norm(program)
            with pytest.raises(ModelError, match=error) if error else nullcontext():
                remove_added_dropout(program)

    def test_a_mark_of_batch_norm_on_something_else_stays(self):
        message = model()
        node(message, "active").metadata_props.add(key="onnxgrad.added", value="batch_norm")
        program = og.from_onnx(message)
        before = outputs(program)
        fold_added_batch_norm(program)
        np.testing.assert_array_equal(outputs(program), before)

    def test_a_marked_batch_norm_that_is_an_output_keeps_its_name(self):
        message = model()
        node(message, "normal").metadata_props.add(key="onnxgrad.added", value="batch_norm")
        message.graph.output.add(name="normal")
        program = og.from_onnx(message)
        executor = og.Executor()
        before = executor.run(program, X, program.outputs)
        fold_added_batch_norm(program)
        assert "BatchNormalization" not in [op.type for op in program.global_block().ops]
        for found, wanted in zip(executor.run(program, X, program.outputs), before, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)

    def test_statistics_of_another_length_stay(self):
        message = model()
        for tensor in message.graph.initializer:
            if tensor.name == "body.mean":
                tensor.CopyFrom(numpy_helper.from_array(np.ones(5, "f4"), tensor.name))
        program = og.from_onnx(message)
        node_of = next(op for op in program.global_block().ops if op.type == "BatchNormalization")
        node_of.metadata = {"onnxgrad.added": "batch_norm"}
        fold_added_batch_norm(program)
        assert node_of in program.global_block().ops


def test_what_was_added_is_taken_out_of_a_file_too():
    text = """<ir_version: 8, opset_import: ["": 17]> f (float[N, 1, 6, 6] x) => (float[N, 2, 4, 4] y)
        <float[2, 1, 3, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 8, 7, 6, 5, 4, 3, 2, 1}> { c = Conv(x, w)  y = Relu(c) }"""
    program = og.from_onnx(parse_model(text))
    feed = {"x": np.random.default_rng(0).random((4, 1, 6, 6)).astype("f4")}
    wanted = og.Executor().run(program, feed, program.outputs)[0]
    insert_batch_norm(program, None, feed)
    insert_dropout(program, "c", 0.5)
    read = og.from_onnx(og.to_onnx(program))
    assert len(read.global_block().ops) == 4
    remove_added_dropout(read)
    fold_added_batch_norm(read)
    assert [op.type for op in read.global_block().ops] == ["Conv", "Relu"]
    np.testing.assert_allclose(og.Executor().run(read, feed, read.outputs)[0], wanted, rtol=1e-4, atol=1e-4)
