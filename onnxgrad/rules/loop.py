"""Loop: its gradient is a Loop from the last iteration to the first, over the states that the forward one left behind.

The tape holds a state as a stacked output where its shape is certainly the same in every iteration, and in a sequence where
it may grow. A state that is itself a sequence cannot be held in either: where its value is needed, the iterations before it
run again. Griewank and Walther, "Evaluating Derivatives", 2008, chapter 4.
"""

from __future__ import annotations

from onnxgrad.autodiff.accumulate import add_up
from onnxgrad.autodiff.registry import find_entry, gradient
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import UnsupportedGradient
from onnxgrad.ir.bodies import as_tuple, drop_unread, finish_body, move_into, reads_of
from onnxgrad.ir.builder import Builder
from onnxgrad.ir.infer import infer_again
from onnxgrad.ir.operator import Role
from onnxgrad.ir.traverse import copy_block
from onnxgrad.ir.types import OptionalType, SequenceType, TensorType, join_types, same_dim
from onnxgrad.ir.variable import Variable
from onnxgrad.rules.common import zeros_like

_INDEX, _TRUTH = TensorType(dtype_of("int64"), ()), TensorType(dtype_of("bool"), ())
_ROUNDS = 4


class _Tape:
    """Where the value of a state at the start of each iteration is found: stacked on axis 0, or in a sequence.

    ``counter`` is stacked in every iteration: its length is their number.
    """

    def __init__(self, places, counter):
        self.places = places
        self.counter = counter


def _record_states(op, node):
    """Loop, with the states that enter each iteration as stacked outputs, or in sequences if they may change shape"""
    operator = node.operator
    copy, stable = _copy_with_settled_types(op, operator)
    states = len(stable)
    build = Builder(copy, key="tape")
    tensors = [k for k in range(states) if isinstance(copy.inputs[2 + k].type, TensorType)]
    growing = [k for k in tensors if not stable[k]]
    program = op.block.program
    starts, kept, updated = [], [], []
    for k in growing:
        state = copy.inputs[2 + k]
        starts.append(op.SequenceEmpty(dtype=state.dtype.number))
        kept.append(copy.register(Variable(copy, program.fresh_name(f"{state.name}/tape"), SequenceType(state.type))))
        updated.append(build.SequenceInsert(kept[-1], state))
    stacked = [build.Identity(copy.inputs[2 + k]) for k in tensors if stable[k]] + [build.Identity(copy.inputs[0])]
    finals, scans = copy.outputs[: 1 + states], copy.outputs[1 + states :]
    copy.inputs = [*copy.inputs, *kept]
    copy.outputs = [*finals, *updated, *scans, *stacked]
    results = as_tuple(op.emit("Loop", [*operator.inputs, *starts], {"body": copy}, outputs=len(copy.outputs) - 1))
    middle, end = states + len(growing), len(results) - len(stacked)
    places = dict(zip(growing, results[states:middle], strict=True))
    places.update(zip((k for k in tensors if stable[k]), results[end:-1], strict=True))
    own_stacked = results[middle:end]
    counter = own_stacked[0] if own_stacked else results[-1]
    return [*results[:states], *own_stacked], results[-1].op, _Tape(places, counter)


def _copy_with_settled_types(op, operator):
    """The body with the types that its states keep over all iterations, and which of them keep their shape"""
    body, program = operator.attr("body"), op.block.program
    types = [v.type or w.type for v, w in zip(operator.inputs[2:], body.inputs[2:], strict=True)]
    for _ in range(_ROUNDS):
        mapping = {}
        copy = copy_block(body, mapping, op.block, lambda v: program.fresh_name(v.name))
        for v, type in zip(copy.inputs, [_INDEX, _TRUTH, *types], strict=True):
            v.type = type
        infer_again(copy, mapping)
        after = [v.type for v in copy.outputs[1 : 1 + len(types)]]
        joined = [join_types(a, b) if b is not None else a for a, b in zip(types, after, strict=True)]
        if joined == types:
            break
        program.blocks.remove(copy)
        types = joined
    return copy, [_same_shape(a, b) for a, b in zip(types, after, strict=True)]


def _same_shape(a, b):
    if not isinstance(a, TensorType) or not isinstance(b, TensorType) or a.dims is None or b.dims is None:
        return False
    return len(a.dims) == len(b.dims) and all(map(same_dim, a.dims, b.dims))


@gradient("Loop", prepare=_record_states)
def loop(op, node, *gradients):
    """A Loop from the last iteration to the first: each computes its forward again from the recorded states"""
    return _LoopGradient(op, node, gradients).write()


