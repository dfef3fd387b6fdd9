"""Attention and transformers. Vaswani et al. 2017.

Tests: tests/nn/test_layers_as_paddle.py.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from onnxgrad.eager.tensor import leaf
from onnxgrad.errors import ArgumentError
from onnxgrad.nn import functional as F
from onnxgrad.nn.container import LayerList
from onnxgrad.nn.layer import MadeLayer
from onnxgrad.nn.layers import Dropout  # type: ignore[attr-defined]
from onnxgrad.nn.weighted import LayerNorm, Linear
from onnxgrad.tensor.creation import zeros
from onnxgrad.tensor.joining import concat

__all__ = [
    "MultiHeadAttention", "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip


class MultiHeadAttention(MadeLayer):
    """Attention of several heads on [batch, length, embed_dim].

    A mask is added to the scores; a boolean one says where to look.
    """

    Cache = namedtuple("Cache", ["k", "v"])
    StaticCache = namedtuple("StaticCache", ["k", "v"])

    takes = "embed_dim, num_heads, dropout=0.0, kdim=None, vdim=None, need_weights=False, weight_attr=None, bias_attr=None"

    def _make(self, args: Any) -> None:
        width, heads, attrs = args.embed_dim, args.num_heads, (args.weight_attr, args.bias_attr)
        if heads < 1 or width < 1 or width % heads:
            raise ArgumentError(f"MultiHeadAttention: {heads} heads do not divide embed_dim {width}.")
        self.embed_dim, self.num_heads, self.head_dim = width, heads, width // heads
        self.dropout, self.need_weights = args.dropout, args.need_weights
        self.q_proj = Linear(width, width, *attrs)
        self.k_proj = Linear(args.kdim or width, width, *attrs)
        self.v_proj = Linear(args.vdim or width, width, *attrs)
        self.out_proj = Linear(width, width, *attrs)

    def _heads(self, x: Any) -> Any:
        return x.reshape([0, 0, self.num_heads, self.head_dim]).transpose([0, 2, 1, 3])

    def gen_cache(self, key: Any, value: Any = None, type: Any = Cache) -> Any:
        """A cache of keys and values: projected ones that stay (StaticCache), or what grows from here (Cache)."""
        if type is self.StaticCache:
            return self.StaticCache(self._heads(self.k_proj(key)), self._heads(self.v_proj(key if value is None else value)))
        if value is not None:
            return self.Cache(key, value)
        blank = zeros([key.shape[0], self.num_heads, 0, self.head_dim], key.dtype)
        return self.Cache(blank, blank)

    def forward(self, query: Any, key: Any = None, value: Any = None, attn_mask: Any = None, cache: Any = None) -> Any:
        key = query if key is None else key
        value = key if value is None else value
        q = self._heads(self.q_proj(query))
        if isinstance(cache, self.StaticCache):
            k, v = cache
        else:
            k, v = self._heads(self.k_proj(key)), self._heads(self.v_proj(value))
        if isinstance(cache, self.Cache):
            k, v = concat([cache.k, k], 2), concat([cache.v, v], 2)
            cache = self.Cache(k, v)
        scores = (q * self.head_dim**-0.5).matmul(k, transpose_y=True)
        if attn_mask is not None:
            scores = scores + _added(attn_mask, scores.dtype)
        weights: Any = F.softmax(scores)
        if self.dropout:
            weights = F.dropout(weights, self.dropout, training=self.training)
        out = self.out_proj(weights.matmul(v).transpose([0, 2, 1, 3]).reshape([0, 0, self.embed_dim]))
        extra = ([weights] if self.need_weights else []) + ([] if cache is None else [cache])
        return (out, *extra) if extra else out


def _added(mask: Any, dtype: Any) -> Any:
    """A mask as what is added to scores; None if there is none."""
    if mask is None or mask.dtype == dtype:
        return mask
    if mask.dtype.is_float:
        return mask.astype(dtype)
    return (mask.astype(dtype) - 1.0) * 1e9


class _Block(MadeLayer):
    """Base of the layers of encoders and decoders: attentions and a feed-forward part, each with its norm and residual."""

    attentions: tuple[str, ...] = ("self_attn",)

    takes = (
        "d_model, nhead, dim_feedforward, dropout=0.1, activation='relu', attn_dropout=None, act_dropout=None, "
        "normalize_before=False, weight_attr=None, bias_attr=None, layer_norm_eps=1e-05"
    )

    def _make(self, args: Any) -> None:
        self._config, width, dropout = vars(args), args.d_model, args.dropout
        self.normalize_before = args.normalize_before
        parts = len(self.attentions) + 1
        weights, biases = _each(args.weight_attr, parts), _each(args.bias_attr, parts)
        of_scores = dropout if args.attn_dropout is None else args.attn_dropout
        for name, weight, bias in zip(self.attentions, weights, biases, strict=False):
            self.add_sublayer(name, MultiHeadAttention(width, args.nhead, of_scores, weight_attr=weight, bias_attr=bias))
        self.linear1 = Linear(width, args.dim_feedforward, weights[-1], biases[-1])
        self.dropout = Dropout(dropout if args.act_dropout is None else args.act_dropout)
        self.linear2 = Linear(args.dim_feedforward, width, weights[-1], biases[-1])
        for at in range(1, parts + 1):
            self.add_sublayer(f"norm{at}", LayerNorm(width, args.layer_norm_eps))
            self.add_sublayer(f"dropout{at}", Dropout(dropout))
        self.activation = getattr(F, args.activation)

    def _residual(self, at: int, x: Any, part: Any) -> tuple[Any, list[Any]]:
        """x plus a part of it, with the norm before or after; and what else the part gives."""
        norm, dropout = self._sub_layers[f"norm{at}"], self._sub_layers[f"dropout{at}"]
        result = part(norm(x) if self.normalize_before else x)
        y, *more = result if isinstance(result, tuple) else (result,)
        y = x + dropout(y)
        return (y if self.normalize_before else norm(y)), more

    def _feed_forward(self, x: Any) -> Any:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def again(self) -> Any:
        """Another layer of this kind, with parameters of its own."""
        return type(self)(**self._config)


def _each(attr: Any, count: int) -> list[Any]:
    """Attributes of ``count`` parts: one for all, or a list; a list of one holds for all."""
    listed = list(attr) if isinstance(attr, (list, tuple)) else [attr]
    return listed * count if len(listed) == 1 else listed


class TransformerEncoderLayer(_Block):
    """Self-attention and a feed-forward part on [batch, length, d_model]."""

    def forward(self, src: Any, src_mask: Any = None, cache: Any = None) -> Any:
        mask = _added(src_mask, src.dtype)
        src, more = self._residual(1, src, lambda x: self.self_attn(x, x, x, mask, cache))
        src, _ = self._residual(2, src, self._feed_forward)
        return src if cache is None else (src, more[-1])

    def gen_cache(self, src: Any) -> Any:
        """An empty cache for this layer."""
        return self.self_attn.gen_cache(src)


class TransformerDecoderLayer(_Block):
    """Self-attention, attention to an encoder's result, and a feed-forward part."""

    attentions = ("self_attn", "cross_attn")

    def forward(self, tgt: Any, memory: Any, tgt_mask: Any = None, memory_mask: Any = None, cache: Any = None) -> Any:
        own, fixed = (None, None) if cache is None else cache
        tgt_mask, memory_mask = _added(tgt_mask, tgt.dtype), _added(memory_mask, memory.dtype)
        tgt, more = self._residual(1, tgt, lambda x: self.self_attn(x, x, x, tgt_mask, own))
        tgt, _ = self._residual(2, tgt, lambda x: self.cross_attn(x, memory, memory, memory_mask, fixed))
        tgt, _ = self._residual(3, tgt, self._feed_forward)
        return tgt if cache is None else (tgt, (more[-1], fixed))

    def gen_cache(self, memory: Any) -> Any:
        """An empty cache for self-attention, and the projected memory."""
        return self.self_attn.gen_cache(memory), self.cross_attn.gen_cache(memory, memory, MultiHeadAttention.StaticCache)


