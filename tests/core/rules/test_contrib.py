"""com.microsoft operators written out compute what onnxruntime's own kernels do, and have right gradients."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxgrad
from onnxgrad import errors

RNG = np.random.default_rng(7)
B, S, T, N, H = 2, 3, 4, 2, 4
D = N * H
IDS = np.array([[1, 4, 0], [2, 2, 3]], np.int32)


def real(*shape):
    return RNG.normal(size=shape).astype(np.float32) * 0.5


def positive(*shape):
    return RNG.uniform(0.5, 1.5, shape).astype(np.float32)


def packed(n, k, bits, block):
    blocks = -(-k // block)
    return RNG.integers(0, 256, (n, blocks, block * bits // 8), dtype=np.uint8), positive(n * blocks)


WEIGHT4, SCALES4 = packed(5, 20, 4, 16)
WEIGHT8, SCALES8 = packed(5, 32, 8, 16)
ROTARY = (np.array([[0, 2, 1], [3, 1, 0]], np.int64), real(6, H // 2), real(6, H // 2))
EMBED = (real(5, D), real(6, D), real(2, D), positive(D), real(D))
KINDS = np.array([[0, 1, 1], [0, 0, 1]], np.int32)
PADDING = np.array([[1, 1, 1], [1, 1, 0]], np.int32)
LONG_PADDING = np.array([[1, 1, 1, 0], [1, 1, 0, 1]], np.int32)

# name: (operator, operands, number of outputs, attributes). None is an absent operand; integers are constants.
CASES = {
    "fused_mat_mul": ("FusedMatMul", [real(2, 3, 4), real(2, 5, 4)], 1, {"transB": 1, "alpha": 0.3}),
    "fused_mat_mul_batches": ("FusedMatMul", [real(3, 2, 4), real(2, 5, 4)], 1, {"transBatchA": 1, "transB": 1}),
    "fused_mat_mul_both": ("FusedMatMul", [real(3, 2, 4), real(2, 5, 3)], 1, {"transBatchA": 1, "transA": 1, "transB": 1}),
    "gelu": ("Gelu", [real(3, 4)], 1, {}),
    "bias_gelu": ("BiasGelu", [real(3, 4), real(4)], 1, {}),
    "fast_gelu": ("FastGelu", [real(3, 4)], 1, {}),
    "fast_gelu_bias": ("FastGelu", [real(3, 4), real(4)], 1, {}),
    "quick_gelu": ("QuickGelu", [real(3, 4)], 1, {}),
    "quick_gelu_alpha": ("QuickGelu", [real(3, 4)], 1, {"alpha": 1.1}),
    "fused_gemm": ("FusedGemm", [real(4, 3), real(4, 5), real(5)], 1, {"transA": 1, "alpha": 0.7, "beta": 0.4, "activation": "Tanh"}),
    "fused_gemm_leaky": ("FusedGemm", [real(3, 4), real(4, 5), real(5)], 1, {"activation": "LeakyRelu", "activation_alpha": 0.2}),
    "fused_conv": ("FusedConv", [real(1, 2, 5, 5), real(3, 2, 3, 3), real(3)], 1, {"activation": "Sigmoid", "pads": [1, 1, 1, 1]}),
    "fused_conv_sum": (
        "FusedConv", [real(1, 2, 5, 5), real(3, 2, 3, 3), real(3), real(1, 3, 3, 3)], 1,
        {"activation": "HardSigmoid", "activation_params": [0.05, 0.4]},  # small, so that no difference crosses a corner
    ),
    "skip_layer_norm": ("SkipLayerNormalization", [real(B, S, D), real(B, S, D), positive(D), real(D), real(D)], 1, {"epsilon": 1e-5}),
    "skip_layer_norm_sum": ("SkipLayerNormalization", [real(B, S, D), real(S, D), positive(D)], (0, 3), {}),
    "skip_simplified": ("SkipSimplifiedLayerNormalization", [real(B, S, D), real(B, S, D), positive(D)], (0, 3), {"epsilon": 1e-5}),
    "embed": ("EmbedLayerNormalization", [IDS, KINDS, *EMBED, PADDING], 2, {"epsilon": 1e-5}),
    "embed_plain": ("EmbedLayerNormalization", [IDS, None, EMBED[0], EMBED[1], None, *EMBED[3:]], 2, {}),
    "attention": ("Attention", [real(B, S, 6), real(6, 3 * D), real(3 * D)], 1, {"num_heads": N}),
    "attention_causal": ("Attention", [real(B, S, 6), real(6, 3 * D), real(3 * D)], 1, {"num_heads": N, "unidirectional": 1}),
    "attention_mask": ("Attention", [real(B, S, 6), real(6, 3 * D), real(3 * D), PADDING], 1, {"num_heads": N}),
    "attention_lengths": ("Attention", [real(B, S, 6), real(6, 3 * D), real(3 * D), np.array([3, 2], np.int32)], 1, {"num_heads": N}),
    "attention_starts": (
        "Attention", [real(B, S, 6), real(6, 3 * D), real(3 * D), np.array([3, 2, 1, 0], np.int32)], 1, {"num_heads": N},
    ),
    "attention_causal_mask": (
        "Attention", [real(B, S, 6), real(6, 3 * D), real(3 * D), PADDING], 1, {"num_heads": N, "unidirectional": 1},
    ),
    "attention_causal_left": (
        "Attention", [real(B, S, 6), real(6, 3 * D), real(3 * D), PADDING[:, ::-1].copy()], 1, {"num_heads": N, "unidirectional": 1},
    ),
    "multi_head_causal_left": (
        "MultiHeadAttention", [real(B, S, D)] * 3 + [None, PADDING[:, ::-1].copy()], 1, {"num_heads": N, "unidirectional": 1},
    ),
    "attention_rows": (
        "Attention", [real(B, S, 6), real(6, 3 * D), real(3 * D), np.tril(np.ones((B, S, S), np.int32))], 1, {"num_heads": N},
    ),
    "multi_head_lengths": (
        "MultiHeadAttention", [real(B, S, D), real(B, T, D), real(B, T, D), None, np.array([4, 2], np.int32)], 1, {"num_heads": N},
    ),
    "attention_past": (
        "Attention", [real(B, S, 6), real(6, 3 * D), real(3 * D), None, real(2, B, N, 2, H)], 2, {"num_heads": N, "unidirectional": 1},
    ),
    "attention_bias": (
        "Attention", [real(B, S, 6), real(6, 3 * D), real(3 * D), None, None, real(1, N, S, S)], 1, {"num_heads": N, "scale": 0.3},
    ),
    "attention_sizes": ("Attention", [real(B, S, 6), real(6, 20), real(20)], 1, {"num_heads": N, "qkv_hidden_sizes": [8, 8, 4]}),
    "multi_head": ("MultiHeadAttention", [real(B, S, D), real(B, T, D), real(B, T, 6)], 1, {"num_heads": N}),
    "multi_head_bias": (
        "MultiHeadAttention", [real(B, S, D), real(B, T, D), real(B, T, D), real(3 * D), LONG_PADDING, real(1, N, S, T)], 1,
        {"num_heads": N, "scale": 0.4},
    ),
    "multi_head_past": (
        "MultiHeadAttention",
        [real(B, S, D), real(B, T, D), real(B, T, D), None, None, None, real(B, N, 2, H), real(B, N, 2, H)], 3, {"num_heads": N},
    ),
    "multi_head_causal": ("MultiHeadAttention", [real(B, S, D)] * 3, 1, {"num_heads": N, "unidirectional": 1}),
    "multi_head_heads": ("MultiHeadAttention", [real(B, S, D), real(B, N, T, H), real(B, N, T, H)], 1, {"num_heads": N}),
    "rotary": ("RotaryEmbedding", [real(B, N, S, H), *ROTARY], 1, {}),
    "rotary_interleaved": ("RotaryEmbedding", [real(B, S, D), *ROTARY], 1, {"interleaved": 1}),
    "rotary_offset": ("RotaryEmbedding", [real(B, S, D), np.array([2], np.int64), *ROTARY[1:]], 1, {"num_heads": N}),
    "rotary_part": ("RotaryEmbedding", [real(B, S, N * 6), *ROTARY], 1, {"num_heads": N, "rotary_embedding_dim": H}),
    "n_bits_4": ("MatMulNBits", [real(2, 3, 20), WEIGHT4, SCALES4], 1, {"bits": 4, "block_size": 16, "N": 5, "K": 20}),
    "n_bits_4_zero": (
        "MatMulNBits", [real(3, 20), WEIGHT4, SCALES4, RNG.integers(0, 256, 5, dtype=np.uint8)], 1,
        {"bits": 4, "block_size": 16, "N": 5, "K": 20},
    ),
    "n_bits_8": ("MatMulNBits", [real(3, 32), WEIGHT8, SCALES8], 1, {"bits": 8, "block_size": 16, "N": 5, "K": 32}),
    "n_bits_8_zero": (
        "MatMulNBits", [real(3, 32), WEIGHT8, SCALES8, RNG.integers(0, 256, 10, dtype=np.uint8)], 1,
        {"bits": 8, "block_size": 16, "N": 5, "K": 32},
    ),
    "n_bits_2": ("MatMulNBits", [real(3, 60), *packed(5, 60, 2, 16)], 1, {"bits": 2, "block_size": 16, "N": 5, "K": 60}),
    "n_bits_4_bias": (
        "MatMulNBits", [real(2, 3, 20), WEIGHT4, SCALES4, None, None, real(5)], 1, {"block_size": 16, "N": 5, "K": 20},
    ),
    "n_bits_4_float_zero": (
        "MatMulNBits", [real(3, 20), WEIGHT4, SCALES4, real(10) + 8], 1, {"block_size": 16, "N": 5, "K": 20},
    ),
    "n_bits_4_groups": (
        "MatMulNBits", [real(3, 20), WEIGHT4, SCALES4, None, RNG.permutation(20).astype(np.int32) // 16], 1,
        {"block_size": 16, "N": 5, "K": 20},
    ),
}  # fmt: skip
FROZEN = {"MatMulNBits"}
IDS64 = np.array([[1, 4, 0], [2, 2, 3]], np.int64)


def table(rows, width, bits, block, zeros):
    """Rows of packed integers, their scales and zero points"""
    found = [RNG.integers(0, 256, (rows, width * bits // 8), dtype=np.uint8), IDS64, positive(rows, width // block)]
    return [*found, RNG.integers(0, 256, (rows, -(-width // block * bits // 8)), dtype=np.uint8)] if zeros else found


CASES |= {
    "scaled_silu": ("ScaledSiLU", [real(3, 4)], 1, {"alpha": 1.3}),
    "gather_4": ("GatherBlockQuantized", table(5, 32, 4, 16, False), 1, {"block_size": 16}),
    "gather_4_zero": ("GatherBlockQuantized", table(5, 32, 4, 16, True), 1, {"block_size": 16}),
    "gather_8_zero": ("GatherBlockQuantized", table(5, 32, 8, 16, True), 1, {"block_size": 16, "bits": 8}),
    "gather_2": ("GatherBlockQuantized", table(5, 32, 2, 16, False), 1, {"block_size": 16, "bits": 2}),
    "causal_conv": ("CausalConvWithState", [real(B, 3, 5), real(3, 1, 4), real(3), real(B, 3, 3)], 2, {"activation": "silu"}),
    "causal_conv_start": ("CausalConvWithState", [real(B, 3, 5), real(3, 1, 4)], 2, {}),
    "linear_attention": (
        "LinearAttention",
        [real(B, S, D), real(B, S, D), real(B, S, D), real(B, N, H, H), -positive(B, S, N), positive(B, S, N)],
        2,
        {"q_num_heads": N, "kv_num_heads": N},
    ),
    "linear_attention_shared": (
        "LinearAttention",
        [real(B, S, D), real(B, S, D), real(B, S, 2 * D), real(B, 2 * N, H, H), -positive(B, S, 2 * N), positive(B, S, 2 * N)],
        2,
        {"q_num_heads": N, "kv_num_heads": 2 * N},
    ),
    "linear_attention_plain": (
        "LinearAttention",
        [real(B, S, D), real(B, S, D), real(B, S, D)],
        2,
        {"q_num_heads": N, "kv_num_heads": N, "update_rule": "linear"},
    ),
}
TIMES = np.array([[[0, 2, 1], [3, 1, 0]], [[1, 1, 2], [0, 4, 5]], [[5, 0, 3], [2, 2, 1]]], np.int64)
"""Positions in time, height and width."""
WIDE = (real(6, 6), real(6, 6))
CASES |= {
    "m_rotary": ("MRotaryEmbedding", [real(B, N, S, 12), TIMES, *WIDE], 1, {"mrope_section": [2, 3, 1]}),
    "m_rotary_mixed": (
        "MRotaryEmbedding", [real(B, S, N * 12), TIMES, *WIDE], 1,
        {"mrope_section": [2, 2, 2], "mrope_layout": 1, "num_heads": N, "rotary_embedding_dim": 12},
    ),
    "m_rotary_mixed_short": (
        "MRotaryEmbedding", [real(B, S, N * 16), TIMES, *WIDE], 1,
        {"mrope_section": [4, 1, 1], "mrope_layout": 1, "num_heads": N, "rotary_embedding_dim": 12},
    ),
    "m_rotary_one": (
        "MRotaryEmbedding", [real(B, N, S, 12), TIMES, *WIDE], 1, {"mrope_section": [6, 0, 0], "interleaved": 1},
    ),
    "gated_norm": ("GatedRMSNorm", [real(B, S, D), positive(D), real(B, S, D)], 1, {}),
    "gated_norm_heads": ("GatedRMSNorm", [real(B, S, D), positive(H), real(B, S, D)], 1, {"activation": "sigmoid", "epsilon": 1e-6}),
    "gate": ("LinearAttentionGate", [real(B, S, N), real(N), -positive(N), real(B, S, N)], 2, {}),
    "gate_decay": ("LinearAttentionGate", [real(B, S, N), real(N), -positive(N)], 1, {}),
    "gated_add": ("GatedAdd", [real(B, S, D), real(B, S, D), real(B, S, 1)], 1, {}),
}  # fmt: skip
ROUTER = (RNG.permutation(24).reshape(6, 4) * 0.4 - 4).astype(np.float32)  # apart, so that no difference changes the choice


def experts(activation, *, fused=1, third=False, bias=True, **attrs):
    operands = [real(B, S, 8), ROUTER, real(4, fused * 6, 8), real(4, fused * 6) if bias else None, real(4, 8, 6)]
    operands += [real(4, 8) if bias else None] + ([real(4, 6, 8), real(4, 6) if bias else None] if third else [])
    return "MoE", operands, 1, {"activation_type": activation, "k": 2, **attrs}


def quantised_experts(bits, block, zeros, shares=False, **attrs):
    h, i, e = 32, 32, 4
    stored = []
    for n, k in ((2 * i, h), (h, i)):
        count = k // block if block else 0
        scales = positive(e, n, count) if block else positive(e, n)
        shape = (e, n, -(-count * bits // 8)) if block else (e, -(-n * bits // 8))
        zero = RNG.integers(0, 256, shape, dtype=np.uint8) if zeros else None
        stored.append((RNG.integers(0, 256, (e, n, k * bits // 8), dtype=np.uint8), scales * np.float32(0.05), zero))
    (w1, s1, z1), (w2, s2, z2) = stored
    operands = [
        real(B, S, h),
        ROUTER,
        w1,
        s1,
        real(e, 2 * i),
        w2,
        s2,
        real(e, h),
        None,
        None,
        None,
        z1,
        z2,
        *[None, positive(6, e)] * shares,
    ]
    extra = {"block_size": block} if block else {}
    attrs = {"activation_type": "swiglu", "swiglu_fusion": 1, "k": 2, "expert_weight_bits": bits, "weights_prepacked": 0, **attrs}
    attrs["normalize_routing_weights"] = int(not shares)
    return "QMoE", operands, 1, attrs | extra


CASES |= {
    "experts_relu": experts("relu"),
    "experts_gelu": experts("gelu", bias=False, normalize_routing_weights=1),
    "experts_silu": experts("silu", normalize_routing_weights=1),
    "experts_identity": experts("identity", k=1),
    "experts_swiglu": experts("swiglu", fused=2, swiglu_fusion=1, activation_alpha=1.7, activation_beta=1.0, swiglu_limit=0.8),
    "quantised_experts_4": quantised_experts(4, 0, False),
    "quantised_experts_8": quantised_experts(8, 0, True),
    "quantised_experts_shares": quantised_experts(4, 0, False, shares=True),
    "quantised_experts_blocks": quantised_experts(4, 32, False),
    "quantised_experts_blocks_zero": quantised_experts(4, 16, True),
}

KV, GH = 1, 16  # heads of keys for N of queries, and their size, which onnxruntime asks to be a multiple of 16 here
ANGLES = RNG.uniform(0, 6, (12, GH // 2))
TABLES = (np.cos(ANGLES).astype(np.float32), np.sin(ANGLES).astype(np.float32))


def grouped(lengths, total, *, past=None, packed=False, new=S, rest=(), tables=(None, None), outputs=3, **attrs):
    """A case of GroupQueryAttention; ``lengths`` of the sequences with the new tokens, ``past`` the rows of the cache"""
    batch = len(lengths)
    operands = [real(batch, new, (N + 2 * KV) * GH), None, None] if packed else [
        real(batch, new, N * GH), real(batch, new, KV * GH), real(batch, new, KV * GH)
    ]  # fmt: skip
    cache = [None, None] if past is None else [real(batch, KV, past, GH), real(batch, KV, past, GH)]
    seen = [np.array(lengths, np.int32) - 1, np.array(total, np.int32)]
    return "GroupQueryAttention", [*operands, *cache, *seen, *tables, *rest], outputs, {"num_heads": N, "kv_num_heads": KV, **attrs}


POSITIONS = np.array([[2, 3, 4], [0, 1, 2]], np.int64)
CASES |= {
    "grouped": grouped([S, S], S),
    "grouped_packed": grouped([S, S], S, packed=True, past=0),
    "grouped_rotary": grouped([S, S], S, tables=TABLES, do_rotary=1),
    "grouped_rotary_interleaved": grouped([S, S], S, packed=True, tables=TABLES, do_rotary=1, rotary_interleaved=1),
    "grouped_positions": grouped([S, S], S, tables=TABLES, do_rotary=1, rest=(POSITIONS,)),
    "grouped_positions_later": grouped([6], 6, past=3, tables=TABLES, do_rotary=1, rest=(np.array([[4, 2, 7]]),)),
    "grouped_softcap": grouped([S, S], S, softcap=0.7, scale=1.3),
    "grouped_window": grouped([8, 8], 8, new=8, local_window_size=3),
    "grouped_window_past": grouped([7], 7, past=6, new=1, local_window_size=3),
    "grouped_sink": grouped([S, S], S, rest=(None, None, real(N))),
    "grouped_smooth": grouped([S, S], S, smooth_softmax=1),
    "grouped_bias": grouped([S, S], S, rest=(None, real(1, N, S, S))),
    "grouped_padded": grouped([5, 3], 5, new=5, tables=TABLES, do_rotary=1),
    "grouped_past": grouped([5], 5, past=4, new=1, tables=TABLES, do_rotary=1),
    "grouped_past_lengths": grouped([5, 3], 5, past=4, new=1, tables=TABLES, do_rotary=1),
    "grouped_buffer": grouped([5, 3], 5, past=7, new=1, tables=TABLES, do_rotary=1),
    "grouped_buffer_first": grouped([S], S, past=7, tables=TABLES, do_rotary=1),
    "grouped_chunk": grouped([6], 6, past=3, tables=TABLES, do_rotary=1),
    "grouped_chunk_bias": grouped([6], 6, past=3, rest=(None, real(1, 1, S, 6))),
    "grouped_bidirectional": grouped([S, S], S, causal=0),
    "grouped_sliding": grouped([9], 9, past=4, new=1, local_window_size=3, sliding_window_cache=1, tables=TABLES, do_rotary=1),
    "grouped_sliding_chunk": grouped([8], 8, past=4, local_window_size=3, sliding_window_cache=1),
    "grouped_sliding_first": grouped([8, 8], 8, past=4, new=8, local_window_size=3, sliding_window_cache=1),
    "grouped_query_lengths": grouped(
        [5, 2], 8, past=8, rest=(None,) * 7 + (np.array([3, 1], np.int32),), tables=TABLES, do_rotary=1
    ),
}


def valid_parts(case, values):
    """1 where the operator says what it computes: not in rows of padding, nor beyond a sequence in the cache"""
    kind, operands, _, attrs = CASES[case]
    parts = [np.ones_like(v, np.float32) for v in values]
    if kind != "GroupQueryAttention":
        return parts
    new, lengths, total = operands[0].shape[1], operands[5] + 1, int(operands[6])
    counts = operands[16] if len(operands) > 16 else np.minimum(lengths, new)
    for part in parts:
        for b, length in enumerate(lengths):
            if part.ndim == 3:
                part[b, counts[b] :] = 0
            elif attrs.get("sliding_window_cache"):
                capacity, room = part.shape[2], part.shape[2] - attrs["local_window_size"] + 1
                part[b, :, length - max(0, room * -(-(length - capacity) // room)) :] = 0
            else:
                part[b, :, length:] = 0
    assert total >= max(lengths)
    return parts


def model_of(case, opset=17):
    """The model, and the float operands that are its inputs"""
    kind, operands, outputs, attrs = CASES[case]
    shown = range(outputs) if isinstance(outputs, int) else outputs
    names = ["" if i not in shown else f"y{i}" for i in range(max(shown) + 1)]
    feeds = {f"x{i}": v for i, v in enumerate(operands) if v is not None and v.dtype == np.float32 and not (kind in FROZEN and i)}
    constants = [numpy_helper.from_array(v, f"x{i}") for i, v in enumerate(operands) if v is not None and f"x{i}" not in feeds]
    node = helper.make_node(
        kind, ["" if v is None else f"x{i}" for i, v in enumerate(operands)], names, domain="com.microsoft", **attrs
    )
    found = [
        helper.make_tensor_value_info(n, TensorProto.INT32 if (kind, n) == ("EmbedLayerNormalization", "y1") else 1, None)
        for n in names
        if n
    ]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in feeds.items()]
    graph = helper.make_graph([node], "g", inputs, found, constants)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), feeds


def differentiable(program, feeds):
    """The inputs of a program, each asking for a gradient"""
    inputs = [v for v in program.inputs if v.name in feeds]
    for v in inputs:
        v.stop_gradient = False
    return inputs


def session_of(model):
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("case", CASES)
def test_expansion_computes_what_the_kernel_does(case):
    model, feeds = model_of(case)
    kernel = session_of(model).run(None, feeds)
    for declared, value in zip(model.graph.output, kernel, strict=True):
        declared.CopyFrom(helper.make_tensor_value_info(declared.name, declared.type.tensor_type.elem_type, value.shape))
    expanded = onnxgrad.to_onnx(onnxgrad.from_onnx(model, expand="com.microsoft"))
    assert {node.domain for node in expanded.graph.node} == {""}
    onnx.checker.check_model(expanded, full_check=True)
    for ours, theirs, part in zip(session_of(expanded).run(None, feeds), kernel, valid_parts(case, kernel), strict=True):
        np.testing.assert_allclose(ours * part, theirs * part, rtol=1e-4, atol=1e-5)


def weighted_sums(kernel, names, weights):
    """sum(output * weight) of the kernel's outputs as a function of what is fed"""

    def total(feeds):
        results = kernel.run(names, feeds)
        return sum(float((y.astype(np.float64) * w).sum()) for y, w in zip(results, weights, strict=True))

    return total


