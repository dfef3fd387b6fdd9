"""Scan: its gradient is a Scan from the last step to the first.

What a step reads is on the tape: the states that entered it, and results that are expensive to recompute. A captured weight's
gradient is the sum over the steps; where a step's part is a matrix product or a sum over rows, the factors are stacked and the
sum taken once for all steps (measured: the backward pass of an LSTM of 64 steps takes half the time).

Tests: tests/core/autodiff/test_loops.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from onnxgrad.core.ir.bodies import as_tuple, finish_body, keep_needed, reads_of
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.copying import copy_block
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import zeros_like, zeros_of_shape
from onnxgrad.core.rules.registry import gradient
from onnxgrad.core.rules.segments import scan_in_segments
from onnxgrad.errors import UnsupportedGradient

_RECORDED = {"Gelu", "Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization", "Attention", "Pow"}
_RECORDED |= {"Conv", "ConvTranspose", "Einsum", "Erf", "Exp", "Gemm", "Log", "MatMul", "Sigmoid", "Sin", "Cos", "Softplus", "Tanh"}
"""What costs more to recompute than to read back."""


class _Tape(NamedTuple):
    """The values that a Scan records, stacked in the order of its steps."""

    states: Any
    """As they enter each step."""
    values: dict[Variable, Variable]
    """By the variable of the body, that of the Scan that records."""


def _record(op, node):
    """Scan, with the states that enter each step and what is expensive to recompute as further scan outputs"""
    operator = node.operator
    body, scanned = node.attr("body"), node.attr("num_scan_inputs")
    states = len(operator.inputs) - scanned
    program = op.block.program
    mapping: dict[Variable, Variable] = {}
    copy = copy_block(body, mapping, op.block, lambda v: program.fresh_name(v.name))
    build = Builder(copy, key="tape")
    recorded = [v for inner in body.ops if inner.type in _RECORDED for v in inner.outputs if v is not None and v.is_float]
    recorded = [mapping[v] for v in recorded if v.rank is not None and not any(v is w for w in body.outputs)]
    copy.outputs = [*copy.outputs, *(build.Identity(v) for v in copy.inputs[:states]), *recorded]
    attrs = dict(operator.attrs, body=copy)
    for name in ("scan_output_axes", "scan_output_directions"):
        if attrs.get(name):
            attrs[name] = [*attrs[name], *[0] * (states + len(recorded))]
    results = as_tuple(op.emit("Scan", operator.inputs, attrs, outputs=len(copy.outputs)))
    own, middle = len(body.outputs), len(body.outputs) + states
    return results[:own], results[0].op, _Tape(results[own:middle], dict(zip(recorded, results[middle:], strict=True)))


@gradient("Scan", prepare=_record, segments=scan_in_segments)
def scan(op, node, *gradients):
    """A Scan from the last step to the first; each recomputes what is not recorded"""
    return _ScanGradient(op, node, gradients).write()


class _Sequence(NamedTuple):
    """Values of all steps, one of which a backward step takes."""

    inner: Variable
    """What it is in the body."""
    stacked: Variable
    direction: int
    axis: int

    @property
    def in_order(self):
        """Whether the first step's value is the first of axis 0."""
        return self.direction == 1 and self.axis == 0


