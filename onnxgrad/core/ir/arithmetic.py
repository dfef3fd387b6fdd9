"""Define Python's operators on variables: each appends one ONNX operator to the current block.

Tests: tests/core/ir/test_variables.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

import numpy as np

from onnxgrad.dtypes import DType, DTypeLike, dtype_of
from onnxgrad.errors import ArgumentTypeError, NotOffered
from onnxgrad.internal.late import late, load_methods

if TYPE_CHECKING:
    from types import EllipsisType

    from onnxgrad.core.ir.builder import Builder

__all__ = ["Arithmetic", "promote"]


def promote(x: DType, y: DType) -> DType:
    """Common element type of two tensors, as numpy promotes, but int with float keeps the float's width."""
    if x == y:
        return x
    if x.is_float != y.is_float:
        return x if x.is_float else y
    if {x.name, y.name} == {"float16", "bfloat16"}:
        return dtype_of("float32")
    return dtype_of(np.promote_types(x.numpy, y.numpy))


Part: TypeAlias = (
    "int | np.integer[Any] | slice[Any, Any, Any] | Arithmetic | np.ndarray[Any, Any] | Sequence[int] | EllipsisType | None"
)
Index: TypeAlias = "Part | tuple[Part, ...] | list[Part]"
"""What stands in brackets behind a tensor, as numpy has it: numbers, slices, masks, tensors of integers, ``...``, None."""


