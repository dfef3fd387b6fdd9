"""Gradient descent, plain and with momentum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxgrad.ir.builder import Builder
from onnxgrad.ir.variable import Variable
from onnxgrad.nn.clip import GradientClip
from onnxgrad.optimizer.lr import LRScheduler
from onnxgrad.optimizer.optimizer import Optimizer

__all__ = ["SGD", "Momentum"]


class SGD(Optimizer):
    """p -= lr * g.

    Example:
        >>> x = static.data("x", [4, 2])
        >>> loss = paddle.mean(static.nn.fc(x, size=1))
        >>> operators, pairs = paddle.optimizer.SGD(learning_rate=0.1).minimize(loss)
        >>> [p.name for p, g in pairs]
        ['fc_0.w_0', 'fc_0.b_0']
    """

    def _update(self, op: Builder, p: Variable, g: Variable, rate: Variable) -> Variable:
        return op.Sub(p, op.Mul(g, rate))  # type: ignore[no-any-return]


class Momentum(Optimizer):
    """v = mu * v + g;  p -= lr * v, or with Nesterov p -= lr * (g + mu * v). Sutskever et al. 2013."""

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        momentum: float = 0.9,
        parameters: Sequence[Variable | str] | None = None,
        use_nesterov: bool = False,
        weight_decay: Any = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._momentum = float(momentum)
        self._nesterov = use_nesterov

    def _update(self, op: Builder, p: Variable, g: Variable, rate: Variable) -> Variable:
        velocity = self._zeros(p, "velocity")
        new = op.Add(op.Mul(velocity, self._momentum), g)
        self._replace(velocity, new)
        step = op.Add(g, op.Mul(new, self._momentum)) if self._nesterov else new
        return op.Sub(p, op.Mul(step, rate))  # type: ignore[no-any-return]
