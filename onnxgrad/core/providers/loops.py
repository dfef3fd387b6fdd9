"""Write out loops of a known number of steps, the body once for each, for a provider that runs loops slowly or not at all.

The steps of a gradient read what the forward steps computed, so nothing is stacked where nobody reads it as a whole.

Tests: tests/core/providers/test_loops.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.graph.contract import OPENVINO_FORMS, GraphPass, Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.rewriting import name_results, stage_builder
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.copying import copy_operators
from onnxgrad.core.ir.infer import infer_leniently
from onnxgrad.core.ir.known import entries_of
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.traits import CONTROL_FLOW, RANDOM
from onnxgrad.core.ir.traverse import captured_variables, dependent_operators
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable

__all__ = ["written_out"]

_FIRST_SCAN = 9
"""The opset from which a Scan has no batch of its own."""
_MOST_OPERATORS = 10_000
"""That all loops of a graph have when they are written out: a session of 9,000 takes 12 seconds to open, for 0.02 a step gained."""


def written_out(least: int = 0) -> GraphPass:
    """Write out all loops of a graph where some weight that a step reads has so many elements; or none, if one has to stay.

    A provider that takes no loops takes no graph that has one left.
    """

    def run(graph: Graph, target: Target) -> int:
        return _write_out(graph, least)

    def when(graph: Graph, target: Target) -> bool:
        return not CONTROL_FLOW.isdisjoint(graph.types())

    return Pass("written_out_loops", run, when=when, gain=OPENVINO_FORMS)


def _write_out(graph: Graph, least: int) -> int:
    loops = _loops_of(graph)
    if not all(loops.values()) or sum(steps * len(op.attrs["body"].ops) for op, steps in loops.items()) > _MOST_OPERATORS:
        return 0
    if max(_largest_weight(op) for op in loops) < least:
        return 0
    writer = _Writer(graph)
    operators: list[Operator] = []
    for op in graph.operators:
        operators += writer.write(op, loops[op]) if op in loops else [op]
    graph.operators = operators
    return len(loops)


def _loops_of(graph: Graph) -> dict[Operator, int]:
    """The operators with bodies, and the number of their steps; 0 for one that has to stay.

    The gradient of a Loop takes as many steps as its tape is long, which is known once those of the Loop are.
    """
    loops: dict[Operator, int] = {}
    longer: set[Variable] = set()
    fed = set(graph.inputs)
    for op in graph.operators:
        if not longer.isdisjoint(op.inputs):
            infer_leniently(op)
            longer.update(v for v in op.outputs if v is not None)
        if op.type not in CONTROL_FLOW or op.domain:
            continue
        loops[op] = steps = _steps_of(op, fed)
        if op.type == "Loop" and steps:
            for v in op.outputs[_states_of(op) :]:
                if v is not None and isinstance(v.type, TensorType) and v.type.dims is not None:
                    v.type = TensorType(v.type.dtype, (steps, *v.type.dims[1:]))
                    longer.add(v)
    return loops


def _largest_weight(loop: Operator) -> int:
    """Elements of the largest matrix of the graph that a product in a loop reads; 0 where none has a known shape."""
    products = (op for op in loop.attrs["body"].ops if op.type in ("Gemm", "MatMul") and not op.domain)
    outside = set(captured_variables(loop))
    return max(
        (prod(v.static_shape or (0,)) for op in products for v in op.inputs[:2] if v in outside and v is not None), default=0
    )


def _steps_of(op: Operator, fed: set[Variable]) -> int:
    """The number of steps of a Scan or a Loop that can be written out; 0 where it is unknown, or the body cannot be copied."""
    if op.type not in ("Loop", "Scan"):
        return 0
    body: Block = op.attrs["body"]
    if not all(map(_is_plain, body.ops)) or (op.block.program.opset_version() or 1) < _FIRST_SCAN:
        return 0
    if op.type == "Scan":
        steps = _length(op)
    else:
        if not _runs_on(body) or any(v is None or not isinstance(v.type, TensorType) for v in (*op.inputs[2:], *body.outputs)):
            return 0
        count, going_on = op.inputs[:2]
        if count in fed or going_on in fed or (going_on is not None and entries_of(going_on) != (True,)):
            return 0
        steps = (entries_of(count) or (None,))[0]
    return steps if isinstance(steps, int) and steps > 0 else 0


def _is_plain(op: Operator) -> bool:
    """Whether an operator may be computed once more elsewhere."""
    return (
        op.type not in RANDOM
        and not any(True for _ in op.blocks())
        and not any(v is not None and v.persistable for v in op.outputs)
    )


def _length(op: Operator) -> Any:
    """The steps of a Scan: what is known of the length of a scanned input."""
    scanned = op.inputs[_states_of(op) :]
    axes = op.attr("scan_input_axes") or [0] * len(scanned)
    lengths = [v.dims[axis] for v, axis in zip(scanned, axes, strict=True) if v is not None and v.dims is not None]
    return next((length for length in lengths if isinstance(length, int)), None)


def _states_of(op: Operator) -> int:
    return len(op.inputs) - (2 if op.type == "Loop" else op.attrs["num_scan_inputs"])


def _runs_on(body: Block) -> bool:
    """Whether the condition that a body returns is the one that it was given, or holds."""
    condition = body.outputs[0]
    while condition.op is not None and condition.op.type == "Identity" and condition.op.inputs[0] is not None:
        condition = condition.op.inputs[0]
    return condition is body.inputs[1] or entries_of(condition) == (True,)


class _Stacked(NamedTuple):
    """The elements of a tensor along an axis, in order."""

    elements: list[Variable]
    axis: int


class _Writer:
    """Writes loops of a graph as operators of its main block."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.program, self.main = graph, graph.program, graph.program.global_block()
        self.stacked: dict[Variable, _Stacked] = {}

    def write(self, op: Operator, steps: int) -> list[Operator]:
        """The operators that compute the results of a loop."""
        body: Block = op.attrs["body"]
        build = stage_builder(self.graph, op)
        assert build.stage is not None
        self._take_constants(body)
        lead = 1 if op.type == "Loop" else 0
        count = _states_of(op)
        states: list[Any] = list(op.inputs[2 * lead : 2 * lead + count])
        scans = self._scans(build, op, steps)
        arguments = body.inputs[2 * lead :]
        once, each = _by_dependence(body)
        shared: dict[Variable, Variable] = {}
        self._copy(build, once, shared, op)
        results: list[list[Variable]] = [[] for _ in body.outputs[lead + count :]]
        for step in range(steps):
            mapping = dict(shared)
            mapping.update(zip(arguments, [*states, *(scan[step] for scan in scans)], strict=True))
            if lead:
                mapping[body.inputs[0]], mapping[body.inputs[1]] = build.constant(step), build.constant(True)
            self._copy(build, each, mapping, op)
            values = [mapping.get(v, v) for v in body.outputs[lead:]]
            states = values[:count]
            for of_step, v in zip(results, values[count:], strict=True):
                of_step.append(v)
        self._stack(build, op, results)
        for old, new in zip(op.outputs[:count], states, strict=False):
            if old is not None:
                self.graph.replace(old, new)
        name_results(self.graph, build.stage, build.key)
        return build.stage

    def _take_constants(self, body: Block) -> None:
        """Let constants of a body be those of the graph."""
        for v in body.initializers:
            v._name, v.block = self.program.fresh_name(v.name), self.main
            self.main.register(v)

    def _copy(self, build: Any, operators: Iterable[Operator], mapping: dict[Variable, Variable], loop: Operator) -> None:
        for op in operators:
            x = op.inputs[0] if op.inputs else None
            if op.type == "Identity" and not op.domain and x is not None and op.outputs[0] is not None:
                mapping[op.outputs[0]] = mapping.get(x, x)
                continue
            (copy,) = copy_operators([op], mapping, self.main, lambda v: self.program.fresh_name(v.name))
            for v in copy.outputs:
                if v is not None:
                    self.main.register(v)
                    copy.name = copy.name if v is not copy.outputs[0] else v.name
            if loop.type == "Loop":
                infer_leniently(copy)  # a state may have another shape in each step
            build.stage.append(copy)

    def _scans(self, build: Any, op: Operator, steps: int) -> list[list[Variable]]:
        """The values of each scanned input, in the order of the steps."""
        if op.type == "Loop":
            return []
        inputs = op.inputs[_states_of(op) :]
        axes = op.attr("scan_input_axes") or [0] * len(inputs)
        directions = op.attr("scan_input_directions") or [0] * len(inputs)
        scans = []
        for x, axis, backwards in zip(inputs, axes, directions, strict=True):
            assert x is not None
            elements = self._elements(build, x, axis if axis >= 0 else axis + x.rank, steps)
            scans.append(elements[::-1] if backwards else elements)
        return scans

    def _elements(self, build: Any, x: Variable, axis: int, steps: int) -> list[Variable]:
        known = self.stacked.get(x)
        if known is None or known.axis != axis:
            parts = build.Split(x, split=np.ones(steps, np.int64), axis=axis, outputs=steps) if steps > 1 else x
            elements = [build.Squeeze(part, [axis]) for part in (parts if steps > 1 else [parts])]
            known = self.stacked[x] = _Stacked(elements, axis)
        return known.elements

    def _stack(self, build: Any, op: Operator, results: list[list[Variable]]) -> None:
        """Stack what each step gives, where it is read as a whole."""
        count = len(results)
        outputs = op.outputs[len(op.outputs) - count :]
        axes, directions = [0] * count, [0] * count
        if op.type == "Scan":
            axes = op.attr("scan_output_axes") or axes
            directions = op.attr("scan_output_directions") or directions
        for old, elements, axis, backwards in zip(outputs, results, axes, directions, strict=True):
            if old is None:
                continue
            ordered = elements[::-1] if backwards else elements
            place = axis if axis >= 0 else axis + (old.rank or 0)
            rows = [build.Unsqueeze(v, [place]) for v in ordered]
            whole = build.Concat(*rows, axis=place) if len(rows) > 1 else rows[0]
            self.stacked[old] = _Stacked(ordered, place)
            self.graph.replace(old, whole)


def _by_dependence(body: Block) -> tuple[list[Operator], list[Operator]]:
    """The operators of a body that compute the same in every step, and the others."""
    each = dependent_operators(body.ops, body.inputs)
    inside = set(each)
    return [op for op in body.ops if op not in inside], each
