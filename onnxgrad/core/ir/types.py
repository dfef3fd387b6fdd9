"""Describe a value before it is computed: element type, dimensions, sequence or optional.

Tests: tests/core/ir/test_infer.py.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple, TypeAlias

from onnxgrad.dtypes import DType, dtype_of

__all__ = [
    "BOOL_SCALAR",
    "INDEX",
    "Dim",
    "Dims",
    "Entries",
    "OptionalType",
    "SequenceType",
    "TensorType",
    "Type",
    "fresh_dim",
    "is_nameless",
    "join_types",
    "merge_types",
    "same_dim",
    "shown_type",
]

Dim: TypeAlias = "int | str | None"
"""A dimension: a number, the name of a symbol, or unknown."""
Dims: TypeAlias = "tuple[Dim, ...]"
Entries: TypeAlias = "tuple[Dim, ...]"
"""What is known of the elements of a small integer tensor (rank 0 or 1)."""


class TensorType(NamedTuple):
    """A tensor; ``dims`` is None when even the rank is unknown."""

    dtype: DType
    dims: Dims | None


class SequenceType(NamedTuple):
    """A list of values of one type."""

    element: Type | None


class OptionalType(NamedTuple):
    """A value that may be absent."""

    element: Type | None


Type: TypeAlias = "TensorType | SequenceType | OptionalType"


INDEX = TensorType(dtype_of("int64"), ())
"""A counter, such as the iteration number of a Loop."""
BOOL_SCALAR = TensorType(dtype_of("bool"), ())
"""A condition."""


def same_dim(a: Dim, b: Dim) -> bool:
    """Whether two dimensions are certainly equal at run time."""
    return a is not None and a == b


def same_dims(a: Dims | None, b: Dims | None) -> bool:
    """Whether two shapes are certainly equal at run time."""
    return a is not None and b is not None and len(a) == len(b) and all(map(same_dim, a, b))


_NAMELESS = "?#"
_numbers = itertools.count()


def fresh_dim() -> str:
    """A symbol for a dimension of which nothing is known but that it is the same wherever this symbol stands."""
    return f"{_NAMELESS}{next(_numbers)}"


def is_nameless(dim: str) -> bool:
    """Whether a symbol of a dimension is one of ours."""
    return dim.startswith(_NAMELESS)


def shown_type(type: Type | None) -> Type | None:
    """The type as files and people see it: dimensions that have a symbol of ours are unknown."""
    if isinstance(type, (SequenceType, OptionalType)):
        return type._replace(element=shown_type(type.element))
    if type is None or type.dims is None:
        return type
    dims = tuple(None if isinstance(dim, str) and is_nameless(dim) else dim for dim in type.dims)
    return TensorType(type.dtype, dims)


def join_types(a: Type | None, b: Type | None) -> Type | None:
    """Join two types into one that holds for both values, such as the results of the branches of an If."""
    if isinstance(a, SequenceType) and isinstance(b, SequenceType):
        return SequenceType(join_types(a.element, b.element))
    if isinstance(a, OptionalType) and isinstance(b, OptionalType):
        return OptionalType(join_types(a.element, b.element))
    if not isinstance(a, TensorType) or not isinstance(b, TensorType) or a.dtype != b.dtype:
        return a if a == b else None
    if a.dims is None or b.dims is None or len(a.dims) != len(b.dims):
        return TensorType(a.dtype, None)
    return TensorType(a.dtype, tuple(x if x == y else None for x, y in zip(a.dims, b.dims, strict=True)))


def merge_types(first: Type | None, second: Type | None) -> Type | None:
    """All that two descriptions of one value know together; ``first`` wins where both know something."""
    if first is None or second is None:
        return first or second
    if not isinstance(first, TensorType) or not isinstance(second, TensorType):
        return first
    if first.dims is None or second.dims is None:
        return TensorType(first.dtype, second.dims if first.dims is None else first.dims)
    if len(first.dims) != len(second.dims):
        return first
    dims = tuple(_known(a, b) for a, b in zip(first.dims, second.dims, strict=True))
    return TensorType(first.dtype, dims)


def _known(a: Dim, b: Dim) -> Dim:
    return b if a is None or (isinstance(a, str) and isinstance(b, int)) else a
