"""How many bytes tensors take, where some dimensions are known only by name or not at all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from onnxgrad.errors import ArgumentError
from onnxgrad.ir.infer import infer_leniently
from onnxgrad.ir.operator import Operator
from onnxgrad.ir.types import TensorType, is_nameless
from onnxgrad.ir.variable import Variable

__all__ = ["BATCH", "Sizes", "SizesGiven", "bytes_of", "with_sizes"]

SizesGiven: TypeAlias = "int | Mapping[str, int] | None"
"""A size for every unknown dimension of the inputs, or sizes by name; ``batch`` is also a first dimension without a name."""

BATCH = "batch"
_FIRST, _OTHER = 1, 64


class Sizes:
    """Sizes for the unknown dimensions of inputs. What is not given is 1 for a first dimension and 64 for others.

    Attributes:
        assumed: names of the dimensions that had to be guessed; ``?`` for one without a name that is not a first one.
    """

    def __init__(self, given: SizesGiven = None) -> None:
        self.given = given
        self.assumed: set[str] = set()
        self._chosen: dict[str, int] = {}

    def check(self, inputs: Iterable[Variable]) -> None:
        """Refuse names that are no dimension of an input, and sizes that are none.

        Raises:
            ArgumentError: naming it.
        """
        given = self.given if isinstance(self.given, Mapping) else {"sizes": self.given or 1}
        for name, size in given.items():
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise ArgumentError(f"sizes: {size!r} for {name!r} is not a positive int.")
        known = {str(dim) for v in inputs if isinstance(v.type, TensorType) for dim in v.type.dims or ()} | {BATCH}
        if isinstance(self.given, Mapping) and (wrong := sorted(set(self.given) - known)):
            raise ArgumentError(f"sizes names {wrong[0]!r}, which is no unknown dimension of an input.")

    def of(self, dims: Iterable[int | str | None]) -> tuple[int, ...]:
        """The shape of an input."""
        return tuple(dim if isinstance(dim, int) else self._size(dim, i) for i, dim in enumerate(dims))

    def _size(self, dim: str | None, axis: int) -> int:
        if isinstance(self.given, int):
            return self.given
        name = dim if dim is not None and not is_nameless(dim) else "?" if axis else BATCH
        if self.given is not None and name in self.given:
            return self.given[name]
        self.assumed.add(name)
        return self._chosen.setdefault(str(dim), _OTHER if axis else _FIRST)


def bytes_of(v: Variable) -> int:
    """Bytes of a tensor, an unknown dimension counting as 1; 0 for what is no tensor or has no known rank."""
    if not isinstance(v.type, TensorType) or v.type.dims is None:
        return 0
    size = math.prod(dim if isinstance(dim, int) else 1 for dim in v.type.dims)
    return size * int(v.dtype.numpy.itemsize)


class with_sizes:  # noqa: N801 - reads as a statement
    """While entered, the variables that operators make have the types that follow from these shapes of the inputs."""

    def __init__(self, operators: Iterable[Operator], shape_of: Callable[[Variable], tuple[int | str | None, ...]]) -> None:
        self.operators = list(operators)
        self.shape_of = shape_of
        self._before: list[tuple[Variable, object, object]] = []

    def __enter__(self) -> None:
        made = {id(v) for op in self.operators for v in op.outputs if v is not None}
        for op in self.operators:
            for v in op.operands():
                if v is not None and id(v) not in made and isinstance(v.type, TensorType) and v.type.dims is not None:
                    made.add(id(v))
                    if not all(isinstance(dim, int) for dim in v.type.dims):
                        self._before.append((v, v.type, v.entries))
                        v.type = TensorType(v.type.dtype, self.shape_of(v))
        if not self._before:
            return
        for op in self.operators:
            self._before += [(v, v.type, v.entries) for v in op.outputs if v is not None]
            infer_leniently(op)

    def __exit__(self, *_: object) -> None:
        for v, type, entries in reversed(self._before):
            v.type, v.entries = type, entries  # type: ignore[assignment]
