"""decorate: 16-bit training steps against those in float32, and the loss scale."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.errors import ArgumentError, ArgumentTypeError
from onnxgrad.testing.reference_ops import CORRECTED

CLASSES = 4


def mlp(x):
    return static.nn.fc(static.nn.fc(x, size=16, activation="relu"), size=CLASSES)


def cnn(x):
    image = paddle.reshape(x, [-1, 1, 4, 4])
    hidden = static.nn.batch_norm(static.nn.conv2d(image, num_filters=4, filter_size=3, padding=1), act="relu")
    return static.nn.fc(F.dropout(F.max_pool2d(hidden, 2, 2), 0.25), size=CLASSES)


def build(network, optimizer, **options):
    """(program, loss, decorated optimizer), from the same weights each time"""
    program, startup = static.Program(), static.Program()
    paddle.seed(7)
    startup.random_seed = 7
    with static.program_guard(program, startup), paddle.utils.unique_name.guard():
        x, y = static.data("x", [None, 16]), static.data("y", [None, 1], "int64")
        loss = F.cross_entropy(network(x), y)
        if options:
            optimizer = static.amp.decorate(optimizer, **options)
        optimizer.minimize(loss)
    program.scope = paddle.Scope()
    startup.scope = program.scope
    executor = static.Executor()
    executor.run(startup)
    return program, loss, optimizer, executor


def batches(count, seed=0):
    random = np.random.default_rng(seed)
    centers = random.normal(size=(CLASSES, 16))
    for _ in range(count):
        y = random.integers(0, CLASSES, (8, 1))
        yield {"x": (centers[y[:, 0]] + random.normal(size=(8, 16))).astype(np.float32), "y": y}


def losses(network, optimizer, steps=20, **options):
    program, loss, _, executor = build(network, optimizer, **options)
    return np.array([executor.run(program, batch, [loss])[0] for batch in batches(steps)], np.float32).reshape(-1)


def reference_losses(network, optimizer, given, **options):
    """Losses on onnx.reference, which rounds after every operator; onnxruntime's CPU provider drops Casts that cancel."""
    program, loss, _, _ = build(network, optimizer, **options)
    model, manifest = paddle.to_training_step(program, [loss])
    onnx.checker.check_model(model, full_check=True)
    evaluator = ReferenceEvaluator(model, new_ops=CORRECTED)
    state = {entry["input"]: program.find(entry["input"]).get_value() for entry in manifest["state"]}
    fixed = {entry["name"]: program.find(entry["name"]).get_value() for entry in manifest["constants"]}
    found, losses = {}, []
    for batch in given:
        found = dict(zip(evaluator.output_names, evaluator.run(None, {**batch, **state, **fixed}), strict=True))
        state = {entry["input"]: found[entry["output"]] for entry in manifest["state"]}
        losses.append(found[manifest["fetches"][0]["name"]])
    return np.array(losses, np.float32).reshape(-1), state


def values(program):
    return {name: np.array(value) for name, value in program.state_dict().items()}


def operands(program, op_type):
    """Element types of what the operators of one type read"""
    ops = [op for op in program.global_block().ops if op.type == op_type]
    return [[v.dtype.name for v in op.inputs if v is not None and v.is_float] for op in ops]


OPTIMIZERS = {"adam": lambda: paddle.optimizer.Adam(0.01), "momentum": lambda: paddle.optimizer.Momentum(0.05, 0.9)}


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
@pytest.mark.parametrize("level", ["O1", "O2", "OD"])
@pytest.mark.parametrize("network", [mlp, cnn])
def test_losses_are_close_to_those_in_float32(network, level, optimizer):
    wanted = losses(network, OPTIMIZERS[optimizer]())
    found = losses(network, OPTIMIZERS[optimizer](), level=level, init_loss_scaling=128.0)
    assert wanted[-5:].mean() < 0.8 * wanted[:5].mean(), "the test needs a loss that falls"
    np.testing.assert_allclose(found, wanted, atol=0.02, rtol=0.02)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize("network", [mlp, cnn])
def test_losses_are_close_where_every_result_is_rounded(network, level, dtype):
    optimizer = OPTIMIZERS["momentum"]
    wanted = losses(network, optimizer())
    found, _ = reference_losses(network, optimizer(), batches(20), level=level, dtype=dtype, init_loss_scaling=128.0)
    tolerance = {"float16": 0.02, "bfloat16": 0.1}[dtype]
    np.testing.assert_allclose(found, wanted, atol=tolerance, rtol=tolerance)
    assert not np.allclose(found, wanted, rtol=1e-6, atol=0.0), "nothing was rounded"


