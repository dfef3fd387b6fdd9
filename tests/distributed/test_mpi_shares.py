"""Shards and pipelines between real ranks, started by mpiexec."""

import numpy as np

from tests.distributed.ranks import answers, needs_mpi

pytestmark = needs_mpi

_SHARES = """
import hashlib, numpy as np, onnxgrad as paddle, onnxgrad.nn.functional as F
from onnxgrad import distributed, static
from onnxgrad.core.ir.scope import Scope
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
found["alone"] = [float(executor.run(program, feeds, [loss])[0]) for _ in range(4)]
answer(found)
"""


def test_shards_and_pipelines_take_the_steps_of_one_process():
    first, *others = answers(3, _SHARES)
    for name in ("state", "gradients", "pipeline"):
        np.testing.assert_allclose(first[name], first["alone"], rtol=1e-5, err_msg=name)
        assert [other[name] for other in others] == [first[name]] * 2
        assert [other[f"{name} bits"] for other in others] == [first[f"{name} bits"]] * 2
