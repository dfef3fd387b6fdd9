"""Mixtures of experts: every expert is computed for every token, and those that are not chosen count 0.

That is what the gradient pays for standard operators; the forward operator stays, and computes the chosen ones only.

Tests: tests/core/rules/test_contrib.py.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.rules.common import cast_like
from onnxgrad.core.rules.contrib.blockwise import interleaved
from onnxgrad.core.rules.contrib.node import ContribNode, contrib

__all__ = ["expert_weight"]


@contrib("MoE")
def mixture(op: Builder, node: ContribNode) -> Any:
    """y = sum of w_e expert_e(x) over the k experts of largest w = softmax(router)"""
    weights = [(node.input(i), node.input(i + 1)) for i in (2, 4, 6)]
    return _mixed(op, node, weights, None)


@contrib("QMoE")
def quantized_mixture(op: Builder, node: ContribNode) -> Any:
    """MoE with dequantised weights"""
    if node.attr("quant_type", "int") not in ("int", b"int"):
        raise node.refusal(f"quant_type={node.attr('quant_type')!r} is not written")
    if not node.attr("normalize_routing_weights", 0) and node.input(14) is None:
        reason = "the kernel on the CPU normalises routing weights also where normalize_routing_weights=0"
        raise node.refusal(reason, "Set it to 1 if that is meant, or give router_weights")
    if node.attr("weights_prepacked", -1) == 1:
        raise node.refusal("its weights are packed for one machine (weights_prepacked)", "Use the file it was made from")
    weights = [(expert_weight(op, node, i), node.input(3 * i + 4)) for i in range(3)]
    return _mixed(op, node, weights, node.input(14))


def expert_weight(op: Builder, node: ContribNode, index: int) -> Any:
    """The weight fc1, fc2 or fc3 of a QMoE in floating point, as [experts, outputs, inputs]; None where it has none."""
    packed, scales, zeros = node.input(3 * index + 2), node.input(3 * index + 3), node.input(11 + index)
    if packed is None:
        return None
    if scales is None:
        raise node.refusal(f"the scales of weight fc{index + 1} are missing", "Correct the file")
    bits = node.attr(f"fc{index + 1}_expert_weight_bits", node.attr("expert_weight_bits", 4))
    if bits not in (2, 4, 8):
        raise node.refusal(f"weights of {bits} bits are not written")
    level = cast_like(op, interleaved(op, node, packed, bits), scales)
    blocks = node.rank(3 * index + 3) == 3
    zero: Any = float(1 << (bits - 1))
    if zeros is not None:
        zero = cast_like(op, interleaved(op, node, zeros, bits), scales)
        axis = 2 if blocks else 1
        zero = op.Slice(zero, [0], op.Shape(scales, start=axis, end=axis + 1), [axis])
    if blocks:
        apart = op.Reshape(level, op.Concat(op.Shape(scales), [-1], axis=0))
        wide = op.Mul(op.Sub(apart, zero if zeros is None else op.Unsqueeze(zero, [3])), op.Unsqueeze(scales, [3]))
        return op.Reshape(wide, [0, 0, -1])
    return op.Mul(op.Sub(level, zero if zeros is None else op.Unsqueeze(zero, [2])), op.Unsqueeze(scales, [2]))


def _mixed(op: Builder, node: ContribNode, weights: list[tuple[Any, Any]], routing: Any) -> Any:
    if node.attr("use_sparse_mixer", 0) or node.attr("swiglu_limit_after_activation", 0):
        raise node.refusal("use_sparse_mixer and swiglu_limit_after_activation are not written")
    x, router = node.input(0), node.input(1)
    tokens = op.Reshape(x, op.Concat([-1], op.Shape(x, start=-1), axis=0))
    (first, first_bias), (second, second_bias), (third, third_bias) = weights
    if first.rank is None or second.rank is None:
        raise node.refusal("the rank of its weights is unknown", "Declare their shapes in the model's value_info")
    rows = op.Unsqueeze(tokens, [0])
    hidden = _activated(op, node, _applied(op, rows, first, first_bias), third is not None)
    if third is not None:
        hidden = op.Mul(hidden, _up(op, node, _applied(op, rows, third, third_bias)))
    y = _applied(op, hidden, second, second_bias)
    weight = op.Unsqueeze(op.Transpose(_routing_weights(op, node, router, routing), perm=[1, 0]), [2])
    return op.Reshape(op.ReduceSum(op.Mul(y, weight), [0], keepdims=0), op.Shape(x), allowzero=1)


def _routing_weights(op: Builder, node: ContribNode, router: Any, routing: Any) -> Any:
    """Return the routing weight of each expert for a token, [tokens, experts]: 0 but for the k best."""
    probabilities = op.Softmax(router, axis=-1)
    best, which = op.TopK(probabilities, [node.attr("k", 1)], axis=1, outputs=2)
    if routing is not None:
        best = op.GatherElements(routing, which, axis=1)
    if node.attr("normalize_routing_weights", 0):
        best = op.Div(best, op.ReduceSum(best, [1], keepdims=1))
    none = op.Expand(op.constant(0, router.dtype), op.Shape(router))
    return op.ScatterElements(none, which, best, axis=1)


def _applied(op: Builder, x: Any, weight: Any, bias: Any) -> Any:
    y = op.MatMul(x, op.Transpose(weight, perm=[0, 2, 1]))
    return y if bias is None else op.Add(y, op.Unsqueeze(bias, [1]))


def _activated(op: Builder, node: ContribNode, x: Any, has_third: bool) -> Any:
    activation = node.attr("activation_type", "relu")
    activation = activation.decode() if isinstance(activation, bytes) else activation
    if activation == "swiglu":
        fusion = node.attr("swiglu_fusion", 0)
        if fusion == 0:
            return _gate(op, node, x)
        if fusion == 1:
            pairs = op.Reshape(x, [0, 0, -1, 2])
            gate, up = op.Gather(pairs, 0, axis=3), op.Gather(pairs, 1, axis=3)
        else:
            gate, up = op.Split(x, axis=2, num_outputs=2, outputs=2)
        return op.Mul(_gate(op, node, gate), _up(op, node, up))
    if activation == "silu":
        return op.Mul(x, op.Sigmoid(x))
    if activation in ("relu", "identity"):
        return op.Relu(x) if activation == "relu" else x
    if activation == "gelu":
        return op.Gelu(x, approximate="tanh")
    raise node.refusal(f"the activation {activation!r} is not known")


def _gate(op: Builder, node: ContribNode, x: Any) -> Any:
    limit = node.attr("swiglu_limit")
    x = x if limit is None else op.Min(x, float(limit))
    return op.Mul(x, op.Sigmoid(op.Mul(x, node.attr("activation_alpha", 1.0))))


def _up(op: Builder, node: ContribNode, x: Any) -> Any:
    """Return the factor of the gate."""
    if node.attr("activation_type", "relu") not in ("swiglu", b"swiglu"):
        return x
    limit = node.attr("swiglu_limit")
    x = x if limit is None else op.Clip(x, -float(limit), float(limit))
    return op.Add(x, node.attr("activation_beta", 0.0))
