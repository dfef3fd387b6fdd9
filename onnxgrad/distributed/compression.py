"""Fewer bytes for a bucket: 16-bit numbers, or its largest elements. What is not sent is kept and added to the next gradient.

Source: error feedback, Seide et al. 2014 (1-bit SGD) and Stich et al. 2018 (Sparsified SGD with memory).

Tests: tests/distributed/test_programs.py, tests/distributed/test_trainer.py, tests/distributed/test_sharded.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from onnxgrad.core.state.scope import Scope
from onnxgrad.distributed.strategy import Strategy
from onnxgrad.distributed.transport import Transport, add_up_on, reused_buffer, sent_to
from onnxgrad.errors import TrainingError

__all__ = ["Keeps", "Narrow", "TopK", "check_sent", "compression_of", "is_compressed", "put_together"]

Array = np.ndarray[Any, Any]


class _Rests:
    """The parts of earlier gradients that were not sent yet.

    Attributes:
        rest: an array for each bucket.
    """

    def __init__(self) -> None:
        self.rest: dict[int, Array] = {}

    def _with_rest(self, number: int, bucket: Array) -> Array:
        """Add to a bucket what was kept of it; gives the memory for what is kept next."""
        rest = self.rest.setdefault(number, np.zeros_like(bucket))
        np.add(bucket, rest, out=bucket)
        return rest


class Narrow(_Rests):
    """A bucket as 16-bit numbers."""

    def __init__(self, dtype: Any) -> None:
        super().__init__()
        self.dtype = np.dtype(dtype)
        self._infinite = np.zeros(2, np.uint8)
        """Of what ``reduce_on`` has sent in this step: whether gradients were not finite, and whether what was sent is not."""

    def reduce(self, transport: Transport, number: int, bucket: Array) -> int:
        """Replace a bucket by its sum over ranks; gives the bytes that were sent.

        Raises:
            TrainingError: if a sum of finite numbers is larger than the type holds; on all ranks alike.
        """
        sent = self._narrowed(number, bucket)
        infinite = np.array([not np.isfinite(bucket).all()], np.uint8)
        with np.errstate(over="ignore", invalid="ignore"):
            transport.all_reduce_(sent)
        np.copyto(bucket, sent.astype(bucket.dtype))
        if not np.isfinite(bucket).all():
            transport.all_reduce_(infinite, "max")
            if not infinite[0]:
                raise self._too_large()
        return sent.nbytes

    def reduce_on(self, owner: int, transport: Any, number: int, bucket: Array) -> int:
        """Replace a bucket on one rank by its sum over ranks, added up in the type of the bucket; gives the bytes sent."""
        sent = self._narrowed(number, bucket)
        self._infinite |= np.array([not np.isfinite(bucket).all(), not np.isfinite(sent).all()], np.uint8)
        add_up_on(owner, transport, sent, bucket)
        return 0 if transport.rank == owner else sent.nbytes

    def check(self, transport: Transport) -> None:
        """After the buckets of a step, which ``reduce_on`` has sent to one rank each.

        Raises:
            TrainingError: if gradients that are finite are larger than the type holds; on all ranks alike.
        """
        transport.all_reduce_(self._infinite, "max")
        were_infinite, are_infinite = self._infinite.tolist()
        self._infinite.fill(0)
        if are_infinite and not were_infinite:
            raise self._too_large()

    def _narrowed(self, number: int, bucket: Array) -> Array:
        """Compress a bucket for sending: the residual is added first, and the rounding error becomes the new residual."""
        rest = self._with_rest(number, bucket)
        with np.errstate(over="ignore", invalid="ignore"):
            sent = bucket.astype(self.dtype)
            np.subtract(bucket, sent.astype(bucket.dtype), out=rest)
        np.nan_to_num(rest, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
        return sent

    def _too_large(self) -> TrainingError:
        return TrainingError(
            f"a gradient, or a sum of gradients, is larger than {self.dtype} holds. Use compress='bfloat16', or none."
        )


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
        chosen, largest = self._largest(number, bucket)
        positions = np.zeros((transport.world_size, chosen.size), np.int64)
        values = np.zeros((transport.world_size, chosen.size), bucket.dtype)
        positions[transport.rank], values[transport.rank] = chosen, largest
        transport.all_reduce_(positions.reshape(-1))
        transport.all_reduce_(values.reshape(-1))
        bucket[:] = 0
        for own, received in zip(positions, values, strict=True):
            bucket[own] += received
        return positions.nbytes + values.nbytes

    def reduce_on(self, owner: int, transport: Any, number: int, bucket: Array) -> int:
        """Replace a bucket on one rank by the sum of what ranks send of theirs, positions and then numbers in one message."""
        chosen, largest = self._largest(number, bucket)
        message = np.concatenate([chosen.view(np.uint8), largest.view(np.uint8)])
        bucket[:] = 0
        for part in sent_to(owner, transport, message):
            own, received = part[: chosen.nbytes].view(np.int64), part[chosen.nbytes :].view(bucket.dtype)
            bucket[own] += received
        return 0 if transport.rank == owner else message.nbytes

    def check(self, transport: Transport) -> None:
        """Numbers are sent as they are: none is too large."""

    def _largest(self, number: int, bucket: Array) -> tuple[Array, Array]:
        """Positions and numbers that are sent of a bucket, to which what was kept before is added; the others are kept."""
        rest = self._with_rest(number, bucket)
        count = max(1, int(bucket.size * self.share))
        # What is not finite is largest, so that all ranks get it.
        size = np.nan_to_num(np.abs(bucket), nan=np.inf)
        chosen = np.sort(np.argpartition(size, bucket.size - count)[bucket.size - count :])
        largest = bucket[chosen]
        np.copyto(rest, bucket)
        rest[chosen] = 0
        # The step is lost by what was sent; those to come need not be.
        np.nan_to_num(rest, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
        return chosen, largest


def compression_of(strategy: Strategy) -> Narrow | TopK | None:
    """Create the compression that a strategy asks for."""
    if strategy.compress is None:
        return None
    if strategy.compress == "top-k":
        return TopK(strategy.top_k)
    return Narrow(np.float16 if strategy.compress == "float16" else ml_dtypes.bfloat16)


def put_together(transport: Any, compression: Narrow | TopK | None, number: int, bucket: Array, owner: int | None = None) -> int:
    """Replace a bucket of gradients by its sum over ranks; gives the bytes that this rank sent.

    Args:
        transport: a ``PointToPoint``, where there are owners.
        compression: None to send it as it is, as are buckets of 16-bit numbers.
        number: of the bucket, for what compression keeps.
        owner: the rank that reads the sum alone: what the bucket holds on others is of no use then; None for all.
    """
    if compression is not None and is_compressed(bucket):
        if owner is None:
            return compression.reduce(transport, number, bucket)
        return compression.reduce_on(owner, transport, number, bucket)
    if owner is None:
        transport.all_reduce_(bucket)
        return bucket.nbytes
    mine = bucket
    if transport.rank == owner:
        mine = reused_buffer(bucket, "own")
        np.copyto(mine, bucket)
    add_up_on(owner, transport, mine, bucket)
    return 0 if transport.rank == owner else bucket.nbytes


def check_sent(transport: Transport, compression: Narrow | TopK | None) -> None:
    """After the buckets of a step that have owners: see to it that they arrive, and that none was larger than its type holds.

    Raises:
        TrainingError: on all ranks alike.
    """
    if compression is not None:
        compression.check(transport)
    # MPI sends large buffers while it is called, and the receiver waits until then.
    transport.barrier()


def is_compressed(flat: Array) -> bool:
    """Whether compression makes an array of gradients smaller, as it holds numbers of more than 16 bits."""
    return flat.dtype.kind != "b" and flat.itemsize > 2 and flat.size > 0


class Keeps:
    """An exchange that may keep what compression has left of earlier gradients: the part of it that a checkpoint holds."""

    transport: Transport
    _compression: Narrow | TopK | None
    _resumed: Mapping[str, Array] | None = None
    _rests_of_ranks: list[dict[str, Array]] | None = None

    def rests(self) -> dict[str, Array]:
        """The residuals by the name of the gradient: of this rank, and between ``keep_on_first`` and the next step, of all ranks
        together on rank 0, and none on others. Nothing before the first exchange, or without compression."""
        if self._rests_of_ranks is not None:
            of_ranks = self._rests_of_ranks
            return {
                name: np.sum([rests[name] for rests in of_ranks], axis=0, dtype=of_ranks[0][name].dtype) for name in of_ranks[0]
            }
        return self._own_rests()

    def rests_of_ranks(self) -> list[dict[str, Array]]:
        """The residuals of each rank, between ``keep_on_first`` and the next step, on rank 0; empty where there are none."""
        return [rests for rests in self._rests_of_ranks or [] if rests]

    def set_rests(self, rests: Mapping[str, Array], of_ranks: Sequence[Mapping[str, Array]] = ()) -> None:
        """Go on from what a checkpoint holds, which every rank has read.

        Args:
            rests: of all ranks together: rank 0 takes them where there were more or fewer ranks, and others nothing.
            of_ranks: of each rank.
        """
        if self._compression is None:
            return
        self._compression.rest.clear()
        self._rests_of_ranks = None
        if len(of_ranks) == self.transport.world_size:
            self._resumed = dict(of_ranks[self.transport.rank])
        else:
            self._resumed = {name: rest if self.transport.rank == 0 else np.zeros_like(rest) for name, rest in rests.items()}

    def keep_on_first(self, scope: Scope) -> None:
        """Give rank 0 copies of the residuals of all ranks, for a checkpoint, from which any number of ranks can resume; each goes
        on with its own, so that the run is that without a checkpoint."""
        if self._compression is None:
            return
        own = {name: np.ascontiguousarray(rest) for name, rest in sorted(self._own_rests().items())}
        of_ranks: list[dict[str, Array]] = [{} for _ in range(self.transport.world_size)]
        for rank, rests in enumerate(of_ranks):
            for name, mine in own.items():
                array = mine.copy() if rank == self.transport.rank else np.empty_like(mine)
                self.transport.broadcast_(array.reshape(-1).view(np.uint8), rank)
                if self.transport.rank == 0:
                    rests[name] = array
        self._rests_of_ranks = of_ranks

    def forget_rests(self) -> None:
        """Let go of what ``keep_on_first`` has given rank 0."""
        self._rests_of_ranks = None

    def _own_rests(self) -> dict[str, Array]:
        if self._compression is None:
            return {}
        return self._views(self._compression.rest) if self._resumed is None else dict(self._resumed)

    def _resume(self, flat: Mapping[int, Array]) -> None:
        """Take what ``set_rests`` was given, now that it is known which buckets there are."""
        self.forget_rests()
        if self._compression is None or self._resumed is None:
            return
        rests, self._resumed = self._resumed, None
        rest = {number: np.zeros_like(bucket) for number, bucket in flat.items()}
        views = self._views(rest)
        for name, value in rests.items():
            if name not in views or views[name].shape != value.shape:
                raise TrainingError(
                    f"the checkpoint keeps a rest of {name}, which is not exchanged here. Use the model that wrote it."
                )
            views[name][...] = value
        if rests:
            self._compression.rest.update(rest)

    def _views(self, flat: Mapping[int, Array]) -> dict[str, Array]:
        raise NotImplementedError
