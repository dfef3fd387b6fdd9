"""Gradients of tensors of integers and Booleans, as Paddle gives them: by the rules in float64, then in the tensor's own type.

A tensor of integers is open where its ``stop_gradient`` is False. Operators whose results have the type of an open operand carry
gradients to it, and so do casts. Those that round, such as Div, and those without a gradient stop them. float64 is exact to 2**53.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import onnx

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.registry import TABLE
from onnxgrad.dtypes import DType, dtype_of
from onnxgrad.eager.evaluate import Writer
from onnxgrad.eager.node import Call, Kind, Signature, TapeNode, kind_of
from onnxgrad.errors import UnsupportedGradient

__all__ = ["OpenWriter", "carries_gradient", "cast_gradient", "is_open"]

_ROUND = ("Div", "Mod")
_DOUBLE = dtype_of("float64")


def is_open(node: TapeNode | None) -> bool:
    """Whether gradients are sought of these integers or Booleans."""
    return node is not None and not node.stop and not node.kind.is_float and isinstance(node.kind.type, TensorType)


def carries_gradient(signature: Signature, index: int, inputs: Sequence[TapeNode | None]) -> bool:
    """Whether output ``index``, of integers or Booleans, passes gradients on to an operand that is open."""
    for node in inputs:  # no generator: each result of integers or Booleans is asked
        if is_open(node):
            break
    else:
        return False
    if not isinstance(signature.kinds[index].type, TensorType):  # type: ignore[union-attr]
        return False
    types = _types(signature, len(inputs))
    if types is None or (signature.type == "Cast" and inputs[0].kind.type.dtype.name == "bool"):  # type: ignore[union-attr]
        return False  # A function casts Booleans to count them, as all and any do.
    return any(is_open(node) and type == types[1][index] for node, type in zip(inputs, types[0], strict=True))


def _types(signature: Signature, count: int) -> tuple[list[str], list[str]] | None:
    """The type variables of operands and results; None where an operator passes no gradients of integers on."""
    if signature.fragment is not None or signature.domain != "":
        return None
    return _types_of(signature.type, count, len(signature.kinds))


@functools.cache
def _types_of(op_type: str, operands: int, results: int) -> tuple[list[str], list[str]] | None:
    entries = TABLE.get(("", op_type))
    if entries is None or entries[-1].state in ("stops", "unsupported") or op_type in _ROUND:
        return None
    if op_type in ("Cast", "Pow"):
        return ["T"] * operands, ["T"]
    schema = onnx.defs.get_schema(op_type)
    types = [
        [formal[min(at, len(formal) - 1)].type_str for at in range(number)]
        for formal, number in ((schema.inputs, operands), (schema.outputs, results))
    ]
    return types[0], types[1]


def cast_gradient(build: Builder, gradient: Variable, dtype: DType) -> Variable:
    """A gradient in the element type of what it is the gradient of; integers wrap as integers do."""
    if gradient.dtype == dtype:
        return gradient
    if not dtype.is_float and dtype.name not in ("bool", "int64"):
        gradient = build.Cast(gradient, to=dtype_of("int64").number)
    return build.Cast(gradient, to=dtype.number)


class OpenWriter(Writer):
    """Writes calls with a copy in float64 beside each value of integers that gradients go through."""

    def __init__(self, nodes: Iterable[TapeNode | None]) -> None:
        super().__init__()
        self._open = {(node.call, node.index) for node in nodes if node is not None and is_open(node)}
        self._doubles: dict[Any, Variable] = {}

    def differentiable(self, node: TapeNode, v: Variable) -> Variable:
        """The variable that replaces a value where it is differentiated: itself, or for integers their copy in float64."""
        if not is_open(node):
            return v
        key = node if node in self.variables else (node.call, node.index)
        if key not in self._doubles:
            self._doubles[key] = self._double(v)
        return self._doubles[key]

    def _double(self, v: Variable) -> Variable:
        return v if v.dtype == _DOUBLE else self.block.build.Cast(v, to=_DOUBLE.number)

    def write(self, call: Call) -> None:
        signature, inputs = call.signature, call.inputs
        if signature.fragment is not None:
            self._refuse_open(call)
        types = _types(signature, len(inputs))
        if types is None:
            return super().write(call)
        opened = [is_open(node) for node in inputs]
        if signature.type == "Cast":
            return self._write_cast(call, opened[0])
        super().write(call)
        kinds = self.kinds_of(call)
        closed = [kind is None or kind.is_float for kind in kinds]
        carried = {type for type, is_opened in zip(types[0], opened, strict=True) if is_opened}
        carried &= {type for type, is_closed in zip(types[1], closed, strict=True) if not is_closed}
        if not carried:
            return None
        operands = [self._operand(node, type in carried) for node, type in zip(inputs, types[0], strict=True)]
        results = [_as_double(kind) if type in carried else kind for kind, type in zip(kinds, types[1], strict=True)]
        for index, v in enumerate(self._append(signature.type, operands, results, dict(signature.attrs))):
            if v is not None and types[1][index] in carried:
                self._doubles[call, index] = v
        return None

    def _write_cast(self, call: Call, is_opened: bool) -> None:
        signature, kind = call.signature, self.kinds_of(call)[0]
        assert kind is not None
        if kind.is_float and is_opened:
            (output,) = self._append("Cast", [self._operand(call.inputs[0], True)], [kind], dict(signature.attrs))
            assert output is not None and output.op is not None
            self.variables[call, 0], self.operators[call] = output, [output.op]
            return
        super().write(call)
        if (call, 0) in self._open:
            x = self._double(self._operand(call.inputs[0], is_opened))  # type: ignore[arg-type]
            constant = self.block.build.Identity(x)
            constant.stop_gradient = True
            # The value that the cast rounds to, with the gradient of x.
            self._doubles[call, 0] = self.block.build.Add(x, self._double(self.variables[call, 0]) - constant)

    def _operand(self, node: TapeNode | None, in_double: bool) -> Variable | None:
        v = self.read(node)
        if node is None or v is None or not in_double:
            return v
        return self.differentiable(node, v) if is_open(node) else self._double(v)

    def _append(
        self, type: str, inputs: list[Variable | None], kinds: Sequence[Kind | None], attrs: dict[str, Any]
    ) -> list[Variable | None]:
        operator = Operator(self.block, type, inputs, [], attrs)
        operator.outputs.extend(None if kind is None else self._new("t", kind, operator) for kind in kinds)
        self.block.append(operator)
        return operator.outputs

    def _refuse_open(self, call: Call) -> None:
        """A recorded backward pass has no second derivatives in the integers that it casts."""
        fragment = call.signature.fragment
        opened = {v for v, node in zip(fragment.inputs, call.inputs, strict=True) if is_open(node)}
        if any(op.type == "Cast" and op.inputs[0] in opened for op in fragment.operators):
            raise UnsupportedGradient(
                "backward: second derivatives go through a tensor of integers. Set its stop_gradient True, or cast it to float32."
            )


def _as_double(kind: Kind | None) -> Kind | None:
    return None if kind is None else kind_of(TensorType(_DOUBLE, kind.type.dims))  # type: ignore[union-attr]
