"""What the operators of a backward pass are made of, as its rules write them."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.ir.variable import Variable

__all__ = ["SWAPPED", "operand_of", "seen_places"]

SWAPPED = [1, 0, 2, 3]
"""The order of axes that swaps the batch and the channels of images."""


def operand_of(v: Variable | None, op_type: str, perm: list[int] | None = None) -> Variable | None:
    """The first operand of the operator that computes ``v``, if it has this type and, if given, this ``perm``."""
    made = None if v is None else v.op
    if made is None or made.type != op_type or (perm is not None and made.attr("perm") != perm):
        return None
    return made.inputs[0]


def seen_places(dilation: int, stride: int, pad: int, taps: int, positions: int) -> np.ndarray[Any, Any]:
    """The place along one axis that a tap sees from a position, [taps, positions]; below 0 and above the size in the padding."""
    found: np.ndarray[Any, Any] = np.arange(taps)[:, None] * dilation + np.arange(positions) * stride - pad
    return found
