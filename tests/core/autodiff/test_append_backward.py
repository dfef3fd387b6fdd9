"""append_backward and gradients behave as Paddle documents them."""

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import errors, static


def embedding_program():
    """The documented example: its loss, and the result of the embedding."""
    x = static.data("x", [None, 13], "int64")
    y = static.data("y", [None, 1], "float32")
    x_emb = static.nn.embedding(x, size=[100, 256])
    y_predict = static.nn.fc(x=x_emb, size=1, activation=None, name="my_fc")
    return paddle.mean(F.square_error_cost(input=y_predict, label=y)), x_emb


def names(pairs):
    return [(p.name, g.name) for p, g in pairs]


EMBEDDING, WEIGHT, BIAS = (
    ("embedding_0.w_0", "embedding_0.w_0@GRAD"),
    ("my_fc.w_0", "my_fc.w_0@GRAD"),
    ("my_fc.b_0", "my_fc.b_0@GRAD"),
)


class TestDocumentedCalls:
    def weights(self, loss):
        return [p for p in loss.block.program.global_block().all_parameters() if "w_" in p.name]

    def test_all_parameters(self):
        loss, _ = embedding_program()
        assert names(static.append_backward(loss=loss)) == [EMBEDDING, WEIGHT, BIAS]

    def test_parameter_list_of_variables(self):
        loss, _ = embedding_program()
        assert names(static.append_backward(loss=loss, parameter_list=self.weights(loss))) == [EMBEDDING, WEIGHT]

    def test_parameter_list_of_names(self):
        loss, _ = embedding_program()
        listed = [p.name for p in self.weights(loss)]
        assert names(static.append_backward(loss=loss, parameter_list=listed)) == [EMBEDDING, WEIGHT]

    def test_no_grad_set_of_a_variable(self):
        loss, x_emb = embedding_program()
        assert names(static.append_backward(loss=loss, no_grad_set={x_emb})) == [WEIGHT, BIAS]

    def test_no_grad_set_of_a_name(self):
        loss, _ = embedding_program()
        assert names(static.append_backward(loss=loss, no_grad_set={"my_fc.b_0"})) == [EMBEDDING, WEIGHT]

    def test_everything_in_no_grad_set(self):
        loss, x_emb = embedding_program()
        all_weights = self.weights(loss)
        pairs = static.append_backward(loss=loss, parameter_list=all_weights, no_grad_set={x_emb, "my_fc.b_0", *all_weights})
        assert pairs == []

    def test_in_sequence_on_one_program_names_carry_a_prefix(self):
        loss, _ = embedding_program()
        static.append_backward(loss)
        assert names(static.append_backward(loss, ["my_fc.w_0"])) == [("my_fc.w_0", "grad/grad/my_fc.w_0@GRAD")]
        assert names(static.append_backward(loss, ["my_fc.w_0"])) == [("my_fc.w_0", "grad/grad/grad/my_fc.w_0@GRAD")]

    def test_conv_relu_conv_relu_gradients(self):
        x = static.data(name="x", shape=[None, 2, 8, 8], dtype="float32")
        x.stop_gradient = False
        y = static.nn.conv2d(x, 4, 1, bias_attr=False)
        y = F.relu(y)
        y = static.nn.conv2d(y, 4, 1, bias_attr=False)
        y = F.relu(y)
        (z,) = static.gradients([y], x)
        assert (z.name, z.shape) == ("x@GRAD", (-1, 2, 8, 8))

    def test_example_runs(self):
        loss, _ = embedding_program()
        pairs = static.append_backward(loss)
        executor = static.Executor()
        executor.run(static.default_startup_program())
        feed = {"x": np.arange(26).reshape(2, 13), "y": np.ones((2, 1), np.float32)}
        shapes = [g.shape for g in executor.run(feed=feed, fetch_list=[g for _, g in pairs])]
        assert shapes == [(100, 256), (3328, 1), (1,)]


def evaluate(feed, *fetches):
    return static.Executor().run(fetches[0].block.program, feed, list(fetches))


@pytest.fixture
def x():
    v = static.data("x", [3])
    v.stop_gradient = False
    return v


X = np.array([1.0, 2.0, 3.0], np.float32)


