"""onnxruntime's own operators (com.microsoft): each is differentiated as the standard operators that it is written out in.

The operator keeps its place in the graph; what its gradient reads of the expansion is computed again beside it. The same entries
write a file in standard operators alone (``from_onnx(..., expand="com.microsoft")``). Definitions: the schemas inside onnxruntime
(ContribOperators.md); the tests compare with its kernels.
"""

from onnxgrad.core.rules.contrib import (
    activation,
    attention,
    blockwise,
    experts,
    gated,
    grouped_attention,
    normalization,
    products,
    quantized,
    recurrent,
    refused,
    writing,
)

__all__ = [
    "activation",
    "attention",
    "blockwise",
    "experts",
    "gated",
    "grouped_attention",
    "normalization",
    "products",
    "quantized",
    "recurrent",
    "refused",
    "writing",
]
