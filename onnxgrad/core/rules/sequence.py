"""Sequences and optionals. The gradient of a sequence is a sequence of its length; that of an optional is its element's.

Tests: tests/core/autodiff/test_control_flow.py.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.ir.bodies import as_tuple, loop_times, map_sequence, write_body
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.known import known_ints
from onnxgrad.core.ir.types import SequenceType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import zeros_like
from onnxgrad.core.rules.registry import gradient


def _from_the_front(op: Builder, position: Variable | None, length: Any) -> Variable | None:
    """A position that may count from the end, as one that counts from the front; None (the end) stays"""
    known = known_ints(position)
    if position is None or (known is not None and known[0] >= 0):
        return position
    return op.Where(
        op.Less(position, op.constant(0, position.dtype)), op.Add(position, op.Cast(length(), to=position.dtype.number)), position
    )


@gradient("SequenceConstruct")
def sequence_construct(op, node, gs):
    """gx_i = the element i of gs"""
    return tuple(op.SequenceAt(gs, i) if node.wants(i) else None for i in range(len(node.inputs)))


@gradient("SequenceAt")
def sequence_at(op, node, gy):
    """gs = gy at the position, zeros elsewhere"""
    s, position = node.inputs
    front = _from_the_front(op, position, lambda: op.SequenceLength(s))
    return op.SequenceInsert(op.SequenceErase(zeros_like(op, s), front), gy, front)


@gradient("SequenceInsert")
def sequence_insert(op, node, gz):
    """gs = gz without the element at the position; gx = that element"""
    s, position = node.inputs[0], node.operand("position")
    front = _from_the_front(op, position, lambda: op.SequenceLength(s))
    gs = op.SequenceErase(gz, front) if node.wants(0) else None
    return gs, op.SequenceAt(gz, -1 if front is None else front) if node.wants(1) else None


@gradient("SequenceErase")
def sequence_erase(op, node, gz):
    """gs = gz with zeros at the position"""
    s, position = node.inputs[0], node.operand("position")
    front = _from_the_front(op, position, lambda: op.SequenceLength(s))
    return op.SequenceInsert(gz, zeros_like(op, op.SequenceAt(s, -1 if front is None else front)), front)


@gradient("SplitToSequence")
def split_to_sequence(op, node, gs):
    """gx = the gradients of the parts, joined"""
    drops_axis = node.operand("split") is None and not node.attr("keepdims")
    return op.ConcatFromSequence(gs, axis=node.attr("axis"), new_axis=int(drops_axis))


@gradient("ConcatFromSequence")
def concat_from_sequence(op, node, gy):
    """gs_i = the part of gy that came from element i"""
    (s,), axis = node.inputs, node.attr("axis")
    if node.attr("new_axis"):
        return op.SplitToSequence(gy, axis=axis, keepdims=0)
    end = {} if axis == -1 else {"end": axis + 1}
    sizes = op.ConcatFromSequence(map_sequence(op, [s], lambda build, x: build.Shape(x, start=axis, **end)), axis=0)
    return op.SplitToSequence(gy, sizes, axis=axis)


@gradient("Optional", "OptionalGetElement")
def optional(op, node, gy):
    """gx = gy"""
    return gy


@gradient("SequenceMap")
def sequence_map(op, node, *gradients):
    """A SequenceMap that computes each element's forward again and its gradient; captured values and tensors sum over elements"""
    return _SequenceMapGradient(op, node, gradients).write()


class _SequenceMapGradient:
    """``sources`` are what gets a gradient: elements of sequences (inputs of the body), tensors given to every step, captures."""

    def __init__(self, op: Builder, node: Any, gradients: Any) -> None:
        self.op, self.node, self.body = op, node, node.attr("body")
        self.arriving = [(i, g) for i, g in enumerate(gradients) if g is not None]
        self.wanted = [i for i in range(len(node.inputs)) if node.wants(i)]
        self.captured = [v for v, is_wanted in zip(node.captures, node.wanted_captures, strict=True) if is_wanted]

    def write(self) -> Any:
        op, node = self.op, self.node
        body = self._body()
        results = as_tuple(op.SequenceMap(*node.inputs, *(g for _, g in self.arriving), outputs=len(body.outputs), body=body))
        grads = dict(zip(self.wanted, results, strict=False))
        for i in self.wanted:
            if not isinstance(node.inputs[i].type, SequenceType):
                grads[i] = self._total(grads[i], node.inputs[i])
        totals = (self._total(s, v) for s, v in zip(results[len(self.wanted) :], self.captured, strict=True))
        captures = [next(totals) if is_wanted else None for is_wanted in node.wanted_captures]
        return *(grads.get(i) for i in range(len(node.inputs))), *captures

    def _body(self) -> Any:
        """Copy the forward body, with the gradients of its outputs as further inputs and of the sources as outputs"""
        forward = self.body
        types = [(forward.outputs[i].name, forward.outputs[i].type) for i, _ in self.arriving]
        names = [(v.name, v.type) for v in forward.inputs]
        return write_body(self.op, "map_grad", names + types, self._write_step)

    def _write_step(self, build: Builder, *arguments: Any) -> Any:
        forward, count = self.body, len(self.body.inputs)
        seeds = [None] * len(forward.outputs)
        for (i, _), g in zip(self.arriving, arguments[count:], strict=True):
            seeds[i] = g
        sources = [*(forward.inputs[i] for i in self.wanted), *self.captured]
        grads = self.node.differentiate_into(build.block, forward, arguments[:count], seeds, sources)
        values = [*(arguments[i] for i in self.wanted), *self.captured]
        return tuple(zeros_like(build, v) if g is None else g for v, g in zip(values, grads, strict=True))

    def _total(self, s: Variable, like: Variable) -> Variable:
        """Sum of the elements of a sequence"""
        start = zeros_like(self.op, like)
        body = loop_times(self.op, self.op.SequenceLength(s), [("sum", start)], lambda b, i, t: b.Add(t, b.SequenceAt(s, i)))
        return body[0]
