"""Gates of com.microsoft, as files of models with linear attention hold them.

Tests: tests/core/rules/test_contrib.py.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.rules.common import size_along
from onnxgrad.core.rules.contrib.node import ContribNode, contrib
from onnxgrad.core.rules.contrib.normalization import root_mean_square_normalized

__all__: list[str] = []

_FLOAT32 = 1


@contrib("GatedAdd")
def gated_add(op: Builder, node: ContribNode) -> Any:
    """z = x + y gate, or x + y sigmoid(gate w)"""
    x, y, gate, weight = (node.input(i) for i in range(4))
    if weight is not None:
        gate = op.Sigmoid(op.MatMul(gate, weight))
    return op.Add(x, op.Mul(y, gate))


@contrib("GatedRMSNorm")
def gated_rms_norm(op: Builder, node: ContribNode) -> Any:
    """y = x / sqrt(mean(x^2) + epsilon) * scale * activation(gate), by groups of as many entries as the scale has"""
    x, scale, gate = (op.Cast(v, to=_FLOAT32) if _is_narrow(v) else v for v in (node.input(i) for i in range(3)))
    activation = node.attr("activation", "silu")
    activation = activation.decode() if isinstance(activation, bytes) else activation
    if activation not in ("silu", "swish", "sigmoid"):
        raise node.refusal(f"its activation {activation!r} is not known")
    groups = op.Concat([0] * (node.rank(0) - 1), [-1], size_along(op, scale, 0), axis=0)
    normalised, _ = root_mean_square_normalized(op, op.Reshape(x, groups), scale, node.attr("epsilon", 1e-5))
    factor = op.Sigmoid(gate)
    factor = factor if activation == "sigmoid" else op.Mul(gate, factor)
    y = op.Mul(op.Reshape(normalised, op.Shape(x), allowzero=1), factor)
    return op.Cast(y, to=node.input(0).dtype.number) if _is_narrow(node.input(0)) else y


@contrib("LinearAttentionGate")
def linear_attention_gate(op: Builder, node: ContribNode) -> Any:
    """decay = scale softplus(a + bias);  beta = sigmoid(b)"""
    a, bias, scale, b = (node.input(i) for i in range(4))
    wide = op.Cast(a, to=_FLOAT32) if _is_narrow(a) else a
    decay = op.Mul(op.Softplus(op.Add(wide, bias)), scale)
    beta = None if b is None else op.Sigmoid(b)
    return op.Cast(decay, to=a.dtype.number) if _is_narrow(a) else decay, beta


def _is_narrow(v: Any) -> bool:
    return v.dtype.name in ("float16", "bfloat16")
