"""Find which axis of each value counts the examples of a batch, and which operators mix examples.

It is asked by whoever cuts a batch into parts, or promises something of each example: ranks, micro-batches, differential privacy.
The values of a program are followed from its inputs by the table ``parallel_axes``; here is what that table has no form for:
reshaping, control flow, sequences, functions, and what becomes of totals.

Tests: tests/core/ir/test_examples.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.infer import inferred_types
from onnxgrad.core.ir.known import entries_of, known_ints
from onnxgrad.core.ir.operator import Operator, resolve_reference
from onnxgrad.core.ir.parallel_axes import AxisNames, NotKnown, attribute_of, axes_operand, axis_names
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traits import READS_SHAPES, linear_in
from onnxgrad.core.ir.types import Dim, OptionalType, SequenceType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError

__all__ = ["Examples", "batch_axes", "check_separate", "examples_of"]


@dataclass(frozen=True)
class Cause:
    """An operator and what it does to the examples of a batch, as the end of a sentence about it."""

    operator: Operator
    reason: str


@dataclass(frozen=True)
class _State:
    """What is known of one value.

    Attributes:
        axis: where its examples lie; also of values that have a row for each example without depending on any, such as zeros.
        rows: how many rows each example has there; None if that is not known.
        depends: whether it depends on the examples.
        mixed, total, statistics, unknown: the first operator on the way that did so.
        empty: whether it is a sequence without elements, which could lie in any way.
        numbers: the axis along which it holds the number of each example, if it does; ``axis`` is None then, as for all that lies
            by position.
        step: by what that number is multiplied, and what is added is smaller: the quotient is the number.
        below: what its integers are smaller than, none of them negative; None where that is not known.
    """

    axis: int | None = None
    rows: Size | None = None
    depends: bool = False
    mixed: Cause | None = None
    total: Operator | None = None
    statistics: Operator | None = None
    unknown: Operator | None = None
    empty: bool = False
    numbers: int | None = None
    step: Size | None = None
    below: Size | None = None


@dataclass(frozen=True)
class Size:
    """A product of a number and of the names of dimensions."""

    number: int
    names: tuple[str, ...] = ()

    def times(self, other: Size) -> Size:
        return Size(self.number * other.number, tuple(sorted(self.names + other.names)))

    def over(self, other: Size) -> Size | None:
        """The quotient, None where it is not known to be a whole number."""
        names = list(self.names)
        for name in other.names:
            if name not in names:
                return None
            names.remove(name)
        if other.number == 0 or self.number % other.number:
            return None
        return Size(self.number // other.number, tuple(names))


_ONE = Size(1)
_BATCH = "examples"
_SHARED = _State()
"""Of what is the same for all examples, or lies elsewhere."""


class Examples:
    """Which axis of each value of a program counts examples, and what mixes them: see ``examples_of``."""

    def __init__(self, program: Program, axes: Mapping[Variable, int]) -> None:
        self.program = program
        self._states: dict[Variable, _State] = {}
        self._shapes: dict[Variable, Sequence[Size]] = {}
        self._ranks: dict[Variable, int] = {}
        self._calls: list[tuple[Operator, dict[str, Any]]] = []
        self._batch, self._batch_names = _batch_of(axes)
        for v, axis in axes.items():
            rank = v.rank
            self._states[v] = _State(axis % rank if rank else axis, _ONE, depends=True)
        self._run(program.global_block())

    # Answers ---------------------------------------------------------------------------------------------------------

    def axis(self, v: Variable) -> int | None:
        """The axis along which the examples of a value lie; each may have several rows there, one after the other.

        None where the value does not depend on examples, or is a total of theirs.
        """
        state = self._of(v)
        return state.axis if state.depends else None

    def lies_along(self, v: Variable) -> int | None:
        """The axis along which a value has rows for each example, whether or not it depends on any, as zeros do not."""
        return self._of(v).axis

    def follows_batch(self, v: Variable) -> bool | None:
        """Whether a number in a small integer tensor, as shapes are computed, follows from how many examples there are; None where
        that is not known."""
        numbers = self._numbers(v)
        if numbers is None or None in numbers:
            return None
        names = {name for n in numbers if n is not None for name in n.names}
        if not names.isdisjoint(self._batch.names):
            return True
        fed = {f"{x.name}#{axis}" for x in self.program.inputs for axis in range(x.rank or 0)}
        return None if any("#" in name and name not in fed for name in names) else False

    def rows(self, v: Variable) -> int | None:
        """How many rows each example has along ``axis``; None where that is not a known number."""
        size = self._of(v).rows
        return None if size is None or size.names else size.number

    def depends(self, v: Variable) -> bool:
        """Whether a value depends on examples at all."""
        return self._of(v).depends

    def mixed_by(self, v: Variable) -> Operator | None:
        """The first operator on the way from the inputs that lets an example's values depend on other examples, or on its position
        in the batch; None where there is none.
        """
        cause = self._of(v).mixed
        return None if cause is None else cause.operator

    def total_by(self, v: Variable) -> Operator | None:
        """The first sum or mean over examples on the way, by a reduction, a product or a loss.

        A value that is not mixed besides is linear in such totals, as a loss is.
        """
        return self._of(v).total

    def statistics_by(self, v: Variable) -> Operator | None:
        """The first BatchNormalization on the way that uses the statistics of the batch."""
        return self._of(v).statistics

    def unknown(self, v: Variable) -> Operator | None:
        """The first operator on the way of which it is not known what it does to examples, if nothing mixed them before."""
        return self._of(v).unknown

    def reason(self, v: Variable) -> str:
        """What the operators of ``mixed_by`` and ``unknown`` do, with their names; empty where there is none."""
        state = self._of(v)
        if state.mixed is not None:
            return f"{state.mixed.operator} {state.mixed.reason}"
        return "" if state.unknown is None else f"it is not known whether {state.unknown} keeps examples apart"

    # Following -------------------------------------------------------------------------------------------------------

    def _of(self, v: Variable | None) -> _State:
        if v is None:
            return _SHARED
        state = self._states.get(v)
        if state is None:
            state = self._states[v] = self._stored(v)
        return state

    def _stored(self, v: Variable) -> _State:
        """A constant for a fixed number of examples that holds the same for each, such as the first state of a recurrent network"""
        count = self._batch.number
        fixed = v.value is not None and not v.is_data and v.stop_gradient and not self._batch.names and count > 1
        if not fixed or v.value is None or not v.dims or count not in v.dims:
            return _SHARED
        array = v.value.numpy()
        for axis, dim in enumerate(array.shape):
            if dim == count and (array == array.take([0], axis)).all():
                return _State(axis=axis, rows=_ONE)
        return _SHARED

    def _run(self, block: Block) -> None:
        for op in block.ops:
            for v, state in zip(op.outputs, self._results(op), strict=False):
                if v is not None:
                    self._states[v] = state

    def _results(self, op: Operator) -> Sequence[_State]:
        """The states of an operator's results"""
        count = len(op.outputs)
        if self._calls:
            op = self._resolved(op)
        if op.replaces is not None and op.replaces.type == "Dropout" and not op.replaces.domain:
            return self._masks(op)
        function = self.program.functions.get((op.domain, op.type, op.overload))
        direct = _DIRECT.get(op.type) if op.domain == "" else None
        if function is not None:
            return self._called(op, function)
        if op.domain == "" and op.type in READS_SHAPES | {"OptionalHasElement"}:
            return self._sized(op)
        if direct is not None:
            results = self._directly(op, direct)
        else:
            results = self._by_names(op, axis_names(op, [self._rank(v) for v in op.inputs]))
        return [*results, *[results[-1] if results else _SHARED] * (count - len(results))]

    def _directly(self, op: Operator, rule: _Direct) -> list[_State]:
        states = [self._of(v) for v in op.inputs]
        if op.type in _TOLD_SHAPES and any(s.depends for s in states[1:]):
            return self._mixed(op, states, _causes(states), "takes its shape for all examples from a value that depends on them")
        try:
            results = rule(self, op)
        except (NotKnown, IndexError, ValueError):  # in a branch that is never taken, shapes may not fit
            return self._unknown(op)
        bound = states[0].below if op.type in _KEEP_VALUES and states else None
        return results if bound is None else [replace(state, below=bound) for state in results]

    def _resolved(self, op: Operator) -> Operator:
        """An operator of a function with the attributes of the call"""
        call, defaults = self._calls[-1]
        attrs = {name: resolve_reference(value, call, defaults) for name, value in op.attrs.items()}
        copy = op.blank_copy(op.block, op.inputs)
        copy.outputs, copy.replaces, copy.expansion = op.outputs, op.replaces, op.expansion
        copy.attrs = {name: value for name, value in attrs.items() if value is not None}
        return copy

    def _called(self, call: Operator, function: Any) -> list[_State]:
        """A model's own function: its body, on the operands of this call"""
        inferred_types(call)  # sets the types in the body
        for formal, v in zip(function.body.inputs, [*call.inputs, *[None] * len(function.body.inputs)], strict=False):
            self._states[formal] = self._of(v)
        for v in function.body.vars.values():  # what an earlier call has left
            self._shapes.pop(v, None)
            self._ranks.pop(v, None)
        self._calls.append((call, function.attribute_defaults))
        self._run(function.body)
        self._calls.pop()
        # Errors name the call, as operators of the body come in each call.
        return [self._named_by(call, self._of(v)) for v in function.body.outputs]

    def _named_by(self, call: Operator, state: _State) -> _State:
        body = self.program.functions[(call.domain, call.type, call.overload)].body

        def outer(operator: Operator | None) -> Operator | None:
            return call if operator is not None and operator.block.program is body.program else operator

        mixed = state.mixed
        if mixed is not None and outer(mixed.operator) is call:
            mixed = Cause(call, f"calls {mixed.operator}, which {mixed.reason}")
        return replace(
            state, mixed=mixed, unknown=outer(state.unknown), total=outer(state.total), statistics=outer(state.statistics)
        )

    # Sizes -----------------------------------------------------------------------------------------------------------

    def _note_rank(self, v: Variable | None, rank: int) -> None:
        """Keep a rank where inference has lost it"""
        if v is not None and v.rank is None:
            self._ranks[v] = rank

    def _rank(self, v: Variable | None) -> int | None:
        return None if v is None else v.rank if v.rank is not None else self._ranks.get(v)

    def _size_of(self, dim: Dim, v: Variable | None, axis: int) -> Size:
        """A dimension; one without a name gets one of its own"""
        if isinstance(dim, int):
            return Size(dim)
        if dim is None:
            return Size(1, (f"{'' if v is None else v.name}#{axis}",))
        return self._batch if dim in self._batch_names else Size(1, (dim,))

    def _sizes(self, v: Variable) -> list[Size]:
        if v in self._shapes:
            return list(self._shapes[v])
        state = self._of(v)
        dims = v.dims if v.dims is not None else (None,) * (self._rank(v) or 0)
        sizes = [self._size_of(dim, v, axis) for axis, dim in enumerate(dims)]
        if state.axis is not None and state.rows is not None and state.axis < len(sizes):
            sizes[state.axis] = self._batch.times(state.rows)
        return sizes

    def _numbers(self, v: Variable | None) -> list[Size | None] | None:
        """The elements of a small integer tensor, as a shape is computed"""
        if v is None:
            return None
        entries = entries_of(v)
        found = None if entries is None else [None if e is None else self._size_of(e, None, 0) for e in entries]
        if found is not None and None not in found:
            return found
        computed = self._computed(v)
        if found is None or computed is None or len(found) != len(computed):
            return computed or found
        return [a or b for a, b in zip(found, computed, strict=True)]

    def _computed(self, v: Variable) -> list[Size | None] | None:
        op = v.op
        if op is None or op.domain or v.value is not None:
            return None
        if op.type in ("Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"):
            return self._numbers(op.inputs[0])
        if op.type == "Shape" and op.inputs[0] is not None:
            return list(self._sizes(op.inputs[0])[op.attrs.get("start", 0) : op.attrs.get("end")])
        if op.type == "Concat":
            parts = [self._numbers(part) for part in op.inputs]
            return [n for part in parts for n in part or ()] if all(part is not None for part in parts) else None
        if op.type == "Gather":
            data, index = self._numbers(op.inputs[0]), None if op.inputs[1] is None else entries_of(op.inputs[1])
            if data is None or index is None or not all(isinstance(i, int) and -len(data) <= i < len(data) for i in index):
                return None
            return [data[i] for i in index if isinstance(i, int)]
        if op.type == "Slice" and len(op.inputs) in (3, 4):
            data = self._numbers(op.inputs[0])
            bounds = [known_ints(w) if w is not None and entries_of(w) is not None else None for w in op.inputs[1:3]]
            return data[bounds[0][0] : bounds[1][0]] if data is not None and bounds[0] and bounds[1] else None
        if op.type == "Where":
            return self._chosen(op)
        if op.type == "ConstantOfShape":
            count, value = self._numbers(op.inputs[0]), op.attrs.get("value")
            if count is None or len(count) != 1 or count[0] is None or count[0].names:
                return None
            return [Size(0 if value is None else int(value.numpy().item()))] * count[0].number
        if op.type in ("Mul", "Div"):
            a, b = self._numbers(op.inputs[0]), self._numbers(op.inputs[1])
            if a is None or b is None or (len(a) != len(b) and 1 not in (len(a), len(b))):
                return None
            a, b = a * (len(b) if len(a) == 1 else 1), b * (len(a) if len(b) == 1 else 1)
            apply = Size.times if op.type == "Mul" else Size.over
            return [None if x is None or y is None else apply(x, y) for x, y in zip(a, b, strict=True)]
        return None

    def _chosen(self, op: Operator) -> list[Size | None] | None:
        """Where(shape == -1, a, shape), as exporters write Expand"""
        test = None if op.inputs[0] is None else op.inputs[0].op
        if test is None or test.type != "Equal" or op.inputs[2] is None:
            return None
        if not any(v is op.inputs[2] for v in test.inputs):  # `in` would call ==, which appends an operator
            return None
        minus = [self._numbers(v) for v in test.inputs if v is not op.inputs[2]]
        a, b = self._numbers(op.inputs[1]), self._numbers(op.inputs[2])
        if a is None or b is None or not minus or minus[0] is None or any(n != Size(-1) for n in minus[0]):
            return None
        a = a * len(b) if len(a) == 1 else a
        return [x if n == Size(-1) else n for x, n in zip(a, b, strict=True)]

    # Joining ---------------------------------------------------------------------------------------------------------

    def _by_names(self, op: Operator, names: AxisNames | None) -> list[_State]:
        """Results of an operator whose axes have names"""
        for v, result in zip(op.outputs, () if names is None else names.outputs, strict=False):
            if names is not None and names.complete:
                self._note_rank(v, len(result))
                self._note_shape(v, self._sizes_by(op, names, result))
        states = [self._of(v) for v in op.inputs]
        if op.type == "CastLike" and not op.domain:
            states = states[:1]
        causes = _causes(states)
        lying = [(i, s) for i, s in enumerate(states) if s.axis is not None]
        if not any(s.depends for s in states) and names is None:
            return [_SHARED] * len(op.outputs)
        if names is None:
            return [
                replace(_lying_as(states, causes, v), unknown=causes.unknown or (op if causes.mixed is None else None))
                for v in op.outputs
            ]
        if not lying:
            return [self._of_totals(op, states, causes)] * len(op.outputs)
        lies_at = {i: _name(names.inputs, i, s.axis) for i, s in lying}
        here = {name for i, name in lies_at.items() if states[i].depends} or set(lies_at.values())
        if not causes.depends:
            return self._without_examples(op, names, lies_at)
        name = next(iter(here)) if len(here) == 1 else None
        if name is None:
            return self._mixed(op, states, causes, "lets an example depend on the others of its batch, or on its position there")
        if any(lies_at[i] != name for i in lies_at):
            return self._mixed(op, states, causes, _POSITION)
        if any(s.depends and s.axis is None for s in states):
            return self._mixed(op, states, causes, "uses for each example a value of the whole batch")
        rows = {s.rows for _, s in lying}
        if len(rows) > 1 and (names.exact or any(size is None or _is_kept(size) for size in rows)):
            return self._mixed(op, states, causes, _POSITION)
        for i, v in enumerate(op.inputs):
            if v is not None and i not in lies_at and self._has_slices(v, _all_names(names.inputs, i), name, names.exact):
                return self._mixed(op, states, causes, _POSITION)
        return [self._named(op, names, k, name, lying[0][1], causes) for k in range(len(op.outputs))]

    def _sizes_by(self, op: Operator, names: AxisNames, result: Sequence[Any]) -> list[Size | None]:
        """The shape of a result whose axes have the names of the operands' axes"""
        found: dict[Any, Size] = {}
        for v, own in zip(op.inputs, names.inputs, strict=False):
            for name, size in zip(own, [] if v is None else self._sizes(v), strict=False):
                if name is not None and found.get(name, _ONE) == _ONE:
                    found[name] = size
        return [found.get(name) for name in result]

    def _named(self, op: Operator, names: AxisNames, k: int, name: Any, first: _State, causes: _State) -> _State:
        result = names.outputs[k] if k < len(names.outputs) else ()
        if name in result:
            return replace(causes, axis=result.index(name), rows=first.rows)
        if names.sums:
            return replace(causes, total=causes.total or op)
        return replace(causes, mixed=causes.mixed or Cause(op, _ALL))

    def _without_examples(self, op: Operator, names: AxisNames, lies_at: dict[int, Any]) -> list[_State]:
        """What has a row for each example, but depends on none, keeps its axis where that is one"""
        different = set(lies_at.values())
        name = next(iter(different)) if len(different) == 1 else None
        states = []
        for k in range(len(op.outputs)):
            result = names.outputs[k] if k < len(names.outputs) else ()
            kept = name is not None and name in result
            shared = all(
                v is None or i in lies_at or not self._has_slices(v, _all_names(names.inputs, i), name, names.exact)
                for i, v in enumerate(op.inputs)
            )
            first = self._of(op.inputs[next(iter(lies_at))])
            states.append(_State(axis=result.index(name), rows=first.rows) if kept and shared else _SHARED)
        return states

    def _has_slices(self, v: Variable, names: Sequence[Any], name: Any, exact: bool = False) -> bool:
        """Whether a value that is the same for all examples has slices of its own along their axis"""
        if name not in names:
            return False
        sizes, axis = self._sizes(v), list(names).index(name)
        return exact or axis >= len(sizes) or sizes[axis] != _ONE

    def _of_totals(self, op: Operator, states: Sequence[_State], causes: _State) -> _State:
        """Of what has no axis of examples: shared by all, or totals, which only linear operators leave alone"""
        if not causes.depends or causes.mixed is not None:
            return causes
        totals = {i for i, s in enumerate(states) if s.depends}
        groups = [] if op.domain else linear_in(op.type, op.attrs, len(op.inputs))
        if any(totals <= set(group) for group in groups):
            return causes
        return replace(causes, mixed=Cause(op, "is not linear in a sum over the batch"))

    def _mixed(self, op: Operator, states: Sequence[_State], causes: _State, reason: str) -> list[_State]:
        mixed = causes.mixed or Cause(op, reason)
        return [replace(_lying_as(states, causes, v), mixed=mixed) for v in op.outputs]

    def _unknown(self, op: Operator) -> list[_State]:
        causes = _causes([self._of(v) for v in op.operands()])
        states = [self._of(v) for v in op.inputs]
        return [
            replace(_lying_as(states, causes, v), unknown=causes.unknown or (op if causes.mixed is None else None))
            for v in op.outputs
        ]

    def _meet(self, op: Operator, a: _State, v: Variable | None, b: _State, w: Variable | None) -> _State:
        """One value that may be v or w, of one shape"""
        if a == b or a.empty or b.empty:
            return b if a.empty else a
        causes = _causes([a, b])
        for this, other, shared in ((a, b, w), (b, a, v)):
            if this.axis is None or (other.axis is None and other.depends) or other.axis not in (None, this.axis):
                continue
            if (
                this.depends
                and other.axis is None
                and shared is not None
                and self._has_slices(shared, range(this.axis + 1), this.axis)
            ):
                return replace(causes, axis=this.axis, rows=this.rows, mixed=causes.mixed or Cause(op, _POSITION))
            return replace(causes, axis=this.axis, rows=this.rows if other.rows in (None, this.rows) else None)
        if a.axis is None and b.axis is None:
            return causes
        if not causes.depends:
            return _SHARED
        return replace(causes, axis=a.axis, mixed=causes.mixed or Cause(op, _ALL))

    # Operators without a form in the table ----------------------------------------------------------------------------

    def _sized(self, op: Operator) -> list[_State]:
        """What depends on shapes alone; random numbers like an operand lie as that does"""
        state = self._of(op.inputs[0]) if op.inputs else _SHARED
        like = op.type.startswith("Random") and state.axis is not None
        return [_State(axis=state.axis, rows=state.rows) if like else _SHARED] * len(op.outputs)

    def _masks(self, op: Operator) -> list[_State]:
        """The masks that a trained Dropout draws: of each row by its number, which is as good as at random"""
        causes = _causes([self._of(v) for v in op.operands()])
        states = [self._of(v) for v in op.inputs]
        if causes.depends:
            return [_lying_as(states, causes, v) for v in op.outputs]
        return [_State(axis=self._axis_by_size(v)) for v in op.outputs]

    def _axis_by_size(self, v: Variable | None) -> int | None:
        if v is None or v.dims is None:
            return None
        sizes = [self._size_of(dim, v, axis) for axis, dim in enumerate(v.dims)]
        return next((axis for axis, size in enumerate(sizes) if size.over(self._batch) is not None and size != _ONE), None)

    def _passed(self, op: Operator) -> list[_State]:
        """Identity, and what puts into an optional or takes out of it"""
        return [self._of(op.inputs[0] if op.inputs else None)]

    def _filled(self, op: Operator) -> list[_State]:
        """ConstantOfShape: rows that are all the same, one or several for each example"""
        causes = _causes([self._of(v) for v in op.inputs])
        if causes.depends:
            return self._by_names(op, AxisNames([], [()]))
        sizes = self._numbers(op.inputs[0])
        self._note_shape(op.outputs[0], sizes)
        return [self._uniform(op.outputs[0], sizes, [])]

    def _note_shape(self, v: Variable | None, sizes: Sequence[Size | None] | None) -> None:
        """Keep a shape that the program computes, where inference has lost it"""
        known = [size for size in sizes or () if size is not None and size != Size(-1)]
        if sizes is not None:
            self._note_rank(v, len(sizes))
        if v is not None and sizes is not None and len(known) == len(sizes) and None in (v.dims or (None,)):
            self._shapes[v] = known

    def _ranged(self, op: Operator) -> list[_State]:
        """Range(0, examples, 1) numbers the examples"""
        start, limit, step = (self._numbers(v) for v in op.inputs)
        if start != [Size(0)] or step != [_ONE] or limit is None:
            return self._by_names(op, AxisNames([], [()]))
        return [_State(numbers=0, step=_ONE) if limit == [self._batch] else _State(below=limit[0])]

    def _counted(self, op: Operator) -> list[_State]:
        """Mul and Add, as positions in a flat tensor are computed: number of the example * its size + position within it"""
        for v, other in (op.inputs[:2], op.inputs[1::-1]):
            state, rank, more = self._of(v), self._rank(v), self._rank(other)
            if state.numbers is None or state.step is None or rank is None or more is None or other is None:
                continue
            added, factor = self._of(other), self._numbers(other)
            axis = state.numbers + max(rank, more) - rank
            own = axis - max(rank, more) + more
            if added.depends or (own >= 0 and other.dims is not None and other.dims[own] != 1) or other.dims is None:
                continue
            if op.type == "Mul" and factor is not None and len(factor) == 1 and factor[0] is not None:
                return [_State(numbers=axis, step=state.step.times(factor[0]))]
            if op.type == "Add" and added.below is not None and added.below == state.step:
                return [_State(numbers=axis, step=state.step)]
        return self._by_names(op, axis_names(op, [self._rank(v) for v in op.inputs]))

    def _looked_up(self, op: Operator) -> list[_State]:
        """Gather of rows of a tensor that holds several of each example, by positions as ``_counted`` knows them"""
        data, index = self._of(op.inputs[0]), self._of(op.inputs[1])
        whole = data.axis == 0 and attribute_of(op, "axis", 0) == 0 and index.numbers is not None
        if index.numbers is not None and None not in (ranks := [self._rank(v) for v in op.inputs]):
            self._note_rank(op.outputs[0], sum(rank or 0 for rank in ranks) - 1)
        if whole and data.rows is not None and data.rows == index.step:
            return [replace(data, axis=index.numbers, rows=_ONE)]
        return self._by_names(op, axis_names(op, [self._rank(v) for v in op.inputs]))

    def _kept(self, op: Operator) -> list[_State]:
        """Compress that keeps the first position of each example and some others: how many is another number for each

        Where a row of booleans may keep nothing of an example, no position of the result is known to be one's.
        """
        data, kept = self._of(op.inputs[0]), self._of(op.inputs[1])
        rank, axis = self._rank(op.inputs[0]), attribute_of(op, "axis")
        is_own = (
            rank is not None and axis is not None and data.axis == axis % rank and kept.axis == 0 and _keeps_firsts(op.inputs[1])
        )
        if not is_own or data.rows is None or data.rows != kept.rows or op.inputs[1] is None:
            return self._by_names(op, axis_names(op, [self._rank(v) for v in op.inputs]))
        return [replace(_causes([data, kept]), axis=data.axis, rows=Size(1, (f"{op.inputs[1].name}{_KEPT}",)))]

    def _remainder(self, op: Operator) -> list[_State]:
        """Mod, which makes an index of MaxPool one within the example where the divisor divides an example's size"""
        v = op.inputs[0]
        pool, divisor = (None if v is None else v.op), self._numbers(op.inputs[1])
        if pool is not None and pool.type == "MaxPool" and v is pool.outputs[1] and divisor is not None and divisor[0] is not None:
            image, state = pool.inputs[0], self._of(pool.inputs[0])
            if image is not None and state.axis == 0 and _product(self._sizes(image)[1:]).over(divisor[0]) is not None:
                return [state]
        return self._by_names(op, axis_names(op, [self._rank(v) for v in op.inputs]))

    def _uniform(self, v: Variable | None, sizes: Sequence[Size | None] | None, before: Sequence[Size]) -> _State:
        """What is repeated along an axis, once or more for each example; ``before`` are the sizes that it had"""
        if sizes is None or v is None:
            return _SHARED
        before = [*[_ONE] * (len(sizes) - len(before)), *before]
        for axis, (size, had) in enumerate(zip(sizes, before, strict=False)):
            rows = None if size is None else size.over(self._batch)
            if rows is not None and had == _ONE and size != _ONE:
                return _State(axis=axis, rows=rows)
        return _SHARED

    def _expanded(self, op: Operator) -> list[_State]:
        x, target = op.inputs[0], self._numbers(op.inputs[1])
        state = self._of(x)
        own = self._rank(x)
        if x is None or own is None:
            return self._unknown(op) if state.depends else [_SHARED]
        length = op.inputs[1].dims[0] if op.inputs[1] is not None and op.inputs[1].dims else None
        rank = len(target) if target is not None else length if isinstance(length, int) else self._rank(op.outputs[0])
        if rank is None:
            return self._unknown(op) if state.depends else [_SHARED]
        rank = max(rank, own)
        full = None if target is None else [*[_ONE] * (rank - len(target)), *target]
        before = [*[_ONE] * (rank - own), *self._sizes(x)]
        self._note_shape(
            op.outputs[0], None if full is None else [a if b == _ONE else b for a, b in zip(full, before, strict=True)]
        )
        if state.numbers is not None:
            return [replace(state, numbers=state.numbers + rank - own)]
        if state.axis is not None:
            return self._by_names(op, AxisNames([tuple(range(-own, 0))], [tuple(range(-rank, 0))]))
        repeated = self._uniform(op.outputs[0], full, before)
        if not state.depends:
            return [repeated]
        if repeated.axis is None:
            return [self._of_totals(op, [state], state)]
        return [replace(state, axis=repeated.axis, rows=repeated.rows, mixed=state.mixed or Cause(op, _ALL))]

    def _tiled(self, op: Operator) -> list[_State]:
        x, repeats = op.inputs[0], self._numbers(op.inputs[1])
        rank = self._rank(x)
        if x is None or rank is None:
            return self._unknown(op)
        state = self._of(x)
        if state.axis is None and repeats is not None and not state.depends:
            return [self._uniform(op.outputs[0], repeats, self._sizes(x))]
        if state.axis is not None and (repeats is None or repeats[state.axis] is None):
            return self._unknown(op)
        own: list[int | None] = [*range(-rank, 0)]
        for axis, times in enumerate(repeats or ()):
            if times != _ONE:
                own[axis] = None
        return self._by_names(op, AxisNames([tuple(own)], [tuple(own)]))

    def _reshaped(self, op: Operator) -> list[_State]:
        x = op.inputs[0]
        shape: Any = op.inputs[1] if len(op.inputs) > 1 else op.attrs.get("shape")
        if isinstance(shape, list):
            target: list[Size | None] | None = [Size(n) for n in shape]
        else:
            target = self._numbers(shape)
        if x is not None and target is not None and not op.attrs.get("allowzero", 0):
            sizes = self._sizes(x)
            target = [(sizes[i] if i < len(sizes) else None) if n == Size(0) else n for i, n in enumerate(target)]
        return self._refolded(op, target)

    def _flattened(self, op: Operator) -> list[_State]:
        x = op.inputs[0]
        if x is None or self._rank(x) is None:
            return self._unknown(op)
        sizes = self._sizes(x)
        axis = attribute_of(op, "axis", 1)
        axis = axis + len(sizes) if axis < 0 else axis
        return self._refolded(op, [_product(sizes[:axis]), _product(sizes[axis:])])

    def _refolded(self, op: Operator, target: Sequence[Size | None] | None) -> list[_State]:
        """The elements in row-major order in another shape.

        Along an axis lie whole examples, one after the other, if as many elements come before a step of it as before one of the
        examples' axis, and if what lies behind it divides an example.
        """
        x = op.inputs[0]
        state = self._of(x)
        self._note_shape(op.outputs[0], target)
        if state.numbers is not None:
            found = self._places(x, replace(state, axis=state.numbers, rows=_ONE), target)[0]
            return [_SHARED if found is None or found[1] != _ONE else replace(state, numbers=found[0])]
        if state.axis is None:
            return [self._of_totals(op, [state], state)]
        place, sure = self._places(x, state, target)
        if place is not None:
            return [replace(state, axis=place[0], rows=place[1])]
        if not state.depends:
            return [_SHARED]
        return self._mixed(op, [state], state, "does not keep the rows of an example together") if sure else self._unknown(op)

    def _places(
        self, x: Variable | None, state: _State, target: Sequence[Size | None] | None
    ) -> tuple[tuple[int, Size] | None, bool]:
        """Find the axis of a new shape along which examples lie, and their rows there; else whether there certainly is none"""
        sizes = [] if x is None else self._sizes(x)
        if state.axis is None or state.rows is None or target is None or not sizes:
            return None, False
        target = _with_rest(target, _product(sizes))
        outside, inside = _product(sizes[: state.axis]), state.rows.times(_product(sizes[state.axis + 1 :]))
        sure = True
        for axis, size in enumerate(target):
            before, behind = _known_product(target[:axis]), _known_product(target[axis + 1 :])
            if before is None:
                return None, False
            if before != outside:
                continue
            rows = None if behind is None else inside.over(behind)
            if rows is None and size is not None:
                rows = size.over(self._batch)
            if rows is not None and self._batch.times(rows) != _ONE:
                return (axis, rows), True
            sure = sure and behind is not None
        return None, sure

    def _squeezed(self, op: Operator) -> list[_State]:
        x = op.inputs[0]
        state = self._of(x)
        if state.axis is None:
            return [self._of_totals(op, [state], state)]
        axes = axes_operand(op)
        rank = self._rank(x)
        if x is None or not rank or (axes is None and not all(isinstance(dim, int) for dim in x.dims or (None,))):
            return self._unknown(op)
        gone = [axis for axis, dim in enumerate(x.dims or ()) if dim == 1] if axes is None else [axis % rank for axis in axes]
        own = tuple(range(rank))
        return self._by_names(op, AxisNames([own], [tuple(axis for axis in own if axis not in gone)]))

    def _unsqueezed(self, op: Operator) -> list[_State]:
        x = op.inputs[0]
        state = self._of(x)
        if state.axis is None and state.numbers is None:
            return [self._of_totals(op, [state], state)]
        axes, before = axes_operand(op), self._rank(x)
        if before is None or axes is None:
            return self._unknown(op)
        rank = before + len(axes)
        new = {axis % rank for axis in axes}
        self._note_rank(op.outputs[0], rank)
        kept = [axis for axis in range(rank) if axis not in new]
        if state.numbers is not None:
            return [replace(state, numbers=kept[state.numbers])]
        return [replace(state, axis=kept[state.axis or 0])]

    def _normalised(self, op: Operator) -> list[_State]:
        """BatchNormalization: by the statistics of the batch where it is in training"""
        pending = self.program.training_pending and self.program.batch_norm != "frozen"
        attached = op.mode == "trained" or (op.expansion is not None and op.expansion.always)
        trains = attribute_of(op, "training_mode", 0) or attached or pending
        state = self._of(op.inputs[0])
        if not trains or not state.depends or state.axis == 1:
            return self._by_names(op, axis_names(op, [self._rank(v) for v in op.inputs]))
        states = [self._of(v) for v in op.inputs]
        causes = _causes(states)
        y = replace(causes, axis=state.axis, rows=state.rows, statistics=causes.statistics or op)
        if any(s.depends for s in states[1:]):
            y = replace(y, mixed=y.mixed or Cause(op, _ALL))
        return [y, *[replace(y, axis=None, rows=None)] * (len(op.outputs) - 1)]

    def _unpooled(self, op: Operator) -> list[_State]:
        """MaxUnpool puts each element where a MaxPool found it, in the image of the same number"""
        v = op.inputs[1]
        pool = None if v is None else v.op
        if pool is not None and pool.type == "MaxPool" and self._of(v).mixed is not None and v is pool.outputs[1]:
            states = [self._of(op.inputs[0]), self._of(pool.inputs[0])]
            if states[0].axis == states[1].axis == 0:
                return [replace(_causes(states), axis=0, rows=states[0].rows)]
        return self._by_names(op, axis_names(op, [self._rank(v) for v in op.inputs]))

    def _pooled(self, op: Operator) -> list[_State]:
        """The indices of a MaxPool count from the first element of the batch"""
        states = self._by_names(op, axis_names(op, [self._rank(v) for v in op.inputs]))
        if len(op.outputs) > 1 and states[1].depends:
            states[1] = replace(states[1], mixed=states[1].mixed or Cause(op, _POSITION))
        return states

    def _cast(self, op: Operator) -> list[_State]:
        state = self._of(op.inputs[0])
        return [state] if state.numbers is not None else self._by_names(op, axis_names(op, [self._rank(v) for v in op.inputs]))

    def _gathered(self, op: Operator) -> list[_State]:
        """GatherND that takes from each example something of its own: one column of the indices holds the number of the example"""
        data, indices = op.inputs[0], op.inputs[1]
        columns = None if indices is None else indices.op
        batch = attribute_of(op, "batch_dims", 0)
        lies = self._of(data).axis
        if columns is not None and columns.type == "Concat" and lies is not None and indices is not None and not batch:
            rank = self._rank(indices)
            single = all(v is not None and v.dims and v.dims[-1] == 1 for v in columns.inputs)
            last = rank is not None and columns.attrs["axis"] in (-1, rank - 1)
            column = self._of(columns.inputs[lies]) if lies < len(columns.inputs) else _SHARED
            numbers = column.numbers
            if single and last and numbers is not None and column.step == _ONE and self._of(data).rows == _ONE:
                others = [v for i, v in enumerate(columns.inputs) if i != lies and v is not None]
                states = [self._of(v) for v in others]
                apart = all(
                    s.axis == numbers or (s.axis is None and not s.depends and not self._has_slices(v, range(rank or 0), numbers))
                    for s, v in zip(states, others, strict=True)
                )
                if apart:
                    return [replace(_causes([self._of(data), *states]), axis=numbers, rows=_ONE)]
        return self._by_names(op, axis_names(op, [self._rank(v) for v in op.inputs]))

    # Control flow and sequences ---------------------------------------------------------------------------------------

    def _if(self, op: Operator) -> list[_State]:
        condition = self._of(op.inputs[0])
        branches = list(op.blocks())
        for branch in branches:
            self._run(branch)
        results: list[_State] = []
        for k in range(len(op.outputs)):
            first, *others = (branch.outputs[k] for branch in branches)
            state = self._of(first)
            for other in others:
                state = self._meet(op, state, first, self._of(other), other)
            results.append(self._decided(op, condition, state))
        return results

    def _decided(self, op: Operator, by: _State, state: _State) -> _State:
        """What a condition decides about; one that depends on examples does so for all of them"""
        if not by.depends:
            return state
        causes = _causes([by, state])
        reason = "decides for all examples by a value that depends on them"
        return replace(causes, axis=state.axis, rows=state.rows, mixed=causes.mixed or Cause(op, reason))

    def _loop(self, op: Operator) -> list[_State]:
        body: Block = op.attrs["body"]
        decides = _causes([self._of(v) for v in op.inputs[:2]])
        count = len(op.inputs) - 2
        states = [self._of(v) for v in op.inputs[2:]]
        while True:
            for v, state in zip(body.inputs[2:], states, strict=False):
                self._states[v] = state
            self._run(body)
            pairs = zip(states, op.inputs[2:], body.outputs[1:], strict=False)
            new = [self._meet(op, state, start, self._of(v), v) for state, start, v in pairs]
            if new == states:
                break
            states = new
        decides = _causes([decides, self._of(body.outputs[0])])
        stacked = [_moved(self._of(v), 0) for v in body.outputs[1 + count :]]
        return [self._decided(op, decides, _outside(state)) for state in (*states, *stacked)]

    def _scan(self, op: Operator) -> list[_State]:
        body: Block = op.attrs["body"]
        scanned = op.attrs["num_scan_inputs"]
        schema = op.schema
        if schema is not None and schema.since < 9:
            return self._unknown(op)
        first = len(op.inputs) - scanned
        axes = attribute_of(op, "scan_input_axes") or [0] * scanned
        for v, x, axis in zip(body.inputs[first:], op.inputs[first:], axes, strict=True):
            rank = self._rank(x)
            if rank is None:
                return self._unknown(op)
            state = _without(self._of(x), axis % rank)
            if state is None:
                return self._mixed(op, [self._of(w) for w in op.inputs], _causes([self._of(w) for w in op.operands()]), _ALL)
            self._states[v] = state
        states = [self._of(v) for v in op.inputs[:first]]
        while True:
            for v, state in zip(body.inputs, states, strict=False):
                self._states[v] = state
            self._run(body)
            pairs = zip(states, op.inputs, body.outputs, strict=False)
            new = [self._meet(op, state, start, self._of(v), v) for state, start, v in pairs]
            if new == states:
                break
            states = new
        results = body.outputs[first:]
        out_axes = attribute_of(op, "scan_output_axes") or [0] * len(results)
        ranks = [self._rank(v) for v in results]
        if any(rank is None and axis < 0 for rank, axis in zip(ranks, out_axes, strict=True)):
            return self._unknown(op)
        stacked = [
            _moved(self._of(v), axis if axis >= 0 else axis + (rank or 0) + 1)
            for v, rank, axis in zip(results, ranks, out_axes, strict=True)
        ]
        return [_outside(state) for state in (*states, *stacked)]

    def _mapped(self, op: Operator) -> list[_State]:
        """SequenceMap; the state of a sequence is that of its elements"""
        body: Block = op.attrs["body"]
        for v, x in zip(body.inputs, op.inputs, strict=False):
            self._states[v] = self._of(x)
        self._run(body)
        return [self._of(v) for v in body.outputs]

    def _joined(self, op: Operator) -> list[_State]:
        """A sequence of tensors, or with one more"""
        first, *others = op.inputs[:2] if op.type == "SequenceInsert" else op.inputs
        state = self._of(first)
        for v in others:
            state = self._meet(op, state, first, self._of(v), v)
        by = self._of(op.inputs[2] if op.type == "SequenceInsert" and len(op.inputs) > 2 else None)
        return [self._decided(op, by, state)]

    def _emptied(self, op: Operator) -> list[_State]:
        return [_State(empty=True)]

    def _picked(self, op: Operator) -> list[_State]:
        """An element of a sequence, or a sequence without one"""
        by = self._of(op.inputs[1] if len(op.inputs) > 1 else None)
        return [self._decided(op, by, self._of(op.inputs[0]))]

    def _cut(self, op: Operator) -> list[_State]:
        """SplitToSequence"""
        x = op.inputs[0]
        state = replace(self._of(x), numbers=None)
        if state.axis is None:
            return [state]
        rank = self._rank(x)
        if rank is None:
            return self._unknown(op)
        axis = attribute_of(op, "axis", 0) % rank
        if axis == state.axis:
            return self._mixed(op, [state], state, _POSITION)
        squeezes = len(op.inputs) < 2 and not attribute_of(op, "keepdims", 1)
        by = self._of(op.inputs[1] if len(op.inputs) > 1 else None)
        return [self._decided(op, by, (_without(state, axis) or state) if squeezes else state)]

    def _glued(self, op: Operator) -> list[_State]:
        """ConcatFromSequence"""
        x = op.inputs[0]
        state = self._of(x)
        if state.axis is None:
            return [self._of_totals(op, [state], state)] if not state.depends else self._mixed(op, [state], state, _ALL)
        axis = op.attrs["axis"]
        new = attribute_of(op, "new_axis", 0)
        element = x.type.element if x is not None and isinstance(x.type, (SequenceType, OptionalType)) else None
        dims = getattr(element, "dims", None)
        rank = len(dims) if dims is not None else self._rank(op.outputs[0])
        if axis < 0 and rank is None:
            return self._unknown(op)
        if axis < 0:
            axis += (rank or 0) + (1 if new and dims is not None else 0)
        if new:
            return [_moved(state, axis)]
        return self._mixed(op, [state], state, _POSITION) if axis == state.axis else [state]


