"""Step lengths from past gradients: Adagrad, Adadelta, RMSProp.

Tests: tests/optimizer/test_more_optimizers.py.
"""

from __future__ import annotations

from typing import ClassVar

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.internal.arguments import as_flag
from onnxgrad.optimizer.clip import GradientClip
from onnxgrad.optimizer.groups import Parameters
from onnxgrad.optimizer.lr import LRScheduler
from onnxgrad.optimizer.optimizer import Optimizer, number_option
from onnxgrad.optimizer.regularizer import WeightDecay

__all__ = ["Adadelta", "Adagrad", "RMSProp"]


class Adagrad(Optimizer):
    """m += g^2;  p -= lr g / (sqrt(m) + eps). Duchi, Hazan and Singer 2011.

    Args:
        learning_rate: a number, or a scheduler whose present value every run uses.
        epsilon: added to the root.
        parameters: those to train, or groups of them; None for all trainable ones. ``Optimizer`` tells more of these four.
        weight_decay: a number (L2), ``L1Decay`` or ``L2Decay``.
        grad_clip: ``ClipGradByValue``, ``ClipGradByNorm`` or ``ClipGradByGlobalNorm``.
        name: kept as an attribute.
        initial_accumulator_value: what m starts as.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.

    Example:
        >>> w = paddle.to_tensor([2.0], stop_gradient=False)
        >>> optimizer = paddle.optimizer.Adagrad(0.5, parameters=[w])
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.numpy().round(4)
        array([1.5], dtype=float32)
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        epsilon: float | Variable = 1e-06,
        parameters: Parameters = None,
        weight_decay: float | WeightDecay | None = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
        initial_accumulator_value: float = 0.0,
    ) -> None:
        self._epsilon = number_option(self, "epsilon", epsilon)
        self._initial_accumulator_value = number_option(self, "initial_accumulator_value", initial_accumulator_value)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)

    def _update(self, op: Builder, p: Variable, g: Variable, rate: Variable) -> Variable:
        m = self._filled(p, "moment", self._initial_accumulator_value)
        new = op.Add(m, op.Mul(g, g))
        self._replace(m, new)
        step = op.Div(g, op.Add(op.Sqrt(new), self._epsilon))
        return op.Sub(self._present(p), op.Mul(step, rate))


class Adadelta(Optimizer):
    """a = rho a + (1 - rho) g^2;  u = sqrt((d + eps) / (a + eps)) g;  d = rho d + (1 - rho) u^2;  p -= lr u. Zeiler 2012.

    Args:
        learning_rate: a number, or a scheduler whose present value every run uses.
        epsilon: added under both roots.
        rho: how much of the averages a step keeps.
        parameters: those to train, or groups of them; None for all trainable ones. ``Optimizer`` tells more of these four.
        weight_decay: a number (L2), ``L1Decay`` or ``L2Decay``.
        grad_clip: ``ClipGradByValue``, ``ClipGradByNorm`` or ``ClipGradByGlobalNorm``.
        name: kept as an attribute.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.

    Example:
        >>> w = paddle.to_tensor([2.0], stop_gradient=False)
        >>> optimizer = paddle.optimizer.Adadelta(1.0, epsilon=1.0, parameters=[w])
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.numpy().round(4)
        array([-0.9814], dtype=float32)
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        epsilon: float | Variable = 1e-06,
        rho: float | Variable = 0.95,
        parameters: Parameters = None,
        weight_decay: float | WeightDecay | None = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
    ) -> None:
        self._epsilon = number_option(self, "epsilon", epsilon)
        self._rho = number_option(self, "rho", rho)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)

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

    Args:
        learning_rate: a number, or a scheduler whose present value every run uses.
        rho: how much of the averages a step keeps.
        epsilon: added under the root.
        momentum: the factor mu on the velocity v.
        centered: take the square of the average gradient off s. Graves 2013.
        parameters: those to train, or groups of them; None for all trainable ones. ``Optimizer`` tells more of these four.
        weight_decay: a number (L2), ``L1Decay`` or ``L2Decay``.
        grad_clip: ``ClipGradByValue``, ``ClipGradByNorm`` or ``ClipGradByGlobalNorm``.
        name: kept as an attribute.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if ``rho``, ``epsilon`` or ``momentum`` is below 0.

    Example:
        >>> w = paddle.to_tensor([2.0], stop_gradient=False)
        >>> optimizer = paddle.optimizer.RMSProp(0.5, rho=0.75, epsilon=0.0, parameters=[w])
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.numpy().round(4)
        array([1.], dtype=float32)
    """

    _limits: ClassVar = {"rho": {"least": 0}, "epsilon": {"least": 0}, "momentum": {"least": 0}}

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        rho: float | Variable = 0.95,
        epsilon: float | Variable = 1e-06,
        momentum: float | Variable = 0.0,
        centered: bool = False,
        parameters: Parameters = None,
        weight_decay: float | WeightDecay | None = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
    ) -> None:
        self._rho = number_option(self, "rho", rho)
        self._epsilon = number_option(self, "epsilon", epsilon)
        self._momentum = number_option(self, "momentum", momentum)
        self._centered = as_flag(self, "centered", centered)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)

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
