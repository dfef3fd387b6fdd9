"""Devices by their Paddle names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onnxgrad.core.ir.memory import value_of
from onnxgrad.errors import ArgumentTypeError, ProviderError

__all__ = ["CPUPlace", "CUDAPlace", "Place", "cuda_is_available", "is_compiled_with_cuda", "place_of"]


class Place:
    """A device: its onnxruntime execution providers and the name OrtValues know it by."""

    device = "cpu"
    index = 0
    lowering = "cpu"
    """The forms of graphs that train there."""
    leaves: tuple[str, ...] = ()
    """Operators with which a program is left to the CPU provider as a whole."""

    wants_shapes = False
    """Whether every shape that is fed had better have a session of its own, for the first few of them."""
    memory = ""
    """Whose memory state must lie in, where it is not that of the device."""

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells it from other devices."""
        return (self.device, self.index)

    def providers(self) -> list[Any]:
        return ["CPUExecutionProvider"]

    def add_to(self, options: Any, threads: int | None, saved: Path | None) -> list[Any] | None:
        """Let a session run here; returns its providers, or None where the options name them.

        Args:
            options: SessionOptions of onnxruntime.
            threads: within an operator; None for the provider's choice.
            saved: a folder for what is compiled, or None.
        """
        return self.providers()

    def room(self, shape: Sequence[int], dtype: Any) -> Any:
        """An OrtValue without content in the memory that sessions here read in place."""
        import onnxruntime

        return onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(shape), dtype, self.device, self.index)

    def value(self, array: Any) -> Any:
        """An OrtValue with a copy of an array there."""
        return value_of(array, self.device, self.index)

    def check(self, name: str, array: Any) -> None:
        """Refuse a value of an input that this device would compute wrong with."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Place({self.device}:{self.index})" if self.device != "cpu" else "Place(cpu)"


class CPUPlace(Place):
    """The CPU."""


class CUDAPlace(Place):
    """NVIDIA device number ``index``."""

    device = lowering = "cuda"

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
        raise ArgumentTypeError(f"a place is CPUPlace(), CUDAPlace(i) or OpenVINOPlace(), not {type(place).__name__}.")
    return place