_KEEP_VALUES = ("Cast", "Expand", "Identity", "Reshape", "Squeeze", "Unsqueeze")
"""Operators that have no other integers in their result than in their first operand."""
_TOLD_SHAPES = ("Expand", "Reshape", "Squeeze", "Tile", "Unsqueeze")
"""Operators whose other operands say what shape the result has."""
_KEPT = "#kept"
"""The end of the name of a number of rows that is another one for each example."""
_ALL = "lets an example depend on the others of its batch"
_POSITION = "lets an example depend on its position in the batch"


def examples_of(program: Program, axes: Mapping[Variable, int] | None = None) -> Examples:
    """Follow the examples of a batch through a program.

    Args:
        program: in any opset; it is not changed.
        axes: for each input that holds examples, the axis that counts them. None for ``batch_axes``: axis 0 of each input that has
            a free one, or of all inputs where none is free; another one of inputs that the program's plan says to have steps first.

    Example:
        >>> x = static.data("x", [None, 3], "float32")
        >>> y = paddle.nn.functional.softmax(x, axis=0)
        >>> from onnxgrad.core.ir.examples import examples_of
        >>> examples = examples_of(y.block.program)
        >>> examples.axis(x), examples.mixed_by(x), examples.mixed_by(y).type
        (0, None, 'Softmax')
    """
    return Examples(program, batch_axes(program) if axes is None else axes)


