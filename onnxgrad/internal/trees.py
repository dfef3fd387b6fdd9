"""Visit what lies in nested lists, tuples and dicts.

Tests: tests/internal/test_trees.py, tests/static/test_control_flow.py, tests/paddle_suite/test_data_and_files.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["leaves", "mapped"]


def mapped(tree: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to what lies in lists, tuples and dicts, and keep these around the results.

    Args:
        tree: what is neither of these counts as one leaf. Entries of dicts are visited in the order of their keys.
        function: of a leaf.
    """
    if isinstance(tree, Mapping):
        results = {key: mapped(tree[key], function) for key in sorted(tree, key=str)}
        return {key: results[key] for key in tree}
    if isinstance(tree, (list, tuple)):
        make = getattr(tree, "_make", type(tree))  # of a named tuple
        return make(mapped(item, function) for item in tree)
    return function(tree)


def leaves(tree: Any) -> list[Any]:
    """List what ``mapped`` visits, in its order.

    Args:
        tree: the lists, tuples and dicts.
    """
    visited: list[Any] = []
    mapped(tree, visited.append)
    return visited
