"""Work on operators that are linear in a variable without a value: free them of it, or move them into a Loop over it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from onnxgrad.core.autodiff.shape_of import ShapeFinder
from onnxgrad.core.graph.plan import make_plan
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.traverse import dependent_operators, substitute
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import dtype_of

__all__ = ["Appended", "free_of", "into_loop", "sum_in_loop"]


class Appended:
    """The operators that a transformation has appended to a block so far."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.before = set(block.ops)

    def operators(self) -> list[Operator]:
        return [op for op in self.block.ops if op not in self.before]

    def keep_only(self, results: Iterable[Variable]) -> None:
        """Take back what the results do not need."""
        plan = make_plan(self.block.program, results)
        needed = set(plan.operators)
        for op in self.block.ops:
            inner = op.expansion.operators if op.expansion is not None and op in self.before else []
            if any(o in needed for o in inner):
                needed.update(inner)
        gone = [op for op in self.operators() if op not in needed]
        lost = {v for op in gone for v in op.outputs}
        self.remove(gone)
        substitute(self.operators(), {v: plan.resolve(v) for v in plan.aliases if v in lost})

    def remove(self, operators: Iterable[Operator]) -> None:
        gone = set(operators)
        block = self.block
        for op in block.ops:
            if op.expansion is not None and all(inner in gone for inner in op.expansion.operators):
                op.expansion = None
            if op.replaces is not None and op.replaces in gone:
                op.replaces = None
        for op in block.ops:
            if op in gone:
                for v in op.outputs:
                    if v is not None:
                        block.vars.pop(v.name, None)
        block.ops = [op for op in block.ops if op not in gone]
        block.program.version += 1


def free_of(appended: Appended, free: list[Variable], primal_of: dict[Variable, Variable], results: list[Variable]) -> None:
    """Rewrite what the results read of variables without a value: only shapes, which other variables have too.

    Where something is still read of them, as in loops, they become ones: the results do not depend on it.
    """
    block = appended.block
    appended.keep_only(results)
    plan = make_plan(block.program, results)
    dependent = dependent_operators(block.ops, free)
    if not dependent:
        return
    stage: list[Operator] = []
    op = Builder(block, stage, Role.BACKWARD, "free")
    avoided = {*free, *(v for o in dependent for v in o.outputs if v is not None)}
    sources = [*plan.leaves, *(v for o in plan.operators for v in o.outputs if v is not None)]
    finder = ShapeFinder(op, avoided, primal_of, [v for v in sources if v not in avoided])
    mapping: dict[Variable, Variable] = {}
    for o in dependent:
        shape = _measured(finder, o)
        output = o.outputs[0]
        if shape is not None and output is not None:
            mapping[output] = shape
    substitute(dependent, mapping)
    _insert(block, dependent, stage)
    stage = op.stage = []
    if dependent_operators(make_plan(block.program, results).operators, free):
        ones = {v: op.Identity(op.Expand(op.constant(1, v.dtype), op.Shape(primal_of[v]))) for v in free}
        substitute(dependent, ones)
        _insert(block, dependent, stage)
    appended.keep_only(results)


def _measured(finder: ShapeFinder, o: Operator) -> Variable | None:
    """Return the shape that replaces the result of an operator that only measures its operand."""
    x = o.inputs[0] if o.inputs else None
    if o.type not in ("Shape", "Size") or o.domain or x is None:
        return None
    shape = finder.shape(x)
    if shape is None or o.type == "Shape":
        return shape if shape is None or not o.attrs else finder.op.Slice(shape, *_bounds(o))
    return finder.op.ReduceProd(shape, keepdims=0)


def _bounds(o: Operator) -> tuple[list[int], list[int]]:
    return [o.attrs.get("start", 0)], [o.attrs.get("end", 2**31)]


