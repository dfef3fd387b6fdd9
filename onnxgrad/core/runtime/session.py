"""Open onnxruntime sessions: the only module that does, with every switch that is set and the reason for it.

A session runs a graph (``open_graph``), a model that was written to a file or a message (``open_model``), or the same part of an
optimizer for piece after piece of its tensors (``open_part``). Whoever opens one names a place; which switches are set follows from
the operators.

Tests: tests/core/runtime/test_session.py, tests/core/runtime/test_saved.py, tests/core/runtime/test_quantized_files.py.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import onnx
from onnx import ModelProto, TensorProto, helper

from onnxgrad.core.compile import Graph, refusal
from onnxgrad.core.costs import COSTS
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.interop.optimised import restore_order
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.limits import bytes_needed
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import all_operators_of
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.denormals import OPTION, FloatingPointMode, can_flush
from onnxgrad.core.runtime.places import CPUPlace, Place
from onnxgrad.core.runtime.processor import has_integer_products, separate_bytes
from onnxgrad.core.runtime.stacks import Stack, stack_state
from onnxgrad.core.runtime.unsafe import unsafe_passes
from onnxgrad.core.state.values import device_of, use_device_copier
from onnxgrad.errors import ExecutionError, OnnxGradError, ProviderError
from onnxgrad.internal.processors import usable_cores

__all__ = ["RECORDS", "is_startup", "open_graph", "open_model", "open_part", "trains_state"]

RECORDS = "session.record_ep_graph_assignment_info"
"""The option with which onnxruntime notes which provider runs each operator."""
_SILENT = 4
"""The level from which on onnxruntime prints. Its errors are raised too; what it prints has the texts of a file as they are, with
characters that a terminal obeys."""
_LARGE = COSTS.count("session.largest_embedded_constant")
_MANY_OPERATORS = COSTS.count("session.most_operators_to_plan")
_LARGE_CONSTANTS = COSTS.count("session.largest_message")
_OUTSIDE_THE_ARENA = "session.use_device_allocator_for_initializers"
_PACKS_NOTHING = "session.disable_prepacking"
_PACKED_TYPES = {"int4", "uint4", "int8", "uint8"}
"""Types of weights that onnxruntime's operators on integers pack, and compute otherwise with where they are not packed."""
_SPINS_NO_MORE = "session.force_spinning_stop"
_ON_BYTES = ("DynamicQuantizeMatMul", "MatMulInteger", "QAttention", "QGemm", "QLinearConv", "QLinearMatMul")
"""Operators that onnxruntime computes as products of bytes, whose sums may saturate at 16 bits."""


def trains_state(graph: Graph) -> bool:
    """Whether a graph replaces state or computes gradients: denormal numbers are zero in it, and memory is planned otherwise."""
    return bool(graph.updates) or any(op.role is Role.BACKWARD for op in graph.operators)


def is_startup(graph: Graph) -> bool:
    """Whether a graph makes state from nothing, as a startup program does."""
    return bool(graph.updates) and not graph.inputs


