"""Fewer bytes for a bucket: 16-bit numbers, or its largest elements. What is not sent is kept and added to the next gradient.

Source: error feedback, Seide et al. 2014 (1-bit SGD) and Stich et al. 2018 (Sparsified SGD with memory).

Tests: tests/distributed/test_programs.py, tests/distributed/test_trainer.py, tests/distributed/test_sharded.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np

from onnxgrad.distributed.memory import Memory
from onnxgrad.distributed.strategy import Strategy
from onnxgrad.distributed.transport import Transport, own_range, part_sent
from onnxgrad.errors import TrainingError

__all__ = ["Keeps", "Narrow", "TopK", "compression_of", "is_compressed", "put_together"]

Array = np.ndarray[Any, Any]


class _Rests:
    """The parts of earlier gradients that were not sent yet.

    Args:
        memory: where buckets lie.

    Attributes:
        rest: a flat array for each bucket.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.rest: dict[int, Any] = {}

    def _with_rest(self, number: int, bucket: Any) -> Any:
        """Add to a bucket what was kept of it; gives the memory for what is kept next."""
        if number not in self.rest:
            self.rest[number] = self.memory.copy(bucket)
            self.rest[number][...] = 0
        rest = self.rest[number]
        bucket += rest
        return rest


class Narrow(_Rests):
    """A bucket as 16-bit numbers, which are added up in the type of the bucket: each rank adds up its range."""

    def __init__(self, memory: Memory, dtype: Any) -> None:
        super().__init__(memory)
        self.dtype = np.dtype(dtype)
        self._infinite = np.zeros(2, np.uint8)
        """Of this step: whether gradients were not finite, and whether what was sent is not."""

    def reduce(self, number: int, bucket: Any, in_ranges: bool) -> int:
        """Replace a bucket, or this rank's range of it, by its sum over ranks; gives the bytes that this rank sent.

        Where all get the sum of all of it, the sum travels in 16 bits too; what that rounds off is kept by the rank that has
        added it up.
        """
        transport, memory = self.memory.transport, self.memory
        self._infinite[0] |= not memory.is_finite(bucket)
        sent = memory.scratch(len(bucket), self.dtype)
        self._narrow(bucket, sent, self._with_rest(number, bucket))
        transport.all_to_all_(sent)
        total = own_range(transport, bucket)
        for rank in range(transport.world_size):
            part = own_range(transport, sent, rank)
            if rank == 0:
                total[...] = part
            else:
                total += part
        size = part_sent(transport, len(sent) * self.dtype.itemsize)
        if in_ranges:
            return size
        lost = memory.copy(total)
        self._narrow(total, own_range(transport, sent), lost)
        rest = own_range(transport, self.rest[number])
        rest += lost
        transport.all_gather_(sent)
        bucket[...] = sent
        return 2 * size

    def _narrow(self, numbers: Any, narrow: Any, rest: Any) -> None:
        """Round numbers to 16 bits, and note what that loses; of what is not finite nothing is kept"""
        with np.errstate(over="ignore", invalid="ignore"):
            narrow[...] = numbers
            rest[...] = narrow
            rest *= -1
            rest += numbers
        if not self.memory.is_finite(rest):
            self._infinite[1] = 1
            self.memory.drop_infinite(rest)

    def check(self, transport: Transport) -> None:
        """After the buckets of a step.

        Raises:
            TrainingError: if gradients that are finite, or a sum of them, are larger than the type holds; on all ranks alike.
        """
        transport.all_reduce_(self._infinite, "max")
        were_infinite, are_infinite = self._infinite.tolist()
        self._infinite.fill(0)
        if are_infinite and not were_infinite:
            raise TrainingError(
                f"a gradient, or a sum of gradients, is larger than {self.dtype} holds. Use compress='bfloat16', or none."
            )


