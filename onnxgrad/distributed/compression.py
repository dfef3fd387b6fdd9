"""Fewer bytes for a bucket: 16-bit numbers, or its largest elements. What is not sent is kept and added to the next gradient.

Source: error feedback, Seide et al. 2014 (1-bit SGD) and Stich et al. 2018 (Sparsified SGD with memory).

Tests: tests/distributed/test_programs.py, tests/distributed/test_trainer.py.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from onnxgrad.distributed.strategy import Strategy
from onnxgrad.distributed.transport import Transport
from onnxgrad.errors import TrainingError

__all__ = ["Narrow", "TopK", "compression_of"]

Array = np.ndarray[Any, Any]


class _Rests:
    """What is kept of earlier gradients.

    Attributes:
        rest: an array for each bucket.
    """

    def __init__(self) -> None:
        self.rest: dict[int, Array] = {}

    def keep_on_first(self, transport: Transport) -> None:
        """Let rank 0 hold what all ranks have kept: the next sums are those of before, whatever the number of ranks then."""
        for number in sorted(self.rest):
            transport.all_reduce_(self.rest[number])
            if transport.rank:
                self.rest[number].fill(0)


class Narrow(_Rests):
    """A bucket as 16-bit numbers."""

    def __init__(self, dtype: Any) -> None:
        super().__init__()
        self.dtype = np.dtype(dtype)

    def reduce(self, transport: Transport, number: int, bucket: Array) -> int:
        """Replace a bucket by its sum over ranks; gives the bytes that were sent.

        Raises:
            TrainingError: if a sum of finite numbers is larger than the type holds; on all ranks alike.
        """
        rest = self.rest.setdefault(number, np.zeros_like(bucket))
        np.add(bucket, rest, out=bucket)
        finite = np.array([not np.isfinite(bucket).all()], np.uint8)
        with np.errstate(over="ignore"):
            sent = bucket.astype(self.dtype)
        np.subtract(bucket, sent.astype(bucket.dtype), out=rest)
        np.nan_to_num(rest, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
        with np.errstate(over="ignore"):
            transport.all_reduce_(sent)
        np.copyto(bucket, sent.astype(bucket.dtype))
        if not np.isfinite(bucket).all():
            transport.all_reduce_(finite, "max")
            if not finite[0]:
                raise TrainingError(f"a sum of gradients is larger than {self.dtype} holds. Use compress='bfloat16', or none.")
        return sent.nbytes


class TopK(_Rests):
    """The largest elements of a bucket, as numbers and positions.

    Attributes:
        share: of the elements that are sent.
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def reduce(self, transport: Transport, number: int, bucket: Array) -> int:
        """Replace a bucket by the sum of what ranks send of theirs; gives the bytes that were sent."""
        rest = self.rest.setdefault(number, np.zeros_like(bucket))
        np.add(bucket, rest, out=bucket)
        count = max(1, int(bucket.size * self.share))
        # What is not finite is largest, so that all ranks get it.
        size = np.nan_to_num(np.abs(bucket), nan=np.inf)
        chosen = np.sort(np.argpartition(size, bucket.size - count)[bucket.size - count :])
        places = np.zeros((transport.world_size, count), np.int64)
        values = np.zeros((transport.world_size, count), bucket.dtype)
        places[transport.rank], values[transport.rank] = chosen, bucket[chosen]
        np.copyto(rest, bucket)
        rest[chosen] = 0
        transport.all_reduce_(places.reshape(-1))
        transport.all_reduce_(values.reshape(-1))
        bucket[:] = 0
        for own, found in zip(places, values, strict=True):
            bucket[own] += found
        return places.nbytes + values.nbytes


def compression_of(strategy: Strategy) -> Narrow | TopK | None:
    """What a strategy asks for."""
    if strategy.compress is None:
        return None
    if strategy.compress == "top-k":
        return TopK(strategy.top_k)
    return Narrow(np.float16 if strategy.compress == "float16" else ml_dtypes.bfloat16)
