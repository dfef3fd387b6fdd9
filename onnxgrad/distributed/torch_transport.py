"""The transport of torch.distributed, where torch is installed: gloo, NCCL, UCC, oneCCL, or a backend that a package registers.

Tests: tests/distributed/test_torch_transport.py.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from onnxgrad.distributed.job import Job, address_of, device_number, job_of
from onnxgrad.distributed.transport import Operation, own_range, writable_buffer
from onnxgrad.errors import ArgumentError, ProviderError, TrainingError

__all__ = ["TorchTransport"]

_ON_THE_WAY = 256
"""Sends that are waited for when there are more: torch may not say which have ended."""
_ON_GPUS = {"nccl": "cuda"}
"""Backends that exchange in the memory of GPUs alone; beside them gloo exchanges what lies in main memory."""


class TorchTransport:
    """Ranks that torch connects: by a process group of the caller, or by the variables that a launcher sets (``job_of``).

    Args:
        backend: a name of torch's, such as ``"gloo"``, ``"nccl"`` or ``"ucc"``; None for torch's choice. It is for ranks that are
            not connected yet.
        group: a process group of torch; None for all ranks.
        device: where gradients lie that ranks exchange without the host, as ``"cuda:1"``; None for the GPU of the local rank where
            ``backend="nccl"`` asks for it, or the group has no other, else for none.
        options: of torch's ``init_process_group``.

    Attributes:
        device: the name and the number of that device, as places have them; None where ranks exchange in main memory alone.
        stream: the address of the CUDA stream on which they exchange there; 0 for none.

    Raises:
        ProviderError: if torch is not installed, or lacks the backend, or sees no GPU for it.
        ArgumentError: if the ranks are connected already, by another backend than asked for.
        TrainingError: if the environment does not say where rank 0 is.
    """

    def __init__(self, backend: str | None = None, group: Any = None, device: str | None = None, **options: Any) -> None:
        try:
            import torch
            from torch import distributed
        except ImportError as error:
            message = "torch is not installed, which connects these ranks. Install it, or use MPI: pip install 'onnxgrad[mpi]'."
            raise ProviderError(message) from error
        self._torch, self._engine = torch, distributed
        job = job_of()
        if not distributed.is_available():
            raise ProviderError("this torch was built without torch.distributed. Install another build, or use MPI.")
        if group is None and not distributed.is_initialized():
            _require(torch, backend)
            _connect(distributed, job, backend, options)
        elif backend is not None and backend not in _backends(distributed, group):
            names = ", ".join(sorted(set(_backends(distributed, group))))
            raise ArgumentError(f"these ranks are connected by {names} already, not {backend!r}. Leave backend out.")
        config = str(distributed.get_backend_config(group))
        self._exchanges_on_host = "cpu:" in config
        # gloo reduces and scatters by an all-reduce, which sends twice as much (torch 2.14, counted).
        self._adds_up_itself = "cpu:gloo" in config
        self._is_world = group is None or group is distributed.group.WORLD
        self._group, self._ranks = group, list(distributed.get_process_group_ranks(group or distributed.group.WORLD))
        self.rank, self.world_size = distributed.get_rank(group), distributed.get_world_size(group)
        if device is None and (backend in _ON_GPUS or (not self._exchanges_on_host and "cuda:" in config)):
            device = f"cuda:{device_number(job)}"
        self.device: tuple[str, int] | None = None
        self.stream = 0
        self._stream: Any = None
        if device is not None:
            self._take_device(torch.device(device))
        if not self._exchanges_on_host and self.device is None:
            raise ArgumentError(f"{config} exchanges in the memory of devices alone. Say in which: device='cuda:0'.")
        self._sent: list[tuple[Any, Any]] = []
        operations = distributed.ReduceOp
        self._operations = {"sum": operations.SUM, "max": operations.MAX, "min": operations.MIN}
        # Their names since torch 2.14, and before.
        self._reduce_scatter = getattr(distributed, "reduce_scatter_single", None) or distributed.reduce_scatter_tensor
        self._all_gather = getattr(distributed, "all_gather_single", None) or distributed.all_gather_into_tensor

    def _take_device(self, device: Any) -> None:
        """Exchange on a device, on torch's present stream there, or where that is the default one, which nobody else can be given
        the address of, on a new one."""
        self._device, self.device = device, (device.type, device.index or 0)
        if device.type != "cuda":
            return
        cuda = self._torch.cuda
        cuda.set_device(device)
        present = cuda.current_stream(device)
        self._stream = present if present.cuda_stream else cuda.Stream(device)
        self.stream = int(self._stream.cuda_stream)

    # Arrays in main memory, and tensors on the device ------------------------------------------------------------------

    def all_reduce_(self, buffer: Any, op: Operation = "sum") -> None:
        with self._tensor(buffer, op) as tensor:
            self._engine.all_reduce(tensor, self._operations[op], group=self._group)

    def reduce_scatter_(self, buffer: Any) -> None:
        with self._tensor(buffer) as tensor:
            own = own_range(self, tensor)
            if self._adds_up_itself and tensor.device.type == "cpu":
                received = self._torch.empty_like(tensor)
                self._engine.all_to_all_single(received, tensor, group=self._group)
                first, *others = received.view(self.world_size, -1)
                for part in others:
                    first += part
                own.copy_(first)
            else:
                self._reduce_scatter(own, tensor, group=self._group)

    def all_gather_(self, buffer: Any) -> None:
        with self._tensor(buffer) as tensor:
            self._all_gather(tensor, own_range(self, tensor), group=self._group)

    def all_to_all_(self, buffer: Any) -> None:
        with self._tensor(buffer) as tensor:
            own_range(self, tensor)
            self._engine.all_to_all_single(tensor, tensor.clone(), group=self._group)

    def broadcast_(self, buffer: np.ndarray[Any, Any], root: int = 0) -> None:
        with self._tensor(buffer) as tensor:
            self._engine.broadcast(tensor, self._ranks[root], group=self._group)

    def barrier(self) -> None:
        # Not torch's own, which on GPUs waits for all that is on its way there.
        self.all_reduce_(np.zeros(1, np.uint8))

    def send(self, buffer: np.ndarray[Any, Any], to: int) -> None:
        with self._tensor(buffer) as tensor:
            sent = tensor.clone()
            self._sent = [(request, kept) for request, kept in self._sent if not request.is_completed()]
            while len(self._sent) >= _ON_THE_WAY:
                self._sent.pop(0)[0].wait()
            self._sent.append((self._engine.isend(sent, self._ranks[to], group=self._group), sent))

    def receive_(self, buffer: np.ndarray[Any, Any], source: int) -> None:
        with self._tensor(buffer) as tensor:
            self._engine.recv(tensor, self._ranks[source], group=self._group)

    def groups(self, groups: list[list[int]]) -> TorchTransport:
        """The transport of the group that this rank is in; called by all ranks with the same groups.

        Args:
            groups: ranks, each in one group.
        """
        mine = next(group for group in groups if self.rank in group)
        # Ranks outside the caller's group do not call: then each makes its own group alone.
        made = {
            tuple(group): self._engine.new_group(
                [self._ranks[rank] for rank in group],
                backend=self._engine.get_backend_config(self._group),
                use_local_synchronization=not self._is_world,
            )
            for group in (groups if self._is_world else [mine])
        }
        return TorchTransport(group=made[tuple(mine)], device=None if self.device is None else str(self._device))

    @contextmanager
    def _tensor(self, buffer: Any, op: Operation = "sum") -> Iterator[Any]:
        """The same memory as a tensor; where the backend exchanges on GPUs alone a copy there, which is copied back"""
        if isinstance(buffer, self._torch.Tensor):
            with self.on_stream():
                yield buffer
            return
        writable_buffer(buffer, op)
        if buffer.dtype.name == "bfloat16":
            tensor = self._torch.from_numpy(buffer.view(np.int16)).view(self._torch.bfloat16)
        else:
            tensor = self._torch.from_numpy(buffer.view(np.uint8) if buffer.dtype.kind == "b" else buffer)
        if self._exchanges_on_host:
            yield tensor
            return
        with self.on_stream():
            there = tensor.to(self._device, copy=True)
            yield there
            tensor.copy_(there)

    # Memory of the device -----------------------------------------------------------------------------------------------

    def on_stream(self) -> Any:
        """The context in which torch computes on ``stream``: what runs there later finds what is computed, and the host goes on."""
        return nullcontext() if self._stream is None else self._torch.cuda.stream(self._stream)

    def wait(self) -> None:
        """Wait until what is on ``stream`` is done: copies to the host by others do not follow it."""
        if self._stream is not None:
            self._stream.synchronize()

    def room(self, size: int, dtype: np.dtype[Any]) -> Any:
        """Allocate a tensor of zeros of rank 1 on the device.

        Args:
            size: how many elements.
            dtype: of these.
        """
        torch_type = self._torch.bool if dtype.kind == "b" else getattr(self._torch, dtype.name)
        with self.on_stream():
            return self._torch.zeros(size, dtype=torch_type, device=self._device)

    def taken(self, array: np.ndarray[Any, Any]) -> Any:
        """Copy an array to the device.

        Args:
            array: of rank 1.
        """
        with self.on_stream():
            return self._torch.from_numpy(array).to(self._device, copy=True)

    def value(self, tensor: Any) -> Any:
        """An OrtValue on the memory of a tensor.

        Args:
            tensor: whose elements lie side by side.

        Raises:
            ProviderError: if onnxruntime is too old to take memory of torch's.
        """
        import onnxruntime

        taken = getattr(onnxruntime.OrtValue, "from_dlpack", None)
        if taken is None:
            message = f"onnxruntime {onnxruntime.__version__} takes no memory of torch's (DLPack), where gradients are exchanged"
            raise ProviderError(f"{message}. Use a newer one, or exchange by gloo.")
        return taken(tensor)

    def view(self, value: Any) -> Any:
        """A tensor of rank 1 on the memory of an OrtValue.

        Args:
            value: a tensor on the device.
        """
        return self._torch.from_dlpack(value).view(-1)


def _backends(distributed: Any, group: Any) -> list[str]:
    """The backends of a group, one for each kind of device"""
    return [entry.partition(":")[2] for entry in str(distributed.get_backend_config(group)).split(",")]


def _require(torch: Any, backend: str | None) -> None:
    """Refuse a backend that torch lacks, before ranks wait for each other.

    Raises:
        ProviderError: with those that there are.
    """
    if backend is None:
        return
    distributed = torch.distributed
    for name in (entry.rpartition(":")[2] for entry in backend.split(",")):
        if not distributed.is_backend_available(name):
            known = [other for other in distributed.Backend.backend_list if distributed.is_backend_available(other)]
            action = "Use one of these, or import the package that registers it"
            raise ProviderError(f"this torch has no backend {name!r}: it has {', '.join(known)}. {action}.")
        if name in _ON_GPUS and not torch.cuda.is_available():
            raise ProviderError(f"{name} exchanges on GPUs, and torch sees none. Install its build for CUDA, or use 'gloo'.")


def _connect(distributed: Any, job: Job, backend: str | None, options: dict[str, Any]) -> None:
    """Let torch connect the ranks that a launcher has started"""
    if backend in _ON_GPUS:
        backend = f"cpu:gloo,{_ON_GPUS[backend]}:{backend}"
    if not options.keys() & {"init_method", "store", "rank", "world_size"}:
        if job.rank is None or job.world_size is None:
            said = "do not say which rank this process is" if job.launcher is None else "do not say how many ranks there are"
            raise TrainingError(f"the variables of {job.launcher or 'the environment'} {said}. Start it by torchrun.")
        address, port = address_of(job)
        # Under torchrun the agent on the first machine may hold the store of the ranks already, which env:// knows.
        if job.launcher != "torchrun":
            options = {**options, "init_method": f"tcp://{address}:{port}", "rank": job.rank, "world_size": job.world_size}
    distributed.init_process_group(backend, **options)
    # Its threads may end the process by SIGABRT when Python goes down before they have.
    atexit.register(_disconnect, distributed)


def _disconnect(distributed: Any) -> None:
    if distributed.is_initialized():
        distributed.destroy_process_group()
