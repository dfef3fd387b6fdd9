"""Compute of each tensor only the positions, rows and channels that are read: selections move towards the inputs.

A classifier reads ``x[:, 0]`` of a sequence, a generator its last position, a masked language model one row in seven before its
vocabulary, and a head may be left with some of its channels. The operator that selects stands behind those that computed all of it,
and so does its gradient. One walk from the results to the inputs finds what is read of each tensor: what all its readers read,
through every operator that computes slice by slice (``core/ir/parallel_axes.py``). A second walk writes the operators once more for
these slices. Those for the whole tensors stay in the program, for whoever fetches one, and are left out of graphs that do not.

Tests: tests/core/passes/test_demand.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, TypeAlias

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.contract import ProgramPass, Target
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.examples import examples_of
from onnxgrad.core.ir.infer import infer_leniently
from onnxgrad.core.ir.known import entries_of
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.opset import CONTRIB_DOMAIN
from onnxgrad.core.ir.parallel_axes import AxisNames, NotKnown, attribute_of, axes_operand, axis_names
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traits import CASTS, COMPARES, ELEMENTWISE, MOVES, REDUCES, VIEWS
from onnxgrad.core.ir.traverse import needed_operators, substitute
from onnxgrad.core.ir.types import Dim, TensorType, fresh_dim, same_dim
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.dimensions import NAME_DIMENSIONS
from onnxgrad.core.passes.selections import (
    LAST,
    Folded,
    Selection,
    common_selection,
    kept_rows,
    ranges_of,
    take,
    take_rows,
    take_within,
)

__all__ = ["demand"]

_FEWEST_WORDS = COSTS.count("demand.fewest_words")
"""Classes from which on rows with an ignored label are left out."""

_MOST = COSTS.number("demand.most_of_an_axis")
"""Part of an axis from which on all of it is computed."""

_UNREAD = Selection((0,), "ranges", ())

_PRODUCTS = ("Conv", "Einsum", "FusedMatMul", "Gemm", "MatMul", "MatMulNBits")
_SLICEWISE = {
    *(("", name) for name in (ELEMENTWISE | COMPARES | REDUCES) - {"CastLike"}),
    *(("", name) for name in ("BatchNormalization", "Concat", "Conv", "Dropout", "Einsum", "Gather", "Gemm", "Hardmax")),
    *(("", name) for name in ("InstanceNormalization", "LayerNormalization", "LogSoftmax", "LpNormalization", "MatMul")),
    *(("", name) for name in ("AveragePool", "LpPool", "MaxPool", "RMSNormalization", "Slice", "Softmax", "Split", "Transpose")),
    ("", "SimplifiedLayerNormalization"),
    *((CONTRIB_DOMAIN, name) for name in ("BiasAdd", "BiasGelu", "FastGelu", "FusedMatMul", "Gelu", "MatMulNBits", "QuickGelu")),
    *((CONTRIB_DOMAIN, name) for name in ("SimplifiedLayerNormalization", "SkipLayerNormalization")),
    (CONTRIB_DOMAIN, "SkipSimplifiedLayerNormalization"),
}
"""Operators that are written again for some slices with the attributes that they have: none of these says a size or a position of
an axis that the table of parallel axes names."""
_SEVERAL_RESULTS = ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "Split")

_Asked: TypeAlias = "list[Selection | None]"
"""For each operand: what is read of it, None for all."""


@dataclass(frozen=True)
class _Moved:
    """An operator before which a selection of its results moves.

    Attributes:
        selection: of its results.
        operands: what it reads of its operands.
        write: emits it on what it reads of its operands.
    """

    selection: Selection
    operands: _Asked
    write: Callable[[Builder, list[Variable | None]], Sequence[Variable | None]]


@dataclass(frozen=True)
class _Selects:
    """An operator that reads less than its first operand holds.

    Attributes:
        selections: for each of its results that is read, what it reads.
        write: emits each of those results, from its selection of the operand, and which rows that has where it has some of them.
    """

    selections: dict[int, Selection]
    write: Callable[[Builder, list[Variable], Any], Sequence[Variable]]


def demand(outputs: Sequence[Variable]) -> ProgramPass:
    """The pass that lets a program compute of each tensor what some outputs, and its new state, read of it.

    Args:
        outputs: of the main block: all that will be read, and differentiated. Whoever reads another tensor gets all of it, by the
            operators that computed it before.
    """

    def run(program: Program, target: Target) -> int:
        block, total = program.global_block(), 0
        known = set(block.vars.values())
        while True:
            walk = _Walk(program, outputs, leaves_rows_out=total == 0)
            places = _Writer(program, walk).write() if walk.selects else 0
            total += places
            if not places:
                break
        if total:
            # What one round has written of a tensor may be read in part after the next.
            block.ops = needed_operators(block.ops, known)
            computed = {v for op in block.ops for v in op.outputs} | known
            block.vars = {name: v for name, v in block.vars.items() if v in computed or v.op is None}
        return total

    def has_selections(program: Program, target: Target) -> bool:
        return any(op.type in _SELECTING and not op.domain for op in program.global_block().ops)

    return ProgramPass("demand", run, when=has_selections, rounding="order")


_LOSSES = ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
_SELECTING = ("Gather", "GatherND", "Slice", "Split", *_LOSSES)


# What is read ----------------------------------------------------------------------------------------------------------


class _Walk:
    """What is read of each tensor, from the results to the inputs.

    Attributes:
        moved: operators before which the selection of their results may move.
        selects: operators that select.
        followed: by input whose results are known, these.
    """

    def __init__(self, program: Program, outputs: Sequence[Variable], leaves_rows_out: bool) -> None:
        self.program, self.block, self._leaves_rows_out = program, program.global_block(), leaves_rows_out
        assert NAME_DIMENSIONS.run is not None
        NAME_DIMENSIONS.run(program, Target())  # which changes no result, and is no rewrite of this pass
        self.read: dict[Variable, list[Selection] | None] = {}
        self.moved: dict[Operator, _Moved] = {}
        self.selects: dict[Operator, _Selects] = {}
        self.followed: dict[Variable, set[Variable]] = {}
        for v in (*outputs, *program.updates.values()):
            self._ask(v, None)
        for op in reversed(self.block.ops):
            if any(v is not None and v in self.read for v in op.outputs):
                self._visit(op)

    def selection(self, v: Variable) -> Selection | None:
        """What all readers of a tensor read of it; None for all."""
        asked = self.read.get(v)
        if not asked:
            return None
        size = asked[0].size_in(v.dims) if v.dims is not None else None
        read = common_selection(asked, size if isinstance(size, int) else None)
        is_most = read is not None and isinstance(size, int) and read.count is not None and read.count > _MOST * size
        return None if is_most else read

    def _ask(self, v: Variable | None, selection: Selection | None) -> None:
        if v is None or selection is _UNREAD:
            return
        asked = self.read.setdefault(v, [])
        if selection is None or asked is None:
            self.read[v] = None
        else:
            asked.append(selection)

    def _visit(self, op: Operator) -> None:
        results = [(k, v) for k, v in enumerate(op.outputs) if v is not None and v in self.read]
        selections = [self.selection(v) for _, v in results]
        first = selections[0]
        is_one = first is not None and all(s is not None and s.key == first.key for s in selections)
        is_plain = op.expansion is None and op.replaces is None and op.role is Role.FORWARD
        shifts = is_plain and is_one and first is not None and _moved_before_shift(op, first) is not None
        selects = self._selects(op, [k for k, _ in results]) if is_plain and not shifts else None
        # One position is less than some channels of all.
        if selects is not None and not (is_one and first is not None and first.count == 1 and _moves_less(selects)):
            self.selects[op] = selects
            for selection in selects.selections.values():
                self._ask(op.inputs[0], selection)
            for v in op.operands()[1:]:
                self._ask(v, None)
            return
        moved = self._moved(op, [k for k, _ in results], first) if is_plain and is_one and first is not None else None
        if moved is None:
            for v in op.operands():
                self._ask(v, None)
            return
        self.moved[op] = moved
        for v, asked in zip(op.inputs, moved.operands, strict=True):
            self._ask(v, asked)

    # What selects ----------------------------------------------------------------------------------------------------

    def _selects(self, op: Operator, read: list[int]) -> _Selects | None:
        x = op.inputs[0] if op.inputs else None
        if op.domain or x is None or x.dims is None or x.op is None or not x.is_float:
            return None
        if op.type == "Gather":
            return _of_gather(op, x.dims)
        if op.type == "Slice":
            return _of_slice(op, x.dims)
        if op.type == "GatherND":
            return _of_gather_nd(op, x.dims)
        if op.type == "Split":
            return _of_split(op, x.dims, read)
        return self._of_loss(op, read) if op.type in _LOSSES and self._leaves_rows_out else None

    def _of_loss(self, op: Operator, read: list[int]) -> _Selects | None:
        """A loss over a vocabulary, in which rows with an ignored label count for nothing"""
        scores, labels, ignored = op.inputs[0], op.inputs[1], op.attr("ignore_index")
        if scores is None or labels is None or ignored is None or read != [0] or op.attr("reduction") not in (None, "mean", "sum"):
            return None
        places = labels.op.inputs[0] if labels.rank == 1 and labels.op is not None and _is_flattened(labels.op) else labels
        if places is None or places.rank != 2 or scores.dims is None or scores.rank != (labels.rank or 0) + 1:
            return None
        places_of_scores = (scores.dims[0], *scores.dims[2:])
        known = [
            (a, b) for a, b in zip(places_of_scores, labels.dims or (), strict=False) if isinstance(a, int) and isinstance(b, int)
        ]
        if any(a != b for a, b in known):
            return None  # which no engine computes as the operator says
        words = scores.dims[1]
        if not isinstance(words, int) or words < _FEWEST_WORDS:
            return None
        if examples_of(self.program).axis(places) == 1:
            return None  # the first position is another one for each example
        of_rows = Selection((0,) if labels.rank == 1 else (0, 2), "rows", (places, ignored))

        def write(build: Builder, parts: list[Variable], rows: Variable) -> list[Variable]:
            counted = take_rows(build, labels, of_rows.along((0,) if labels.rank == 1 else (0, 1)), rows)
            return [build.emit(op.type, [parts[0], counted, *op.inputs[2:]], dict(op.attrs))]

        return _Selects({0: of_rows}, write)

    # What a selection moves before -----------------------------------------------------------------------------------

    def _moved(self, op: Operator, read: list[int], selection: Selection) -> _Moved | None:
        if len(op.outputs) > 1 and read != [0] and op.type not in _SEVERAL_RESULTS:
            return None
        if op.type in VIEWS - {"Identity"} and not op.domain:
            return _moved_before_view(op, selection) or self._moved_before_fold(op, selection)
        if op.type == "Slice" and not op.domain and selection.kind == "rows":
            return _moved_before_shift(op, selection)
        if op.type == "Concat" and not op.domain:
            joined = _moved_before_concat(op, selection)
            if joined is not None:
                return joined
        if (op.domain, op.type) in _SLICEWISE and not self._trains(op):
            names = axis_names(op, [None if v is None else v.rank for v in op.inputs])
        else:
            names = _names_of_queries(op)
        operands = None if names is None else _by_names(op, names, read, selection)
        if operands is None:
            return None

        return _Moved(selection, operands, lambda build, parts: _again(build, op, parts))

    def _moved_before_fold(self, op: Operator, selection: Selection) -> _Moved | None:
        """A view of positions that lie in one axis with the examples, as a vector of rows, or back"""
        x, y = op.inputs[0], op.outputs[0]
        if x is None or y is None or x.dims is None or y.dims is None or selection.is_of_rows or {0} & {*x.dims, *y.dims}:
            return None
        if selection.folded is not None:
            asked, sizes = _unfolded(x.dims, y.dims, selection, selection.folded), [-1, *y.dims[1:]]
        else:
            asked, sizes = self._folded(x, x.dims, y.dims, selection), list(y.dims)
            sizes[selection.axes[0]] = _count_of(selection)
            sizes = [size if isinstance(size, int) else -1 for size in sizes]
        if asked is None or sizes.count(-1) > 1:
            return None

        def write(build: Builder, parts: list[Variable | None]) -> list[Variable | None]:
            return [build.Reshape(parts[0], sizes)]

        return _Moved(selection, [asked, *[None] * (len(op.inputs) - 1)], write)

    def _folded(self, x: Variable, dims: tuple[Dim, ...], others: tuple[Dim, ...], selection: Selection) -> Selection | None:
        """The selection of the first axis of a tensor that is one of an axis of a view of it, where that lies in the first"""
        (axis,) = selection.axes
        for last in range(axis, len(others)):
            inside, behind = others[axis + 1 : last + 1], others[last + 1 :]
            if _are_known((*inside, *behind, *dims[1:])) and _product(dims[1:]) == _product(behind):
                size = others[axis]
                like = None if isinstance(size, int) else self._input_of_size(x, size)
                if isinstance(size, int) or like is not None:
                    return Selection((0,), selection.kind, selection.values, Folded(size, prod(inside), like))  # type: ignore[arg-type]
        return None

    def _input_of_size(self, v: Variable, size: Dim) -> tuple[Variable, int] | None:
        """An input that a tensor follows from, so that nothing else has to be fed, and its axis that has a size without a number"""
        inputs = [u for u in self.block.vars.values() if u.op is None and u.value is None and not u.persistable] if size else []
        found = ((u, axis) for u in inputs for axis, dim in enumerate(u.dims or ()) if same_dim(dim, size))
        return next((pair for pair in found if v in self._results_of(pair[0])), None)

    def _results_of(self, v: Variable) -> set[Variable]:
        """All that follows from an input"""
        if v not in self.followed:
            self.followed[v] = results = {v}
            for op in self.block.ops:
                if not results.isdisjoint(u for u in op.operands() if u is not None):
                    results.update(y for y in op.outputs if y is not None)
        return self.followed[v]

    def _trains(self, op: Operator) -> bool:
        """Whether an operator draws a mask, or normalises by its batch"""
        if op.type == "BatchNormalization":
            return bool(attribute_of(op, "training_mode", 0)) or self.program.training_pending
        if op.type != "Dropout":
            return False
        mode = op.inputs[2] if len(op.inputs) > 2 else None
        return self.program.training_pending or (mode is not None and entries_of(mode) != (False,))


def _again(build: Builder, op: Operator, operands: list[Variable | None]) -> Sequence[Variable | None]:
    """An operator on other operands, of onnxruntime's own domain too, whose operators a Builder does not check"""
    copy = Operator(op.block, op.type, operands, [], dict(op.attrs), op.domain)
    copy.role, copy.name = op.role, build.key
    copy.outputs = [None if v is None else Variable(op.block, "", None, copy) for v in op.outputs]
    infer_leniently(copy)
    assert build.stage is not None
    build.stage.append(copy)
    return copy.outputs