def slope_along(total, feeds, name, direction, step=2e-2):
    """Central differences at two steps, extrapolated to none, and how far that may be off: by the curvature, and by rounding"""
    ends = []
    for size in (step, step / 2):
        forth, back = ({**feeds, name: feeds[name] + np.float32(s) * direction} for s in (size, -size))
        ends.append((total(forth) - total(back)) / (2 * size))
    wide, narrow = ends
    return (4 * narrow - wide) / 3, abs(narrow - wide) / 3 + 2e-6 * (1 + abs(total(feeds))) / step


@pytest.mark.one_in(3)
@pytest.mark.parametrize("expand", [None, "com.microsoft"], ids=["beside", "expanded"])
@pytest.mark.parametrize("case", CASES)
def test_gradient_agrees_with_differences_of_the_kernel(case, expand):
    model, feeds = model_of(case)
    program = onnxgrad.from_onnx(model, expand=expand)
    outputs = [y for y in program.outputs if y.is_float]
    names = [f"c_{y.name}" for y in outputs]
    kernel = session_of(model)
    rng = np.random.default_rng(1)
    values = kernel.run([y.name for y in outputs], feeds)
    weights = [
        rng.normal(size=v.shape).astype(np.float32) * part for v, part in zip(values, valid_parts(case, values), strict=True)
    ]
    with onnxgrad.static.program_guard(program):
        seeds = [onnxgrad.static.data(name, w.shape, "float32") for name, w in zip(names, weights, strict=True)]
        inputs = differentiable(program, feeds)
        found = onnxgrad.gradients(outputs, inputs, seeds)
        reached = {v: g for v, g in zip(inputs, found, strict=True) if g is not None}
        kept = [node.op_type for node in onnxgrad.to_onnx(program, [*outputs, *reached.values()]).graph.node if node.domain]
        values = onnxgrad.Executor().run(program, {**feeds, **dict(zip(names, weights, strict=True))}, list(reached.values()))
    results = dict(zip(reached, values, strict=True))
    assert kept == ([CASES[case][0]] if expand is None else [])
    total = weighted_sums(kernel, [y.name for y in outputs], weights)
    sizes = []
    for v in inputs:
        g = results.get(v, np.zeros_like(feeds[v.name]))
        if g.size == 0:
            continue
        direction = rng.normal(size=g.shape).astype(np.float32)
        slope, error = slope_along(total, feeds, v.name, direction / np.linalg.norm(direction))
        ours = float((g * direction).sum() / np.linalg.norm(direction))
        assert ours == pytest.approx(slope, rel=2e-3, abs=2 * error), v.name
        sizes.append(abs(slope) - 10 * error)
    assert max(sizes) > 0


