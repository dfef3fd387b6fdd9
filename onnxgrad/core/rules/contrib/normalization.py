"""Fused normalisations and embeddings of com.microsoft.

Tests: tests/core/rules/test_contrib.py.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.contrib.node import ContribNode, contrib
from onnxgrad.dtypes import dtype_of

__all__ = ["root_mean_square_normalized"]


@contrib("LayerNormalization")
def layer_normalization(op: Builder, node: ContribNode) -> Any:
    """LayerNormalization of older opsets"""
    attrs = {name: node.attr(name) for name in ("axis", "epsilon", "stash_type") if node.attr(name) is not None}
    return _layer_normalized(op, node, node.input(0), node.input(1), node.input(2), attrs, 2)


def _layer_normalized(op: Builder, node: ContribNode, x: Any, scale: Any, bias: Any, attrs: dict[str, Any], last: int) -> list[Any]:
    """The normalised tensor, then mean and inverse deviation if the operator declares them"""
    outputs = last + 1 if any(node.has_output(i) for i in range(1, last + 1)) else 1
    results = op.LayerNormalization(x, scale, bias, outputs=outputs, **attrs)
    return list(results) if isinstance(results, tuple) else [results, *[None] * last]


@contrib("SkipLayerNormalization")
def skip_layer_normalization(op: Builder, node: ContribNode) -> Any:
    """y = LayerNormalization(x + skip + b)"""
    total = _with_skip(op, node, node.input(4))
    attrs = {"epsilon": node.attr("epsilon", 1e-12)}
    return [*_layer_normalized(op, node, total, node.input(2), node.input(3), attrs, 2), total]


@contrib("SkipSimplifiedLayerNormalization")
def skip_simplified_layer_normalization(op: Builder, node: ContribNode) -> Any:
    """y = RMSNormalization(x + skip + b)"""
    total = _with_skip(op, node, node.input(3))
    y, inverse = root_mean_square_normalized(op, total, node.input(2), node.attr("epsilon", 1e-12))
    return y, None, inverse, total


def _with_skip(op: Builder, node: ContribNode, bias: Any) -> Variable:
    total = op.Add(node.input(0), node.input(1))
    return total if bias is None else op.Add(total, bias)


@contrib("SimplifiedLayerNormalization")
def simplified_layer_normalization(op: Builder, node: ContribNode) -> Any:
    """y = x / sqrt(mean(x^2) + epsilon) * scale"""
    if node.attr("axis", -1) != -1 and node.attr("axis") != node.rank(0) - 1:
        raise node.refusal("only the last axis is normalised")
    return root_mean_square_normalized(op, node.input(0), node.input(1), node.attr("epsilon", 1e-5))


def root_mean_square_normalized(op: Builder, x: Any, scale: Any, epsilon: float) -> tuple[Any, Any]:
    """x / sqrt(mean(x^2) + epsilon) * scale in float32 at least, and the reciprocal of that root"""
    narrow = x.type is not None and x.dtype.name in ("float16", "bfloat16")
    wide = op.Cast(x, to=1) if narrow else x
    inverse = op.Reciprocal(op.Sqrt(op.Add(op.ReduceMean(op.Mul(wide, wide), [-1], keepdims=1), epsilon)))
    unit = op.Mul(wide, inverse)
    return op.Mul(op.Cast(unit, to=x.dtype.number) if narrow else unit, scale), inverse


@contrib("EmbedLayerNormalization")
def embed_layer_normalization(op: Builder, node: ContribNode) -> Any:
    """y = LayerNormalization(words + positions + segments)"""
    ids, segments, token_table, position_table, segment_table, scale, bias, mask, position_ids = (node.input(i) for i in range(9))
    length = op.Squeeze(op.Shape(ids, start=1, end=2), [0])
    total = op.Add(
        op.Gather(token_table, ids), op.Gather(position_table, op.Range(0, length, 1) if position_ids is None else position_ids)
    )
    if segments is not None:
        total = op.Add(total, op.Gather(segment_table, segments))
    y = op.LayerNormalization(total, scale, bias, epsilon=node.attr("epsilon", 1e-12))
    index = None
    if node.has_output(1):
        batch = op.Shape(ids, start=0, end=1)
        index = op.Expand(op.constant(0, dtype_of("int32")), batch) if mask is None else op.ReduceSum(mask, [1], keepdims=0)
    return y, index, total


@contrib("GroupNorm")
def group_norm(op: Builder, node: ContribNode) -> Any:
    """y = activation((x - mean) / sqrt(variance + epsilon) * scale + b) by groups of channels"""
    return _group_normalized(op, node, node.input(0))


@contrib("SkipGroupNorm")
def skip_group_norm(op: Builder, node: ContribNode) -> Any:
    """y = GroupNorm(x + skip + b)"""
    x, skip, bias = node.input(0), node.input(3), node.input(4)
    if node.rank(3) == 2:
        skip = op.Unsqueeze(skip, [1, 2] if node.attr("channels_last", 1) else [2, 3])
    total = op.Add(x, skip)
    if bias is not None:
        total = op.Add(total, _per_channel(op, node, bias))
    return _group_normalized(op, node, total), total


def _per_channel(op: Builder, node: ContribNode, v: Any) -> Any:
    return v if node.attr("channels_last", 1) else op.Unsqueeze(v, [1, 2])


def _group_normalized(op: Builder, node: ContribNode, x: Any) -> Any:
    last, groups = node.attr("channels_last", 1), node.count("groups")
    shape = op.Shape(x)
    if last:
        apart = op.Reshape(x, op.Concat(op.Shape(x, start=0, end=3), [groups, -1], axis=0))
    else:
        apart = op.Reshape(x, [0, groups, -1])
    axes = [1, 2, 4] if last else [2]
    wide = op.Cast(apart, to=1) if x.dtype.name == "float16" else apart
    centered = op.Sub(wide, op.ReduceMean(wide, axes, keepdims=1))
    variance = op.ReduceMean(op.Mul(centered, centered), axes, keepdims=1)
    unit = op.Div(centered, op.Sqrt(op.Add(variance, node.attr("epsilon", 1e-5))))
    scale, bias = (_per_channel(op, node, op.Cast(node.input(i), to=unit.dtype.number)) for i in (1, 2))
    y = op.Add(op.Mul(op.Reshape(unit, shape, allowzero=1), scale), bias)
    if node.attr("activation", 0):
        y = op.Mul(y, op.Sigmoid(y))
    return op.Cast(y, to=x.dtype.number)
