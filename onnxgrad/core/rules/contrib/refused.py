"""Operators of com.microsoft whose gradient is refused, with the reason and what to use instead."""

from onnxgrad.core.ir.opset import CONTRIB_DOMAIN
from onnxgrad.core.rules.registry import unsupported

__all__: list[str] = []

unsupported(
    "DecoderMaskedMultiHeadAttention", "DecoderMaskedSelfAttention", "DecoderAttention", "PagedAttention",
    domain=CONTRIB_DOMAIN,
    because="it decodes one token at a time from a cache; use the file of the model that reads whole texts",
)  # fmt: skip
unsupported(
    "BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch",
    domain=CONTRIB_DOMAIN,
    because="it chooses words; differentiate the model inside it, from its own file",
)  # fmt: skip
unsupported(
    "PackedAttention", "PackedMultiHeadAttention", "LongformerAttention", "SparseAttention", "GatedRelativePositionBias",
    domain=CONTRIB_DOMAIN,
    because="it is not written in standard operators; export the model without this fusion",
)  # fmt: skip
unsupported(
    "DynamicQuantizeLSTM", "MatMulBnb4", "MatMulFpQ4", "QOrderedAttention", "QOrderedGelu", "QOrderedLayerNormalization",
    "QOrderedLongformerAttention", "QOrderedMatMul", "NhwcMaxPool",
    domain=CONTRIB_DOMAIN,
    because="this form of quantisation is not written; quantise the original file with MatMulNBits or QDQ, or train the original",
    quantizes=True,
)  # fmt: skip
unsupported(
    "Conv", "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "ReorderInput", "ReorderOutput", "Upsample",
    domain="com.microsoft.nchwc",
    because="onnxruntime saved this file with all optimisations, for the processor of one machine; use the file it was made from, "
    "or one saved with the extended level (ORT_ENABLE_EXTENDED)",
)  # fmt: skip
