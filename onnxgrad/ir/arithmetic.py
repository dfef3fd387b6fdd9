"""What Python's operators mean on variables: each appends one ONNX operator to the current block."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxgrad.dtypes import DType, dtype_of
from onnxgrad.errors import ArgumentTypeError

if TYPE_CHECKING:
    from onnxgrad.ir.variable import Variable

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


class Arithmetic:
    """Operators of a Variable. A Python number takes the tensor's dtype; an int tensor with a float becomes float32."""

    __slots__ = ()

    def _binary(self, op_type: str, other: Any, swap: bool = False, force_float: bool = False) -> Any:
        x: Any = self
        op = x.block.program.current_block().build
        if isinstance(other, Arithmetic):
            y: Any = other
            target = promote(x.dtype, y.dtype)
        elif isinstance(other, (bool, int, float, np.generic)):
            target = x.dtype
            if isinstance(other, (float, np.floating)) and not x.dtype.is_float:
                target = dtype_of("float32")
            y = None
        else:
            raise ArgumentTypeError(f"{op_type} takes a Variable or a number, not {type(other).__name__}.")
        if force_float and not target.is_float:
            target = dtype_of("float32")
        if x.dtype != target:
            x = op.Cast(x, to=target.number)
        if y is None:
            y = op.constant(np.asarray(other, target.numpy))
        elif y.dtype != target:
            y = op.Cast(y, to=target.number)
        return op.emit(op_type, (y, x) if swap else (x, y), {}, key="tmp")

    def _unary(self, op_type: str, **attrs: Any) -> Any:
        variable: Any = self
        return variable.block.program.current_block().build.emit(op_type, (variable,), attrs, key="tmp")

    def __add__(self, other: Any) -> Variable:
        return self._binary("Add", other)  # type: ignore[no-any-return]

    def __radd__(self, other: Any) -> Variable:
        return self._binary("Add", other, swap=True)  # type: ignore[no-any-return]

    def __sub__(self, other: Any) -> Variable:
        return self._binary("Sub", other)  # type: ignore[no-any-return]

    def __rsub__(self, other: Any) -> Variable:
        return self._binary("Sub", other, swap=True)  # type: ignore[no-any-return]

    def __mul__(self, other: Any) -> Variable:
        return self._binary("Mul", other)  # type: ignore[no-any-return]

    def __rmul__(self, other: Any) -> Variable:
        return self._binary("Mul", other, swap=True)  # type: ignore[no-any-return]

    def __truediv__(self, other: Any) -> Variable:
        return self._binary("Div", other, force_float=True)  # type: ignore[no-any-return]

    def __rtruediv__(self, other: Any) -> Variable:
        return self._binary("Div", other, swap=True, force_float=True)  # type: ignore[no-any-return]

    def __pow__(self, other: Any) -> Variable:
        return self._binary("Pow", other)  # type: ignore[no-any-return]

    def __rpow__(self, other: Any) -> Variable:
        return self._binary("Pow", other, swap=True)  # type: ignore[no-any-return]

    def __matmul__(self, other: Any) -> Variable:
        return self._binary("MatMul", other)  # type: ignore[no-any-return]

    def __floordiv__(self, other: Any) -> Variable:
        quotient = self._binary("Div", other)
        return quotient._unary("Floor") if quotient.dtype.is_float else quotient  # type: ignore[no-any-return]

    def __neg__(self) -> Variable:
        return self._unary("Neg")  # type: ignore[no-any-return]

    def __abs__(self) -> Variable:
        return self._unary("Abs")  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> Variable:  # type: ignore[override]
        return self._binary("Equal", other)  # type: ignore[no-any-return]

    def __ne__(self, other: object) -> Variable:  # type: ignore[override]
        return self._binary("Equal", other)._unary("Not")  # type: ignore[no-any-return]

    def __lt__(self, other: Any) -> Variable:
        return self._binary("Less", other)  # type: ignore[no-any-return]

    def __le__(self, other: Any) -> Variable:
        return self._binary("LessOrEqual", other)  # type: ignore[no-any-return]

    def __gt__(self, other: Any) -> Variable:
        return self._binary("Greater", other)  # type: ignore[no-any-return]

    def __ge__(self, other: Any) -> Variable:
        return self._binary("GreaterOrEqual", other)  # type: ignore[no-any-return]

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        raise ArgumentTypeError("a Variable has no length before it runs. Use .shape[0] for its first dimension.")

    def __float__(self) -> float:
        raise ArgumentTypeError("a Variable has no value before it runs. Fetch it with Executor.run.")

    def __getitem__(self, item: Any) -> Variable:
        """Basic indexing: integers, slices, Ellipsis and None; or one integer Variable, which gathers rows."""
        x: Any = self
        op = x.block.program.current_block().build
        if isinstance(item, Arithmetic):
            return op.emit("Gather", (x, item), {"axis": 0}, key=f"{x.name}_slice")  # type: ignore[no-any-return]
        return _basic_index(op, x, item if isinstance(item, tuple) else (item,))  # type: ignore[no-any-return]

    @property
    def T(self) -> Variable:  # noqa: N802
        """All axes reversed."""
        return self._unary("Transpose")  # type: ignore[no-any-return]

    def astype(self, dtype: Any) -> Variable:
        """The same numbers in another element type."""
        return self._unary("Cast", to=dtype_of(dtype).number)  # type: ignore[no-any-return]

    def clone(self) -> Variable:
        return self._unary("Identity")  # type: ignore[no-any-return]

    def detach(self) -> Variable:
        """The same value, through which no gradient flows."""
        copy = self._unary("Identity")
        copy.stop_gradient = True
        return copy  # type: ignore[no-any-return]


def _basic_index(op: Any, x: Any, items: tuple[Any, ...]) -> Any:
    consumed = sum(1 for item in items if item is not None and item is not Ellipsis)
    if any(item is Ellipsis for item in items):
        at = next(i for i, item in enumerate(items) if item is Ellipsis)
        items = (*items[:at], *[builtins.slice(None)] * (x.ndim - consumed), *items[at + 1 :])
    starts: list[int] = []
    ends: list[int] = []
    axes: list[int] = []
    steps: list[int] = []
    squeezed: list[int] = []
    added: list[int] = []
    axis = position = 0
    for item in items:
        if item is None:
            added.append(position)
            position += 1
            continue
        if isinstance(item, (int, np.integer)):
            starts.append(int(item))
            ends.append(int(item) + 1 if item != -1 else np.iinfo(np.int64).max)
            axes.append(axis)
            steps.append(1)
            squeezed.append(axis)
        elif isinstance(item, builtins.slice):
            if item != builtins.slice(None):
                step = 1 if item.step is None else int(item.step)
                starts.append(int(item.start) if item.start is not None else (0 if step > 0 else np.iinfo(np.int64).max))
                ends.append(int(item.stop) if item.stop is not None else np.iinfo(np.int64).max * (1 if step > 0 else -1))
                axes.append(axis)
                steps.append(step)
            position += 1
        else:
            raise ArgumentTypeError(f"cannot index {x.name} with {type(item).__name__}; use integers, slices, ... or None.")
        axis += 1
    y = x
    if axes:
        y = op.emit("Slice", (x, starts, ends, axes, steps), {}, key=f"{x.name}_slice")
    if squeezed:
        y = op.emit("Squeeze", (y, squeezed), {}, key=f"{x.name}_slice")
    if added:
        y = op.emit("Unsqueeze", (y, added), {}, key=f"{x.name}_slice")
    return y if y is not x else op.emit("Identity", (x,), {}, key=f"{x.name}_slice")
