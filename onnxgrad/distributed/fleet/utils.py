"""paddle.distributed.fleet.utils: recomputation of layers, under the name that Paddle has for it.

Tests: tests/paddle_suite/test_surface.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxgrad.errors import WrongKind
from onnxgrad.internal.refusals import absence_hooks

__all__ = ["recompute"]


def recompute(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function whose results within are not kept for the backward pass.

    Eager operators keep nothing of themselves: a backward pass recomputes what it needs of a value that nobody holds, from random
    numbers that were sampled once. So this is a call; the Trainer's ``recompute=`` and ``checkpoints`` of ``append_backward``
    choose what a program recomputes.

    Args:
        function: a function or a layer.
        args: what it takes.
        kwargs: what it takes by name, and Paddle's ``preserve_rng_state`` and ``use_reentrant``, which change nothing here.

    Example:
        >>> x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
        >>> paddle.distributed.fleet.utils.recompute(lambda x: (x * x).sum(), x).backward()
        >>> x.grad.tolist()
        [2.0, 4.0]
    """
    for option in ("preserve_rng_state", "use_reentrant"):
        value = kwargs.pop(option, True)
        if not isinstance(value, bool):
            raise WrongKind(f"recompute: {option} is True or False, not {type(value).__name__} {value!r}.")
    return function(*args, **kwargs)


globals().update(absence_hooks(__name__))