class _ScanGradient:
    """Pieces of a Scan: states first, then scanned inputs; outputs are final states, then stacked values, the tape last.

    What is recorded is a stacked value too, so second derivatives come through it.
    """

    def __init__(self, op, node, gradients):
        self.op, self.node = op, node
        self.body, self.scanned = node.attr("body"), node.attr("num_scan_inputs")
        self.count = len(node.operator.inputs) - self.scanned
        self.stacked = len(node.outputs) - self.count
        self.gradients = list(gradients)
        self.in_axes = node.attr("scan_input_axes") or [0] * self.scanned
        for v in self.body.inputs:
            if v.type is None:
                raise UnsupportedGradient(f"{node}: the type of {v.name} in its body is unknown. Declare it.")
        for axis, v in zip(self.in_axes, self.body.inputs[self.count :], strict=True):
            if axis and v.rank is None:
                raise UnsupportedGradient(f"{node}: the rank of {v.name} in its body is unknown. Declare it.")
        self.float_states = [i for i in range(self.count) if self.body.inputs[i].is_float]
        self.in_directions = node.attr("scan_input_directions") or [0] * self.scanned
        self.wanted_scans = [i for i in range(self.scanned) if node.wants(self.count + i)]
        self.wanted = [v for v, is_wanted in zip(node.captures, node.wanted_captures, strict=True) if is_wanted]
        self.arriving = [j for j in range(self.stacked) if self.gradients[self.count + j] is not None]
        self.values, self.given = self._sequences()

    def _sequences(self) -> Any:
        """Recorded and scanned values of the forward steps; gradients of what they stacked"""
        node, body, count = self.node, self.body, self.count
        values = [_Sequence(v, x, 1, 0) for v, x in zip(body.inputs[:count], node.tape.states, strict=True)]
        scans = zip(body.inputs[count:], node.inputs[count:], self.in_directions, self.in_axes, strict=True)
        values += [_Sequence(v, x, 1 - direction, axis) for v, x, direction, axis in scans]
        values += [_Sequence(v, x, 1, 0) for v, x in node.tape.values.items()]
        directions = node.attr("scan_output_directions") or [0] * self.stacked
        axes = node.attr("scan_output_axes") or [0] * self.stacked
        outputs = body.outputs[count:]
        gradients = [_Sequence(outputs[j], self.gradients[count + j], 1 - directions[j], axes[j]) for j in self.arriving]
        return values, gradients

    def write(self) -> Any:
        op = self.op
        shell = op.block.program.new_block(op.block, f"{self.body.name}_grad")
        gstates = [self._argument(shell, self.body.outputs[i].name, self.body.inputs[i]) for i in self.float_states]
        sums = [self._argument(shell, v.name, v if v.rank is not None else _flat(v)) for v in self.wanted]
        sequences = [*self.values, *self.given]
        elements = [self._argument(shell, s.inner.name, s.inner) for s in sequences]
        states, parts, scans = self._differentiate(shell, gstates, elements)
        factors = [_factors(g) for g in parts]
        later = _Stacks(self, sequences, elements, scans)
        for factor in factors:
            for v in factor.operands if factor else ():
                later.add(v)
        build = Builder(shell, key="step", role=Role.BACKWARD)
        now = [k for k, factor in enumerate(factors) if factor is None]
        totals = [sums[k] if parts[k] is None else build.Add(sums[k], _flattened(build, parts[k], self.wanted[k])) for k in now]
        scans = [_flattened(build, g, self.body.inputs[self.count + i]) for i, g in zip(self.wanted_scans, scans, strict=True)]
        finish_body(shell, [*states, *totals, *scans, *later.extra], build)
        keep_needed(shell)
        starts = [self._start(i) for i in self.float_states] + [_no_sum(op, self.wanted[k]) for k in now]
        sequences = self._drop_unread(shell, sums, now, sequences, elements)
        results = self._scan(shell, starts, sequences, len(later.extra))
        return self._distribute(results, now, factors, later)

    def _argument(self, shell: Any, name: str, like: Variable) -> Variable:
        v = Variable(shell, self.op.block.program.fresh_name(f"{name}@GRAD"), like.type)
        shell.inputs.append(shell.register(v))
        return v

    def _start(self, i: int) -> Variable:
        g = self.gradients[i]
        return zeros_like(self.op, self.node.inputs[i]) if g is None else g

    def _differentiate(self, shell: Any, gstates: Any, elements: Any) -> Any:
        """Gradients of the states, of the captured values and of the scanned values of one step"""
        body, inputs = self.body, len(self.body.inputs)
        seeds = [None] * len(body.outputs)
        for i, g in zip(self.float_states, gstates, strict=True):
            seeds[i] = g
        for j, g in zip(self.arriving, elements[len(self.values) :], strict=True):
            seeds[self.count + j] = g
        values = elements[:inputs]
        known = {s.inner: v for s, v in zip(self.values[inputs:], elements[inputs:], strict=False)}
        grads = self.node.differentiate_into(shell, body, values, seeds, [*body.inputs, *self.wanted], known)
        build = Builder(shell, key="step", role=Role.BACKWARD)

        def gradient_of(index):
            return zeros_like(build, values[index]) if grads[index] is None else grads[index]

        scans = [gradient_of(self.count + i) for i in self.wanted_scans]
        return [gradient_of(i) for i in self.float_states], grads[inputs:], scans

    def _drop_unread(self, shell: Any, sums: list[Variable], now: list[int], sequences: Any, elements: list[Variable]) -> Any:
        """Leave out the arguments that no step reads; the sequences that remain, at least one"""
        read = reads_of(shell.ops)
        kept = [k for k, v in enumerate(elements) if v in read] or [0]
        gone = {v for k, v in enumerate(sums) if k not in now} | {v for k, v in enumerate(elements) if k not in kept}
        for v in shell.inputs:
            if v in gone:
                del shell.vars[v.name]
        shell.inputs = [v for v in shell.inputs if v not in gone]
        return [sequences[k] for k in kept]

    def _scan(self, shell: Any, starts: list[Variable], sequences: Any, extra: int) -> Any:
        directions = [*(1 - self.in_directions[i] for i in self.wanted_scans), *[1] * extra]
        axes = [*(self.in_axes[i] for i in self.wanted_scans), *[0] * extra]
        layout = {"scan_output_directions": directions, "scan_output_axes": axes} if directions else {}
        results = self.op.Scan(
            *starts,
            *(s.stacked for s in sequences),
            outputs=len(shell.outputs),
            body=shell,
            num_scan_inputs=len(sequences),
            scan_input_directions=[s.direction for s in sequences],
            scan_input_axes=[s.axis for s in sequences],
            **layout,
        )
        return as_tuple(results)

    def _distribute(self, results: Any, now: list[int], factors: Any, later: Any) -> Any:
        """Gradients in the order of the node's inputs and captures"""
        states = dict(zip(self.float_states, results, strict=False))
        rest = results[len(self.float_states) :]
        totals = {k: _unflattened(self.op, total, self.wanted[k], self.wanted[k]) for k, total in zip(now, rest, strict=False)}
        stacked = rest[len(now) :]
        scans = {
            i: _unflattened(self.op, g, self.body.inputs[self.count + i], self.node.inputs[self.count + i])
            for i, g in zip(self.wanted_scans, stacked, strict=False)
        }
        for k, factor in enumerate(factors):
            if factor is not None:
                totals[k] = factor.sum_over_steps(self.op, [later.outside(v, stacked) for v in factor.operands])
        sums = (totals[k] for k in range(len(factors)))
        inputs = [states.get(i) for i in range(self.count)] + [scans.get(i) for i in range(self.scanned)]
        return *inputs, *(next(sums) if is_wanted else None for is_wanted in self.node.wanted_captures)


