"""Which ranks this process belongs to: ``init`` finds them, the other functions use them.

Tests: tests/distributed/test_programs.py, tests/distributed/test_mpi.py.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from onnxgrad.distributed.cores import cores_of_rank
from onnxgrad.distributed.job import Job, check_size, device_number, job_of, missing_launch
from onnxgrad.distributed.mpi import MpiTransport
from onnxgrad.distributed.torch_transport import TorchTransport
from onnxgrad.distributed.transport import Alone, Operation, Transport
from onnxgrad.distributed.watch import Watch, WatchedTransport
from onnxgrad.errors import ArgumentError, NotOffered, TrainingError
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.processors import usable_cores

if TYPE_CHECKING:
    from onnxgrad.eager.tensor import Tensor

__all__ = [
    "ParallelEnv",
    "all_reduce",
    "barrier",
    "broadcast",
    "current",
    "fail",
    "init",
    "is_available",
    "is_initialized",
    "is_launched",
    "rank",
    "share_of_cores",
    "using",
    "world_size",
]

_OF_THREAD: ContextVar[Transport | None] = ContextVar("onnxgrad_transport", default=None)
_OF_PROCESS: list[Transport] = []
_CORES: list[int] = []
"""How many cores this rank has, once it has joined the others."""
_Value = TypeVar("_Value", bound="np.ndarray[Any, Any] | Tensor")


def is_launched() -> bool:
    """Whether a launcher of ranks (mpiexec, torchrun, srun, ...) started this process."""
    return job_of().launcher is not None


@checked
def init(
    transport: Transport | str | None = None,
    *,
    backend: str | None = None,
    timeout: float = 600.0,
    lost_after: float = 60.0,
    watched: bool = True,
) -> Transport:
    """Join the ranks that were started together; called once by each, before anything else here. A second call changes nothing.

    Args:
        transport: ``"mpi"``, ``"torch"`` (torch.distributed), or a transport, as ``TorchTransport(group=...)``. None for the engine
            of the launcher that started this process (``job_of``): MPI for mpiexec, torch for torchrun, a PyTorchJob and srun
            without PMI; one rank where none did. ``"gloo"`` is the deprecated name of ``"torch"`` with ``backend="gloo"``.
        backend: of ``"torch"``: ``"gloo"``, ``"nccl"``, ``"ucc"``, or another one that it has; None for torch's choice.
        timeout: seconds that a rank waits for another before all are ended.
        lost_after: seconds without a sign of life after which a rank is taken for dead, and one that hears nothing ends itself with
            exit code 75.
        watched: whether a rank that dies, raises, leaves early or hangs ends all, with a message that names it.

    Raises:
        ProviderError: if mpi4py, or torch, is not installed, or MPI sees another number of ranks than were started.
        TrainingError: if this process has no rank, but looks like a part of a job of several.
        ArgumentError: if the transport has another name, or a backend is said of one that has none.
    """
    if _OF_PROCESS:
        return _OF_PROCESS[0]
    if transport == "gloo":
        warnings.warn("init('gloo') is deprecated. Say init('torch', backend='gloo').", DeprecationWarning, stacklevel=3)
        transport, backend = "torch", backend or "gloo"
    job = job_of()
    if transport is None:
        transport = _engine_of(job, backend)
    if backend is not None and transport != "torch":
        raise ArgumentError(f"backend={backend!r} is one of torch's. Say init('torch', backend={backend!r}).")
    abort: Any = os._exit
    if transport == "mpi":
        mpi = transport = MpiTransport()
        check_size(job, mpi.world_size, mpi.library)
        abort = mpi.abort
    elif transport == "torch":
        transport = TorchTransport(backend)
    elif isinstance(transport, str):
        raise ArgumentError(f"transport is 'mpi', 'torch' or an object, not {transport!r}.")
    if watched and transport.world_size > 1:
        transport = WatchedTransport(transport, Watch(transport, abort, timeout, lost_after))
    _CORES[:] = [cores_of_rank(transport)]
    _OF_PROCESS.append(transport)
    return transport


def _engine_of(job: Job, backend: str | None) -> Transport | str:
    """The engine of a job, by name; a transport where there is one rank

    Raises:
        TrainingError: if this process looks like a part of one, but has no rank.
    """
    missing = missing_launch()
    if missing is not None:
        raise TrainingError(f"this process would train alone: {missing}")
    if backend is not None:
        return "torch"
    if job.engine is None or (job.engine == "torch" and job.world_size == 1):
        return Alone()
    if job.launcher == "srun" and find_spec("torch") is None:
        return "mpi"
    return job.engine


def current() -> Transport:
    """The transport in use; of one rank before ``init``."""
    of_thread = _OF_THREAD.get()
    if of_thread is not None:
        return of_thread
    return _OF_PROCESS[0] if _OF_PROCESS else Alone()


@checked
@contextmanager
def using(transport: Transport) -> Iterator[None]:
    """Use another transport in this thread, inside a ``with`` block.

    Args:
        transport: what connects the ranks.
    """
    token = _OF_THREAD.set(transport)
    try:
        yield
    finally:
        _OF_THREAD.reset(token)


def fail(reason: str) -> bool:
    """End all ranks with a message that names this one; False where nobody watches, and nothing is done."""
    transport = current()
    if not isinstance(transport, WatchedTransport):
        return False
    transport.watch.fail(reason)
    return True


def share_of_cores() -> int:
    """The cores of this machine for each of its ranks, at least 1; all of them where it is not known how many ranks there are."""
    if _CORES and _OF_THREAD.get() is None:
        return _CORES[0]
    return max(1, usable_cores() // max(1, job_of().local_size or 1))


@checked
def rank(group: None = None) -> int:
    """The number of this process, from 0.

    Args:
        group: None: all ranks are one group.
    """
    return current().rank


@checked
def world_size(group: None = None) -> int:
    """How many processes there are.

    Args:
        group: None: all ranks are one group.
    """
    return current().world_size


def is_available() -> bool:
    """Whether ranks can be used: True."""
    return True


def is_initialized() -> bool:
    """Whether this process has joined others."""
    return not isinstance(current(), Alone)


class ParallelEnv:
    """Properties of a rank and its job.

    Example:
        >>> paddle.distributed.ParallelEnv().world_size
        1
    """

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""
        return rank()

    @property
    def world_size(self) -> int:
        """How many processes there are."""
        return world_size()

    @property
    def local_rank(self) -> int:
        """The number of this process among those of its machine, where its launcher says it; else that among all."""
        local_rank = job_of().local_rank
        return rank() if local_rank is None else local_rank

    @property
    def device_id(self) -> int:
        """The number of this process's GPU, among those that it sees."""
        return device_number(job_of())

    nranks = world_size
    dev_id = device_id


