"""Layers on several ranks: the step of one process, with the activations of few micro-batches."""

import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.core.passes.modes import PART, take_parts
from onnxgrad.core.state.scope import Scope
from onnxgrad.distributed import PipelineStep, run_local
from onnxgrad.errors import ArgumentError
from onnxgrad.nn import ClipGradByGlobalNorm
from onnxgrad.training.losses.loss_scale import LossScale

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


def trained(loss, cuts, micro_batches, feeds, steps=3, rows=1, **options):
    def run(transport):
        step = PipelineStep(loss.block.program, loss, cuts, transport, micro_batches=micro_batches, threads=1, **options)
        losses = [step.run(feeds) for _ in range(steps)]
        scope = Scope()
        step.gather(scope)
        state = {v.name: v.get_value(scope) for v in loss.block.program.list_vars() if v.persistable}
        return losses, state, step

    return run_local(rows * (cuts if isinstance(cuts, int) else len(cuts) + 1), run)


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


@pytest.mark.one_in(5)
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


def test_the_memory_of_activations_is_that_of_few_micro_batches():
    """Stage k of K keeps K - k micro-batches at most: of M, (K - k) / M of what the whole batch takes, whatever M is"""
    loss, hidden, _ = network(paddle.optimizer.SGD(0.1))
    kept = {}
    for count in (1, 4, 6, 12):
        results = trained(loss, hidden[:3], count, {"x": X, "label": Y}, steps=2)
        kept[count] = [step.most_bytes for *_, step in results]
    assert min(kept[1]) >= 12 * 70 * 8  # one hidden layer of the whole batch
    single = 64  # scalars, such as the seed
    for count in (4, 6, 12):
        for number, (some, whole) in enumerate(zip(kept[count], kept[1], strict=True)):
            assert some <= (4 - number) / count * whole + (4 - number) * single, (count, number)


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


def test_rows_average_their_running_statistics():
    """Of two equal rows the mean of the means is that of the whole batch; the last batch has no example for one row"""
    loss, hidden, executor = network(paddle.optimizer.SGD(0.0), norm=True)
    program = loss.block.program
    (name,) = [v.name for v in program.list_vars() if v.persistable and ".w_1" in v.name]
    feeds = {"x": X, "label": Y}
    results = trained(loss, hidden[:1], 1, feeds, steps=1, rows=2, batch_norm="local")
    executor.run(program, feeds, [loss])
    for _, state, _ in results:
        np.testing.assert_allclose(state[name], program.find(name).get_value(), rtol=1e-6)
        assert all(np.array_equal(state[other], results[0][1][other]) for other in state)
    alone = trained(loss, hidden[:1], 1, {"x": X[:1], "label": Y[:1]}, steps=1, rows=1, batch_norm="local")
    rows = trained(loss, hidden[:1], 1, {"x": X[:1], "label": Y[:1]}, steps=1, rows=2, batch_norm="local")
    np.testing.assert_allclose(rows[0][1][name], alone[0][1][name], rtol=1e-6)


def test_a_cut_out_of_place_is_refused():
    loss, hidden, _ = network(paddle.optimizer.SGD(0.1))
    feeds = {"x": X, "label": Y}
    with pytest.raises(ArgumentError, match="cannot end stage"):
        trained(loss, [hidden[1], hidden[0]], 2, feeds)
    with pytest.raises(ArgumentError, match="1 cuts make 2 stages, but there are 3 ranks"):
        run_local(3, lambda transport: PipelineStep(loss.block.program, loss, hidden[:1], transport, micro_batches=1))
    with pytest.raises(ArgumentError, match=r"not one number of examples: x \[12, 10\], label \[3\]"):
        trained(loss, hidden[:1], 2, {"x": X, "label": Y[:3]})


