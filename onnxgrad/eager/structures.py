"""Things that are built for a recorded structure, and from its second sizes on once for all sizes.

A structure is recorded with all sizes and constants. The first time it is built for these. When it comes with others, it is
built once more: sizes that differed are symbols there, equal ones where they were equal in all that was seen, and constants that
differed are inputs. What is built is used again for all further sizes in which as much is equal.

Tests: tests/eager/test_structures.py.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from onnxgrad.core.ir.types import Dim, TensorType
from onnxgrad.eager.node import Kind, kind_of
from onnxgrad.errors import OnnxGradError

__all__ = ["Form", "NeedsSizes", "Structures"]

Built = TypeVar("Built")
Kinds = Sequence["Kind | None"]


class Form(NamedTuple):
    """A structure in two parts: what is left without sizes and constants, hashable; and the kinds of all its values in order."""

    key: tuple[Any, ...]
    kinds: list[Kind | None]


class NeedsSizes(OnnxGradError):
    """A structure is built for known sizes alone."""


class _Entry(Generic[Built]):
    """What was built, the keys that it is found by, and how many bytes it counts."""

    __slots__ = ("built", "bytes", "is_kept", "keys")

    def __init__(self, built: Built, bytes: int) -> None:
        self.built = built
        self.bytes = bytes
        self.keys: list[Any] = []
        self.is_kept = True


class _Family(Generic[Built]):
    """The structures that differ in sizes and constants alone.

    Attributes:
        kinds: of all values, with a symbol for each size that has differed; None where these structures cannot be built for all.
        entry: what is built for these kinds; None until sizes have differed.
    """

    __slots__ = ("entry", "kinds")

    def __init__(self, kinds: list[Kind | None]) -> None:
        self.kinds: list[Kind | None] | None = kinds
        self.entry: _Entry[Built] | None = None


class Structures(Generic[Built]):
    """Things built for structures, the least recently used dropped first.

    Args:
        limit: bytes that are kept in all.
        bytes_of: how many something that was built counts.
    """

    def __init__(self, limit: int, bytes_of: Callable[[Built], int]) -> None:
        self._limit = limit
        self._bytes_of = bytes_of
        self._bytes = 0
        self._entries: dict[Any, _Entry[Built]] = {}
        self._order: OrderedDict[_Entry[Built], None] = OrderedDict()
        self._families: OrderedDict[tuple[Any, ...], _Family[Built]] = OrderedDict()

    def get(self, key: tuple[Any, ...], form: Callable[[], Form], build: Callable[[Kinds | None], Built]) -> Built:
        """Look up what is built for a structure, or build it.

        Args:
            key: of the structure with all sizes and constants.
            form: gives the same in two parts.
            build: is given the kinds of all values in the order of the form, or None for those that were recorded.
        """
        entry = self._entries.get(key)
        if entry is None:
            entry = self._found(form(), build)
            self._entries[key] = entry
            entry.keys.append(key)
        self._order.move_to_end(entry)
        return entry.built

    def _found(self, form: Form, build: Callable[[Kinds | None], Built]) -> _Entry[Built]:
        family = self._families.get(form.key)
        if family is None:
            entry = self._kept(build(None))
            self._families[form.key] = _Family(form.kinds)
            if len(self._families) > _MOST_FAMILIES:
                self._families.popitem(last=False)
            return entry
        self._families.move_to_end(form.key)
        if family.kinds is None:
            return self._kept(build(None))
        merged = _merged(family.kinds, form.kinds)
        if family.entry is not None and family.entry.is_kept and merged == family.kinds:
            return family.entry
        try:
            family.entry = self._kept(build(merged))
        except OnnxGradError:
            # A rule wants to know a size, or a constant.
            family.kinds = family.entry = None
            return self._kept(build(None))
        family.kinds = merged
        return family.entry

    def _kept(self, built: Built) -> _Entry[Built]:
        entry = _Entry(built, self._bytes_of(built))
        self._order[entry] = None
        self._bytes += entry.bytes
        while self._bytes > self._limit and len(self._order) > 1:
            oldest, _ = self._order.popitem(last=False)
            self._drop(oldest)
        return entry

    def _drop(self, entry: _Entry[Built]) -> None:
        self._bytes -= entry.bytes
        entry.is_kept = False
        for key in entry.keys:
            del self._entries[key]

    def clear(self) -> None:
        self._entries.clear()
        self._order.clear()
        self._families.clear()
        self._bytes = 0


_MOST_FAMILIES = 4096


def _merged(kinds: Kinds, others: Kinds) -> list[Kind | None]:
    """The kinds that say what is equal in both: sizes that differ are symbols, the same one for the same pair."""
    symbols: dict[tuple[Dim, Dim], str] = {}
    # A symbol of before stays one where all that had it are still equal.
    values: dict[Dim, set[Dim]] = {}
    for kind, other in zip(kinds, others, strict=True):
        if kind is not None and other is not None and kind is not other:
            for dim, size in zip(_dims(kind), _dims(other), strict=True):
                values.setdefault(dim, set()).add(size)

    def merged_dim(dim: Dim, size: Dim) -> Dim:
        if dim == size or (isinstance(dim, str) and len(values[dim]) == 1):
            return dim
        return symbols.setdefault((dim, size), f"{dim if isinstance(dim, str) else f'size_{dim}'}_{size}")

    return [_merged_kind(kind, other, merged_dim) for kind, other in zip(kinds, others, strict=True)]


def _dims(kind: Kind) -> tuple[Dim, ...]:
    return (kind.type.dims or ()) if isinstance(kind.type, TensorType) else ()


def _merged_kind(kind: Kind | None, other: Kind | None, merged_dim: Callable[[Dim, Dim], Dim]) -> Kind | None:
    if kind is None or other is None or kind is other:
        return kind
    if kind.array is not None and other.array is not None and _same_bits(kind.array, other.array):
        return kind
    if not isinstance(kind.type, TensorType) or kind.type.dims is None:
        return kind
    dims = tuple([merged_dim(*pair) for pair in zip(_dims(kind), _dims(other), strict=True)])
    return kind_of(
        TensorType(kind.type.dtype, dims), kind.entries if kind.entries == other.entries and kind.array is None else None
    )


def _same_bits(array: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    return array.dtype == other.dtype and array.shape == other.shape and array.tobytes() == other.tobytes()
