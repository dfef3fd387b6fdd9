"""Flat memory that gradients are computed into, ranks reduce in place, and updates read: nothing is copied in between.

Tests: tests/distributed/test_programs.py, tests/distributed/test_overlap.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.state.values import value_on
from onnxgrad.errors import ArgumentError

__all__ = ["ALIGNMENT", "Buckets", "aligned_zeros"]

ALIGNMENT = 64
"""Bytes; a line of the cache, and the widest vector of a processor."""

Array = np.ndarray[Any, Any]


class _Slot(NamedTuple):
    bucket: int
    start: int
    shape: tuple[int, ...]


class Buckets:
    """A slot for each of some tensors, in flat arrays of one element type each.

    Args:
        groups: tensors in the order in which slots are given out, the same on all ranks; no array is shared by two groups.
        limit: bytes of a bucket, which a larger tensor has for itself.

    Attributes:
        flat: the arrays.
        slots: an OrtValue on the memory of each tensor's slot.
        of_group: numbers of the arrays of each group.

    Raises:
        ArgumentError: if a shape is unknown.
    """

    def __init__(self, groups: Sequence[Sequence[Variable]], limit: int) -> None:
        sizes: list[tuple[Any, int]] = []
        slots: dict[Variable, _Slot] = {}
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
                capacity = -(-prod(shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT // dtype.itemsize
                at = filling.get(dtype)
                if at is None or (sizes[at][1] + capacity) * dtype.itemsize > limit:
                    at = filling[dtype] = len(sizes)
                    sizes.append((dtype, 0))
                slots[v] = _Slot(at, sizes[at][1], shape)
                sizes[at] = (dtype, sizes[at][1] + capacity)
            self.of_group.append(range(first, len(sizes)))
        self.flat = [aligned_zeros(size, dtype) for dtype, size in sizes]
        self.slots = {v: value_on(self._view(slot)) for v, slot in slots.items()}
        self._slots = slots

    def views(self, flat: Mapping[int, Array]) -> dict[str, Array]:
        """By name, where a tensor would lie in other arrays that are as long as some of the buckets."""
        return {v.name: _part(flat[slot.bucket], slot) for v, slot in self._slots.items() if slot.bucket in flat}

    def _view(self, slot: _Slot) -> Array:
        return _part(self.flat[slot.bucket], slot)


def _part(flat: Array, slot: _Slot) -> Array:
    return flat[slot.start : slot.start + prod(slot.shape)].reshape(slot.shape)


def aligned_zeros(size: int, dtype: Any) -> Array:
    """A flat array of zeros that begins at a multiple of ``ALIGNMENT``."""
    dtype = np.dtype(dtype)
    memory = np.zeros(size * dtype.itemsize + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size * dtype.itemsize].view(dtype)