class _LoopGradient:
    def __init__(self, op, node, gradients):
        self.op, self.node, self.body, self.tape = op, node, node.attr("body"), node.tape
        self.states = len(node.inputs) - 2
        self.gradients = list(gradients)
        self.stacked = self.gradients[self.states :]
        self._find_relevant()

    def _find_relevant(self):
        """States and captured values that get a gradient: those between what is wanted and what arrives"""
        body, node = self.body, self.node
        captures = [v for v, is_wanted in zip(node.captures, node.wanted_captures, strict=True) if is_wanted]
        reach = _influences(body, [*body.inputs[2:], *captures])
        outputs = [reach.get(id(v), frozenset()) for v in body.outputs[1:]]
        inputs = [id(v) for v in body.inputs[2:]]
        wanted_ids = {id(v) for v in captures}
        varied = {k for k in range(self.states) if node.wants(2 + k) or outputs[k] & wanted_ids}
        useful = {k for k in range(self.states) if self.gradients[k] is not None}
        arriving = [outputs[self.states + j] for j, g in enumerate(self.stacked) if g is not None]
        useful |= {k for k in range(self.states) if any(inputs[k] in seen for seen in arriving)}
        for _ in range(self.states):
            varied |= {k for k in range(self.states) if any(inputs[m] in outputs[k] for m in varied)}
            useful |= {k for k in range(self.states) if any(inputs[k] in outputs[m] for m in useful)}
        self.active = sorted(varied & useful)
        seen = frozenset().union(*(outputs[m] for m in useful), *arriving)
        self.captured = [v for v in captures if id(v) in seen]

    def write(self):
        op, node = self.op, self.node
        for k in self.active:
            if isinstance(self.body.inputs[2 + k].type, OptionalType):
                raise UnsupportedGradient(
                    f"{node}: its state {self.body.inputs[2 + k].name} is an optional. Use a sequence of at most one element."
                )
        count = self._count()
        shell = self._body(op.Sub(count, 1))
        starts = [self._start(k) for k in self.active] + [zeros_like(op, v) for v in self.captured]
        results = as_tuple(op.Loop(count, None, *starts, outputs=len(starts), body=shell))
        states = dict(zip(self.active, results, strict=False))
        totals = {id(v): g for v, g in zip(self.captured, results[len(self.active) :], strict=True)}
        return None, None, *(states.get(k) for k in range(self.states)), *(totals.get(id(v)) for v in node.captures)

    def _start(self, k):
        g = self.gradients[k]
        return zeros_like(self.op, self.node.outputs[k]) if g is None else g

    def _count(self):
        """How many iterations there were, as a scalar"""
        op = self.op
        return op.Squeeze(op.Shape(self.tape.counter, start=0, end=1), [0])

    # The body ------------------------------------------------------------------------------------------------------

    def _body(self, last):
        """Arguments: iteration, condition, gradients of the outgoing states, sums for captured values so far"""
        op, forward = self.op, self.body
        program = op.block.program
        shell = program.new_block(op.block, f"{forward.name}_grad")

        def argument(name, type):
            v = Variable(shell, program.fresh_name(f"{name}@GRAD"), type)
            shell.inputs.append(shell.register(v))
            return v

        back, condition = argument("iteration", _INDEX), argument("condition", _TRUTH)
        gstates = {k: argument(forward.outputs[1 + k].name, forward.inputs[2 + k].type) for k in self.active}
        sums = [argument(v.name, v.type) for v in self.captured]
        build = Builder(shell, key="step", role=Role.BACKWARD)
        i = build.Sub(last, back)
        seeds = [None, *(gstates.get(k) for k in range(self.states))]
        seeds += [None if g is None else build.Gather(g, i, axis=0) for g in self.stacked]
        sources = [*(forward.inputs[2 + k] for k in self.active), *self.captured]
        inner, found = self.node.differentiate_body(forward, shell, seeds, sources)
        arguments = self._arguments(build, inner, i)
        replaced = move_into(shell, inner, arguments)
        found = [None if g is None else replaced.get(id(g), g) for g in found]
        states = [self._or_zeros(build, g, k, arguments[2 + k], i) for k, g in zip(self.active, found, strict=False)]
        totals = [t if g is None else add_up(build, [t, g]) for t, g in zip(sums, found[len(self.active) :], strict=True)]
        finish_body(shell, [condition, *states, *totals], build)
        return shell

    def _or_zeros(self, build, g, k, value, i):
        if g is not None:
            return g
        return zeros_like(build, value if value is not None else self._state(build, k, i))

    def _arguments(self, build, inner, i):
        """What stands for the inputs of the forward body: only those that are read"""
        read = reads_of(inner.ops)
        found = [i, build.constant(True)]
        found += [self._state(build, k, i) if id(inner.inputs[2 + k]) in read else None for k in range(self.states)]
        return found

    def _state(self, build, k, i):
        """The value of a state at the start of iteration ``i``"""
        place = self.tape.places.get(k)
        if place is None:
            return self._replayed(build, k, i)
        if isinstance(place.type, SequenceType):
            return build.SequenceAt(place, i)
        return build.Gather(place, i, axis=0)

    def _replayed(self, build, k, i):
        """The first ``i`` iterations again"""
        program = self.op.block.program
        copy = copy_block(self.body, {}, build.block, lambda v: program.fresh_name(v.name))
        results = build.Loop(i, None, *self.node.inputs[2:], outputs=len(copy.outputs) - 1, body=copy)
        wanted = as_tuple(results)[k]
        drop_unread(wanted.op, {id(wanted)})
        return wanted


def _influences(body, sources):
    """For everything in a body, by ``id``, which of the sources it depends on through values that carry gradients"""
    reach = {id(v): frozenset([id(v)]) for v in sources}
    for op in body.ops:
        entry = find_entry(op)
        if entry is not None and entry.state == "stops":
            continue
        seen = frozenset().union(*(reach.get(id(v), frozenset()) for v in op.operands() if v is not None))
        if seen:
            reach.update((id(v), seen) for v in op.outputs if v is not None)
    return reach
