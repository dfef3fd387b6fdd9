"""Numbers that multiply a matrix product, or what goes into one, as the product's own factor: one pass over memory less."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np

from onnxgrad.core.graph.contract import CPU_FORMS, Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.matching import are_same
from onnxgrad.core.graph.rewriting import Links, name_results, stage_builder
from onnxgrad.core.ir.operator import Operator, as_stored
from onnxgrad.core.ir.variable import Variable

__all__ = ["FOLD_ALPHA", "fold_alpha"]

_TINY = float(np.finfo(np.float32).tiny)


def fold_alpha(graph: Graph, target: Target) -> int:
    """Leave out each Mul by a constant number whose operand is a Gemm that nobody else reads, or which only Gemms read."""
    before = graph.replacements
    if graph.types() >= {"Gemm", "Mul"}:
        _Fold(graph).run()
    return graph.replacements - before


FOLD_ALPHA = Pass("fold_alpha", fold_alpha, rounding="order", gain=CPU_FORMS)


class _Fold(Links):
    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.after: dict[Operator, Operator] = {}
        """By a Gemm: the Mul of its result."""
        self.before: dict[Variable, Variable] = {}
        """By a product with a number that is not computed: what is multiplied."""
        self.alphas: dict[Operator, float] = {}
        """By a Gemm: its factor with those that are left out."""
        self.products: dict[Variable, float] = {}
        """The values of products of constants of one element, found in one walk: chains of them may be long."""
        for op in graph.operators:
            if op.type == "Mul" and not op.domain and op.outputs[0] is not None:
                factors = [self._number(v) for v in op.inputs]
                if None not in factors:
                    self.products[op.outputs[0]] = float(np.prod([f for f in factors if f is not None]))

    def run(self) -> None:
        scales = [(op, scale) for op in self.graph.operators if (scale := self._scale(op)) is not None]
        gone = {op for op, scale in scales if self._leave_out(op, *scale)}
        done: list[Operator] = []
        for op in self.graph.operators:
            if op not in gone:
                done.extend(self._gemm(op) if op.type == "Gemm" and not op.domain else [op])
        self.graph.operators = done

    def _scale(self, op: Operator) -> tuple[Variable, float] | None:
        """The operand and the number, if this is a product with one."""
        if op.type != "Mul" or op.domain or op.outputs[0] is None or op.outputs[0] in self.returned:
            return None
        for x, number in (op.inputs, op.inputs[::-1]):
            value = self._number(number)
            if value is not None and x is not None and (x.rank or 0) >= 2:
                return x, value
        return None

    def _number(self, v: Variable | None) -> float | None:
        """The value of a constant of one element, or of a product of such."""
        if v is None:
            return None
        if v.value is not None and not v.persistable:
            array = v.value.numpy() if v.static_shape is not None and int(np.prod(v.static_shape)) == 1 else None
            return None if array is None or array.ndim > 2 else float(array.reshape(-1)[0])
        return self.products.get(v)

    def _leave_out(self, op: Operator, x: Variable, number: float) -> bool:
        result, maker = op.outputs[0], self.makers.get(x)
        assert result is not None
        alone = x not in self.returned and len(self.readers[x]) == 1
        plain = maker is not None and maker.type == "Gemm" and not maker.domain and len(_present(maker)) == 2
        if alone and maker is not None and plain and maker not in self.after and self._multiply([maker], number):
            self.after[maker] = op
            return True
        readers = self.readers.get(result, [])
        gemms = readers and all(r.type == "Gemm" and not r.domain and _is_factor(r, result) for r in readers)
        if gemms and self._multiply(readers, number):
            self.before[result] = x
            return True
        return False

    def _multiply(self, gemms: Sequence[Operator], number: float) -> bool:
        """Multiply the factor of each Gemm, once for each time that it is listed; return whether an attribute can hold them.

        It is a float32. And a product times 0 is not computed, where a factor of 0 may meet what is not finite.
        """
        alphas = {gemm: self.alphas.get(gemm, gemm.attr("alpha")) for gemm in gemms}
        for gemm in gemms:
            alphas[gemm] *= number
        for gemm in gemms:
            with np.errstate(over="ignore"):
                stored = as_stored(alphas[gemm])
            wide = gemm.inputs[0] is not None and gemm.inputs[0].dtype.name == "float64"
            if not _TINY <= abs(stored) < inf or (wide and stored != alphas[gemm]):
                return False
        self.alphas.update(alphas)
        return True

    def _gemm(self, op: Operator) -> list[Operator]:
        """The Gemm with the factors of its operands and of its result."""
        last = self.after.get(op, op)
        operands: list[Any] = [self.before.get(v, v) if i < 2 and v is not None else v for i, v in enumerate(op.inputs)]
        if last is op and are_same(operands, op.inputs):
            return [op]
        build = stage_builder(self.graph, last)
        result = build.emit("Gemm", operands, {**op.attrs, "alpha": self.alphas[op]})
        assert last.outputs[0] is not None and build.stage is not None
        self.graph.replace(last.outputs[0], result)
        name_results(self.graph, build.stage, build.key)
        return build.stage


def _is_factor(gemm: Operator, v: Variable) -> bool:
    """Return whether a value that a Gemm reads is not its bias."""
    return len(gemm.inputs) < 3 or gemm.inputs[2] is not v


def _present(op: Operator) -> list[Variable]:
    return [v for v in op.inputs if v is not None]
