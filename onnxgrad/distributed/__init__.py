"""Training on several processes: the same program, each rank on its part of the batch."""

from onnxgrad.distributed.sharded import ShardedStep
from onnxgrad.distributed.transport import Alone, LocalTransport, PointToPoint, Transport, run_local

__all__ = ["Alone", "LocalTransport", "PointToPoint", "ShardedStep", "Transport", "run_local"]
