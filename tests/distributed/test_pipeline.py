"""Layers on several ranks: the step of one process, with the activations of few micro-batches."""

import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.core.ir.scope import Scope
from onnxgrad.distributed import PipelineStep, run_local
from onnxgrad.errors import ArgumentError
from onnxgrad.nn import ClipGradByGlobalNorm

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(12, 10)), RANDOM.integers(0, 9, 12)
IGNORED = np.where(np.arange(12) % 4 == 1, 5, Y)
IGNORED[4:6] = 5


def network(optimizer, dtype="float64", skips=False, norm=False, **loss):
    """Four layers; with ``skips`` the first hidden values are added to those of the third"""
    x = static.data("x", ["N", 10], dtype)
    label = static.data("label", ["N"], "int64")
    hidden = [x]
    for number in range(4):
        h = static.nn.fc(hidden[-1], 70, activation="tanh")
        h = static.nn.batch_norm(h) if norm and number == 1 else h
        hidden.append(h + hidden[1] if skips and number == 2 else h)
    found = F.cross_entropy(static.nn.fc(hidden[-1], 9), label, **loss)
    optimizer.minimize(found)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    return found, hidden[1:], executor


def trained(loss, cuts, micro_batches, feeds, steps=3, **options):
    def run(transport):
        step = PipelineStep(loss.block.program, loss, cuts, transport, micro_batches=micro_batches, threads=1, **options)
        losses = [step.run(feeds) for _ in range(steps)]
        scope = Scope()
        step.gather(scope)
        state = {v.name: v.get_value(scope) for v in loss.block.program.list_vars() if v.persistable}
        return losses, state, step

    return run_local(len(cuts) + 1, run)


def check(results, loss, executor, feeds, **tolerance):
    program = loss.block.program
    expected = [executor.run(program, feeds, [loss])[0] for _ in results[0][0]]
    for losses, state, _ in results:
        np.testing.assert_allclose(losses, expected, **tolerance)
        for name, value in state.items():
            assert np.array_equal(value, results[0][1][name]), name
            np.testing.assert_allclose(value, program.find(name).get_value(), err_msg=name, **tolerance)


OPTIMIZERS = {
    "adam": (lambda: paddle.optimizer.Adam(0.01), {"rtol": 1e-9, "atol": 1e-12}),
    # The norm is computed in float32.
    "momentum, global norm": (
        lambda: paddle.optimizer.Momentum(0.1, 0.9, grad_clip=ClipGradByGlobalNorm(0.1)),
        {"rtol": 1e-6, "atol": 1e-9},
    ),
}
LABELS = {
    "mean": ({}, Y),
    "ignored labels": ({"ignore_index": 5}, IGNORED),
    "sum": ({"reduction": "sum"}, Y),
}


@pytest.mark.parametrize("micro_batches", [1, 5])
@pytest.mark.parametrize(("options", "labels"), LABELS.values(), ids=LABELS)
@pytest.mark.parametrize(("make", "close"), OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_stages_take_the_step_of_one_process(make, close, options, labels, micro_batches):
    loss, hidden, executor = network(make(), **options)
    feeds = {"x": X, "label": labels}
    check(trained(loss, hidden[:2], micro_batches, feeds), loss, executor, feeds, **close)


def test_what_skips_a_stage_travels_through_it():
    loss, hidden, executor = network(paddle.optimizer.Adam(0.01), skips=True)
    feeds = {"x": X, "label": Y}
    results = trained(loss, hidden[:3], 4, feeds)
    names = {v.name for v in results[1][2].stage.gives}
    assert names == {hidden[0].name, hidden[1].name}
    check(results, loss, executor, feeds, rtol=1e-9, atol=1e-12)


def test_a_stage_keeps_the_activations_of_few_micro_batches():
    loss, hidden, _ = network(paddle.optimizer.SGD(0.1))
    results = trained(loss, hidden[:3], 12, {"x": X, "label": Y}, steps=2)
    assert [step.most_alive for *_, step in results] == [4, 3, 2, 1]
    few = trained(loss, hidden[:3], 2, {"x": X, "label": Y}, steps=1)
    assert [step.most_alive for *_, step in few] == [2, 2, 2, 1]


def test_a_rank_holds_the_state_of_its_layers_alone():
    loss, hidden, _ = network(paddle.optimizer.Adam(0.01))
    results = trained(loss, hidden[:3], 2, {"x": X, "label": Y}, steps=1)
    program = loss.block.program
    whole = sum(v.get_value().nbytes for v in program.list_vars() if v.persistable)
    large = 3 * 8 * 70 * 70
    held = [step.bytes_of_state() for *_, step in results]
    small = whole - 3 * large
    assert held[0] <= small and all(large <= one <= large + small for one in held[1:])


def test_nothing_is_computed_twice():
    loss, hidden, _ = network(paddle.optimizer.SGD(0.1))
    results = trained(loss, hidden[:1], 1, {"x": X, "label": Y}, steps=1)
    for *_, step in results:
        forward, backward = step.stage.forward.operators, step.stage.backward.operators
        assert not {op.outputs[0].name for op in forward} & {op.outputs[0].name for op in backward}
        assert not {"Tanh", "Gemm"} & {op.type for op in backward if op.role.name == "FORWARD"}


def test_statistics_of_micro_batches_must_be_asked_for():
    loss, hidden, _ = network(paddle.optimizer.SGD(0.1), norm=True)
    feeds = {"x": X, "label": Y}
    with pytest.raises(ArgumentError, match="batch_norm='local'"):
        trained(loss, hidden[:1], 2, feeds)
    with pytest.raises(ArgumentError, match="first goes back"):
        trained(loss, hidden[:1], 2, feeds, batch_norm="sync")


def test_statistics_of_one_micro_batch_are_those_of_the_batch():
    loss, hidden, executor = network(paddle.optimizer.Momentum(0.1, 0.9), norm=True)
    feeds = {"x": X, "label": Y}
    results = trained(loss, hidden[:1], 1, feeds, batch_norm="local")
    check(results, loss, executor, feeds, rtol=1e-6, atol=1e-9)


def test_a_cut_out_of_place_is_refused():
    loss, hidden, _ = network(paddle.optimizer.SGD(0.1))
    feeds = {"x": X, "label": Y}
    with pytest.raises(ArgumentError, match="cannot end stage"):
        trained(loss, [hidden[1], hidden[0]], 2, feeds)
    with pytest.raises(ArgumentError, match="1 cuts make 2 stages, but there are 3 ranks"):
        run_local(3, lambda transport: PipelineStep(loss.block.program, loss, hidden[:1], transport, micro_batches=1))
    with pytest.raises(ArgumentError, match="13 micro-batches"):
        trained(loss, hidden[:1], 13, feeds)


def test_a_parameter_of_two_stages_is_refused():
    x = static.data("x", ["N", 10], "float64")
    shared = paddle.ParamAttr(name="shared")
    h = static.nn.fc(x, 10, weight_attr=shared, activation="tanh")
    loss = paddle.mean(paddle.square(static.nn.fc(h, 10, weight_attr=shared)))
    paddle.optimizer.SGD(0.1).minimize(loss)
    static.Executor().run(static.default_startup_program())
    with pytest.raises(ArgumentError, match="shared is trained in stages 0 and 1"):
        trained(loss, [h], 2, {"x": X})
