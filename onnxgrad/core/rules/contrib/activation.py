"""Fused activations of com.microsoft.

Tests: tests/core/rules/test_contrib.py.
"""

from __future__ import annotations

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.contrib.node import ContribNode, contrib

__all__: list[str] = []


@contrib("Gelu")
def gelu(op: Builder, node: ContribNode) -> Variable:
    """y = Gelu(x)"""
    return op.Gelu(node.input(0))


@contrib("BiasGelu")
def bias_gelu(op: Builder, node: ContribNode) -> Variable:
    """y = Gelu(x + b)"""
    return op.Gelu(op.Add(node.input(0), node.input(1)))


@contrib("FastGelu")
def fast_gelu(op: Builder, node: ContribNode) -> Variable:
    """y = Gelu(x + b), by the tangent"""
    x, bias = node.input(0), node.input(1)
    return op.Gelu(x if bias is None else op.Add(x, bias), approximate="tanh")


@contrib("QuickGelu")
def quick_gelu(op: Builder, node: ContribNode) -> Variable:
    """y = x sigmoid(alpha x)"""
    x = node.input(0)
    return op.Mul(x, op.Sigmoid(op.Mul(x, node.attr("alpha", 1.702))))


@contrib("BiasAdd")
def bias_add(op: Builder, node: ContribNode) -> Variable:
    """y = x + b + skip"""
    return op.Add(op.Add(node.input(0), node.input(1)), node.input(2))


@contrib("BiasSplitGelu")
def bias_split_gelu(op: Builder, node: ContribNode) -> Variable:
    """y = left Gelu(right), the halves of x + b"""
    left, right = op.Split(op.Add(node.input(0), node.input(1)), axis=-1, num_outputs=2, outputs=2)
    return op.Mul(left, op.Gelu(right))


@contrib("ScaledSiLU")
def scaled_silu(op: Builder, node: ContribNode) -> Variable:
    """y = z sigmoid(z), z = alpha x"""
    scale = node.input(1)
    z = op.Mul(node.input(0), node.attr("alpha", 1.0) if scale is None else op.Reshape(scale, []))
    return op.Mul(z, op.Sigmoid(z))