class _Stack(MadeLayer):
    def _make(self, args: Any) -> None:
        layer, *_ = vars(args).values()
        self.layers = LayerList([layer, *(layer.again() for _ in range(args.num_layers - 1))])
        self.num_layers, self.norm = args.num_layers, args.norm

    def _through(self, x: Any, cache: Any, *operands: Any) -> Any:
        caches = []
        for at, layer in enumerate(self.layers):
            if cache is None:
                x = layer(x, *operands)
            else:
                x, new = layer(x, *operands, cache=cache[at])
                caches.append(new)
        x = x if self.norm is None else self.norm(x)
        return x if cache is None else (x, caches)


class TransformerEncoder(_Stack):
    """Several encoder layers, the given one and others like it, then a norm."""

    takes = "encoder_layer, num_layers, norm=None"

    def forward(self, src: Any, src_mask: Any = None, cache: Any = None) -> Any:
        return self._through(src, cache, _added(src_mask, src.dtype))

    def gen_cache(self, src: Any) -> list[Any]:
        """An empty cache for each layer."""
        return [layer.gen_cache(src) for layer in self.layers]


class TransformerDecoder(_Stack):
    """Several decoder layers, the given one and others like it, then a norm."""

    takes = "decoder_layer, num_layers, norm=None"

    def forward(self, tgt: Any, memory: Any, tgt_mask: Any = None, memory_mask: Any = None, cache: Any = None) -> Any:
        return self._through(tgt, cache, memory, _added(tgt_mask, tgt.dtype), _added(memory_mask, memory.dtype))

    def gen_cache(self, memory: Any, do_zip: bool = False) -> list[Any]:
        """A cache for each layer; with ``do_zip`` the layers' parts side by side."""
        caches = [layer.gen_cache(memory) for layer in self.layers]
        return list(zip(*caches, strict=True)) if do_zip else caches