def open_graph(
    graph: Graph,
    place: Place,
    threads: int | None = None,
    *,
    saved: Path | None = None,
    stops_spinning: bool = False,
    shares_memory: bool = False,
    is_training: bool | None = None,
    constants: Mapping[str, Any] | None = None,
    stacks: Sequence[Stack] = (),
    runs_once: bool = False,
) -> Any:
    """Open a session on a graph.

    Args:
        threads: within an operator; None for onnxruntime's choice.
        saved: a folder of graphs as onnxruntime has optimised them, where one is kept.
        stops_spinning: whether its threads rest when a run ends, as those of another session compute then.
        shares_memory: whether it takes its memory from one arena of the process.
        is_training: whether it is part of a training step, where others compute its gradients; None to see that by the graph.
        constants: the weights among its initializers by name, which it reads where they lie, and the caller keeps alive.
        stacks: of state, which the session reads and returns in place of that state.
        runs_once: whether no run follows the first one, which repays no copy of weights: constants are neither folded nor, in
            products of float numbers, packed.

    Raises:
        ExecutionError: with onnxruntime's reason, if it refuses the graph.
        ProviderError: if the device's provider is not installed or does not start.
    """
    switches = _switches(graph.program.global_block(), trains_state(graph) if is_training is None else is_training)
    options = _options(switches, threads, stops_spinning)
    if shares_memory:
        _share_arena(options)
    if runs_once and not any(v.dtype.name in _PACKED_TYPES for v in graph.initializers):
        options.add_session_config_entry(_PACKS_NOTHING, "1")
    if place.captures:
        options.add_session_config_entry(RECORDS, "1")
    providers = place.add_to(options, threads, saved)
    weights = [v for v in graph.initializers if constants is not None and v.name in constants]
    large = _external_constants(graph, weights)
    apart = [*large, *weights]
    # The options refer to them, and do not hold them.
    values = [*_values_of(large), *(constants[v.name] for v in weights if constants is not None)]
    if weights:
        # An arena that doubles holds up to twice what is packed.
        options.add_session_config_entry(_OUTSIDE_THE_ARENA, "1")
    if apart:
        options.add_external_initializers([v.name for v in apart], values)
        saved = None
    unsafe = unsafe_passes(graph.operators)
    if runs_once or is_startup(graph):
        unsafe = [*unsafe, "ConstantFolding"]  # it would hold all state once more
    try:
        model = write_model(graph, embeds=True, apart=apart)
        if switches.saturates:
            separate_bytes(model)
        if stacks:
            stack_state(model, stacks)
        message = model.SerializeToString()
        if saved is not None and providers is not None and place.lowering == "cpu":
            session = _open_saved(message, options, providers, saved, unsafe)
        else:
            session = _open(message, options, providers, unsafe)
    except Exception as error:
        raise ExecutionError(refusal(graph, place.lowering, error)) from error
    del values
    _check_started(session, place)
    return session


def open_part(message: ModelProto, graph: Graph, place: Place, threads: int | None, *, in_pieces: bool) -> Any:
    """Open a session for a part of what applies gradients: its graph, as a message whose sizes may be left open.

    One for pieces keeps the memory that it has used, and each of its runs is one thread's.
    """
    switches = _switches(graph.program.global_block(), is_training=True)
    options = _options(switches, 1 if in_pieces else threads, stops_spinning=True)
    options.enable_cpu_mem_arena = in_pieces
    return _open(message.SerializeToString(), options, place.providers(), unsafe_passes(graph.operators))


def open_model(model: ModelProto | bytes | str | Path, place: Place | None = None, threads: int | None = None) -> Any:
    """Open a session on a model that was written: a step in files, an export.

    Args:
        model: a message, its bytes, or the path of a file, which may lie beside others that hold its weights.
        place: None for the CPU.

    Raises:
        ExecutionError: with onnxruntime's reason, if it refuses the model, or if it is none.
        ProviderError: if the device's provider is not installed or does not start.
    """
    place = place or CPUPlace()
    try:
        program = _program_of(model)
        block = program.global_block()
        switches = _switches(block, is_training=any(op.role is not Role.FORWARD for op in block.ops))
        options = _options(switches, threads, stops_spinning=False)
        providers = place.add_to(options, threads, None)
        session = _open(_source_of(model, switches), options, providers, unsafe_passes(block.ops))
    except OnnxGradError:
        raise
    except Exception as error:
        name = repr(str(model)) if isinstance(model, (str, Path)) else "the model"
        raise ExecutionError(f"onnxruntime refuses {name}: {error}. Write the file again.") from error
    _check_started(session, place)
    return session


