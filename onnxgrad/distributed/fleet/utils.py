"""Paddle's ``fleet.utils``: recomputed parts of eager models.

Tests: tests/paddle_suite/test_recorded_programs.py.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from onnxgrad.internal.refusals import absence_hooks

__all__ = ["recompute"]


def __dir__() -> list[str]:
    return __all__


P = ParamSpec("P")
Result = TypeVar("Result")


def recompute(function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
    """Call a function without keeping what it computes in between for the backward pass.

    That is how every eager operator is recorded here: the backward pass computes again what nobody holds. So this calls the
    function, and programs that recompute parts of their model run as they are.

    Args:
        function: a Layer or a function of tensors.
        args: what it takes.
        kwargs: what it takes by name; ``use_reentrant`` and ``preserve_rng_state`` of Paddle are accepted and change nothing.

    Returns:
        What the function returns.

    Example:
        >>> from onnxgrad.distributed.fleet.utils import recompute
        >>> x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
        >>> recompute(paddle.square, x).sum().backward()
        >>> x.grad.tolist()
        [2.0, 4.0]
    """
    for name in ("use_reentrant", "preserve_rng_state"):
        kwargs.pop(name, None)
    return function(*args, **kwargs)


globals().update(absence_hooks(__name__))
