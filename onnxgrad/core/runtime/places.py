"""Devices by their Paddle names."""

from __future__ import annotations

from typing import Any

from onnxgrad.errors import ArgumentTypeError, ProviderError

__all__ = ["CPUPlace", "CUDAPlace", "Place", "cuda_is_available", "is_compiled_with_cuda", "place_of"]


class Place:
    """A device: its onnxruntime execution providers and the name OrtValues know it by."""

    device = "cpu"
    index = 0

    def providers(self) -> list[Any]:
        return ["CPUExecutionProvider"]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and (self.device, self.index) == (other.device, other.index)

    def __hash__(self) -> int:
        return hash((self.device, self.index))

    def __repr__(self) -> str:
        return f"Place({self.device}:{self.index})" if self.device != "cpu" else "Place(cpu)"


class CPUPlace(Place):
    """The CPU."""


class CUDAPlace(Place):
    """NVIDIA device number ``index``."""

    device = "cuda"

    def __init__(self, index: int = 0) -> None:
        if not isinstance(index, int):
            raise ArgumentTypeError(f"CUDAPlace takes a device number, not {type(index).__name__}.")
        self.index = index

    def providers(self) -> list[Any]:
        """CUDA first, the CPU for what it lacks.

        Raises:
            ProviderError: if onnxruntime was installed without CUDA.
        """
        import onnxruntime

        if not cuda_is_available():
            raise ProviderError(
                "this onnxruntime has no CUDA provider. Install the package onnxruntime-gpu in place of onnxruntime, "
                "or use CPUPlace()."
            )
        # Finds the libraries of CUDA that pip has installed; older versions of onnxruntime look for them by themselves.
        getattr(onnxruntime, "preload_dlls", lambda: None)()
        return [("CUDAExecutionProvider", {"device_id": str(self.index)}), "CPUExecutionProvider"]


def cuda_is_available() -> bool:
    """Whether the installed onnxruntime has the CUDA execution provider."""
    import onnxruntime

    return "CUDAExecutionProvider" in onnxruntime.get_available_providers()


is_compiled_with_cuda = cuda_is_available
"""Its name in Paddle."""


def place_of(place: Place | None) -> Place:
    if place is None:
        return CPUPlace()
    if not isinstance(place, Place):
        raise ArgumentTypeError(f"a place is CPUPlace() or CUDAPlace(i), not {type(place).__name__}.")
    return place
