"""What onnxruntime declares of its own operators: operands, results, attributes and their kinds.

onnx has no schemas for them. There is one here for each that the rule table writes out; onnxruntime alone reads the others. They
are read as onnx's own are when a file is checked. A newer onnxruntime may know further operands and attributes: a file that has
them is read and run, and refused where it is differentiated or written out.

Tests: tests/core/rules/test_contrib_damaged.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from onnx.defs import OpSchema

from onnxgrad.core.ir.opset import CONTRIB_DOMAIN, Schema, find_schema

__all__ = ["contrib_schema"]

_Kind, _Option = OpSchema.AttrType, OpSchema.FormalParameterOption
_SCHEMAS: dict[str, Schema] = {}


def contrib_schema(name: str, domain: str, version: int | None) -> Schema | None:
    """Find the declaration of an operator of onnxruntime; None where the rule table does not write it out.

    Args:
        name: the operator's type.
        domain: onnxruntime writes some operators of its own in the standard domain, where ONNX has none of that name.
        version: the opset of the standard domain.
    """
    if domain == CONTRIB_DOMAIN or (domain == "" and version is not None and find_schema(name, "", version) is None):
        return _SCHEMAS.get(name)
    return None


def _optional(*names: str) -> Iterable[Any]:
    return [OpSchema.FormalParameter(name, "T", param_option=_Option.Optional) for name in names]


def _any_number(name: str) -> Any:
    return OpSchema.FormalParameter(name, "T", param_option=_Option.Variadic)


def _of_kind(kind: Any) -> Callable[..., list[tuple[str, Any]]]:
    return lambda *names: [(name, kind) for name in names]


_ints, _floats, _strings = (_of_kind(kind) for kind in (_Kind.INT, _Kind.FLOAT, _Kind.STRING))
_int_lists, _float_lists = (_of_kind(kind) for kind in (_Kind.INTS, _Kind.FLOATS))


def _declare(
    name: str,
    *,
    operands: Sequence[Any],
    results: Sequence[Any],
    required: Sequence[tuple[str, Any]] = (),
    attributes: Sequence[tuple[str, Any]] = (),
) -> None:
    """Enter a declaration; an operand that is given by its name alone must be there."""
    inputs, outputs = (
        [OpSchema.FormalParameter(p, "T") if isinstance(p, str) else p for p in part] for part in (operands, results)
    )
    declared = [OpSchema.Attribute(key, kind, required=True) for key, kind in required]
    declared += [OpSchema.Attribute(key, kind, required=False) for key, kind in attributes]
    types = [("T", ["tensor(float)"], "onnxruntime checks which")]
    _SCHEMAS[name] = Schema(
        OpSchema(name, CONTRIB_DOMAIN, 1, inputs=inputs, outputs=outputs, type_constraints=types, attributes=declared)
    )


_declare(
    "Attention",
    operands=["input", "weights", *_optional("bias", "mask_index", "past", "attention_bias", "past_sequence_length")],
    results=["output", *_optional("present")],
    required=[*_ints("num_heads")],
    attributes=[
        *_ints("do_rotary", "past_present_share_buffer", "rotary_embedding_dim", "unidirectional"),
        *_floats("mask_filter_value", "scale"),
        *_int_lists("qkv_hidden_sizes"),
    ],
)
_declare("BiasAdd", operands=["X", "bias", "skip"], results=["Y"])
_declare("BiasGelu", operands=["A", "B"], results=["C"])
_declare("BiasSplitGelu", operands=["X", "bias"], results=["Y"])
_declare(
    "CausalConvWithState",
    operands=["input", "weight", *_optional("bias", "past_state")],
    results=["output", "present_state", *_optional("state_update")],
    attributes=[
        *_ints(
            "channels_last",
            "dilation",
            "input_channel_offset",
            "input_channels",
            "ndim",
            "state_channels_last",
            "state_length",
            "state_update_capacity",
            "state_window",
        ),
        *_strings("activation"),
    ],
)
_declare("DequantizeLinear", operands=["x", "x_scale", *_optional("x_zero_point")], results=["y"], attributes=[*_ints("axis")])
_declare("DynamicQuantizeMatMul", operands=["A", "B", "b_scale", *_optional("b_zero_point", "bias")], results=["Y"])
_declare(
    "EmbedLayerNormalization",
    operands=[
        "input_ids",
        *_optional("segment_ids"),
        "word_embedding",
        "position_embedding",
        *_optional("segment_embedding"),
        "gamma",
        "beta",
        *_optional("mask", "position_ids"),
    ],
    results=["output", *_optional("mask_index", "embedding_sum")],
    attributes=[*_ints("mask_index_type"), *_floats("epsilon")],
)
_declare("FastGelu", operands=["X", *_optional("bias")], results=["Y"])
_declare(
    "FusedConv",
    operands=["X", "W", *_optional("B", "Z")],
    results=["Y"],
    attributes=[
        *_ints("group"),
        *_strings("activation", "auto_pad"),
        *_int_lists("dilations", "kernel_shape", "pads", "strides"),
        *_float_lists("activation_params"),
    ],
)
_declare(
    "FusedGemm",
    operands=["A", "B", *_optional("C")],
    results=["Y"],
    attributes=[
        *_ints("transA", "transB"),
        *_floats("activation_alpha", "activation_beta", "activation_gamma", "alpha", "beta"),
        *_strings("activation"),
    ],
)
_declare(
    "FusedMatMul",
    operands=["A", "B"],
    results=["Y"],
    attributes=[*_ints("transA", "transB", "transBatchA", "transBatchB"), *_floats("alpha")],
)
_declare("GatedAdd", operands=["X", "Y", "gate", *_optional("gate_weight")], results=["output"])
_declare(
    "GatedRMSNorm",
    operands=["X", "scale", "gate"],
    results=["Y"],
    attributes=[*_strings("activation"), *_floats("epsilon")],
)
_declare(
    "GatherBlockQuantized",
    operands=["data", "indices", "scales", *_optional("zero_points")],
    results=["output"],
    attributes=[*_ints("bits", "block_size", "gather_axis", "quantize_axis")],
)
_declare("Gelu", operands=["X"], results=["Y"])
_declare(
    "GroupNorm",
    operands=["X", "gamma", "beta"],
    results=["Y"],
    required=[*_ints("activation", "groups")],
    attributes=[*_ints("channels_last"), *_floats("epsilon")],
)
_declare(
    "GroupQueryAttention",
    operands=[
        "query",
        *_optional("key", "value", "past_key", "past_value"),
        "seqlens_k",
        "total_sequence_length",
        *_optional(
            "cos_cache",
            "sin_cache",
            "position_ids",
            "attention_bias",
            "head_sink",
            "k_scale",
            "v_scale",
            "q_norm_weight",
            "k_norm_weight",
            "query_seqlens",
        ),
    ],
    results=["output", *_optional("present_key", "present_value", "output_qk")],
    required=[*_ints("kv_num_heads", "num_heads")],
    attributes=[
        *_ints(
            "causal",
            "do_rotary",
            "kv_cache_bit_width",
            "local_window_size",
            "qk_output",
            "rotary_interleaved",
            "sliding_window_cache",
            "smooth_softmax",
        ),
        *_floats("k_norm_epsilon", "q_norm_epsilon", "qk_norm_epsilon", "scale", "softcap"),
        *_strings("k_quant_type", "v_quant_type"),
    ],
)
_declare(
    "LayerNormalization",
    operands=["X", "Scale", *_optional("B")],
    results=["Y", *_optional("Mean", "InvStdDev")],
    attributes=[*_ints("axis", "stash_type"), *_floats("epsilon")],
)
_declare(
    "LinearAttention",
    operands=["query", "key", "value", *_optional("past_state", "decay", "beta")],
    results=["output", "present_state"],
    required=[*_ints("kv_num_heads", "q_num_heads")],
    attributes=[*_ints("chunk_size", "state_window"), *_floats("scale"), *_strings("update_rule")],
)
_declare(
    "LinearAttentionGate",
    operands=["a", "dt_bias", "decay_scale", *_optional("b")],
    results=["decay", *_optional("beta")],
)
_declare(
    "MRotaryEmbedding",
    operands=["input", "position_ids", "cos_cache", "sin_cache"],
    results=["output"],
    required=[*_int_lists("mrope_section")],
    attributes=[
        *_ints("interleaved", "is_packed_batching", "mrope_layout", "num_heads", "rotary_embedding_dim"),
        *_floats("scale"),
    ],
)
_declare(
    "MatMulIntegerToFloat",
    operands=["A", "B", "a_scale", "b_scale", *_optional("a_zero_point", "b_zero_point", "bias")],
    results=["Y"],
)
_declare(
    "MatMulNBits",
    operands=["A", "B", "scales", *_optional("zero_points", "g_idx", "bias")],
    results=["Y"],
    required=[*_ints("K", "N", "block_size")],
    attributes=[*_ints("accuracy_level", "bits", "weight_prepacked")],
)
_declare(
    "MoE",
    operands=[
        "input",
        "router_probs",
        "fc1_experts_weights",
        *_optional("fc1_experts_bias"),
        "fc2_experts_weights",
        *_optional("fc2_experts_bias", "fc3_experts_weights", "fc3_experts_bias"),
    ],
    results=["output"],
    attributes=[
        *_ints("k", "normalize_routing_weights", "swiglu_fusion", "swiglu_limit_after_activation", "use_sparse_mixer"),
        *_floats("activation_alpha", "activation_beta", "swiglu_limit"),
        *_strings("activation_type"),
    ],
)
_declare(
    "MultiHeadAttention",
    operands=[
        "query",
        *_optional(
            "key",
            "value",
            "bias",
            "key_padding_mask",
            "attention_bias",
            "past_key",
            "past_value",
            "past_sequence_length",
            "cache_indirection",
        ),
    ],
    results=["output", *_optional("present_key", "present_value", "qk")],
    required=[*_ints("num_heads")],
    attributes=[*_ints("unidirectional"), *_floats("mask_filter_value", "scale")],
)
_declare(
    "NhwcConv",
    operands=["X", "W", *_optional("B")],
    results=["Y"],
    attributes=[*_ints("group"), *_strings("auto_pad"), *_int_lists("dilations", "kernel_shape", "pads", "strides")],
)
_declare(
    "NhwcFusedConv",
    operands=["X", "W", *_optional("B", "Z")],
    results=["Y"],
    attributes=[
        *_ints("group"),
        *_strings("activation", "auto_pad"),
        *_int_lists("dilations", "kernel_shape", "pads", "strides"),
        *_float_lists("activation_params"),
    ],
)
_declare(
    "NhwcMaxPool",
    operands=["x"],
    results=["y"],
    required=[*_int_lists("kernel_shape")],
    attributes=[*_ints("ceil_mode"), *_strings("auto_pad"), *_int_lists("dilations", "pads", "strides")],
)
_declare(
    "QAttention",
    operands=[
        "input",
        "weight",
        "bias",
        "input_scale",
        "weight_scale",
        *_optional("mask_index", "input_zero_point", "weight_zero_point", "past"),
    ],
    results=["output", *_optional("present")],
    required=[*_ints("num_heads")],
    attributes=[*_ints("do_rotary", "past_present_share_buffer", "unidirectional"), *_floats("mask_filter_value", "scale")],
)
_declare(
    "QEmbedLayerNormalization",
    operands=[
        "input_ids",
        *_optional("segment_ids"),
        "word_embedding_quant",
        "position_embedding_quant",
        *_optional("segment_embedding"),
        "gamma_quant",
        "beta_quant",
        *_optional("mask"),
        "word_embedding_scale",
        "position_embedding_scale",
        *_optional("segment_embedding_scale"),
        "gamma_scale",
        "beta_scale",
        "word_embedding_zero_point",
        "position_embedding_zero_point",
        *_optional("segment_embedding_zero_point"),
        "gamma_zero_point",
        "beta_zero_point",
    ],
    results=["layernorm_out", "mask_index_out"],
    attributes=[*_floats("epsilon")],
)
_declare(
    "QGemm",
    operands=["A", "a_scale", "a_zero_point", "B", "b_scale", "b_zero_point", *_optional("C", "y_scale", "y_zero_point")],
    results=["Y"],
    attributes=[*_ints("transA", "transB"), *_floats("alpha")],
)
_declare(
    "QLinearAdd",
    operands=[
        "A",
        "A_scale",
        *_optional("A_zero_point"),
        "B",
        "B_scale",
        *_optional("B_zero_point"),
        "C_scale",
        *_optional("C_zero_point"),
    ],
    results=["C"],
)
_declare(
    "QLinearAveragePool",
    operands=["X", "x_scale", *_optional("x_zero_point"), "y_scale", *_optional("y_zero_point")],
    results=["Y"],
    required=[*_int_lists("kernel_shape")],
    attributes=[*_ints("ceil_mode", "channels_last", "count_include_pad"), *_strings("auto_pad"), *_int_lists("pads", "strides")],
)
_declare("QLinearConcat", operands=["Y_scale", "Y_zero_point", _any_number("inputs")], results=["Y"], required=[*_ints("axis")])
_declare(
    "QLinearConv",
    operands=["x", "x_scale", "x_zero_point", "w", "w_scale", "w_zero_point", "y_scale", "y_zero_point", *_optional("B")],
    results=["y"],
    attributes=[
        *_ints("channels_last", "group"),
        *_strings("auto_pad"),
        *_int_lists("dilations", "kernel_shape", "pads", "strides"),
    ],
)
_declare(
    "QLinearGlobalAveragePool",
    operands=["X", "x_scale", "x_zero_point", "y_scale", "y_zero_point"],
    results=["Y"],
    attributes=[*_ints("channels_last")],
)
_declare(
    "QLinearLeakyRelu",
    operands=["X", "X_scale", *_optional("X_zero_point"), "Y_scale", *_optional("Y_zero_point")],
    results=["Y"],
    attributes=[*_floats("alpha")],
)
_declare(
    "QLinearMul",
    operands=[
        "A",
        "A_scale",
        *_optional("A_zero_point"),
        "B",
        "B_scale",
        *_optional("B_zero_point"),
        "C_scale",
        *_optional("C_zero_point"),
    ],
    results=["C"],
)
_declare(
    "QLinearReduceMean",
    operands=["data", "data_scale", *_optional("data_zero_point"), "reduced_scale", *_optional("reduced_zero_point")],
    results=["reduced"],
    required=_int_lists("axes"),
    attributes=_ints("keepdims"),  # onnxruntime declares it as required, and runs files without it
)
_declare(
    "QLinearSigmoid", operands=["X", "X_scale", *_optional("X_zero_point"), "Y_scale", *_optional("Y_zero_point")], results=["Y"]
)
_declare(
    "QLinearSoftmax",
    operands=["X", "X_scale", *_optional("x_zero_point"), "y_scale", "y_zero_point"],
    results=["Y"],
    required=[*_ints("opset")],
    attributes=[*_ints("axis")],
)
_declare(
    "QLinearWhere",
    operands=["condition", "X", "x_scale", "x_zero_point", "Y", "y_scale", "y_zero_point", "z_scale", "z_zero_point"],
    results=["Z"],
)
_declare(
    "QMoE",
    operands=[
        "input",
        "router_probs",
        "fc1_experts_weights",
        *_optional("fc1_scales", "fc1_experts_bias"),
        "fc2_experts_weights",
        *_optional(
            "fc2_scales",
            "fc2_experts_bias",
            "fc3_experts_weights",
            "fc3_scales",
            "fc3_experts_bias",
            "fc1_zero_points",
            "fc2_zero_points",
            "fc3_zero_points",
            "router_weights",
            "fc1_global_scale",
            "fc2_global_scale",
            "fc1_act_scale",
            "fc2_act_scale",
            "fc1_act_block_scale",
            "fc2_act_block_scale",
        ),
    ],
    results=["output"],
    attributes=[
        *_ints(
            "accuracy_level",
            "block_size",
            "expert_weight_bits",
            "fc1_expert_weight_bits",
            "fc2_expert_weight_bits",
            "fc3_expert_weight_bits",
            "k",
            "normalize_routing_weights",
            "swiglu_fusion",
            "swiglu_limit_after_activation",
            "use_sparse_mixer",
            "weights_prepacked",
        ),
        *_floats("activation_alpha", "activation_beta", "swiglu_limit"),
        *_strings("activation_type", "quant_type"),
    ],
)
_declare("QuantizeLinear", operands=["x", "y_scale", *_optional("y_zero_point")], results=["y"], attributes=[*_ints("axis")])
_declare("QuickGelu", operands=["X"], results=["Y"], attributes=[*_floats("alpha")])
_declare(
    "RotaryEmbedding",
    operands=["input", "position_ids", "cos_cache", "sin_cache"],
    results=["output"],
    attributes=[*_ints("interleaved", "is_packed_batching", "num_heads", "rotary_embedding_dim"), *_floats("scale")],
)
_declare("ScaledSiLU", operands=["X", *_optional("scale")], results=["Y"], attributes=[*_floats("alpha")])
_declare(
    "SimplifiedLayerNormalization",
    operands=["X", "scale"],
    results=["Y", *_optional("inv_std_var")],
    attributes=[*_ints("axis", "stash_type"), *_floats("epsilon")],
)
_declare(
    "SkipGroupNorm",
    operands=["X", "gamma", "beta", "skip", *_optional("bias")],
    results=["Y", *_optional("S")],
    required=[*_ints("activation", "groups")],
    attributes=[*_ints("channels_last"), *_floats("epsilon")],
)
_declare(
    "SkipLayerNormalization",
    operands=["input", "skip", "gamma", *_optional("beta", "bias")],
    results=["output", *_optional("mean", "inv_std_var", "input_skip_bias_sum")],
    attributes=[*_floats("epsilon")],
)
_declare(
    "SkipSimplifiedLayerNormalization",
    operands=["input", "skip", "gamma", *_optional("bias")],
    results=["output", *_optional("mean", "inv_std_var", "input_skip_bias_sum")],
    attributes=[*_floats("epsilon")],
)
_declare("TransposeMatMul", operands=["A", "B"], results=["Y"], attributes=[*_ints("transA", "transB"), *_floats("alpha")])
