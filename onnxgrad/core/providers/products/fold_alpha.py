"""Numbers that multiply a matrix product, or what goes into one, as the product's own factor: one pass over memory less."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.graph.contract import CPU_FORMS, Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.rewriting import Links, name_results, stage_builder
from onnxgrad.core.ir.operator import Operator, as_stored
from onnxgrad.core.ir.variable import Variable

__all__ = ["FOLD_ALPHA", "fold_alpha"]


def fold_alpha(graph: Graph, target: Target) -> int:
    """Leave out each Mul by a constant number whose operand is a Gemm that nobody else reads, or which only Gemms read."""
    before = graph.replacements
    _Fold(graph).run()
    return graph.replacements - before


FOLD_ALPHA = Pass("fold_alpha", fold_alpha, rounding="order", gain=CPU_FORMS)


class _Fold(Links):
    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.after: dict[Operator, tuple[Operator, float]] = {}
        """By a Gemm: the Mul of its result."""
        self.before: dict[Variable, tuple[Variable, float]] = {}
        """By a product with a number that is not computed: what is multiplied."""
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
        if x.dtype.name == "float64" and as_stored(number) != number:
            return False  # an attribute is a float32
        alone = x not in self.returned and len(self.readers[x]) == 1
        plain = maker is not None and maker.type == "Gemm" and not maker.domain and len(_present(maker)) == 2
        if alone and maker is not None and plain and maker not in self.after:
            self.after[maker] = op, number
            return True
        readers = self.readers.get(result, [])
        if readers and all(r.type == "Gemm" and not r.domain and _is_factor(r, result) for r in readers):
            self.before[result] = x, number
            return True
        return False

    def _gemm(self, op: Operator) -> list[Operator]:
        """The Gemm with the factors of its operands and of its result."""
        last, alpha = self.after.get(op, (op, 1.0))
        operands: list[Any] = list(op.inputs)
        for i, v in enumerate(op.inputs[:2]):
            if v in self.before:
                operands[i], factor = self.before[v]
                alpha *= factor
        if alpha == 1.0 and last is op:
            return [op]
        build = stage_builder(self.graph, last)
        result = build.emit("Gemm", operands, {**op.attrs, "alpha": alpha * op.attr("alpha")})
        assert last.outputs[0] is not None and build.stage is not None
        self.graph.replace(last.outputs[0], result)
        name_results(self.graph, build.stage, build.key)
        return build.stage


def _is_factor(gemm: Operator, v: Variable) -> bool:
    """Return whether a value that a Gemm reads is not its bias."""
    return len(gemm.inputs) < 3 or gemm.inputs[2] is not v


def _present(op: Operator) -> list[Variable]:
    return [v for v in op.inputs if v is not None]
