"""Switching between training and inference."""

import numpy as np
import onnx
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static

ONES = np.ones((200, 50), np.float32)


def dropout_program(p=0.3):
    x = static.data("x", [None, 50])
    x.stop_gradient = False
    return x, F.dropout(x, p)


class TestDropout:
    def test_share_and_scale(self):
        _, y = dropout_program()
        (found,) = static.Executor().run(feed={"x": ONES}, fetch_list=[y])
        kept = found != 0
        assert abs(kept.mean() - 0.7) < 4 * np.sqrt(0.3 * 0.7 / ONES.size)
        np.testing.assert_allclose(found[kept], 1 / 0.7, rtol=1e-6)

    def test_neighbours_and_rows_are_independent(self):
        _, y = dropout_program(0.5)
        (found,) = static.Executor().run(feed={"x": ONES}, fetch_list=[y])
        kept = (found != 0).astype(float)
        for a, b in ((kept[:, 1:], kept[:, :-1]), (kept[1:], kept[:-1])):
            assert abs(np.corrcoef(a.reshape(-1), b.reshape(-1))[0, 1]) < 4 / np.sqrt(a.size)

    def test_gradient_has_the_mask_of_the_forward_pass(self):
        x, y = dropout_program()
        (g,) = static.gradients(y, x)
        value, gradient = static.Executor().run(feed={"x": ONES}, fetch_list=[y, g])
        np.testing.assert_array_equal(value, gradient)

    def test_every_run_has_another_mask_and_the_counter_is_state(self):
        _, y = dropout_program()
        executor = static.Executor()
        first, second = (executor.run(feed={"x": ONES}, fetch_list=[y])[0] for _ in range(2))
        assert (first != second).any()
        static.global_scope().set("dropout_step", np.array(0, np.int64))
        (again,) = static.Executor().run(feed={"x": ONES}, fetch_list=[y])
        np.testing.assert_array_equal(again, first)

    def test_programs_in_one_scope_keep_their_own_seeds(self):
        masks = []
        for seed in (0, 5, 0):
            program = static.Program()
            program.random_seed = seed
            with static.program_guard(program):
                _, y = dropout_program()
            static.global_scope().set("dropout_step", np.array(0, np.int64))
            masks.append(static.Executor().run(program, {"x": ONES}, [y])[0] != 0)
        assert (masks[0] == masks[2]).all() and (masks[0] != masks[1]).any()

    def test_a_loaded_program_follows_a_seed_given_later(self):
        text = """<ir_version: 8, opset_import: ["": 13]> g (float[N, 50] x) => (float[N, 50] y) { y = Dropout(x) }"""

        def mask(program):
            program.scope.set("dropout_step", np.array(0, np.int64))
            return paddle.Executor().run(program, {"x": ONES}, program.outputs)[0] != 0

        program = paddle.from_onnx(onnx.parser.parse_model(text)).train()
        first = mask(program)
        program.random_seed = 5
        other = mask(program.train())
        program.scope.set("dropout_seed", np.array(0, np.int64))
        assert (first != other).any()
        np.testing.assert_array_equal(mask(program), first)

    def test_two_nodes_have_different_masks(self):
        x, y = dropout_program()
        other = F.dropout(x, 0.3)
        a, b = static.Executor().run(feed={"x": ONES}, fetch_list=[y, other])
        assert (a != b).any()

    def test_inference_is_the_identity(self):
        _, y = dropout_program()
        program = y.block.program
        test = program.clone(for_test=True)
        np.testing.assert_array_equal(static.Executor().run(test, {"x": ONES}, [y.name])[0], ONES)
        program.eval()
        np.testing.assert_array_equal(static.Executor().run(program, {"x": ONES}, [y])[0], ONES)
        program.train()
        assert (static.Executor().run(program, {"x": ONES}, [y])[0] == 0).any()

    def test_exported_program_keeps_the_operator(self):
        _, y = dropout_program()
        program = y.block.program
        program.global_block().outputs.append(y)
        assert [node.op_type for node in paddle.to_onnx(program).graph.node] == ["Dropout"]


TEXT = """<ir_version: 8, opset_import: ["": 13]> g (float[N, 2, 3] x) => (float[N, 2, 3] y)
    <float[2] s = {1, 2}, float[2] b = {0, 1}, float[2] m = {0, 0}, float[2] v = {1, 1}>
    { y = BatchNormalization <momentum = 0.8> (x, s, b, m, v) }"""


