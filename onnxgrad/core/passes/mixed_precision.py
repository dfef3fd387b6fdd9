"""Let a forward program compute in float16 or bfloat16 where that is safe, by Casts between its operators.

Weights stay in float32 and are cast where they are read, so each is its own master weight and its gradient is in float32.

Tests: tests/core/passes/test_mixed_precision.py, tests/core/passes/test_contract.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from onnxgrad.core.graph.contract import ProgramPass, Target
from onnxgrad.core.graph.manager import run_program_pass
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.defaults import default_main_program
from onnxgrad.core.ir.infer import infer_leniently
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.opset import Schema
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.transaction import all_or_nothing
from onnxgrad.core.ir.traverse import substitute
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.lift import lift
from onnxgrad.core.passes.modes import attach_training, detach_training
from onnxgrad.core.passes.precision_lists import AutoMixedPrecisionLists, Level, LowDtype, low_dtype
from onnxgrad.dtypes import DType, dtype_of
from onnxgrad.errors import ArgumentError, ArgumentTypeError
from onnxgrad.internal.arguments import checked

__all__ = ["mixed_precision", "precision_guard", "to_mixed_precision"]

_METADATA_KEY = "onnxgrad.mixed_precision"
_GUARD_KEY = "onnxgrad.precision_guard"
_LEVELS = ("O1", "O2", "OD")
_FLOAT32 = dtype_of("float32")
_SHORT = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
# Operators that read their other operands in float32 whatever the type of the first.
_CASTS_ONLY_FIRST = ("BatchNormalization", "Dropout", "GridSample", "Resize")
_READS_ANY_TYPE = ("Cast", "Shape", "Size")


@all_or_nothing
@checked
def to_mixed_precision(
    program: Program,
    dtype: LowDtype = "float16",
    lists: AutoMixedPrecisionLists | None = None,
    level: Level = "O1",
    use_guard: bool = False,
    use_promote: bool = False,
) -> Program:
    """Rewrite the forward operators of a program, in place, to compute in 16 bits where the lists say so.

    Graph inputs, graph outputs, weights and all other state keep their element type. A constant that float16 cannot hold (a mask
    of -1e9, an epsilon of 1e-12) keeps its operator in float32, unless that is on the white list. A program that is rewritten
    already stays as it is.

    Args:
        program: built here or loaded, without a backward pass.
        dtype: ``'float16'`` or ``'bfloat16'``.
        lists: default ``AutoMixedPrecisionLists(dtype=dtype)``.
        level: ``'O1'`` by the lists; ``'O2'`` everything but what is on the custom black list or scatters, resizes or
            quantises; ``'OD'`` the white list alone.
        use_guard: only operators that were built inside ``fp16_guard``.
        use_promote: at O2, operators with an operand that was computed in float32 compute in float32.

    Returns:
        The program.

    Raises:
        ArgumentError: if an argument makes no sense, or the program has a backward pass already.

    Example:
        >>> program = onnxgrad.from_onnx("models/digits/digits.onnx")
        >>> program = onnxgrad.amp.to_mixed_precision(program)
        >>> [v.dtype.name for op in program.global_block().ops if op.type == "Conv" for v in op.inputs][:3]
        ['float16', 'float16', 'float16']
    """
    if not isinstance(program, Program):
        raise ArgumentTypeError(f"to_mixed_precision takes a Program, not {type(program).__name__}.")
    if level not in _LEVELS:
        raise ArgumentError(f"level is one of {list(_LEVELS)}, not {level!r}.")
    low = dtype_of(low_dtype(dtype))
    if lists is not None and lists.amp_dtype != low.name:
        raise ArgumentError(f"the lists are for {lists.amp_dtype}, the program is to compute in {low.name}. Make both the same.")
    lists = lists or AutoMixedPrecisionLists(dtype=low_dtype(dtype))
    run_program_pass(program, mixed_precision(low, lists, level, use_guard=use_guard, use_promote=use_promote))
    return program


def mixed_precision(
    low: DType, lists: AutoMixedPrecisionLists, level: str, *, use_guard: bool = False, use_promote: bool = False
) -> ProgramPass:
    """The pass that lowers operators to an element type of 16 bits; ``to_mixed_precision`` says what it takes."""

    def applies(program: Program, target: Target) -> bool:
        return program.metadata.get(_METADATA_KEY) != low.name

    def needs(program: Program, target: Target) -> None:
        before = program.metadata.get(_METADATA_KEY)
        if before is not None:
            raise ArgumentError(f"this program computes in {before} already. Start from the program as it was.")
        if any(op.role is not Role.FORWARD for op in program.global_block().ops):
            raise ArgumentError("this program has a backward pass already. Rewrite it before append_backward or minimize.")

    def run(program: Program, target: Target) -> int:
        lift(program)
        block = program.global_block()
        trained = [op for op in block.ops if op.expansion is not None and op.expansion.always]
        detach_training(trained)
        rewrite = _Rewrite(program, low, lists, level)
        rewrite.use_guard, rewrite.use_promote = use_guard, use_promote
        rewrite.block(block)
        attach_training(trained)
        program.metadata[_METADATA_KEY] = low.name
        return 1 + rewrite.places

    return ProgramPass("mixed_precision", run, when=applies, needs=needs, rounding="fast")


@contextmanager
def precision_guard() -> Iterator[None]:
    """Mark the operators that are appended to the default main program inside a ``with`` block."""
    program = default_main_program()
    before = [len(block.ops) for block in program.blocks]
    yield
    for block in program.blocks:
        start = before[block.idx] if block.idx < len(before) else 0
        for op in block.ops[start:]:
            op.metadata = {**(op.metadata or {}), _GUARD_KEY: "1"}


class _Rewrite:
    """One pass over the operators in order; what it knows of a variable is whether it was lowered or kept on purpose."""

    def __init__(self, program: Program, low: DType, lists: AutoMixedPrecisionLists, level: str) -> None:
        self.low = low
        self.lists = lists
        self.level = level
        self.use_guard = False
        self.use_promote = False
        self.casts: dict[tuple[Variable, Block, int], Variable] = {}
        self.lowered: set[Variable] = set()
        self.kept: set[Variable] = set()
        self.states = set(program.updates.values())
        self.active: list[Block] = []
        self.places = 0

    def block(self, block: Block) -> None:
        self.active.append(block)
        results = self.states | set(block.outputs)
        ops, block.ops = block.ops, []
        for op in ops:
            if self._computes_low(op):
                self.places += 1
                self._lower(op)
                block.ops.append(op)
                for i, v in enumerate(op.outputs):
                    if v is not None and v in results and v in self.lowered:
                        self._keep_type(op, i, v)
            else:
                self._restore(op)
                for body in op.blocks():
                    self.block(body)
                block.ops.append(op)
        self.active.pop()

    # Deciding --------------------------------------------------------------------------------------------------------

    def _computes_low(self, op: Operator) -> bool:
        """Return whether an operator is to compute in 16 bits; notes the results of the others."""
        listed = self._listed(op)
        if listed is None:
            return False
        if not listed:
            self.kept.update(v for v in op.outputs if v is not None)
        return listed

    def _listed(self, op: Operator) -> bool | None:
        """True or False by the lists; None where nothing is decided: no operand is a computed real number"""
        schema = op.schema if op.domain == "" else None
        if schema is None or any(True for _ in op.blocks()):
            return False
        if op.type in _READS_ANY_TYPE or not any(v is not None and v.is_float for v in op.inputs):
            return None
        if not self._may_be_low(op, schema):
            return False
        if op.type in self.lists.white_list:
            return True
        if self.level == "OD" or op.type in self.lists.unsupported_list or self._loses_constants(op):
            return False
        computed = [v for v in op.inputs if v is not None and v.is_float and not v.is_leaf]
        if self.level == "O2":
            return not (self.use_promote and any(v in self.kept for v in computed))
        if op.type not in self.lists.gray_list or any(v in self.kept for v in computed):
            return False
        return True if any(v in self.lowered for v in computed) else None

    def _may_be_low(self, op: Operator, schema: Schema) -> bool:
        """Whether the operator has a form in 16 bits, and nobody asked to leave it alone"""
        if self.use_guard and _GUARD_KEY not in (op.metadata or {}):
            return False
        names = self.lists.black_varnames
        if names and any(v is not None and v.name in names for v in (*op.inputs, *op.outputs)):
            return False
        if any(v is not None and not isinstance(v.type, TensorType) for v in op.outputs):
            return False
        slots = self._slots(op, schema)
        return bool(slots) and all(self._admits(op, schema, i) for i in slots)

    def _slots(self, op: Operator, schema: Schema) -> list[int]:
        """Indices of the operands that change their type"""
        indices = range(1) if op.type in _CASTS_ONLY_FIRST else range(len(op.inputs))
        slots = [schema.input_at(i) for i in indices]
        variables = [(i, slot, op.inputs[i]) for i, slot in zip(indices, slots, strict=True)]
        return [
            i for i, slot, v in variables if v is not None and slot is not None and v.is_float and slot.typestr in schema.typestrs
        ]

    def _admits(self, op: Operator, schema: Schema, index: int) -> bool:
        slot, v = schema.input_at(index), op.inputs[index]
        assert slot is not None and v is not None
        return v.dtype in (_FLOAT32, self.low) and schema.allows(slot.typestr, self.low)

    def _loses_constants(self, op: Operator) -> bool:
        """Whether a constant becomes infinite or zero in 16 bits"""
        arrays = [v.value.numpy() for v in op.inputs if v is not None and v.value is not None and not v.persistable and v.is_float]
        for array in arrays:
            if array.size <= 64 and np.isfinite(array).all():
                with np.errstate(over="ignore"):
                    cast = array.astype(self.low.numpy).astype(array.dtype)
                if not np.isfinite(cast).all() or ((cast == 0) & (array != 0)).any():
                    return True
        return False

    # Rewriting -------------------------------------------------------------------------------------------------------

    def _lower(self, op: Operator) -> None:
        assert op.schema is not None
        for i in self._slots(op, op.schema):
            v = op.inputs[i]
            assert v is not None
            op.inputs[i] = self._cast(v, self.low)
        types = [None if v is None else v.type for v in op.outputs]
        for v in op.outputs:
            if v is not None:
                v.type = None
        infer_leniently(op)
        for v, before in zip(op.outputs, types, strict=True):
            if v is None or not isinstance(before, TensorType):
                continue
            dtype = v.type.dtype if isinstance(v.type, TensorType) else before.dtype
            v.type = before._replace(dtype=dtype)
            if dtype != before.dtype:
                v.declared = None
                self.lowered.add(v)

    def _restore(self, op: Operator) -> None:
        """Let the operator, and its bodies, read in float32 what was lowered."""
        if op.type in _READS_ANY_TYPE and op.domain == "":
            return
        wide = {v: self._cast(v, _FLOAT32) for v in op.operands() if v is not None and v in self.lowered}
        if wide:
            substitute([op], wide)

    def _keep_type(self, op: Operator, index: int, v: Variable) -> None:
        """Give a result of the graph its element type back: the operator computes a new variable, which a Cast turns into it."""
        block = self.active[-1]
        inner = Variable(block, block.program.fresh_name(f"{v.name}.{_SHORT[self.low.name]}"), v.type, op)
        block.register(inner)
        op.outputs[index] = inner
        self.lowered.discard(v)
        assert isinstance(v.type, TensorType)
        v.type = v.type._replace(dtype=_FLOAT32)
        v.op = Operator(block, "Cast", [inner], [v], {"to": _FLOAT32.number})
        block.ops.append(v.op)

    def _cast(self, v: Variable, dtype: DType) -> Variable:
        """The variable in another type: one Cast for all that read it, in the block that it belongs to."""
        if v.dtype == dtype:
            return v
        block = v.block if v.block in self.active else self.active[-1]
        cast = self.casts.get((v, block, dtype.number))
        if cast is not None:
            return cast
        op = Operator(block, "Cast", [v], [], {"to": dtype.number})
        cast = Variable(block, block.program.fresh_name(f"{v.name}.cast_{_SHORT[dtype.name]}"), None, op)
        assert isinstance(v.type, TensorType)
        cast.type = v.type._replace(dtype=dtype)
        op.outputs = [cast]
        block.append(op)
        self.casts[(v, block, dtype.number)] = cast
        return cast
