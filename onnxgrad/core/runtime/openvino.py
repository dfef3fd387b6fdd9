"""OpenVINO's execution provider beside stock onnxruntime: the package onnxruntime-ep-openvino, a plug-in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from onnxgrad.core.ir.traits import CONTROL_FLOW, RANDOM
from onnxgrad.core.providers.openvino import LIMIT
from onnxgrad.core.runtime.places import CPUPlace, CUDAPlace, Place
from onnxgrad.core.state.values import copy_into, room_of
from onnxgrad.errors import ArgumentError, FeedError, ProviderError
from onnxgrad.internal.arguments import checked, wrong_kind

if TYPE_CHECKING:
    from onnxruntime import OrtValue, SessionOptions


__all__ = ["OpenVINOPlace", "place_by_name"]

_NAME = "OpenVINOExecutionProvider"
_PRECISIONS = ("f32", "bf16")
_LOCK = Lock()


class OpenVINOPlace(Place):
    """A device of OpenVINO: the whole training step runs there as one node of onnxruntime.

    State and feeds lie in main memory and are read in place. With ``"bf16"`` matrix products and convolutions compute in
    bfloat16 on processors that have it (AMX, AVX-512-BF16); weights and optimizer state stay float32. Loops of a known
    number of steps (LSTM, GRU, RNN, Scan, Loop) are written out, in float32 only those of large weights. A program with other
    control flow, or without anything to train, runs on onnxruntime's own CPU provider instead.

    Args:
        precision: ``"f32"`` or ``"bf16"``.
        device: by OpenVINO's name; ``"CPU"`` is what is tested.

    Raises:
        ArgumentTypeError: if ``device`` is not a str.
        ArgumentError: if there is no such precision.
        ProviderError: if the package or the device is missing, or the processor has no bfloat16.

    Example:
        >>> executor = static.Executor(OpenVINOPlace("bf16"))  # doctest: +SKIP
    """

    memory = "openvino"
    wants_shapes = True
    stacks_state = True
    leaves = tuple(sorted(CONTROL_FLOW | RANDOM))

    @checked
    def __init__(self, precision: Literal["f32", "bf16"] = "f32", device: str = "CPU") -> None:
        if precision not in _PRECISIONS:
            raise ArgumentError(f"precision is one of {', '.join(map(repr, _PRECISIONS))}, not {precision!r}.")
        if not isinstance(device, str):
            raise wrong_kind(self, "device", "a str", device)
        self.precision, self.unit = precision, device
        self.lowering = "openvino" if precision == "f32" else "openvino_bf16"
        unit = _device(device)
        if precision == "bf16" and "BF16" not in unit.ep_metadata.get("OPTIMIZATION_CAPABILITIES", "").split():
            name = unit.ep_metadata.get("FULL_DEVICE_NAME", device)
            raise ProviderError(f"{name} has no bfloat16 (AMX or AVX-512-BF16). Use OpenVINOPlace('f32').")

    def _key(self) -> tuple[Any, ...]:
        return ("openvino", self.unit, self.precision)

    def add_to(self, options: SessionOptions, threads: int | None, saved: Path | None) -> None:
        settings: dict[str, Any] = {"INFERENCE_PRECISION_HINT": self.precision, "NUM_STREAMS": "1", "PERFORMANCE_HINT": "LATENCY"}
        if threads is not None:
            settings["INFERENCE_NUM_THREADS"] = threads
        if saved is not None:
            settings["CACHE_DIR"] = str(saved)
        options.add_provider_for_devices([_device(self.unit)], {"load_config": json.dumps({self.unit: settings})})

    def room(self, shape: Sequence[int], dtype: npt.DTypeLike) -> OrtValue:
        return room_of(shape, dtype, memory_info=_memory(_device(self.unit)))

    def value(self, array: np.ndarray[Any, Any]) -> OrtValue:
        value = self.room(array.shape, array.dtype.type)
        copy_into(value, array)
        return value

    def check(self, name: str, array: np.ndarray[Any, Any] | OrtValue) -> None:
        """Refuse integers of 64 bits that do not fit 32.

        Args:
            name: of the input.
            array: its value.

        Raises:
            FeedError: naming the input.
        """
        if isinstance(array, np.ndarray) and array.dtype.kind in "iu" and array.dtype.itemsize > 4 and array.size:
            if int(array.max()) >= LIMIT or int(array.min()) < -LIMIT:
                raise FeedError(f"OpenVINO computes integers in 32 bits, and {name!r} holds {array.max()}. Use CPUPlace().")

    def __repr__(self) -> str:
        return f"Place(openvino:{self.unit}, {self.precision})"


def place_by_name(name: str, precision: Literal["f32", "bf16"] = "f32") -> Place:
    """The place of a name such as ``cpu``, ``cuda``, ``cuda:1`` or ``openvino``.

    Args:
        precision: of products, for OpenVINO.

    Raises:
        ArgumentError: if it is another.
    """
    device, _, index = name.partition(":")
    if name == "cpu":
        return CPUPlace()
    if name == "openvino":
        return OpenVINOPlace(precision)
    if device == "cuda" and (index.isdigit() or name == "cuda"):
        return CUDAPlace(int(index or 0))
    raise ArgumentError(f"a device is cpu, cuda, cuda:NUMBER or openvino, not {name!r}.")


def _device(name: str) -> Any:
    """The device of OpenVINO by its name; registers the plug-in first.

    Raises:
        ProviderError: if there is none.
    """
    import onnxruntime

    with _LOCK:
        devices = _devices(onnxruntime)
        if not devices:
            try:
                plugin = import_module("onnxruntime_ep_openvino")
            except ImportError as error:
                raise ProviderError(
                    "OpenVINO's provider is not installed. Install it by pip install 'onnxgrad[openvino]', or use CPUPlace()."
                ) from error
            try:
                onnxruntime.register_execution_provider_library(_NAME, plugin.get_library_path())
            except Exception as error:
                raise ProviderError(
                    f"onnxruntime {onnxruntime.__version__} does not load OpenVINO's provider: {error}. Install a newer one."
                ) from error
            devices = _devices(onnxruntime)
    if name not in devices:
        raise ProviderError(f"OpenVINO has no device {name!r} here; it has {', '.join(sorted(devices)) or 'none'}.")
    return devices[name]


def _memory(device: Any) -> Any:
    """Memory that sessions on a device read in place; of an OrtValue in other memory they read a copy, made when it is bound."""
    import onnxruntime

    return device.memory_info(onnxruntime.OrtDeviceMemoryType.HOST_ACCESSIBLE)


def _devices(onnxruntime: Any) -> dict[str, Any]:
    devices: list[Any] = getattr(onnxruntime, "get_ep_devices", list)()
    return {d.ep_metadata.get("ov_device", ""): d for d in devices if d.ep_name == _NAME}
