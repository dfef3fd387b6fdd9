"""Shards and pipelines between real ranks, started by mpiexec."""

import numpy as np
import pytest

from tests.distributed.ranks import answers, needs_mpi

pytestmark = [needs_mpi, pytest.mark.ranks]

_SHARES = """
import hashlib, numpy as np, onnxgrad as paddle, onnxgrad.nn.functional as F
from onnxgrad import distributed, static
from onnxgrad.core.state.scope import Scope
from tests.distributed.ranks import answer

t = distributed.init()
draw = np.random.default_rng(0)
feeds = {"x": draw.normal(size=(12, 80)).astype(np.float32), "label": draw.integers(0, 70, 12)}
paddle.seed(3)
hidden = [static.data("x", ["N", 80])]
for _ in range(3):
    hidden.append(static.nn.fc(hidden[-1], 80, activation="tanh"))
normal = static.nn.batch_norm(hidden[-1])
loss = F.cross_entropy(static.nn.fc(normal, 70), static.data("label", ["N"], "int64"))
clip = paddle.nn.ClipGradByGlobalNorm(0.5)
paddle.optimizer.Adam(0.01, epsilon=1e-4, grad_clip=clip).minimize(loss)
executor = static.Executor()
executor.run(static.default_startup_program())
program = loss.block.program
state = [v for v in program.list_vars() if v.persistable]
for v in state:  # initial weights are drawn by each process
    value = np.array(v.get_value())
    t.broadcast_(value.reshape(-1))
    v.set_value(value)
rows = np.array_split(np.arange(12), t.world_size)[t.rank]
found = {"rank": t.rank}
makers = {
    "state": lambda: distributed.ShardedStep(program, [loss], t, batch_norm="sync", threads=1),
    "gradients": lambda: distributed.ShardedStep(program, [loss], t, batch_norm="sync", shards="gradients", threads=1),
    "pipeline": lambda: distributed.PipelineStep(program, loss, hidden[1:3], t, micro_batches=1, batch_norm="local", threads=1),
}
for name, make in makers.items():
    step = make()
    if name == "pipeline":
        losses = [step.run(feeds) for _ in range(4)]
    else:
        losses = [float(step.run({k: v[rows] for k, v in feeds.items()})[loss.name]) for _ in range(4)]
    scope = Scope()
    step.gather(scope)
    found[name] = losses
    found[name + " bits"] = hashlib.sha256(b"".join(v.get_value(scope).tobytes() for v in state)).hexdigest()
for shards in ("state", "gradients"):
    for compress in ("bfloat16", "float16", "top-k"):
        strategy = distributed.Strategy(compress=compress, top_k=0.25)
        step = distributed.ShardedStep(program, [loss], t, batch_norm="sync", shards=shards, strategy=strategy, threads=1)
        losses = [float(step.run({k: v[rows] for k, v in feeds.items()})[loss.name]) for _ in range(4)]
        scope = Scope()
        step.gather(scope)
        name = f"{shards}, {compress}"
        found[name] = losses
        found[name + " bits"] = hashlib.sha256(b"".join(v.get_value(scope).tobytes() for v in state)).hexdigest()
found["alone"] = [float(executor.run(program, feeds, [loss])[0]) for _ in range(4)]
answer(found)
"""


_GRID = """
import hashlib, numpy as np
from onnxgrad import distributed
from onnxgrad.distributed import Strategy
from tests.distributed.ranks import answer
from tests.distributed.test_trainer import trainer
from tests.training.small import data

t = distributed.init()
found = {"rank": t.rank}
options = {"loss_scale": 1024.0, "clip_norm": 0.5, "ema": 0.8, "optimizer": "sgd", "learning_rate": 0.1}
for name, strategy in (("alone", False), ("grid", Strategy(pipeline=2, micro_batches=3))):
    one = trainer(distributed=strategy, **options)
    history = one.fit(data(), 2, data(10), batch_size=13, verbose=False)
    found[name] = [row["loss"] for row in history] + [row["val_loss"] for row in history]
    one.ranks.step.collect()
    values = [p.get_value() for p in one.program.parameters]
    found[name + " bits"] = hashlib.sha256(b"".join(value.tobytes() for value in values)).hexdigest()
    found[name + " sums"] = [float(np.abs(value).sum()) for value in values]
answer(found)
"""


@pytest.mark.exhaustive
def test_a_trainer_runs_rows_of_stages():
    """Watched, and through communicators of rows and columns; the last batch of 1 leaves a row without an example"""
    first, *others = answers(4, _GRID)
    np.testing.assert_allclose(first["grid"], first["alone"], rtol=1e-4)
    np.testing.assert_allclose(first["grid sums"], first["alone sums"], rtol=1e-3, atol=1e-5)
    assert len({one["grid bits"] for one in (first, *others)}) == 1
    assert [one["grid"] for one in others] == [first["grid"]] * 3


@pytest.mark.exhaustive
def test_shards_and_pipelines_take_the_steps_of_one_process():
    first, *others = answers(3, _SHARES)
    for name in ("state", "gradients", "pipeline"):
        np.testing.assert_allclose(first[name], first["alone"], rtol=1e-5, err_msg=name)
        assert [other[name] for other in others] == [first[name]] * 2
        assert [other[f"{name} bits"] for other in others] == [first[f"{name} bits"]] * 2
    for shards in ("state", "gradients"):
        for compress in ("bfloat16", "float16", "top-k"):
            name = f"{shards}, {compress}"
            assert first[name][0] == first[shards][0]
            if compress == "top-k":  # a quarter of the elements is less than a step late, of steps that halve the loss or better
                assert np.all(np.array(first[name][1:]) < first["alone"][:-1])
            else:
                np.testing.assert_allclose(first[name], first["alone"], rtol=1e-2, err_msg=name)
            assert [other[name] for other in others] == [first[name]] * 2
            assert [other[f"{name} bits"] for other in others] == [first[f"{name} bits"]] * 2
