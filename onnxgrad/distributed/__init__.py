"""Training on several processes: the same program, each rank on its part of the batch.

<<<<<<< HEAD
from onnxgrad.distributed.sharded import ShardedStep
from onnxgrad.distributed.transport import Alone, LocalTransport, PointToPoint, Transport, run_local

__all__ = ["Alone", "LocalTransport", "PointToPoint", "ShardedStep", "Transport", "run_local"]
=======
``mpiexec -n 4`` starts the ranks, ``init`` finds them, and ``fleet.distributed_optimizer`` or ``Trainer(distributed=True)`` lets
them exchange gradients.
"""

from onnxgrad.distributed.environment import all_reduce, barrier, broadcast, init, rank, world_size
from onnxgrad.distributed.exchange import Part, distribute
from onnxgrad.distributed.strategy import Strategy
from onnxgrad.distributed.transport import Alone, LocalTransport, Transport, run_local

__all__ = [
    "Alone",
    "LocalTransport",
    "Part",
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
>>>>>>> mpi
