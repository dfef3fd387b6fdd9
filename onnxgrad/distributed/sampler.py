"""DistributedBatchSampler: which examples each rank takes.

Tests: tests/distributed/test_programs.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sized
from itertools import pairwise
from typing import Any

import numpy as np

from onnxgrad.distributed.environment import current
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import checked

__all__ = ["DistributedBatchSampler"]


class DistributedBatchSampler:
    """Lists of indices, a batch each, of which every rank gets its own: each example is seen once in an epoch, by one rank.

    All ranks get equally many batches. The last ones may differ by one example; fewer than there are ranks join the batch before.

    Args:
        dataset: anything with a length.
        batch_size: examples of a rank's batch.
        num_replicas, rank: of the ranks; None for those of this process.
        shuffle: in an order that the epoch decides: see ``set_epoch``.
        drop_last: leave out the last batch if it is smaller.

    Raises:
        ArgumentError: if there are fewer examples than ranks, or a number makes no sense.

    Example:
        >>> [list(DistributedBatchSampler(range(7), 2, num_replicas=2, rank=rank)) for rank in (0, 1)]
        [[[0, 1], [4, 5]], [[2, 3], [6]]]
    """

    @checked
    def __init__(
        self,
        dataset: Sized,
        batch_size: int,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
    ) -> None:
        self.dataset, self.batch_size, self.shuffle, self.drop_last = dataset, batch_size, shuffle, drop_last
        self.nranks = current().world_size if num_replicas is None else num_replicas
        self.local_rank = current().rank if rank is None else rank
        self.epoch = 0
        if batch_size < 1 or not 0 <= self.local_rank < self.nranks:
            raise ArgumentError(f"batch_size {batch_size} is below 1, or rank {self.local_rank} none of {self.nranks}.")
        if len(dataset) < self.nranks:
            raise ArgumentError(f"{len(dataset)} examples are too few for {self.nranks} ranks. Start fewer.")

    def _borders(self) -> list[int]:
        """Return where the batches of all ranks together begin, and the end."""
        count, whole = len(self.dataset), self.batch_size * self.nranks
        borders = list(range(0, count, whole))
        if len(borders) > 1 and count - borders[-1] < (whole if self.drop_last else self.nranks):
            return borders if self.drop_last else [*borders[:-1], count]
        return [*borders, count]

    def __iter__(self) -> Iterator[list[int]]:
        count = len(self.dataset)
        order: Any = np.random.default_rng(self.epoch).permutation(count) if self.shuffle else np.arange(count)
        borders = self._borders()
        for start, end in pairwise(borders):
            yield np.array_split(order[start:end], self.nranks)[self.local_rank].tolist()

    def __len__(self) -> int:
        return len(self._borders()) - 1

    def set_epoch(self, epoch: int) -> None:
        """Shuffle again, on all ranks alike.

        Args:
            epoch: its number, from 0.
        """
        self.epoch = epoch
