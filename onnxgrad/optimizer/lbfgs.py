"""L-BFGS on eager tensors: a direction from the last changes of the gradient, and a line search along it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from onnxgrad.eager.parameter import EagerParameter
from onnxgrad.eager.tensor import Tensor
from onnxgrad.errors import ArgumentError
from onnxgrad.internal import state
from onnxgrad.internal.arguments import as_kind
from onnxgrad.optimizer.groups import Parameters
from onnxgrad.optimizer.lr import LRScheduler
from onnxgrad.optimizer.optimizer import Optimizer, int_option, number_option

__all__ = ["LBFGS"]

Vector = np.ndarray[Any, Any]
Point = tuple[float, float, Vector, float]
"""On a line: the length of the step, the loss, the gradient, and the slope along the line."""


class LBFGS(Optimizer):
    """Limited-memory BFGS. Nocedal and Wright 2006, algorithms 7.4 and 7.5. For eager tensors; it computes in float64 between them.

    Args:
        learning_rate: the length of a step, or the first that the line search tries.
        max_iter: how many directions one ``step`` takes at most.
        max_eval: how often it evaluates the closure at most; 1.25 ``max_iter`` unless given.
        tolerance_grad: it ends where no entry of the gradient is larger.
        tolerance_change: it ends where the loss, or every parameter, changes by less.
        history_size: how many changes of the gradient are kept.
        line_search_fn: None, or 'strong_wolfe' for a step that fulfils the strong Wolfe conditions (0.0001 and 0.9).
        parameters: the eager tensors to train.
        weight_decay, grad_clip: not offered.
        name: kept as an attribute.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if ``line_search_fn`` is another word, or decay or clipping is asked for, which the loss would not know of.

    Example:
        >>> w = paddle.to_tensor([-1.2, 1.0], stop_gradient=False)
        >>> lbfgs = paddle.optimizer.LBFGS(max_iter=50, line_search_fn="strong_wolfe", parameters=[w])
        >>> def closure():
        ...     lbfgs.clear_grad()
        ...     loss = 100 * (w[1] - w[0] ** 2) ** 2 + (1 - w[0]) ** 2
        ...     loss.backward()
        ...     return loss
        >>> _ = lbfgs.step(closure)
        >>> w.numpy().round(3)
        array([1., 1.], dtype=float32)
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-07,
        tolerance_change: float = 1e-09,
        history_size: int = 100,
        line_search_fn: Literal["strong_wolfe"] | None = None,
        parameters: Parameters = None,
        weight_decay: None = None,
        grad_clip: None = None,
        name: str | None = None,
    ) -> None:
        if weight_decay is not None or grad_clip is not None:
            raise ArgumentError("LBFGS takes no weight_decay or grad_clip. Write them into the closure's loss.")
        self._max_iter = int_option(self, "max_iter", max_iter)
        self._max_eval = self._max_iter * 5 // 4 if max_eval is None else int_option(self, "max_eval", max_eval)
        self._tolerance_grad = number_option(self, "tolerance_grad", tolerance_grad)
        self._tolerance_change = number_option(self, "tolerance_change", tolerance_change)
        self._history_size = int_option(self, "history_size", history_size)
        self._line_search_fn = as_kind(self, "line_search_fn", line_search_fn, Literal["strong_wolfe"] | None)
        super().__init__(learning_rate, parameters, None, None, name)
        self._changes: deque[tuple[Vector, Vector]] = deque(maxlen=self._history_size)
        self._before: tuple[Vector, Vector] | None = None
        self._evaluations = 0

    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor:  # type: ignore[override]
        """Minimise for up to ``max_iter`` directions.

        Args:
            closure: clears the gradients, computes the loss, calls its ``backward`` and returns it.

        Returns:
            The loss before the step.

        Raises:
            ArgumentError: if there is no closure.
        """
        if closure is None:
            raise ArgumentError("LBFGS.step(closure) evaluates the loss several times. Pass a function that computes it.")
        tolerance_grad, tolerance_change = self._tolerance_grad, self._tolerance_change
        limit = self._evaluations + self._max_eval
        x = self._position()
        first, loss, g = self._evaluate(closure, x)
        for _ in range(self._max_iter):
            if np.abs(g).max(initial=0.0) <= tolerance_grad or self._evaluations >= limit:
                break
            d = self._direction(x, g)
            slope = float(g @ d)
            if slope > -tolerance_change:
                break
            rate = self.get_lr() * (1.0 if self._changes else min(1.0, 1.0 / float(np.abs(g).sum())))
            self._before, old = (x, g), loss

            def along(length: float, x: Vector = x, d: Vector = d) -> Point:
                _, loss, g = self._evaluate(closure, x + length * d)
                return length, loss, g, float(g @ d)

            start = (0.0, loss, g, slope)
            rate, loss, g, _ = _strong_wolfe(along, start, rate) if self._line_search_fn else along(rate)
            x = x + rate * d
            if np.abs(rate * d).max() <= tolerance_change or abs(loss - old) < tolerance_change:
                break
        self._write(x)
        for p in self._eager_parameters():
            if isinstance(p, EagerParameter):
                p.updates += 1
        return first

    def _direction(self, x: Vector, g: Vector) -> Vector:
        """Minus the gradient times the estimate of the inverse Hessian."""
        if self._before is not None:
            s, y = x - self._before[0], g - self._before[1]
            if float(s @ y) > 1e-10:
                self._changes.append((s, y))
        d, weights = -g, []
        for s, y in reversed(self._changes):
            weights.append(float(s @ d) / float(s @ y))
            d = d - weights[-1] * y
        if self._changes:
            s, y = self._changes[-1]
            d = d * (float(s @ y) / float(y @ y))
        for s, y in self._changes:
            d = d + (weights.pop() - float(y @ d) / float(s @ y)) * s
        return d

    def _position(self) -> Vector:
        return np.concatenate([np.asarray(p.numpy(), np.float64).reshape(-1) for p in self._eager_parameters()])

    def _write(self, x: Vector) -> None:
        at = 0
        for p in self._eager_parameters():
            part = x[at : at + int(np.prod(p.shape))]
            p.set_value(part.reshape(p.shape).astype(p.dtype.numpy))
            at += part.size

    def _evaluate(self, closure: Callable[[], Tensor], x: Vector) -> tuple[Tensor, float, Vector]:
        """The closure's loss at a position, as it is and as a number, and its gradient."""
        self._evaluations += 1
        self._write(x)
        with state.guard(gradients=True):
            loss = closure()
        gradients = [np.zeros(p.shape) if p.grad is None else p.grad.numpy() for p in self._eager_parameters()]
        return loss, float(loss), np.concatenate([np.asarray(g, np.float64).reshape(-1) for g in gradients])

    def state_dict(self) -> dict[str, Any]:
        """Under ``state``: ``func_evals``, and of the history ``old_stps`` (steps) and ``old_yk`` (changes of the gradient)."""
        steps, changes = [s for s, _ in self._changes], [y for _, y in self._changes]
        return {"state": {"func_evals": self._evaluations, "old_stps": steps, "old_yk": changes, "before": self._before}}

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a result of ``state_dict``.

        Args:
            state_dict: what ``state_dict`` gave.

        Raises:
            ArgumentError: if an entry is missing; then nothing is set.
        """
        kept = state_dict.get("state", {})
        for name in ("func_evals", "old_stps", "old_yk", "before"):
            if name not in kept:
                raise ArgumentError(f"the state of LBFGS lacks {name!r}. Give the result of its state_dict.")
        changes = deque(zip(kept["old_stps"], kept["old_yk"], strict=True), self._changes.maxlen)
        vars(self).update(_evaluations=kept["func_evals"], _before=kept["before"], _changes=changes)


def _strong_wolfe(along: Callable[[float], Point], start: Point, rate: float, tries: int = 25) -> Point:
    """A point with f <= f0 + 0.0001 a f0' and abs(f') <= 0.9 abs(f0'). Nocedal and Wright 2006, algorithms 3.5 and 3.6."""
    _, loss, _, slope = start
    before, length = start, rate
    for count in range(tries):
        point = along(length)
        if not point[1] <= loss + 1e-4 * length * slope or (count and point[1] >= before[1]):
            return _zoomed(along, start, before, point, tries - count)
        if abs(point[3]) <= -0.9 * slope:
            return point
        if point[3] >= 0.0:
            return _zoomed(along, start, point, before, tries - count)
        longest = 10.0 * length
        following = _cubic_minimum(before, point, length + 0.01 * (length - before[0]), longest)
        before, length = point, following
    return before


def _zoomed(along: Callable[[float], Point], start: Point, low: Point, high: Point, tries: int) -> Point:
    """Such a point between ``low``, which has the smaller loss, and ``high``."""
    _, loss, _, slope = start
    for _ in range(tries):
        left, right = sorted((low[0], high[0]))
        if right - left < 1e-12 * max(right, 1.0):
            break
        margin = 0.1 * (right - left)
        point = along(_cubic_minimum(low, high, left + margin, right - margin))
        if not point[1] <= loss + 1e-4 * point[0] * slope or point[1] >= low[1]:
            high = point
            continue
        if abs(point[3]) <= -0.9 * slope:
            return point
        if point[3] * (high[0] - low[0]) >= 0.0:
            high = low
        low = point
    return low


def _cubic_minimum(a: Point, b: Point, least: float, most: float) -> float:
    """Find the minimum of the cubic through the losses and slopes of two points, between two limits; else halfway between these."""
    if a[0] > b[0]:
        a, b = b, a
    width = b[0] - a[0]
    d1 = a[3] + b[3] - 3.0 * (a[1] - b[1]) / (a[0] - b[0])
    square = d1 * d1 - a[3] * b[3]
    if not np.isfinite(square) or square < 0.0:
        return 0.5 * (least + most)
    d2 = float(np.sqrt(square))
    minimum = b[0] - width * (b[3] + d2 - d1) / (b[3] - a[3] + 2.0 * d2) if b[3] - a[3] + 2.0 * d2 else 0.5 * (least + most)
    return min(max(minimum, least), most)