def _moves_less(selects: _Selects) -> bool:
    """Whether what an operator selects is more than one slice"""
    return any(selection.count != 1 for selection in selects.selections.values())


def _of_gather(op: Operator, dims: tuple[Dim, ...]) -> _Selects | None:
    """One index, or fewer than the axis has"""
    axis, index = int(attribute_of(op, "axis", 0)) % len(dims), op.inputs[1]
    if index is None or index.dims is None or len(index.dims) > 1:
        return None
    count, size = index.dims[0] if index.dims else 1, dims[axis]
    if not isinstance(count, int) or size == 1 or (count > 1 and not (isinstance(size, int) and count < size)):
        return None
    numbers = entries_of(index)
    selection: Selection | None
    if numbers is None or not all(isinstance(n, int) for n in numbers):
        if not index.dims:
            return None
        selection = Selection((axis,), "gather", (index,))
    elif count > 1:
        selection = Selection((axis,), "gather", tuple(numbers))
    else:
        (number,) = numbers
        assert isinstance(number, int)
        selection = (
            ranges_of(axis, number, number + 1 or LAST, size) if isinstance(size, int) else Selection((axis,), "gather", (number,))
        )

    def write(build: Builder, parts: list[Variable], rows: None) -> list[Variable]:
        return parts if index.dims else [build.Squeeze(parts[0], [axis])]

    return None if selection is None else _Selects({0: selection}, write)


