"""What Paddle 3.3 lets many functions take beside their operands: ``out``, ``device``, ``requires_grad`` and ``pin_memory``.

Tests: tests/tensor/test_options.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.places import Place
from onnxgrad.errors import ArgumentError, ArgumentTypeError, ProviderError
from onnxgrad.internal.arguments import parameter_names

if TYPE_CHECKING:
    from onnxgrad.eager.tensor import Tensor as EagerTensor

__all__ = ["Device", "require_cpu", "takes_options", "written"]

Device: TypeAlias = Place | str | None
"""Where an eager tensor is made: on the CPU, which is what None says too."""

Function = TypeVar("Function", bound=Callable[..., Any])
_OPTIONS = {"out", "device", "requires_grad", "pin_memory"}


def takes_options(function: Function) -> Function:
    """Carry out the options among a function's parameters, which the function itself thus never reads.

    ``out`` becomes the result, ``requires_grad`` sets its ``stop_gradient``, and ``device`` and ``pin_memory`` are checked: eager
    tensors live in main memory, and programs are placed by their executor.

    Raises:
        ProviderError: by the function, for another device, and for ``pin_memory``.
        NotOffered: by the function, for an ``out`` that ``Program.overwrite`` refuses.
    """
    positional, by_name = parameter_names(function)
    parameters = [*positional, *by_name]
    first = min(parameters.index(option) for option in _OPTIONS & {*parameters})

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) <= first and _OPTIONS.isdisjoint(kwargs):
            return function(*args, **kwargs)
        if len(args) > len(parameters):
            raise ArgumentTypeError(f"{call.__name__} takes {len(parameters)} arguments, not {len(args)}.")
        named = dict(zip(parameters, args)) | kwargs
        options = {option: named.pop(option) for option in _OPTIONS & {*parameters} if option in named}
        require_cpu(call.__name__, options.get("device"), options.get("pin_memory", False))
        result = function(**named)
        if options.get("requires_grad", False):
            result.stop_gradient = False
        out = options.get("out")
        return result if out is None else written(call.__name__, out, result)

    return cast(Function, call)


def require_cpu(function: str, device: Any, pin_memory: bool = False) -> None:
    """Refuse what is not main memory.

    Args:
        function: the name of the function that was called.
        device: a place, its name, or None.
        pin_memory: whether memory shall be pinned, which only copies to a GPU gain from.

    Raises:
        ProviderError: for another device, and for pinned memory.
        ArgumentError: for what names no device.
    """
    name = getattr(device, "device", device)
    if name is not None and name != "cpu":
        if isinstance(device, Place) or (isinstance(name, str) and name.split(":")[0] in ("gpu", "cuda", "xpu", "npu")):
            raise ProviderError(
                f"{function}: eager tensors are computed on the CPU, not on {device!r}. Run a program by Executor(CUDAPlace(0))."
            )
        raise ArgumentError(f"{function}: device is 'cpu' or CPUPlace(), not {device!r}.")
    if pin_memory:
        raise ProviderError(f"{function}: memory of the CPU is not pinned. Leave pin_memory out.")


def written(function: str, out: Any, result: Any) -> Any:
    """Write a result to ``out`` and return that; several results go to a tuple of as many.

    Args:
        function: the name of the function that was called.
        out: an eager tensor, or a variable of the program that the result is in.
        result: what the function computed.

    Raises:
        ArgumentTypeError: if ``out`` is no tensor.
        ArgumentError: if they are not as many, or not in one program.
        NotOffered: as ``Program.overwrite``.
    """
    if isinstance(result, (tuple, list)):
        outs = out if isinstance(out, (tuple, list)) else [out]
        if len(outs) != len(result):
            raise ArgumentError(f"{function}: out is a tuple of {len(result)} tensors, not {len(outs)}.")
        each = [written(function, *pair) for pair in zip(outs, result)]
        return type(result)(*each) if hasattr(result, "_fields") else type(result)(each)
    if not isinstance(out, Variable):
        raise ArgumentTypeError(f"{function}: out is a Tensor, not {type(out).__name__}.")
    if out.is_eager and result.is_eager:
        return cast("EagerTensor", out).turn_into(cast("EagerTensor", result))
    if out.block.program is not result.block.program:
        raise ArgumentError(
            f"{function}: out and the result are not in one program. Make out in that of the result, or leave it out."
        )
    return out.block.program.overwrite(out, result)
