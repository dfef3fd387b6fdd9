"""Devices by their Paddle names.

Tests: tests/core/runtime/test_executor.py, tests/core/runtime/test_capture.py.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from onnxgrad.core.graph.contract import Lowering
from onnxgrad.core.state.values import room_of, value_of
from onnxgrad.errors import ArgumentError, ProviderError, WrongKind
from onnxgrad.internal import state
from onnxgrad.internal.arguments import as_int, as_word, checked, wrong_kind

if TYPE_CHECKING:
    from onnxruntime import OrtValue, SessionOptions


__all__ = ["CPUPlace", "CUDAPlace", "Place", "cuda_is_available", "get_device", "is_compiled_with_cuda", "place_of", "set_device"]


Provider: TypeAlias = "str | tuple[str, dict[str, str]]"
"""The name of an execution provider, or that and its options."""


class Place:
    """A device: its onnxruntime execution providers and the name OrtValues know it by."""

    device = "cpu"
    index = 0
    lowering: Lowering = "cpu"
    """The forms of graphs that train there."""
    leaves: tuple[str, ...] = ()
    """Operators with which a program is left to the CPU provider as a whole."""

    wants_shapes = False
    """Whether every shape that is fed had better have a session of its own, for the first few of them."""
    memory = ""
    """Whose memory state must lie in, where it is not that of the device."""
    options: tuple[tuple[str, str], ...] = ()
    """Options of the provider, by name."""
    stacks_state = False
    """Whether state that is replaced together is read and written as one tensor."""
    captures = False
    """Whether training steps are captured once and replayed, where that is possible."""

    def plain(self) -> Place:
        """The same device without capture."""
        return self

    def providers(self) -> list[Provider]:
        return ["CPUExecutionProvider"]

    def add_to(self, options: SessionOptions, threads: int | None, saved: Path | None) -> list[Provider] | None:
        """Let a session run here; returns its providers, or None where the options name them.

        Args:
            options: SessionOptions of onnxruntime.
            threads: within an operator; None for the provider's choice.
            saved: a folder for what is compiled, or None.
        """
        return self.providers()

    def room(self, shape: Sequence[int], dtype: npt.DTypeLike) -> OrtValue:
        """An OrtValue without content in the memory that sessions here read in place.

        Args:
            shape: the sizes.
            dtype: of numpy.
        """
        return room_of(shape, dtype, self.device, self.index)

    def value(self, array: np.ndarray[Any, Any]) -> OrtValue:
        """An OrtValue with a copy of an array there.

        Args:
            array: of any shape.
        """
        return value_of(array, self.device, self.index)

    def check(self, name: str, array: np.ndarray[Any, Any] | OrtValue) -> None:
        """Refuse a value of an input that this device would compute wrong with.

        Args:
            name: of the input.
            array: its value.
        """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.device, self.index, self.options

    def __repr__(self) -> str:
        return f"Place({self.device}:{self.index})" if self.device != "cpu" else "Place(cpu)"


class CPUPlace(Place):
    """The CPU, where programs run by onnxruntime's CPU provider.

    Example:
        >>> static.Executor(static.CPUPlace()).place
        Place(cpu)
    """


class CUDAOptions(TypedDict, total=False):
    """Options of onnxruntime's CUDA provider; True and False mean 1 and 0."""

    arena_extend_strategy: Literal["kNextPowerOfTwo", "kSameAsRequested"]
    cudnn_conv1d_pad_to_nc1d: bool
    cudnn_conv_algo_search: Literal["EXHAUSTIVE", "HEURISTIC", "DEFAULT"]
    cudnn_conv_use_max_workspace: bool
    do_copy_in_default_stream: bool
    enable_cuda_graph: bool
    enable_skip_layer_norm_strict_mode: bool
    fuse_conv_bias: bool
    gpu_mem_limit: int
    prefer_nhwc: bool
    sdpa_kernel: int
    use_ep_level_unified_stream: bool
    use_tf32: bool


_OPTIONS = tuple(CUDAOptions.__annotations__)
_WORDS = {
    "arena_extend_strategy": ("kNextPowerOfTwo", "kSameAsRequested"),
    "cudnn_conv_algo_search": ("EXHAUSTIVE", "HEURISTIC", "DEFAULT"),
}


