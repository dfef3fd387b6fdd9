"""Attention, MultiHeadAttention, RotaryEmbedding and MRotaryEmbedding of com.microsoft, in standard operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.rules.contrib.node import ContribNode, contrib

__all__ = ["per_head", "rotated"]


@contrib("Attention")
def attention(op: Builder, node: ContribNode) -> Any:
    """y = softmax(q k^T * scale + masks) v, where q, k, v = x w + b"""
    x, weight, bias = (node.input(i) for i in range(3))
    heads, past = node.count("num_heads"), node.input(4)
    if node.attr("do_rotary", 0) or node.attr("past_present_share_buffer", 0):
        raise node.refusal("do_rotary and shared buffers are not expanded")
    projected = op.MatMul(x, weight)
    projected = projected if bias is None else op.Add(projected, bias)
    sizes = node.attr("qkv_hidden_sizes")
    parts = op.Split(projected, list(sizes), axis=2, outputs=3) if sizes else op.Split(projected, axis=2, num_outputs=3, outputs=3)
    q, k, v = (per_head(op, part, heads) for part in parts)
    if past is not None:
        past_key, past_value = (op.Gather(past, i, axis=0) for i in range(2))
        k, v = op.Concat(past_key, k, axis=2), op.Concat(past_value, v, axis=2)
    present = op.Concat(op.Unsqueeze(k, [0]), op.Unsqueeze(v, [0]), axis=0) if node.has_output(1) else None
    y, _ = _attended(op, node, q, k, v, _mask_bias(op, node, 3, k), node.input(5))
    return y, present


@contrib("MultiHeadAttention")
def multi_head_attention(op: Builder, node: ContribNode) -> Any:
    """y = softmax(q k^T * scale + masks) v"""
    if node.input(8) is not None or node.input(9) is not None:
        raise node.refusal("past_sequence_length and cache_indirection are not expanded")
    heads = node.count("num_heads")
    q, k, v = _operands(op, node)
    bias = node.input(3)
    if bias is not None:
        if q.rank != 3 or k.rank != 3:
            raise node.refusal("a bias is expanded with separate operands of rank 3 only")
        widths = [op.Shape(part, start=2) for part in (q, k, v)]
        q, k, v = (op.Add(x, b) for x, b in zip((q, k, v), op.Split(bias, op.Concat(*widths, axis=0), outputs=3), strict=True))
    q, k, v = (per_head(op, x, heads) if x.rank == 3 else x for x in (q, k, v))
    if node.input(6) is not None:
        k, v = op.Concat(node.input(6), k, axis=2), op.Concat(node.input(7), v, axis=2)
    y, scores = _attended(op, node, q, k, v, _mask_bias(op, node, 4, k), node.input(5))
    return y, k, v, scores


def _operands(op: Builder, node: ContribNode) -> Any:
    """Query, key, value: apart, or packed along an axis"""
    q, k, v = (node.input(i) for i in range(3))
    ranks = [node.rank(i) for i in range(3) if node.input(i) is not None]
    if k is None:
        if ranks[0] != 5:
            raise node.refusal("a query alone must be packed as [batch, length, heads, 3, size]")
        return tuple(op.Transpose(op.Gather(q, i, axis=3), perm=[0, 2, 1, 3]) for i in range(3))
    if v is None:
        if ranks[1] != 5:
            raise node.refusal("a key without value must be packed as [batch, length, heads, 2, size]")
        return (q, *(op.Transpose(op.Gather(k, i, axis=3), perm=[0, 2, 1, 3]) for i in range(2)))
    return q, k, v


def per_head(op: Builder, x: Any, heads: int) -> Any:
    """[batch, length, heads * size] as [batch, heads, length, size]"""
    return op.Transpose(op.Reshape(x, [0, 0, heads, -1]), perm=[0, 2, 1, 3])


def _mask_bias(op: Builder, node: ContribNode, index: int, k: Any) -> Any:
    """A padding mask as what is added to the scores: 0, or the filter value where it is 0"""
    mask = node.input(index)
    if mask is None:
        return None
    rank = node.rank(index)
    if rank == 1:
        if node.type == "MultiHeadAttention" and _differ(mask.dims[0], k.dims[0] if k.dims else None):
            raise node.refusal("a mask index of cumulated lengths is not written")
        allowed = _in_range(op, mask, k)
        rank = 2
    else:
        allowed = op.Cast(mask, to=9)
    if rank < 4:
        allowed = op.Unsqueeze(allowed, [1, 2] if rank == 2 else [1])
    elif node.type == "Attention":
        raise node.refusal("a mask of rank 4 is not expanded")
    dtype = node.input(0).dtype
    return op.Where(allowed, op.constant(0, dtype), op.constant(node.attr("mask_filter_value", -10000.0), dtype))


def _differ(a: Any, b: Any) -> bool:
    return isinstance(a, int) and isinstance(b, int) and a != b


def _in_range(op: Builder, mask: Any, k: Any) -> Any:
    """[batch, keys]: before the end of each text, and, where ``mask`` holds them too, not before its start"""
    batch = op.Shape(k, start=0, end=1)
    bounds = op.Concat(op.Cast(mask, to=7), op.Expand(0, batch), axis=0)
    ends, starts = (op.Unsqueeze(op.Slice(bounds, *at), [1]) for at in (([0], batch), (batch, op.Mul(batch, [2]))))
    keys = op.Range(0, op.Squeeze(op.Shape(k, start=2, end=3), [0]), 1)
    return op.And(op.Less(keys, ends), op.GreaterOrEqual(keys, starts))


def _attended(op: Builder, node: ContribNode, q: Any, k: Any, v: Any, mask: Any, bias: Any) -> tuple[Any, Any]:
    """softmax(q k^T * scale + masks) v as [batch, length, heads * size], and the scores"""
    scale = node.attr("scale", 0.0) or op.Reciprocal(op.Sqrt(op.Cast(op.Shape(q, start=3), to=q.dtype.number)))
    scores = op.MatMul(op.Mul(q, scale), op.Transpose(k, perm=[0, 1, 3, 2]))
    for extra in (mask, bias):
        scores = scores if extra is None else op.Add(scores, extra)
    if node.attr("unidirectional", 0):
        queries, keys = (op.Squeeze(op.Shape(x, start=2, end=3), [0]) for x in (q, k))
        row = op.Add(op.Unsqueeze(op.Range(0, queries, 1), [1]), op.Sub(keys, queries))
        future = op.Greater(op.Range(0, keys, 1), row)
        scores = op.Where(future, op.constant(float("-inf"), q.dtype), scores)
    y = op.MatMul(op.Softmax(scores, axis=-1), v)
    return op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1]), scores


@contrib("RotaryEmbedding")
def rotary_embedding(op: Builder, node: ContribNode) -> Any:
    """y = x with pairs of entries turned by angles of their positions"""
    positions, cosines, sines = (node.input(i) for i in range(1, 4))
    if node.rank(1) not in (0, 1, 2):
        raise node.refusal(f"position_ids are of rank {node.rank(1)}", "Build the file with mrope_section in its configuration")

    def angles(x: Any) -> list[Any]:
        ids = positions
        if node.rank(1) < 2:
            ids = op.Unsqueeze(op.Add(op.Range(0, op.Squeeze(op.Shape(x, start=2, end=3), [0]), 1), positions), [0])
        return [op.Gather(cache, ids) for cache in (cosines, sines)]

    return _turned(op, node, angles)


@contrib("MRotaryEmbedding")
def m_rotary_embedding(op: Builder, node: ContribNode) -> Any:
    """y = x with pairs of entries turned by angles of three positions, each pair by the angle of one: time, height or width"""
    positions, caches = node.input(1), [node.input(2), node.input(3)]
    sections, layout = list(node.attr("mrope_section", ())), node.attr("mrope_layout", 0)
    half = caches[0].dims[1] if caches[0].dims else None
    if len(sections) != 3 or layout not in (0, 1) or (isinstance(half, int) and sum(sections) != half):
        raise node.refusal(f"mrope_section {sections} with layout {layout} does not divide the {half} angles of cos_cache")
    which = [stream for stream, count in enumerate(sections) for _ in range(count)]
    if layout == 1:
        last = [3 * count for count in sections]
        which = [pair % 3 if pair % 3 and pair < last[pair % 3] else 0 for pair in range(sum(sections))]

    def angles(x: Any) -> list[Any]:
        chosen = [[pair for pair, stream in enumerate(which) if stream == at] for at in range(3)]
        order = [which[:pair].count(stream) + sum(len(chosen[at]) for at in range(stream)) for pair, stream in enumerate(which)]
        parts = []
        for cache in caches:
            streams = [
                op.Gather(op.Gather(cache, np.array(pairs, np.int64), axis=1), op.Gather(positions, at, axis=0))
                for at, pairs in enumerate(chosen)
                if pairs
            ]
            together = streams[0] if len(streams) == 1 else op.Concat(*streams, axis=2)
            parts.append(op.Gather(together, np.array(order, np.int64), axis=2))
        return parts

    return _turned(op, node, angles)


def _turned(op: Builder, node: ContribNode, angles: Any) -> Any:
    """The operand with its heads apart, rotated by cosines and sines of [batch, length, pairs], in its own layout again"""
    x, cosines = node.input(0), node.input(2)
    if node.attr("is_packed_batching", 0) or node.attr("scale", 1.0) != 1.0:
        raise node.refusal("packed batches and scale are not expanded")
    source = x
    if node.rank(0) == 3:
        heads, part = node.attr("num_heads", 0), node.attr("rotary_embedding_dim", 0)
        if not heads and part:
            raise node.refusal("rotary_embedding_dim needs num_heads")
        size = op.Mul(op.Shape(cosines, start=1), [2])
        shape = op.Concat([0, 0, -1], size, axis=0) if not heads else [0, 0, heads, -1]
        x = op.Transpose(op.Reshape(x, shape), perm=[0, 2, 1, 3])
    cosine, sine = (op.Unsqueeze(part, [1]) for part in angles(x))
    y = rotated(op, x, cosine, sine, bool(node.attr("interleaved", 0)), node.attr("rotary_embedding_dim", 0))
    return op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]), op.Shape(source)) if node.rank(0) == 3 else y


def rotated(op: Builder, x: Any, cosine: Any, sine: Any, interleaved: bool, size: int) -> Any:
    """Pairs of entries of the last axis rotated by their angle; entries beyond the first ``size`` (0 for all) stay"""
    rest = op.Slice(x, [size], [2**31 - 1], [3]) if size else None
    x = op.Slice(x, [0], [size], [3]) if size else x
    if interleaved:
        a, b = (op.Slice(x, [i], [2**31 - 1], [3], [2]) for i in range(2))
    else:
        a, b = op.Split(x, axis=3, num_outputs=2, outputs=2)
    pair = op.Sub(op.Mul(a, cosine), op.Mul(b, sine)), op.Add(op.Mul(a, sine), op.Mul(b, cosine))
    if interleaved:
        y = op.Reshape(op.Concat(*(op.Unsqueeze(part, [4]) for part in pair), axis=4), op.Shape(x))
    else:
        y = op.Concat(*pair, axis=3)
    return y if rest is None else op.Concat(y, rest, axis=3)