def _of_gather_nd(op: Operator, dims: tuple[Dim, ...]) -> _Selects | None:
    """A row for each example, of its own position"""
    index, batch_dims = op.inputs[1], int(attribute_of(op, "batch_dims", 0))
    if index is None or index.dims is None or len(index.dims) != 2 or len(dims) < 3 or dims[1] == 1:
        return None
    count, depth = index.dims
    if depth != 2 - batch_dims or not same_dim(count, dims[0]):
        return None

    def write(build: Builder, parts: list[Variable], rows: None) -> list[Variable]:
        return [build.Squeeze(parts[0], [0])]

    return _Selects({0: Selection((0, 1), "picked", (index, batch_dims))}, write)


def _as_it_is(build: Builder, parts: list[Variable], rows: None) -> list[Variable]:
    return parts


def _of_bounds(axis: int, start: int, end: int, step: int, size: Dim) -> Selection | None:
    if isinstance(size, int) and step == 1:
        return ranges_of(axis, start, end, size)
    is_most = step == 1 and start >= 0 and (end < 0 or end >= 2**31 - 1)
    return None if is_most else Selection((axis,), "slice", (start, end, step))


def _of_slice(op: Operator, dims: tuple[Dim, ...]) -> _Selects | None:
    """One of its axes; others stay with it"""
    bounds = [op.operand(name) if name in op.input_names else None for name in ("starts", "ends", "axes", "steps")]
    if not all(v is None or isinstance(v, Variable) for v in bounds) or bounds[0] is None or bounds[0].dims is None:
        return None
    count = bounds[0].dims[0]
    try:
        axes = axes_operand(op) or (list(range(count)) if isinstance(count, int) else [])
    except NotKnown:
        return None
    if not axes or count != len(axes):
        return None
    axes = [axis % len(dims) for axis in axes]
    numbers = [entries_of(v) or (None,) * len(axes) for v in (bounds[0], bounds[1])]
    numbers.append((1,) * len(axes) if bounds[3] is None else entries_of(bounds[3]) or (None,) * len(axes))
    if len(axes) == 1 and not all(isinstance(n[0], int) for n in numbers):
        values = [n[0] if isinstance(n[0], int) else v for n, v in zip(numbers, (bounds[0], bounds[1], bounds[3]), strict=True)]
        selection: Selection | None = None if dims[axes[0]] == 1 else Selection((axes[0],), "slice", tuple(values))
        return None if selection is None else _Selects({0: selection}, _as_it_is)
    for i, axis in enumerate(axes):
        start, end, step = (n[i] for n in numbers)
        if not (isinstance(start, int) and isinstance(end, int) and isinstance(step, int)) or dims[axis] == 1:
            continue
        is_whole = step == 1 and start == 0 and end >= 2**31 - 1
        selection = None if is_whole else _of_bounds(axis, start, end, step, dims[axis])
        others = [j for j in range(len(axes)) if j != i]
        if selection is not None and (not others or all(isinstance(n[j], int) for n in numbers for j in others)):
            return _Selects({0: selection}, _slicing(axes, numbers, others))
    return None


