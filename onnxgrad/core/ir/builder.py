"""Appends operators by calling them: ``op.Mul(x, y)``, ``op.ReduceSum(x, axes=[1], keepdims=0)``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np

from onnxgrad.core.ir.infer import check_and_infer
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.simplify import SIMPLER
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DType, dtype_of
from onnxgrad.errors import ArgumentError, ArgumentTypeError, IllTyped
from onnxgrad.internal import state

if TYPE_CHECKING:
    from onnxgrad.core.ir.block import Block
    from onnxgrad.core.ir.opset import Operand as Declared, Schema
    from onnxgrad.core.ir.origin import Origin

__all__ = ["Builder", "Operand"]

Operand: TypeAlias = Variable | np.ndarray[Any, Any] | np.generic | float | str | list[Any] | tuple[Any, ...] | None
"""What an operator takes as an input; all but variables become constants, and None leaves an optional input out."""


class Builder:
    """Appends operators to a block, or, given a ``stage``, to that list, leaving the block as it is.

    Positional and keyword arguments are the operator's inputs by their ONNX names; further keywords are attributes.
    Numbers, lists and arrays become constants, in the element type of the operands they meet. An argument that is an
    attribute in this opset and an input in another (``axes``) is put where it belongs. builder.pyi, which
    scripts/write_builder_stub writes, declares a method for each operator.
    """

    __slots__ = ("block", "key", "origin", "role", "simplify", "stage")
    block: Block
    stage: list[Operator] | None
    role: Role
    key: str
    simplify: bool
    origin: Origin | None

    def __init__(
        self,
        block: Block,
        stage: list[Operator] | None = None,
        role: Role = Role.FORWARD,
        key: str = "",
        origin: Origin | None = None,
    ) -> None:
        self.block = block
        self.stage = stage
        self.role = role
        self.key = key
        self.simplify = stage is not None or role is not Role.FORWARD
        self.origin = origin

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if not op_type[:1].isupper():
            raise AttributeError(op_type)

        def emit(*args: Any, outputs: int | Sequence[str] = 1, **kwargs: Any) -> Any:
            return self.emit(op_type, args, kwargs, outputs)

        return emit

    @overload
    def emit(
        self,
        op_type: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        outputs: Literal[1] = 1,
        key: str = "",
        domain: str = "",
    ) -> Variable: ...
    @overload
    def emit(
        self,
        op_type: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        outputs: Literal[2, 3, 4] | Sequence[str],
        key: str = "",
        domain: str = "",
    ) -> tuple[Variable, ...]: ...
    @overload
    def emit(
        self,
        op_type: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        outputs: int | Sequence[str] = 1,
        key: str = "",
        domain: str = "",
    ) -> Variable | tuple[Variable, ...]: ...
    def emit(
        self,
        op_type: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        outputs: int | Sequence[str] = 1,
        key: str = "",
        domain: str = "",
    ) -> Any:
        """Append ``op_type`` and return its output, or a tuple when ``outputs`` is a count above 1 or a list of names."""
        if self.block.is_eager:
            return self.block.record(op_type, args, kwargs, outputs, domain)
        if self.simplify and op_type in SIMPLER:
            simpler = SIMPLER[op_type](self, args, kwargs)
            if simpler is not None:
                return simpler
        operator = Operator(self.block, op_type, [], [], {}, domain)
        operator.role, operator.origin = self.role, self.origin
        schema = operator.schema
        if schema is None:
            version = self.block.program.opset_version(domain)
            raise IllTyped(f"there is no operator {op_type} in opset {version}. Raise the program's opset.")
        operands = list(args)
        for name, value in kwargs.items():
            declared = schema.input_named(name)
            if declared is None:
                if value is not None:
                    operator.attrs[name] = _plain(value)
            elif value is not None:
                operands.extend([None] * (declared.index + 1 - len(operands)))
                operands[declared.index] = value
        while len(operands) > schema.min_input and operands[-1] is None:
            operands.pop()
        if op_type == "Constant" or any(not self._is_operand(item) for item in operands):
            operator.inputs = self._operands(schema, operands)
        else:
            operator.inputs = operands
        if self.simplify:
            narrow = _without_form(schema, operator.inputs)
            if narrow:
                return self._in_float32(schema, narrow, op_type, operator.inputs, operator.attrs, outputs)
        names = self._names(op_type, outputs, key)
        operator.outputs = [Variable(self.block, name, None, operator) for name in names]
        check_and_infer(operator)
        if self.stage is not None:
            operator.name = self.key
            self.stage.append(operator)
        else:
            self.block.append(operator)
        if isinstance(outputs, int) and outputs == 1:
            return operator.outputs[0]
        return tuple(operator.outputs)

    def _in_float32(
        self,
        schema: Schema,
        narrow: dict[str, DType],
        op_type: str,
        operands: list[Variable | None],
        attrs: dict[str, Any],
        outputs: int | Sequence[str],
    ) -> Any:
        """The operator between Casts, where it has no form in the element type of its operands"""
        slots = [schema.input_at(i) for i in range(len(operands))]
        wide = [
            self.Cast(v, to=1) if v is not None and v.is_float and slot is not None and slot.typestr in narrow else v
            for v, slot in zip(operands, slots, strict=True)
        ]
        emitted = self.emit(op_type, wide, attrs, outputs)
        results = emitted if isinstance(emitted, tuple) else (emitted,)
        declared = [schema.outputs[min(i, len(schema.outputs) - 1)].typestr for i in range(len(results))]
        back = [self.Cast(v, to=narrow[t].number) if t in narrow else v for v, t in zip(results, declared, strict=True)]
        return tuple(back) if isinstance(emitted, tuple) else back[0]

    def constant(self, value: Any, dtype: DType | None = None) -> Variable:
        """A constant of the program, shared between all equal ones."""
        return self.block.program.constant(np.asarray(value, None if dtype is None else dtype.numpy))

    def _names(self, op_type: str, outputs: int | Sequence[str], key: str) -> list[str]:
        if not isinstance(outputs, int):
            return list(outputs)
        if self.stage is not None:
            return [""] * outputs
        program = self.block.program
        if key:
            return [program.generate_name(key) for _ in range(outputs)]
        if self.key:
            return [program.fresh_name(f"{self.key}/{op_type}") for _ in range(outputs)]
        layer = state.generate_name(op_type.lower())
        return [program.fresh_name(f"{layer}.tmp_{i}") for i in range(outputs)]

    def _operands(self, schema: Schema, operands: list[Any]) -> list[Variable | None]:
        dtypes: dict[str, DType] = {}
        for index, item in enumerate(operands):
            declared = schema.input_at(index)
            if declared is not None and isinstance(item, Variable) and isinstance(item.type, TensorType):
                dtypes.setdefault(declared.typestr, item.type.dtype)
        return [
            item if item is None or self._is_operand(item) else self._as_constant(schema, schema.input_at(i), item, dtypes)
            for i, item in enumerate(operands)
        ]

    def _as_constant(self, schema: Schema, declared: Declared | None, item: Any, dtypes: dict[str, DType]) -> Variable:
        if isinstance(item, (np.ndarray, np.generic)):
            return self.constant(item)
        if isinstance(item, Variable):
            entered: Variable = item.enter(self.block.program)  # type: ignore[attr-defined]
            return entered
        if not isinstance(item, (bool, int, float, str, list, tuple)):
            raise ArgumentTypeError(f"{schema.name} takes variables, numbers and arrays, not {type(item).__name__}.")
        dtype = dtypes.get(declared.typestr) if declared is not None else None
        array = np.asarray(item) if dtype is None else _as_numbers_of(schema.name, item, dtype)
        if dtype is None and (array.size == 0 or array.dtype.kind == "i"):
            array = array.astype(np.int64)
        if dtype is None and array.dtype == np.float64:
            array = array.astype(np.float32)
        if dtype is None and declared is not None and not schema.allows(declared.typestr, dtype_of(array.dtype)):
            array = array.astype(np.float32)
        return self.constant(array)

    def _is_operand(self, item: Any) -> bool:
        """Return whether an operator can read an operand as it is; an eager tensor cannot be in a static program."""
        return isinstance(item, Variable) and (not item.is_eager or item.block.program is self.block.program)


def _without_form(schema: Schema, operands: list[Variable | None]) -> dict[str, DType]:
    """Type variables of an operator that its operands bind to a 16-bit float that it does not admit, but float32."""
    dtypes = {}
    for i, v in enumerate(operands):
        if v is None or not isinstance(v.type, TensorType) or v.type.dtype.name not in ("float16", "bfloat16"):
            continue
        slot = schema.input_at(i)
        if slot is not None and not schema.allows(slot.typestr, v.type.dtype) and schema.allows(slot.typestr, _FLOAT32):
            dtypes[slot.typestr] = v.type.dtype
    return dtypes


_FLOAT32 = dtype_of("float32")


def _as_numbers_of(op_type: str, item: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """Python's numbers in the element type of the operands that they meet; none becomes another integer."""
    try:
        array = np.asarray(item, dtype.numpy)
        is_same = not dtype.is_integer or array.tolist() == np.asarray(item).tolist()
    except (OverflowError, ValueError):
        is_same = False
    if not is_same:
        raise ArgumentError(
            f"{op_type}: {item} cannot be stored as {dtype.name}, the type of the other operand. Cast that operand first."
        )
    return array


def _plain(value: Any) -> Any:
    """An attribute value in the form operators keep: Python numbers, str, lists, tensors, blocks."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
