"""The global scope and the guard that replaces it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from onnxgrad import state
from onnxgrad.errors import ArgumentTypeError
from onnxgrad.ir.scope import Scope

__all__ = ["global_scope", "scope_guard"]


def global_scope() -> Scope:
    """The scope that programs built in Python use."""
    if state.current.scope is None:
        state.current.scope = Scope()
    found: Scope = state.current.scope
    return found


@contextmanager
def scope_guard(scope: Scope) -> Iterator[None]:
    """Use another scope inside a ``with`` block.

    Raises:
        ArgumentTypeError: if it is not a Scope.
    """
    if not isinstance(scope, Scope):
        raise ArgumentTypeError(f"scope_guard takes a Scope, not {type(scope).__name__}.")
    outer, state.current.scope = state.current.scope, scope
    try:
        yield
    finally:
        state.current.scope = outer
