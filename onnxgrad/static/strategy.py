"""Accept the options of Paddle's own compiler and devices, so that a script runs: they have no effect here.

Tests: tests/static/test_static.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from onnxgrad.core.ir.program import Program
from onnxgrad.core.runtime.places import CPUPlace, CUDAPlace
from onnxgrad.errors import ArgumentError, ArgumentTypeError
from onnxgrad.internal.refusals import refused

__all__ = [
    "BuildStrategy", "CompiledProgram", "ExecutionStrategy", "IpuCompiledProgram", "IpuStrategy", "cpu_places", "cuda_places",
    "device_guard", "ipu_shard_guard", "name_scope", "set_ipu_shard", "xpu_places",
]  # fmt: skip

_IPU = ("onnxruntime's IPU provider was withdrawn", "Use CPUPlace() or CUDAPlace(i).")
IpuCompiledProgram = refused("static.IpuCompiledProgram", *_IPU)
IpuStrategy = refused("static.IpuStrategy", *_IPU)
ipu_shard_guard = refused("static.ipu_shard_guard", *_IPU)
set_ipu_shard = refused("static.set_ipu_shard", *_IPU)
xpu_places = refused("static.xpu_places", "onnxruntime has no provider for these devices", "Use cpu_places() or cuda_places().")


class BuildStrategy:
    """Options of Paddle's graph passes. Any attribute may be set; onnxruntime optimises graphs by itself."""

    class ReduceStrategy:
        AllReduce, Reduce, _NoReduce = range(3)

    class GradientScaleStrategy:
        CoeffNumDevice, One, Customized = range(3)


class ExecutionStrategy:
    """Options of Paddle's executor. Any attribute may be set; ``Executor(threads=...)`` sets the number of threads here."""


class CompiledProgram:
    """A program that ``Executor.run`` takes like the program itself.

    Example:
        >>> compiled = static.CompiledProgram(static.default_main_program(), build_strategy=static.BuildStrategy())
        >>> Executor().run(compiled)
        []
    """

    def __init__(self, program_or_graph: Program, build_strategy: BuildStrategy | None = None) -> None:
        if not isinstance(program_or_graph, Program):
            raise ArgumentTypeError(f"CompiledProgram takes a Program, not {type(program_or_graph).__name__}.")
        self.program = program_or_graph
        self.build_strategy = build_strategy or BuildStrategy()


def cpu_places(device_count: int | None = None) -> list[CPUPlace]:
    """Return ``device_count`` times ``CPUPlace()``; by default the environment's ``CPU_NUM`` times, or once."""
    return [CPUPlace() for _ in range(device_count or int(os.environ.get("CPU_NUM", "1")))]


def cuda_places(device_ids: int | Sequence[int] | None = None) -> list[CUDAPlace]:
    """``CUDAPlace`` of these devices; of the first unless given."""
    ids = [0] if device_ids is None else [device_ids] if isinstance(device_ids, int) else list(device_ids)
    return [CUDAPlace(number) for number in ids]


@contextmanager
def name_scope(prefix: str | None = None) -> Iterator[None]:
    """Group operators under a label inside a ``with`` block. As in Paddle, names of variables do not change.

    Raises:
        ArgumentTypeError: if the prefix is not a str.
    """
    if prefix is not None and not isinstance(prefix, str):
        raise ArgumentTypeError(f"name_scope takes a str, not {type(prefix).__name__}.")
    yield


@contextmanager
def device_guard(device: str | None = None) -> Iterator[None]:
    """Accepted inside a ``with`` block; the Executor's place decides where operators run.

    Raises:
        ArgumentError: if it is not 'cpu', 'gpu', 'gpu:0', ... or 'gpu:all'.
    """
    device_type, _, index = (device or "cpu").partition(":")
    if device_type not in ("cpu", "gpu", "npu", "xpu") or (index and not (index.isdigit() or index == "all")):
        raise ArgumentError(f"device_guard takes 'cpu', 'gpu' or 'gpu:0', not {device!r}.")
    yield
