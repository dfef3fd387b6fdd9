"""fluid.core: the few names of Paddle's own runtime that programs of fluid use.

Tests: tests/fluid/test_fluid.py.
"""

from onnxgrad.core.runtime.places import CPUPlace, CUDAPlace, cuda_is_available, is_compiled_with_cuda
from onnxgrad.core.state.scope import Scope
from onnxgrad.internal.refusals import absence_hooks

__all__ = ["CPUPlace", "CUDAPlace", "Scope", "get_cuda_device_count", "is_compiled_with_cuda"]


def get_cuda_device_count() -> int:
    """How many kinds of GPU ``CUDAPlace`` takes: 1 where onnxruntime has its CUDA provider."""
    return int(cuda_is_available())


globals().update(absence_hooks(__name__))
