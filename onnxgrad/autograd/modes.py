"""Switching the recording of gradients on and off, as context managers and decorators."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast, overload

from onnxgrad.internal import state
from onnxgrad.internal.arguments import checked

__all__ = ["enable_grad", "is_grad_enabled", "no_grad", "set_grad_enabled"]

Function = TypeVar("Function", bound=Callable[..., Any])


class _Switch(ContextDecorator):
    """Sets whether gradients are recorded inside a ``with`` block, or during each call of a decorated function."""

    enabled = True

    def __enter__(self) -> None:
        state.enter_guard(gradients=self.enabled)

    def __exit__(self, *error: Any) -> None:
        state.leave_guard()

    def __call__(self, function: Function) -> Function:
        around: Any = self._around_generator(function) if inspect.isgeneratorfunction(function) else super().__call__(function)
        return cast("Function", around)

    def _around_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def switched(*args: Any, **kwargs: Any) -> Any:
            generator = function(*args, **kwargs)
            while True:
                try:
                    with self:
                        item = next(generator)
                except StopIteration as end:
                    return end.value
                yield item

        return switched


class _Decorator(_Switch):
    """A switch that decorates with and without parentheses."""

    if TYPE_CHECKING:

        @overload
        def __new__(cls, function: None = None) -> Self: ...
        @overload
        def __new__(cls, function: Function) -> Function: ...  # type: ignore[misc]

    def __new__(cls, function: Any = None) -> Any:
        mode = super().__new__(cls)
        return mode if function is None else mode(function)


class no_grad(_Decorator):  # noqa: N801
    """Record no gradients: results stop gradients, whatever they are computed from.

    Example:
        >>> x = paddle.to_tensor([1.0], stop_gradient=False)
        >>> with paddle.no_grad():
        ...     y = x * 2.0
        >>> y.stop_gradient
        True
    """

    enabled = False


class enable_grad(_Decorator):  # noqa: N801
    """Record gradients, also inside ``no_grad``."""


class set_grad_enabled(_Switch):  # noqa: N801
    """Record gradients or not, from the call on; as a context manager, until the end of the block.

    Args:
        mode: whether to record.
    """

    @checked
    def __init__(self, mode: bool) -> None:
        self.enabled = bool(mode)
        self._before = state.current.gradients
        state.set_here(gradients=self.enabled)

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        state.set_here(gradients=self._before)

    def __call__(self, function: Function) -> Function:
        state.set_here(gradients=self._before)
        return super().__call__(function)


def is_grad_enabled() -> bool:
    """Whether gradients are recorded at the moment."""
    return bool(state.current.gradients)
