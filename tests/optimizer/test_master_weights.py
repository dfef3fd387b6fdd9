"""16-bit parameters are updated in float32: what they round to is what a float32 parameter rounds to."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.parser import parse_model

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.training import Trainer
from onnxgrad.training.optimizers import make_optimizer, optimizer_names

START = np.array([[0.5, -1.0], [2.0, 0.125]], np.float32)
SLOPE = np.array([[2.0**-13, -(2.0**-10)], [1.0, 512.0]], np.float32)
"""Gradients whose squares are 0 or infinite in float16."""


def run(optimizer, dtype, steps=40, before=None):
    """Values of p before each step on loss = sum(slope * p), of which rounding p does not change the gradient."""
    with paddle.static.program_guard(static.Program(), static.Program()), paddle.utils.unique_name.guard():
        x = static.data("x", [2, 2])
        p = static.create_parameter([2, 2], dtype, name="p", attr=paddle.ParamAttr(initializer=paddle.nn.initializer.Assign(START)))
        wide = paddle.cast(p, "float32")  # onnxruntime's Python interface cannot return bfloat16
        optimizer.minimize(paddle.sum(x * wide))
        executor = static.Executor()
        scope = static.Scope()
        with static.scope_guard(scope):
            executor.run(static.default_startup_program())
            values = []
            for step in range(steps):
                if before is not None:
                    before(step, p)
                values.append(executor.run(feed={"x": SLOPE}, fetch_list=[wide])[0])
        return values


def close_to(found, wanted, dtype):
    """Within half of the distance between neighbours of this element type, and what float32 itself rounds"""
    apart = np.abs(np.spacing(wanted.astype(np.float16))).astype(np.float32) * (1 if dtype == "float16" else 8)
    assert (np.abs(found.astype(np.float32) - wanted) <= 0.51 * apart).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", optimizer_names())
def test_every_optimizer_updates_in_float32(name, dtype):
    rate = {"adadelta": 1.0, "sgd": 1e-6, "momentum": 1e-6, "asgd": 1e-6}.get(name, 2e-5)
    wide = run(make_optimizer(name, rate, None, None), "float32")
    narrow = run(make_optimizer(name, rate, None, None), dtype)
    for found, wanted in zip(narrow, wide, strict=True):
        close_to(found, wanted, dtype)
    assert (np.abs(wide[-1] - START) > 0).any()


def test_clipping_and_decay_are_in_float32():
    def optimizer():
        return paddle.optimizer.AdamW(2e-5, weight_decay=0.5, grad_clip=paddle.nn.ClipGradByGlobalNorm(1e-3))

    close_to(run(optimizer(), "float16")[-1], run(optimizer(), "float32")[-1], "float16")


def test_the_name_and_options_of_the_parameter_hold_for_its_master_weight():
    seen = []
    optimizer = paddle.optimizer.AdamW(1e-3, weight_decay=0.5, apply_decay_param_fun=lambda name: seen.append(name) or False)
    run(optimizer, "float16", 1)
    assert seen == ["p"]
    assert {"p_fp32_master_0", "p_fp32_master_0_moment1_0"} <= {v.name for state in optimizer._accumulators.values() for v in state}


def test_a_parameter_that_somebody_sets_goes_on_from_there():
    def set_it(step, p):
        if step == 5:
            p.set_value(np.full((2, 2), 3.0, p.dtype.numpy))

    optimizer = paddle.optimizer.SGD(1e-6)
    found = run(optimizer, "float16", 10, set_it)
    assert (found[5] == 3.0).all()
    close_to(found[9], (3.0 - 4e-6 * SLOPE).astype("f4"), "float16")


def test_two_optimizers_share_the_master_weight():
    x = static.data("x", [2, 2])
    p = static.create_parameter([2, 2], "float16", name="p", attr=paddle.ParamAttr(initializer=paddle.nn.initializer.Assign(START)))
    loss = paddle.sum(x * paddle.cast(p, "float32"))
    for rate in (1e-5, 2e-5):
        paddle.optimizer.SGD(rate).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    for _ in range(20):
        (found,) = executor.run(feed={"x": SLOPE}, fetch_list=[p])
    close_to(found, (START - 20 * 3e-5 * SLOPE.astype("f8")).astype("f4"), "float16")


def narrow_file():
    model = parse_model('<ir_version: 8, opset_import: ["": 17]> f (float16[N, 3] x) => (float16[N, 1] y) { y = MatMul (x, w) }')
    array = np.array([[0.5], [-0.25], [1.0]], np.float16)
    model.graph.initializer.append(numpy_helper.from_array(array, "w"))
    return model


@pytest.mark.parametrize("options", [{}, {"accumulate": 2}, {"ema": 0.9}, {"clip_norm": 1.0}])
@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_a_float16_file_trains_and_is_exported_in_float16(optimizer, options, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (32, 3)).astype(np.float16)
    x[:, 2] = 0  # a gradient of 0: what divides it is 0 too, unless there is an epsilon
    y = (x @ np.array([[0.75], [0.5], [0.0]], np.float16)).astype(np.float16)
    trainer = Trainer(narrow_file(), loss="mse", optimizer=optimizer, learning_rate=0.02, weight_decay=0.0, **options)
    rows = trainer.fit({"x": x, "target": y}, 30, batch_size=8)
    assert rows[-1]["loss"] < 0.2 * rows[0]["loss"]
    trainer.export(tmp_path / "m.onnx")
    made = onnx.load(tmp_path / "m.onnx")
    assert [i.data_type for i in made.graph.initializer] == [TensorProto.FLOAT16]
    assert len(made.graph.node) == 1
    found = numpy_helper.to_array(made.graph.initializer[0])
    assert np.isfinite(found).all() and found[2, 0] == 1.0
