"""The rows of an embedding that a batch looks up: all that a lazy optimizer reads and writes of it and its state."""

from __future__ import annotations

from dataclasses import dataclass

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator, Role
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


def looked_up(op: Builder, p: Variable, value: Variable, g: Variable) -> SparseRows:
    """The rows of ``p`` that ``g`` adds to, or all if ``p`` is read otherwise than by lookups with a sparse gradient.

    In a loaded file every lookup counts as such.
    """
    flat, added = _parts(g)
    operators = p.block.program.global_block().ops
    readers = [reader for reader in operators if reader.role is Role.FORWARD and any(v is p for v in reader.operands())]
    if flat is None or added is None or p.dims is None or not all(_is_sparse(reader) for reader in readers):
        return ALL
    index, _, inverse = op.Unique(op.Mod(op.Cast(flat, to=7), p.dims[0]), outputs=3)
    return SparseRows(index, add_rows(op, op.Gather(value, index), inverse, added, 0))


def _is_sparse(reader: Operator) -> bool:
    return reader.type == "Gather" and (reader.loaded or _SPARSE in (reader.metadata or {}))


def _parts(g: Variable) -> tuple[Variable | None, Variable | None]:
    """The indices and the rows that the gradient of a lookup adds to zeros at them"""
    scatter, sources = g.op, list[Variable]()
    if scatter is None or scatter.type != "ScatterElements" or scatter.attr("axis") or scatter.attr("reduction") != "add":
        return None, None
    for op_type in ("Expand", "Unsqueeze"):
        v = sources[-1] if sources else scatter.inputs[1]
        if v is None or v.op is None or v.op.type != op_type or v.op.inputs[0] is None:
            return None, None
        sources.append(v.op.inputs[0])
    return sources[-1], scatter.inputs[2]
