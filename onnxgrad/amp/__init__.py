"""Mixed precision: programs and eager tensors that compute in 16 bits where that is safe."""

from onnxgrad.amp.auto_cast import (
    amp_guard,
    auto_cast,
    autocast,
    decorate,
    get_autocast_cpu_dtype,
    get_autocast_dtype,
    get_autocast_gpu_dtype,
    is_autocast_enabled,
    is_bfloat16_supported,
    is_float16_supported,
)
from onnxgrad.amp.grad_scaler import AmpScaler, GradScaler
from onnxgrad.core.passes.mixed_precision import to_mixed_precision
from onnxgrad.core.passes.precision_lists import AutoMixedPrecisionLists
from onnxgrad.internal.refusals import absence_hooks

__all__ = [
    "AmpScaler", "AutoMixedPrecisionLists", "GradScaler", "amp_guard", "auto_cast", "autocast", "decorate",
    "get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype", "is_autocast_enabled", "is_bfloat16_supported",
    "is_float16_supported", "to_mixed_precision",
]  # fmt: skip


globals().update(absence_hooks(__name__))
