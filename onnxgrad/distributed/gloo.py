"""The transport of torch's gloo, where torch is installed: several machines without MPI."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.distributed.transport import checked
from onnxgrad.errors import ProviderError

__all__ = ["GlooTransport"]


class GlooTransport:
    """Ranks that torch connects, by the environment variables that ``torchrun`` sets.

    Raises:
        ProviderError: if torch is not installed.
    """

    def __init__(self, **options: Any) -> None:
        try:
            import torch
            from torch import distributed
        except ImportError as error:
            raise ProviderError("gloo is a part of torch, which is not installed. Use MPI: pip install 'onnxgrad[mpi]'.") from error
        self._torch, self._engine = torch, distributed
        if not distributed.is_initialized():
            distributed.init_process_group("gloo", **options)
        self.rank, self.world_size = distributed.get_rank(), distributed.get_world_size()
        operations = distributed.ReduceOp
        self._operations = {"sum": operations.SUM, "max": operations.MAX, "min": operations.MIN}

    def all_reduce_(self, buffer: np.ndarray[Any, Any], op: str = "sum") -> None:
        self._engine.all_reduce(self._tensor(checked(buffer, op)), self._operations[op])

    def broadcast_(self, buffer: np.ndarray[Any, Any], root: int = 0) -> None:
        self._engine.broadcast(self._tensor(checked(buffer)), root)

    def barrier(self) -> None:
        self._engine.barrier()

    def _tensor(self, buffer: np.ndarray[Any, Any]) -> Any:
        """The same memory as a tensor."""
        if buffer.dtype.name == "bfloat16":
            return self._torch.from_numpy(buffer.view(np.int16)).view(self._torch.bfloat16)
        return self._torch.from_numpy(buffer.view(np.uint8) if buffer.dtype.kind == "b" else buffer)