class Arithmetic:
    """Operators of a Variable. A Python number takes the tensor's dtype; integers become float32 for a float, Booleans int64."""

    __slots__ = ()
    __array_ufunc__ = None
    """numpy leaves ``array + variable`` to the variable."""

    def _binary(self, op_type: str, other: Any, swap: bool = False, force_float: bool = False) -> Self:
        x: Any = self
        program = x.block.program
        op: Builder = program.current_block().build
        x = x if x.is_eager else program.present(x)
        if isinstance(other, Arithmetic):
            y: Any = other
            y = y if y.is_eager else program.present(y)
            target = promote(x.dtype, y.dtype)
        elif isinstance(other, np.ndarray):
            y = op.constant(other)
            target = promote(x.dtype, y.dtype)
        elif isinstance(other, (bool, int, float, np.generic)):
            target = x.dtype
            if isinstance(other, (float, np.floating)) and not x.dtype.is_float:
                target = dtype_of("float32")
            elif x.dtype.name == "bool" and op_type in ("Add", "Mul", "Pow", "Sub"):
                target = dtype_of("int64")
            y = None
        else:
            raise ArgumentTypeError(f"{op_type} takes a Variable, an array or a number, not {type(other).__name__}.")
        if force_float and not target.is_float:
            target = dtype_of("float32")
        if x.dtype != target:
            x = x.astype(target) if x.is_eager else op.Cast(x, to=target.number)
        if y is None:
            y = op.constant(np.asarray(other, target.numpy))
        elif y.dtype != target:
            y = y.astype(target) if y.is_eager else op.Cast(y, to=target.number)
        return cast("Self", op.emit(op_type, (y, x) if swap else (x, y), {}, key="tmp"))

    def _unary(self, op_type: str, **attrs: Any) -> Self:
        variable: Any = self
        op: Builder = variable.block.program.current_block().build
        variable = variable if variable.is_eager else variable.block.program.present(variable)
        return cast("Self", op.emit(op_type, (variable,), attrs, key="tmp"))

    def _call(self, name: str, *operands: Any) -> Self:
        """Call a function of tensors, of which the engine knows the name alone"""
        return cast("Self", late(name)(*operands))

    def __add__(self, other: Any) -> Self:
        return self._binary("Add", other)

    def __radd__(self, other: Any) -> Self:
        return self._binary("Add", other, swap=True)

    def __sub__(self, other: Any) -> Self:
        return self._binary("Sub", other)

    def __rsub__(self, other: Any) -> Self:
        return self._binary("Sub", other, swap=True)

    def __mul__(self, other: Any) -> Self:
        return self._binary("Mul", other)

    def __rmul__(self, other: Any) -> Self:
        return self._binary("Mul", other, swap=True)

    def __truediv__(self, other: Any) -> Self:
        return self._binary("Div", other, force_float=True)

    def __rtruediv__(self, other: Any) -> Self:
        return self._binary("Div", other, swap=True, force_float=True)

    def __pow__(self, other: Any) -> Self:
        return self._binary("Pow", other)

    def __rpow__(self, other: Any) -> Self:
        return self._binary("Pow", other, swap=True)

    def __matmul__(self, other: Any) -> Self:
        return self._binary("MatMul", other)

    def __rmatmul__(self, other: Any) -> Self:
        return self._binary("MatMul", other, swap=True)

    def __floordiv__(self, other: Any) -> Self:
        return self._call("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Self:
        return self._call("floor_divide", other, self)

    def __mod__(self, other: Any) -> Self:
        return self._call("remainder", self, other)

    def __rmod__(self, other: Any) -> Self:
        return self._call("remainder", other, self)

    def __and__(self, other: Any) -> Self:
        return self._call("bitwise_and", self, other)

    def __or__(self, other: Any) -> Self:
        return self._call("bitwise_or", self, other)

    def __xor__(self, other: Any) -> Self:
        return self._call("bitwise_xor", self, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __lshift__(self, other: Any) -> Self:
        return self._call("bitwise_left_shift", self, other)

    def __rshift__(self, other: Any) -> Self:
        return self._call("bitwise_right_shift", self, other)

    def __invert__(self) -> Self:
        return self._call("bitwise_not", self)

    def __pos__(self) -> Self:
        return self._unary("Identity")

    def __neg__(self) -> Self:
        return self._unary("Neg")

    def __abs__(self) -> Self:
        return self._unary("Abs")

    def __eq__(self, other: object) -> Self:  # type: ignore[override]
        return self._binary("Equal", other)

    def __ne__(self, other: object) -> Self:  # type: ignore[override]
        return self._binary("Equal", other)._unary("Not")

    def __lt__(self, other: Any) -> Self:
        return self._binary("Less", other)

    def __le__(self, other: Any) -> Self:
        return self._binary("LessOrEqual", other)

    def __gt__(self, other: Any) -> Self:
        return self._binary("Greater", other)

    def __ge__(self, other: Any) -> Self:
        return self._binary("GreaterOrEqual", other)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Functions of tensors as methods, ``x.mean()``: they are attached when they are first asked for."""
            if name.startswith("__"):  # which numpy asks for several of each time that it is given a tensor
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            if load_methods():
                return getattr(self, name)
            because = late("Variable.why_absent")(name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}" + (f": {because}." if because else ""))

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        raise ArgumentTypeError("a Variable has no length before it runs. Use .shape[0] for its first dimension.")

    def __float__(self) -> float:
        raise ArgumentTypeError("a Variable has no value before it runs. Fetch it with Executor.run.")

    def __getitem__(self, item: Index) -> Self:
        """Ints, slices, ``...``, None, lists, arrays or variables of integers, and masks, as in numpy.

        Args:
            item: what stands in the brackets.
        """
        return self._call("getitem", self, item)

    def __setitem__(self, item: Any, value: Any) -> None:
        raise NotOffered("a program's variable cannot be overwritten. Use y = static.setitem(x, index, value).")

    def __iter__(self) -> Iterator[Self]:
        x: Any = self
        if not x.ndim or x.shape[0] < 0:
            raise ArgumentTypeError(f"{x!r} cannot be iterated over: its first dimension is not known.")
        return (self[i] for i in range(x.shape[0]))

    @property
    def T(self) -> Self:  # noqa: N802
        """All axes reversed."""
        return self._unary("Transpose")

    @property
    def mT(self) -> Self:  # noqa: N802
        """The last two axes exchanged."""
        return self._call("matrix_transpose", self)

    def astype(self, dtype: DTypeLike) -> Self:
        """The same numbers in another element type.

        Args:
            dtype: a name, a DType, or a dtype or type of numpy.
        """
        return self._unary("Cast", to=dtype_of(dtype).number)

    def clone(self) -> Self:
        return self._unary("Identity")

    def detach(self) -> Self:
        """The same value, through which no gradient flows."""
        copy: Any = self._unary("Identity")
        copy.stop_gradient = True
        return cast("Self", copy)
