"""Attention in all its forms, rotary positions, linear attention."""

import numpy as np

from onnxgrad.testing import Sample
from tests.core.rules.samples import samples

Q, S, T, D, V = 4, 3, 5, 4, 2
INFINITE = np.array([[0.5, -0.25, -np.inf, 1.0, 0.0], [-np.inf] * 5, [0.1, 0.2, 0.3, -np.inf, -1.0]])
CHOSEN = np.array([[True, True, False, True, False], [False] * 5, [False, True, True, True, True]])


def heads(draw, keys=Q):
    return draw.real(2, Q, S, D), draw.real(2, keys, T, D), draw.real(2, keys, T, V)


def packed(draw, keys=Q):
    return draw.real(2, S, Q * D), draw.real(2, T, keys * D), draw.real(2, T, keys * V)


@samples("Attention")
def attention(draw):
    yield Sample(*heads(draw), opset=23)
    yield Sample(*packed(draw), opset=23, q_num_heads=Q, kv_num_heads=Q, scale=0.3)
    yield Sample(*heads(draw, 2), opset=23, softcap=1.5)
    yield Sample(*packed(draw, 1), opset=24, q_num_heads=Q, kv_num_heads=1)
    yield Sample(*heads(draw), opset=24, is_causal=1)
    yield Sample(*heads(draw), opset=24, softmax_precision=11, runs=False)


@samples("Attention")
def masks(draw):
    for mask in (CHOSEN, draw.real(S, T), draw.real(2, 1, S, T), Sample.fixed(INFINITE)):
        yield Sample(*heads(draw), mask, opset=23)
        yield Sample(*packed(draw, 2), mask, opset=24, q_num_heads=Q, kv_num_heads=2, is_causal=1)
    yield Sample(*heads(draw), CHOSEN[:, :4], opset=24)
    yield Sample(*heads(draw), draw.real(S, 3), opset=24)


@samples("Attention")
def caches(draw):
    past = draw.real(2, 2, 3, D), draw.real(2, 2, 3, V)
    yield Sample(*heads(draw, 2), None, *past, opset=23, outputs=3)
    yield Sample(*packed(draw, 2), None, *past, opset=24, outputs=3, q_num_heads=Q, kv_num_heads=2, is_causal=1)
    yield Sample(*heads(draw, 2), draw.real(S, 8), *past, opset=24, outputs=3, only=[0], is_causal=1)
    for causal in (0, 1):
        yield Sample(*heads(draw), None, None, None, np.array([4, 2]), opset=24, is_causal=causal)
    yield Sample(*heads(draw), CHOSEN, None, None, np.array([4, 5]), opset=24, is_causal=1)


@samples("Attention")
def shown_products(draw):
    for mode in range(4):
        yield Sample(*heads(draw), draw.real(S, T), opset=24, outputs=4, softcap=1.2, qk_matmul_output_mode=mode)
    yield Sample(*heads(draw), CHOSEN, opset=24, outputs=4, only=[3], qk_matmul_output_mode=3)


@samples("Attention")
def windows(draw):
    """onnxruntime has the operator of opset 24 only"""
    for left, right in ((1, -1), (-1, 0), (0, 1)):
        yield Sample(*heads(draw), opset=25, runs=False, left_window_size=left, right_window_size=right)
    yield Sample(*heads(draw), None, None, None, np.array([4, 2]), opset=25, runs=False, is_causal=1, left_window_size=1)


@samples("RotaryEmbedding")
def rotary(draw):
    positions = np.array([[0, 2, 1], [3, 3, 0]])
    for interleaved in (0, 1):
        caches = draw.real(5, 2), draw.real(5, 2)
        yield Sample(draw.real(2, 2, 3, 4), *caches, positions, opset=23, interleaved=interleaved)
        yield Sample(draw.real(2, 3, 8), *caches, positions, opset=23, interleaved=interleaved, num_heads=2)
        yield Sample(
            draw.real(2, 2, 3, 6), draw.real(2, 3, 2), draw.real(2, 3, 2), opset=23, interleaved=interleaved, rotary_embedding_dim=4
        )


@samples("SwiGLU")
def swiglu(draw):
    for alpha in (1.0, 1.702):
        yield Sample(draw.real(2, 3), draw.real(2, 3), opset=28, runs=False, alpha=alpha)
    yield Sample(draw.real(), draw.real(), opset=28, runs=False)


@samples("CausalConvWithState")
def causal_convolutions(draw):
    for activation in ("none", "silu", "swish"):
        yield Sample(draw.real(2, 3, 4), draw.real(3, 1, 3), opset=27, runs=False, outputs=2, activation=activation)
    yield Sample(draw.real(2, 3, 2), draw.real(3, 1, 4), draw.real(3), draw.real(2, 3, 3), opset=27, runs=False, outputs=2)
    yield Sample(draw.real(2, 3, 2), draw.real(3, 1, 1), draw.real(3), opset=27, runs=False, only=[0], outputs=2)


@samples("LinearAttention")
def linear_attention(draw):
    def operands(keys):
        return draw.real(2, 3, 4 * 2), draw.real(2, 3, keys * 2), draw.real(2, 3, keys * 3)

    def form(keys, **attrs):
        return dict(opset=27, runs=False, outputs=2, q_num_heads=4, kv_num_heads=keys, **attrs)

    yield Sample(*operands(4), **form(4, update_rule="linear"))
    yield Sample(*operands(2), draw.real(2, 2, 2, 3), **form(2, update_rule="linear", scale=0.4))
    yield Sample(*operands(2), None, draw.real(2, 3, 2), **form(2, update_rule="gated"))
    yield Sample(*operands(2), None, draw.real(2, 3, 4), **form(2, update_rule="gated"))
    yield Sample(*operands(2), None, None, draw.real(2, 3, 2), **form(2, update_rule="delta"))
    yield Sample(*operands(4), draw.real(2, 4, 2, 3), draw.real(2, 3, 8), draw.real(2, 3, 1), **form(4))
    yield Sample(*operands(1), draw.real(2, 1, 2, 3), draw.real(2, 3, 1), draw.real(2, 3, 1), **form(1), only=[0])
