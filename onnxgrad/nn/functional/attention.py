"""Attention over sequences. Vaswani et al. 2017."""

from __future__ import annotations

import math

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, Mismatch, NotOffered
from onnxgrad.internal.arguments import checked
from onnxgrad.nn.functional import common
from onnxgrad.tensor import manipulation
from onnxgrad.tensor.common import known_dim
from onnxgrad.tensor.layer import open_layer, present_operands

__all__ = ["flash_attention", "scaled_dot_product_attention"]


@checked
def scaled_dot_product_attention(
    query: Variable,
    key: Variable,
    value: Variable,
    attn_mask: Variable | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    training: bool = True,
    backend: str | None = None,
    scale: float | None = None,
    enable_gqa: bool = True,
    name: str | None = None,
) -> Variable:
    """Compute softmax(query key^T / sqrt(size)) value, for each head. Vaswani et al. 2017.

    Args:
        query: floats [batch, length, heads, size].
        key: [batch, length of key, heads, size].
        value: [batch, length of key, heads, size].
        attn_mask: added to the scores, or bool (True takes part); broadcasts to [batch, heads, length, length of key].
        dropout_p: dropout of the weights in training, from 0 to 1.
        is_causal: a position attends to itself and earlier ones only.
        training: False for inference.
        backend: must be None: kernels are chosen by the runtime.
        scale: a factor of the products; 1 / sqrt(size) unless given.
        enable_gqa: let several heads of the query share one of key and value, where it has more.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: if the operands do not have four axes, or the heads of the key do not divide those of the query.
        NotOffered: for a ``backend``.

    Example:
        >>> q = static.data("q", [None, 5, 2, 8])
        >>> F.scaled_dot_product_attention(q, q, q, is_causal=True).shape
        (-1, 5, 2, 8)
    """
    layer, op = open_layer("scaled_dot_product_attention", query, key, value, *present_operands(attn_mask), name=name)
    if any(v.ndim != 4 for v in (query, key, value)):
        raise ArgumentError("scaled_dot_product_attention takes [batch, length, heads, size] operands.")
    if backend is not None:
        raise NotOffered(f"scaled_dot_product_attention: the runtime chooses kernels, not backend={backend!r}. Leave it out.")
    heads, shared = query.shape[2], key.shape[2]
    if min(heads, shared) > 0 and heads != shared:
        if not enable_gqa or heads % shared:
            raise Mismatch(f"scaled_dot_product_attention: {heads} heads of the query do not go with {shared} of the key.")
        key, value = (manipulation.repeat_interleave(item, heads // shared, 2) for item in (key, value))
    if scale is None:
        scale = 1.0 / math.sqrt(known_dim(query, 3, "scaled_dot_product_attention"))
    q, v = (op.Transpose(item, perm=[0, 2, 1, 3]) for item in (query, value))
    scores = op.MatMul(op.Mul(q, scale), op.Transpose(key, perm=[0, 2, 3, 1]))
    lowest = op.constant(float(np.finfo(query.dtype.numpy).min), query.dtype)
    if is_causal:
        ones = op.Expand(op.constant(1.0, query.dtype), op.Shape(scores, start=2))
        scores = op.Where(op.Cast(op.Trilu(ones, upper=0), to=9), scores, lowest)
    if attn_mask is not None:
        scores = op.Where(attn_mask, scores, lowest) if attn_mask.dtype == "bool" else op.Add(scores, attn_mask)
    weights = op.Softmax(scores, axis=-1)
    if dropout_p > 0.0:
        weights = common.dropout(weights, dropout_p, training=training)
    return layer.result("Transpose", op.MatMul(weights, v), perm=[0, 2, 1, 3])


@checked
def flash_attention(
    query: Variable,
    key: Variable,
    value: Variable,
    dropout: float = 0.0,
    causal: bool = False,
    return_softmax: bool = False,
    *,
    training: bool = True,
    name: str | None = None,
) -> tuple[Variable, None]:
    """Compute ``scaled_dot_product_attention``; a runtime may fuse it. Dao et al. 2022.

    The second result, the softmax, is never given.


    Args:
        query: floats [batch, length, heads, size].
        key: [batch, length of key, heads, size].
        value: [batch, length of key, heads, size].
        dropout: dropout of the weights in training, from 0 to 1.
        causal: a position attends to itself and earlier ones only.
        return_softmax: not offered.
        training: False for inference.
        name: prefix of the names of the results in a program; None to count one.

    Raises:
        ArgumentError: for ``return_softmax``.

    Example:
        >>> q = static.data("q", [None, 5, 2, 8])
        >>> F.flash_attention(q, q, q, causal=True)[0].shape
        (-1, 5, 2, 8)
    """
    if return_softmax:
        raise ArgumentError("flash_attention: return_softmax is not offered. Compute softmax(q k^T) directly.")
    return scaled_dot_product_attention(query, key, value, None, dropout, causal, training, name), None
