"""Fused activations of com.microsoft."""

from __future__ import annotations

from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.contrib.node import ContribNode, contrib

__all__: list[str] = []



@contrib("Gelu")
def gelu(op: Builder, node: ContribNode) -> Variable:
    return op.Gelu(node.input(0))


@contrib("BiasGelu")
def bias_gelu(op: Builder, node: ContribNode) -> Variable:
    return op.Gelu(op.Add(node.input(0), node.input(1)))


@contrib("FastGelu")
def fast_gelu(op: Builder, node: ContribNode) -> Variable:
    x, bias = node.input(0), node.input(1)
    return op.Gelu(x if bias is None else op.Add(x, bias), approximate="tanh")


@contrib("QuickGelu")
def quick_gelu(op: Builder, node: ContribNode) -> Variable:
    x = node.input(0)
    return op.Mul(x, op.Sigmoid(op.Mul(x, node.attr("alpha", 1.702))))
