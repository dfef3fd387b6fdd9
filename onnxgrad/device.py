"""paddle.device: where programs run."""

from __future__ import annotations

from onnxgrad.core.runtime.places import cuda_is_available, get_device, is_compiled_with_cuda, set_device
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.refusals import says_why_absent

__all__ = [
    "get_all_device_type", "get_available_device", "get_device", "is_compiled_with_cinn", "is_compiled_with_cuda",
    "is_compiled_with_custom_device", "is_compiled_with_distribute", "is_compiled_with_ipu", "is_compiled_with_npu",
    "is_compiled_with_rocm", "is_compiled_with_xpu", "set_device",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


def get_all_device_type() -> list[str]:
    """The kinds of devices that the installed onnxruntime has."""
    return ["cpu", "gpu"] if cuda_is_available() else ["cpu"]


def get_available_device() -> list[str]:
    """The devices that ``set_device`` takes."""
    return ["cpu", "gpu:0"] if cuda_is_available() else ["cpu"]


def is_compiled_with_xpu() -> bool:
    """False: onnxruntime has no provider for Kunlun's XPU."""
    return False


def is_compiled_with_rocm() -> bool:
    """False: the places are CPUPlace and CUDAPlace."""
    return False


def is_compiled_with_cinn() -> bool:
    """False: programs are compiled by onnxruntime."""
    return False


def is_compiled_with_ipu() -> bool:
    """False: onnxruntime's IPU provider was withdrawn."""
    return False


def is_compiled_with_npu() -> bool:
    """False: the places are CPUPlace and CUDAPlace."""
    return False


def is_compiled_with_distribute() -> bool:
    """False: ranks are those of onnxgrad.distributed, not Paddle's."""
    return False


@checked
def is_compiled_with_custom_device(device_type: str) -> bool:
    """False: Paddle's plugins of devices are not read.

    Args:
        device_type: any name.
    """
    return False


globals().update(__getattr__=says_why_absent(__name__))
