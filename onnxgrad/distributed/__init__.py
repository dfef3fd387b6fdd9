"""Training on several processes: the same program, each rank on its part of the batch.

``mpiexec -n 4`` starts the ranks, ``init`` finds them, and ``fleet.distributed_optimizer`` or ``Trainer(distributed=True)`` lets
them exchange gradients. ``ShardedStep`` and ``PipelineStep`` share out the optimizer's state, and layers.
"""

from onnxgrad.distributed.environment import all_reduce, barrier, broadcast, init, rank, world_size
from onnxgrad.distributed.exchange import Part, distribute
from onnxgrad.distributed.pipeline import PipelineStep
from onnxgrad.distributed.sharded import ShardedStep
from onnxgrad.distributed.strategy import Strategy
from onnxgrad.distributed.transport import Alone, LocalTransport, PointToPoint, Transport, run_local

__all__ = [
    "Alone",
    "LocalTransport",
    "Part",
    "PipelineStep",
    "PointToPoint",
    "ShardedStep",
    "Strategy",
    "Transport",
    "all_reduce",
    "barrier",
    "broadcast",
    "distribute",
    "init",
    "rank",
    "run_local",
    "world_size",
]