class Transformer(MadeLayer):
    """An encoder and a decoder."""

    takes = (
        "d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048, dropout=0.1, "
        "activation='relu', attn_dropout=None, act_dropout=None, normalize_before=False, weight_attr=None, bias_attr=None, "
        "custom_encoder=None, custom_decoder=None"
    )

    def _make(self, args: Any) -> None:
        shared = ("d_model", "nhead", "dim_feedforward", "dropout", "activation", "attn_dropout", "act_dropout", "normalize_before")
        common = {key: getattr(args, key) for key in shared}
        weights, biases = (_each(attr, 3) for attr in (args.weight_attr, args.bias_attr))
        weights, biases = ([each[0], *each] if len(each) == 2 else each for each in (weights, biases))
        first = {"weight_attr": [weights[0], weights[-1]], "bias_attr": [biases[0], biases[-1]]}
        self.encoder = args.custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(**common, **first), args.num_encoder_layers, LayerNorm(args.d_model)
        )
        self.decoder = args.custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(**common, weight_attr=weights, bias_attr=biases),
            args.num_decoder_layers,
            LayerNorm(args.d_model),
        )
        self.d_model, self.nhead = args.d_model, args.nhead

    def forward(self, src: Any, tgt: Any, src_mask: Any = None, tgt_mask: Any = None, memory_mask: Any = None) -> Any:
        return self.decoder(tgt, self.encoder(src, src_mask), tgt_mask, memory_mask)

    def generate_square_subsequent_mask(self, length: int) -> Any:
        """The causal mask, added to scores so that no position sees a later one: 0 on and under the diagonal, -inf above."""
        return leaf(np.triu(np.full((int(length), int(length)), -np.inf, np.float32), 1))
