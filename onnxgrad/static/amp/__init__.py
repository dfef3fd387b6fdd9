"""Mixed precision of static programs: 16-bit compute, float32 weights, dynamic loss scaling inside the step."""

from onnxgrad.core.passes.precision_lists import AutoMixedPrecisionLists
from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.static.amp import bf16
from onnxgrad.static.amp.cast import cast_model_to_fp16, fp16_guard
from onnxgrad.static.amp.decorator import decorate

CustomOpLists = AutoMixedPrecisionLists

__all__ = ["AutoMixedPrecisionLists", "CustomOpLists", "bf16", "cast_model_to_fp16", "decorate", "fp16_guard"]


globals().update(absence_hooks(__name__))
