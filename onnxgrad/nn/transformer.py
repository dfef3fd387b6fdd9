"""Attention and transformers. Vaswani et al. 2017.

Tests: tests/nn/test_layers_as_paddle.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias, overload

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.eager.tensor import Tensor, leaf
from onnxgrad.errors import Mismatch
from onnxgrad.internal.arguments import checked_with_words
from onnxgrad.nn import functional as F
from onnxgrad.nn.container import LayerList
from onnxgrad.nn.functional_layers import Dropout
from onnxgrad.nn.layer import Layer
from onnxgrad.nn.types import Activation, AnyTensor, BiasAttr, WeightAttr
from onnxgrad.nn.weighted import LayerNorm, Linear
from onnxgrad.tensor.creation import zeros
from onnxgrad.tensor.joining import concat
from onnxgrad.tensor.linalg import matmul
from onnxgrad.tensor.manipulation import cast, reshape, transpose

__all__ = [
    "MultiHeadAttention", "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip


class MultiHeadAttention(Layer):
    """Attend with several heads: softmax(query key^T / sqrt(size)) value for each, between linear maps. Vaswani et al. 2017.

    Args:
        embed_dim: features of the query and of the result.
        num_heads: number of heads; it divides ``embed_dim``.
        dropout: that of the weights of attention, from 0 to 1.
        kdim: features of the key; ``embed_dim`` unless given.
        vdim: features of the value; ``embed_dim`` unless given.
        need_weights: also give the weights of attention.
        weight_attr: attributes of the weights of the linear maps: a ParamAttr, an initializer or a name.
        bias_attr: the same for their biases; False for none.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: if the heads do not divide ``embed_dim``.

    Example:
        >>> paddle.nn.MultiHeadAttention(8, 2)(paddle.ones([2, 5, 8])).shape
        [2, 5, 8]
    """

    class Cache(NamedTuple):
        """Keys and values of the steps so far, each [batch, heads, steps, size of a head]; they grow."""

        k: Variable
        v: Variable

    class StaticCache(NamedTuple):
        """Keys and values that stay, each [batch, heads, steps, size of a head]."""

        k: Variable
        v: Variable

    @checked_with_words
    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        kdim: int | None = None,
        vdim: int | None = None,
        need_weights: bool = False,
        weight_attr: WeightAttr = None,
        bias_attr: BiasAttr = None,
    ) -> None:
        super().__init__()
        if num_heads < 1 or embed_dim < 1 or embed_dim % num_heads:
            raise Mismatch(f"MultiHeadAttention: {num_heads} heads do not divide embed_dim {embed_dim}.")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.dropout, self.need_weights = dropout, need_weights
        self.q_proj = Linear(embed_dim, embed_dim, weight_attr, bias_attr)
        self.k_proj = Linear(kdim or embed_dim, embed_dim, weight_attr, bias_attr)
        self.v_proj = Linear(vdim or embed_dim, embed_dim, weight_attr, bias_attr)
        self.out_proj = Linear(embed_dim, embed_dim, weight_attr, bias_attr)

    def _heads(self, x: Variable) -> Variable:
        return transpose(reshape(x, [0, 0, self.num_heads, self.head_dim]), [0, 2, 1, 3])

    @overload
    def gen_cache(self, key: Variable, value: Variable | None = None, type: type[Cache] = Cache) -> Cache: ...

    @overload
    def gen_cache(self, key: Variable, value: Variable | None, type: type[StaticCache]) -> StaticCache: ...

    @overload
    def gen_cache(self, key: Variable, value: Variable | None = None, *, type: type[StaticCache]) -> StaticCache: ...

    def gen_cache(
        self, key: Variable, value: Variable | None = None, type: type[Cache] | type[StaticCache] = Cache
    ) -> Cache | StaticCache:
        """Make a cache of keys and values.

        Args:
            key: [batch, steps, kdim], or what the cache begins with.
            value: the same of the values; None for an empty cache, or for ``key``.
            type: ``StaticCache`` to project keys and values that stay, ``Cache`` for what grows from here.
        """
        if type is self.StaticCache:
            return self.StaticCache(self._heads(self.k_proj(key)), self._heads(self.v_proj(key if value is None else value)))
        if value is not None:
            return self.Cache(key, value)
        blank = zeros([key.shape[0], self.num_heads, 0, self.head_dim], key.dtype)
        return self.Cache(blank, blank)

    @overload
    def forward(
        self,
        query: AnyTensor,
        key: Variable | None = None,
        value: Variable | None = None,
        attn_mask: Variable | None = None,
        cache: None = None,
    ) -> AnyTensor: ...

    @overload
    def forward(
        self,
        query: AnyTensor,
        key: Variable | None = None,
        value: Variable | None = None,
        attn_mask: Variable | None = None,
        *,
        cache: Cache | StaticCache,
    ) -> tuple[Any, ...]: ...

    @overload
    def forward(
        self,
        query: AnyTensor,
        key: Variable | None,
        value: Variable | None,
        attn_mask: Variable | None,
        cache: Cache | StaticCache,
    ) -> tuple[Any, ...]: ...

    def forward(
        self,
        query: Variable,
        key: Variable | None = None,
        value: Variable | None = None,
        attn_mask: Variable | None = None,
        cache: Cache | StaticCache | None = None,
    ) -> Any:
        """Attend from ``query`` to ``key``.

        Args:
            query: floats [batch, length, embed_dim].
            key: [batch, length of key, kdim]; the query unless given.
            value: [batch, length of key, vdim]; the key unless given.
            attn_mask: added to the scores [batch, heads, length, length of key], or bool (True takes part); it broadcasts.
            cache: keys and values from before, or that stay.

        Returns:
            [batch, length, embed_dim]; a tuple with the weights behind it if ``need_weights``, which a checker takes for a
            tensor that is unpacked, and then the cache if there is one.
        """
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
        scores = matmul(q * self.head_dim**-0.5, k, transpose_y=True)
        if attn_mask is not None:
            scores = scores + _added(attn_mask, scores.dtype)
        weights = F.softmax(scores)
        if self.dropout:
            weights = F.dropout(weights, self.dropout, training=self.training)
        out = self.out_proj(reshape(transpose(matmul(weights, v), [0, 2, 1, 3]), [0, 0, self.embed_dim]))
        extra: list[Any] = ([weights] if self.need_weights else []) + ([] if cache is None else [cache])
        return (out, *extra) if extra else out


def _added(mask: Variable | None, dtype: Any) -> Any:
    """A mask as what is added to scores; None if there is none."""
    if mask is None or mask.dtype == dtype:
        return mask
    if mask.dtype.is_float:
        return cast(mask, dtype)
    return (cast(mask, dtype) - 1.0) * 1e9


def _each(attr: Any, count: int) -> list[Any]:
    """Attributes of ``count`` parts: one for all, or a list; a list of one holds for all."""
    listed = list(attr) if isinstance(attr, (list, tuple)) else [attr]
    return listed * count if len(listed) == 1 else listed


AnyCache: TypeAlias = MultiHeadAttention.Cache | MultiHeadAttention.StaticCache
DecoderCache: TypeAlias = tuple[MultiHeadAttention.Cache, MultiHeadAttention.StaticCache]
"""Keys and values of earlier steps, and those of what the encoder gave."""


class _Block(Layer):
    """Base of the layers of encoders and decoders: attentions and a feed-forward part, each with its norm and residual."""

    _attentions: ClassVar[tuple[str, ...]] = ("self_attn",)

    self_attn: MultiHeadAttention
    norm1: LayerNorm
    norm2: LayerNorm
    dropout1: Dropout
    dropout2: Dropout

    @checked_with_words
    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float = 0.1,
        activation: Activation = "relu",
        attn_dropout: float | None = None,
        act_dropout: float | None = None,
        normalize_before: bool = False,
        weight_attr: WeightAttr | Sequence[WeightAttr] = None,
        bias_attr: BiasAttr | Sequence[BiasAttr] = None,
        layer_norm_eps: float = 1e-05,
    ) -> None:
        super().__init__()
        common = d_model, nhead, dim_feedforward, dropout, activation, attn_dropout, act_dropout, normalize_before
        self._arguments = *common, weight_attr, bias_attr, layer_norm_eps
        self.normalize_before, parts = normalize_before, len(self._attentions) + 1
        weights, biases = _each(weight_attr, parts), _each(bias_attr, parts)
        of_scores = dropout if attn_dropout is None else attn_dropout
        for name, weight, bias in zip(self._attentions, weights, biases, strict=False):
            self.add_sublayer(name, MultiHeadAttention(d_model, nhead, of_scores, weight_attr=weight, bias_attr=bias))
        self.linear1 = Linear(d_model, dim_feedforward, weights[-1], biases[-1])
        self.dropout = Dropout(dropout if act_dropout is None else act_dropout)
        self.linear2 = Linear(dim_feedforward, d_model, weights[-1], biases[-1])
        for at in range(1, parts + 1):
            self.add_sublayer(f"norm{at}", LayerNorm(d_model, layer_norm_eps))
        for at in range(1, parts + 1):
            self.add_sublayer(f"dropout{at}", Dropout(dropout))
        self.activation: Callable[[Any], Any] = getattr(F, activation)

    def _residual(
        self, norm: LayerNorm, dropout: Dropout, x: AnyTensor, part: Callable[[AnyTensor], Any]
    ) -> tuple[AnyTensor, list[Any]]:
        """x plus a part of it, with the norm before or after; and what else the part gives."""
        result = part(norm(x) if self.normalize_before else x)
        y, *more = result if isinstance(result, tuple) else (result,)
        y = x + dropout(y)
        return (y if self.normalize_before else norm(y)), more

    def _feed_forward(self, x: AnyTensor) -> AnyTensor:
        activated: AnyTensor = self.activation(self.linear1(x))
        return self.linear2(self.dropout(activated))

    def again(self) -> Self:
        """Make another layer of this kind, with parameters of its own."""
        return type(self)(*self._arguments)


class TransformerEncoderLayer(_Block):
    """Compute self-attention and a feed-forward part on [batch, length, d_model]. Vaswani et al. 2017.

    Args:
        d_model: features of the input and of the result.
        nhead: number of heads; it divides ``d_model``.
        dim_feedforward: features within the feed-forward part.
        dropout: that of the results of the parts, from 0 to 1.
        activation: the function of ``nn.functional`` within the feed-forward part, such as 'relu' or 'gelu'.
        attn_dropout: that of the weights of attention; ``dropout`` unless given.
        act_dropout: that behind the activation; ``dropout`` unless given.
        normalize_before: normalise the input of each part, rather than its result.
        weight_attr: attributes of the weights: one for all parts, or a list with one for each.
        bias_attr: the same for the biases; False for none.
        layer_norm_eps: added to the variance of the norms.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word, or if the heads do not divide ``d_model``.

    Example:
        >>> paddle.nn.TransformerEncoderLayer(8, 2, 16)(paddle.ones([2, 5, 8])).shape
        [2, 5, 8]
    """

    @overload
    def forward(self, src: AnyTensor, src_mask: Variable | None = None, cache: None = None) -> AnyTensor: ...

    @overload
    def forward(
        self, src: AnyTensor, src_mask: Variable | None = None, *, cache: MultiHeadAttention.Cache
    ) -> tuple[AnyTensor, MultiHeadAttention.Cache]: ...

    def forward(self, src: AnyTensor, src_mask: Variable | None = None, cache: MultiHeadAttention.Cache | None = None) -> Any:
        """Compute the layer.

        Args:
            src: floats [batch, length, d_model].
            src_mask: as in ``MultiHeadAttention``.
            cache: keys and values of earlier steps, from ``gen_cache``.

        Returns:
            [batch, length, d_model]; with a cache, a tuple of this and the cache after these steps.
        """
        src, more = self._residual(self.norm1, self.dropout1, src, lambda x: self.self_attn(x, x, x, src_mask, cache=cache))
        src, _ = self._residual(self.norm2, self.dropout2, src, self._feed_forward)
        return src if cache is None else (src, more[-1])

    def gen_cache(self, src: Variable) -> MultiHeadAttention.Cache:
        """Make an empty cache for this layer, for the batch of ``src``: [batch, length, d_model].

        Args:
            src: floats [batch, length, d_model].
        """
        return self.self_attn.gen_cache(src)


class TransformerDecoderLayer(_Block):
    """Compute self-attention, attention to an encoder's result, and a feed-forward part. Vaswani et al. 2017.

    Args:
        d_model: features of the input and of the result.
        nhead: number of heads; it divides ``d_model``.
        dim_feedforward: features within the feed-forward part.
        dropout: that of the results of the parts, from 0 to 1.
        activation: the function of ``nn.functional`` within the feed-forward part, such as 'relu' or 'gelu'.
        attn_dropout: that of the weights of attention; ``dropout`` unless given.
        act_dropout: that behind the activation; ``dropout`` unless given.
        normalize_before: normalise the input of each part, rather than its result.
        weight_attr: attributes of the weights: one for all parts, or a list with one for each.
        bias_attr: the same for the biases; False for none.
        layer_norm_eps: added to the variance of the norms.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word, or if the heads do not divide ``d_model``.

    Example:
        >>> paddle.nn.TransformerDecoderLayer(8, 2, 16)(paddle.ones([2, 5, 8]), paddle.ones([2, 3, 8])).shape
        [2, 5, 8]
    """

    _attentions = ("self_attn", "cross_attn")

    cross_attn: MultiHeadAttention
    norm3: LayerNorm
    dropout3: Dropout

    @overload
    def forward(
        self,
        tgt: AnyTensor,
        memory: Variable,
        tgt_mask: Variable | None = None,
        memory_mask: Variable | None = None,
        cache: None = None,
    ) -> AnyTensor: ...

    @overload
    def forward(
        self,
        tgt: AnyTensor,
        memory: Variable,
        tgt_mask: Variable | None = None,
        memory_mask: Variable | None = None,
        *,
        cache: tuple[MultiHeadAttention.Cache, MultiHeadAttention.StaticCache],
    ) -> tuple[AnyTensor, tuple[MultiHeadAttention.Cache, MultiHeadAttention.StaticCache]]: ...

    def forward(
        self,
        tgt: AnyTensor,
        memory: Variable,
        tgt_mask: Variable | None = None,
        memory_mask: Variable | None = None,
        cache: tuple[MultiHeadAttention.Cache, MultiHeadAttention.StaticCache] | None = None,
    ) -> Any:
        """Compute the layer.

        Args:
            tgt: floats [batch, length, d_model].
            memory: the encoder's result, [batch, length of memory, d_model].
            tgt_mask: as in ``MultiHeadAttention``, for self-attention.
            memory_mask: the same for attention to ``memory``.
            cache: keys and values of earlier steps and those of ``memory``, from ``gen_cache``.

        Returns:
            [batch, length, d_model]; with a cache, a tuple of this and the cache after these steps.
        """
        caches: Any = (None, None) if cache is None else cache
        attend, listen = self.self_attn, self.cross_attn
        tgt, more = self._residual(self.norm1, self.dropout1, tgt, lambda x: attend(x, x, x, tgt_mask, caches[0]))
        tgt, _ = self._residual(self.norm2, self.dropout2, tgt, lambda x: listen(x, memory, memory, memory_mask, caches[1]))
        tgt, _ = self._residual(self.norm3, self.dropout3, tgt, self._feed_forward)
        return tgt if cache is None else (tgt, (more[-1], caches[1]))

    def gen_cache(self, memory: Variable) -> tuple[MultiHeadAttention.Cache, MultiHeadAttention.StaticCache]:
        """Make an empty cache for self-attention, and project ``memory``: [batch, length of memory, d_model].

        Args:
            memory: the encoder's result, [batch, length of memory, d_model].
        """
        return self.self_attn.gen_cache(memory), self.cross_attn.gen_cache(memory, memory, MultiHeadAttention.StaticCache)


class _Stack(Layer):
    """Base of encoders and decoders: layers one after another, then a norm."""

    def __init__(self, layer: Layer, num_layers: int, norm: Layer | None) -> None:
        super().__init__()
        first: Any = layer
        self.layers: LayerList[Any] = LayerList([first, *(first.again() for _ in range(num_layers - 1))])
        self.num_layers, self.norm = num_layers, norm

    def _through(self, x: Variable, cache: Sequence[Any] | None, *operands: Any) -> Any:
        caches: list[Any] = []
        for layer, own in zip(self.layers, [None] * len(self.layers) if cache is None else cache, strict=False):
            x, *new = [layer(x, *operands)] if own is None else layer(x, *operands, cache=own)
            caches += new
        x = x if self.norm is None else self.norm(x)
        return x if cache is None else (x, caches)


class TransformerEncoder(_Stack):
    """Apply several encoder layers one after another, then a norm. Vaswani et al. 2017.

    Args:
        encoder_layer: the first layer; the others are made with its arguments.
        num_layers: how many there are.
        norm: applied last, such as a ``LayerNorm``; None for none.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> layer = paddle.nn.TransformerEncoderLayer(8, 2, 16)
        >>> paddle.nn.TransformerEncoder(layer, 2)(paddle.ones([2, 5, 8])).shape
        [2, 5, 8]
    """

    @checked_with_words
    def __init__(self, encoder_layer: Layer, num_layers: int, norm: Layer | None = None) -> None:
        super().__init__(encoder_layer, num_layers, norm)

    @overload
    def forward(self, src: AnyTensor, src_mask: Variable | None = None, cache: None = None) -> AnyTensor: ...

    @overload
    def forward(
        self, src: AnyTensor, src_mask: Variable | None = None, *, cache: Sequence[MultiHeadAttention.Cache]
    ) -> tuple[AnyTensor, list[MultiHeadAttention.Cache]]: ...

    def forward(
        self, src: AnyTensor, src_mask: Variable | None = None, cache: Sequence[MultiHeadAttention.Cache] | None = None
    ) -> Any:
        """Apply the layers.

        Args:
            src: floats [batch, length, d_model].
            src_mask: as in ``MultiHeadAttention``.
            cache: one for each layer, from ``gen_cache``.

        Returns:
            [batch, length, d_model]; with a cache, a tuple of this and the caches after these steps.
        """
        return self._through(src, cache, _added(src_mask, src.dtype))

    def gen_cache(self, src: Variable) -> list[MultiHeadAttention.Cache]:
        """Make an empty cache for each layer, for the batch of ``src``: [batch, length, d_model].

        Args:
            src: floats [batch, length, d_model].
        """
        return [layer.gen_cache(src) for layer in self.layers]


class TransformerDecoder(_Stack):
    """Apply several decoder layers one after another, then a norm. Vaswani et al. 2017.

    Args:
        decoder_layer: the first layer; the others are made with its arguments.
        num_layers: how many there are.
        norm: applied last, such as a ``LayerNorm``; None for none.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> layer = paddle.nn.TransformerDecoderLayer(8, 2, 16)
        >>> paddle.nn.TransformerDecoder(layer, 2)(paddle.ones([2, 5, 8]), paddle.ones([2, 3, 8])).shape
        [2, 5, 8]
    """

    @checked_with_words
    def __init__(self, decoder_layer: Layer, num_layers: int, norm: Layer | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    @overload
    def forward(
        self,
        tgt: AnyTensor,
        memory: Variable,
        tgt_mask: Variable | None = None,
        memory_mask: Variable | None = None,
        cache: None = None,
    ) -> AnyTensor: ...

    @overload
    def forward(
        self,
        tgt: AnyTensor,
        memory: Variable,
        tgt_mask: Variable | None = None,
        memory_mask: Variable | None = None,
        *,
        cache: Sequence[DecoderCache],
    ) -> tuple[AnyTensor, list[DecoderCache]]: ...

    def forward(
        self,
        tgt: AnyTensor,
        memory: Variable,
        tgt_mask: Variable | None = None,
        memory_mask: Variable | None = None,
        cache: Sequence[DecoderCache] | None = None,
    ) -> Any:
        """Apply the layers.

        Args:
            tgt: floats [batch, length, d_model].
            memory: the encoder's result, [batch, length of memory, d_model].
            tgt_mask: as in ``MultiHeadAttention``, for self-attention.
            memory_mask: the same for attention to ``memory``.
            cache: one for each layer, from ``gen_cache``.

        Returns:
            [batch, length, d_model]; with a cache, a tuple of this and the caches after these steps.
        """
        return self._through(tgt, cache, memory, _added(tgt_mask, tgt.dtype), _added(memory_mask, memory.dtype))

    def gen_cache(self, memory: Variable, do_zip: bool = False) -> list[DecoderCache] | list[tuple[AnyCache, ...]]:
        """Make a cache for each layer.

        Args:
            memory: the encoder's result, [batch, length of memory, d_model].
            do_zip: give the layers' parts side by side.
        """
        caches: Iterable[Any] = [layer.gen_cache(memory) for layer in self.layers]
        return list(zip(*caches, strict=True)) if do_zip else list(caches)


class Transformer(Layer):
    """Translate with an encoder and a decoder. Vaswani et al. 2017.

    Args:
        d_model: features of the input and of the result.
        nhead: number of heads; it divides ``d_model``.
        num_encoder_layers: layers of the encoder.
        num_decoder_layers: layers of the decoder.
        dim_feedforward: features within the feed-forward parts.
        dropout: that of the results of the parts, from 0 to 1.
        activation: the function of ``nn.functional`` within the feed-forward parts, such as 'relu' or 'gelu'.
        attn_dropout: that of the weights of attention; ``dropout`` unless given.
        act_dropout: that behind the activation; ``dropout`` unless given.
        normalize_before: normalise the input of each part, rather than its result.
        weight_attr: attributes of the weights: one for all, or a list: for attention and feed-forward, or for self-attention,
            attention to the encoder and feed-forward.
        bias_attr: the same for the biases; False for none.
        custom_encoder: used in place of the encoder.
        custom_decoder: used in place of the decoder.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word, or if the heads do not divide ``d_model``.

    Example:
        >>> model = paddle.nn.Transformer(8, 2, 1, 1, 16)
        >>> model(paddle.ones([2, 5, 8]), paddle.ones([2, 3, 8])).shape
        [2, 3, 8]
    """

    @checked_with_words
    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        attn_dropout: float | None = None,
        act_dropout: float | None = None,
        normalize_before: bool = False,
        weight_attr: WeightAttr | Sequence[WeightAttr] = None,
        bias_attr: BiasAttr | Sequence[BiasAttr] = None,
        custom_encoder: Layer | None = None,
        custom_decoder: Layer | None = None,
    ) -> None:
        super().__init__()
        common = d_model, nhead, dim_feedforward, dropout, activation, attn_dropout, act_dropout, normalize_before
        weights, biases = _each(weight_attr, 3), _each(bias_attr, 3)
        weights, biases = ([each[0], *each] if len(each) == 2 else each for each in (weights, biases))
        if custom_encoder is None:
            first = TransformerEncoderLayer(*common, [weights[0], weights[-1]], [biases[0], biases[-1]])
            custom_encoder = TransformerEncoder(first, num_encoder_layers, LayerNorm(d_model))
        self.encoder = custom_encoder
        if custom_decoder is None:
            first_decoder = TransformerDecoderLayer(*common, weights, biases)
            custom_decoder = TransformerDecoder(first_decoder, num_decoder_layers, LayerNorm(d_model))
        self.decoder = custom_decoder
        self.d_model, self.nhead = d_model, nhead

    def forward(
        self,
        src: Variable,
        tgt: AnyTensor,
        src_mask: Variable | None = None,
        tgt_mask: Variable | None = None,
        memory_mask: Variable | None = None,
    ) -> AnyTensor:
        """Encode ``src``, and decode ``tgt`` with it.

        Args:
            src: floats [batch, length of src, d_model].
            tgt: floats [batch, length, d_model].
            src_mask: as in ``MultiHeadAttention``, for the encoder.
            tgt_mask: the same for the decoder's self-attention.
            memory_mask: the same for attention to the encoder's result.

        Returns:
            Floats [batch, length, d_model].
        """
        decoded: AnyTensor = self.decoder(tgt, self.encoder(src, src_mask), tgt_mask, memory_mask)
        return decoded

    def generate_square_subsequent_mask(self, length: int) -> Tensor:
        """Make the causal mask [length, length], added to scores so that no position sees a later one.

        It is 0 on and under the diagonal, -inf above.

        Args:
            length: the length of the sequence.
        """
        return leaf(np.triu(np.full((int(length), int(length)), -np.inf, np.float32), 1))
