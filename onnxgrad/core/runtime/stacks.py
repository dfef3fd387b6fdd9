"""State that is replaced together, read and written as one tensor: the moments of a weight side by side along the first axis.

OpenVINO computes an optimizer's chain of elementwise operators in one pass over memory, unless something in its middle is an
output: each new moment then ends a pass. As parts of one output nothing in the middle is one. The parts lie in one piece of memory,
where whoever reads a value of the state finds it, so nothing is copied to stack them or to take them apart. The weight, with which
the chain ends, stays what it is: read by way of a Split, it would let OpenVINO compute more of a net in bfloat16.

Tests: tests/core/runtime/test_stacks.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.traits import ELEMENTWISE
from onnxgrad.core.ir.variable import Variable, present_value
from onnxgrad.core.runtime.places import Place
from onnxgrad.core.state.buffers import Buffer, Whole
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.state.values import array_of, copy_into, value_on, view_of

__all__ = ["Stack", "parts_in", "room_for", "stack_state", "stacked", "stacks_of"]

_MOST = 2**31
"""Elements of a stack, at most."""


class Stack(NamedTuple):
    """State of one shape that a step replaces together.

    Attributes:
        input: name of the input that holds all of it.
        output: name of the output with the new values of all.
        state: the state, in its order along the first axis.
        new: names of the new values.
        shape: of the stack.
    """

    input: str
    output: str
    state: tuple[Variable, ...]
    new: tuple[str, ...]
    shape: tuple[int, ...]


def stacks_of(graph: Graph, fetched: Collection[str]) -> list[Stack]:
    """Find float32 state of one shape from whose new values that of a weight follows by elementwise operators of that shape.

    Args:
        graph: of a step.
        fetched: names of outputs that are read apart from the state.
    """
    times, inputs = Counter(id(v) for _, v in graph.outputs), set(graph.inputs)
    allowed = {
        new: v
        for v, new in graph.updates.items()
        if v in inputs and not times[id(v)] and times[id(new)] == 1 and new.name not in fetched and _can_be_stacked(v, new)
    }
    stacks, taken = [], set()
    for new in allowed:
        middle = [one for one in dict.fromkeys(_followed(new, allowed)) if one not in taken]
        rows, *rest = new.static_shape or (0,)
        shape = (len(middle) * rows, *rest)
        if len(middle) > 1 and prod(shape) < _MOST:
            taken.update(middle)
            state = tuple(allowed[one] for one in middle)
            names = tuple(one.name for one in middle)
            stacks.append(Stack(f"{state[0].name}@STACK", f"{state[0].name}@STACK@NEW", state, names, shape))
    return stacks


def _can_be_stacked(v: Variable, new: Variable) -> bool:
    shape = v.static_shape
    return bool(shape) and 0 not in (shape or ()) and new.static_shape == shape and v.dtype.name == new.dtype.name == "float32"


def _followed(new: Variable, allowed: Mapping[Variable, Variable]) -> Iterator[Variable]:
    """The other new values that one follows from by its optimizer's elementwise operators"""
    seen: set[Operator] = set()
    found = [new.op] if new.op is not None else []
    while found:
        op = found.pop()
        if op in seen or op.domain or op.type not in ELEMENTWISE:
            continue
        seen.add(op)
        for v in op.inputs:
            if v is None or v.op is None or v.static_shape != new.static_shape or v.op.role is not op.role:
                continue
            if v in allowed:
                yield v
            found.append(v.op)


def stack_state(model: ModelProto, stacks: Sequence[Stack]) -> None:
    """Let a model read and return stacks in place of the state in them, in place.

    Args:
        model: of a step.
        stacks: of its state.
    """
    graph = model.graph
    taken = {v.name for stack in stacks for v in stack.state}
    returned = {name for stack in stacks for name in stack.new}
    for values, names in ((graph.input, taken), (graph.output, returned)):
        kept = [value for value in values if value.name not in names]
        del values[:]
        values.extend(kept)
    nodes = list(graph.node)
    del graph.node[:]
    for stack in stacks:
        rows = [v.static_shape[0] for v in stack.state if v.static_shape]
        sizes = numpy_helper.from_array(np.array(rows, np.int64), f"{stack.input}@SIZES")
        graph.initializer.append(sizes)
        graph.input.append(helper.make_tensor_value_info(stack.input, TensorProto.FLOAT, stack.shape))
        parts = [v.name for v in stack.state]
        graph.node.append(helper.make_node("Split", [stack.input, sizes.name], parts, name=stack.input, axis=0))
    graph.node.extend(nodes)
    for number, stack in enumerate(stacks):
        graph.node.append(helper.make_node("Concat", list(stack.new), [stack.output], name=stack.output, axis=0))
        # Before the weight, or OpenVINO cuts the chain all the same.
        graph.output.insert(number, helper.make_tensor_value_info(stack.output, TensorProto.FLOAT, stack.shape))


# Memory ----------------------------------------------------------------------------------------------------------------


def room_for(stack: Stack, place: Place) -> tuple[Buffer, ...]:
    """New memory of a stack on a place, as the buffers of its parts."""
    whole = Whole(place.room(stack.shape, np.float32), place.memory)
    parts, begin, view = [], 0, view_of(whole.value)
    for number, v in enumerate(stack.state):
        rows = (v.static_shape or (0,))[0]
        value = value_on(view[begin : begin + rows])
        value._holds = whole.value  # it is on its memory
        parts.append(Buffer(value, whole=whole, number=number))
        begin += rows
    return tuple(parts)


def parts_in(stack: Stack, values: Sequence[Any], place: Place) -> tuple[Buffer, ...] | None:
    """The values of a stack's state as they are, if they are the parts of one stack on that place, in its order."""
    first = values[0]
    if not isinstance(first, Buffer) or first.whole is None or first.whole.memory != place.memory:
        return None
    if tuple(first.whole.value.shape()) != stack.shape:
        return None
    for number, buffer in enumerate(values):
        if not isinstance(buffer, Buffer) or buffer.whole is not first.whole or buffer.number != number:
            return None
    return tuple(values)


def stacked(scope: Scope, stack: Stack, place: Place) -> tuple[Buffer, ...]:
    """The state of a stack in one piece of memory on a place; copied there where it is not."""
    values = [scope.present(v.name) for v in stack.state]
    parts = parts_in(stack, values, place)
    if parts is not None:
        return parts
    parts = room_for(stack, place)
    for v, held, part in zip(stack.state, values, parts, strict=True):
        if isinstance(held, Buffer):
            array = view_of(held.value) if held.value.device_name() == "cpu" else array_of(held.value)
        else:
            array = present_value(scope, v) if held is None else held
        place.check(v.name, array)
        copy_into(part.value, array)
        part.origin = v.value if held is None else None
    scope.put_all({v.name: part for v, part in zip(stack.state, parts, strict=True)})
    return parts
