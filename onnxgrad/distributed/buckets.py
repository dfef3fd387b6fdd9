"""Flat memory that gradients are computed into, ranks reduce in place, and updates read: nothing is copied in between.

Tests: tests/distributed/test_programs.py, tests/distributed/test_overlap.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.distributed.memory import Memory
from onnxgrad.errors import ArgumentError

__all__ = ["ALIGNMENT", "Buckets", "Slot"]

ALIGNMENT = 64
"""Bytes of a line of the cache, and of the widest vector of a processor."""


class Slot(NamedTuple):
    """Where a tensor lies.

    Attributes:
        bucket: number of the array.
        start: of its elements there.
        shape: of the tensor.
    """

    bucket: int
    start: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Elements of the tensor."""
        return prod(self.shape)

    def of(self, flat: Any) -> Any:
        """The tensor's elements in an array as long as the bucket, as the tensor."""
        return flat[self.start : self.start + self.size].reshape(self.shape)


class Buckets:
    """A slot for each of some tensors, in flat arrays of one element type each, which are as many equal ranges as there are ranks.

    Args:
        groups: tensors in the order in which slots are given out, the same on all ranks; no array is shared by two groups.
        limit: bytes of a bucket, which a larger tensor has for itself.
        ranks: how many there are.
        memory: where the arrays lie; None where only the layout is asked for.

    Attributes:
        sizes: element type and length of each array.
        slots: where each tensor lies.
        of_group: numbers of the arrays of each group.

    Raises:
        ArgumentError: if a shape is unknown.
    """

    def __init__(self, groups: Sequence[Sequence[Variable]], limit: int, ranks: int = 1, memory: Memory | None = None) -> None:
        self._memory = memory
        sizes: list[tuple[Any, int]] = []
        self.slots: dict[Variable, Slot] = {}
        self.of_group: list[range] = []
        for group in groups:
            filling: dict[Any, int] = {}
            first = len(sizes)
            for v in group:
                shape, dtype = v.static_shape, np.dtype(v.dtype.numpy)
                if shape is None:
                    raise ArgumentError(
                        f"ranks cannot exchange {v.name}: its shape is unknown. Give the parameter known dimensions."
                    )
                capacity = _rounded_up(prod(shape), _line_of(dtype))
                at = filling.get(dtype)
                if at is None or (sizes[at][1] + capacity) * dtype.itemsize > limit:
                    at = filling[dtype] = len(sizes)
                    sizes.append((dtype, 0))
                self.slots[v] = Slot(at, sizes[at][1], shape)
                sizes[at] = (dtype, sizes[at][1] + capacity)
            self.of_group.append(range(first, len(sizes)))
        self.sizes = [(dtype, _rounded_up(size, ranks * _line_of(dtype))) for dtype, size in sizes]

    @cached_property
    def flat(self) -> list[Any]:
        """The arrays, in memory that is taken when they are first asked for."""
        assert self._memory is not None
        return [self._memory.zeros(size, dtype) for dtype, size in self.sizes]

    @cached_property
    def values(self) -> dict[Variable, Any]:
        """An OrtValue on the memory of each tensor's slot."""
        assert self._memory is not None
        return {v: self._memory.value(self.flat[slot.bucket], slot.start, slot.shape) for v, slot in self.slots.items()}

    def members(self) -> list[list[Variable]]:
        """The tensors of each array."""
        members: list[list[Variable]] = [[] for _ in self.sizes]
        for v, slot in self.slots.items():
            members[slot.bucket].append(v)
        return members

    def views(self, flat: Mapping[int, Any]) -> dict[str, Any]:
        """By name, where a tensor would lie in other arrays that are as long as some of the buckets."""
        return {v.name: slot.of(flat[slot.bucket]) for v, slot in self.slots.items() if slot.bucket in flat}

    def shares(self, v: Variable, ranks: int) -> list[tuple[int, int, int]]:
        """The ranks whose ranges a tensor lies in, and the tensor's elements there: rank, first, and that after the last."""
        slot = self.slots[v]
        length = self.sizes[slot.bucket][1] // ranks
        bounds = [(rank, rank * length - slot.start, (rank + 1) * length - slot.start) for rank in range(ranks)]
        cut = [(rank, max(start, 0), min(stop, slot.size)) for rank, start, stop in bounds]
        return [(rank, start, stop) for rank, start, stop in cut if start < stop]


def _line_of(dtype: Any) -> int:
    """Elements of a line"""
    return max(1, ALIGNMENT // int(np.dtype(dtype).itemsize))


def _rounded_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
