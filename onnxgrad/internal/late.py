"""Functions that stand above those who call them: ``program.train()`` is a method of a class that knows no passes.

A module enters its function with ``@provides("Program.train")``; the method calls ``late("Program.train")``. What lies in a
package that is not loaded yet is entered by ``onnxgrad/__init__.py`` as a module to import at the first call.

Tests: tests/test_imports.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["late", "load_methods", "provides"]

F = TypeVar("F", bound=Callable[..., Any])

_FUNCTIONS: dict[str, Callable[..., Any]] = {}
_LOADERS: list[Callable[[], Any]] = []


def provides(name: str) -> Callable[[F], F]:
    """Enter a function as the body of a method."""

    def enter(function: F) -> F:
        _FUNCTIONS[name] = function
        return function

    return enter


def late(name: str) -> Callable[..., Any]:
    """The function that was entered under this name."""
    if name not in _FUNCTIONS:
        load_methods()
    return _FUNCTIONS[name]


def load_methods() -> bool:
    """Import the modules that give variables their further methods, and return whether this is the first time."""
    loaders, _LOADERS[:] = list(_LOADERS), []
    for load in loaders:
        load()
    return bool(loaders)


def add_loader(load: Callable[[], Any]) -> None:
    """Say how to import a module that provides functions."""
    _LOADERS.append(load)