def _slicing(axes: list[int], numbers: list[Any], others: list[int]) -> Callable[[Builder, list[Variable], Any], list[Variable]]:
    """The Slice of the other axes"""

    def write(build: Builder, parts: list[Variable], rows: None) -> list[Variable]:
        starts, ends, steps = ([n[j] for j in others] for n in numbers)
        return [build.Slice(parts[0], starts, ends, [axes[j] for j in others], steps)] if others else parts

    return write


def _of_split(op: Operator, dims: tuple[Dim, ...], read: list[int]) -> _Selects | None:
    """Some of its results, where nothing reads the others"""
    axis = int(attribute_of(op, "axis", 0)) % len(dims)
    sizes = [None if v is None or v.dims is None else v.dims[axis] for v in op.outputs]
    total = dims[axis]
    if len(read) == len(op.outputs) or not isinstance(total, int) or not all(isinstance(size, int) for size in sizes):
        return None
    known = [size for size in sizes if isinstance(size, int)]
    ranges = {k: ranges_of(axis, sum(known[:k]), sum(known[: k + 1]), total) for k in read}
    selections = {k: selection for k, selection in ranges.items() if selection is not None}
    return _Selects(selections, _as_it_is) if len(selections) == len(read) and selections else None


def _is_flattened(op: Operator) -> bool:
    return op.type in ("Flatten", "Reshape") and not op.domain


