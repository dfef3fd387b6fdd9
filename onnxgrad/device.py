"""paddle.device: where programs run."""

from __future__ import annotations

from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime import places
from onnxgrad.core.runtime.places import cuda_is_available, is_compiled_with_cuda, set_device
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.internal.state import manual_seed

__all__ = [
    "device_count", "device_guard", "get_all_custom_device_type", "get_all_device_type", "get_available_custom_device",
    "get_available_device", "get_cudnn_version", "get_device", "is_available", "is_bf16_supported", "is_compiled_with_cinn",
    "is_compiled_with_cuda", "is_compiled_with_custom_device", "is_compiled_with_distribute", "is_compiled_with_ipu",
    "is_compiled_with_npu", "is_compiled_with_rocm", "is_compiled_with_xpu", "manual_seed", "set_device", "synchronize",
]  # fmt: skip


def get_all_device_type() -> list[str]:
    """The kinds of devices that the installed onnxruntime has."""
    return ["cpu", "gpu"] if cuda_is_available() else ["cpu"]


def get_available_device() -> list[str]:
    """The devices that ``set_device`` takes."""
    return ["cpu", "gpu:0"] if cuda_is_available() else ["cpu"]


def get_all_custom_device_type() -> list[str]:
    """None: Paddle's plugins of devices are not read."""
    return []


def get_available_custom_device() -> list[str]:
    """None: Paddle's plugins of devices are not read."""
    return []


def get_cudnn_version() -> int | None:
    """None: onnxruntime does not say it."""
    return None


def device_count() -> int:
    """How many kinds of GPU ``set_device`` takes: 1 where onnxruntime has its CUDA provider."""
    return int(cuda_is_available())


def is_available() -> bool:
    """Whether onnxruntime has its CUDA provider."""
    return cuda_is_available()


def get_device(input: Variable | None = None) -> str | int:
    """The device of Executors that are made without a place, such as ``cpu`` or ``gpu:0``.

    Args:
        input: an eager tensor, for the number of its device: -1, as tensors live in main memory.

    Example:
        >>> paddle.device.get_device(), paddle.device.get_device(paddle.ones([2]))
        ('cpu', -1)
    """
    return places.get_device() if input is None else -1


@checked
def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether ``amp.auto_cast`` computes in bfloat16: False.

    Args:
        including_emulation: accepted for compatibility.
    """
    return False


def synchronize(device: object = None) -> None:
    """Nothing: a result is there when a call returns.

    Args:
        device: accepted for compatibility.
    """


class device_guard:  # noqa: N801
    """Set the device inside a ``with`` block.

    Args:
        device: as of ``set_device``.

    Example:
        >>> with paddle.device.device_guard("cpu"):
        ...     paddle.get_device()
        'cpu'
    """

    @checked
    def __init__(self, device: str) -> None:
        self.device = device
        self._before = ""

    def __enter__(self) -> None:
        self._before = places.get_device()
        set_device(self.device)

    def __exit__(self, *error: object) -> None:
        set_device(self._before)


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


globals().update(absence_hooks(__name__))