@pytest.mark.parametrize(
    ("kind", "operands"),
    [("LayerNormalization", [real(2, 3, D), positive(D), real(D)]), ("SimplifiedLayerNormalization", [real(2, 3, D), positive(D)])],
)
def test_normalisations_that_onnxruntime_writes_in_the_standard_domain(kind, operands):
    names = [f"x{i}" for i in range(len(operands))]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x0"], ["h"]), helper.make_node(kind, ["h", *names[1:]], ["y"], axis=-1, epsilon=1e-5)], "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in zip(names, operands, strict=True)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    feeds = dict(zip(names, operands, strict=True))
    program = onnxgrad.from_onnx(model, expand="com.microsoft")
    expanded = session_of(onnxgrad.to_onnx(program)).run(None, feeds)[0]
    np.testing.assert_allclose(expanded, session_of(model).run(None, feeds)[0], rtol=1e-4, atol=1e-5)
    assert onnxgrad.gradients(program.outputs, differentiable(program, feeds))[0] is not None


def test_packed_weight_stays_small_and_is_stored_once():
    program = onnxgrad.from_onnx(model_of("n_bits_4_zero")[0], expand="com.microsoft")
    stored = {(v.data_type, tuple(v.dims)) for v in onnxgrad.to_onnx(program).graph.initializer if v.data_type != TensorProto.INT64}
    assert stored == {(TensorProto.UINT4, (5, 20)), (TensorProto.UINT4, (5, 2)), (TensorProto.FLOAT, (10,))}
    assert program.parameters == []


