"""Step lengths from past gradients: Adagrad, Adadelta, RMSProp.

Tests: tests/optimizer/test_more_optimizers.py.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.optimizer.optimizer import Optimizer

__all__ = ["Adadelta", "Adagrad", "RMSProp"]


class Adagrad(Optimizer):
    """m += g^2;  p -= lr g / (sqrt(m) + eps). Duchi, Hazan and Singer 2011."""

    takes = (
        "learning_rate, epsilon=1.0e-6, parameters=None, weight_decay=None, grad_clip=None, name=None, "
        "initial_accumulator_value=0.0"
    )

    def _update(self, op: Builder, p: Variable, g: Variable, rate: Variable) -> Variable:
        m = self._filled(p, "moment", self._initial_accumulator_value)
        new = op.Add(m, op.Mul(g, g))
        self._replace(m, new)
        step = op.Div(g, op.Add(op.Sqrt(new), self._epsilon))
        return op.Sub(self._present(p), op.Mul(step, rate))


class Adadelta(Optimizer):
    """a = rho a + (1 - rho) g^2;  u = sqrt((d + eps) / (a + eps)) g;  d = rho d + (1 - rho) u^2;  p -= lr u. Zeiler 2012."""

    takes = "learning_rate=0.001, epsilon=1.0e-6, rho=0.95, parameters=None, weight_decay=None, grad_clip=None, name=None"

    def _update(self, op: Builder, p: Variable, g: Variable, rate: Variable) -> Variable:
        squares, updates = self._filled(p, "_avg_squared_grad"), self._filled(p, "_avg_squared_update")
        rho = self._rho
        new = op.Add(op.Mul(squares, rho), op.Mul(op.Mul(g, g), 1.0 - rho))
        step = op.Mul(op.Sqrt(op.Div(op.Add(updates, self._epsilon), op.Add(new, self._epsilon))), g)
        self._replace(squares, new)
        self._replace(updates, op.Add(op.Mul(updates, rho), op.Mul(op.Mul(step, step), 1.0 - rho)))
        return op.Sub(self._present(p), op.Mul(step, rate))


class RMSProp(Optimizer):
    """s = rho s + (1 - rho) g^2;  v = mu v + lr g / sqrt(s + eps);  p -= v. Hinton 2012.

    ``centered`` takes the square of the average gradient off s. Graves 2013.
    """

    takes = (
        "learning_rate, rho=0.95, epsilon=1.0e-6, momentum=0.0, centered=False, parameters=None, weight_decay=None, "
        "grad_clip=None, name=None"
    )

    def _begin(self, options: Any) -> None:
        super()._begin(options)
        for label, value in (("rho", self._rho), ("epsilon", self._epsilon), ("momentum", self._momentum)):
            if not value >= 0.0:
                raise ArgumentError(f"RMSProp: {label} is at least 0, not {value}.")

    def _update(self, op: Builder, p: Variable, g: Variable, rate: Variable) -> Variable:
        momentum, squares, average = (self._filled(p, role) for role in ("momentum", "mean_square", "mean_grad"))
        rho = self._rho
        new = op.Add(op.Mul(squares, rho), op.Mul(op.Mul(g, g), 1.0 - rho))
        self._replace(squares, new)
        spread = new
        if self._centered:
            mean = op.Add(op.Mul(average, rho), op.Mul(g, 1.0 - rho))
            self._replace(average, mean)
            spread = op.Sub(new, op.Mul(mean, mean))
        step = op.Div(op.Mul(g, rate), op.Sqrt(op.Add(spread, self._epsilon)))
        moved = op.Add(op.Mul(momentum, self._momentum), step)
        self._replace(momentum, moved)
        return op.Sub(self._present(p), moved)