def _program_of(model: ModelProto | bytes | str | Path) -> Program:
    """A model as a program without the content of weights in other files; without operators where only onnxruntime reads it"""
    if isinstance(model, ModelProto):
        copy = ModelProto()
        copy.CopyFrom(model)
    elif isinstance(model, bytes):
        copy = onnx.load_from_string(model)
    else:
        copy = onnx.load(str(model), load_external_data=False)
    inputs = {entry.name for entry in copy.graph.input}
    for tensor in [tensor for tensor in copy.graph.initializer if tensor.data_location == TensorProto.EXTERNAL]:
        copy.graph.initializer.remove(tensor)
        if tensor.name not in inputs:
            copy.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    try:
        return from_onnx(copy, parameters=[])
    except OnnxGradError:
        return Program()


def _source_of(model: ModelProto | bytes | str | Path, switches: _Switches) -> bytes | str:
    """The model that onnxruntime reads: the file where it lies, unless it has to be changed"""
    if switches.saturates:
        message = model if isinstance(model, ModelProto) else None
        if message is None:
            message = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(str(model))
        separate_bytes(message)
        changed: bytes = message.SerializeToString()
        return changed
    if isinstance(model, ModelProto):
        written: bytes = model.SerializeToString()
        return written
    return model if isinstance(model, bytes) else str(model)


# Switches --------------------------------------------------------------------------------------------------------------


class _Switches(NamedTuple):
    """The session options of onnxruntime that the operators of a graph need.

    Attributes:
        is_training: whether the session replaces state or computes gradients.
        is_long: whether there are so many that reusing memory is planned for too long.
        leaves_quantized: whether products of dequantised tensors are to stay products of floats.
        saturates: whether products of bytes would overflow 16 bits on this processor.
    """

    is_training: bool
    is_long: bool
    leaves_quantized: bool
    saturates: bool


def _switches(block: Block, is_training: bool) -> _Switches:
    quantizers = [op.inputs[1] for op in all_operators_of(block) if op.type == "QuantizeLinear"]
    by_channel = any(scale is not None and scale.static_shape not in ((), (1,)) for scale in quantizers)
    types = {op.type for op in block.ops}
    is_slow = not has_integer_products()
    return _Switches(
        is_training=is_training,
        is_long=len(block.ops) > _MANY_OPERATORS,
        # Fused operators on integers take one scale only, and round otherwise than the operators that gradients are of; on some
        # processors their sums saturate at 16 bits.
        leaves_quantized=by_channel or (is_training and bool(quantizers)) or ("DequantizeLinear" in types and is_slow),
        saturates=is_slow and not types.isdisjoint(_ON_BYTES),
    )


def _options(switches: _Switches, threads: int | None, stops_spinning: bool) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = _SILENT
    if switches.is_training:
        # Measured: with the memory pattern on, a training step holds its first arena and the planned block, a third more.
        options.enable_mem_pattern = False
        if can_flush():
            options.add_session_config_entry(OPTION, "1")
    if switches.is_long:
        # Up to 1.28, the planner compares each result with every buffer that is free: 7,000 operators open in 10 seconds
        # instead of 1. The arena gives the same memory to later results anyway; the measured peaks are equal.
        options.enable_mem_reuse = False
    if stops_spinning:
        # The threads of one session must not wait busily while another's compute.
        options.add_session_config_entry(_SPINS_NO_MORE, "1")
    if threads is None and usable_cores() < (os.cpu_count() or 1):
        # onnxruntime counts the cores of the machine, those too that this process is not bound to or has no time of.
        threads = usable_cores()
    if threads is not None:
        options.intra_op_num_threads = threads
    if switches.leaves_quantized:
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    if switches.saturates:
        options.add_session_config_entry("session.x64quantprecision", "1")
    return options


def _share_arena(options: Any) -> None:
    """Let a session take its memory from one arena of the process, so that one reuses what another has given back."""
    _register_arena()
    options.add_session_config_entry("session.use_env_allocators", "1")


@cache
def _register_arena() -> None:
    import onnxruntime

    memory = onnxruntime.OrtMemoryInfo("Cpu", onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, onnxruntime.OrtMemType.DEFAULT)
    with suppress(RuntimeError):  # somebody has registered one
        onnxruntime.create_and_register_allocator(memory, None)


