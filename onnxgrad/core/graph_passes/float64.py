"""Operators that onnxruntime's CPU provider has no float64 kernel for, out of operators for which it has: nothing is rounded.

Measured on onnxruntime 1.31 at opsets 7 to 26; a test asks the installed one about each entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.contract import Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph_passes.float64_functions import AT_18, FUNCTIONS, Written
from onnxgrad.core.graph_passes.float64_windows import WINDOWS
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator, as_stored
from onnxgrad.core.ir.opset import OLDEST_WITH_RULES
from onnxgrad.core.ir.traverse import all_operators_of, substitute
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.lift import lift

__all__ = ["FLOAT64", "FORMS", "is_double", "needs_forms", "write_block", "write_float64"]

_FEW_ROWS = COSTS.count("float64.most_rows_of_a_determinant")


# Other forms ------------------------------------------------------------------------------------------------------------------


def _axes_range(op: Any, size: Any, axis: int, rank: int) -> Any:
    """0, 1, ... along one axis of a tensor"""
    numbers = op.Range(0, size, 1)
    return op.Unsqueeze(numbers, [i for i in range(rank) if i != axis]) if rank > 1 else numbers


def _hardmax(op: Any, node: Operator) -> list[Variable | None] | None:
    """1 at the first largest element"""
    x, axis = node.inputs[0], node.attr("axis")
    if x is None or x.rank is None:
        return None
    axis %= x.rank
    size = op.Squeeze(op.Shape(x, start=axis, end=axis + 1), [0])
    first = op.ArgMax(x, axis=axis, keepdims=1)
    return [op.Cast(op.Equal(first, _axes_range(op, size, axis, x.rank)), to=11)]


def _one_hot(op: Any, node: Operator) -> list[Variable | None] | None:
    """OneHot of integers chooses between the two values"""
    indices, depth, values = node.inputs
    hot = op.OneHot(op.Cast(indices, to=7), op.Cast(depth, to=7), np.array([0, 1]), axis=node.attr("axis"))
    off, on = (op.Gather(values, np.array(i)) for i in range(2))
    return [op.Where(op.Cast(hot, to=9), on, off)]


def _non_zero(op: Any, node: Operator) -> list[Variable | None] | None:
    (x,) = node.inputs
    return [op.NonZero(op.Not(op.Equal(x, 0.0)))]


def _mean(op: Any, node: Operator) -> list[Variable | None] | None:
    return [op.Div(op.Sum(*node.inputs), float(len(node.inputs)))]


def _instance_normalization(op: Any, node: Operator) -> list[Variable | None] | None:
    """(x - mean) / sqrt(variance + epsilon) * scale + shift"""
    x, scale, shift = node.inputs
    if x is None or x.rank is None:
        return None
    axes, inner = list(range(2, x.rank)), list(range(1, x.rank - 1))
    centred = op.Sub(x, op.ReduceMean(x, axes, keepdims=1))
    variance = op.ReduceMean(op.Mul(centred, centred), axes, keepdims=1)
    deviation = op.Sqrt(op.Add(variance, as_stored(node.attr("epsilon"))))
    return [op.Add(op.Mul(op.Div(centred, deviation), op.Unsqueeze(scale, inner)), op.Unsqueeze(shift, inner))]


def _mean_variance_normalization(op: Any, node: Operator) -> list[Variable | None] | None:
    """(x - mean) / (deviation + 1e-9)"""
    (x,), axes = node.inputs, list(node.attr("axes") or [0, 2, 3])
    centred = op.Sub(x, op.ReduceMean(x, axes, keepdims=1))
    deviation = op.Sqrt(op.ReduceMean(op.Mul(centred, centred), axes, keepdims=1))
    return [op.Div(centred, op.Add(deviation, 1e-9))]


def _det(op: Any, node: Operator) -> list[Variable | None] | None:
    """The product of the pivots of Gaussian elimination, for matrices of known size up to 64.

    Step k takes the row with the largest element of column k. What is eliminated becomes zero, so no row is taken twice; the sign
    changes with each row taken earlier that stands below.
    """
    (x,) = node.inputs
    dims = None if x is None else x.dims
    if x is None or dims is None or not isinstance(dims[-1], int) or dims[-2] != dims[-1] or dims[-1] > _FEW_ROWS:
        return None
    size, rank = dims[-1], len(dims)
    rows = np.arange(size).reshape(-1, 1)
    total: Any = op.Expand(np.float64(1), op.Concat(op.Shape(x, start=0, end=-2), [1, 1], axis=0))
    taken: Any = None
    for k in range(size):
        column = op.Slice(x, [k], [k + 1], [rank - 1])
        largest = op.ArgMax(op.Abs(column), axis=rank - 2, keepdims=1)
        chosen = op.Cast(op.Equal(largest, rows), to=11)
        pivot = op.GatherElements(column, largest, axis=rank - 2)
        total = op.Mul(total, pivot)
        if taken is not None:
            below = op.ReduceSum(op.Mul(taken, op.Cast(op.Greater(rows, largest), to=11)), [rank - 2], keepdims=1)
            total = op.Mul(total, op.Sub(1.0, op.Mul(op.Mod(below, 2.0, fmod=1), 2.0)))
        taken = chosen if taken is None else op.Add(taken, chosen)
        if k + 1 < size:
            index = op.Expand(largest, op.Concat(op.Shape(x, start=0, end=-2), [1, size], axis=0))
            row = op.GatherElements(x, index, axis=rank - 2)
            ratio = op.Div(column, op.Where(op.Equal(pivot, 0.0), 1.0, pivot))
            x = op.Where(op.Cast(chosen, to=9), 0.0, op.Sub(x, op.Mul(ratio, row)))
    return [op.Squeeze(total, [-2, -1])]


FORMS: dict[str, Written] = {
    **FUNCTIONS,
    **WINDOWS,
    "Det": _det,
    "Hardmax": _hardmax,
    "InstanceNormalization": _instance_normalization,
    "Mean": _mean,
    "MeanVarianceNormalization": _mean_variance_normalization,
    "NonZero": _non_zero,
    "OneHot": _one_hot,
}
"""By operator type: its form, or None from it where it does not apply."""

# Writing ----------------------------------------------------------------------------------------------------------------------


def is_double(op: Operator) -> bool:
    """Whether an ONNX operator reads or returns float64."""
    return op.domain == "" and any(
        v is not None and isinstance(v.type, TensorType) and v.type.dtype.name == "float64" for v in (*op.inputs, *op.outputs)
    )


def needs_forms(graph: Graph, forms: Iterable[str]) -> bool:
    """Whether an operator that one of these types has, in a body too, computes in float64."""
    types = frozenset(forms)
    return any(op.type in types and is_double(op) for op in all_operators_of(graph.program.global_block()))


def write_float64(graph: Graph, target: Target) -> int:
    """Write out the float64 operators that have a form; results keep their names.

    Where the graph is not to be run, only what the file's own opset had as a function.
    """
    forms = FORMS if target.runs_on_cpu else AT_18
    version = graph.program.opset_version() or 1
    if not needs_forms(graph, forms.keys() - AT_18.keys() if version == _WITH_FUNCTIONS[-1] else forms):
        return 0
    if version < OLDEST_WITH_RULES:
        lift(graph.program)
    rewrites = write_block(graph.program.global_block(), lambda op: forms.get(op.type) if is_double(op) else None)
    graph.take_constants()
    return rewrites


_WITH_FUNCTIONS = (16, 17, 18)
"""Opsets in which onnxruntime takes operators of ``AT_18`` for functions, of any element type; in the last, all of them."""


def _may_be_needed(graph: Graph, target: Target) -> bool:
    source = graph.source
    return target.runs_on_cpu or (not source.is_oracle and source.lifted_from in _WITH_FUNCTIONS)


FLOAT64 = Pass("float64", write_float64, when=_may_be_needed, rounding="order")


def write_block(block: Block, form_of: Callable[[Operator], Written | None]) -> int:
    """Write out the operators of a block and its bodies that have a form; results keep their names. How many were written."""
    done: list[Operator] = []
    rewrites = 0
    for op in block.ops:
        for body in op.blocks():
            rewrites += write_block(body, form_of)
        form = form_of(op)
        stage = None if form is None else _stage(block, op, form)
        rewrites += stage is not None
        done.extend([op] if stage is None else stage)
    block.ops = done
    return rewrites


def _stage(block: Block, op: Operator, form: Written) -> list[Operator] | None:
    """The operators that compute the results of ``op`` by a form."""
    stage: list[Operator] = []
    build = Builder(block, stage, op.role, op.name or op.type)
    results = form(build, op)
    if results is None:
        return None
    for old, new in zip(op.outputs, results, strict=False):
        if old is not None and new is not None:
            _return_as(build, stage, old, new)
    program = block.program
    for operator in stage:
        for v in operator.outputs:
            if v is not None and v.name == "":
                v._name = program.fresh_name(f"{build.key}/{operator.type}")
                block.register(v)
        operator.name = next(v.name for v in operator.outputs if v is not None)
        operator.loaded = op.loaded
    return stage


def _return_as(build: Builder, stage: list[Operator], old: Variable, new: Variable) -> None:
    """Let what computes ``new`` compute ``old``."""
    maker = new.op
    if maker is None or maker not in stage:
        new = build.emit("Identity", [new], {})
        maker = new.op
    assert maker is not None
    maker.outputs = [old if v is new else v for v in maker.outputs]
    old.op = maker
    substitute(stage, {new: old})