def coarse(case, level):
    model, feeds = model_of(case)
    model.graph.node[0].attribute.append(helper.make_attribute("accuracy_level", level))
    return model, feeds


@pytest.mark.parametrize("case", ["n_bits_4", "n_bits_4_zero", "n_bits_8"])
def test_rounding_of_activations_counts_as_the_identity(case):
    found = []
    for level in (0, 4):
        model, feeds = coarse(case, level)
        program = onnxgrad.from_onnx(model)
        wanted = onnxgrad.gradients(program.outputs, differentiable(program, feeds))
        found.append(onnxgrad.Executor().run(program, feeds, [*program.outputs, *wanted]))
    assert np.abs(found[0][0] - found[1][0]).max() > 1e-4  # the operator itself stays, and rounds
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_coarse_weight_written_out_is_what_onnxruntime_fuses_again(tmp_path):
    model, feeds = coarse("n_bits_4_zero", 4)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    expanded = onnxgrad.to_onnx(onnxgrad.from_onnx(model, expand="com.microsoft")).SerializeToString()
    session = onnxruntime.InferenceSession(expanded, options, providers=["CPUExecutionProvider"])
    assert [node.op_type for node in onnx.load(tmp_path / "fused.onnx").graph.node] == ["MatMulNBits"]
    np.testing.assert_allclose(session.run(None, feeds)[0], session_of(model).run(None, feeds)[0], rtol=1e-4, atol=1e-5)


