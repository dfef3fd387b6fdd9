"""Make functions of Paddle 1 out of today's: the old arguments, and which is which."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from onnxgrad.internal.signatures import bind_arguments, signature_of

__all__ = ["renamed"]


def renamed(signature: str, function: Callable[..., Any], about: str = "", /, **old_names: str) -> Callable[..., Any]:
    """A function with the name and the arguments that ``signature`` writes down, computed by ``function``.

    Args:
        signature: as in Paddle 1; defaults are literals.
        function: what computes it; old arguments that it does not have are accepted and left out.
        about: the docstring; by default that of ``function`` up to its first empty line.
        old_names: for arguments of ``function``, what they were called.

    Example:
        >>> power = renamed("power(base, factor=2, use_cudnn=True)", lambda x, y: x**y, x="base", y="factor")
        >>> power(3), power(base=3, factor=3)
        (9, 27)
    """
    name, arguments = signature_of(signature)
    new_names = {old: new for new, old in old_names.items()}
    taken = inspect.signature(function).parameters
    assert old_names.keys() <= taken.keys() and new_names.keys() <= arguments.parameters.keys(), signature

    def old(*args: Any, **kwargs: Any) -> Any:
        values = {new_names.get(key, key): value for key, value in bind_arguments(name, arguments, args, kwargs).items()}
        return function(**{key: value for key, value in values.items() if key in taken})

    old.__name__ = old.__qualname__ = name
    old.__doc__ = about or (inspect.getdoc(function) or "").partition("\n\n")[0]
    old.__signature__ = arguments  # type: ignore[attr-defined]
    return old