@checked
def barrier(group: None = None) -> None:
    """Wait for all ranks.

    Args:
        group: None: all ranks are one group.
    """
    current().barrier()


@checked
def all_reduce(tensor: _Value, op: Operation = "sum", group: None = None, sync_op: bool = True) -> _Value:
    """Replace an array, or an eager tensor, by the sum (``"max"``, ``"min"``) over all ranks; returns it.

    Args:
        tensor: an array or a tensor, of one shape and type on all ranks.
        op: "sum", "max" or "min", as ``ReduceOp`` names them.
        group: None: all ranks are one group.
        sync_op: must be True: it is there when the call returns.

    Raises:
        NotOffered: for another group, or without ``sync_op``.
        ArgumentError: if an array cannot be written to in place, or the operation is unknown.

    Example:
        >>> all_reduce(np.array([1.0, 2.0]))  # one rank
        array([1., 2.])
    """
    _require_all("all_reduce", group, sync_op)
    return _in_place(tensor, lambda flat: current().all_reduce_(flat, op))


@checked
def broadcast(tensor: _Value, src: int = 0, group: None = None, sync_op: bool = True) -> _Value:
    """Replace an array, or an eager tensor, by the array of a rank; returns it.

    Args:
        tensor: an array or a tensor, of one shape and type on all ranks.
        src: the rank whose value all get.
        group: None: all ranks are one group.
        sync_op: must be True: it is there when the call returns.

    Raises:
        NotOffered: for another group, or without ``sync_op``.
        ArgumentError: if an array cannot be written to in place.
    """
    _require_all("broadcast", group, sync_op)
    return _in_place(tensor, lambda flat: current().broadcast_(flat, src))


def _require_all(function: str, group: object, sync_op: bool) -> None:
    if group is not None:
        raise NotOffered(f"{function}: group is None, as all ranks are one group, not {group!r}. Leave it out.")
    if not sync_op:
        raise NotOffered(f"{function}: sync_op is True: the result is there when the call returns. Leave it out.")


def _in_place(value: _Value, change: Callable[[np.ndarray[Any, Any]], object]) -> _Value:
    if not isinstance(value, np.ndarray):
        array = np.array(value.numpy(), order="C")
        change(array.reshape(-1))
        value.set_value(array)
        return value
    if not value.flags.c_contiguous:
        raise ArgumentError("ranks exchange arrays in place: give a contiguous one.")
    change(value.reshape(-1))
    return value
