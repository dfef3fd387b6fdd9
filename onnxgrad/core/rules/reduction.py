"""Sums, means, extremes and norms over axes; running sums; top-k.

Tests: tests/core/rules/test_gradients.py.
"""

from __future__ import annotations

import math
from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.known import known_ints
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import cast_like, or_infinite, size_as, zeros_like
from onnxgrad.core.rules.registry import gradient


def _keeping_axes(op: Builder, node: Any, g: Variable) -> Variable:
    """``g`` with the reduced axes put back as 1, so that it broadcasts against x"""
    axes = node.operand("axes")
    if node.attr("keepdims") or axes is None or known_ints(axes) == []:
        return g
    return op.Unsqueeze(g, axes=axes)


def _repeated(op: Builder, node: Any, g: Variable) -> Variable:
    """``g`` repeated along the reduced axes"""
    return op.Expand(_keeping_axes(op, node, g), op.Shape(node.inputs[0]))


@gradient("ReduceSum")
def reduce_sum(op, node, gy):
    """gx = gy, repeated along the reduced axes"""
    return _repeated(op, node, gy)


@gradient("ReduceMean")
def reduce_mean(op, node, gy):
    """gx = gy / number of averaged elements, repeated along the reduced axes"""
    x, (y,) = node.inputs[0], node.outputs
    total, kept = size_as(op, x, x), size_as(op, y, x)
    if isinstance(total, float) and isinstance(kept, float):
        return _repeated(op, node, op.Mul(gy, kept / total if total else 0.0))
    return _repeated(op, node, op.Div(op.Mul(gy, kept), total))


@gradient("ReduceMax", "ReduceMin")
def reduce_extreme(op, node, gy):
    """gx = gy where x is the extreme; ties share it equally"""
    x, (y,) = node.inputs[0], node.outputs
    chosen = cast_like(op, op.Equal(x, _keeping_axes(op, node, y)), x)
    count = op.ReduceSum(chosen, axes=node.operand("axes"), keepdims=1, noop_with_empty_axes=node.attr("noop_with_empty_axes"))
    return op.Div(op.Mul(chosen, _keeping_axes(op, node, gy)), count)


@gradient("ReduceL1")
def reduce_l1(op, node, gy):
    """gx = gy * sign(x)"""
    return op.Mul(_keeping_axes(op, node, gy), op.Sign(node.inputs[0]))


@gradient("ReduceL2")
def reduce_l2(op, node, gy):
    """gx = gy * x / y, 0 where y = 0"""
    x, (y,) = node.inputs[0], node.outputs
    return op.Mul(x, _keeping_axes(op, node, op.Div(gy, or_infinite(op, y))))


@gradient("ReduceSumSquare")
def reduce_sum_square(op, node, gy):
    """gx = 2 x gy"""
    return op.Mul(op.Mul(node.inputs[0], 2.0), _keeping_axes(op, node, gy))


@gradient("ReduceLogSum")
def reduce_log_sum(op, node, gy):
    """gx = gy / exp(y), repeated along the reduced axes;  0 where exp(y) = 0"""
    (y,) = node.outputs
    return _repeated(op, node, op.Div(gy, or_infinite(op, op.Exp(y))))


@gradient("ReduceLogSumExp")
def reduce_log_sum_exp(op, node, gy):
    """gx = gy * exp(x - y), 0 where all of x, and so y, is minus infinity"""
    x, (y,) = node.inputs[0], node.outputs
    y = op.Where(op.Equal(y, -math.inf), 0.0, y)
    return op.Mul(_keeping_axes(op, node, gy), op.Exp(op.Sub(x, _keeping_axes(op, node, y))))


@gradient("CumSum")
def cum_sum(op, node, gy):
    """gx = the running sum of gy from the other end"""
    return op.CumSum(gy, node.inputs[1], exclusive=node.attr("exclusive"), reverse=1 - node.attr("reverse"))


@gradient("TopK")
def top_k(op, node, gvalues, gindices=None):
    """gx = gy at the selected elements, else 0"""
    x, indices = node.inputs[0], node.outputs[1]
    if indices is None:
        indices = node.extra_output(1)
    return op.ScatterElements(zeros_like(op, x), indices, gvalues, axis=node.attr("axis"))