# Operators that keep slices apart ---------------------------------------------------------------------------------------


def _by_names(op: Operator, names: AxisNames, read: list[int], selection: Selection) -> _Asked | None:
    """What is read of the operands for a selection of the results; None where a slice of a result follows from other slices"""
    wanted = None
    for k in read:
        result, y = names.outputs[k] if k < len(names.outputs) else (), op.outputs[k]
        if y is None or y.dims is None or max(selection.axes) >= len(result):
            return None
        group = tuple(result[axis] for axis in selection.axes)
        sizes = [y.dims[axis] for axis in selection.axes]
        if None in group or (wanted is not None and wanted != (group, sizes)):
            return None
        wanted = group, sizes
    if wanted is None:
        return None
    asked: _Asked = []
    for i, v in enumerate(op.inputs):
        own = names.inputs[i] if v is not None and i < len(names.inputs) else ()
        if v is None or not any(name in own for name in wanted[0]):
            asked.append(None)
            continue
        if v.dims is None:
            return None
        at = [own.index(name) if name in own else None for name in wanted[0]]
        if any(own.count(name) > 1 for name in wanted[0]):
            return None
        sizes_here = [1 if axis is None else v.dims[axis] for axis in at]
        if all(size == 1 for size in sizes_here):
            asked.append(None)
            continue
        axes = [axis for axis in at if axis is not None]
        if selection.folded is not None and (axes != [0] or not _are_known(v.dims[1:])):
            return None
        if selection.is_of_rows and axes[0] != 0:
            return None
        is_whole = len(axes) == len(at) and all(same_dim(a, b) for a, b in zip(sizes_here, wanted[1], strict=True))
        is_row = all(axes[j + 1] == axes[j] + 1 for j in range(len(axes) - 1))
        if not is_whole or not is_row:
            return None
        asked.append(selection.along(axes))
    return asked if any(s is not None for s in asked) else None


def _names_of_queries(op: Operator) -> AxisNames | None:
    """The names of examples and queries of attention: each query is answered by itself, unless it is told its position"""
    q, k = op.inputs[0], op.inputs[1] if len(op.inputs) > 1 else None
    if (op.domain, op.type) == ("", "Attention"):
        rank, mask = 0 if q is None else q.rank, 3
        is_causal = attribute_of(op, "is_causal", 0)
    elif (op.domain, op.type) == (CONTRIB_DOMAIN, "MultiHeadAttention"):
        rank, mask = 3 if q is not None and q.rank == 3 and k is not None else 0, 5
        is_causal = attribute_of(op, "unidirectional", 0)
    else:
        return None
    if is_causal or rank not in (3, 4):
        return None
    queries = ("example", "query", None) if rank == 3 else ("example", None, "query", None)
    inputs: list[Any] = [queries, *[("example",)] * (len(op.inputs) - 1)]
    if mask < len(op.inputs) and (v := op.inputs[mask]) is not None:
        if v.rank is None or v.rank < 2:
            return None
        inputs[mask] = (*("example",) * (v.rank == 4), *(None,) * (v.rank - 2 - (v.rank == 4)), "query", None)
    return AxisNames(inputs, [queries])


