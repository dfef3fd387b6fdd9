"""Gradient descent: plain, with momentum, averaged, and by the sign of the gradient.

Tests: tests/optimizer/test_optimizers.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import as_flag, as_numbers
from onnxgrad.optimizer.clip import GradientClip
from onnxgrad.optimizer.groups import Parameters
from onnxgrad.optimizer.lr import LRScheduler
from onnxgrad.optimizer.optimizer import Optimizer, int_option, number_option
from onnxgrad.optimizer.regularizer import WeightDecay

__all__ = ["ASGD", "SGD", "Momentum", "Rprop"]


class SGD(Optimizer):
    """p -= lr * g.

    Args:
        learning_rate: a number, or a scheduler whose present value every run uses.
        parameters: those to train, or groups of them; None for all trainable ones. ``Optimizer`` tells more of these four.
        weight_decay: a number (L2), ``L1Decay`` or ``L2Decay``.
        grad_clip: ``ClipGradByValue``, ``ClipGradByNorm`` or ``ClipGradByGlobalNorm``.
        multi_precision: accepted for compatibility; 16-bit parameters always have float32 master weights.
        name: kept as an attribute.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.

    Example:
        >>> x = static.data("x", [4, 2])
        >>> loss = paddle.mean(static.nn.fc(x, size=1))
        >>> operators, pairs = paddle.optimizer.SGD(learning_rate=0.1).minimize(loss)
        >>> [p.name for p, g in pairs]
        ['fc_0.w_0', 'fc_0.b_0']
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        parameters: Parameters = None,
        weight_decay: float | WeightDecay | None = None,
        grad_clip: GradientClip | None = None,
        multi_precision: bool = False,
        name: str | None = None,
    ) -> None:
        self._multi_precision = as_flag(self, "multi_precision", multi_precision)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)

    def _update(self, op: Builder, p: Variable, g: Variable, rate: Variable) -> Variable:
        return op.Sub(self._present(p), op.Mul(g, rate))


