"""Compute a few channels at a time, where each channel is computed alone, so that what lies between stays in the processor's cache.

Tests: tests/core/providers/test_channel_strips.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnxgrad.core.costs import COSTS
from onnxgrad.core.ir.bodies import write_body
from onnxgrad.core.ir.types import TensorType

__all__ = ["by_channels"]

_STRIP = COSTS.count("channel_strips.numbers_of_a_strip")
"""Numbers of the largest tensor in a strip, about: 1 MB."""


def by_channels(build: Any, channels: int, numbers: int, operands: Sequence[Any], write: Callable[..., Any]) -> Any:
    """Return what ``write(build, *operands)`` computes, channels first, by a Scan over strips of channels where they are large.

    Args:
        channels: how many there are; a divisor of the first size of each operand.
        numbers: of the largest tensor that is read, written or between.
        operands: tensors of known shape, channels first.
        write: computes some channels, given how many by the sizes of its operands.
    """
    number = next(n for n in range(1, channels + 1) if channels % n == 0 and (numbers <= n * _STRIP or n == channels))
    if number == 1:
        return write(build, *operands)
    apart = [build.Reshape(v, [number, v.static_shape[0] // number, *v.static_shape[1:]]) for v in operands]
    types = [(f"operand_{i}", TensorType(v.dtype, v.static_shape[1:])) for i, v in enumerate(apart)]
    stacked = build.Scan(*apart, body=write_body(build, "strip", types, write), num_scan_inputs=len(apart))
    _, each, *sizes = stacked.static_shape
    return build.Reshape(stacked, [number * each, *sizes])
