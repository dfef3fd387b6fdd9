"""fluid.core: the few names of Paddle's own runtime that programs of fluid use.

Tests: tests/fluid/test_fluid.py.
"""

from onnxgrad.core.runtime.places import CPUPlace, CUDAPlace, is_compiled_with_cuda
from onnxgrad.core.state.scope import Scope
from onnxgrad.device import device_count as get_cuda_device_count
from onnxgrad.internal.refusals import absence_hooks

__all__ = ["CPUPlace", "CUDAPlace", "Scope", "get_cuda_device_count", "is_compiled_with_cuda"]


globals().update(absence_hooks(__name__))
