"""Which ranks this process belongs to: ``init`` finds them, the other functions use them.

Tests: tests/distributed/test_programs.py, tests/distributed/test_mpi.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from onnxgrad.distributed.mpi import MpiTransport
from onnxgrad.distributed.transport import Alone, Operation, Transport
from onnxgrad.distributed.watch import Watch, WatchedTransport
from onnxgrad.errors import ArgumentError, NotOffered
from onnxgrad.internal.arguments import checked

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
    "is_started_by_mpi",
    "rank",
    "share_of_cores",
    "using",
    "world_size",
]

_STARTED = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "MV2_COMM_WORLD_SIZE")
_LOCAL = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE", "LOCAL_WORLD_SIZE")
_OF_THREAD: ContextVar[Transport | None] = ContextVar("onnxgrad_transport", default=None)
_OF_PROCESS: list[Transport] = []
_Value = TypeVar("_Value", bound="np.ndarray[Any, Any] | Tensor")


def is_started_by_mpi() -> bool:
    """Whether ``mpiexec`` started this process."""
    return any(name in os.environ for name in _STARTED)


@checked
def init(
    transport: Transport | str | None = None, *, timeout: float = 600.0, lost_after: float = 60.0, watched: bool = True
) -> Transport:
    """Join the ranks that were started together; called once by each, before anything else here. A second call changes nothing.

    Args:
        transport: ``"mpi"``, ``"gloo"`` (of torch, by its environment variables ``MASTER_ADDR``, ``MASTER_PORT``, ``RANK`` and
            ``WORLD_SIZE``), or a transport. None for MPI where ``mpiexec`` started this process, else for one rank.
        timeout: seconds that a rank waits for another before all are ended.
        lost_after: seconds without a sign of life after which a rank is taken for dead.
        watched: whether a rank that dies, raises, leaves early or hangs ends all, with a message that names it.

    Raises:
        ProviderError: if mpi4py, or torch, is not installed.
        ArgumentError: if the transport has another name.
    """
    if _OF_PROCESS:
        return _OF_PROCESS[0]
    if transport is None:
        transport = "mpi" if is_started_by_mpi() else Alone()
    abort: Any = os._exit
    if transport == "mpi":
        transport = MpiTransport()
        abort = transport.abort
    elif transport == "gloo":
        from onnxgrad.distributed.gloo import GlooTransport

        transport = GlooTransport()
    elif isinstance(transport, str):
        raise ArgumentError(f"transport is 'mpi', 'gloo' or an object, not {transport!r}.")
    if watched and transport.world_size > 1:
        transport = WatchedTransport(transport, Watch(transport, abort, timeout, lost_after))
    _OF_PROCESS.append(transport)
    return transport


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
    local_ranks = next((os.environ[name] for name in _LOCAL if os.environ.get(name, "").isdigit()), "1")
    return max(1, (os.cpu_count() or 1) // max(1, int(local_ranks)))


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
    def device_id(self) -> int:
        """0: each rank sees one device."""
        return 0

    local_rank = rank
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
