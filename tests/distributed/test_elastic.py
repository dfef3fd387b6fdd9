"""A run that goes on with another number of ranks: a checkpoint has the state of all, and the position in examples."""

import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.core.state.scope import Scope
from onnxgrad.distributed import PipelineStep, ShardedStep, run_local
from onnxgrad.internal.tensor_file import read_metadata
from onnxgrad.training import load_checkpoint, save_checkpoint
from onnxgrad.training.data.rows import Columns
from onnxgrad.training.run.position import Position, position_of

RANDOM = np.random.default_rng(0)
DATA = Columns({"x": RANDOM.normal(size=(60, 80)).astype(np.float32), "label": RANDOM.integers(0, 70, 60)})
BATCH = 12


def network():
    x = static.data("x", ["N", 80])
    h = static.nn.batch_norm(static.nn.fc(x, 90, activation="tanh"))
    loss = F.cross_entropy(static.nn.fc(h, 70), static.data("label", ["N"], "int64"))
    clip = paddle.nn.ClipGradByGlobalNorm(0.2)
    paddle.optimizer.Adam(0.01, epsilon=1e-4, grad_clip=clip).minimize(loss)
    static.Executor().run(static.default_startup_program())
    return loss, h


def batches(examples):
    """All batches from a position on: an epoch is 60 examples"""
    epoch, inside = divmod(examples, len(DATA))
    while True:
        yield from DATA.batches(BATCH, seed=3, epoch=epoch, skip=inside // BATCH)
        epoch, inside = epoch + 1, 0


def go_on(loss, path, world, count, make=None):
    """Take some steps with so many ranks from where a checkpoint stands, and write the next one"""
    program = loss.block.program

    def run(transport):
        scope, examples = Scope(), 0
        if path.exists():
            load_checkpoint(program, path, scope)
            position = position_of(read_metadata(path), path)
            examples = position.epoch * len(DATA) + position.examples
        transport.barrier()
        step = (
            make(transport, scope)
            if make
            else ShardedStep(program, [loss], transport, scope if examples else None, batch_norm="sync", threads=1)
        )
        source = batches(examples)
        for _ in range(count):
            batch = next(source)
            rows = np.array_split(np.arange(BATCH), transport.world_size)[transport.rank]
            step.run(batch if make else {name: array[rows] for name, array in batch.items()})
            examples += BATCH
        whole = Scope()
        step.gather(whole)
        transport.barrier()
        if transport.rank == 0:
            epoch, inside = divmod(examples, len(DATA))
            steps = examples // BATCH
            history = [{}] * epoch
            position = Position(epoch, inside // BATCH, steps, 3, 1, inside, {}, history)
            save_checkpoint(program, path, whole, {"position": position.to_json()})
        return {v.name: v.get_value(whole) for v in program.list_vars() if v.persistable}

    return run_local(world, run)[0]


def assert_close(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=5e-4, atol=5e-6, err_msg=name)


@pytest.mark.parametrize("worlds", [(4, 2, 8), (1, 3, 1)], ids=str)
def test_four_then_two_then_eight_ranks_are_the_uninterrupted_run(worlds, tmp_path):
    """Three steps each, so that the second part begins and the third goes on inside an epoch of five batches"""
    loss, _ = network()
    for world in worlds:
        found = go_on(loss, tmp_path / "elastic.safetensors", world, 3)
    expected = go_on(loss, tmp_path / "whole.safetensors", 2, 9)
    assert_close(found, expected)
    program = loss.block.program
    executor, source = static.Executor(), batches(0)
    for _ in range(9):
        executor.run(program, next(source))
    assert_close(found, {name: program.find(name).get_value() for name in found})


def test_a_pipeline_goes_on_from_what_shards_have_written(tmp_path):
    loss, h = network()
    path = tmp_path / "elastic.safetensors"
    go_on(loss, path, 3, 2)

    def pipeline(transport, scope):
        return PipelineStep(loss.block.program, loss, [h], transport, micro_batches=1, scope=scope, batch_norm="local", threads=1)

    go_on(loss, path, 2, 2, pipeline)
    found = go_on(loss, path, 2, 2)
    executor, source = static.Executor(), batches(0)
    for _ in range(6):
        executor.run(loss.block.program, next(source))
    assert_close(found, {name: loss.block.program.find(name).get_value() for name in found})
