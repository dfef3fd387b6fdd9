"""How many bytes tensors take, where some dimensions are known only by name or not at all.

Tests: tests/core/graph_passes/test_fold.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from onnxgrad.core.ir.infer import infer_leniently
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.types import TensorType, is_nameless
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError

__all__ = ["BATCH", "Sizes", "SizesGiven", "bytes_of", "know_sizes"]

SizesGiven: TypeAlias = "int | Mapping[str, int] | None"
"""A size for every unknown dimension of the inputs, or sizes by name; ``batch`` is also a first dimension without a name."""

BATCH = "batch"
_FIRST, _OTHER = 1, 64


class Sizes:
    """Sizes for the unknown dimensions of inputs. What is not given is 1 for a first dimension and 64 for others.

    Attributes:
        assumed: names of the dimensions that had to be guessed; ``?`` for one without a name that is not a first one.
    """

    def __init__(self, sizes: SizesGiven = None) -> None:
        self.sizes = sizes
        self.assumed: set[str] = set()
        self._chosen: dict[str, int] = {}

    def check(self, inputs: Iterable[Variable]) -> None:
        """Refuse names that are no dimension of an input, and sizes that are none.

        Raises:
            ArgumentError: naming it.
        """
        sizes = self.sizes if isinstance(self.sizes, Mapping) else {"sizes": self.sizes or 1}
        for name, size in sizes.items():
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise ArgumentError(f"sizes: {size!r} for {name!r} is not a positive int.")
        known = {str(dim) for v in inputs if isinstance(v.type, TensorType) for dim in v.type.dims or ()} | {BATCH}
        if isinstance(self.sizes, Mapping) and (wrong := sorted(set(self.sizes) - known)):
            raise ArgumentError(f"sizes names {wrong[0]!r}, which is not an unknown dimension of an input.")

    def of(self, dims: Iterable[int | str | None]) -> tuple[int, ...]:
        """The shape of an input."""
        return tuple(dim if isinstance(dim, int) else self._size(dim, i) for i, dim in enumerate(dims))

    def _size(self, dim: str | None, axis: int) -> int:
        if isinstance(self.sizes, int):
            return self.sizes
        name = dim if dim is not None and not is_nameless(dim) else "?" if axis else BATCH
        if self.sizes is not None and name in self.sizes:
            return self.sizes[name]
        self.assumed.add(name)
        return self._chosen.setdefault(str(dim), _OTHER if axis else _FIRST)


def bytes_of(v: Variable) -> int:
    """Bytes of a tensor, an unknown dimension counting as 1; 0 for what is no tensor or has no known rank."""
    if not isinstance(v.type, TensorType) or v.type.dims is None:
        return 0
    size = math.prod(dim if isinstance(dim, int) else 1 for dim in v.type.dims)
    return size * int(v.dtype.numpy.itemsize)


def know_sizes(operators: Iterable[Operator], shape_of: Callable[[Variable], tuple[int | str | None, ...]]) -> None:
    """Give the leaves that operators read these shapes, and what is computed from them the types that follow.

    It changes the variables: those of a copy, or of a program that is put back afterwards.
    """
    operators = list(operators)
    known = {v for op in operators for v in op.outputs if v is not None}
    changed = False
    for op in operators:
        for v in op.operands():
            if v is not None and v not in known and isinstance(v.type, TensorType) and v.type.dims is not None:
                known.add(v)
                if not all(isinstance(dim, int) for dim in v.type.dims):
                    v.type = TensorType(v.type.dtype, shape_of(v))
                    changed = True
    if changed:
        for op in operators:
            infer_leniently(op)
