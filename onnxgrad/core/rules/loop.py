"""Loop: its gradient is a Loop from the last iteration to the first, over the states that the forward one left behind.

The tape holds a state as a stacked output where its shape is certainly the same in every iteration, and in a sequence where
it may grow. A state that is itself a sequence cannot be held in either: where its value is needed, the iterations before it
run again. Griewank and Walther, "Evaluating Derivatives", 2008, chapter 4.

Tests: tests/core/autodiff/test_loops.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.ir.bodies import as_tuple, drop_unread, finish_body, keep_needed, move_into, reads_of
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.copying import copy_block
from onnxgrad.core.ir.infer import infer_again
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.types import BOOL_SCALAR, INDEX, OptionalType, SequenceType, TensorType, join_types, same_dim
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.accumulate import add_up
from onnxgrad.core.rules.common import zeros_like
from onnxgrad.core.rules.registry import find_entry, gradient
from onnxgrad.core.rules.segments import loop_in_segments
from onnxgrad.errors import UnsupportedGradient


class _Tape:
    """Hold the value of a state at the start of each iteration: stacked on axis 0, or in a sequence.

    ``counter`` is stacked in every iteration: its length is their number.
    """

    def __init__(self, values: Any, counter: Variable) -> None:
        self.values = values
        self.counter = counter


def _record_states(op, node):
    """Loop, with the states that enter each iteration as stacked outputs, or in sequences if they may change shape"""
    operator = node.operator
    copy, stable = _copy_with_final_types(op, operator)
    states = len(stable)
    build = Builder(copy, key="tape")
    tensors = [k for k in range(states) if isinstance(copy.inputs[2 + k].type, TensorType)]
    growing = [k for k in tensors if not stable[k]]
    program = op.block.program
    starts, kept, updated = [], [], []
    for k in growing:
        state = copy.inputs[2 + k]
        if state.dtype.name == "bfloat16":
            raise UnsupportedGradient(f"{node}: a state that changes its shape needs a sequence, and ONNX has none of bfloat16.")
        starts.append(op.SequenceEmpty(dtype=state.dtype.number))
        kept.append(copy.register(Variable(copy, program.fresh_name(f"{state.name}/tape"), SequenceType(state.type))))
        updated.append(build.SequenceInsert(kept[-1], state))
    stacked = [build.Identity(copy.inputs[2 + k]) for k in tensors if stable[k]] + [build.Identity(copy.inputs[0])]
    finals, scans = copy.outputs[: 1 + states], copy.outputs[1 + states :]
    copy.inputs = [*copy.inputs, *kept]
    copy.outputs = [*finals, *updated, *scans, *stacked]
    results = as_tuple(op.emit("Loop", [*operator.inputs, *starts], {"body": copy}, outputs=len(copy.outputs) - 1))
    middle, end = states + len(growing), len(results) - len(stacked)
    values = dict(zip(growing, results[states:middle], strict=True))
    values.update(zip((k for k in tensors if stable[k]), results[end:-1], strict=True))
    own_stacked = results[middle:end]
    counter = own_stacked[0] if own_stacked else results[-1]
    return [*results[:states], *own_stacked], results[-1].op, _Tape(values, counter)


def _copy_with_final_types(op: Builder, operator: Any) -> Any:
    """The body with the types that its states keep over all iterations, and which of them keep their shape"""
    body, program = operator.attr("body"), op.block.program
    types = [v.type or w.type for v, w in zip(operator.inputs[2:], body.inputs[2:], strict=True)]
    # Ends: each round but the last knows less of some state than the one before.
    while True:
        mapping: dict[Variable, Variable] = {}
        copy = copy_block(body, mapping, op.block, lambda v: program.fresh_name(v.name))
        for v, type in zip(copy.inputs, [INDEX, BOOL_SCALAR, *types], strict=True):
            v.type = type
        infer_again(copy, mapping)
        after = [v.type for v in copy.outputs[1 : 1 + len(types)]]
        joined = [join_types(a, b) if b is not None else a for a, b in zip(types, after, strict=True)]
        if joined == types:
            return copy, [_same_shape(a, b) for a, b in zip(types, after, strict=True)]
        program.blocks.remove(copy)
        types = joined


def _same_shape(a: Any, b: Any) -> bool:
    if not isinstance(a, TensorType) or not isinstance(b, TensorType) or a.dims is None or b.dims is None:
        return False
    return len(a.dims) == len(b.dims) and all(map(same_dim, a.dims, b.dims))


@gradient("Loop", prepare=_record_states, segments=loop_in_segments)
def loop(op, node, *gradients):
    """A Loop from the last iteration to the first: each computes its forward again from the recorded states"""
    return _LoopGradient(op, node, gradients).write()


class _LoopGradient:
    """The body gets further arguments for rows: ``Gather(x, iteration)`` of a captured x.

    Their gradients are stacked and put back once, where a sum as large as x in every iteration would take quadratic time.
    """

    def __init__(self, op: Builder, node: Any, gradients: Any) -> None:
        self.op, self.node, self.tape = op, node, node.tape
        self.states = len(node.inputs) - 2
        self.gradients = list(gradients)
        self.stacked = self.gradients[self.states :]
        self.captured = [v for v, is_wanted in zip(node.captures, node.wanted_captures, strict=True) if is_wanted]
        self.body, self.rows = _with_rows_as_arguments(op, node.attr("body"), self.captured)
        self._find_relevant()

    def _find_relevant(self) -> None:
        """States, rows and captured values that get a gradient: those between what is wanted and what arrives"""
        body, node, states = self.body, self.node, range(self.states)
        arguments = list(body.inputs[2:])
        reach = _influences(body, [*body.inputs[2:], *self.captured])
        outputs = [reach.get(v, frozenset()) for v in body.outputs[1:]]
        outer = set(self.captured) | set(arguments[self.states :])
        arriving = [outputs[self.states + j] for j, g in enumerate(self.stacked) if g is not None]
        varied = {k for k in states if node.wants(2 + k) or outputs[k] & outer}
        useful = {k for k in states if self.gradients[k] is not None or any(arguments[k] in reached for reached in arriving)}
        for _ in states:
            varied |= {k for k in states if any(arguments[m] in outputs[k] for m in varied)}
            useful |= {k for k in states if any(arguments[k] in outputs[m] for m in useful)}
        self.active = sorted(varied & useful)
        reached = frozenset().union(*(outputs[m] for m in useful), *arriving)
        self.captured = [v for v in self.captured if v in reached]
        self.read_rows = [r for r in range(len(self.rows)) if arguments[self.states + r] in reached]

    def write(self) -> Any:
        op, node = self.op, self.node
        for k in self.active:
            if isinstance(self.body.inputs[2 + k].type, OptionalType):
                raise UnsupportedGradient(
                    f"{node}: its state {self.body.inputs[2 + k].name} is an optional. Use a sequence of at most one element."
                )
        if not (self.active or self.captured or self.read_rows):
            return (None,) * (len(node.inputs) + len(node.captures))
        count = op.Squeeze(op.Shape(self.tape.counter, start=0, end=1), [0])
        shell = self._body(op.Sub(count, 1))
        starts = [self._start(k) for k in self.active] + [zeros_like(op, v) for v in self.captured]
        results = as_tuple(op.Loop(count, None, *starts, outputs=len(shell.outputs) - 1, body=shell))
        states = dict(zip(self.active, results, strict=False))
        arrived: dict[Variable, list[Variable]] = {}
        for v, g in zip(self.captured, results[len(self.active) :], strict=False):
            arrived.setdefault(v, []).append(g)
        for r, g in zip(self.read_rows, results[len(starts) :], strict=True):
            x, axis = self.rows[r]
            arrived.setdefault(x, []).append(_put_back_rows(op, x, axis, g))
        captures = [add_up(op, arrived[v]) if v in arrived else None for v in node.captures]
        return None, None, *(states.get(k) for k in range(self.states)), *captures

    def _start(self, k: int) -> Variable:
        g = self.gradients[k]
        return zeros_like(self.op, self.node.outputs[k]) if g is None else g

    def _body(self, last: Variable) -> Any:
        """Arguments: iteration, condition, gradients of the outgoing states, sums for captured values so far"""
        op, forward = self.op, self.body
        program = op.block.program
        shell = program.new_block(op.block, f"{forward.name}_grad")

        def argument(name, type):
            v = Variable(shell, program.fresh_name(f"{name}@GRAD"), type)
            shell.inputs.append(shell.register(v))
            return v

        back, condition = argument("iteration", INDEX), argument("condition", BOOL_SCALAR)
        gstates = {k: argument(forward.outputs[1 + k].name, forward.inputs[2 + k].type) for k in self.active}
        sums = [argument(v.name, v.type) for v in self.captured]
        build = Builder(shell, key="step", role=Role.BACKWARD)
        i = build.Sub(last, back)
        seeds = [None, *(gstates.get(k) for k in range(self.states))]
        seeds += [None if g is None else build.Gather(g, i, axis=0) for g in self.stacked]
        indices = [*(2 + k for k in self.active), *(2 + self.states + r for r in self.read_rows)]
        inner, grads = self.node.differentiate_body(forward, shell, seeds, [*(forward.inputs[p] for p in indices), *self.captured])
        read = reads_of(inner.ops)
        values = [self._argument(build, p, i, v in read) for p, v in enumerate(inner.inputs)]
        replaced = move_into(shell, inner, values)
        grads = [None if g is None else replaced.get(g, g) for g in grads]
        own = [self._or_zeros(build, g, values[p], p, i) for p, g in zip(indices, grads, strict=False)]
        totals = [t if g is None else add_up(build, [t, g]) for t, g in zip(sums, grads[len(indices) :], strict=True)]
        finish_body(shell, [condition, *own[: len(self.active)], *totals, *own[len(self.active) :]], build)
        keep_needed(shell)
        if forward is not self.node.attr("body"):
            program.blocks.remove(forward)
        return shell

    def _or_zeros(self, build: Builder, g: Variable | None, value: Variable | None, index: int, i: Variable) -> Variable:
        if g is not None:
            return g
        return zeros_like(build, self._argument(build, index, i, True) if value is None else value)

    def _argument(self, build: Builder, index: int, i: Variable, is_read: bool) -> Any:
        """Return the value of an input of the forward body at iteration ``i``; None if nothing reads it."""
        if index < 2:
            return i if index == 0 else build.constant(True)
        if not is_read:
            return None
        if index < 2 + self.states:
            return self._state(build, index - 2, i)
        x, axis = self.rows[index - 2 - self.states]
        return build.Gather(x, i, axis=axis)

    def _state(self, build: Builder, k: int, i: Variable) -> Any:
        """The value of a state at the start of iteration ``i``"""
        recorded = self.tape.values.get(k)
        if recorded is None:
            return self._replayed(build, k, i)
        if isinstance(recorded.type, SequenceType):
            return build.SequenceAt(recorded, i)
        return build.Gather(recorded, i, axis=0)

    def _replayed(self, build: Builder, k: int, i: Variable) -> Any:
        """The first ``i`` iterations again"""
        program = self.op.block.program
        copy = copy_block(self.node.attr("body"), {}, build.block, lambda v: program.fresh_name(v.name))
        results = build.Loop(i, None, *self.node.inputs[2:], outputs=len(copy.outputs) - 1, body=copy)
        wanted = as_tuple(results)[k]
        drop_unread(wanted.op, {wanted})
        return wanted


def _with_rows_as_arguments(op: Builder, body: Any, captured: list[Variable]) -> Any:
    """A copy of ``body`` where ``Gather(x, iteration)`` of captured x are arguments, and what they read: (x, axis)"""
    outer = set(captured)

    def is_row(inner):
        if inner.type != "Gather" or inner.domain or inner.inputs[1] is not body.inputs[0] or inner.inputs[0] not in outer:
            return False
        return inner.attr("axis") == 0 or inner.inputs[0].rank is not None

    gathers = [inner for inner in body.ops if is_row(inner)]
    if not gathers:
        return body, []
    program = op.block.program
    mapping: dict[Variable, Variable] = {}
    copy = copy_block(body, mapping, op.block, lambda v: program.fresh_name(v.name))
    rows = [mapping[inner.outputs[0]] for inner in gathers]
    taken = {v.op for v in rows}
    copy.ops = [inner for inner in copy.ops if inner not in taken]
    for v in rows:
        v.op = None
    copy.inputs = [*copy.inputs, *rows]
    return copy, [(inner.inputs[0], inner.attr("axis")) for inner in gathers]


def _put_back_rows(op: Builder, x: Any, axis: int, stacked: Variable) -> Any:
    """Gradients of the rows of x, the last one first, at their indices in a tensor like x"""
    forwards = op.Slice(stacked, [-1], [np.iinfo(np.int64).min], [0], [-1])
    if axis:
        order = list(range(1, x.rank))
        order.insert(axis % x.rank, 0)
        forwards = op.Transpose(forwards, perm=order)
    # After no iteration at all the other axes may be empty too.
    missing = op.Sub(op.Shape(x), op.Shape(forwards))
    return op.Pad(forwards, op.Concat(op.Mul(missing, 0), missing, axis=0))


def _influences(body: Any, sources: list[Variable]) -> Any:
    """Return, for every variable of a body, the sources that it depends on through values that carry gradients"""
    reach = {v: frozenset([v]) for v in sources}
    for op in body.ops:
        entry = find_entry(op)
        if entry is not None and entry.state == "stops":
            continue
        reached = frozenset().union(*(reach.get(v, frozenset()) for v in op.operands() if v is not None))
        if reached:
            reach.update((v, reached) for v in op.outputs if v is not None)
    return reach