def test_gradient_holds_no_second_copy_of_a_packed_weight(tmp_path):
    n = k = 512
    operands = [packed(n, k, 4, 32), packed(k, n, 4, 32)]
    nodes, stored = [], []
    for i, (weight, scales) in enumerate(operands):
        stored += [numpy_helper.from_array(weight, f"w{i}"), numpy_helper.from_array(scales, f"s{i}")]
        nodes.append(helper.make_node("MatMulNBits", [f"h{i}", f"w{i}", f"s{i}"], [f"h{i + 1}"], "", domain="com.microsoft",
                                      N=n, K=k, block_size=32))  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("h0", 1, ["B", k])], [helper.make_tensor_value_info("h2", 1, ["B", n])], stored
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    program = onnxgrad.from_onnx(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    (g,) = onnxgrad.gradients(program.outputs, differentiable(program, {"h0"}))
    model = onnxgrad.to_onnx(program, [g])
    assert model.ByteSize() < 1.1 * sum(v.ByteSize() for v in stored)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    optimised = onnx.load(tmp_path / "optimised.onnx").graph
    assert sum(v.ByteSize() for v in optimised.initializer) < 1.1 * sum(v.ByteSize() for v in stored)
    ready, early = {v.name for v in optimised.initializer}, set()
    for node in optimised.node:  # what could be computed before any input is there
        if all(name in ready for name in node.input if name):
            ready |= set(node.output)
            early |= set(node.output)
    assert early == set()


def test_form_without_expansion_is_refused_by_name():
    model, _ = model_of("rotary")
    model.graph.node[0].attribute.append(helper.make_attribute("is_packed_batching", 1))
    with pytest.raises(errors.ModelError, match=r"RotaryEmbedding.*packed batches"):
        onnxgrad.from_onnx(model, expand="com.microsoft")


def test_other_domains_are_refused():
    with pytest.raises(errors.ArgumentError, match=r"com\.microsoft"):
        onnxgrad.from_onnx(model_of("gelu")[0], expand="com.acme")


def test_file_that_onnxruntime_optimised_trains_like_the_original(tmp_path):
    text = """<ir_version: 8, opset_import: ["": 17]> f (float[N, 3, 8] x) => (float[N, 3, 4] y)
        <float[8] g = {1, 1, 1, 1, 2, 1, 1, 1}, float[8] b = {0, 0, 0, 0, 0, 0, 0, 1}, float r = {1.4142135}, float one = {1}, float half = {0.5}>
        { l = LayerNormalization <axis = -1> (x, g, b) m = MatMul (l, w) d = Div (m, r) e = Erf (d) a = Add (e, one) p = Mul (m, a) q = Mul (p, half)
          t = Transpose <perm = [0, 2, 1]> (q) s = MatMul (t, q) z = MatMul (q, s) y = Relu (z) }"""
    model = onnx.parser.parse_model(text.replace("(float[N, 3, 8] x)", "(float[N, 3, 8] x, float[8, 4] w)"))
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    assert "com.microsoft" in {node.domain for node in onnx.load(tmp_path / "optimised.onnx").graph.node}
    feeds = {"x": real(2, 3, 8), "w": real(8, 4)}
    found = []
    for program in (onnxgrad.from_onnx(model), onnxgrad.from_onnx(tmp_path / "optimised.onnx", expand="com.microsoft")):
        found.append(onnxgrad.Executor().run(program, feeds, onnxgrad.gradients(program.outputs, differentiable(program, feeds))))
    for plain, optimised in zip(*found, strict=True):
        np.testing.assert_allclose(optimised, plain, rtol=1e-3, atol=1e-4)
