"""Take one row of numbers for each text from those of its tokens.

Tests: tests/training/surgery/test_pooling.py.
"""

from __future__ import annotations

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.traverse import all_operators_of
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError

__all__ = ["at_last_token"]


def at_last_token(op: Builder, x: Variable, mask_name: str = "attention_mask") -> Variable:
    """The row of the last token that the mask lets through, [batch, size] of [batch, steps, size], padded on either side.

    Raises:
        ArgumentError: if there is no such mask, or the model's window caches do not let it hide padding.
    """
    program = op.block.program
    mask = next((v for v in program.inputs if v.name == mask_name), None)
    if mask is None or mask.rank not in (None, 2) or x.rank != 3:
        raise ArgumentError(
            f"the last token of {x!r} is found by an input {mask_name!r} [batch, steps] beside a tensor [batch, steps, size]; "
            f"the inputs are {[v.name for v in program.inputs]}. Name the mask, or another tensor."
        )
    if any(operator.attrs.get("sliding_window_cache") for operator in all_operators_of(program.global_block())):
        raise ArgumentError(
            f"this model has caches of a window, for which {mask_name!r} hides no padding: the last token cannot be told. "
            "Build the file without them, or feed rows of one length and take '[:, -1]'."
        )
    counts = op.Cast(op.Cast(mask, to=dtype_of("bool").number), to=dtype_of("int64").number)
    steps = op.Gather(op.Shape(mask), 1, axis=0)
    last = op.ReduceMax(op.Mul(counts, op.Range(0, steps, 1)), axes=[1], keepdims=1)
    row: Variable = op.GatherND(x, last, batch_dims=1)
    return row
