"""Gradients that several runs add up, in one program: what each run replaces, and what the sums make."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.step.loss_terms import loss_terms
from onnxgrad.errors import ArgumentError, ExecutionError
from onnxgrad.optimizer.average import ExponentialMovingAverage
from onnxgrad.training.accumulation import SUM, add_up

X = np.random.default_rng(0).normal(size=(6, 4, 3)).astype(np.float32)


def network(size=2):
    """(program, loss, pairs) of one layer, before its optimizer."""
    x = static.data("x", ["N", 3])
    loss = paddle.mean(paddle.square(static.nn.fc(x, size) - 1.0))
    pairs = static.append_backward(loss)
    return loss.block.program, loss, pairs


def added(program, loss, pairs, optimizer, runs):
    """Let the program add up the gradients of its one term."""
    terms = loss_terms(loss, Builder(program.global_block(), key="loss_weight"))
    add_up(program, terms, [pairs], optimizer, runs)


def begun():
    executor = static.Executor()
    executor.run(static.default_startup_program())
    return executor


def state_of(program):
    return {v.name: np.array(v.get_value()) for v in program.list_vars() if v.persistable}


def test_a_run_adds_up_and_applying_takes_the_mean_and_clears_the_sums():
    program, loss, pairs = network()
    added(program, loss, pairs, paddle.optimizer.SGD(0.5), 3)
    executor = begun()
    before = state_of(program)
    gradients = []
    for batch in X[:3]:
        gradients.append(executor.run(program, {"x": batch}, [g for _, g in pairs]))
        assert all(np.array_equal(state_of(program)[p.name], before[p.name]) for p, _ in pairs)
    sums = [np.add(np.add(*parts[:2]), parts[2]) for parts in zip(*gradients, strict=True)]
    elements = X[0].shape[0] * 2  # of the mean that is the loss
    for (p, _), total in zip(pairs, sums, strict=True):
        np.testing.assert_allclose(state_of(program)[p.name + SUM], total * elements, rtol=1e-6)
    assert state_of(program)["loss_weight" + SUM] == 3 * elements
    executor.apply(program)
    for (p, _), total in zip(pairs, sums, strict=True):
        np.testing.assert_allclose(state_of(program)[p.name], before[p.name] - 0.5 * total / 3, rtol=1e-6)
        assert not state_of(program)[p.name + SUM].any()
    assert state_of(program)["loss_weight" + SUM] == 0


@pytest.mark.parametrize("memory", [None, "low"])
def test_a_sum_that_is_not_finite_is_cleared_too(memory):
    """NaN times 0 is NaN, and would stay for ever"""
    program, loss, pairs = network(size=3000)
    added(program, loss, pairs, paddle.optimizer.SGD(0.0), 1)
    executor = static.Executor(memory=memory)
    begun()
    executor.run(program, {"x": np.full((1, 3), np.inf, np.float32)})
    assert any(np.isnan(state_of(program)[p.name + SUM]).any() for p, _ in pairs)
    executor.apply(program)
    assert not any(state_of(program)[p.name + SUM].any() for p, _ in pairs)


def test_what_is_appended_later_belongs_to_the_update():
    program, loss, pairs = network()
    added(program, loss, pairs, paddle.optimizer.Adam(0.1), 2)
    ExponentialMovingAverage(0.5).update()
    executor = begun()
    before = state_of(program)
    executor.run(program, {"x": X[0]})
    after = state_of(program)
    assert {name for name in after if not np.array_equal(after[name], before[name])} == {
        "loss_weight" + SUM,
        *(p.name + SUM for p, _ in pairs),
    }
    executor.apply(program)
    applied = state_of(program)
    changed = {name for name in applied if not np.array_equal(applied[name], after[name])}
    assert {p.name for p, _ in pairs} < changed and any("ema" in name for name in changed)


def test_a_schedule_moves_on_with_each_update():
    program, loss, pairs = network()
    rate = paddle.optimizer.lr.ExponentialDecay(0.5, 0.1)
    added(program, loss, pairs, paddle.optimizer.SGD(rate), 2)
    rate.steps_by_itself = True
    executor = begun()
    for batch in X[:2]:
        executor.run(program, {"x": batch})
    assert rate.last_epoch == 0
    executor.apply(program)
    assert rate.last_epoch == 1


def test_the_program_and_its_step_say_what_is_done_when():
    program, loss, pairs = network()
    added(program, loss, pairs, paddle.optimizer.SGD(0.5), 4)
    executor = begun()
    text = str(program)
    (first, second) = text.split("# after a run")[1].split("# after every 4 runs")
    assert all(f"{p.name}{SUM} <- " in first and f"{p.name} <- " not in first for p, _ in pairs)
    assert all(f"{p.name} <- " in second and f"{p.name}{SUM} <- " in second for p, _ in pairs)
    step = executor.step(program, [loss])
    assert [(phase.name, phase.every) for phase in step.phases] == [("step", 1), ("apply", 4)]
    assert "operators, once in 4 steps\n" in str(step)
    assert step.phases[1].writes.keys() == {"loss_weight" + SUM, *(name for p, _ in pairs for name in (p.name, p.name + SUM))}
    executor.run(program, {"x": X[0]}, [loss])
    executor.apply(program)
    assert "once in 4 steps" in executor.debug_string()


def test_a_copy_adds_up_for_itself_and_one_for_inference_does_not():
    program, loss, pairs = network()
    added(program, loss, pairs, paddle.optimizer.SGD(0.5), 2)
    executor = begun()
    copy = program.clone()
    assert copy.plan.accumulation.runs == 2 and program.clone(for_test=True).plan.accumulation is None
    names = {v.name for v in copy.plan.accumulation.sums}
    assert names == {"loss_weight" + SUM, *(p.name + SUM for p, _ in pairs)}
    assert not names & {v.name for v in program.clone(for_test=True).updates}
    scopes = [program.active_scope().copy(), program.active_scope().copy()]
    for one, scope in zip((program, copy), scopes, strict=True):
        for batch in X[:2]:
            executor.run(one, {"x": batch}, scope=scope)
        executor.apply(one, scope)
    for p, _ in pairs:
        np.testing.assert_array_equal(p.get_value(scopes[0]), p.get_value(scopes[1]))


def test_what_does_not_fit_is_refused():
    program, _loss, pairs = network()
    paddle.optimizer.SGD(0.5).apply_gradients(pairs)
    executor = begun()
    with pytest.raises(ArgumentError, match="applies its gradients in each run"):
        executor.apply(program)
    executor.close()
    with pytest.raises(ExecutionError, match="closed"):
        executor.apply(program)
