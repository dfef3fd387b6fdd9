"""One onnxruntime session per program version, fetch list and device."""

from __future__ import annotations

import weakref
from math import prod
from pathlib import Path
from typing import Any

from onnxgrad.errors import ExecutionError
from onnxgrad.interop.onnx_export import Graph, build_graph, write_model
from onnxgrad.ir.operator import Role
from onnxgrad.ir.order import order_for_memory
from onnxgrad.ir.program import Program
from onnxgrad.ir.types import TensorType
from onnxgrad.ir.variable import Variable
from onnxgrad.lowering.cpu import lower_for_cpu
from onnxgrad.lowering.cuda import lower_for_cuda
from onnxgrad.passes.lift import lift
from onnxgrad.runtime.lane import Lane
from onnxgrad.runtime.places import Place
from onnxgrad.runtime.saved import open_session

__all__ = ["Prepared", "SessionCache", "prepare"]

_QUIET = 3
_LARGE = 4096
_PLAIN = ("float32", "float64", "float16", "int32", "int64")


def _size(v: Variable) -> int:
    """Elements of a tensor of known shape whose type numpy has; 0 for any other."""
    shape = v.static_shape
    return prod(shape) if shape is not None and v.dtype.name in _PLAIN else 0


def _room(v: Variable, device: str, index: int) -> Any:
    import onnxruntime

    return onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(v.static_shape or ()), v.dtype.numpy, device, index)


class Prepared:
    """A session and what flows in and out of it."""

    __slots__ = (
        "_lanes",
        "_place",
        "feeds",
        "fetch_names",
        "replaced",
        "session",
        "small_fetches",
        "state_inputs",
        "state_outputs",
    )

    def __init__(self, session: Any, graph: Graph, fetches: list[Variable], place: Place) -> None:
        self.session = session
        self._place = place
        self.feeds = [v for v in graph.inputs if not v.persistable]
        self.state_inputs = [v for v in graph.inputs if v.persistable]
        self.fetch_names = [graph.name(v) for v in fetches]
        updates = graph.program.updates
        self.state_outputs = [(v, graph.name(new)) for v, new in updates.items()]
        self.replaced = [(v.name, name) for v, name in self.state_outputs]
        self.small_fetches = self._small_fetches(fetches) if self._takes_turns else {}
        self._lanes: list[Lane] = []

    @property
    def _takes_turns(self) -> bool:
        return bool(self.state_inputs and self.state_outputs)

    def next_lane(self) -> Lane:
        """The binding of the next run. A training step has two that take turns; anything else gets a new one each time."""
        if not self._takes_turns:
            return self._new_lane()
        if not self._lanes:
            self._lanes.append(self._new_lane())
            self._lanes[0].write_to(self._large_state())
        elif len(self._lanes) == 1:
            self._lanes.append(self._new_lane())
            places = {id(v): place for place, v in enumerate(self.state_inputs)}
            replaced = {name: places[id(v)] for v, name in self.state_outputs if id(v) in places}
            self._lanes[1].write_to(self._lanes[0].left_behind(replaced))
        else:
            self._lanes.reverse()
        return self._lanes[-1]

    def _large_state(self) -> dict[str, Any]:
        """Room for the new values of large state variables, by output.

        Allocated by onnxruntime within a run they would stand between activations for good: a decoder held a fifth more.
        """
        large = [(v, name) for v, name in self.state_outputs if _size(v) >= _LARGE and name not in self.fetch_names]
        return {name: _room(v, self._place.device, self._place.index) for v, name in large}

    def _small_fetches(self, fetches: list[Variable]) -> dict[str, Any]:
        """Room for small fetches that are no state, by output."""
        state = {name for _, name in self.replaced}
        small = [(v, n) for v, n in zip(fetches, self.fetch_names, strict=True) if 0 < _size(v) < _LARGE and n not in state]
        return {name: _room(v, "cpu", 0) for v, name in small}

    def forget_lanes(self) -> None:
        self._lanes.clear()

    def _new_lane(self) -> Lane:
        names = [output.name for output in self.session.get_outputs()]
        kept = {name for v, name in self.state_outputs if v.static_shape is not None} - set(self.fetch_names)
        state = {name for _, name in self.state_outputs}
        return Lane(self.session.io_binding(), [v.name for v in self.state_inputs], names, state, kept)


def prepare(
    program: Program, fetches: list[Variable], place: Place, threads: int | None = None, saved: Path | None = None
) -> Prepared:
    """Build the graph for these fetches and open a session on it; ``saved`` is a folder of optimised graphs.

    Raises:
        ExecutionError: with onnxruntime's reason, if it refuses the graph.
    """
    import onnxruntime

    if (program.opset_version() or 1) > 26:
        lift(program)
    graph = build_graph(program, fetches, state_as_inputs=True)
    providers = place.providers()
    if place.device == "cuda":
        lower_for_cuda(graph)
    elif program.updates:
        lower_for_cpu(graph)
    graph.operators = order_for_memory(graph.operators, graph.name)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _QUIET
    if program.updates or any(op.role is Role.BACKWARD for op in graph.operators):
        # Measured: with the memory pattern on, a training step holds its first arena and the planned block, a third more.
        options.enable_mem_pattern = False
    if threads is not None:
        options.intra_op_num_threads = threads
    message = write_model(graph).SerializeToString()
    try:
        if saved is not None and place.device == "cpu":
            session = open_session(message, options, providers, saved)
        else:
            session = onnxruntime.InferenceSession(message, options, providers=providers)
    except Exception as error:
        raise ExecutionError(_refusal(graph, place, error)) from error
    return Prepared(session, graph, fetches, place)


def _refusal(graph: Graph, place: Place, error: Exception) -> str:
    """What to say when onnxruntime does not open a session"""
    results = (v for op in graph.operators for v in op.outputs if v is not None and isinstance(v.type, TensorType))
    if place.device == "cpu" and any(v.dtype.name == "bfloat16" for v in results):
        return f"onnxruntime's processor does not compute in bfloat16: {error}. Use dtype='float16', or a CUDAPlace."
    return f"onnxruntime refuses the program: {error}"


class SessionCache:
    """Sessions of one Executor; those of an older version of a program are dropped."""

    def __init__(self, saved: Path | None = None) -> None:
        self.saved = saved
        self._by_program: weakref.WeakKeyDictionary[Program, tuple[int, dict[Any, Prepared]]] = weakref.WeakKeyDictionary()

    def get(self, program: Program, fetches: list[Variable], place: Place, threads: int | None) -> Prepared:
        version, sessions = self._by_program.get(program, (-1, {}))
        if version != program.version:
            sessions = {}
        key = (tuple(map(id, fetches)), place)
        found = sessions.get(key)
        if found is None:
            found = prepare(program, fetches, place, threads, self.saved)
            sessions[key] = found
            self._by_program[program] = (program.version, sessions)
        return found

    def clear(self) -> None:
        self._by_program.clear()
