"""Operators of com.microsoft whose gradient is refused, with the reason and what to use instead.

Tests: tests/core/rules/test_contrib_forms.py.
"""

from onnxgrad.core.ir.infer import FOREIGN, Found
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.opset import CONTRIB_DOMAIN
from onnxgrad.core.ir.types import TensorType
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
    because="it samples tokens; differentiate the model inside it, from its own file",
)  # fmt: skip
unsupported(
    "PackedAttention", "PackedMultiHeadAttention", "LongformerAttention", "SparseAttention", "GatedRelativePositionBias",
    domain=CONTRIB_DOMAIN,
    because="it is not written in standard operators; export the model without this fusion",
)  # fmt: skip
unsupported(
    "DynamicQuantizeLSTM", "MatMulBnb4", "MatMulFpQ4", "QOrderedAttention", "QOrderedGelu", "QOrderedLayerNormalization",
    "QOrderedLongformerAttention", "QOrderedMatMul",
    domain=CONTRIB_DOMAIN,
    because="this form of quantisation is not written; quantise the original file with MatMulNBits or QDQ, or train the original",
    quantizes=True,
)  # fmt: skip
_BLOCKED = "com.microsoft.nchwc"
unsupported(
    "Conv", "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "ReorderInput", "ReorderOutput", "Upsample",
    domain=_BLOCKED,
    because="onnxruntime saved this file with all optimisations, for the processor of one machine; use the file it was made from, "
    "or one saved with the extended level (ORT_ENABLE_EXTENDED)",
)  # fmt: skip


def _infer_blocked(operator: Operator) -> Found:
    """The element type and rank of the first operand: what reads the result is then known well enough to be refused by name"""
    x = operator.inputs[0].type if operator.inputs and operator.inputs[0] is not None else None
    if not isinstance(x, TensorType):
        return [(None, None)] * len(operator.outputs)
    return [(TensorType(x.dtype, None if x.dims is None else (None,) * len(x.dims)), None)] * len(operator.outputs)


FOREIGN[_BLOCKED] = _infer_blocked