class TestBatchNormalization:
    @pytest.fixture
    def program(self):
        return paddle.from_onnx(onnx.parser.parse_model(TEXT)).train()

    def test_statistics_are_replaced(self, program):
        x = np.random.default_rng(0).normal(3.0, 2.0, (16, 2, 3)).astype(np.float32)
        (y,) = paddle.Executor().run(program, {"x": x}, program.outputs)
        np.testing.assert_allclose(y.mean(axis=(0, 2)), [0.0, 1.0], atol=1e-5)
        np.testing.assert_allclose(program.scope.get("m"), 0.2 * x.mean(axis=(0, 2)), rtol=1e-5)
        np.testing.assert_allclose(program.scope.get("v"), 0.8 + 0.2 * x.var(axis=(0, 2)), rtol=1e-5)

    def test_export_holds_the_new_statistics(self, program):
        x = np.random.default_rng(0).normal(3.0, 2.0, (16, 2, 3)).astype(np.float32)
        paddle.Executor().run(program, {"x": x}, program.outputs)
        model = paddle.to_onnx(program)
        stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        np.testing.assert_array_equal(stored["m"], program.scope.get("m"))
        assert [node.op_type for node in model.graph.node] == ["BatchNormalization"]

    def test_statistics_are_no_parameters(self, program):
        assert [p.name for p in program.all_parameters()] == ["s", "b"]

    def test_evaluation_uses_running_statistics(self, program):
        program.eval()
        x = np.full((1, 2, 3), 4.0, np.float32)
        (y,) = paddle.Executor().run(program, {"x": x}, program.outputs)
        np.testing.assert_allclose(y[0, :, 0], [4.0, 9.0], rtol=1e-4)
        np.testing.assert_array_equal(program.outputs[0].block.var("m").get_value(), [0.0, 0.0])


FROZEN = """<ir_version: 8, opset_import: ["": {opset}]> g (float[N, 2, 3] x) => (float[N, 2, 3] y)
    <float[2] s = {{1, 2}}, float[2] b = {{0, 1}}, float[2] m = {{0.5, -1}}, float[2] v = {{2, 0.5}}, float r = {{0.5}}>
    {{ z = BatchNormalization (x, s, b, m, v)  y = Dropout (z, r) }}"""


@pytest.mark.parametrize("opset", [13, 21])
class TestFrozen:
    X = np.random.default_rng(0).normal(3.0, 2.0, (16, 2, 3)).astype(np.float32)

    def program(self, opset):
        return paddle.from_onnx(onnx.parser.parse_model(FROZEN.format(opset=opset)))

    def test_statistics_are_used_and_kept_while_dropout_trains(self, opset):
        program = self.program(opset).train(batch_norm="frozen")
        y, z = paddle.Executor().run(program, {"x": self.X}, [program.outputs[0], "z"])
        scale, mean = np.array([1.0, 2.0]) / np.sqrt(np.array([2.0, 0.5]) + 1e-5), np.array([0.5, -1.0])
        expected = (self.X - mean[:, None]) * scale[:, None] + np.array([0.0, 1.0])[:, None]
        np.testing.assert_allclose(z, expected, rtol=1e-5)
        assert (y == 0).any()
        np.testing.assert_array_equal(program.global_block().vars["m"].get_value(), [0.5, -1.0])

    def test_gradient_is_that_of_inference(self, opset):
        program = self.program(opset).train(batch_norm="frozen")
        x, z = program.inputs[0], program.global_block().vars["z"]
        x.stop_gradient = False
        scale = program.global_block().vars["s"]
        gx, gs = paddle.gradients([z], [x, scale])
        found, slope = paddle.Executor().run(program, {"x": self.X}, [gx, gs])
        factor = np.array([1.0, 2.0]) / np.sqrt(np.array([2.0, 0.5]) + 1e-5)
        np.testing.assert_allclose(found, np.broadcast_to(factor[:, None], self.X.shape), rtol=1e-5)
        unit = (self.X - np.array([0.5, -1.0])[:, None]) / np.sqrt(np.array([2.0, 0.5]) + 1e-5)[:, None]
        np.testing.assert_allclose(slope, unit.sum(axis=(0, 2)), rtol=1e-4)

    def test_the_choice_can_be_changed(self, opset):
        program = self.program(opset).train(batch_norm="frozen").train()
        (z,) = paddle.Executor().run(program, {"x": self.X}, ["z"])
        np.testing.assert_allclose(z.mean(axis=(0, 2)), [0.0, 1.0], atol=1e-5)
        program.train(batch_norm="frozen")
        copy = program.clone()
        (z,) = paddle.Executor().run(copy, {"x": self.X}, ["z"])
        assert abs(z.mean(axis=(0, 2))).min() > 0.5

    def test_another_word_is_refused(self, opset):
        with pytest.raises(paddle.errors.ArgumentError, match=r"batch_norm is 'train' or 'frozen' here, not 'insert'"):
            self.program(opset).train(batch_norm="insert")


def test_masks_are_numbered_by_position_however_training_forms_are_attached():
    x, flag = static.data("x", [4, 8]), static.data("flag", [], "bool")
    y = x
    for _ in range(3):
        y = F.dropout(F.dropout(y, 0.5, training=False), 0.5)
        y = static.nn.cond(flag, lambda y=y: F.dropout(y, 0.5), lambda y=y: y * 2.0)
    program = x.block.program

    def numbers(of):
        return [op.expansion.number for op in of.global_block().ops if op.expansion is not None]

    assert numbers(program) == [2, 1_000_001, 4, 1_000_002, 6, 1_000_003]
    assert numbers(program.clone()) == numbers(program)
    program.train()
    everything = [1, 2, 1_000_001, 3, 4, 1_000_002, 5, 6, 1_000_003]
    assert numbers(program) == everything
    program.eval()
    assert numbers(program) == [] and not program.updates
    program.train()
    assert numbers(program) == everything