def check_separate(examples: Examples, v: Variable, what: str, advice: str = "Compute it from each example alone") -> None:
    """Refuse a value in which examples are mixed, or may be. Totals and statistics of a batch are for the caller to judge.

    Args:
        examples: of the value's program.
        v: what is computed for each example, or added up over them.
        what: what asks, as the beginning of a sentence: "Ranks that each take a part of a batch".
        advice: what to do where they are mixed.

    Raises:
        ArgumentError: naming the first operator that mixes them.
    """
    reason = examples.reason(v)
    if not reason:
        return
    advice = advice if examples.mixed_by(v) is not None else "Write it in standard operators"
    raise ArgumentError(f"{what} needs examples that do not depend on each other, but on the way to {v.name} {reason}. {advice}.")


def batch_axes(program: Program) -> dict[Variable, int]:
    """The axis of each input that counts examples: the first one, but for inputs that ``program.plan.example_axes`` names.

    Args:
        program: in any opset; it is not changed.
    """
    axes = program.plan.example_axes
    inputs = [v for v in program.inputs if v.value is None and not v.persistable and v.dims != ()]
    free = [v for v in inputs if v.name in axes or v.dims is None or not isinstance(v.dims[0], int)]
    if free:
        return {v: axes.get(v.name, 0) for v in free}
    first = inputs[0].dims[0] if inputs and inputs[0].dims else None
    return {v: 0 for v in inputs if v.dims and v.dims[0] == first}


