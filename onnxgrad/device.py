"""paddle.device: where programs run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxgrad.core.runtime.places import cuda_is_available, get_device, is_compiled_with_cuda, set_device
from onnxgrad.internal.refusals import says_why_absent

__all__ = ["get_all_device_type", "get_available_device", "get_device", "is_compiled_with_cuda", "set_device"]


def get_all_device_type() -> list[str]:
    """The kinds of devices that the installed onnxruntime has."""
    return ["cpu", "gpu"] if cuda_is_available() else ["cpu"]


def get_available_device() -> list[str]:
    """The devices that ``set_device`` takes."""
    return ["cpu", "gpu:0"] if cuda_is_available() else ["cpu"]


def _absent() -> bool:
    return False


is_compiled_with_xpu = is_compiled_with_rocm = is_compiled_with_cinn = is_compiled_with_ipu = is_compiled_with_npu = _absent
is_compiled_with_distribute = is_compiled_with_custom_device = _absent


if not TYPE_CHECKING:  # which would take every name for one
    __getattr__ = says_why_absent(__name__)
