"""Tables of which a lazy optimizer updates the rows that are looked up alone: on ranks the run of one process."""

import numpy as np
import onnxruntime
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.step import cut
from onnxgrad.core.step.lookups import share_lookups
from onnxgrad.distributed import PipelineStep, Strategy, distribute, run_local
from onnxgrad.errors import ArgumentError

ROWS = np.random.default_rng(0).integers(-20, 12, (6, 5))
"""Of a table of 20; rows 12 to 19 are looked up by negative numbers alone, some rows by one rank alone, and some never."""
LABELS = np.array([1, -100, 0, -100, 1, 1])


def network(clip=None, dims="N", lookups=1, optimizer=paddle.optimizer.Adam, counted=True):
    main, startup = static.Program(), static.Program()
    with paddle.utils.unique_name.guard(), static.program_guard(main, startup):
        paddle.seed(1)
        ids, label = static.data("ids", [dims, 5], "int64"), static.data("label", [dims], "int64")
        table = paddle.ParamAttr(name="table")
        rows = [static.nn.embedding(ids, (20, 4), is_sparse=True, param_attr=table) for _ in range(lookups)]
        scores = static.nn.fc(paddle.mean(paddle.tanh(rows[0] if lookups == 1 else rows[0] * rows[1]), 1), 2)
        loss = paddle.nn.functional.cross_entropy(scores, label)
        optimizer(0.05, lazy_mode=True, grad_clip=clip).minimize(loss)
        static.Executor().run(startup)
    return main, loss


def trained(main, loss, transport=None, strategy=None, feeds=ROWS, steps=3):
    """Losses, and all state, after some steps."""
    scope, parts = main.active_scope().copy(), slice(None)
    program, copies = main.clone_with_variables()
    if transport is not None:
        parts = np.array_split(np.arange(len(feeds)), transport.world_size)[transport.rank]
        distribute(program, copies[loss], transport, strategy)
    executor = static.Executor(threads=1)
    losses = []
    for step in range(steps):
        # Another part of the batch each time, so that state moves on where rows are looked up no more.
        rows, labels = np.roll(feeds, step, 1)[parts], np.roll(LABELS, step)[parts]
        losses.append(float(executor.run(program, {"ids": rows[:, :5], "label": labels}, [copies[loss]], scope=scope)[0]))
    if transport is not None and program.exchange.shared is not None:
        program.exchange.shared.gather(scope, scope, None)
    return losses, {v.name: np.array(v.get_value(scope)) for v in program.list_vars() if v.persistable}


def assert_close(ranks, alone):
    for losses, state in ranks:
        assert losses == pytest.approx(alone[0], rel=1e-5)
        assert state.keys() >= alone[1].keys()
        for name, value in alone[1].items():
            np.testing.assert_allclose(state[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("count", "options", "strategy"),
    [
        (2, {}, None),
        (3, {"lookups": 2, "optimizer": paddle.optimizer.AdamW}, None),
        (2, {"clip": paddle.nn.ClipGradByGlobalNorm(0.1)}, None),
        (3, {}, Strategy(sharding=1)),
        (2, {}, Strategy(overlap=2)),
    ],
    ids=["Adam", "AdamW, two lookups", "clipped", "shares", "overlap"],
)
def test_rows_that_any_rank_looks_up_are_updated_as_in_one_process(count, options, strategy, monkeypatch):
    monkeypatch.setattr(cut, "SMALL", 4)
    main, loss = network(**options)
    alone = trained(main, loss)
    table = next(name for name in alone[1] if name == "table")
    never = sorted(set(range(20)) - set((ROWS % 20).reshape(-1)))
    np.testing.assert_array_equal(alone[1][table][never], main.find("table").get_value()[never])
    assert_close(run_local(count, lambda transport: trained(main, loss, transport, strategy)), alone)


@pytest.mark.parametrize("micro_batches", [1, 4])
@pytest.mark.parametrize("optimizer", [paddle.optimizer.Adam, paddle.optimizer.AdamW], ids=["Adam", "AdamW"])
def test_stages_of_a_pipeline_update_the_rows_that_any_micro_batch_looks_up(optimizer, micro_batches):
    """On 2 stages, and on 2 rows of 2 stages; rows of which only examples count that weigh nothing are updated too"""
    main, loss = network(optimizer=optimizer)
    with pytest.raises(ArgumentError, match=r"call core.step.lookups.share_lookups\(program\) before"):
        run_local(2, lambda transport: PipelineStep(main, loss, 2, transport, micro_batches=1))
    alone = trained(main, loss)
    share_lookups(main)
    hidden = next(op.outputs[0] for op in main.global_block().ops if op.type == "Tanh")

    def work(transport):
        step = PipelineStep(main, loss, [hidden], transport, micro_batches=micro_batches, threads=1)
        losses = [step.run({"ids": np.roll(ROWS, at, 1)[:, :5], "label": np.roll(LABELS, at)}) for at in range(3)]
        scope = Scope()
        step.gather(scope)
        return losses, {v.name: np.array(v.get_value(scope)) for v in main.list_vars() if v.persistable}

    for count in (2, 4):
        assert_close(run_local(count, work), alone)


def test_batches_of_a_size_that_the_program_fixes_are_not_mixed_up():
    """Rows of ranks had equal shapes, and were added up whichever rows of the table they were"""
    main, loss = network(dims=2)
    whole, open_loss = network()
    alone = trained(whole, open_loss)
    assert_close(run_local(3, lambda transport: trained(main, loss, transport)), alone)


def test_the_parts_of_an_exported_step_look_up_rows_of_their_own():
    """Two parts of equal weight in place of ranks: what travels is averaged, and the second model applies it"""
    main, loss = network()
    labels = np.abs(LABELS) % 2
    first, apply, manifest = paddle.to_split_training_step(main, [loss])
    state = {v.name: np.array(v.get_value()) for v in main.list_vars() if v.persistable}
    session, names = onnxruntime.InferenceSession(first.SerializeToString()), [entry["gradient"] for entry in manifest["exchange"]]
    own = [v.name for v in session.get_inputs()]
    parts = []
    for rows in (slice(0, 3), slice(3, 6)):
        feeds = {"ids": ROWS[rows], "label": labels[rows], **state}
        parts.append(dict(zip(names, session.run(names, {name: feeds[name] for name in own}), strict=True)))
    assert all(entry.get("reduction") != "same" or "beta" in entry["gradient"] for entry in manifest["exchange"])
    travelled = {name: (parts[0][name] + parts[1][name]) / 2 for name in names}
    session = onnxruntime.InferenceSession(apply.SerializeToString())
    taken = {**state, **travelled}
    outputs = [v.name for v in session.get_outputs()]
    new = dict(zip(outputs, session.run(outputs, {v.name: taken[v.name] for v in session.get_inputs()}), strict=True))
    static.Executor(threads=1).run(main, {"ids": ROWS, "label": labels}, [loss])
    for entry in manifest["apply"]["state"]:
        expected = main.find(entry["input"]).get_value()
        np.testing.assert_allclose(new[entry["output"]], expected, rtol=1e-4, atol=1e-6, err_msg=entry["input"])
