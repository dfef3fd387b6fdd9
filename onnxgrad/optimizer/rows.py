"""The rows of an embedding that a batch looks up: all that a lazy optimizer reads and writes of it and its state."""

from __future__ import annotations

from dataclasses import dataclass

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.plan import Lookup
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import add_rows

__all__ = ["ALL", "SparseRows", "looked_up", "with_sparse_gradient"]

_SPARSE = "onnxgrad.sparse"


@dataclass(frozen=True)
class SparseRows:
    """Some rows of a parameter, and their gradient; all of them if no ``index`` says which."""

    index: Variable | None = None
    gradient: Variable | None = None

    def take(self, op: Builder, whole: Variable) -> Variable:
        """These rows of the parameter or of a state of its shape"""
        return whole if self.index is None else op.Gather(whole, self.index)

    def put(self, op: Builder, whole: Variable, new: Variable) -> Variable:
        """The whole, with new values in these rows. No row is there twice, so ScatterND is safe on several threads"""
        return new if self.index is None else op.ScatterND(whole, op.Unsqueeze(self.index, [1]), new)


ALL = SparseRows()


def with_sparse_gradient(rows: Variable, sparse: bool) -> Variable:
    """The result of a lookup, marked in the metadata of its operator if its gradient is to be sparse."""
    if sparse and rows.op is not None:
        rows.op.metadata = {**(rows.op.metadata or {}), _SPARSE: "1"}
    return rows


def looked_up(op: Builder, p: Variable, value: Variable, g: Variable, unclipped: Variable) -> SparseRows:
    """The rows of ``p`` that ``unclipped`` adds to, with their gradient in ``g``; or all if ``p`` is read otherwise than by lookups
    with a sparse gradient.

    In a loaded file every lookup counts as such.
    """
    operators = p.block.program.global_block().ops
    readers = [reader for reader in operators if reader.role is Role.FORWARD and any(v is p for v in reader.operands())]
    lookups = _lookups(unclipped, p)
    if not lookups or p.dims is None or not all(_is_sparse(reader) for reader in readers):
        return ALL
    flat = _joined(op, [index for index, _ in lookups])
    index, _, inverse = op.Unique(op.Mod(op.Cast(flat, to=7), p.dims[0]), outputs=3)
    if g is not unclipped:
        gradient = op.Gather(g, index)
    else:
        gradient = add_rows(op, op.Gather(value, index), inverse, _joined(op, [rows for _, rows in lookups]), 0)
    p.block.program.plan.lookups.append(Lookup(flat, g, index, gradient))
    return SparseRows(index, gradient)


def _joined(op: Builder, parts: list[Variable]) -> Variable:
    joined: Variable = parts[0] if len(parts) == 1 else op.Concat(*parts, axis=0)
    return joined


def _is_sparse(reader: Operator) -> bool:
    return reader.type == "Gather" and (reader.loaded or _SPARSE in (reader.metadata or {}))


def _lookups(g: Variable | None, p: Variable) -> list[tuple[Variable, Variable]]:
    """The indices of all lookups of ``p`` and the rows that their gradients add there; nothing where ``g`` is another sum."""
    source = None if g is None else g.op
    if source is None or p.rank is None:
        return []
    if source.type in ("Add", "Sum"):
        parts = [_lookups(v, p) for v in source.inputs]
        return [part for several in parts for part in several] if all(parts) else []
    if source.type != "ScatterElements" or source.attr("axis") or source.attr("reduction") != "add":
        return []
    _, index, rows = source.inputs
    if p.rank > 1 and index is not None:
        # The rule unsqueezes the indices and expands them, unless they have the shape of the rows as they are.
        if index.op is not None and index.op.type == "Expand":
            index = index.op.inputs[0]
        index = index.op.inputs[0] if index is not None and index.op is not None and index.op.type == "Unsqueeze" else None
    return [] if index is None or rows is None else [(index, rows)]