def _external_constants(graph: Graph, weights: Sequence[Variable]) -> list[Variable]:
    """Large constants of a graph that would be too large as a message: onnxruntime takes them from where they lie"""
    given = set(weights)
    sizes = {v: bytes_needed(v.dtype, v.value.shape) for v in graph.initializers if v.value is not None and v not in given}
    if sum(sizes.values()) <= _LARGE_CONSTANTS:
        return []
    return [v for v, size in sizes.items() if size > _LARGE and v.dtype.bits >= 8 and v.dtype.name != "string"]


def _values_of(constants: list[Variable]) -> list[Any]:
    import onnxruntime

    return [onnxruntime.OrtValue.ortvalue_from_numpy(v.value.numpy()) for v in constants if v.value is not None]


# Opening ---------------------------------------------------------------------------------------------------------------


def _open(source: bytes | str, options: Any, providers: list[Any] | None, unsafe: list[str]) -> Any:
    """A session on a message or a file, without some passes of onnxruntime's optimiser."""
    import onnxruntime

    # The option for denormal numbers would change the mode of this thread for good.
    with FloatingPointMode(flushes=False):
        return onnxruntime.InferenceSession(source, options, providers=providers, disabled_optimizers=unsafe)


def _open_saved(message: bytes, options: Any, providers: list[Any], folder: Path, unsafe: list[str]) -> Any:
    """A session on ``message``, from the file that an earlier call left in ``folder`` if there is one.

    The file holds what the extended level of onnxruntime makes of the graph for these providers, which does not depend on the
    machine, and is opened without optimisation; ``unsafe`` passes are left out. Its name is a hash of the message, onnxruntime's
    version and the providers.
    """
    import hashlib  # OpenSSL, which takes 2 ms
    import tempfile

    import onnxruntime

    key = hashlib.sha256("\0".join([onnxruntime.__version__, repr(providers), ""]).encode() + message).hexdigest()[:32]
    path = folder / f"{key}.onnx"
    levels = onnxruntime.GraphOptimizationLevel
    if path.is_file():
        options.graph_optimization_level = levels.ORT_DISABLE_ALL
        try:
            return _open(str(path), options, providers, [])
        except Exception:
            path.unlink(missing_ok=True)
    options.graph_optimization_level = levels.ORT_ENABLE_EXTENDED
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            written = Path(scratch) / path.name
            options.optimized_model_filepath = str(written)
            session = _open(message, options, providers, unsafe)
            restore_order(written)
            os.replace(written, path)
            return session
    except Exception:
        # Either onnxruntime refuses the graph, and says so again, or the folder cannot be written: then nothing is kept in it.
        options.optimized_model_filepath = ""
        return _open(message, options, providers, unsafe)


def _check_started(session: Any, place: Place) -> None:
    if place.device == "cuda" and "CUDAExecutionProvider" not in session.get_providers():
        raise ProviderError(
            "onnxruntime could not start CUDA and would silently compute on the CPU. "
            "Install CUDA and cuDNN in the versions that it names, or use CPUPlace()."
        )


# Copies from a device --------------------------------------------------------------------------------------------------


def _in_main_memory(value: Any) -> Any:
    """A copy of an OrtValue whose type Python's interface does not hand over: what a session that does nothing returns."""
    device, index = device_of(value)
    session = _identity(value.element_type(), device, index)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", value)
    binding.bind_output("y", "cpu")
    session.run_with_iobinding(binding)
    return binding.get_outputs()[0]


use_device_copier(_in_main_memory)


@cache
def _identity(number: int, device: str, index: int) -> Any:
    import onnxruntime

    x, y = (helper.make_tensor_value_info(name, number, None) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "identity", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    providers = [(f"{device.upper()}ExecutionProvider", {"device_id": str(index)} if index else {})]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _SILENT
    return _open(model.SerializeToString(), options, providers, [])
