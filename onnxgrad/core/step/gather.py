"""Gather the examples of all ranks where a loss lets them meet: each rank then computes that loss of the whole batch.

Up to where examples meet, each rank computes its own rows. Gathered, they are the rows G of the whole batch, and all ranks
compute the same loss L(G, p) from there, with what they share, p. Its gradient is the sum over ranks of dL/dg dg/dp, where g are
the rows of a rank, and dL/dp of what is computed behind them. So gradients pass from L to a rank's own rows as they are, with
nothing to send; and each rank adds its share of dL/dp and of L: its examples over those of all, which add up to 1.

Tests: tests/core/step/test_gather.py, tests/distributed/test_divisors.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.copying import copy_operators
from onnxgrad.core.ir.examples import examples_of
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traits import CASTS, COMPARES, ELEMENTWISE, RANDOM, READS_SHAPES, REDUCES, VIEWS
from onnxgrad.core.ir.traverse import all_operators_of, dependent_operators, needed_operators
from onnxgrad.core.ir.types import Dim, TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.step.stages import sum_over_ranks
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError

__all__ = ["ROWS", "Gather"]

ROWS = "rank_rows"
"""An input, int64 of shape [3]: how many examples of the whole batch lie before a rank's own, how many it has, and how many the
whole batch has."""

_DOUBLE = 11
_KEEPS_ROWS = ("Identity", "Squeeze", "Transpose", "Unsqueeze")
"""Operators that are computed again of gathered rows rather than gathered, as these may be gathered anyway."""
_CHEAP = CASTS | COMPARES | ELEMENTWISE | REDUCES | VIEWS


class _Cut(NamedTuple):
    """What lies between rows that are gathered and a value of the whole batch.

    Attributes:
        copied: operators, in order.
        rows: that they read.
        shared: what they read that is trained, and the same for all examples.
        wanted: what is computed of the whole batch.
    """

    copied: list[Operator]
    rows: list[Variable]
    shared: list[Variable]
    wanted: set[Variable]


class Gather:
    """Copies of operators that read the rows of all ranks, where the program's own read those of one.

    The program gets the input ``ROWS`` with the first of them. One process computes it with ``[0, n, n]`` as it is.

    Args:
        program: without a backward pass.
        build: that appends to it.

    Attributes:
        examples: of the program, as it was.
        rows: what is gathered.
    """

    def __init__(self, program: Program, build: Builder) -> None:
        self.program, self.build = program, build
        self.examples = examples_of(program)
        self.rows: list[Variable] = []
        main = program.global_block()
        self._known = set(main.ops)
        trained = [p for p in program.parameters if not p.stop_gradient]
        self._trained = {v for op in dependent_operators(main.ops, trained) for v in op.outputs} | set(trained)
        self._fed = next((v for v in program.inputs if v.dims and self.examples.axis(v) == 0), None)
        names = {d for v in program.inputs for d in (v.dims or ())[1:] if isinstance(d, str)}
        first = {v.dims[0] for v in program.inputs if v.dims and self.examples.axis(v) == 0}
        self._known_names = names - first
        self._whole: dict[Variable, Variable] = {}
        self._counting = self._counters()

    # Answers ---------------------------------------------------------------------------------------------------------

    def meets(self, v: Variable) -> str:
        """Name the operator by which examples meet on the way to ``v``, or are counted, and what it does; empty where none is."""
        counter = self._counting.get(v) if self.examples.depends(v) else None
        return self.examples.reason(v) or ("" if counter is None else f"{counter} counts the examples of the batch")

    def loss(self, v: Variable) -> Variable:
        """A term of a loss, computed of the whole batch on every rank: this rank's share of it, with all of its gradient that goes
        to the rank's own rows.

        Args:
            v: one number.

        Raises:
            ArgumentError: if it cannot be computed so, naming the operator.
        """
        return self._shared(self.whole(v), is_shown=True)

    def own_rows(self, v: Variable) -> Variable:
        """The rows of this rank's examples in a value that is computed of the whole batch."""
        axis = self.examples.axis(v)
        if axis is None:
            raise self._refusal(v, "it has no rows of examples", "Leave metrics out")
        whole = self.whole(v)
        first, _, _ = self._places(v)
        return self._like(v, self.build.Slice(whole, first, self.build.Add(first, self._size(v, axis)), [axis]))

    def whole(self, v: Variable) -> Variable:
        """What a value is of the whole batch.

        Raises:
            ArgumentError: if it cannot be computed so, naming the operator.
        """
        assert v.op is None or v.op in self._known, f"{v.op} is younger than what is known of examples"
        if self._is_apart(v):
            return self._whole[v] if v in self._whole else self._gathered(v)
        cut = self._cut(v)
        for x in cut.rows:
            self._gathered(x)
        for x in cut.shared:
            self._whole[x] = self._shared(x)
        for op in cut.copied:
            self._copy(op)
        return self._whole.get(v, v)

    def remark(self) -> str:
        """Say what is gathered, and why, as a line for people."""
        names = ", ".join(v.name for v in self.rows)
        return f"examples meet in the loss: each rank gathers {names} of all ranks, and computes the rest on the whole batch."

    # Cutting ---------------------------------------------------------------------------------------------------------

    def _cut(self, v: Variable) -> _Cut:
        """What lies between rows that are gathered and a value of the whole batch

        Raises:
            ArgumentError: if rows cannot be sent, or an operator is no function of them.
        """
        operators = needed_operators(self.program.global_block().ops, [v])
        cut = self._behind(v, operators, self._derived(operators, []))
        cut = self._behind(v, operators, self._derived(operators, cut.rows))
        leaf = next((x for x in cut.wanted if x.op is None), None)
        if leaf is not None:
            raise self._refusal(v, f"the rows of {leaf.name} cannot be sent", "Compute it from each example alone")
        for op in cut.copied:
            self._check(op, v)
        return cut

    def _behind(self, v: Variable, operators: Sequence[Operator], derived: set[Variable]) -> _Cut:
        """What lies behind rows, of which some are ``derived`` from others"""
        sized = self._sized(operators)
        wanted, copied = {v}, []
        rows: dict[Variable, None] = {}
        shared: dict[Variable, None] = {}
        for op in reversed(operators):
            if wanted.isdisjoint(op.outputs) or all(out is None or out in self._whole for out in op.outputs):
                continue
            copied.append(op)
            if self._is_size_of_rows(op):
                continue
            for x in op.operands():
                if x is None or x in self._whole:
                    continue
                if self._is_apart(x) and x not in derived and not self._is_cheaper_before(x):
                    rows[x] = None
                elif self.examples.depends(x) or x in sized:
                    wanted.add(x)
                elif x in self._trained and x.is_float:
                    shared[x] = None
        return _Cut(copied[::-1], list(rows), list(shared), wanted)

    def _is_apart(self, v: Variable) -> bool:
        """Whether a value has rows for each example that depend on no other, and can be gathered"""
        examples = self.examples
        if not isinstance(v.type, TensorType) or v.rank is None or v.dtype.name == "string":
            return False
        met = self.meets(v) or examples.total_by(v) is not None
        return examples.depends(v) and examples.axis(v) is not None and not met

    def _is_cheaper_before(self, v: Variable) -> bool:
        """Whether the operand of the operator that computes a value is gathered rather than it"""
        op = v.op
        if op is None or op.domain or op.expansion is not None or not op.inputs or op.inputs[0] is None:
            return False
        x = op.inputs[0]
        is_narrow = op.type == "Cast" and self._is_apart(x) and x.dtype.bits <= v.dtype.bits
        return (op.type in _KEEPS_ROWS or is_narrow) and self._is_apart(x)

    def _derived(self, operators: Sequence[Operator], gathered: Sequence[Variable]) -> set[Variable]:
        """What costs little to compute from rows that are gathered"""
        known: set[Variable] = {*self._whole, *gathered}
        derived: set[Variable] = set()
        for op in operators:
            if op.type in _CHEAP and not op.domain and op.expansion is None:
                rows = [x for x in op.operands() if x is not None and self.examples.depends(x)]
                shared = [x for x in op.operands() if x is not None and not self.examples.depends(x)]
                if rows and all(x in known for x in rows) and not any(x in self._trained for x in shared):
                    derived.update(out for out in op.outputs if out is not None)
                    known |= derived
        return derived

    def _sized(self, operators: Sequence[Operator]) -> set[Variable]:
        """What follows from how many examples are fed, and from no example"""
        sized: set[Variable] = set()
        for op in operators:
            operands = [x for x in op.operands() if x is not None]
            reads = op.type in READS_SHAPES and any(
                self.examples.depends(x) or self.examples.lies_along(x) is not None for x in operands
            )
            if reads or any(x in sized for x in operands):
                outputs = [out for out in op.outputs if out is not None and not self.examples.depends(out)]
                sized.update(out for out in outputs if self.examples.follows_batch(out) is not False)
        return sized

    def _counters(self) -> dict[Variable, Operator]:
        """What is computed with the number of examples, and where that became a number to compute with rather than a shape"""
        operators = self.program.global_block().ops
        sized = self._sized(operators)
        counting: dict[Variable, Operator] = {}
        for op in operators:
            operands = [x for x in op.operands() if x is not None]
            begins = op.type == "Cast" and operands[0] in sized and not operands[0].is_float
            is_counter = begins and op.outputs[0] is not None and op.outputs[0].is_float
            counter = next((counting[x] for x in operands if x in counting), None)
            if counter is None and is_counter and self.examples.follows_batch(operands[0]) is not False:
                counter = op
            if counter is not None:
                counting.update((out, counter) for out in op.outputs if out is not None)
        return counting

    def _is_size_of_rows(self, op: Operator) -> bool:
        """Whether an operator reads the shape of what has rows for each example"""
        x = op.inputs[0] if op.inputs else None
        if op.type not in ("Shape", "Size") or op.domain or x is None or x.rank is None:
            return False
        return self.examples.lies_along(x) is not None and not self.examples.reason(x)

    def _check(self, op: Operator, v: Variable) -> None:
        """Refuse what is no function of the rows"""
        is_always = op.expansion is not None and op.expansion.always
        advice = "Let examples meet behind it"
        for inner in [op, *(inner for body in op.blocks() for inner in all_operators_of(body))]:
            is_trained = is_always or inner.mode == "trained"
            if inner.domain:
                continue
            if inner.type in RANDOM and (inner.type != "Dropout" or is_trained):
                raise self._refusal(v, f"{inner}, behind it, draws random numbers", advice)
            if inner.type == "BatchNormalization" and (is_trained or inner.attr("training_mode")):
                raise self._refusal(v, f"{inner}, behind it, normalises by its batch", advice)
        if is_always:
            raise self._refusal(v, f"{op}, behind it, has a form of its own in training", advice)

    def _refusal(self, v: Variable, reason: str, advice: str) -> ArgumentError:
        met = self.meets(v) or f"{v.op} is computed from the whole batch"
        return ArgumentError(f"on the way to {v.name} {met}; ranks cannot gather their examples there: {reason}. {advice}.")

    # Writing ---------------------------------------------------------------------------------------------------------

    def _copy(self, op: Operator) -> None:
        """Append a copy that reads the rows of all ranks"""
        program = self.program
        if self._is_size_of_rows(op):
            assert op.inputs[0] is not None and op.outputs[0] is not None
            self._whole[op.outputs[0]] = self._shape(op, op.inputs[0])
            return
        before = set(self._whole)
        (copy,) = copy_operators([op], self._whole, program.global_block(), lambda v: program.fresh_name(f"{v.name}/whole"))
        for inner in [copy, *(inner for body in copy.blocks() for inner in all_operators_of(body))]:
            inner.role = Role.BACKWARD
        for old in self._whole.keys() - before:
            self._forget_sizes(self._whole[old])
        program.global_block().append(copy)

    def _forget_sizes(self, v: Variable) -> None:
        """Let a copy claim no dimension that counts the examples of one rank"""
        if isinstance(v.type, TensorType) and v.type.dims is not None:
            v.type = TensorType(v.type.dtype, tuple(map(self._kept, v.type.dims)))
        elif v.type is not None and not isinstance(v.type, TensorType):
            v.type = None
        if v.entries is not None:
            v.entries = tuple(map(self._kept, v.entries))

    def _kept(self, dim: Dim) -> Dim:
        return dim if isinstance(dim, int) or dim in self._known_names else None

    def _shape(self, op: Operator, x: Variable) -> Variable:
        """The shape, or size, of rows of the whole batch"""
        build, axis = self.build, self.examples.lies_along(x)
        assert axis is not None and x.rank is not None
        numbers = [self._size(x, i) for i in range(x.rank)]
        first, own, behind = self._places(x)
        numbers[axis] = build.Add(build.Add(first, own), behind)
        if op.type == "Size":
            size: Variable = build.ReduceProd(build.Concat(*numbers, axis=0), keepdims=0)
            return size
        numbers = numbers[slice(op.attrs.get("start", 0), op.attrs.get("end"))]
        shape: Variable = build.Concat(*numbers, axis=0) if numbers else build.constant(np.zeros(0, np.int64))
        return shape

    def _size(self, v: Variable, axis: int) -> Variable:
        size: Variable = self.build.Shape(v, start=axis, end=axis + 1)
        return size

    def _rows_input(self) -> Variable:
        block = self.program.global_block()
        if self._fed is None or self._fed.dims is None or isinstance(self._fed.dims[0], int):
            raise ArgumentError(
                "examples of ranks are gathered by how many each is fed, and no input of the program has that number. "
                "Leave the first dimension of its inputs open."
            )
        if ROWS not in block.vars:
            block.inputs.append(block.register(Variable(block, ROWS, TensorType(dtype_of("int64"), (3,)))))
        return block.vars[ROWS]

    def _places(self, v: Variable) -> tuple[Variable, Variable, Variable]:
        """How many rows lie before this rank's own, how many it has, and how many lie behind, each of shape [1]"""
        build, rows = self.build, self._rows_input()
        first, own, total = (build.Slice(rows, [i], [i + 1]) for i in range(3))
        numbers = (first, own, build.Sub(total, build.Add(first, own)))
        axis = self.examples.lies_along(v)
        if self.examples.rows(v) == 1 or axis is None:
            return numbers
        assert self._fed is not None
        each = build.Div(self._size(v, axis), self._size(self._fed, 0))
        before, mine, behind = (build.Mul(number, each) for number in numbers)
        return before, mine, behind

    def _gathered(self, v: Variable) -> Variable:
        """The rows of all ranks, of which gradients go to those of this one"""
        build, axis = self.build, self.examples.axis(v)
        assert axis is not None and v.rank is not None
        first, own, behind = self._places(v)
        mine = self._like(v, build.Slice(v, [0], own, [axis]))  # a rank without examples has one that stands in for none
        zero = build.constant(np.zeros((), v.dtype.numpy), v.dtype)

        def zeros(count: Variable) -> Variable:
            sizes = [count if i == axis else self._size(v, i) for i in range(v.rank or 0)]
            blank: Variable = self._like(v, build.Expand(zero, build.Concat(*sizes, axis=0) if len(sizes) > 1 else sizes[0]))
            return blank

        total = sum_over_ranks(build, build.Concat(zeros(first), self._held(mine), zeros(behind), axis=axis))
        self._like(v, total)
        before = self._like(v, build.Slice(total, [0], first, [axis]))
        after = self._like(v, build.Slice(total, build.Add(first, own), [np.iinfo(np.int64).max], [axis]))
        whole: Variable = build.Concat(before, mine, after, axis=axis)
        self._like(v, whole)
        self.rows.append(v)
        self._whole[v] = whole
        return whole

    def _like(self, v: Variable, rows: Variable) -> Variable:
        """Rows of a value, whose other dimensions are known"""
        axis = self.examples.axis(v)
        rows.type = TensorType(v.dtype, tuple(None if i == axis else self._kept(dim) for i, dim in enumerate(v.dims or ())))
        return rows

    def _held(self, v: Variable) -> Variable:
        """The same value, which passes no gradient on"""
        held: Variable = self.build.Identity(v)
        held.stop_gradient = True
        return held

    def _shared(self, v: Variable, is_shown: bool = False) -> Variable:
        """The same value, with this rank's share of its gradient; or, if that is shown, its share, with all of its gradient"""
        build, rows = self.build, self._rows_input()
        own, total = (build.Cast(build.Squeeze(build.Slice(rows, [i], [i + 1]), [0]), to=_DOUBLE) for i in (1, 2))
        share = build.Cast(build.Div(own, total), to=v.dtype.number)
        held = self._held(v)
        change = build.Sub(v, held)  # 0, and by rounding nothing else
        shared: Variable = build.Add(build.Mul(held, share), change) if is_shown else build.Add(held, build.Mul(change, share))
        return shared