def _insert(block: Block, dependent: list[Operator], stage: list[Operator]) -> None:
    """Put staged operators, named, behind all that do not depend on the variable and before all that do."""
    later = set(dependent)
    for op in stage:
        for v in op.outputs:
            if v is not None:
                v._name = block.program.fresh_name(f"{op.name}/{op.type}")
                block.register(v)
        op.name = next(v.name for v in op.outputs if v is not None)
    block.ops = [op for op in block.ops if op not in later] + stage + dependent


def into_loop(appended: Appended, free: Variable, y: Variable, results: list[Variable]) -> list[Variable]:
    """Stack the results for every unit vector of y's shape in place of ``free``: ``[elements of y, *result.shape]`` each.

    What depends on ``free`` moves into the body of a Loop, which reads everything else from outside.
    """
    op = Builder(appended.block, role=Role.BACKWARD, key="transform")
    moved = _Moved(appended, free, results)
    count = op.Size(y)
    positions, shape = op.Range(0, count, 1), op.Shape(y)
    row, build = moved.body(f"{y.name}_rows")
    moved.enter(build.Reshape(build.Cast(build.Equal(positions, row), to=y.dtype.number), shape, allowzero=1))
    build.block.outputs += map(build.Identity, moved.results())
    return _as_list(op.Loop(count, op.constant(True), body=build.block, outputs=len(results)))


def sum_in_loop(appended: Appended, free: Variable, count: Variable, results: list[Variable]) -> list[Variable]:
    """The sums of the results over ``free`` = 0, 1 ... count - 1, of type int64; their shapes are known.

    What depends on ``free`` moves into the body of a Loop, which carries the sums.
    """
    op = Builder(appended.block, role=Role.BACKWARD, key="transform")
    moved = _Moved(appended, free, results)
    row, build = moved.body(f"{free.name}_sums")
    body = build.block
    carried = [Variable(body, body.program.fresh_name(f"{v.name}@SUM"), v.type) for v in results]
    body.inputs += map(body.register, carried)
    moved.enter(row)
    body.outputs += [build.Add(total, v) for total, v in zip(carried, moved.results(), strict=True)]
    zeros = [op.constant(np.zeros(v.static_shape or (), v.dtype.numpy)) for v in results]
    return _as_list(op.Loop(count, op.constant(True), *zeros, body=body, outputs=len(results)))


def _as_list(value: Variable | tuple[Variable, ...]) -> list[Variable]:
    return list(value) if isinstance(value, tuple) else [value]


class _Moved:
    """Operators to move into the body of a Loop: results need them, and they depend on a variable without a value."""

    def __init__(self, appended: Appended, free: Variable, results: list[Variable]) -> None:
        self._block, self._free, self._results = appended.block, free, results
        self._plan = plan = make_plan(appended.block.program, results)
        self._operators = dependent_operators([o for o in plan.operators if o not in appended.before], [free])
        inside = {v for o in self._operators for v in o.outputs}
        self._aliases = {v: plan.resolve(v) for v in plan.aliases if plan.resolve(v) in inside}
        appended.remove(self._operators)

    def body(self, name: str) -> tuple[Variable, Builder]:
        """A body that goes on as it is told; the number of the iteration, and what builds inside."""
        program = self._block.program
        body = program.new_block(self._block, name)
        for argument, dtype in (("row", "int64"), ("go_on", "bool")):
            v = Variable(body, program.fresh_name(f"{name}@{argument}"), TensorType(dtype_of(dtype), ()))
            body.inputs.append(body.register(v))
        build = Builder(body, role=Role.BACKWARD, key="row")
        body.outputs = [build.Identity(body.inputs[1])]
        return body.inputs[0], build

    def enter(self, value: Variable) -> None:
        """Append the operators where ``value`` is, which they read in place of what has none."""
        body = value.block
        substitute(self._operators, {**self._aliases, self._free: value})
        for op in self._operators:
            op.replaces, op.expansion = None, None
            for v in op.outputs:
                if v is not None:
                    v.block = body
            for inner in op.blocks():
                inner.parent = body
            body.append(op)

    def results(self) -> list[Variable]:
        return [self._plan.resolve(v) for v in self._results]