@pytest.mark.parametrize("width", [10, 80], ids=["small", "large"])
@pytest.mark.parametrize(
    ("rows", "clip"),
    [
        pytest.param(1, None, id="plain"),
        pytest.param(2, ClipGradByGlobalNorm(0.1), id="rows, global norm"),
        pytest.param(1, ClipGradByGlobalNorm(0.1), id="global norm", marks=pytest.mark.exhaustive),
        pytest.param(2, None, id="rows", marks=pytest.mark.exhaustive),
    ],
)
def test_a_parameter_of_several_stages_is_one(width, rows, clip):
    """A small tensor is updated by all ranks, of a large one the first stage has the optimizer's state"""
    x = static.data("x", ["N", width], "float64")
    shared = paddle.ParamAttr(name="shared")
    first = static.nn.fc(x, width, weight_attr=shared, activation="tanh")
    second = static.nn.fc(first, width, activation="tanh")
    loss = paddle.mean(paddle.square(static.nn.fc(second, width, weight_attr=shared)))
    paddle.optimizer.Adam(0.01, grad_clip=clip).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    # Numbers of its own: the norm is a float32, whose last bit moves Adam's step by a share of the tolerance that they decide.
    draw = np.random.default_rng(0)
    program = loss.block.program
    program.set_state_dict({p.name: draw.normal(size=p.shape) / width for p in program.parameters})
    feeds = {"x": draw.normal(size=(12, width))}
    results = trained(loss, [first, second], 2, feeds, rows=rows)
    assert [("shared" in step.stage.parameters) for *_, step in results] == [True, False, True] * rows
    check(results, loss, executor, feeds, **({"rtol": 1e-9, "atol": 1e-12} if clip is None else {"rtol": 1e-6, "atol": 1e-9}))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("count", [12, 7, 3])
