"""A copy of a program that computes in float64, for an oracle: operators without a form there stay as they are, between Casts.

Tests: tests/cli/test_check.py, tests/core/passes/test_contract.py.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from onnxgrad.core.graph.contract import ProgramPass, Target
from onnxgrad.core.graph.manager import run_program_pass
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.infer import infer_leniently
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.types import OptionalType, SequenceType, TensorType, Type
from onnxgrad.core.ir.variable import Variable, present_value
from onnxgrad.core.state.scope import Scope
from onnxgrad.dtypes import DType, dtype_of

__all__ = ["double_precision", "in_double_precision"]

_DOUBLE = dtype_of("float64")
_NARROW = tuple(map(dtype_of, ("float32", "float16", "bfloat16")))
_FLOAT_BY_DEFAULT = {"RandomNormal": "dtype", "RandomUniform": "dtype", "SequenceEmpty": "dtype"}
_WINDOWS = ("HammingWindow", "HannWindow", "BlackmanWindow", "MelWeightMatrix")


def in_double_precision(program: Program, keep: Collection[str] = ()) -> Program:
    """Copy a forward program with float64 inputs, weights and results; it takes the present values.

    Args:
        program: without a backward pass; it is not changed.
        keep: types of operators that compute as before, for want of a kernel; so do those that no schema describes.
    """
    copy, copies = program.clone_with_variables(for_test=True)
    copy.scope = Scope()
    states = {copies[v]: v for v in copies if v.persistable}
    run_program_pass(copy, double_precision(keep))
    for v, old in states.items():
        if isinstance(old.type, TensorType) and old.type.dtype in _NARROW:
            v.set_value(present_value(program.active_scope(), old).astype(np.float64))
        else:
            v.set_value(present_value(program.active_scope(), old))
    return copy


def double_precision(keep: Collection[str] = ()) -> ProgramPass:
    """The pass that widens every variable of a program to float64, but for what operators of the types ``keep`` compute."""

    def run(program: Program, target: Target) -> int:
        rewrite = _Rewrite(frozenset(keep))
        for block in program.blocks:
            for v in block.vars.values():
                rewrite.widen(v)
            block.value_infos = [v for v in block.value_infos if v not in rewrite.before]
        for p in program.parameters:
            rewrite.widen(p)
        rewrite.block(program.global_block())
        return len(rewrite.before)

    return ProgramPass("double_precision", run, rounding="fast")


class _Rewrite:
    def __init__(self, keep: frozenset[str]) -> None:
        self.keep = keep
        self.before: dict[Variable, DType] = {}

    def widen(self, v: Variable) -> None:
        """Declare a variable to be of double precision, and remember what it was."""
        wide = _widened(v.type)
        if v in self.before or wide is v.type:
            return
        inner = v.type
        while isinstance(inner, (SequenceType, OptionalType)):
            inner = inner.element
        assert isinstance(inner, TensorType)
        self.before[v] = inner.dtype
        v.type, v.declared = wide, None
        if v.value is not None:
            v.value = TensorValue.of(v.value.numpy().astype(np.float64))

    def block(self, block: Block) -> None:
        ops, block.ops = block.ops, []
        for op in ops:
            for v in op.outputs:
                if v is not None:
                    self.widen(v)
            bodies = list(op.blocks())
            for body in bodies:
                for v in body.inputs:
                    self.widen(v)
                self.block(body)
            if not bodies:
                _widen_attributes(op)
                self._narrow_operands(op, block)
            block.ops.append(op)
            if not bodies:
                self._widen_results(op, block)

    def _narrow_operands(self, op: Operator, block: Block) -> None:
        for i, v in enumerate(op.inputs):
            if v is not None and v in self.before and isinstance(v.type, TensorType) and not self._takes_double(op, i):
                cast = Operator(block, "Cast", [v], [], {"to": self.before[v].number})
                name = block.program.fresh_name(f"{v.name}.narrow")
                narrow = Variable(block, name, v.type._replace(dtype=self.before[v]), cast)
                cast.outputs = [block.register(narrow)]
                block.ops.append(cast)
                op.inputs[i] = narrow

    def _takes_double(self, op: Operator, index: int) -> bool:
        schema = op.schema
        if schema is None or op.type in self.keep:
            return False
        slot = schema.input_at(index)
        return slot is None or schema.allows(slot.typestr, _DOUBLE)

    def _widen_results(self, op: Operator, block: Block) -> None:
        """Cast what the operator still computes in its old type"""
        wide = [v.type if v is not None and v in self.before else None for v in op.outputs]
        known = op.schema is not None
        if known:
            for v in op.outputs:
                if v is not None and v in self.before and v.value is None:
                    v.type = None
            infer_leniently(op)
        for i, (v, was) in enumerate(zip(op.outputs, wide, strict=True)):
            if v is None or was is None:
                continue
            inferred, v.type = v.type, was
            kept = self.before[v]
            computed = (
                inferred.dtype
                if known and isinstance(inferred, TensorType)
                else kept
                if not known or op.type in self.keep
                else _DOUBLE
            )
            if isinstance(was, TensorType) and computed in _NARROW:
                inner = Variable(block, block.program.fresh_name(f"{v.name}.narrow"), was._replace(dtype=computed), op)
                op.outputs[i] = block.register(inner)
                v.op = Operator(block, "Cast", [inner], [v], {"to": _DOUBLE.number})
                block.ops.append(v.op)


def _widened(type: Type | None) -> Type | None:
    """Return the type in double precision; the same object where nothing changes"""
    if isinstance(type, TensorType):
        return type._replace(dtype=_DOUBLE) if type.dtype in _NARROW else type
    if isinstance(type, (SequenceType, OptionalType)):
        element = _widened(type.element)
        return type if element is type.element else type._replace(element=element)
    return type


def _widen_attributes(op: Operator) -> None:
    """Element types and constants among the attributes"""
    if op.domain != "":
        return
    for name, value in list(op.attrs.items()):
        if isinstance(value, TensorValue) and value.dtype in _NARROW:
            op.attrs[name] = TensorValue.of(value.numpy().astype(np.float64))
        elif name in ("to", "dtype", "output_datatype") and value in [dtype.number for dtype in _NARROW]:
            op.attrs[name] = _DOUBLE.number
    if op.type == "Constant":
        for name in ("value_float", "value_floats"):
            if name in op.attrs:
                op.attrs["value"] = TensorValue.of(np.asarray(op.attrs.pop(name), np.float64))
    elif op.type == "ConstantOfShape":
        op.attrs.setdefault("value", TensorValue.of(np.zeros(1)))
    elif op.type in _FLOAT_BY_DEFAULT:
        op.attrs.setdefault(_FLOAT_BY_DEFAULT[op.type], _DOUBLE.number)
    elif op.type in _WINDOWS:
        op.attrs.setdefault("output_datatype", _DOUBLE.number)
