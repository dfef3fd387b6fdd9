"""Training steps as CUDA graphs: a run reads and writes where it did when its graph was captured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.ir.traits import CONTROL_FLOW, RANDOM
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.providers.products.device_scalars import HOST_OPERANDS
from onnxgrad.core.runtime.binding import DoubleBinding, StateOutput
from onnxgrad.core.runtime.places import Place
from onnxgrad.core.state.buffers import Buffer
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.state.values import array_of, copy_into

__all__ = ["CapturedBinding", "host_operators", "reason_against"]

_MOST = COSTS.count("capture.most_graphs")
"""Graphs of a session; each holds its kernels' arguments for as long as the session lives."""
_LARGE = COSTS.count("capture.largest_copied_state")


def reason_against(graph: Graph) -> str | None:
    """Why a step cannot be replayed as a CUDA graph; None where it can, as far as the graph tells."""
    inputs = set(graph.inputs)
    for op in graph.operators:
        if op.type in CONTROL_FLOW:
            return f"{op.type} decides on the host"
        if op.type in RANDOM:
            return f"{op.type} would draw the same numbers in each replay"
        if any(v is not None and not (isinstance(v.type, TensorType) and v.static_shape is not None) for v in op.outputs):
            return f"the size of the result of {op.type} is not known"
        if op.type in HOST_OPERANDS and any(v in inputs for v in op.inputs[1:] if v is not None):
            return f"{op.type} reads an input on the host"
    unknown = [v.name for v in inputs if v.static_shape is None]
    return f"the size of {unknown[0]!r} is not known" if unknown else None


def host_operators(session: Any) -> list[str] | None:
    """Operators of a session that do not run on its device; None where onnxruntime is too old to say."""
    ask = getattr(session, "get_provider_graph_assignment_info", None)
    if ask is None:
        return None
    return [node.op_type for part in ask() if part.ep_name == "CPUExecutionProvider" for node in part.get_nodes()]


class CapturedBinding(DoubleBinding):
    """A DoubleBinding whose runs onnxruntime captures once and replays.

    A replay uses the addresses of its capture. So feeds, fetches and small state that the step only reads have memory here that
    values are copied to and from; state that it replaces lies in the memory of two sides in turn, hence there are two graphs. Where
    state lies elsewhere, as somebody has set or holds it, a further graph is captured; after a few of them, runs are plain.

    Args:
        session, inputs, outputs, replaced, small, place: as for DoubleBinding; ``small`` are all fetches that are no state.
        numbers: of the graphs of this session.
    """

    def __init__(
        self,
        session: Any,
        inputs: Sequence[str],
        outputs: Sequence[str],
        replaced: Sequence[StateOutput],
        small: Sequence[Variable],
        place: Place,
        numbers: Iterator[int],
    ) -> None:
        super().__init__(session, inputs, outputs, replaced, small, place)
        self._numbers = numbers
        self._written_names = {state.name for state in replaced}
        self._buffers: dict[str, Any] = {}
        self._elsewhere: dict[str, Any] = {}
        self._graphs: dict[tuple[int, ...], Any] = {}
        self._is_lent = False

    def outdated(self, scope: Scope) -> list[int]:
        side, left = self._sides[0], []
        for index in super().outdated(scope):
            value = scope.present(self._inputs[index])
            name = self._inputs[index]
            if isinstance(value, Buffer) and name in self._written_names and not scope.is_alone(name, value):
                # As equal constants of a startup program are: in memory of its own later steps write to where this one reads.
                value = Buffer(self._place.value(array_of(value.value)), memory=self._place.memory)
                scope.put(self._inputs[index], value)
            if isinstance(value, np.ndarray) and self._keeps(index, value.size):
                self._copy(self._inputs[index], value)
                side.read[index] = value
            else:
                left.append(index)
        return left

    def read(self, index: int, buffer: Buffer) -> None:
        if self._keeps(index, prod(buffer.value.shape())):
            self._copy(self._inputs[index], array_of(buffer.value))
            self._sides[0].read[index] = buffer
        else:
            super().read(index, buffer)

    def feed(self, name: str, value: Any) -> None:
        is_array = isinstance(value, np.ndarray)
        if is_array or (value.device_name() == "cpu" and self._place.device != "cpu"):
            self._copy(name, value if is_array else array_of(value))
        else:
            self.binding.bind_ortvalue_input(name, value)
            self._elsewhere[name] = value

    def run_options(self) -> Any:
        side = self._sides[0]
        read = [b.value for i, b in enumerate(side.read) if isinstance(b, Buffer) and not self._keeps(i, prod(b.value.shape()))]
        values = [*read, *(b.value for b in side.written.values()), *self._elsewhere.values()]
        key = tuple(value.data_ptr() for value in values)
        if key in self._graphs and not self._is_lent:
            return self._graphs[key]
        number = -1 if self._is_lent else next(self._numbers)
        if number > _MOST:
            number = -1
        options = _options(number)
        if number > 0:
            self._graphs[key] = options
        return options

    def _keeps(self, index: int, size: int) -> bool:
        return size <= _LARGE and self._inputs[index] not in self._written_names

    def _copy(self, name: str, array: Any) -> None:
        """Into the memory of an input here."""
        buffer = self._buffers.get(name)
        if buffer is None or self._elsewhere.pop(name, None) is not None:
            buffer = self._buffers[name] = self._place.room(array.shape, array.dtype)
            for side in self._sides:
                side.binding.bind_ortvalue_input(name, buffer)
        copy_into(buffer, array)

    def _bind_small(self, side: Any, return_numpy: bool) -> None:
        """Fetches have memory here; what callers keep on the device is theirs."""
        self._is_lent = not return_numpy and bool(self._small)
        for v in self._small:
            buffer = None if self._is_lent else self._buffers.get(v.name)
            if buffer is None:
                buffer = self._place.room(v.static_shape or (), v.dtype.numpy)
                if not self._is_lent:
                    self._buffers[v.name] = buffer
            if side.small.get(v.name) is not buffer:
                side.small[v.name] = buffer
                side.binding.bind_ortvalue_output(v.name, buffer)
                side.outputs[v.name] = None


def _options(number: int) -> Any:
    import onnxruntime

    options = onnxruntime.RunOptions()
    options.add_run_config_entry("gpu_graph_id", str(number))
    return options
