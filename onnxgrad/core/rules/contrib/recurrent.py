"""Operators of com.microsoft that carry a state from step to step; ONNX took them over in opset 27."""

from __future__ import annotations

from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.rules.contrib.node import ContribNode, contrib
from onnxgrad.core.rules.linear_attention import causal_convolution, linear_recurrence

__all__: list[str] = []


@contrib("CausalConvWithState")
def causal_conv_with_state(op: Builder, node: ContribNode) -> Any:
    """y = activation(Conv per channel of [past state, x]);  present state = the last k - 1 columns"""
    plain = {"ndim": 1, "dilation": 1, "channels_last": 0, "state_window": 0, "state_length": 0, "state_update_capacity": 0}
    for name, value in plain.items():
        if node.attr(name, value) != value:
            raise node.refusal(f"{name}={node.attr(name)} is not written")
    x, weight, bias, past = (node.input(i) for i in range(4))
    return causal_convolution(op, node, x, weight, bias, past, node.attr("activation", "none") not in ("none", b"none"))


@contrib("LinearAttention")
def linear_attention(op: Builder, node: ContribNode) -> Any:
    """a Scan of s' = exp(g) s;  s = s' + k^T beta (v - k s') or s' + k^T v;  y = scale q s"""
    heads, kv_heads = node.count("q_num_heads"), node.count("kv_num_heads")
    if node.attr("state_window", 0):
        raise node.refusal("state_window is not written")
    rule = node.attr("update_rule", "gated_delta")
    inputs = [node.input(i) for i in range(6)]
    if kv_heads > heads:
        inputs[:2], heads = [_repeated(op, node, i, heads, kv_heads) for i in range(2)], kv_heads
    if "gated" not in rule:
        inputs[4] = None
    if "delta" not in rule:
        inputs[5] = None
    return linear_recurrence(op, node, inputs, heads, kv_heads, node.attr("scale", 0.0))


def _repeated(op: Builder, node: ContribNode, index: int, heads: int, kv_heads: int) -> Any:
    """Queries or keys with each head as often as heads of values share it; keys may have as many heads as values already"""
    x, width = node.input(index), node.input(0).dims[2] if node.rank(0) == node.rank(1) == 3 else None
    own = x.dims[2]
    if not isinstance(width, int) or not isinstance(own, int) or kv_heads % heads or width % heads:
        raise node.refusal("more heads of values than of queries, of widths that are not known or no multiples, are not written")
    size = width // heads
    if own == kv_heads * size:
        return x
    apart = op.Unsqueeze(op.Reshape(x, [0, 0, heads, size]), [3])
    shape = op.Concat(op.Shape(apart, start=0, end=3), [kv_heads // heads, size], axis=0)
    return op.Reshape(op.Expand(apart, shape), [0, 0, kv_heads * size])
