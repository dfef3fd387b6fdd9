"""Dropout, whose gradient reuses the mask, and operators that sample random numbers.

Tests: tests/core/rules/test_gradients.py.
"""

from __future__ import annotations

from onnxgrad.core.ir.traits import RANDOM
from onnxgrad.core.rules.common import cast_like
from onnxgrad.core.rules.registry import gradient, stops_gradient


@gradient("Dropout")
def dropout(op, node, gy, gmask=None):
    """gx = gy * mask / (1 - ratio) in training, else gy"""
    ratio, training = node.operand("ratio"), node.operand("training_mode")
    if training is None or (training.value is not None and not training.value.numpy().any()):
        return gy
    mask = node.outputs[1] if len(node.outputs) > 1 and node.outputs[1] is not None else node.extra_output(1)
    keep = op.Sub(1.0, cast_like(op, ratio, gy)) if ratio is not None else 0.5
    if training.value is None:
        keep = op.Where(training, keep, op.constant(1.0, gy.dtype))
    return op.Mul(gy, op.Div(cast_like(op, mask, gy), keep))


stops_gradient(
    *sorted(RANDOM - {"Dropout"}),
    because="the sampled numbers do not vary with the operands",
)