def _moved_before_shift(op: Operator, selection: Selection) -> _Moved | None:
    """A Slice of positions, as ``logits[:, :-1]``, of which some rows are read"""
    x = op.inputs[0] if op.inputs else None
    if op.type != "Slice" or op.domain or selection.kind != "rows" or selection.axes != (0, 1) or selection.values[2:]:
        return None
    bounds = [op.operand(name) if name in op.input_names else None for name in ("starts", "ends", "axes", "steps")]
    start, end, axes, step = (entries_of(v) if isinstance(v, Variable) else None for v in bounds)
    if x is None or x.dims is None or axes is None or (bounds[3] is not None and step != (1,)):
        return None
    if len(axes) != 1 or axes[0] not in (1, 1 - len(x.dims)) or not start or not end:
        return None
    (first,), (behind,) = start, end
    if not isinstance(first, int) or not isinstance(behind, int):
        return None
    of_all = Selection((0, 1), "rows", (*selection.values, first, behind))
    return _Moved(selection, [of_all, *[None] * (len(op.inputs) - 1)], lambda build, parts: parts[:1])


def _moved_before_concat(op: Operator, selection: Selection) -> _Moved | None:
    """Of what is joined along the selected axis, the parts that are read"""
    y = op.outputs[0]
    axis = int(op.attrs["axis"])
    if y is None or y.dims is None or selection.kind != "ranges" or selection.axes != (axis % len(y.dims),):
        return None
    asked: _Asked = []
    kept: list[int] = []
    begin = 0
    for i, v in enumerate(op.inputs):
        size = None if v is None or v.dims is None else v.dims[selection.axes[0]]
        if not isinstance(size, int):
            return None
        pairs = [(max(start - begin, 0), min(end - begin, size)) for start, end in selection.values]
        pairs = [(start, end) for start, end in pairs if start < end]
        begin += size
        if pairs:
            kept.append(i)
        asked.append(_UNREAD if not pairs else None if pairs == [(0, size)] else Selection(selection.axes, "ranges", tuple(pairs)))

    def write(build: Builder, parts: list[Variable | None]) -> list[Variable | None]:
        read = [parts[i] for i in kept]
        return [read[0] if len(read) == 1 else build.Concat(*read, axis=axis)]

    return _Moved(selection, asked, write)


# Views -------------------------------------------------------------------------------------------------------------------


def _moved_before_view(op: Operator, selection: Selection) -> _Moved | None:
    """A view that leaves the selected axes together"""
    x, y = op.inputs[0], op.outputs[0]
    if x is None or y is None or x.dims is None or y.dims is None:
        return None
    axes = _same_axes(x.dims, y.dims, selection.axes)
    if axes is not None and (selection.kind == "picked" or (selection.kind == "rows" and selection.values[2:])):
        # Rows that are told by two indices, or those of some positions, which are no axis of another view.
        axes = (0, 1) if axes == selection.axes == (0, 1) and same_dim(x.dims[1], y.dims[1]) else None
    elif axes is not None and selection.kind == "rows":
        axes = tuple(range(axes[-1] + 1)) if all(size == 1 for size in x.dims[: axes[0]]) else None
    if axes is None or (not selection.is_of_rows and (len(axes) > 1 or not same_dim(x.dims[axes[0]], y.dims[selection.axes[0]]))):
        return None
    if op.type != "Reshape":
        if op.type in ("Squeeze", "Unsqueeze") and len(axes) != len(selection.axes):
            return None

        def again(build: Builder, parts: list[Variable | None]) -> list[Variable | None]:
            return [build.emit(op.type, [parts[0], *op.inputs[1:]], dict(op.attrs))]

        return _Moved(selection, [selection.along(axes), *[None] * (len(op.inputs) - 1)], again)
    sources = _sources(x.dims, y.dims, axes, selection.axes)
    if sources is None:
        return None

    def write(build: Builder, parts: list[Variable | None]) -> list[Variable | None]:
        (part, *_) = parts
        assert part is not None
        sizes = [_size_in(part, axis, source) for axis, source in enumerate(sources)]
        if sizes.count(None) == 1:  # which follows from the others, so nothing else reads the part
            return [build.Reshape(part, [-1 if size is None else size for size in sizes])]
        if None not in sizes:
            return [build.Reshape(part, sizes)]
        entries = [
            [size] if size is not None or isinstance(source, int) else build.Shape(part, start=source[0], end=source[0] + 1)
            for size, source in zip(sizes, sources, strict=True)
        ]
        return [build.Reshape(part, build.Concat(*entries, axis=0))]

    return _Moved(selection, [selection.along(axes), *[None] * (len(op.inputs) - 1)], write)


def _unfolded(dims: tuple[Dim, ...], others: tuple[Dim, ...], selection: Selection, folded: Folded) -> Selection | None:
    """The selection of a tensor that is one of the first axis of a view of it"""
    if not _are_known(others[1:]):
        return None
    for last in range(len(dims)):
        if _product(dims[last + 1 :]) != _product(others[1:]):
            continue
        for axis in range(last + 1):
            inside = dims[axis + 1 : last + 1]
            if same_dim(dims[axis], folded.size) and _are_known(inside) and _product(inside) == (folded.inner, []):
                return Selection((axis,), selection.kind, selection.values)
    return selection if _are_known(dims[1:]) and _product(dims[1:]) == _product(others[1:]) else None