@pytest.mark.parametrize(("options", "labels"), LABELS.values(), ids=LABELS)
@pytest.mark.parametrize(("make", "close"), OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_rows_of_a_grid_share_a_batch(make, close, options, labels, count):
    """Two rows of two stages; 7 examples are 4 and 3, in three micro-batches each, 3 are 2 and 1"""
    loss, hidden, executor = network(make(), **options)
    feeds = {"x": X[:count], "label": labels[:count]}
    results = trained(loss, hidden[1:2], 3, feeds, rows=2)
    assert [(step.grid.replica, step.grid.stage) for *_, step in results] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    check(results, loss, executor, feeds, **close)


def test_a_row_without_an_example_stands_by():
    loss, hidden, executor = network(paddle.optimizer.Adam(0.01))
    feeds = {"x": X[:2], "label": Y[:2]}
    check(trained(loss, hidden[1:2], 4, feeds, rows=3), loss, executor, feeds, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("parts", [True, False], ids=["whole batch", "each micro-batch"])
def test_masks_of_dropout(parts, rows):
    """Taken for parts of a batch they are the whole batch's; else each micro-batch and step has others, on every stage"""
    x, label = static.data("x", ["N", 10], "float64"), static.data("label", ["N"], "int64")
    program = x.block.program
    program.random_seed = 3
    first = F.dropout(static.nn.fc(x, 70, activation="tanh"), 0.3)
    second = F.dropout(static.nn.fc(first, 70, activation="tanh"), 0.3)
    loss = F.cross_entropy(static.nn.fc(second, 9), label)
    if parts:
        take_parts(program)
    paddle.optimizer.SGD(0.1 if parts else 0.0).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    feeds = {"x": X, "label": Y}
    results = trained(loss, [first], 3, feeds, rows=rows)
    if parts:
        check(results, loss, executor, feeds | {PART: np.array([0, 12])}, rtol=1e-7, atol=1e-9)
    else:
        assert len(set(results[0][0])) == 3


@pytest.mark.parametrize("rows", [1, 2])
def test_a_scale_of_the_loss_moves_as_in_one_process(rows):
    """The gradient overflows on one stage in the second step, which is undone on all; with some first weights it does not"""
    paddle.seed(1)
    x, label = static.data("x", ["N", 10]), static.data("label", ["N"], "int64")
    program = x.block.program
    first = static.nn.fc(x, 70, activation="relu")
    second = static.nn.fc(first, 70, activation="relu")
    loss = F.mse_loss(static.nn.fc(second, 1), paddle.cast(paddle.reshape(label, [-1, 1]), "float32"))
    make = paddle.optimizer.Momentum(0.1, 0.9, grad_clip=ClipGradByGlobalNorm(0.5))
    scaled = LossScale(program, make, 2.0**20)
    pairs = make.backward(scaled.of(loss))
    scaled.apply(pairs)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    calm, wild = X.astype("f4"), X.astype("f4")
    wild = np.where(np.arange(12)[:, None] == 11, np.float32(1e18), wild)
    feeds = [{"x": given, "label": Y} for given in (calm, wild, calm)]
    cuts = [first, second]

    def run(transport):
        step = PipelineStep(program, loss, cuts, transport, micro_batches=4, threads=1)
        found = []
        for feed in feeds:
            value = step.run(feed)
            scope = Scope()
            step.gather(scope)
            found.append((value, {v.name: v.get_value(scope) for v in program.list_vars() if v.persistable}))
        return found

    written = str(program)
    results = run_local(3 * rows, run)
    assert str(program) == written
    before = None
    for number, feed in enumerate(feeds):
        (expected,) = executor.run(program, feed, [loss])
        state = {v.name: np.array(v.get_value()) for v in program.list_vars() if v.persistable}
        for found in results:
            assert found[number][0] == pytest.approx(float(expected), rel=1e-5)
            for name, value in found[number][1].items():
                np.testing.assert_array_equal(value, results[0][number][1][name], err_msg=name)
                np.testing.assert_allclose(value, state[name], rtol=2e-4, atol=2e-6, err_msg=name)
        (name,) = [name for name in state if name.startswith("loss_scaling")]
        assert float(state[name][0]) == (2.0**20 if number == 0 else 2.0**19)
        if number == 1:
            assert all(np.array_equal(state[p.name], before[p.name]) for p in program.parameters)
        before = state


def test_stages_are_chosen_by_bytes_where_one_value_crosses():
    loss, _, executor = network(paddle.optimizer.Adam(0.01), skips=True)
    feeds = {"x": X, "label": Y}
    results = trained(loss, 2, 3, feeds)
    assert [sum(name.endswith("w_0") for name in step.stage.parameters) for *_, step in results] == [3, 2]
    check(results, loss, executor, feeds, rtol=1e-9, atol=1e-12)
    check(trained(loss, 3, 3, feeds), loss, executor, feeds, rtol=1e-6, atol=1e-6)
    with pytest.raises(ArgumentError, match="no 40 stages"):
        trained(loss, 40, 1, feeds)


def test_what_is_fetched_is_that_of_the_batch_on_the_last_stage():
    x, label = static.data("x", ["N", 10], "float64"), static.data("label", ["N"], "int64")
    first = static.nn.fc(x, 70, activation="tanh")
    scores = static.nn.fc(first, 9)
    loss = F.cross_entropy(scores, label)
    paddle.optimizer.SGD(0.1).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    feeds = {"x": X, "label": Y}

    def run(transport):
        return PipelineStep(loss.block.program, loss, [first], transport, micro_batches=5, fetch=[scores]).compute(feeds)

    one, two = run_local(2, run)
    value, expected = executor.run(loss.block.program, feeds, [loss, scores])
    assert set(one) == {loss.name} and float(one[loss.name]) == pytest.approx(float(value))
    np.testing.assert_allclose(two[scores.name], expected, rtol=1e-9, atol=1e-12)


def test_the_step_of_a_stage_says_what_comes_and_goes():
    loss, hidden, _ = network(paddle.optimizer.Adam(0.01))

    def work(transport):
        return PipelineStep(loss.block.program, loss, hidden[:1], transport, micro_batches=2).step

    first, second = run_local(2, work)
    (sent,) = first.phases[0].then
    assert (first.phases[0].name, first.phases[0].runs, sent.to) == ("forward", "per micro-batch", 1)
    assert [name for name, who in second.phases[0].feeds.items() if who == "stage before"] == list(sent.values)
    (back,) = next(phase for phase in second.phases if phase.name == "backward").then
    backward = next(phase for phase in first.phases if phase.name == "backward")
    assert (back.to, len(back.values)) == (0, list(backward.feeds.values()).count("stage after"))
    for step in (first, second):
        forward, backward = (next(phase for phase in step.phases if phase.name == name) for name in ("forward", "backward"))
        assert set(backward.takes.values()) == {("forward", name) for name in forward.hands}
        assert {v.name for v in backward.graph.inputs} == {*backward.feeds, *backward.takes, *backward.reads}
        assert {state.owner for state in step.state.values()} <= {"all", 0 if step is first else 1}
    assert second.fetches == (("forward", loss.name),) and first.fetches == ()
    assert "per micro-batch" in str(first) and "then stage 1 gets 1 value, " in str(first)


def test_micro_batches_go_one_forward_one_backward():
    loss, hidden, _ = network(paddle.optimizer.Adam(0.01))

    def work(transport):
        return PipelineStep(loss.block.program, loss, hidden[:2], transport, micro_batches=4).step

    steps = run_local(3, work)
    for step in steps:
        order = [(name, number) for name, number in step.order(4) if name in ("forward", "backward")]
        assert sorted(order) == [(name, number) for name in ("backward", "forward") for number in range(4)]
        for name in ("forward", "backward"):
            assert [number for other, number in order if other == name] == [0, 1, 2, 3]
    shown = ["".join(f"{name[0]}{number}" for name, number in step.order(4) if name in ("forward", "backward")) for step in steps]
    assert shown == ["f0f1f2b0f3b1b2b3", "f0f1b0f2b1f3b2b3", "f0b0f1b1f2b2f3b3"]
    # What runs once comes before and after, for the first.
    assert [name for name, _ in steps[0].order(1)] == [phase.name for phase in steps[0].phases]


def test_examples_may_lie_along_another_axis():
    """Of the input, and of what is fetched"""
    x, label = static.data("x", [3, "N", 4], "float64"), static.data("label", ["N"], "int64")
    hidden = static.nn.fc(x, 6, num_flatten_dims=2, activation="tanh")
    behind = static.nn.fc(hidden, 9, num_flatten_dims=2)
    loss = F.cross_entropy(paddle.mean(behind, 0), label)
    paddle.optimizer.Momentum(0.1, 0.9).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    loss.block.program.plan.example_axes["x"] = 1
    feeds = {"x": RANDOM.normal(size=(3, 7, 4)), "label": Y[:7]}

    def run(transport):
        step = PipelineStep(loss.block.program, loss, [hidden], transport, micro_batches=3, fetch=[behind], threads=1)
        values = step.compute(feeds)
        step.apply()
        return values, step.run(feeds)

    values, second = run_local(2, run)[1]
    expected = [executor.run(loss.block.program, feeds, [loss, behind]) for _ in range(2)]
    np.testing.assert_allclose(values[behind.name], expected[0][1], rtol=1e-9)
    np.testing.assert_allclose([values[loss.name], second], [losses for losses, _ in expected], rtol=1e-9)
    with pytest.raises(ArgumentError, match=r"the one that program.plan.example_axes names.*x \[3, 7, 4\], label \[3\]"):
        run_local(
            2,
            lambda transport: PipelineStep(loss.block.program, loss, [hidden], transport, micro_batches=3).compute(
                {"x": feeds["x"], "label": Y[:3]}
            ),
        )
