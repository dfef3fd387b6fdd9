"""Numbers that multiply a matrix product, or what goes into one, as the product's own factor: one pass over memory less."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.interop.onnx_export import Graph
from onnxgrad.ir.builder import Builder
from onnxgrad.ir.operator import Operator
from onnxgrad.ir.variable import Variable
from onnxgrad.lowering.replace import add_constants, name_helpers

__all__ = ["fold_scales"]


def fold_scales(graph: Graph) -> None:
    """Leave out each Mul by a constant number whose operand is a Gemm that nobody else reads, or which only Gemms read."""
    _Fold(graph).run()


class _Fold:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.makers = {graph.name(v): op for op in graph.operators for v in op.outputs if v is not None}
        self.readers: dict[str, list[Operator]] = {}
        for op in graph.operators:
            for v in op.operands():
                if v is not None:
                    self.readers.setdefault(graph.name(v), []).append(op)
        self.outputs = {graph.name(v) for _, v in graph.outputs}
        self.after: dict[int, tuple[Operator, float]] = {}
        """By a Gemm: the Mul of its result."""
        self.before: dict[str, tuple[Variable, float]] = {}
        """By a product with a number that is not computed: what is multiplied."""

    def run(self) -> None:
        scales = [(op, found) for op in self.graph.operators if (found := self._scale(op)) is not None]
        gone = {id(op) for op, found in scales if self._leave_out(op, *found)}
        done: list[Operator] = []
        for op in self.graph.operators:
            if id(op) not in gone:
                done.extend(self._gemm(op) if op.type == "Gemm" and not op.domain else [op])
        self.graph.operators = done
        add_constants(self.graph, done)

    def _scale(self, op: Operator) -> tuple[Variable, float] | None:
        """The operand and the number, if this is a product with one."""
        if op.type != "Mul" or op.domain or op.outputs[0] is None or self.graph.name(op.outputs[0]) in self.outputs:
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
        maker = self.makers.get(self.graph.name(v))
        if maker is None or maker.type != "Mul" or maker.domain:
            return None
        factors = [self._number(w) for w in maker.inputs]
        return None if None in factors else float(np.prod([f for f in factors if f is not None]))

    def _leave_out(self, op: Operator, x: Variable, number: float) -> bool:
        name, maker = self.graph.name(op.outputs[0]), self.makers.get(self.graph.name(x))
        alone = self.graph.name(x) not in self.outputs and len(self.readers[self.graph.name(x)]) == 1
        plain = maker is not None and maker.type == "Gemm" and not maker.domain and len(_present(maker)) == 2
        if alone and maker is not None and plain and id(maker) not in self.after:
            self.after[id(maker)] = op, number
            return True
        readers = self.readers.get(name, [])
        if readers and all(r.type == "Gemm" and not r.domain and self._only_factor(r, name) for r in readers):
            self.before[name] = x, number
            return True
        return False

    def _only_factor(self, gemm: Operator, name: str) -> bool:
        """Whether a value is no bias of a Gemm."""
        return len(gemm.inputs) < 3 or gemm.inputs[2] is None or self.graph.name(gemm.inputs[2]) != name

    def _gemm(self, op: Operator) -> list[Operator]:
        """The Gemm with the factors of its operands and of its result."""
        last, alpha = self.after.get(id(op), (op, 1.0))
        operands: list[Any] = list(op.inputs)
        for i, v in enumerate(op.inputs[:2]):
            if v is not None and self.graph.name(v) in self.before:
                operands[i], factor = self.before[self.graph.name(v)]
                alpha *= factor
        if alpha == 1.0 and last is op:
            return [op]
        stage: list[Operator] = []
        build = Builder(op.block, stage, op.role, key=op.name or op.type)
        result = build.emit("Gemm", operands, {**op.attrs, "alpha": alpha * op.attr("alpha")})
        self.graph.rename(result, self.graph.name(last.outputs[0]))
        name_helpers(self.graph, last.name or self.graph.name(last.outputs[0]), stage)
        return stage


def _present(op: Operator) -> list[Variable]:
    return [v for v in op.inputs if v is not None]
