"""A program that counts its runs: what an exported step with added-up gradients is."""

import numpy as np
import onnx
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.step.accumulated import COUNTER, accumulated_step
from onnxgrad.core.step.loss_terms import loss_terms
from onnxgrad.training.accumulation import SUM, add_up

X = np.random.default_rng(1).normal(size=(7, 4, 3)).astype(np.float32)

OPTIMIZERS = {
    "sgd": lambda: paddle.optimizer.SGD(0.1),
    "adam, clipped": lambda: paddle.optimizer.Adam(0.1, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.05)),
    "momentum": lambda: paddle.optimizer.Momentum(0.1, 0.9),
}


def network(make):
    x = static.data("x", ["N", 3])
    hidden = static.nn.batch_norm(static.nn.fc(x, 4))
    loss = paddle.mean(paddle.square(static.nn.fc(hidden, 2) - 1.0))
    program = loss.block.program
    terms = loss_terms(loss, Builder(program.global_block(), key="loss_weight"))
    add_up(program, terms, [static.append_backward(loss)], make(), 3)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    return executor, program, loss


def state_of(program, scope):
    return {v.name: np.array(v.get_value(scope)) for v in program.list_vars() if v.persistable}


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_every_run_gives_the_state_of_runs_and_updates(make):
    """Seven runs with an update after each third; running statistics are replaced in each"""
    executor, program, loss = network(make)
    one, other = program.active_scope().copy(), program.active_scope().copy()
    whole = accumulated_step(program)
    for number, batch in enumerate(X, 1):
        (expected,) = executor.run(program, {"x": batch}, [loss], scope=one)
        if number % 3 == 0:
            executor.apply(program, one)
        (found,) = executor.run(whole, {"x": batch}, [loss.name], scope=other)
        assert found == expected
        assert whole.global_block().vars[COUNTER].get_value(other) == number % 3
        for name, value in state_of(program, one).items():
            np.testing.assert_allclose(state_of(whole, other)[name], value, rtol=1e-6, atol=1e-8, err_msg=name)


def test_it_begins_where_the_sums_are():
    executor, program, _ = network(OPTIMIZERS["sgd"])
    executor.run(program, {"x": X[0]})
    executor.run(program, {"x": X[1]})
    scope = program.active_scope().copy()
    executor.run(accumulated_step(program, 2), {"x": X[2]}, scope=scope)
    assert not any(value.any() for name, value in state_of(program, scope).items() if name.endswith(SUM))


def test_runs_in_which_nothing_counts_leave_the_state():
    """Moments would fade, and weights decay"""
    x, label = static.data("x", ["N", 3]), static.data("label", ["N"], "int64")
    loss = paddle.nn.functional.cross_entropy(static.nn.fc(x, 4), label, ignore_index=9)
    program = loss.block.program
    terms = loss_terms(loss, Builder(program.global_block(), key="loss_weight"), of_parts=True)
    add_up(program, terms, [static.append_backward(terms[0].value)], paddle.optimizer.AdamW(0.1, weight_decay=0.3), 2)
    executor, whole = static.Executor(), accumulated_step(program)
    executor.run(static.default_startup_program())
    scope = program.active_scope()
    for labels in (np.zeros(4, np.int64), np.full(4, 9)):
        before = state_of(program, scope)
        for _ in range(2):
            executor.run(whole, {"x": X[0], "label": labels}, scope=scope)
        changed = [name for name, value in state_of(program, scope).items() if not np.array_equal(value, before[name])]
        assert bool(changed) is bool((labels == 0).all())


def test_the_program_stays_as_it_is_and_one_without_sums_is_itself():
    _, program, _loss = network(OPTIMIZERS["sgd"])
    text = str(program)
    assert accumulated_step(program) is not program and str(program) == text
    with static.program_guard(static.Program(), static.Program()):
        plain = paddle.mean(static.nn.fc(static.data("x", ["N", 3]), 2))
        paddle.optimizer.SGD(0.1).minimize(plain)
        assert accumulated_step(plain.block.program) is plain.block.program


def test_an_exported_step_counts_without_being_asked():
    """``to_training_step`` of the program itself, which would otherwise add up and never apply"""
    _, program, loss = network(OPTIMIZERS["sgd"])
    model, manifest = paddle.to_training_step(program, [loss])
    onnx.checker.check_model(model, full_check=True)
    names = {entry["input"] for entry in manifest["state"]}
    assert COUNTER in names and {p.name for p in program.all_parameters()} <= names
    assert not any(entry["statistic"] for entry in manifest["state"] if entry["input"].endswith(SUM))