def test_what_float16_cannot_hold_is_skipped_on_the_reference():
    (good,) = batches(1)
    bad = {"x": np.full((8, 16), 1e6, np.float32), "y": good["y"]}
    options = {"level": "O1", "init_loss_scaling": 64.0, "decr_every_n_nan_or_inf": 1}
    _, before = reference_losses(mlp, OPTIMIZERS["adam"](), [good], **options)
    with np.errstate(all="ignore"):
        _, after = reference_losses(mlp, OPTIMIZERS["adam"](), [good, bad], **options)
    assert (before.pop("loss_scaling_0"), after.pop("loss_scaling_0")) == (64.0, 32.0)
    assert (before.pop("num_good_steps_0"), after.pop("num_good_steps_0")) == (1, 0)
    assert all(before[name].tobytes() == after[name].tobytes() for name in before)


def test_all_state_stays_in_float32():
    program, _, _, _ = build(cnn, paddle.optimizer.Adam(0.01), level="O2")
    kinds = {name: value.dtype for name, value in program.state_dict().items()}
    assert {kinds.pop(name).name for name in ("dropout_step", "dropout_seed_0")} == {"int64"}
    assert {kind.name for name, kind in kinds.items() if "num_" not in name} == {"float32"}
    assert all(program.updates[v].dtype == v.dtype for v in program.updates)
    assert set(operands(program, "Conv")[0]) == {"float16"}


def test_white_black_and_gray():
    program, _, _, _ = build(cnn, paddle.optimizer.SGD(0.1), level="O1")
    assert operands(program, "MaxPool") == [["float16"]]
    assert operands(program, "BatchNormalization")[0] == ["float16"] + ["float32"] * 4
    forward = [op for op in program.global_block().ops if op.role == 0]
    softmax = [op for op in forward if op.type in ("LogSoftmax", "Softmax", "ReduceMean", "SoftmaxCrossEntropyLoss")]
    assert softmax and all(v.dtype == "float32" for op in softmax for v in op.inputs if v is not None and v.is_float)


def test_custom_lists():
    lists = static.amp.CustomOpLists(custom_black_list=["conv2d"], custom_white_list={"LogSoftmax"})
    assert "Conv" not in lists.white_list and "LogSoftmax" in lists.white_list
    program, _, _, _ = build(cnn, paddle.optimizer.SGD(0.1), amp_lists=lists)
    assert set(operands(program, "Conv")[0]) == {"float32"}


def test_black_variables():
    program, _, _, _ = build(mlp, paddle.optimizer.SGD(0.1), level="O1")
    names = [op.outputs[0].name for op in program.global_block().ops if op.type in ("MatMul", "Gemm") and op.role == 0]
    lists = static.amp.AutoMixedPrecisionLists(custom_black_varnames=names[:1])
    program, _, _, _ = build(mlp, paddle.optimizer.SGD(0.1), amp_lists=lists)
    kinds = {op.outputs[0].name: op.inputs[0].dtype.name for op in program.global_block().ops if op.outputs[0].name in names}
    assert kinds == {names[0]: "float32", names[1]: "float16"}


def test_an_overflow_leaves_all_state_as_it_was_and_then_shrinks_the_scale():
    program, loss, _optimizer, executor = build(
        cnn, paddle.optimizer.Adam(0.01), level="O1", init_loss_scaling=64.0, decr_every_n_nan_or_inf=2
    )
    (good,) = batches(1)
    bad = {"x": np.full((8, 16), 3e38, np.float32), "y": good["y"]}
    executor.run(program, good, [loss])
    names = {v.name for v in program.updates}
    control = {name for name in names if name.startswith(("loss_scaling", "num_"))}
    assert len(control) == 3 and len(names) > 10
    before = values(program)
    scales = []
    for _ in range(3):
        executor.run(program, bad, [])
        scales.append(values(program)["loss_scaling_0"].item())
    after = values(program)
    assert scales == [64.0, 32.0, 32.0]
    for name in set(before) - control:
        assert before[name].tobytes() == after[name].tobytes(), name
    executor.run(program, good, [])
    changed = values(program)
    moved = {name for name in set(before) - control if before[name].tobytes() != changed[name].tobytes()}
    assert {p.name for p in program.parameters if p.trainable} <= moved and "dropout_step" in moved
    assert changed["num_good_steps_0"] == 1 and changed["num_bad_steps_0"] == 0