# onnxruntime runs no Scan with a result whose rank inference does not find; such a one is a vector inside.


def _flat(v: Variable) -> Variable:
    return Variable(v.block, v.name, TensorType(v.dtype, (None,)))


def _flattened(build: Builder, g: Variable, like: Variable) -> Variable:
    return g if like.rank is not None else build.Reshape(g, [-1])


def _no_sum(op: Builder, v: Variable) -> Variable:
    return zeros_like(op, v) if v.rank is not None else zeros_of_shape(op, op.Reshape(op.Size(v), [1]), v)


def _unflattened(op: Builder, g: Variable, like: Variable, outside: Variable) -> Variable:
    return g if like.rank is not None else op.Reshape(g, op.Shape(outside), allowzero=1)


class _Stacks:
    """Look up the values of all steps outside: among the sequences, the scan outputs, or ``extra`` ones."""

    def __init__(self, scan, sequences, elements, scans):
        self.sequences = {v: s.stacked for s, v in zip(sequences, elements, strict=True) if s.in_order}
        self.positions = {
            g: number
            for number, (i, g) in enumerate(zip(scan.wanted_scans, scans, strict=True))
            if not scan.in_directions[i] and not scan.in_axes[i] and scan.body.inputs[scan.count + i].rank is not None
        }
        self.count = len(scans)
        self.extra = []

    def add(self, v: Variable) -> None:
        if v not in self.sequences and v not in self.positions:
            self.positions[v] = self.count + len(self.extra)
            self.extra.append(v)

    def outside(self, v: Variable, stacked: Any) -> Any:
        return self.sequences[v] if v in self.sequences else stacked[self.positions[v]]


class _Product(NamedTuple):
    """a^T b, or a b^T (of columns), whose sum over the steps is the product of all rows, or columns."""

    operands: list[Variable]
    alpha: float
    of_columns: bool

    def sum_over_steps(self, op: Builder, stacked: list[Variable]) -> Variable:
        a, b = stacked
        if not self.of_columns:
            return op.Gemm(op.Flatten(a, axis=2), op.Flatten(b, axis=2), transA=1, alpha=self.alpha)
        rows = op.Flatten(op.Transpose(a, perm=[1, 0, 2]), axis=1)
        return op.Gemm(rows, op.Flatten(op.Transpose(b, perm=[0, 2, 1]), axis=2), alpha=self.alpha)


class _AxisSum(NamedTuple):
    """A sum over axes of a value."""

    operands: list[Variable]
    axes: list[int]
    keepdims: bool

    def sum_over_steps(self, op: Builder, stacked: list[Variable]) -> Variable:
        total = op.ReduceSum(stacked[0], [0, *(1 + axis for axis in self.axes)], keepdims=0)
        return op.Unsqueeze(total, self.axes) if self.keepdims else total


def _factors(g: Variable | None) -> Any:
    """Return the operation that computes a step's part of a sum, if its sum over all steps can be taken at once."""
    op = None if g is None else g.op
    if op is None or op.domain:
        return None
    present = [v for v in op.inputs if v is not None]
    if op.type == "Gemm" and len(present) == 2 and bool(op.attr("transA")) != bool(op.attr("transB")):
        return _Product(present, op.attr("alpha"), bool(op.attr("transB")))
    if op.type == "ReduceSum" and len(present) == 2 and present[0].rank is not None:
        axes = None if present[1].value is None else present[1].value.numpy().tolist()
        if axes:
            return _AxisSum(present[:1], sorted(axis % present[0].rank for axis in axes), bool(op.attr("keepdims")))
    return None
