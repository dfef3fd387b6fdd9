"""Range of floating-point numbers.

Tests: tests/core/rules/test_gradients.py.
"""

from __future__ import annotations

from onnxgrad.core.rules.common import cast_like
from onnxgrad.core.rules.registry import gradient


@gradient("Range")
def range_(op, node, gy):
    """gstart = gy summed;  gdelta = gy times 0, 1, 2, ... summed;  the limit changes nothing until the size jumps"""
    start = op.ReduceSum(gy, keepdims=0) if node.wants(0) else None
    delta = None
    if node.wants(2):
        steps = cast_like(op, op.Range(0, op.Size(gy), 1), gy)
        delta = op.ReduceSum(op.Mul(gy, steps), keepdims=0)
    return start, None, delta
