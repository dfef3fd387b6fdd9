"""paddle.incubate.optimizer: optimizers that keep a second set of weights.

Tests: tests/test_incubate.py, tests/paddle_suite/test_surface.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from onnxgrad.eager.tensor import Tensor
from onnxgrad.errors import ArgumentError, Mismatch, NotOffered
from onnxgrad.internal.arguments import as_int, as_number, checked
from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.optimizer import LBFGS
from onnxgrad.optimizer.optimizer import Optimizer

__all__ = ["LBFGS", "LookAhead", "ModelAverage"]

Array = np.ndarray[Any, Any]
_PIECE = 16384
"""After how many sums Paddle begins a new one, so that small values are not lost beside a large sum."""


class LookAhead:
    """Move slow weights towards those of another optimizer after every k steps, from where it goes on. Zhang et al. 2019.

    Args:
        inner_optimizer: an optimizer of eager tensors, which moves the fast weights.
        alpha: how far the slow weights move, from 0 to 1.
        k: steps of the optimizer between two moves.
        name: accepted as in Paddle.

    Raises:
        Mismatch: (an AssertionError) if an argument has another kind or value.

    Example:
        >>> w = paddle.create_parameter([1], "float32", is_bias=True)
        >>> optimizer = paddle.incubate.optimizer.LookAhead(paddle.optimizer.SGD(0.5, parameters=[w]), alpha=0.5, k=2)
        >>> for _ in range(2):
        ...     (w * 2.0).backward()
        ...     optimizer.step()
        ...     optimizer.clear_grad()
        >>> w.tolist()
        [-1.5]
    """

    @checked
    def __init__(self, inner_optimizer: Optimizer, alpha: float = 0.5, k: int = 5, name: str | None = None) -> None:
        if not isinstance(inner_optimizer, Optimizer):
            raise Mismatch(f"LookAhead takes an optimizer, not {type(inner_optimizer).__name__}.")
        self.inner_optimizer = inner_optimizer
        self.alpha, self.k = as_number(self, "alpha", alpha, least=0, most=1), as_int(self, "k", k, least=1)
        self._steps = 0
        self._slow: dict[str, Array] = {}

    def step(self) -> None:
        """Update each parameter that has a gradient, and after k steps the slow weights."""
        self.inner_optimizer.step()
        self._steps += 1
        for p in self.inner_optimizer._eager_parameters():
            if p.stop_gradient:
                continue
            slow = self._slow.setdefault(p.name, p.numpy())  # those after the first step, as in Paddle
            if self._steps % self.k == 0:
                self._slow[p.name] = (self.alpha * p.numpy() + (1.0 - self.alpha) * slow).astype(slow.dtype)
                p.set_value(self._slow[p.name])

    def minimize(
        self, loss: Tensor, startup_program: None = None, parameters: None = None, no_grad_set: None = None
    ) -> tuple[list[Any], list[tuple[Tensor, Tensor]]]:
        """Update the parameters by the gradients that ``loss.backward()`` has left.

        Args:
            loss: the eager tensor that was differentiated.
            startup_program, parameters, no_grad_set: accepted as in Paddle.

        Returns:
            An empty list, and parameters with their gradients.

        Raises:
            NotOffered: for a variable of a program.
        """
        if not isinstance(loss, Tensor):
            raise NotOffered("LookAhead takes eager tensors. Use static.ExponentialMovingAverage in a program.")
        pairs = [(p, p.grad) for p in self.inner_optimizer._eager_parameters() if p.grad is not None]
        self.step()
        return [], pairs

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Forget the gradients of all parameters, as the optimizer within does.

        Args:
            set_to_zero: whether zeros remain, or None.
        """
        self.inner_optimizer.clear_grad(set_to_zero)

    def state_dict(self) -> dict[str, Any]:
        """Collect the state of the optimizer within, the slow weights and the number of steps."""
        slow = {f"{name}_slow_0": array for name, array in self._slow.items()}
        return {**self.inner_optimizer.state_dict(), **slow, "lookahead_step": self._steps}

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Set what ``state_dict`` gave.

        Args:
            state_dict: the state.
        """
        rest = dict(state_dict)
        self._steps = int(rest.pop("lookahead_step", 0))
        slow = [name for name in rest if name.endswith("_slow_0")]
        self._slow = {name.removesuffix("_slow_0"): np.array(rest.pop(name)) for name in slow}
        self.inner_optimizer.set_state_dict(rest)

    def get_lr(self) -> float:
        """The learning rate of the optimizer within."""
        return self.inner_optimizer.get_lr()


class _Sums:
    """What ``ModelAverage`` keeps of a parameter: sums of its values, and how many there are in them."""

    def __init__(self, like: Array) -> None:
        self.recent, self.piece, self.earlier = np.zeros_like(like), np.zeros_like(like), np.zeros_like(like)
        self.count = self.earlier_count = self.updates = 0

    def add(self, value: Array, rate: float, least: int, most: int) -> None:
        self.updates, self.count = self.updates + 1, self.count + 1
        self.recent = self.recent + value
        if self.updates % _PIECE == 0:
            self.piece, self.recent = self.piece + self.recent, np.zeros_like(value)
        if self.count >= least and self.count >= min(most, int(self.updates * rate)):
            self.earlier, self.earlier_count = self.recent + self.piece, self.count
            self.recent, self.piece, self.count = np.zeros_like(value), np.zeros_like(value), 0

    def mean(self, like: Array) -> Array:
        count = self.count + self.earlier_count
        return ((self.recent + self.piece + self.earlier) / count).astype(like.dtype) if count else like


class ModelAverage:
    """Average parameters over the last steps, whose number grows with all steps up to a bound.

    Args:
        average_window_rate: share of all steps that the average is over.
        parameters: eager tensors.
        min_average_window: the least number of steps.
        max_average_window: the largest.
        name: accepted as in Paddle.

    Raises:
        ArgumentError: without parameters.

    Example:
        >>> w = paddle.create_parameter([1], "float32", is_bias=True)
        >>> average = paddle.incubate.optimizer.ModelAverage(0.5, parameters=[w])
        >>> for value in (1.0, 3.0):
        ...     w.set_value([value])
        ...     average.step()
        >>> with average.apply():
        ...     w.tolist()
        [2.0]
        >>> w.tolist()
        [3.0]
    """

    @checked
    def __init__(
        self,
        average_window_rate: float,
        parameters: Sequence[Tensor] | None = None,
        min_average_window: int = 10000,
        max_average_window: int = 10000,
        name: str | None = None,
    ) -> None:
        self._parameters = [p for p in parameters or () if isinstance(p, Tensor) and not p.stop_gradient]
        if not self._parameters:
            raise ArgumentError("ModelAverage holds no eager tensors. Use static.ExponentialMovingAverage in a program.")
        self.average_window, self.min_average_window = average_window_rate, min_average_window
        self.max_average_window = max_average_window
        self._sums = [_Sums(p.numpy()) for p in self._parameters]
        self._kept: list[Array] = []

    def step(self) -> None:
        """Add the present values to the average."""
        for p, sums in zip(self._parameters, self._sums, strict=True):
            if getattr(p, "do_model_average", True) is not False:
                sums.add(p.numpy(), self.average_window, self.min_average_window, self.max_average_window)

    def minimize(self, loss: Tensor, startup_program: None = None, parameters: None = None, no_grad_set: None = None) -> None:
        """Add the present values to the average: ``step``.

        Args:
            loss, startup_program, parameters, no_grad_set: accepted as in Paddle.
        """
        self.step()

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Forget the gradients of all parameters.

        Args:
            set_to_zero: whether zeros remain, or None.
        """
        for p in self._parameters:
            p.clear_gradient(set_to_zero)

    @contextmanager
    def apply(self, executor: None = None, need_restore: bool = True) -> Iterator[None]:
        """Let parameters hold their averages inside a ``with`` block.

        Args:
            executor: accepted as in Paddle.
            need_restore: False to leave them behind it, for ``restore``.
        """
        self._kept = [p.numpy() for p in self._parameters]
        for p, sums in zip(self._parameters, self._sums, strict=True):
            p.set_value(sums.mean(p.numpy()))
        try:
            yield
        finally:
            if need_restore:
                self.restore()

    def restore(self, executor: None = None) -> None:
        """Give parameters back the values that they had before ``apply``.

        Args:
            executor: accepted as in Paddle.
        """
        for p, value in zip(self._parameters, self._kept, strict=False):
            p.set_value(value)
        self._kept = []


globals().update(absence_hooks(__name__))