def _batch_of(axes: Mapping[Variable, int]) -> tuple[Size, frozenset[str]]:
    """The number of examples, and the names that dimensions have which are that number"""
    dims = [v.dims[axis] for v, axis in axes.items() if v.dims is not None]
    numbers = {dim for dim in dims if isinstance(dim, int)}
    names = frozenset(dim for dim in dims if isinstance(dim, str))
    if len(numbers) == 1 and not names and None not in dims and len(dims) == len(axes):
        return Size(numbers.pop()), names
    return Size(1, (_BATCH,)), names


def _causes(states: Iterable[_State]) -> _State:
    """What is true of a result because it is of one of its operands"""
    states = list(states)
    return _State(
        depends=any(s.depends for s in states),
        mixed=next((s.mixed for s in states if s.mixed is not None), None),
        total=next((s.total for s in states if s.total is not None), None),
        statistics=next((s.statistics for s in states if s.statistics is not None), None),
        unknown=next((s.unknown for s in states if s.unknown is not None), None),
    )


def _lying_as(states: Sequence[_State], causes: _State, v: Variable | None) -> _State:
    """Guess that examples lie in a result in which they are mixed where they lay before"""
    first = next((s for s in states if s.depends and s.axis is not None), None)
    if first is None or first.axis is None or v is None or (v.rank is not None and first.axis >= v.rank):
        return causes
    return replace(causes, axis=first.axis, rows=first.rows)


