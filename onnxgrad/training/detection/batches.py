"""A detector that a file takes one picture at a time for, trained on several: what follows its head is left to the export.

NonMaxSuppression and what chooses boxes stand behind the head, so the loss does not need them. Exporters also write the batch of
one into the shapes of Reshape.

Tests: tests/training/detection/test_batches.py.
"""

from __future__ import annotations

import numpy as np

from onnxgrad.core.ir.known import known_ints
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.transaction import all_or_nothing
from onnxgrad.core.ir.variable import Variable
from onnxgrad.training.data.open_batch import open_batch
from onnxgrad.training.detection.heads import DetectorHead
from onnxgrad.training.surgery.heads import cut_at

__all__ = ["open_detector"]


@all_or_nothing
def open_detector(program: Program, head: DetectorHead) -> list[str]:
    """End a program that takes one picture at its head, and let it take any number, if it computes each for itself.

    Args:
        program: a loaded detector without a backward pass, whose export is another program; it is changed.
        head: that was recognised in it.

    Returns:
        A line that says so; none where the program is as it was.

    Example:
        >>> open_detector(program, recognise_head(program))  # doctest: +SKIP
        ['the file takes one example at a time (images); it takes any number here, as each gives the same outputs.']
    """
    inputs = program.inputs
    if not inputs or any(not v.dims or v.dims[0] != 1 for v in inputs):
        return []
    cut_at(program, [v.name for v in _tensors_of(head)])
    for op in program.global_block().ops:
        x = op.inputs[0] if op.inputs else None
        shape = known_ints(op.inputs[1]) if op.type == "Reshape" and op.domain == "" and op.inputs[1] is not None else None
        if shape and shape[0] == 1 and 0 not in shape and x is not None and x.dims and x.dims[0] == 1:
            op.attrs.pop("allowzero", None)
            op.inputs[1] = program.constant(np.array([0, *shape[1:]], np.int64))  # the batch of the operand
    return open_batch(program)


def _tensors_of(head: DetectorHead) -> list[Variable]:
    """What the loss reads"""
    parts = [*head.scores, *head.objectness, *(head.numbers if head.boxes is None else [head.boxes])]
    return list(dict.fromkeys([*(part.tensor for part in parts), *(bins.tensor for bins in head.bins)]))
