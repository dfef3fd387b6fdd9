"""GroupQueryAttention: causal attention over a cache and new tokens, where a head of keys serves several heads of queries.

Softmax does not ask in which order the keys come. So the new ones are put behind the whole cache buffer, used or not, and a mask
says which position each one has; nothing is copied within the cache but for the outputs that show it.

Tests: tests/core/rules/test_contrib.py.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.attention import grouped_matmul
from onnxgrad.core.rules.common import lowest_of, size_along, swap_last_two
from onnxgrad.core.rules.contrib.attention import per_head, rotated
from onnxgrad.core.rules.contrib.node import ContribNode, contrib
from onnxgrad.core.rules.contrib.normalization import root_mean_square_normalized
from onnxgrad.dtypes import dtype_of

__all__: list[str] = []

_INT64 = dtype_of("int64").number


@contrib("GroupQueryAttention")
def group_query_attention(op: Builder, node: ContribNode) -> Any:
    """y = softmax(softcap(q k^T * scale) + bias + mask) v over cached and new keys, q and k normalised and rotated"""
    _check(node)
    q, k, v = _heads(op, node)
    q, k = (_normalised(op, node, x, index) for x, index in ((q, 14), (k, 15)))
    positions = _Positions(op, node, q)
    if node.attr("do_rotary", 0):
        q, k = _rotary(op, node, q, positions), _rotary(op, node, k, positions)
    past_k, past_v = node.input(3), node.input(4)
    if past_k is not None:
        k, v = op.Concat(past_k, k, axis=2), op.Concat(past_v, v, axis=2)
    scale = node.attr("scale", 0.0) or op.Reciprocal(op.Sqrt(op.Cast(op.Shape(q, start=3), to=q.dtype.number)))
    scores = grouped_matmul(op, op.Mul(q, scale), swap_last_two(op, k))
    cap = node.attr("softcap", 0.0)
    if cap:
        scores = op.Mul(op.Tanh(op.Div(scores, cap)), cap)
    if node.input(10) is not None:
        scores = op.Add(scores, positions.in_order_of_keys(op, node.input(10)))
    y = grouped_matmul(op, _probabilities(op, node, op.Add(scores, positions.mask(op, node, q))), v)
    y = op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1])
    return y, positions.present(op, node, k), positions.present(op, node, v)


def _check(node: ContribNode) -> None:
    for name in ("k_quant_type", "v_quant_type"):
        if node.attr(name, "NONE") not in ("NONE", b"NONE"):
            raise node.refusal(f"its cache is quantised ({name})")
    if (node.input(14) is None) != (node.input(15) is None):
        raise node.refusal("it has one of q_norm_weight and k_norm_weight", "Correct the file")
    if node.attr("sliding_window_cache", 0) and node.attr("local_window_size", -1) <= 0:
        raise node.refusal("sliding_window_cache needs local_window_size")


def _heads(op: Builder, node: ContribNode) -> tuple[Any, Any, Any]:
    """Query, key and value as [batch, heads, length, size]"""
    heads, kv_heads = node.count("num_heads"), node.count("kv_num_heads")
    q, k, v = (node.input(i) for i in range(3))
    if k is not None:
        return per_head(op, q, heads), per_head(op, k, kv_heads), per_head(op, v, kv_heads)
    if node.rank(0) != 3:
        raise node.refusal("its packed operand is not of rank 3")
    packed = per_head(op, q, heads + 2 * kv_heads)
    q, k, v = op.Split(packed, [heads, kv_heads, kv_heads], axis=1, outputs=3)
    return q, k, v


def _normalised(op: Builder, node: ContribNode, x: Any, index: int) -> Any:
    """Queries or keys over the root of their mean square, head by head, where the operator has a weight for that"""
    if node.input(index) is None:
        return x
    epsilon = node.attr("q_norm_epsilon" if index == 14 else "k_norm_epsilon", node.attr("qk_norm_epsilon", 1e-6))
    return root_mean_square_normalized(op, x, node.input(index), epsilon)[0]


def _rotary(op: Builder, node: ContribNode, x: Any, positions: _Positions) -> Any:
    cosines, sines, position_ids = node.input(7), node.input(8), node.input(9)
    if position_ids is None:  # those of padding may lie beyond the table
        rows = op.Min(positions.queries, op.Sub(size_along(op, cosines, 0), 1))
    else:  # of the first prompt, the kernel reads one position
        first = op.Slice(position_ids, [0, 0], [1, 1], [0, 1])
        rows = op.Where(positions.is_first, op.Add(first, op.Sub(positions.queries, positions.before)), position_ids)
    cosine, sine = (op.Unsqueeze(op.Gather(table, rows), [1]) for table in (cosines, sines))
    half, size = cosines.dims[1], x.dims[3]
    if not isinstance(half, int) or not isinstance(size, int):
        raise node.refusal("the width of its heads or of cos_cache is unknown", "Declare their shapes in the model's value_info")
    return rotated(op, x, cosine, sine, bool(node.attr("rotary_interleaved", 0)), 0 if size == 2 * half else 2 * half)


class _Positions:
    """The positions of tokens in their sequences, as int64 of [batch, ...].

    ``total`` is the number of tokens of each sequence including the new ones, ``before`` without them; ``offset`` and
    ``next_offset`` say which position the first row of the cache holds before and after.
    """

    def __init__(self, op: Builder, node: ContribNode, q: Variable) -> None:
        length = size_along(op, q, 2)
        self.total = op.Add(op.Reshape(op.Cast(node.input(5), to=_INT64), [-1, 1]), 1)
        longest = op.Reshape(op.Cast(node.input(6), to=_INT64), [1])
        self.past = node.input(3)
        lengths = node.input(16)
        self.is_first = op.constant(False) if lengths is not None else op.Equal(longest, length)
        if self.past is None:
            self.before = op.Sub(self.total, self.total)
        elif lengths is not None:
            self.before = op.Sub(self.total, op.Unsqueeze(op.Cast(lengths, to=_INT64), [1]))
        else:
            self.before = op.Where(self.is_first, 0, op.Sub(self.total, length))
        steps = op.Range(0, op.Squeeze(length, [0]), 1)
        self.queries = op.Add(self.before, steps)
        self.offset = self.next_offset = None
        self.capacity = None if self.past is None else size_along(op, self.past, 2)
        new = op.Where(op.Less(self.queries, self.total), self.queries, -1)  # padding has no position
        self.keys, self.longest = new, longest
        if self.capacity is not None:
            if node.attr("sliding_window_cache", 0):
                self.offset, self.next_offset = (self._evicted(op, node, count) for count in (self.before, self.total))
            rows = op.Range(0, op.Squeeze(self.capacity, [0]), 1)
            old = rows if self.offset is None else op.Add(rows, self.offset)
            self.keys = op.Concat(op.Where(op.Less(old, self.before), old, -1), new, axis=1)

    def _evicted(self, op: Builder, node: ContribNode, count: Any) -> Any:
        """Return how many tokens of ``count`` a window-sized cache has dropped: it frees several rows at once"""
        spare = op.Add(op.Sub(self.capacity, node.attr("local_window_size")), 1)
        beyond = op.Sub(op.Add(count, op.Sub(spare, 1)), self.capacity)
        return op.Max(op.Mul(op.Div(beyond, spare), spare), 0)

    def mask(self, op: Builder, node: ContribNode, q: Variable) -> Any:
        """Return the additive mask of the scores: 0 where a query may see a key."""
        key, query = op.Unsqueeze(self.keys, [1, 2]), op.Unsqueeze(self.queries, [1, 3])
        allowed = op.GreaterOrEqual(key, 0)
        if node.attr("causal", 1):
            allowed = op.And(allowed, op.LessOrEqual(key, query))
        window = node.attr("local_window_size", -1)
        if window > 0:
            allowed = op.And(allowed, op.Greater(key, op.Sub(query, window)))
        return op.Where(allowed, op.constant(0, q.dtype), op.constant(lowest_of(q.dtype) / 2, q.dtype))

    def in_order_of_keys(self, op: Builder, bias: Any) -> Any:
        """A bias that has a column for each position"""
        if self.past is None or self.past.dims[2] == 0:
            return bias
        batch = op.Concat(size_along(op, self.keys, 0), [1, 1, 1], axis=0)
        bias = op.Expand(bias, batch)
        at = op.Unsqueeze(op.Max(self.keys, 0), [1, 2])
        index = op.Expand(at, op.Concat(op.Shape(bias, start=0, end=3), size_along(op, self.keys, 1), axis=0))
        return op.GatherElements(bias, index, axis=3)

    def present(self, op: Builder, node: ContribNode, x: Any) -> Any:
        """The cache after the step: its rows by position. ``x`` holds the old cache and the new tokens."""
        if self.capacity is None or self.past.dims[2] == 0:
            return x
        rows = self.capacity if self.next_offset is not None else op.Max(self.capacity, self.longest)
        position = op.Range(0, op.Squeeze(rows, [0]), 1)
        old = position
        if self.next_offset is not None:
            position = op.Add(position, self.next_offset)
            old = op.Sub(position, self.offset)
        at = op.Where(op.Less(position, self.before), old, op.Add(op.Sub(position, self.before), self.capacity))
        at = op.Min(at, op.Sub(size_along(op, x, 2), 1))
        rows_first = op.GatherND(op.Transpose(x, perm=[0, 2, 1, 3]), op.Unsqueeze(at, [2]), batch_dims=1)
        return op.Transpose(rows_first, perm=[0, 2, 1, 3])


def _probabilities(op: Builder, node: ContribNode, scores: Any) -> Any:
    """Softmax over the keys and, where the operator has one, a sink that takes its share and gives nothing"""
    sink = node.input(11)
    if sink is None and node.attr("smooth_softmax", -1) == 1:
        sink = op.constant(0, scores.dtype)
    if sink is None:
        return op.Softmax(scores, axis=-1)
    column = op.Concat(op.Shape(scores, start=0, end=3), [1], axis=0)
    sink = op.Expand(op.Reshape(sink, [1, -1, 1, 1]), column)
    return op.Slice(op.Softmax(op.Concat(scores, sink, axis=3), axis=-1), [0], [-1], [3])