def _all_names(inputs: Sequence[Any], index: int) -> Sequence[Any]:
    return inputs[index] if index < len(inputs) else ()


def _name(inputs: Sequence[Any], index: int, axis: int | None) -> Any:
    names = _all_names(inputs, index)
    return names[axis] if axis is not None and axis < len(names) else None


def _is_kept(rows: Size) -> bool:
    return any(name.endswith(_KEPT) for name in rows.names)


def _keeps_firsts(kept: Variable | None) -> bool:
    """Whether a row of booleans is True at the first position of each example, as it is written for rows with a label"""
    flat = None if kept is None else kept.op
    either = flat.inputs[0].op if flat is not None and flat.type == "Reshape" and flat.inputs[0] is not None else None
    if either is None or either.type != "Or":
        return False
    equals = [v.op for v in either.inputs if v is not None and v.op is not None and v.op.type == "Equal"]
    for op in equals:
        positions, first = op.inputs
        ranges = positions is not None and positions.op is not None and positions.op.type == "Range"
        if ranges and first is not None and entries_of(first) == (0,):
            return True
    return False


def _outside(state: _State) -> _State:
    """What a body says of a result, without a size that is known there alone and may change from round to round"""
    inside = state.rows is not None and any("#" in name for name in state.rows.names)
    return replace(state, rows=None) if inside else state