class Momentum(Optimizer):
    """v = mu * v + g;  p -= lr * v, or with Nesterov p -= lr * (g + mu * v). Sutskever et al. 2013.

    Args:
        learning_rate: a number, or a scheduler whose present value every run uses.
        momentum: the factor mu on the velocity v.
        parameters: those to train, or groups of them; None for all trainable ones. ``Optimizer`` tells more of them.
        use_nesterov: look ahead by the velocity.
        weight_decay: a number (L2), ``L1Decay`` or ``L2Decay``.
        grad_clip: ``ClipGradByValue``, ``ClipGradByNorm`` or ``ClipGradByGlobalNorm``.
        multi_precision: accepted for compatibility; 16-bit parameters always have float32 master weights.
        rescale_grad: accepted, and without effect, as Paddle's is on the CPU.
        use_multi_tensor: accepted for compatibility.
        name: kept as an attribute.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.

    Example:
        >>> w = paddle.to_tensor([2.0], stop_gradient=False)
        >>> optimizer = paddle.optimizer.Momentum(0.25, momentum=0.5, parameters=[w])
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.numpy().round(4)
        array([1.], dtype=float32)
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        momentum: float | Variable = 0.9,
        parameters: Parameters = None,
        use_nesterov: bool = False,
        weight_decay: float | WeightDecay | None = None,
        grad_clip: GradientClip | None = None,
        multi_precision: bool = False,
        rescale_grad: float = 1.0,
        use_multi_tensor: bool = False,
        name: str | None = None,
    ) -> None:
        self._momentum = number_option(self, "momentum", momentum)
        self._use_nesterov = as_flag(self, "use_nesterov", use_nesterov)
        self._multi_precision = as_flag(self, "multi_precision", multi_precision)
        self._rescale_grad = number_option(self, "rescale_grad", rescale_grad)
        self._use_multi_tensor = as_flag(self, "use_multi_tensor", use_multi_tensor)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)

    def _update(self, op: Builder, p: Variable, g: Variable, rate: Variable) -> Variable:
        velocity = self._filled(p, "velocity")
        new = op.Add(op.Mul(velocity, self._momentum), g)
        self._replace(velocity, new)
        step = op.Add(g, op.Mul(new, self._momentum)) if self._use_nesterov else new
        return op.Sub(self._present(p), op.Mul(step, rate))


class ASGD(Optimizer):
    """d += g - y_i;  y_i = g;  p -= lr / min(t, n) * d, for i = (t - 1) mod n and n = ``batch_num``. Schmidt et al. 2017.

    Args:
        learning_rate: a number, or a scheduler whose present value every run uses.
        batch_num: how many batches n there are in an epoch, above 0.
        parameters: those to train, or groups of them; None for all trainable ones. ``Optimizer`` tells more of these four.
        weight_decay: a number (L2), ``L1Decay`` or ``L2Decay``.
        grad_clip: ``ClipGradByValue``, ``ClipGradByNorm`` or ``ClipGradByGlobalNorm``.
        multi_precision: accepted for compatibility; 16-bit parameters always have float32 master weights.
        name: kept as an attribute.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if ``batch_num`` is not positive.

    Example:
        >>> w = paddle.to_tensor([2.0], stop_gradient=False)
        >>> optimizer = paddle.optimizer.ASGD(0.25, parameters=[w])
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.numpy().round(4)
        array([1.], dtype=float32)
    """

    _limits: ClassVar = {"batch_num": {"above": 0}}

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        batch_num: int = 1,
        parameters: Parameters = None,
        weight_decay: float | WeightDecay | None = None,
        grad_clip: GradientClip | None = None,
        multi_precision: bool = False,
        name: str | None = None,
    ) -> None:
        self._batch_num = int_option(self, "batch_num", batch_num)
        self._multi_precision = as_flag(self, "multi_precision", multi_precision)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)

    def _update(self, op: Builder, p: Variable, g: Variable, rate: Variable) -> Variable:
        shape = p.static_shape
        assert shape is not None
        d = self._filled(p, "d")
        count = self._accumulator(p, "m", np.array([0], np.int64))
        old = self._accumulator(p, "y", np.zeros((self._batch_num, *shape), p.dtype.numpy))
        numbers = np.arange(self._batch_num).reshape(-1, *[1] * len(shape))
        here = op.Equal(op.constant(numbers), op.Mod(count, np.array([self._batch_num])))
        replaced = op.Where(here, old, op.constant(0.0, p.dtype))
        new_d = op.Add(op.Sub(d, op.ReduceSum(replaced, [0], keepdims=0)), g)
        new_count = op.Add(count, np.array([1]))
        for state, new in ((d, new_d), (count, new_count), (old, op.Where(here, g, old))):
            self._replace(state, new)
        seen = op.Cast(op.Squeeze(op.Min(new_count, np.array([self._batch_num])), [0]), to=p.dtype.number)
        return op.Sub(self._present(p), op.Mul(new_d, op.Div(rate, seen)))


class Rprop(Optimizer):
    """p -= sign(g) * step, where a step grows while the sign of its gradient stays and shrinks when it changes, in which case
    the gradient counts as 0. Riedmiller and Braun 1993.

    Args:
        learning_rate: the first step of every element, within ``learning_rate_range``.
        learning_rate_range: the least and the greatest step.
        parameters: those to train, or groups of them; None for all trainable ones. ``Optimizer`` tells more of them.
        etas: factors for shrinking (between 0 and 1) and growing (above 1).
        grad_clip: ``ClipGradByValue``, ``ClipGradByNorm`` or ``ClipGradByGlobalNorm``.
        multi_precision: accepted for compatibility; 16-bit parameters always have float32 master weights.
        name: kept as an attribute.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if the learning rate or a factor lies elsewhere.

    Example:
        >>> w = paddle.to_tensor([2.0], stop_gradient=False)
        >>> optimizer = paddle.optimizer.Rprop(0.25, parameters=[w])
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.numpy().round(4)
        array([1.75], dtype=float32)
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        learning_rate_range: Sequence[float] = (1e-05, 50),
        parameters: Parameters = None,
        etas: Sequence[float] = (0.5, 1.2),
        grad_clip: GradientClip | None = None,
        multi_precision: bool = False,
        name: str | None = None,
    ) -> None:
        self._learning_rate_range = as_numbers(self, "learning_rate_range", learning_rate_range)
        self._etas = as_numbers(self, "etas", etas)
        self._multi_precision = as_flag(self, "multi_precision", multi_precision)
        super().__init__(learning_rate, parameters, None, grad_clip, name)
        if len(self._learning_rate_range) != 2 or len(self._etas) != 2:
            raise ArgumentError("Rprop: learning_rate_range and etas are two numbers each.")
        low, high = self._learning_rate_range
        if not 0.0 < low <= self.get_lr() <= high:
            raise ArgumentError(f"Rprop: the learning rate lies within learning_rate_range {learning_rate_range}.")
        if not 0.0 < self._etas[0] < 1.0 < self._etas[1]:
            raise ArgumentError(f"Rprop: etas are one number between 0 and 1 and one above 1, not {etas}.")

    def _update(self, op: Builder, p: Variable, g: Variable, rate: Variable) -> Variable:
        previous, steps = self._filled(p, "prevs"), self._filled(p, "learning_rates", self.get_lr())
        product = op.Mul(g, previous)
        zero = op.constant(0.0, p.dtype)
        flipped = op.Less(product, zero)
        factor = op.Where(flipped, self._etas[0], op.Where(op.Greater(product, zero), self._etas[1], op.constant(1.0, p.dtype)))
        new_steps = op.Clip(op.Mul(steps, factor), self._learning_rate_range[0], self._learning_rate_range[1])
        kept = op.Where(flipped, zero, g)
        self._replace(previous, kept)
        self._replace(steps, new_steps)
        return op.Sub(self._present(p), op.Mul(op.Sign(kept), new_steps))
