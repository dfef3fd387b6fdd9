"""How large what a file describes may be, so that a few bytes cannot ask for terabytes.

Tests: tests/core/interop/test_damaged_files.py.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from functools import cache

from onnxgrad.dtypes import DType

__all__ = ["DEEPEST_CALL", "bytes_needed", "is_overgrown", "largest_tensor", "size_text"]

DEEPEST_CALL = 64
"""How deep functions may call functions."""
_OPERATORS, _GROWTH = 10_000, 100


@cache
def largest_tensor() -> int:
    """Bytes that one tensor may take: the memory of this machine, or 64 GB where it has less."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        memory = 0
    return max(memory, 64 * 2**30)


def bytes_needed(dtype: DType, dims: Iterable[int]) -> int:
    """Bytes of a tensor; exact for any size. An empty one with axes that no array can have counts as if it were not empty."""
    sizes = list(dims)
    beside = (math.prod(filter(None, sizes)) * dtype.bits + 7) // 8
    return 0 if 0 in sizes and beside < 2**63 else beside


def is_overgrown(written: int, called: int) -> bool:
    """Whether a model of ``written`` nodes has too many once each call of a function is written out."""
    return called > _OPERATORS and called > _GROWTH * written


def size_text(size: int) -> str:
    return f"{size / 1e9:.3g} GB"
