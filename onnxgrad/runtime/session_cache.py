"""One onnxruntime session per program version, fetch list and device."""

from __future__ import annotations

import weakref
from contextlib import nullcontext
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from onnxgrad.errors import ExecutionError, ProviderError
from onnxgrad.interop.onnx_export import Graph, build_graph, write_model
from onnxgrad.ir.operator import Role
from onnxgrad.ir.order import order_for_memory
from onnxgrad.ir.program import Program
from onnxgrad.ir.sizes import with_sizes
from onnxgrad.ir.types import TensorType
from onnxgrad.ir.variable import Variable
from onnxgrad.lowering.cpu import lower_for_cpu
from onnxgrad.lowering.cuda import lower_for_cuda
from onnxgrad.passes.lift import lift
from onnxgrad.runtime.lane import Lane
from onnxgrad.runtime.places import Place
from onnxgrad.runtime.saved import open_session

__all__ = ["Prepared", "SessionCache", "prepare"]

Shapes: TypeAlias = "tuple[tuple[str, tuple[int, ...]], ...]"
"""Names of inputs and their shapes."""

_QUIET = 3
_LARGE = 4096
_MUCH = 2**22
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
    def holds_much(self) -> bool:
        """Whether its state is so large that a copy more is noticed."""
        return sum(_size(v) for v in self.state_inputs) >= _MUCH

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

        Allocated by onnxruntime within a run they would stand between activations for good: 3 % of a decoder's peak.
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
    program: Program,
    fetches: list[Variable],
    place: Place,
    threads: int | None = None,
    saved: Path | None = None,
    shapes: Shapes = (),
) -> Prepared:
    """Build the graph for these fetches and open a session on it.

    Args:
        saved: a folder of optimised graphs.
        shapes: of inputs whose dimensions are not all known; the session is then for these alone.

    Raises:
        ExecutionError: with onnxruntime's reason, if it refuses the graph.
        ProviderError: if the device's provider is not installed or does not start.
    """
    if (program.opset_version() or 1) > 26:
        lift(program)
    graph, version = build_graph(program, fetches, state_as_inputs=True), program.version
    known = dict(shapes)
    with with_sizes(graph.operators, lambda v: known.get(v.name, v.dims or ())) if known else nullcontext():
        if place.device == "cuda":
            lower_for_cuda(graph)
        elif program.updates:
            lower_for_cpu(graph)
        graph.operators = order_for_memory(graph.operators, graph.name)
        # The constants of these forms change nothing for other sessions of the program.
        program.version = version
        session = _open(graph, place, threads, saved, stops_spinning=bool(known))
        return Prepared(session, graph, fetches, place)


def _open(graph: Graph, place: Place, threads: int | None, saved: Path | None, stops_spinning: bool) -> Any:
    import onnxruntime

    providers = place.providers()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _QUIET
    if graph.program.updates or any(op.role is Role.BACKWARD for op in graph.operators):
        # Measured: with the memory pattern on, a training step holds its first arena and the planned block, a third more.
        options.enable_mem_pattern = False
    if stops_spinning:
        # The threads of one session must not wait busily while another's compute.
        options.add_session_config_entry("session.force_spinning_stop", "1")
    if threads is not None:
        options.intra_op_num_threads = threads
    message = write_model(graph).SerializeToString()
    try:
        if saved is not None and place.device == "cpu":
            return open_session(message, options, providers, saved)
        session = onnxruntime.InferenceSession(message, options, providers=providers)
    except Exception as error:
        raise ExecutionError(_refusal(graph, place, error)) from error
    if place.device == "cuda" and "CUDAExecutionProvider" not in session.get_providers():
        raise ProviderError(
            "onnxruntime could not start CUDA and would compute on the processor, without a word. "
            "Install CUDA and cuDNN in the versions that it names, or use CPUPlace()."
        )
    return session


def _refusal(graph: Graph, place: Place, error: Exception) -> str:
    """What to say when onnxruntime does not open a session"""
    results = (v for op in graph.operators for v in op.outputs if v is not None and isinstance(v.type, TensorType))
    if place.device == "cpu" and any(v.dtype.name == "bfloat16" for v in results):
        return f"onnxruntime's processor does not compute in bfloat16: {error}. Use dtype='float16', or a CUDAPlace."
    return f"onnxruntime refuses the program: {error}"


class _Sessions:
    """The sessions of one version of a program."""

    def __init__(self, program: Program, place: Place) -> None:
        self.version = program.version
        self.prepared: dict[Any, Prepared] = {}
        self.open = _open_inputs(program) if place.device == "cpu" and program.updates else []
        """Inputs whose shapes make a training step faster when they are known."""
        self.last: Prepared | None = None

    def shapes_of(self, feed: dict[str, Any]) -> Shapes:
        """The shapes of these inputs; none if one does not fit its declaration, which is an error that is found later."""
        found = []
        for v in self.open:
            shape, dims = np.asarray(feed.get(v.name, 0)).shape, v.dims or ()
            if len(shape) != len(dims) or not all(n == d for n, d in zip(shape, dims, strict=True) if isinstance(d, int)):
                return ()
            found.append((v.name, tuple(map(int, shape))))
        return tuple(found)

    def use(self, prepared: Prepared) -> Prepared:
        """Let go the state that another session holds, if it is large; both would hold two copies."""
        if self.last is not None and self.last is not prepared and self.last.holds_much:
            self.last.forget_lanes()
        self.last = prepared
        return prepared


def _open_inputs(program: Program) -> list[Variable]:
    """Inputs with unknown dimensions, if the program convolves images whose number is unknown."""
    convolves = any(op.type == "Conv" and not op.domain and _is_open_image(op.inputs[0]) for op in program.global_block().ops)
    return [v for v in program.inputs if v.dims is not None and v.static_shape is None] if convolves else []


def _is_open_image(v: Variable | None) -> bool:
    dims = None if v is None else v.dims
    return dims is not None and len(dims) == 4 and not isinstance(dims[0], int)


class SessionCache:
    """Sessions of one Executor; those of an older version of a program are dropped."""

    def __init__(self, saved: Path | None = None, shapes: int = 0) -> None:
        self.saved = saved
        self.shapes = shapes
        self._by_program: weakref.WeakKeyDictionary[Program, _Sessions] = weakref.WeakKeyDictionary()

    def get(self, program: Program, fetches: list[Variable], place: Place, threads: int | None, feed: dict[str, Any]) -> Prepared:
        """The session for these fetches; for the first few shapes of the feed one each, where that makes it faster."""
        sessions = self._by_program.get(program)
        if sessions is None or sessions.version != program.version:
            sessions = _Sessions(program, place)
        key = (tuple(map(id, fetches)), place)
        shapes = sessions.shapes_of(feed) if self.shapes else ()
        if shapes and (key, shapes) not in sessions.prepared:
            own = sum(other == key and bool(known) for other, known in sessions.prepared)
            shapes = shapes if own < self.shapes else ()
        found = sessions.prepared.get((key, shapes))
        if found is None:
            found = prepare(program, fetches, place, threads, self.saved, shapes)
            sessions.prepared[key, shapes] = found
            sessions.version = program.version
            self._by_program[program] = sessions
        return sessions.use(found)

    def clear(self) -> None:
        self._by_program.clear()
