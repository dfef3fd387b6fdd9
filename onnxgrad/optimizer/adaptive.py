"""Step lengths from past gradients: Adagrad, Adadelta, RMSProp."""

from __future__ import annotations

from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.optimizer.clip import GradientClip
from onnxgrad.optimizer.lr import LRScheduler
from onnxgrad.optimizer.optimizer import Optimizer, Parameters

__all__ = ["Adadelta", "Adagrad", "RMSProp"]


class Adagrad(Optimizer):
    """m += g^2;  p -= lr g / (sqrt(m) + eps). Duchi, Hazan and Singer 2011."""

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        epsilon: float = 1.0e-6,
        parameters: Parameters = None,
        weight_decay: Any = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
        initial_accumulator_value: float = 0.0,
    ) -> None:
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._epsilon, self._initial = float(epsilon), float(initial_accumulator_value)

    def _update(self, op: Builder, p: Variable, g: Variable, rate: Variable) -> Variable:
        m = self._filled(p, "moment", self._initial)
        new = op.Add(m, op.Mul(g, g))
        self._replace(m, new)
        step = op.Div(g, op.Add(op.Sqrt(new), self._epsilon))
        return op.Sub(self._present(p), op.Mul(step, rate))


class Adadelta(Optimizer):
    """a = rho a + (1 - rho) g^2;  u = sqrt((d + eps) / (a + eps)) g;  d = rho d + (1 - rho) u^2;  p -= lr u. Zeiler 2012."""

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        epsilon: float = 1.0e-6,
        rho: float = 0.95,
        parameters: Parameters = None,
        weight_decay: Any = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        if epsilon is None or rho is None:
            raise ArgumentError("Adadelta: epsilon and rho are numbers.")
        self._epsilon, self._rho = float(epsilon), float(rho)

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

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        rho: float = 0.95,
        epsilon: float = 1.0e-6,
        momentum: float = 0.0,
        centered: bool = False,
        parameters: Parameters = None,
        weight_decay: Any = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        for label, value in (("rho", rho), ("epsilon", epsilon), ("momentum", momentum)):
            if value is None:
                raise ArgumentError(f"RMSProp: {label} is missing. Give a number.")
            if not value >= 0.0:
                raise ArgumentError(f"RMSProp: {label} is at least 0, not {value}.")
        self._rho, self._epsilon, self._momentum, self._centered = float(rho), float(epsilon), float(momentum), centered

    def _update(self, op: Builder, p: Variable, g: Variable, rate: Variable) -> Variable:
        momentum, squares, average = (self._filled(p, kind) for kind in ("momentum", "mean_square", "mean_grad"))
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
