"""The global scope and the guard that replaces it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from onnxgrad.core.state.scope import Scope
from onnxgrad.internal import state
from onnxgrad.internal.arguments import as_kind, checked

__all__ = ["global_scope", "scope_guard"]


def global_scope() -> Scope:
    """The scope that programs built in Python use."""
    scope: Scope = state.current.make_once("scope", Scope)
    return scope


@checked
@contextmanager
def scope_guard(scope: Scope) -> Iterator[None]:
    """Use another scope inside a ``with`` block.

    Args:
        scope: that is the global one within the block.

    Raises:
        ArgumentTypeError: if it is not a Scope.
    """
    with state.guard(scope=as_kind("scope_guard", "scope", scope, Scope)):
        yield
