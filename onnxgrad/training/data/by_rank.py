"""Share the reading of data between ranks: each decodes some of it, and all get the results of all.

Tests: tests/distributed/test_streams_by_rank.py.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, NoReturn

import numpy as np

from onnxgrad import errors
from onnxgrad.distributed.environment import current, share_of_cores
from onnxgrad.distributed.exchange import gathered_sizes
from onnxgrad.distributed.job import job_of
from onnxgrad.distributed.transport import Transport
from onnxgrad.errors import DataError, OnnxGradError, TrainingError

__all__ = ["any_lacks", "gathered", "has_ranks", "is_own", "own_share", "reading_together", "threads_of_share"]

Array = np.ndarray[Any, Any]
_FAILED, _LEAVES = -1, 0
_TOGETHER: ContextVar[Transport | None] = ContextVar("onnxgrad_reading_together", default=None)


def has_ranks() -> bool:
    """Return whether this process is one of several ranks, which wait for each other before they read what takes long."""
    return current().world_size > 1 or (job_of().world_size or 1) > 1


@contextmanager
def reading_together(transport: Transport | None) -> Iterator[None]:
    """Let ranks share the reading of data that is opened within the block, which all enter and leave together.

    Args:
        transport: between the ranks; None where this one reads alone.

    Raises:
        OnnxGradError: on all ranks, what one of them raises within the block.
    """
    token = _TOGETHER.set(transport)
    try:
        if transport is None:
            yield
            return
        try:
            yield
            _meet(transport, _LEAVES)
        except _Ended as end:
            raise end.error from None
        except Exception as error:
            text = str(error) if isinstance(error, OnnxGradError) else f"{type(error).__name__}: {error}"
            with suppress(_Ended):  # by the error of this rank, or of one before it: each says its own
                _fail(transport, error, f"rank {transport.rank} of {transport.world_size} cannot read the data: {text}")
            raise
    finally:
        _TOGETHER.reset(token)


def own_share(weights: Sequence[int]) -> range:
    """The numbers of the items that this rank decodes: those of all ranks follow each other, and weigh about the same.

    Args:
        weights: of each item, such as its length.

    Example:
        >>> own_share([3, 1, 2])
        range(0, 3)
    """
    transport = _TOGETHER.get()
    if transport is None:
        return range(len(weights))
    before = np.concatenate([[0], np.cumsum(weights, dtype=np.float64)])
    goals = before[-1] * np.arange(1, transport.world_size) / transport.world_size
    # an item belongs to the rank in whose stretch its middle lies
    cuts = [0, *np.searchsorted((before[:-1] + before[1:]) / 2, goals).tolist(), len(weights)]
    return range(cuts[transport.rank], cuts[transport.rank + 1])


def is_own(number: int) -> bool:
    """Return whether this rank decodes the item of a number, where nobody knows how many there are: each has every so many-th."""
    transport = _TOGETHER.get()
    return transport is None or number % transport.world_size == transport.rank


def threads_of_share() -> int | None:
    """How many threads compute this rank's share; None for onnxruntime's choice, where one process computes all."""
    return None if _TOGETHER.get() is None else share_of_cores()


def any_lacks(lacks: bool) -> bool:
    """Return whether any of the ranks that read together lacks something."""
    transport = _TOGETHER.get()
    return lacks if transport is None else bool((_meet(transport, 1 + lacks) > 1).any())


def gathered(read: Callable[[], Mapping[str, Array]]) -> list[dict[str, Array]]:
    """The arrays that ``read`` gives on each of the ranks that read together, in their order.

    Args:
        read: gives arrays of plain types by name, whose shapes may differ between ranks.

    Raises:
        OnnxGradError: on all ranks, what the first rank that fails raises.
    """
    transport = _TOGETHER.get()
    if transport is None:
        return [dict(read())]
    try:
        arrays = read()
    except OnnxGradError as error:
        _fail(transport, error, str(error))
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    own = np.frombuffer(file.getvalue(), np.uint8)
    sizes = _meet(transport, 1 + len(own))
    results = []
    for rank, size in enumerate(sizes.tolist()):
        buffer = own.copy() if rank == transport.rank else np.empty(size - 1, np.uint8)
        transport.broadcast_(buffer, rank)
        with np.load(io.BytesIO(buffer.data), allow_pickle=False) as loaded:
            results.append({name: loaded[name] for name in loaded.files})
    return results


class _Ended(Exception):
    """The reading of all ranks has ended by this error of one of them."""

    def __init__(self, error: OnnxGradError) -> None:
        super().__init__(str(error))
        self.error = error


def _meet(transport: Transport, number: int, message: bytes = b"") -> Array:
    """Exchange a number of each rank, as one step of the reading.

    Raises:
        _Ended: if a rank failed, or some read on and others do not.
    """
    numbers = gathered_sizes(transport, number)
    failed = np.flatnonzero(numbers == _FAILED)
    if len(failed):
        first = int(failed[0])
        size = np.array([len(message)], np.int64)
        transport.broadcast_(size, first)
        buffer = np.frombuffer(message, np.uint8).copy() if transport.rank == first else np.empty(int(size[0]), np.uint8)
        transport.broadcast_(buffer, first)
        kind, text = json.loads(buffer.tobytes())
        raise _Ended(getattr(errors, kind, DataError)(text))
    leaves = numbers == _LEAVES
    if leaves.any() and not leaves.all():
        ranks = ", ".join(map(str, np.flatnonzero(leaves)))
        raise _Ended(TrainingError(f"ranks read other data than ranks {ranks}. Give all ranks the same data."))
    return numbers


def _fail(transport: Transport, error: Exception, text: str) -> NoReturn:
    """End the reading of all ranks by an error of this one.

    Raises:
        _Ended: with the error of the first rank that failed.
    """
    _meet(transport, _FAILED, json.dumps([type(error).__name__, text]).encode())
    raise AssertionError("a rank that failed is among those that did")
