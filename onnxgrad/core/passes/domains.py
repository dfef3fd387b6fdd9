"""Which operator domains ``from_onnx(..., expand=...)`` can write out in standard operators, and how.

Tests: tests/core/rules/test_contrib.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnxgrad.core.ir.program import Program

__all__ = ["EXPANSIONS", "expands"]

EXPANSIONS: dict[str, Callable[[Program], None]] = {}
"""By domain: writes out the operators of a loaded program whose weights are known."""


def expands(domain: str) -> Callable[[Callable[[Program], None]], Callable[[Program], None]]:
    """Enter a function that writes out the operators of a domain."""

    def enter(function: Callable[[Program], None]) -> Callable[[Program], None]:
        EXPANSIONS[domain] = function
        return function

    return enter
