"""Training on several processes: the same program, each rank on its part of the batch.

``mpiexec -n 4`` starts the ranks, ``init`` finds them, and ``fleet.distributed_optimizer`` or ``Trainer(distributed=True)`` lets
them exchange gradients. Names of Paddle stand beside: ``init_parallel_env``, ``get_rank``, ``get_world_size``.
``ShardedStep`` and ``PipelineStep`` share out the optimizer's state, and layers.
"""

from onnxgrad.distributed import fleet
from onnxgrad.distributed.environment import (
    ParallelEnv,
    all_reduce,
    barrier,
    broadcast,
    init,
    init as init_parallel_env,
    is_available,
    is_initialized,
    rank,
    rank as get_rank,
    using,
    world_size,
    world_size as get_world_size,
)
from onnxgrad.distributed.exchange import Part, distribute
from onnxgrad.distributed.parallel import DataParallel
from onnxgrad.distributed.pipeline import PipelineStep
from onnxgrad.distributed.sampler import DistributedBatchSampler
from onnxgrad.distributed.sharded import ShardedStep
from onnxgrad.distributed.strategy import Strategy
from onnxgrad.distributed.transport import Alone, LocalTransport, PointToPoint, ReduceOp, Transport, run_local
from onnxgrad.internal.refusals import absence_hooks

__all__ = [
    "Alone",
    "DataParallel",
    "DistributedBatchSampler",
    "LocalTransport",
    "ParallelEnv",
    "Part",
    "PipelineStep",
    "PointToPoint",
    "ReduceOp",
    "ShardedStep",
    "Strategy",
    "Transport",
    "all_reduce",
    "barrier",
    "broadcast",
    "distribute",
    "fleet",
    "get_rank",
    "get_world_size",
    "init",
    "init_parallel_env",
    "is_available",
    "is_initialized",
    "rank",
    "run_local",
    "using",
    "world_size",
]


globals().update(absence_hooks(__name__))
