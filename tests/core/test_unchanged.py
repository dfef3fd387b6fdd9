"""Nothing writes to what it is given: a program is the same before and after it is run, exported, explained, or refused."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import optimizer, static
from onnxgrad.core.rules.registry import find_entry
from onnxgrad.errors import OnnxGradError
from tests.real_models import FOLDER, RealModel

MODELS = ["keras/keras-cnn", "torch/mobilenetv2-legacy13", "torch/lstm_clf-legacy13", "torch/tabular_mlp-legacy9"]


def facts(program):
    """Everything that a program consists of, bodies and functions included."""
    found = [program.version, list(program.opset_imports), program.ir_version, dict(program.metadata), dict(program.names)]
    found += [len(program.blocks), [p.name for p in program.parameters], len(program._constants), len(program.updates)]
    for block in program.blocks:
        found.append([(v.name, v.type, v.entries, v._stop, v.persistable, v.value) for v in block.vars.values()])
        found.append([v.name for v in (*block.inputs, *block.outputs, *block.initializers)])
        for op in block.ops:
            operands = [None if v is None else v.name for v in (*op.inputs, *op.outputs)]
            found.append((op.type, op.name, operands, sorted(op.attrs), op.declared_outputs, op.expansion is None, op.role))
    return found


def message(program):
    return paddle.to_onnx(program).SerializeToString(deterministic=True)


@pytest.fixture(params=MODELS)
def model(request):
    found = RealModel(FOLDER / request.param)
    program = paddle.from_onnx(found.path)
    return program, {v.name: found.feed[v.name] for v in program.inputs}


def test_running_with_many_batches(model):
    program, feed = model
    before, written = facts(program), message(program)
    executor = paddle.Executor()
    outputs = [v for v in program.outputs if v.is_float]
    for n in (1, 2, 3, 4, 5):
        several = {k: np.concatenate([v[:1]] * n) if _is_open(program, k) else v for k, v in feed.items()}
        executor.run(program, several, outputs)
    assert facts(program) == before
    assert message(program) == written


def _is_open(program, name):
    dims = program.find(name).dims
    return (
        bool(dims)
        and not isinstance(dims[0], int)
        and all(not isinstance(program.find(v.name).dims[0], int) for v in program.inputs)
    )


def test_training_with_many_batches():
    program = paddle.from_onnx(FOLDER / "keras/keras-cnn" / "model.onnx")
    program.train()
    (x,) = program.inputs
    with static.program_guard(program):
        loss = paddle.mean(paddle.square(program.outputs[0]))
    optimizer.Adam(1e-3).minimize(loss)
    before, written = facts(program), message(program)
    executor, draw = paddle.Executor(), np.random.default_rng(0)
    shape = [d if isinstance(d, int) else None for d in x.dims]
    assert shape[0] is None
    for n in (4, 5, 6, 7, 8, 4):
        batch = draw.normal(size=[n, *(d or 1 for d in shape[1:])]).astype(np.float32)
        executor.run(program, {x.name: batch}, [loss])
    assert facts(program) == before
    assert len(message(program)) == len(written)  # the weights are other ones


def test_exports(model):
    program, _ = model
    before, written = facts(program), message(program)
    outputs = [v for v in program.outputs if v.is_float]
    paddle.to_onnx(program, outputs)
    paddle.to_training_step(program, outputs)
    program.serialize_to_string()
    paddle.explain(program)
    paddle.value_and_grad(program, outputs=[outputs[0].name])
    assert facts(program) == before
    assert message(program) == written


def test_a_clone_writes_the_same_file(model):
    program, _ = model
    assert message(program.clone()) == message(program)


def breaking_rule(program, monkeypatch):
    """Let the rule of the first operator with weights, which is asked last, fail."""
    types = ("Conv", "Gemm", "MatMul", "LSTM")
    first = next(
        op for op in program.global_block().ops if op.type in types and any(v.is_float for v in op.inputs if v is not None)
    )

    def fails(*_):
        raise paddle.errors.UnsupportedGradient("refused here")

    entry = find_entry(first)
    monkeypatch.setattr(entry, "prepare" if entry.prepare is not None else "function", fails)


def test_a_refused_gradient(model, monkeypatch):
    program, _ = model
    y = next(v for v in program.outputs if v.is_float)
    before, written = facts(program), message(program)
    breaking_rule(program, monkeypatch)
    weights = program.parameters
    for ask in (
        lambda: static.append_backward(y),
        lambda: static.append_backward(y, checkpoints="auto"),
        lambda: static.gradients([y], weights),
        lambda: paddle.jvp([y], weights[:1], weights[:1]),
        lambda: paddle.hvp(y, weights[:1], weights[:1]),
    ):
        with pytest.raises(OnnxGradError, match="refused here"):
            ask()
        assert facts(program) == before
    assert message(program) == written


def test_a_failed_minimize(model, monkeypatch):
    """In the update of the last parameter, after a whole backward pass and the other updates"""
    program, _ = model
    with static.program_guard(program):
        loss = paddle.mean(next(v for v in program.outputs if v.is_float))

    class Broken(optimizer.Adam):
        def _update(self, op, p, g, scale):
            if len(program.updates) > 2:
                raise ValueError("broken")
            return super()._update(op, p, g, scale)

    startup, adam = static.Program(), Broken(0.1)
    before, written, at_start = facts(program), message(program), facts(startup)
    with pytest.raises(ValueError, match="broken"):
        adam.minimize(loss, startup)
    assert facts(program) == before
    assert message(program) == written
    assert facts(startup) == at_start
    assert adam._accumulators == {} and adam._rates == {}
    optimizer.Adam(0.1).minimize(loss, startup)
    assert program.updates


def test_layers_keep_the_opset_of_a_file_that_has_their_operators():
    program = paddle.from_onnx(FOLDER / "torch/mobilenetv2-legacy13" / "model.onnx")
    (y,) = program.outputs
    z = paddle.nn.functional.relu(y)
    assert program.opset_version() == 13
    feed = RealModel(FOLDER / "torch/mobilenetv2-legacy13").feed
    found, plain = paddle.Executor().run(program, feed, [z, y])
    np.testing.assert_array_equal(found, np.maximum(plain, 0))
    paddle.nn.functional.gelu(y)  # an operator of opset 20
    assert program.opset_version() == 21


def test_a_layer_that_fails_does_not_lift():
    program = paddle.from_onnx(FOLDER / "torch/mobilenetv2-legacy13" / "model.onnx")
    before = facts(program)
    with pytest.raises(OnnxGradError):
        paddle.bitwise_not(program.outputs[0])
    assert facts(program)[1:4] == before[1:4]


def test_training_mode_waits_for_a_gradient():
    program = paddle.from_onnx(FOLDER / "torch/mobilenetv2-legacy13" / "model.onnx")
    feed = RealModel(FOLDER / "torch/mobilenetv2-legacy13").feed
    written = message(program)
    inference, executor = program.clone(), paddle.Executor()
    program.train()
    assert program.opset_version() == 13
    assert message(program) == written
    in_training, at_test = (executor.run(p, feed, [v.name for v in p.outputs])[0] for p in (program, inference))
    assert np.abs(in_training - at_test).max() > 1e-3  # normalised by the batch
    assert message(program.eval().clone()) != written  # running statistics have moved
    program.train()
    static.append_backward(paddle.mean(program.outputs[0]))
    assert any(op.expansion is not None and op.expansion.always for op in program.global_block().ops)
