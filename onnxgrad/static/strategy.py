"""Accept the options of Paddle's own compiler and devices, so that a script runs: they have no effect here.

Tests: tests/static/test_static.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from onnxgrad.core.ir.program import Program
from onnxgrad.core.runtime.places import CPUPlace, CUDAPlace
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import as_kind, checked

__all__ = ["BuildStrategy", "CompiledProgram", "ExecutionStrategy", "cpu_places", "cuda_places", "device_guard", "name_scope"]


class BuildStrategy:
    """Accept the options of Paddle's graph passes, as attributes. They have no effect: onnxruntime optimises graphs by itself.

    Any other attribute may be set as well.

    Example:
        >>> strategy = static.BuildStrategy()
        >>> strategy.fuse_all_optimizer_ops = True
    """

    class ReduceStrategy:
        """How ranks of Paddle's own executor share gradients."""

        AllReduce, Reduce, _NoReduce = range(3)

    class GradientScaleStrategy:
        """By what Paddle's own executor divides the loss of a device."""

        CoeffNumDevice, One, Customized = range(3)

    allow_cuda_graph_capture: bool
    build_cinn_pass: bool
    debug_graphviz_path: str
    enable_addto: bool
    enable_auto_fusion: bool
    enable_inplace: bool | None
    enable_sequential_execution: bool
    fix_op_run_order: bool
    fuse_all_optimizer_ops: bool
    fuse_all_reduce_ops: bool | None
    fuse_bn_act_ops: bool
    fuse_bn_add_act_ops: bool
    fuse_broadcast_ops: bool | None
    fuse_elewise_add_act_ops: bool
    fuse_gemm_epilogue: bool
    fuse_relu_depthwise_conv: bool
    fused_attention: bool
    fused_feedforward: bool
    gradient_scale_strategy: int
    memory_optimize: bool | None
    reduce_strategy: int
    remove_unnecessary_lock: bool
    sync_batch_norm: bool


class ExecutionStrategy:
    """Accept the options of Paddle's executor, as attributes. They have no effect.

    ``Executor(threads=...)`` sets the number of threads here. Any other attribute may be set as well.

    Example:
        >>> strategy = static.ExecutionStrategy()
        >>> strategy.num_threads = 4
    """

    allow_op_delay: bool
    num_iteration_per_drop_scope: int
    num_iteration_per_run: int
    num_threads: int
    use_thread_barrier: bool


class CompiledProgram:
    """Hold a program that ``Executor.run`` takes like the program itself.

    Args:
        program_or_graph: the program.
        build_strategy: accepted for compatibility.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.

    Example:
        >>> compiled = static.CompiledProgram(static.default_main_program(), build_strategy=static.BuildStrategy())
        >>> Executor().run(compiled)
        []
    """

    def __init__(self, program_or_graph: Program, build_strategy: BuildStrategy | None = None) -> None:
        self.program = as_kind(self, "program_or_graph", program_or_graph, Program)
        self.build_strategy = as_kind(self, "build_strategy", build_strategy, BuildStrategy | None) or BuildStrategy()


@checked
def cpu_places(device_count: int | None = None) -> list[CPUPlace]:
    """Return ``device_count`` times ``CPUPlace()``; by default the environment's ``CPU_NUM`` times, or once.

    Args:
        device_count: how many; that of the environment, or 1, unless given.
    """
    return [CPUPlace() for _ in range(device_count or int(os.environ.get("CPU_NUM", "1")))]


@checked
def cuda_places(device_ids: int | Sequence[int] | None = None) -> list[CUDAPlace]:
    """``CUDAPlace`` of these devices; of the first unless given.

    Args:
        device_ids: their numbers; 0 unless given.
    """
    ids = [0] if device_ids is None else [device_ids] if isinstance(device_ids, int) else list(device_ids)
    return [CUDAPlace(number) for number in ids]


@checked
@contextmanager
def name_scope(prefix: str | None = None) -> Iterator[None]:
    """Group operators under a label inside a ``with`` block. As in Paddle, names of variables do not change.

    Args:
        prefix: a str, which changes nothing.

    Raises:
        ArgumentTypeError: if the prefix is not a str.
    """
    as_kind("name_scope", "prefix", prefix, str | None)
    yield


@checked
@contextmanager
def device_guard(device: str | None = None) -> Iterator[None]:
    """Accepted inside a ``with`` block; the Executor's place decides where operators run.

    Args:
        device: a word, which changes nothing.

    Raises:
        ArgumentError: if it is not 'cpu', 'gpu', 'gpu:0', ... or 'gpu:all'.
    """
    device_type, _, index = (device or "cpu").partition(":")
    if device_type not in ("cpu", "gpu", "npu", "xpu") or (index and not (index.isdigit() or index == "all")):
        raise ArgumentError(f"device_guard takes 'cpu', 'gpu' or 'gpu:0', not {device!r}.")
    yield