def _count_of(selection: Selection) -> int | None:
    """How many slices a selection reads, where that is known"""
    if selection.kind == "gather" and isinstance(selection.values[0], Variable):
        dims = selection.values[0].dims
        return dims[0] if dims and isinstance(dims[0], int) else None
    return selection.count


def _are_known(dims: Sequence[Dim]) -> bool:
    return all(isinstance(size, int) for size in dims)


def _size_in(part: Variable, axis: int, source: int | tuple[int]) -> int | None:
    """One entry of a shape: a number, 0 for the size of the same axis, None for one that is known when it runs"""
    if isinstance(source, int):
        return source
    size = None if part.dims is None else part.dims[source[0]]
    return size if isinstance(size, int) else 0 if source[0] == axis else None


def _same_axes(dims: tuple[Dim, ...], others: tuple[Dim, ...], axes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The fewest axes of a tensor that are together certain axes of a view of it; None where there are none, as far as is known"""
    if 0 in dims or 0 in others or any(b != a + 1 for a, b in pairwise(axes)):
        return None
    before, behind = _product(others[: axes[0]]), _product(others[axes[-1] + 1 :])
    firsts = [i for i in range(len(dims)) if before is not None and _product(dims[:i]) == before]
    lasts = [i for i in range(len(dims)) if behind is not None and _product(dims[i + 1 :]) == behind]
    if not firsts or not lasts:
        return None
    last = next((i for i in lasts if i >= firsts[-1]), None)
    return None if last is None else tuple(range(firsts[-1], last + 1))


def _product(dims: Sequence[Dim]) -> tuple[int, list[str]] | None:
    if None in dims:
        return None
    return prod(d for d in dims if isinstance(d, int)), sorted(d for d in dims if isinstance(d, str))


def _sources(
    dims: tuple[Dim, ...], others: tuple[Dim, ...], axes: tuple[int, ...], selected: tuple[int, ...]
) -> list[int | tuple[int]] | None:
    """For each axis of a view of some slices its size: a number, or (i,) for that of axis i of its operand; None if unknown"""
    sources: list[int | tuple[int]] = []
    for axis, size in enumerate(others):
        if axis in selected:
            sources.append((axes[-1],) if axis == selected[-1] else 1)
        elif isinstance(size, int):
            sources.append(size)
        else:
            same = [i for i, dim in enumerate(dims) if i not in axes and same_dim(dim, size)]
            if not same:
                return None
            sources.append((same[0],))
    return sources


# Writing -----------------------------------------------------------------------------------------------------------------


def _builder(op: Operator, stage: list[Operator]) -> Builder:
    return Builder(op.block, stage, key=next(v.name for v in op.outputs if v is not None))


class _Writer:
    """Writes operators once more, for what is read of their results.

    Attributes:
        less: tensors of which less than all can be computed.
        multiplied: of these, those that a product leads to.
        parts: of tensors in ``less`` that are read so, what is read.
        stage: what is new, in an order that can be run.
    """

    def __init__(self, program: Program, walk: _Walk) -> None:
        self.program, self.block, self.walk = program, program.global_block(), walk
        self.less: set[Variable] = set()
        self.multiplied: set[Variable] = set()
        self.parts: dict[Variable, Variable] = {}
        self.stage: list[Operator] = []
        self.taken: dict[tuple[Any, ...], Variable] = {}
        self.sizes: dict[tuple[Any, ...], Dim] = {}
        for op in self.block.ops:
            if op in walk.moved:
                self._note(op, walk.moved[op])

    def _note(self, op: Operator, moved: _Moved) -> None:
        read = _read_in_part(op, moved)
        if op.type in MOVES | CASTS and not op.domain and self.less.isdisjoint(read):
            return  # which computes nothing
        results = [y for y in op.outputs if y is not None]
        self.less.update(results)
        if op.type in _PRODUCTS or not self.multiplied.isdisjoint(read):
            self.multiplied.update(results)

    def _gains(self, op: Operator, selects: _Selects) -> bool:
        # Most rows may have a label that counts, which are then copied; a row of each example is few.
        is_of_labels = any(selection.kind == "rows" for selection in selects.selections.values())
        return op.inputs[0] in (self.multiplied if is_of_labels else self.less)

    def write(self) -> int:
        """Rewrite the block, and return how many operators read less."""
        moved = self.walk.moved
        selecting = {op: selects for op, selects in self.walk.selects.items() if self._gains(op, selects)}
        if not selecting:
            return 0
        wanted = {op.inputs[0] for op in selecting}
        for op in reversed(self.block.ops):
            if op in moved and not wanted.isdisjoint(op.outputs):
                wanted.update(v for v in _read_in_part(op, moved[op]) if v in self.less)
        replaced: dict[Operator, list[Operator]] = {}
        for op in self.block.ops:
            if op in selecting:
                replaced[op] = self._write_selected(op, selecting[op])
            elif op in moved and not wanted.isdisjoint(op.outputs):
                self._write_part(op, moved[op])
        self._arrange(replaced)
        return len(replaced)

    def _write_part(self, op: Operator, moved: _Moved) -> None:
        parts = [
            v if v is None or asked is None else None if asked is _UNREAD else self._part(v, asked)
            for v, asked in zip(op.inputs, moved.operands, strict=True)
        ]
        for y, part in zip(op.outputs, moved.write(_builder(op, self.stage), parts), strict=False):
            if y is not None and part is not None:
                self.parts[y] = part

    def _part(self, v: Variable, selection: Selection) -> Variable:
        """A selection of a tensor, of the part of it that is computed or of all of it"""
        key = (v, selection.key)
        if key not in self.taken:
            build = Builder(self.block, self.stage, key=v.name)
            if v in self.parts:
                read = self.walk.selection(v)
                assert read is not None
                self.taken[key] = take_within(build, self.parts[v], read, selection)
            else:
                rows = self._rows(selection)
                self.taken[key] = take(build, v, selection) if rows is None else take_rows(build, v, selection, rows)
                self._name_size(v, self.taken[key], selection)
        return self.taken[key]

    def _rows(self, selection: Selection) -> Variable | None:
        """Which rows a selection of rows reads"""
        if selection.kind != "rows":
            return None
        labels, ignored, *_ = selection.values
        key = (labels, ignored)
        if key not in self.taken:
            self.taken[key] = kept_rows(Builder(self.block, self.stage, key=labels.name), labels, ignored)
        return self.taken[key]

    def _name_size(self, v: Variable, part: Variable, selection: Selection) -> None:
        """Give one symbol to the sizes that the same selection of axes of one size leaves, as gradients ask which are equal"""
        assert v.dims is not None and part.dims is not None
        axis = selection.axes[-1]
        if selection.kind != "picked" and not isinstance(part.dims[axis], int):
            key = (selection.along(()).key, None if selection.kind == "rows" else v.dims[axis])
            dim = self.sizes.setdefault(key, fresh_dim())
            part.type = TensorType(part.dtype, (*part.dims[:axis], dim, *part.dims[axis + 1 :]))

    def _write_selected(self, op: Operator, selects: _Selects) -> list[Operator]:
        """What stands in place of an operator that selects"""
        x = op.inputs[0]
        assert x is not None
        stage: list[Operator] = []
        build = _builder(op, stage)
        selections = list(selects.selections.values())
        results = selects.write(build, [self._part(x, selection) for selection in selections], self._rows(selections[0]))
        for k, result in zip(selects.selections, results, strict=True):
            y = op.outputs[k]
            assert y is not None
            if not any(result.op is new for new in stage):
                result = build.Identity(result)
            writes = result.op
            assert writes is not None
            writes.outputs, y.op, op.outputs[k] = [y], writes, None
        if all(v is None for v in op.outputs):
            return stage
        # The results that are not read here may be fetched.
        for k, v in enumerate(op.outputs):
            if v is None:
                name = self.program.fresh_name(f"{op.name or op.type}/whole")
                op.outputs[k] = self.block.register(Variable(self.block, name, None, op))
        infer_leniently(op)
        return [op, *stage]

    def _arrange(self, replaced: dict[Operator, list[Operator]]) -> None:
        """Put what is new behind the operators that it reads, and give names"""
        place: dict[Variable, int] = {}
        for i, op in enumerate(self.block.ops):
            of = op if op.replaces is None else op.replaces  # new operators stand behind all of an expansion
            results = [v for written in replaced.get(op, ()) for v in written.outputs]
            place.update((v, i) for v in (*op.outputs, *of.outputs, *results) if v is not None)
        behind: dict[int, list[Operator]] = {}
        for op in self.stage:
            at = max((place.get(v, -1) for v in op.operands() if v is not None), default=-1)
            behind.setdefault(at, []).append(op)
            place.update((v, at) for v in op.outputs if v is not None)
        arranged = list(behind.get(-1, ()))
        for i, op in enumerate(self.block.ops):
            arranged += [*replaced.get(op, (op,)), *behind.get(i, ())]
        final = {new: None for op, written in replaced.items() for new in written if new is not op}
        self._name([*self.stage, *final])
        self.block.ops = arranged
        same = {op.outputs[0]: op.inputs[0] for op in final if op.type == "Identity"}
        substitute([op for op in arranged if op not in final], {y: x for y, x in same.items() if y is not None and x is not None})

    def _name(self, operators: list[Operator]) -> None:
        for op in operators:
            for v in op.outputs:
                if v is not None and v.name == "":
                    v._name = self.program.fresh_name(f"{op.name}/read")
                    self.block.register(v)
            op.name = next(v.name for v in op.outputs if v is not None)


def _read_in_part(op: Operator, moved: _Moved) -> list[Variable]:
    pairs = zip(op.inputs, moved.operands, strict=True)
    return [v for v, asked in pairs if v is not None and asked is not None and asked is not _UNREAD]
