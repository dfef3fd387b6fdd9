"""Training on several processes: the same program, each rank on its part of the batch."""

from onnxgrad.distributed.sharded import ShardedStep
from onnxgrad.distributed.transport import Alone, LocalTransport, Transport, run_local

__all__ = ["Alone", "LocalTransport", "ShardedStep", "Transport", "run_local"]
