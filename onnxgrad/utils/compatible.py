"""Small tools that Paddle keeps in paddle.utils.

Tests: tests/utils/test_compatible.py.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import ParamSpec, TypeVar

from onnxgrad.errors import ArgumentError, NotOffered
from onnxgrad.internal.arguments import checked

__all__ = ["deprecated", "require_version", "try_import"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


@checked
def deprecated(
    update_to: str = "", since: str = "", reason: str = "", level: int = 0
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """A decorator of functions that warn when they are called.

    Args:
        update_to: what to use instead.
        since: the version that deprecates it.
        reason: why.
        level: 0 and 1 warn, 2 raises.

    Raises:
        NotOffered: by a function of level 2, when it is called.

    Example:
        >>> @paddle.utils.deprecated(update_to="paddle.ones")
        ... def old():
        ...     return paddle.ones([1])
    """

    def decorator(function: Callable[_P, _R]) -> Callable[_P, _R]:
        when = f" since {since}" if since else ""
        text = f"{function.__module__}.{function.__name__} is deprecated{when}."
        text += (f" {reason}." if reason else "") + (f" Use {update_to}." if update_to else "")

        @functools.wraps(function)
        def form(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            if level == 2:
                raise NotOffered(text)
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return function(*args, **kwargs)

        return form

    return decorator


@checked
def require_version(min_version: str, max_version: str | None = None) -> None:
    """Nothing: the versions that programs ask for are Paddle's, whose programs of 2.x and 3.x run here.

    Args:
        min_version: of Paddle, such as '2.0'.
        max_version: of Paddle.

    Raises:
        ArgumentError: if one is no version.
    """
    for version in (min_version, max_version or min_version):
        if not all(part.isdigit() for part in version.split(".")):
            raise ArgumentError(f"require_version takes a version such as '2.0.1', not {version!r}.")


@checked
def try_import(module_name: str, err_msg: str | None = None) -> ModuleType:
    """Import a module.

    Args:
        module_name: its name.
        err_msg: the text of the error if it is not installed.

    Raises:
        ImportError: if it is not installed.

    Example:
        >>> paddle.utils.try_import("json").__name__
        'json'
    """
    try:
        return importlib.import_module(module_name)
    except ImportError as error:
        raise ImportError(err_msg or f"{module_name} is not installed. Install it.") from error