class CUDAPlace(Place):
    """An NVIDIA device, where programs run by onnxruntime's CUDA provider.

    Args:
        index: number of the device, from 0.
        options: of onnxruntime's CUDA provider, by its names: ``use_tf32`` (False unless given, as for matrix products in torch;
            onnxruntime's own default is True), ``cudnn_conv_algo_search`` ('EXHAUSTIVE', 'HEURISTIC' or 'DEFAULT'),
            ``gpu_mem_limit`` in bytes, ``arena_extend_strategy`` ('kNextPowerOfTwo' or 'kSameAsRequested'), ``prefer_nhwc``, ...
            With ``enable_cuda_graph=True`` a training step is captured as a CUDA graph in its first run and replayed from then on:
            one launch in place of one for each operator. It is where all sizes are known (each of the first four shapes of the
            feed gets a session of its own), nothing is computed on the host and no random operator is left; elsewhere steps run
            plainly, and a warning says why.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if the provider has no such option, or an option is another word.
        ProviderError: if onnxruntime has CUDA, but cuDNN is not found.

    Example:
        >>> static.CUDAPlace(1, use_tf32=True, gpu_mem_limit=8 * 2**30)
        Place(cuda:1)
    """

    device = "cuda"
    lowering = "cuda"

    def __init__(self, index: int = 0, **options: Unpack[CUDAOptions]) -> None:
        as_int(self, "index", index)
        for name, value in options.items():
            if name not in _OPTIONS:
                raise ArgumentError(f"CUDAPlace: the CUDA provider has no option {name!r}. It has {', '.join(_OPTIONS)}.")
            if name in _WORDS:
                as_word(self, name, value, _WORDS[name])
            elif not isinstance(value, (int, str)):
                raise wrong_kind(self, name, "True, False or an int", value)
        self.index = index
        settings: dict[str, object] = {"use_tf32": False, **options}
        self.options = tuple(sorted((name, str(int(v)) if isinstance(v, bool) else str(v)) for name, v in settings.items()))
        self.captures = self.wants_shapes = dict(self.options).get("enable_cuda_graph", "0") != "0"
        if cuda_is_available():
            _require_cudnn()

    def plain(self) -> CUDAPlace:
        place = copy(self)
        place.captures = place.wants_shapes = False
        place.options = tuple((name, value) for name, value in self.options if name != "enable_cuda_graph")
        return place

    def on_stream(self, stream: int) -> CUDAPlace:
        """The same device, where sessions compute on a CUDA stream of somebody else.

        Args:
            stream: its address, which lives as long as the sessions; not 0, the default stream.
        """
        place = copy(self)
        place.options = tuple(sorted({**dict(self.options), "user_compute_stream": str(stream)}.items()))
        return place

    def providers(self) -> list[Provider]:
        """CUDA first, then the CPU for operators without a CUDA kernel.

        Raises:
            ProviderError: if onnxruntime was installed without CUDA.
        """
        if not cuda_is_available():
            raise ProviderError(
                "this onnxruntime has no CUDA provider. Install the package onnxruntime-gpu in place of onnxruntime, "
                "or use CPUPlace()."
            )
        _preload()
        # onnxruntime 1.31 warns in every session that is given a number, and takes 0 without one.
        number = {"device_id": str(self.index)} if self.index else {}
        return [("CUDAExecutionProvider", {**number, **dict(self.options)}), "CPUExecutionProvider"]


def _preload() -> None:
    """Find the libraries of CUDA that pip has installed; older versions of onnxruntime look for them by themselves."""
    import onnxruntime

    getattr(onnxruntime, "preload_dlls", lambda: None)()


def _require_cudnn() -> None:
    """onnxruntime starts without cuDNN, and fails in the first convolution, pooling or softmax."""
    _preload()
    name = "cudnn64_9.dll" if sys.platform == "win32" else "libcudnn.so.9"
    try:
        ctypes.CDLL(name)
    except OSError as error:
        raise ProviderError(
            f"cuDNN ({name}) is not found, which CUDA needs for convolutions and softmax. Install it, for instance as "
            "nvidia-cudnn-cu12 or nvidia-cudnn-cu13 by pip, or use CPUPlace()."
        ) from error


def cuda_is_available() -> bool:
    """Whether the installed onnxruntime has the CUDA execution provider."""
    import onnxruntime

    return "CUDAExecutionProvider" in onnxruntime.get_available_providers()


is_compiled_with_cuda = cuda_is_available
"""Its name in Paddle."""


@checked
def set_device(device: str) -> Place:
    """Let the Executors of this process that are made without a place run on a device from now on.

    Args:
        device: ``cpu``, or ``gpu:1`` (``cuda:1``) for a CUDA device by number.

    Raises:
        ArgumentError: if it is another word.
        ProviderError: if this onnxruntime has no CUDA.

    Example:
        >>> paddle.set_device("cpu")
        Place(cpu)
    """
    place = place_of(device)
    place.providers()
    state.current.place = place
    return place


def get_device() -> str:
    """The device of Executors that are made without a place, such as ``cpu`` or ``gpu:0``.

    Example:
        >>> paddle.get_device()
        'cpu'
    """
    place = place_of(None)
    return "cpu" if place.device == "cpu" else f"gpu:{place.index}"


def place_of(place: Place | str | None) -> Place:
    """Return a place as it is, the place of a name such as ``cpu`` or ``gpu:0``, or for None the place of ``set_device``."""
    if place is None:
        return state.current.place or CPUPlace()
    if isinstance(place, str):
        device, _, index = place.lower().partition(":")
        if device not in ("cpu", "gpu", "cuda") or (index and not index.isdigit()):
            raise ArgumentError(f"there is no device {place!r}. Use 'cpu' or 'gpu:0'.")
        return CPUPlace() if device == "cpu" else CUDAPlace(int(index or 0))
    if not isinstance(place, Place):
        raise WrongKind(f"a place is CPUPlace(), CUDAPlace(i) or OpenVINOPlace(), not {type(place).__name__}.")
    return place