class TestValues:
    def test_gradients_of_gradients(self, x):
        (first,) = static.gradients(x * x * x, x)
        (second,) = static.gradients(first, x)
        (third,) = static.gradients(second, x)
        values = evaluate({"x": X}, first, second, third)
        np.testing.assert_allclose(values, [3 * X**2, 6 * X, np.full(3, 6.0)])
        assert second.name == "grad/grad/x@GRAD"

    def test_dependent_targets_are_both_seeded(self, x):
        y = x * x
        (g,) = static.gradients([y, y * 3.0], x)
        np.testing.assert_allclose(evaluate({"x": X}, g)[0], 8 * X)

    def test_target_that_is_an_input_has_gradient_one(self, x):
        (g,) = static.gradients(x, x)
        np.testing.assert_array_equal(evaluate({"x": X}, g)[0], np.ones(3))

    def test_cotangent_weighs_the_target(self, x):
        c = static.data("c", [3])
        (g,) = static.gradients(x * x, x, target_gradients=c)
        np.testing.assert_allclose(evaluate({"x": X, "c": X}, g)[0], 2 * X * X)

    def test_inner_variable_is_differentiated(self, x):
        h = x * 2.0
        (g,) = static.gradients(h * h, h)
        assert g.name == f"{h.name}@GRAD"
        np.testing.assert_allclose(evaluate({"x": X}, g)[0], 4 * X)

    def test_one_gradient_for_two_inputs_has_two_names(self, x):
        y = static.data("y", [3])
        y.stop_gradient = False
        gx, gy = static.gradients(x + y, [x, y])
        assert (gx.name, gy.name) == ("x@GRAD", "y@GRAD")

    def test_variable_used_many_times_adds_up(self, x):
        (g,) = static.gradients(x * 1.5 + paddle.exp(x) + x * x + x, x)
        np.testing.assert_allclose(evaluate({"x": X}, g)[0], 1.5 + np.exp(X) + 2 * X + 1, rtol=1e-6)

    def test_loss_of_several_elements_is_summed(self, x):
        static.append_backward(x * x, [x])
        np.testing.assert_allclose(evaluate({"x": X}, x.block.var("x@GRAD"))[0], 2 * X)

    def test_seed_read_only_inside_a_branch_is_written(self):
        text = """<ir_version: 9, opset_import: ["": 18]> g (float[2] x, bool c) => (float[2] y) {
            y = If (c) < then_branch = t () => (float[2] u) { u = Exp (x) }, else_branch = e () => (float[2] v) { v = Neg (x) } > }"""
        program = paddle.from_onnx(onnx.parser.parse_model(text))
        program.inputs[0].stop_gradient = False
        (g,) = static.gradients(program.outputs, program.inputs[:1])
        for condition, expected in ((True, np.exp(X[:2])), (False, [-1.0, -1.0])):
            feed = {"x": X[:2], "c": np.array(condition)}
            np.testing.assert_allclose(static.Executor().run(program, feed, [g])[0], expected, rtol=1e-6)

    def test_many_rows_into_few_is_exact_on_several_threads(self):
        table = static.create_parameter([16, 64], "float32", name="table")
        ids = static.data("ids", [None], "int64")
        (g,) = static.gradients(table[ids], table)
        executor = static.Executor()
        executor.run(static.default_startup_program())
        sampled = np.random.default_rng(0).integers(0, 16, 4096)
        for _ in range(10):
            (found,) = executor.run(feed={"ids": sampled}, fetch_list=[g])
            np.testing.assert_array_equal(found, np.bincount(sampled, minlength=16)[:, None] * np.ones((1, 64)))


