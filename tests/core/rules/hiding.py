"""Operands of which a rule is told less than usual."""

from onnxgrad.core.ir.types import TensorType


def at_run_time(op, v):
    """``v`` as a value that is not known before the program runs."""
    copy = op.Identity(v)
    copy.entries = None
    return copy


def of_unknown_rank(op, v):
    """``v`` as a tensor of which only the element type is known."""
    copy = op.Identity(v)
    copy.type = TensorType(v.dtype, None)
    return copy