def test_the_scale_grows_after_enough_finite_steps():
    program, _, _, executor = build(mlp, paddle.optimizer.SGD(0.01), level="O1", init_loss_scaling=8.0, incr_every_n_steps=3)
    scales = []
    for batch in batches(7):
        executor.run(program, batch, [])
        scales.append(values(program)["loss_scaling_0"].item())
    assert scales == [8.0, 8.0, 16.0, 16.0, 16.0, 32.0, 32.0]


def test_the_scale_has_bounds():
    program, _, _, executor = build(mlp, paddle.optimizer.SGD(0.0), level="O1", init_loss_scaling=1.5, decr_every_n_nan_or_inf=1)
    bad = {"x": np.full((8, 16), np.nan, np.float32), "y": np.zeros((8, 1), np.int64)}
    for _ in range(3):
        executor.run(program, bad, [])
    assert values(program)["loss_scaling_0"] == 1.0


def test_a_constant_scale_skips_overflows_too():
    program, _, _optimizer, executor = build(
        mlp, paddle.optimizer.Adam(0.1), level="O1", init_loss_scaling=16.0, use_dynamic_loss_scaling=False
    )
    before = values(program)
    bad = {"x": np.full((8, 16), np.inf, np.float32), "y": np.zeros((8, 1), np.int64)}
    executor.run(program, bad, [])
    after = values(program)
    assert "num_good_steps_0" not in after
    assert all(before[name].tobytes() == after[name].tobytes() for name in before)


def test_what_another_optimizer_did_stays():
    x = static.data("x", [2, 16])
    p = static.create_parameter([16, 1], "float32", name="p")
    q = static.create_parameter([16, 1], "float32", name="q")
    first, second = paddle.sum(p * p), paddle.mean(paddle.matmul(x, q))
    paddle.amp.to_mixed_precision(static.default_main_program())
    paddle.optimizer.SGD(0.1).minimize(first, parameters=[p])
    static.amp.decorate(paddle.optimizer.SGD(0.1), init_loss_scaling=4.0).minimize(second, parameter_list=[q])
    executor = static.Executor()
    executor.run(static.default_startup_program())
    before = values(static.default_main_program())
    executor.run(feed={"x": np.full((2, 16), np.inf, np.float32)}, fetch_list=[])
    after = values(static.default_main_program())
    assert before["q"].tobytes() == after["q"].tobytes()
    np.testing.assert_allclose(after["p"], 0.8 * before["p"], rtol=1e-6)


def test_gradients_are_divided_by_the_scale():
    plain, _, _, _ = build(mlp, paddle.optimizer.SGD(0.1))
    scaled, _, _optimizer, executor = build(mlp, paddle.optimizer.SGD(0.1), level="O1", init_loss_scaling=1024.0)
    (batch,) = batches(1)
    name = scaled.parameters[0].name
    wanted = static.Executor().run(plain, batch, [f"{name}@GRAD"])[0]
    raw, fixed = executor.run(scaled, batch, [f"{name}@GRAD", f"{name}@UNSCALED/Mul"])
    np.testing.assert_allclose(raw, fixed * 1024.0, rtol=1e-6)
    np.testing.assert_allclose(fixed, wanted, atol=2e-3)
    assert fixed.dtype == np.float32 and np.abs(wanted).max() > 0.05


def test_the_exported_step_holds_the_scale():
    program, loss, _, executor = build(cnn, paddle.optimizer.Adam(0.01), level="O1", init_loss_scaling=64.0, incr_every_n_steps=2)
    model, manifest = paddle.to_training_step(program, [loss])
    onnx.checker.check_model(model, full_check=True)
    assert all(node.domain == "" for node in model.graph.node)
    held = {entry["input"] for entry in manifest["state"]}
    assert {"loss_scaling_0", "num_good_steps_0", "num_bad_steps_0"} <= held
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    state, names = {}, [output.name for output in session.get_outputs()]
    for batch in batches(4):
        wanted = executor.run(program, batch, [loss])[0]
        found = dict(zip(names, session.run(None, {**batch, **state}), strict=True))
        state = {entry["input"]: found[entry["output"]] for entry in manifest["state"]}
        np.testing.assert_allclose(found[manifest["fetches"][0]["name"]], wanted, rtol=1e-5)
    assert state["loss_scaling_0"] == 256.0


def test_the_test_program_has_no_scaling():
    program, _, _, _ = build(cnn, paddle.optimizer.Adam(0.01), level="O1")
    twin = program.clone(for_test=True)
    assert not twin.updates and all(op.role == 0 for op in twin.global_block().ops)
    assert set(operands(twin, "Conv")[0]) == {"float16"}


