"""Gradient descent: plain, with momentum, averaged, and by the sign of the gradient.

Tests: tests/optimizer/test_optimizers.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.optimizer.optimizer import Optimizer

__all__ = ["ASGD", "SGD", "Momentum", "Rprop"]


class SGD(Optimizer):
    """p -= lr * g.

    Example:
        >>> x = static.data("x", [4, 2])
        >>> loss = paddle.mean(static.nn.fc(x, size=1))
        >>> operators, pairs = paddle.optimizer.SGD(learning_rate=0.1).minimize(loss)
        >>> [p.name for p, g in pairs]
        ['fc_0.w_0', 'fc_0.b_0']
    """

    takes = "learning_rate=0.001, parameters=None, weight_decay=None, grad_clip=None, multi_precision=False, name=None"

    def _update(self, op: Builder, p: Variable, g: Variable, rate: Variable) -> Variable:
        return op.Sub(self._present(p), op.Mul(g, rate))


class Momentum(Optimizer):
    """v = mu * v + g;  p -= lr * v, or with Nesterov p -= lr * (g + mu * v). Sutskever et al. 2013.

    ``rescale_grad`` is accepted and has no effect, as Paddle's on the CPU.
    """

    takes = (
        "learning_rate=0.001, momentum=0.9, parameters=None, use_nesterov=False, weight_decay=None, grad_clip=None, "
        "multi_precision=False, rescale_grad=1.0, use_multi_tensor=False, name=None"
    )

    def _update(self, op: Builder, p: Variable, g: Variable, rate: Variable) -> Variable:
        velocity = self._filled(p, "velocity")
        new = op.Add(op.Mul(velocity, self._momentum), g)
        self._replace(velocity, new)
        step = op.Add(g, op.Mul(new, self._momentum)) if self._use_nesterov else new
        return op.Sub(self._present(p), op.Mul(step, rate))


class ASGD(Optimizer):
    """d += g - y_i;  y_i = g;  p -= lr / min(t, n) * d, for i = (t - 1) mod n and n = ``batch_num``. Schmidt et al. 2017."""

    takes = "learning_rate=0.001, batch_num=1, parameters=None, weight_decay=None, grad_clip=None, multi_precision=False, name=None"

    def _begin(self, options: Any) -> None:
        super()._begin(options)
        if self._batch_num <= 0:
            raise ArgumentError(f"ASGD: batch_num is positive, not {self._batch_num}.")

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
        learning_rate: the first step.
        learning_rate_range: limits of the steps.
        etas: factors for shrinking and growing.
    """

    takes = (
        "learning_rate=0.001, learning_rate_range=(1e-5, 50), parameters=None, grad_clip=None, etas=(0.5, 1.2), "
        "multi_precision=False, name=None"
    )

    def _begin(self, options: Any) -> None:
        super()._begin(options)
        (low, high), etas = self._learning_rate_range, self._etas
        if not 0.0 < low <= self.get_lr() <= high:
            raise ArgumentError(f"Rprop: the learning rate lies within learning_rate_range {self._learning_rate_range}.")
        if not 0.0 < etas[0] < 1.0 < etas[1]:
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
