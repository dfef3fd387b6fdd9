"""Shards and pipelines between real ranks, started by mpiexec."""

from pathlib import Path

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


_PEAK = """
import re
import numpy as np
import onnxgrad as paddle
from onnxgrad import distributed, static
from onnxgrad.distributed import Strategy, distribute
from tests.distributed.ranks import answer

def megabytes(key):
    with open("/proc/self/status") as status:
        return int(re.search(key + r":\\s+(\\d+)", status.read()).group(1)) * 1024 / 1e6

paddle.enable_static()
t = distributed.init(watched=False)
h = static.data("x", ["N", 1536])
for _ in range(5):
    h = static.nn.fc(h, 1536, activation="tanh", bias_attr=False)
loss = paddle.mean(paddle.square(h))
paddle.optimizer.Adam(1e-4).minimize(loss)
program = loss.block.program
before = megabytes("VmRSS")
for p in program.all_parameters():
    p.set_value(np.full(p.shape, 0.01, np.float32))
exchange = distribute(program, loss, t, Strategy(sharding=1))
executor = paddle.Executor(threads=1)
for _ in range(3):
    executor.run(program, {"x": np.ones((8, 1536), np.float32)}, [loss])
traffic = exchange.traffic
answer({"rank": t.rank, "peak": megabytes("VmHWM") - before, "sent": (traffic.bytes + traffic.weights) / traffic.steps / 1e6})
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak of a process from /proc")
@pytest.mark.parametrize("count", [2, 4])
def test_a_rank_takes_the_memory_of_its_share_and_sends_what_a_ring_does(count):
    """Weights and gradients whole, the two moments in shares, and a bucket for what travels and is applied: 47.2 MB, 47.2 MB,
    2 * 47.2 MB / ranks and 25 MB; within a tenth. Nothing is made of the moments of others, not even for a moment."""
    weights = 5 * 1536 * 1536 * 4 / 1e6
    for rank in answers(count, _PEAK):
        assert rank["peak"] == pytest.approx(weights * (2 + 2 / count) + 25, rel=0.1)
        assert rank["sent"] == pytest.approx(2 * (count - 1) / count * weights, rel=1e-3)
