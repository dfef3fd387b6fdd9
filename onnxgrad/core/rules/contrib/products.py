"""Products of com.microsoft with what is fused into them.

Tests: tests/core/rules/test_contrib.py.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.contrib.node import ContribNode, contrib

__all__: list[str] = []


def _activated(op: Builder, node: ContribNode, y: Any, parameters: list[float | None]) -> Any:
    """The activation that a fused operator applies last"""
    name = node.attr("activation")
    values = [value for value in parameters if value is not None]
    if name is None:
        return y
    if name in ("Relu", "Tanh", "Sigmoid", "Softplus", "Softsign"):
        return op.emit(name, (y,), {})
    if name == "Clip" and len(values) == 2:
        return op.Clip(y, values[0], values[1])
    if name in ("LeakyRelu", "Elu", "ThresholdedRelu", "HardSigmoid"):
        return op.emit(name, (y,), dict(zip(("alpha", "beta"), values, strict=False)))
    raise node.refusal(f"the activation {name!r} is not known")


@contrib("FusedMatMul", "TransposeMatMul")
def fused_mat_mul(op: Builder, node: ContribNode) -> Variable:
    """z = alpha x y, their last two axes or their batches turned round"""
    x, y = (_transposed(op, node, i, letter) for i, letter in enumerate("AB"))
    z, alpha = op.MatMul(x, y), node.attr("alpha", 1.0)
    return z if alpha == 1.0 else op.Mul(z, alpha)


def _transposed(op: Builder, node: ContribNode, index: int, letter: str) -> Any:
    """An operand with its batch axis moved inside, and its matrix transposed, where the attributes say so"""
    x, batch, matrix = node.input(index), node.attr(f"transBatch{letter}", 0), node.attr(f"trans{letter}", 0)
    if not batch and not matrix:
        return x
    axes = list(range(node.rank(index)))
    if len(axes) < 2:
        return x
    if batch:
        axes = [*axes[1:-1], axes[0], axes[-1]]
    if matrix:
        axes[-2:] = axes[:-3:-1]
    return op.Transpose(x, perm=axes)


@contrib("FusedGemm")
def fused_gemm(op: Builder, node: ContribNode) -> Any:
    """y = activation(Gemm(a, b, c))"""
    attrs = {name: node.attr(name) for name in ("alpha", "beta", "transA", "transB") if node.attr(name) is not None}
    y = op.Gemm(node.input(0), node.input(1), node.input(2), **attrs)
    return _activated(op, node, y, [node.attr(f"activation_{name}") for name in ("alpha", "beta", "gamma")])


@contrib("FusedConv")
def fused_conv(op: Builder, node: ContribNode) -> Any:
    """y = activation(Conv(x, w, b) + z)"""
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    attrs = {name: node.attr(name) for name in names if node.attr(name) is not None}
    y = op.Conv(node.input(0), node.input(1), node.input(2), **attrs)
    if node.input(3) is not None:
        y = op.Add(y, node.input(3))
    return _activated(op, node, y, list(node.attr("activation_params") or []))


@contrib("NhwcConv", "NhwcFusedConv")
def nhwc_conv(op: Builder, node: ContribNode) -> Any:
    """y = activation(Conv(x, w, b) + z) with the channels last"""
    rank = node.rank(0)
    first, last = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
    x, added = op.Transpose(node.input(0), perm=first), node.input(3)
    added = None if added is None else op.Transpose(added, perm=first)
    return op.Transpose(fused_conv(op, node.reading(x, node.input(1), node.input(2), added)), perm=last)
