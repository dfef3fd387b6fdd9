"""Selections of positions, rows and channels along axes of a tensor: what is read of it, and the operators that take it.

Tests: tests/core/passes/test_demand.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.types import Dim, TensorType
from onnxgrad.core.ir.variable import Variable

__all__ = ["LAST", "Folded", "Selection", "common_selection", "kept_rows", "ranges_of", "take", "take_rows", "take_within"]

LAST = 2**63 - 1
"""The end of an axis, as Slice takes it."""

_Bound: TypeAlias = "int | Variable"


@dataclass(frozen=True)
class Folded:
    """Three axes in one, of which the one in the middle is selected of.

    Attributes:
        size: of the axis in the middle.
        inner: slices of the axis behind it.
        like: an input, and its axis of that size, where that is not a number.
    """

    size: Dim
    inner: int
    like: tuple[Variable, int] | None = None


@dataclass(frozen=True, eq=False)
class Selection:
    """What is read of a tensor: some slices along an axis, in some order; the axis stays, of their number.

    Attributes:
        axes: one axis; of ``"rows"`` one or several that follow each other, whose positions are counted as one. All but the last
            then have size 1 in what is selected.
        kind: ``"ranges"``: of an axis of known size, ``values`` are pairs of a first position and the one behind the last,
            ascending. ``"slice"``: ``values`` are start, end and step of a Slice. ``"gather"``: ``values`` are indices, or one
            vector of them. ``"rows"``: ``values`` are labels [examples, positions] and the one that does not count, which say what
            ``kept_rows`` reads, and, where the last axis has more positions than the labels, the first of theirs and the one behind
            their last. ``"picked"``: of two axes as of ``"rows"``, ``values`` are the indices of a GatherND and its batch_dims.
        folded: where the axis is the first one and holds several, as positions of all examples do: what is selected of.
    """

    axes: tuple[int, ...]
    kind: Literal["ranges", "slice", "gather", "rows", "picked"]
    values: tuple[Any, ...]
    folded: Folded | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """What is equal for selections that are the same: variables by identity, as ``==`` of two is an operator."""
        folded = None if self.folded is None else (self.folded.size, self.folded.inner)
        return (self.axes, self.kind, folded, *(id(value) if isinstance(value, Variable) else value for value in self.values))

    @property
    def is_of_rows(self) -> bool:
        """Whether positions of several axes are counted as one."""
        return self.kind in ("rows", "picked")

    @property
    def count(self) -> int | None:
        """How many slices are read, where that is known."""
        if self.kind == "ranges":
            return sum(int(end) - int(start) for start, end in self.values)
        if self.kind == "gather" and not isinstance(self.values[0], Variable):
            return len(self.values)
        if self.kind == "slice" and all(isinstance(bound, int) for bound in self.values):
            return 1 if self.values in ((0, 1, 1), (-1, LAST, 1)) else None
        return None

    def along(self, axes: Sequence[int]) -> Selection:
        """The same slices along other axes."""
        return Selection(tuple(axes), self.kind, self.values, self.folded)

    def size_in(self, dims: Sequence[Dim]) -> Dim:
        """The size of what is selected of, in a tensor of these sizes."""
        return dims[self.axes[0]] if self.folded is None else self.folded.size


def ranges_of(axis: int, start: int, end: int, size: int) -> Selection | None:
    """The positions that a Slice of step 1 reads of an axis of known size; None where it reads all, or none."""
    first, behind, _ = slice(start, end).indices(size)
    return None if behind <= first or behind - first == size else Selection((axis,), "ranges", ((first, behind),))


def common_selection(selections: Sequence[Selection], size: int | None) -> Selection | None:
    """What several readers read of a tensor together: the same, or a union of ranges of an axis of known size; None for all."""
    first = selections[0]
    if all(other.key == first.key for other in selections):
        return first
    if size is None or any(s.kind != "ranges" or s.key[:3] != first.key[:3] for s in selections):
        return None
    ranges: list[tuple[int, int]] = []
    for start, end in sorted(pair for s in selections for pair in s.values):
        if ranges and start <= ranges[-1][1]:
            ranges[-1] = ranges[-1][0], max(end, ranges[-1][1])
        else:
            ranges.append((start, end))
    return None if ranges == [(0, size)] else Selection(first.axes, "ranges", tuple(ranges), first.folded)


def take(build: Builder, v: Variable, selection: Selection) -> Variable:
    """Emit what selects of a whole tensor; of rows whose label counts it is ``take_rows``."""
    (*_, axis), values = selection.axes, selection.values
    if selection.kind == "picked":
        index, batch_dims = values
        picked: Variable = build.Unsqueeze(build.GatherND(v, index, batch_dims=batch_dims), [0])
        return picked
    if selection.folded is not None:
        return _take_folded(build, v, selection, selection.folded)
    if selection.kind == "ranges" and len(values) == 1:
        ((start, end),) = values
        return _slice(build, v, axis, start, end, 1)
    if selection.kind == "ranges":
        parts = [_slice(build, v, axis, start, end, 1) for start, end in values]
        joined: Variable = build.Concat(*parts, axis=axis)
        return joined
    if selection.kind == "slice":
        return _slice(build, v, axis, *values)
    index = values[0] if isinstance(values[0], Variable) else list(values)
    gathered: Variable = build.Gather(v, index, axis=axis)
    return gathered


def _take_folded(build: Builder, v: Variable, selection: Selection, folded: Folded) -> Variable:
    assert v.dims is not None
    behind = list(v.dims[1:])
    if folded.like is None:
        apart = build.Reshape(v, [-1, folded.size, folded.inner, *behind])
    else:
        like, axis = folded.like
        size = build.Shape(like, start=axis, end=axis + 1)
        apart = build.Reshape(v, build.Concat([-1], size, [folded.inner, *behind], axis=0))
    flat: Variable = build.Reshape(take(build, apart, Selection((1,), selection.kind, selection.values)), [-1, *behind])
    return flat


def take_within(build: Builder, part: Variable, read: Selection, selection: Selection) -> Variable:
    """Emit what selects of a tensor of which only ``read`` is there, as ranges that hold those of the selection."""
    if read.key == selection.key:
        return part
    positions = {position: i for i, position in enumerate(p for start, end in read.values for p in range(start, end))}
    places = [(positions[start], positions[end - 1] + 1) for start, end in selection.values]
    folded = None if read.folded is None else Folded(read.count, read.folded.inner)
    return take(build, part, Selection(selection.axes, "ranges", tuple(places), folded))


def _slice(build: Builder, v: Variable, axis: int, start: _Bound, end: _Bound, step: _Bound) -> Variable:
    first, behind, by = (bound if isinstance(bound, Variable) else [bound] for bound in (start, end, step))
    is_each = isinstance(step, int) and step == 1
    sliced: Variable = build.Slice(v, first, behind, [axis], None if is_each else by)
    return sliced


def take_rows(build: Builder, v: Variable, selection: Selection, kept: Variable) -> Variable:
    """Emit the rows of a tensor that are kept, along its leading axes; all but the last of these come back with size 1."""
    axes, (labels, _, *bounds) = selection.axes, selection.values
    if bounds:
        start, end = bounds
        v = _slice(build, v, axes[-1], start, end, 1)
        assert v.dims is not None
        # There is a label for each of these positions.
        v.type = TensorType(v.dtype, (*v.dims[: axes[-1]], labels.dims[1], *v.dims[axes[-1] + 1 :]))
    if len(axes) == 1:
        rows: Variable = build.Compress(v, kept, axis=axes[0])
        return rows
    assert v.dims is not None
    sizes = v.dims[axes[-1] + 1 :]
    flat = build.Reshape(v, [-1, *sizes]) if all(isinstance(n, int) for n in sizes) else build.Flatten(v, axis=len(axes))
    rows = build.Unsqueeze(build.Compress(flat, kept, axis=0), list(axes[:-1]))
    return rows


def kept_rows(build: Builder, labels: Variable, ignored: int) -> Variable:
    """Emit which rows count: those whose label is not the ignored one, and the first position of each example.

    Args:
        labels: of shape [examples, positions].
        ignored: the label that does not count.

    Returns:
        Booleans of shape [examples * positions]. At least one row of each example is kept, so nothing that is computed of the
        rows is empty, and what is kept of an example does not depend on others.
    """
    counts = build.Not(build.Equal(labels, build.constant(ignored, labels.dtype)))
    positions = build.Range(0, build.Squeeze(build.Shape(labels, start=1, end=2), [0]), 1)
    kept: Variable = build.Reshape(build.Or(counts, build.Equal(positions, 0)), [-1])
    return kept