class TopK(_Rests):
    """The largest elements of a bucket in main memory, as numbers and positions.

    Attributes:
        share: of the elements that are sent.
    """

    def __init__(self, memory: Memory, share: float) -> None:
        super().__init__(memory)
        self.share = share

    def reduce(self, number: int, bucket: Array, in_ranges: bool) -> int:
        """Replace a bucket by the sum of what ranks send of theirs: positions, then numbers, of as many elements from each.

        Every rank gets what all send, so that it sends as much whether it needs the sum of its range alone or of all.
        """
        transport = self.memory.transport
        rest = self._with_rest(number, bucket)
        count = max(1, int(bucket.size * self.share))
        # What is not finite is largest, so that all ranks get it.
        size = np.nan_to_num(np.abs(bucket), nan=np.inf)
        chosen = np.sort(np.argpartition(size, bucket.size - count)[bucket.size - count :]).astype(_position_type(bucket.size))
        messages = np.empty((transport.world_size, count * (chosen.itemsize + bucket.itemsize)), np.uint8)
        messages[transport.rank] = np.concatenate([chosen.view(np.uint8), bucket[chosen].view(np.uint8)])
        np.copyto(rest, bucket)
        rest[chosen] = 0
        # The step is lost by what was sent; those to come need not be.
        np.nan_to_num(rest, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
        transport.all_gather_(messages.reshape(-1))
        bucket[:] = 0
        for message in messages:
            positions = message[: count * chosen.itemsize].view(chosen.dtype)
            bucket[positions] += message[count * chosen.itemsize :].view(bucket.dtype)
        return part_sent(transport, messages.nbytes)

    def check(self, transport: Transport) -> None:
        """Numbers are sent as they are: none is too large."""


def _position_type(size: int) -> Any:
    return np.int32 if size <= np.iinfo(np.int32).max else np.int64


def compression_of(strategy: Strategy, memory: Memory) -> Narrow | TopK | None:
    """Create the compression that a strategy asks for, of buckets in some memory."""
    if strategy.compress is None:
        return None
    if strategy.compress == "top-k":
        return TopK(memory, strategy.top_k)
    return Narrow(memory, np.float16 if strategy.compress == "float16" else ml_dtypes.bfloat16)


def put_together(
    memory: Memory, compression: Narrow | TopK | None, number: int, bucket: Any, dtype: np.dtype[Any], in_ranges: bool = False
) -> int:
    """Replace a bucket of gradients by its sum over ranks; gives the bytes that this rank sent.

    Args:
        memory: where it lies.
        compression: None to send it as it is, as are buckets of 16-bit numbers.
        number: of the bucket, for what compression keeps.
        dtype: of its elements.
        in_ranges: whether each rank needs the sum of its range alone: the others hold anything afterwards.
    """
    transport = memory.transport
    if compression is not None and is_compressed(dtype):
        return compression.reduce(number, bucket, in_ranges)
    size = part_sent(transport, len(bucket) * dtype.itemsize)
    if in_ranges:
        transport.reduce_scatter_(bucket)
        return size
    transport.all_reduce_(bucket)
    return 2 * size


def is_compressed(dtype: Any) -> bool:
    """Whether compression makes arrays of an element type smaller, as they hold numbers of more than 16 bits."""
    return bool(np.dtype(dtype).kind != "b" and np.dtype(dtype).itemsize > 2)


class Keeps:
    """An exchange that may keep what compression has left of earlier gradients: the part of it that a checkpoint holds."""

    transport: Transport
    memory: Memory
    _compression: Narrow | TopK | None
    _resumed: Mapping[str, Array] | None = None

    @property
    def compresses(self) -> bool:
        """Whether anything is kept."""
        return self._compression is not None

    def rests(self) -> dict[str, Array]:
        """The residuals of this rank by the name of the gradient; none before the first exchange, or without compression."""
        if self._compression is None:
            return {}
        if self._resumed is not None:
            return dict(self._resumed)
        with self.memory.turn():
            return self._views({number: self.memory.array(flat) for number, flat in self._compression.rest.items()})

    def set_rests(self, rests: Mapping[str, Array]) -> None:
        """Go on from residuals of this rank. What is right is that those of all ranks add up to what they did.

        Args:
            rests: by the name of the gradient, in its shape.
        """
        if self._compression is not None:
            self._compression.rest.clear()
            self._resumed = dict(rests)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Put the residuals back afterwards, as they were before steps that are undone."""
        compression, resumed = self._compression, self._resumed
        with self.memory.turn():
            rest = {} if compression is None else {number: self.memory.copy(flat) for number, flat in compression.rest.items()}
        try:
            yield
        finally:
            self._resumed = resumed
            if compression is not None:
                compression.rest = rest

    def _resume(self, sizes: Mapping[int, tuple[Any, int]]) -> None:
        """Take what ``set_rests`` was given, now that it is known which buckets there are: their element types and lengths."""
        if self._compression is None or self._resumed is None:
            return
        rests, self._resumed = self._resumed, None
        rest = {number: np.zeros(length, dtype) for number, (dtype, length) in sizes.items()}
        views = self._views(rest)
        for name, value in rests.items():
            if name not in views or views[name].shape != value.shape:
                raise TrainingError(
                    f"the checkpoint keeps a rest of {name}, which is not exchanged here. Use the model that wrote it."
                )
            views[name][...] = value
        if rests:
            self._compression.rest.update((number, self.memory.taken(flat)) for number, flat in rest.items())

    def _views(self, flat: Mapping[int, Any]) -> dict[str, Any]:
        raise NotImplementedError
