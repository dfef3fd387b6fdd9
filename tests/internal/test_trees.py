"""Nested lists, tuples and dicts."""

from typing import NamedTuple

from onnxgrad.internal.trees import leaves, mapped


class Pair(NamedTuple):
    first: object
    second: object


def test_what_lies_around_leaves_stays_and_dicts_are_visited_by_their_keys():
    tree = [1, (2, {"b": 4, "a": 3}), Pair(5, None)]
    assert leaves(tree) == [1, 2, 3, 4, 5, None]
    doubled = mapped(tree, lambda leaf: leaf and 2 * leaf)
    assert doubled == [2, (4, {"b": 8, "a": 6}), Pair(10, None)]
    assert list(doubled[1][1]) == ["b", "a"] and isinstance(doubled[2], Pair) and leaves(7) == [7]