def test_amp_init_rewrites_a_program_for_testing():
    program, startup = static.Program(), static.Program()
    with static.program_guard(program, startup):
        x = static.data("x", [None, 16])
        loss = paddle.mean(mlp(x))
        other = program.clone(for_test=True)
        optimizer = static.amp.decorate(paddle.optimizer.SGD(0.1))
        with pytest.raises(AssertionError, match="Call minimize"):
            optimizer.amp_init(static.CPUPlace())
        optimizer.minimize(loss)
    optimizer.amp_init(static.CPUPlace(), test_program=other)
    assert operands(other, "MatMul")[0] == ["float32"] * 2
    optimizer.amp_init(static.CPUPlace(), test_program=other, use_fp16_test=True)
    assert operands(other, "MatMul")[0] == ["float16"] * 2


def test_the_guard_marks_what_may_be_low():
    x = static.data("x", [None, 16])
    with static.amp.fp16_guard():
        inside = static.nn.fc(x, size=8)
    outside = static.nn.fc(inside, size=2)
    names = static.amp.cast_model_to_fp16(static.default_main_program())
    assert (inside.dtype, outside.dtype) == ("float16", "float32")
    assert names == {"fc_0.w_0", "fc_0.b_0"}


def test_two_forms_of_decorate():
    older = static.amp.decorate(paddle.optimizer.SGD(0.1), None, 8.0, use_pure_fp16=True)
    assert older._init_loss_scaling == 8.0 and older._scaler.policy == (1000, 2, 2.0, 0.8) and older._rewriting["use_guard"]
    newer = static.amp.decorate(paddle.optimizer.SGD(0.1), None, "O2")
    assert newer._init_loss_scaling == 65536.0 and newer._scaler.policy == (2000, 1, 2.0, 0.5) and newer._rewriting["level"] == "O2"
    with pytest.raises(ArgumentTypeError, match=r"neither|unexpected"):
        static.amp.decorate(paddle.optimizer.SGD(0.1), use_pure_fp16=True, level="O1")
    assert newer.get_lr() == 0.1


def test_arguments_are_checked():
    sgd = paddle.optimizer.SGD(0.1)
    for options, message in (
        ({"level": "O3"}, "level"),
        ({"dtype": "float64"}, "float16"),
        ({"incr_ratio": 0.5}, "incr_ratio is above 1"),
        ({"init_loss_scaling": 0.0}, "above 0"),
        ({"decr_every_n_nan_or_inf": 0}, "at least 1"),
    ):
        with pytest.raises(ArgumentError, match=message):
            static.amp.decorate(sgd, **options)
    with pytest.raises(ArgumentTypeError, match="optimizer"):
        static.amp.decorate("sgd")
    with pytest.raises(ArgumentError, match=r"'conv2d_'.*conv2d"):
        static.amp.CustomOpLists(custom_black_list=["conv2d_"])
    with pytest.raises(ArgumentError, match="both"):
        static.amp.CustomOpLists(["conv2d"], ["Conv"])


def test_a_program_with_a_backward_pass_is_refused():
    x = static.data("x", [None, 16])
    loss = paddle.mean(mlp(x))
    static.append_backward(loss)
    with pytest.raises(ArgumentError, match="backward pass already"):
        static.amp.decorate(paddle.optimizer.SGD(0.1)).minimize(loss)


def test_bfloat16_has_no_scale_and_runs_between_casts_on_the_cpu():
    program, loss, _optimizer, executor = build(mlp, paddle.optimizer.SGD(0.1), dtype="bfloat16")
    assert not any(v.name.startswith(("num_", "loss_scaling")) for v in program.updates)
    assert {kind for kinds in operands(program, "MatMul")[:2] for kind in kinds} == {"bfloat16"}
    model, _ = paddle.to_training_step(program, [loss])
    onnx.checker.check_model(model, full_check=True)
    found = [float(executor.run(program, feed, [loss])[0]) for feed in batches(3)]
    np.testing.assert_allclose(found, losses(mlp, paddle.optimizer.SGD(0.1))[:3], rtol=0.05)


def test_gradients_are_clipped_and_averaged_after_they_are_divided():
    def clipped():
        return paddle.optimizer.Momentum(0.5, 0.9, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.1), weight_decay=0.01)

    wanted = losses(mlp, clipped())
    np.testing.assert_allclose(losses(mlp, clipped(), level="O1", init_loss_scaling=2.0**10), wanted, atol=0.02, rtol=0.02)
    unclipped = losses(mlp, paddle.optimizer.Momentum(0.5, 0.9, weight_decay=0.01))
    assert np.abs(unclipped - wanted).max() > 0.1