class TestStopping:
    def test_leaf_with_stop_gradient_gives_none(self):
        x, y = static.data("x", [3]), static.data("y", [3])
        y.stop_gradient = False
        assert [g is None for g in static.gradients(x * y, [x, y])] == [True, False]

    def test_leaf_can_be_opened_after_operators_exist(self):
        x = static.data("x", [3])
        y = x * x
        x.stop_gradient = False
        assert static.gradients(y, x)[0] is not None

    def test_cut_at_an_inner_variable(self, x):
        h = x * x
        h.stop_gradient = True
        (g,) = static.gradients(h * x, x)
        np.testing.assert_allclose(evaluate({"x": X}, g)[0], X * X)

    def test_detach(self, x):
        (g,) = static.gradients((x * x).detach() * x, x)
        np.testing.assert_allclose(evaluate({"x": X}, g)[0], X * X)

    def test_unaffected_input_gives_none(self, x):
        y = static.data("y", [3])
        y.stop_gradient = False
        assert static.gradients(x * x, [y]) == [None]

    def test_input_in_no_grad_set_gives_none(self, x):
        assert static.gradients(x * x, [x], no_grad_set={"x"}) == [None]

    def test_gradient_through_rounding_is_zero_and_through_integers_absent(self, x):
        (zero,) = static.gradients(x // 2.0, [x])
        assert zero.name == "x@GRAD"
        np.testing.assert_array_equal(static.Executor().run(feed={"x": np.ones(x.shape, np.float32)}, fetch_list=[zero])[0], 0.0)
        assert static.gradients(x.astype("int64").astype("float32"), [x]) == [None]
        assert static.gradients(x.block.build.RandomNormalLike(x), [x]) == [None]

    def test_frozen_parameter_is_not_returned(self):
        x = static.data("x", [2, 3])
        y = static.nn.fc(x, 2, weight_attr=paddle.ParamAttr(trainable=False))
        assert [p.name for p, _ in static.append_backward(paddle.mean(y))] == ["fc_0.b_0"]

    def test_unused_parameter_is_dropped(self):
        static.create_parameter([2], "float32", name="idle")
        x = static.data("x", [2, 3])
        pairs = static.append_backward(paddle.mean(static.nn.fc(x, 2)))
        assert [p.name for p, _ in pairs] == ["fc_0.w_0", "fc_0.b_0"]


class TestCallbacks:
    def test_run_after_each_operator_but_the_seed(self):
        loss, _ = embedding_program()
        seen = []

        def callback(block, context):
            op = context["__current_op_desc__"]
            assert block.ops[-1] is op
            seen.append(op)

        before = len(loss.block.ops)
        static.append_backward(loss, callbacks=[callback])
        assert seen == loss.block.ops[before:]

    def test_context_is_complete_and_maps_gradients_to_variables(self):
        loss, _ = embedding_program()
        contexts = []
        static.append_backward(loss, callbacks=[lambda block, context: contexts.append(set(context))])
        assert {"my_fc.w_0@GRAD", "my_fc.b_0@GRAD", "embedding_0.w_0@GRAD"} <= contexts[0]
        assert len({frozenset(context) for context in contexts}) == 1

    def test_failing_callback_leaves_the_program_as_it_was(self):
        loss, _ = embedding_program()
        before = str(loss.block.program)

        def callback(block, context):
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            static.append_backward(loss, callbacks=[callback])
        assert str(loss.block.program) == before
        assert names(static.append_backward(loss)) == [EMBEDDING, WEIGHT, BIAS]

    def test_must_be_a_list_of_functions(self):
        loss, _ = embedding_program()
        with pytest.raises(TypeError):
            static.append_backward(loss, callbacks=print)
        with pytest.raises(ValueError, match="called"):
            static.append_backward(loss, callbacks=[3])


class TestErrors:
    @pytest.mark.parametrize("kind", [AssertionError, TypeError])
    def test_loss_must_be_a_variable(self, kind):
        with pytest.raises(kind):
            static.append_backward(3.0)

    def test_loss_must_be_computed(self):
        with pytest.raises(ValueError, match="no operator computes"):
            static.append_backward(static.data("x", [1]))

    @pytest.mark.parametrize("argument", ["parameter_list", "no_grad_set"])
    def test_sets_are_checked(self, argument):
        loss, _ = embedding_program()
        with pytest.raises(TypeError, match=argument):
            static.append_backward(loss, **{argument: "my_fc.w_0"})
        with pytest.raises(TypeError, match=argument):
            static.append_backward(loss, **{argument: [3]})

    def test_number_of_cotangents(self, x):
        with pytest.raises(ValueError, match="2 target_gradients"):
            static.gradients(x * x, x, [x, x])

    def test_shape_of_cotangent(self, x):
        with pytest.raises(ValueError, match="shape"):
            static.gradients(x * x, x, static.data("c", [4]))

    def test_targets_must_be_variables(self):
        with pytest.raises(TypeError, match="targets"):
            static.gradients(3, [])

    def test_unsupported_operator_is_named_and_nothing_changes(self, x):
        x.block.program.set_opset_version(3, "ai.onnx.ml")
        y = x.block.build.emit("Normalizer", [x * 2.0], {}, domain="ai.onnx.ml")
        before = str(x.block.program)
        with pytest.raises(
            NotImplementedError, match=r"Normalizer \(-> normalizer_0\.tmp_0\): no gradient, because .* Set stop_gradient"
        ):
            static.gradients(y, x)
        assert str(x.block.program) == before

    def test_unknown_domain_is_named(self):
        text = """<ir_version: 9, opset_import: ["": 18, "com.acme": 1]>
            g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { h = Mul (x, w) y = com.acme.Frobnicate (h) }"""
        program = paddle.from_onnx(onnx.parser.parse_model(text))
        program.outputs[0].type = program.inputs[0].type
        with pytest.raises(errors.UnsupportedGradient, match=r"com\.acme:Frobnicate.*@onnxgrad\.gradient"):
            static.append_backward(program.outputs[0])


def test_nothing_dead_is_emitted():
    loss, _ = embedding_program()
    static.append_backward(loss, ["my_fc.b_0"])
    block = loss.block
    read = {id(v) for op in block.ops for v in op.inputs}
    dead = [op for op in block.ops if not any(id(v) in read for v in op.outputs)]
    assert [v.name for op in dead for v in op.outputs] == [loss.name, "my_fc.b_0@GRAD"]


def test_roles_travel_through_a_file(tmp_path):
    loss, _ = embedding_program()
    pairs = static.append_backward(loss)
    static.Executor().run(static.default_startup_program())
    paddle.save_onnx(loss.block.program, tmp_path / "m.onnx", [loss, *(g for _, g in pairs)])
    again = paddle.from_onnx(tmp_path / "m.onnx")
    roles = [op.role.name for op in again.global_block().ops]
    assert roles == sorted(roles, reverse=True)
    assert {"FORWARD", "BACKWARD"} == set(roles)


class TestCheckpoints:
    LAYERS = 12

    def build(self, checkpoints, width=8):
        x = static.data("x", [None, width])
        h, kept = x, []
        for i in range(self.LAYERS):
            for _ in range(4):
                h = paddle.tanh(h)
            h = static.nn.fc(
                h, width, name=f"layer{i}", weight_attr=paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(0.05))
            )
            if i % 3 == 2:
                kept.append(h)
        loss = paddle.mean(h)
        pairs = static.append_backward(loss, checkpoints=kept[:-1] if checkpoints else None)
        return loss, pairs

    def run(self, checkpoints):
        main, startup = static.Program(), static.Program()
        with paddle.state.fresh_names(), static.program_guard(main, startup), static.scope_guard(static.Scope()):
            loss, pairs = self.build(checkpoints)
            executor = static.Executor()
            executor.run(startup)
            feed = {"x": np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)}
            return main, executor.run(main, feed, [loss, *(g for _, g in pairs)])

    def test_values_are_those_without(self):
        _, plain = self.run(False)
        _, recomputed = self.run(True)
        for a, b in zip(plain, recomputed, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-9)

    def test_gradient_names_are_unchanged_and_copies_are_marked(self):
        main, _ = self.run(True)
        assert "layer0.w_0@GRAD" in main.global_block().vars
        assert any(name.endswith(".subprog_0") for name in main.global_block().vars)

    def test_onnxruntime_does_not_merge_the_copies(self, tmp_path):
        counts = {}
        for checkpoints in (False, True):
            main, startup = static.Program(), static.Program()
            with paddle.state.fresh_names(), static.program_guard(main, startup), static.scope_guard(static.Scope()):
                loss, pairs = self.build(checkpoints)
                static.Executor().run(startup)
                model = paddle.to_onnx(main, [loss, *(g for _, g in pairs)])
            options = onnxruntime.SessionOptions()
            options.optimized_model_filepath = str(tmp_path / f"{checkpoints}.onnx")
            options.log_severity_level = 4
            onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            optimised = onnx.load(options.optimized_model_filepath)
            # Some are fused into the Gemm before them.
            counts[checkpoints] = sum(node.op_type in ("Tanh", "FusedGemm") for node in optimised.graph.node)
        assert counts[False] == 4 * self.LAYERS
        # Everything before the last checkpoint (nine of the twelve layers) runs twice.
        assert counts[True] > 1.5 * counts[False]
