"""Attention over all keys at once, and rotary position encodings.

Vaswani et al., "Attention Is All You Need", 2017, section 3.2.1. ONNX's own body is not used: its softmax of a row without any
allowed key is NaN, and so would be its gradient.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.types import same_dim
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import cast_like, masked, require_ranks, size_along, swap_last_two
from onnxgrad.core.rules.registry import expands, expansion

__all__ = ["grouped_matmul"]

expands("RotaryEmbedding")
expands("FlexAttention", domain="ai.onnx.preview")


@expansion("Attention")
def attention(op, node):
    """y = softmax(softcap(q k^T * scale) + bias) v, with probability 0 in a row where every key is masked"""
    require_ranks(node, *node.inputs[:3])
    q, k, v = (_per_head(op, node, i) for i in range(3))
    past_key, past_value = node.operand("past_key"), node.operand("past_value")
    if past_key is not None:
        k, v = op.Concat(past_key, k, axis=2), op.Concat(past_value, v, axis=2)
    raw = grouped_matmul(op, op.Mul(q, _scale(op, node, q)), swap_last_two(op, k))
    cap = node.attr("softcap")
    scores = op.Mul(op.Tanh(op.Div(raw, float(cap))), float(cap)) if cap else raw
    bias, may_mask_rows = _bias(op, node, q, k, past_key)
    probabilities = _probabilities(op, node, scores, bias, may_mask_rows)
    y = grouped_matmul(op, probabilities, v)
    if node.inputs[0].rank == 3:
        y = op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, _product(node.attr("q_num_heads"), v.dims[3])])
    shown = (raw, scores, scores if bias is None else op.Add(scores, bias), probabilities)
    return (y, k, v, shown[node.attr("qk_matmul_output_mode")])[: len(node.outputs)]


def _product(count: int, size: Any) -> int:
    return count * size if isinstance(size, int) else -1


def _per_head(op: Builder, node: Any, index: int) -> Any:
    """An operand as [batch, heads, length, size]"""
    x = node.inputs[index]
    if x.rank != 3:
        return x
    heads = node.attr("kv_num_heads" if index else "q_num_heads")
    size = x.dims[2] // heads if isinstance(x.dims[2], int) else -1
    return op.Transpose(op.Reshape(x, [0, 0, heads, size]), perm=[0, 2, 1, 3])


def _scale(op: Builder, node: Any, q: Any) -> Any:
    scale, size = node.attr("scale"), q.dims[3]
    if scale is not None:
        return float(scale)
    if isinstance(size, int):
        return float(size) ** -0.5
    return op.Reciprocal(op.Sqrt(cast_like(op, size_along(op, q, 3), q)))


def grouped_matmul(op: Builder, x: Any, y: Any) -> Any:
    """x y, where each head of y serves a group of successive heads of x: their rows are stacked"""
    if same_dim(x.dims[1], y.dims[1]) and isinstance(x.dims[1], int):
        return op.MatMul(x, y)
    heads, rows = size_along(op, x, 1), size_along(op, x, 2)
    stacked = op.Concat(
        op.Shape(y, start=0, end=2), op.Div(op.Mul(heads, rows), size_along(op, y, 1)), op.Shape(x, start=3), axis=0
    )
    z = op.MatMul(op.Reshape(x, stacked, allowzero=1), y)
    return op.Reshape(z, op.Concat(op.Shape(x, start=0, end=3), op.Shape(y, start=3), axis=0), allowzero=1)


def _bias(op: Builder, node: Any, q: Variable, k: Variable, past_key: Variable | None) -> Any:
    """Return the bias that is added to the scores (None for none), and whether it can mask all keys of a query."""
    mask, rules = node.operand("attn_mask"), _allowed(op, node, q, k, past_key)
    may_mask_rows = mask is not None or len(rules) > 1 or not node.attr("is_causal")
    if mask is not None:
        mask = _padded_mask(op, node, mask, k)
        if not mask.is_float:
            rules, mask = [mask, *rules], None
    if not rules:
        return mask, may_mask_rows
    allowed = rules[0]
    for rule in rules[1:]:
        allowed = op.And(allowed, rule)
    minus_infinity = op.constant(float("-inf"), q.dtype)
    return op.Where(allowed, op.constant(0, q.dtype) if mask is None else mask, minus_infinity), may_mask_rows


def _padded_mask(op: Builder, node: Any, mask: Any, k: Any) -> Any:
    """A mask that is too short masks the keys it does not mention"""
    if same_dim(mask.dims[-1], k.dims[2]) or node.operator.schema.since < 24:
        return mask
    missing = op.Concat([0], op.Sub(size_along(op, k, 2), size_along(op, mask, -1)), axis=0)
    return op.Pad(mask, missing, op.constant(float("-inf") if mask.is_float else False, mask.dtype), [-1])


def _allowed(op: Builder, node: Any, q: Variable, k: Variable, past_key: Variable | None) -> list[Variable]:
    """Conditions on (query, key) that must all hold, as booleans that broadcast to [batch, heads, queries, keys]"""
    recent = node.operator.schema.since >= 24
    lengths = node.operand("nonpad_kv_seqlen") if recent else None
    windows = node.operator.schema.since >= 25
    left, right = (node.attr(f"{side}_window_size") if windows else -1 for side in ("left", "right"))
    rules = []
    key = op.Range(0, op.Squeeze(size_along(op, k, 2), [0]), 1)
    if node.attr("is_causal") or left >= 0 or right >= 0:
        query = op.Unsqueeze(op.Range(0, op.Squeeze(size_along(op, q, 2), [0]), 1), [1])
        if past_key is not None:
            query = op.Add(query, size_along(op, past_key, 2))
        elif lengths is not None:
            query = op.Add(query, op.Unsqueeze(op.Sub(lengths, size_along(op, q, 2)), [1, 2, 3]))
        if node.attr("is_causal"):
            rules.append(op.LessOrEqual(key, query))
        if left >= 0:
            rules.append(op.GreaterOrEqual(key, op.Sub(query, left)))
        if right >= 0:
            rules.append(op.LessOrEqual(key, op.Add(query, right)))
    if lengths is not None:
        rules.append(op.Less(key, op.Unsqueeze(lengths, [1, 2, 3])))
    return rules


def _probabilities(op: Builder, node: Any, scores: Variable, bias: Variable | None, may_mask_rows: bool) -> Variable:
    """Softmax over the keys; a row without any allowed key gets no bias, and probability 0"""
    empty = None
    if bias is not None and may_mask_rows:
        empty = op.IsInf(op.ReduceMax(bias, [-1], keepdims=1), detect_positive=0)
        bias = op.Where(empty, 0.0, bias)
    biased = scores if bias is None else op.Add(scores, bias)
    precision = node.attr("softmax_precision")
    if precision is not None:
        biased = op.Cast(biased, to=precision)
    probabilities = cast_like(op, op.Softmax(biased, axis=-1), scores)
    return probabilities if empty is None else masked(op, probabilities, op.Not(empty))
