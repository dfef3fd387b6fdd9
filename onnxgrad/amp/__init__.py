"""Mixed precision: programs and eager tensors that compute in 16 bits where that is safe."""

from onnxgrad.passes.mixed_precision import to_mixed_precision
from onnxgrad.passes.precision_lists import AutoMixedPrecisionLists

__all__ = ["AutoMixedPrecisionLists", "to_mixed_precision"]