def _moved(state: _State, axis: int) -> _State:
    """A new axis comes in"""
    state = replace(state, numbers=None)
    return state if state.axis is None or state.axis < axis else replace(state, axis=state.axis + 1)


def _without(state: _State, axis: int) -> _State | None:
    """An axis goes; None if it is that of the examples"""
    state = replace(state, numbers=None)
    if state.axis is None or state.axis < axis:
        return state
    return None if state.axis == axis else replace(state, axis=state.axis - 1)


def _product(sizes: Iterable[Size]) -> Size:
    product = _ONE
    for size in sizes:
        product = product.times(size)
    return product


def _with_rest(target: Sequence[Size | None], total: Size) -> list[Size | None]:
    """Put for -1 what is left of the elements; a name of its own where that is no product of the names there are"""
    others = _known_product([size for size in target if size != Size(-1)])
    rest = None if others is None else total.over(others) or Size(1, ("the rest",))
    return [rest if size == Size(-1) else size for size in target]


def _known_product(sizes: Sequence[Size | None]) -> Size | None:
    return None if any(size is None for size in sizes) else _product(s for s in sizes if s is not None)


_Direct: TypeAlias = "Callable[[Examples, Operator], list[_State]]"

_DIRECT: Mapping[str, _Direct] = {
    **dict.fromkeys(("Add", "Mul"), Examples._counted),
    "BatchNormalization": Examples._normalised,
    "Cast": Examples._cast,
    "Compress": Examples._kept,
    "ConcatFromSequence": Examples._glued,
    "ConstantOfShape": Examples._filled,
    "Expand": Examples._expanded,
    "Flatten": Examples._flattened,
    "Gather": Examples._looked_up,
    "GatherND": Examples._gathered,
    "Identity": Examples._passed,
    "If": Examples._if,
    "Loop": Examples._loop,
    "MaxPool": Examples._pooled,
    "MaxUnpool": Examples._unpooled,
    "Mod": Examples._remainder,
    **dict.fromkeys(("Optional", "OptionalGetElement"), Examples._passed),
    "Range": Examples._ranged,
    "Reshape": Examples._reshaped,
    "Scan": Examples._scan,
    **dict.fromkeys(("SequenceAt", "SequenceErase"), Examples._picked),
    **dict.fromkeys(("SequenceConstruct", "SequenceInsert"), Examples._joined),
    "SequenceEmpty": Examples._emptied,
    "SequenceMap": Examples._mapped,
    "SplitToSequence": Examples._cut,
    "Squeeze": Examples._squeezed,
    "Tile": Examples._tiled,
    "Unsqueeze": Examples._unsqueezed,
}
"""Operators that need more than names for their axes."""
