"""Lift a program to opset 21, so that gradient rules see one version of every operator.

Each adapter rewrites one operator whose form or meaning changed; it runs when the program is older than the change. Sources:
the ONNX changelog's entry for each version.

Tests: tests/core/passes/test_lift.py, tests/core/passes/test_contract.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgrad.core.graph.contract import ProgramPass, Target
from onnxgrad.core.graph.manager import run_program_pass
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.forms import naming_operator
from onnxgrad.core.ir.infer import infer_leniently
from onnxgrad.core.ir.newest import fits_newest
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.opset import NEWEST, NEWEST_IR, OLDEST_WITH_RULES, find_schema
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.transaction import transaction
from onnxgrad.core.ir.types import TensorType, Type
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.modes import set_training
from onnxgrad.core.passes.newest import rewrite_newer
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ModelError

__all__ = ["LIFT", "has_form_of_21", "lift"]

_IR_VERSION = 10


def lift(program: Program) -> None:
    """Bring ai.onnx to opset 21 if it is older, and from 27/28 to 26 if that has a form of everything used; in place.

    Raises:
        ModelError: if an operator has no form there; the program is then as it was.
    """
    if not program.training_pending and not _is_to_be_lifted(program, Target()):
        return  # without a look at each operator: control flow lifts its program each time that it writes some
    with transaction(program):
        run_program_pass(program, LIFT)
        if program.training_pending:
            set_training(program, True, program.batch_norm)


def has_form_of_21(op_type: str, version: int) -> bool:
    """Whether an operator is written in an older opset as it is in 21."""
    old, new = (find_schema(op_type, "", opset) for opset in (version, OLDEST_WITH_RULES))
    if old is None or new is None or any(version < before for before, _ in _ADAPTERS.get(op_type, ())):
        return False
    operands = [[v.name for v in schema.inputs] for schema in (old, new)]
    return operands[0] == operands[1] and set(old.attributes) == set(new.attributes)


def _is_to_be_lifted(program: Program, target: Target) -> bool:
    version = program.opset_version() or 1
    return version > NEWEST or version < OLDEST_WITH_RULES or program.ir_version < _IR_VERSION


def _lift(program: Program, target: Target) -> int:
    """Lift a program; the opset counts as one place, and each operator that is adapted as one"""
    version = program.opset_version() or 1
    rewrites = 0
    if version > NEWEST:
        rewrites += _restamp(program)
    if version >= OLDEST_WITH_RULES:
        rewrites += program.ir_version < _IR_VERSION
        program.ir_version = max(program.ir_version, _IR_VERSION)
        return rewrites
    program.lifted_from = version
    program.set_opset_version(OLDEST_WITH_RULES)
    program.ir_version = max(program.ir_version, _IR_VERSION)
    for block in list(program.blocks):
        rewrites += _lift_block(block, version)
    for function in program.functions.values():
        inner = function.body.program
        if (inner.opset_version() or 1) < OLDEST_WITH_RULES:
            rewrites += _lift(inner, target)
            function.origin = None
    return rewrites + 1


LIFT = ProgramPass("lift", _lift, when=_is_to_be_lifted)


def _restamp(program: Program) -> int:
    rewrites = 0
    for block in program.blocks:
        rewrites += rewrite_newer(block)
    for function in program.functions.values():
        if (function.body.program.opset_version() or 1) > NEWEST:
            rewrites += _restamp(function.body.program)
            function.origin = None
    if all(fits_newest(block.ops) for block in program.blocks):
        program.set_opset_version(NEWEST)
        program.ir_version = min(program.ir_version, NEWEST_IR)
        rewrites += 1
    return rewrites


def _lift_block(block: Block, version: int) -> int:
    """Adapt the operators of a block, and return how many"""
    rewrites = 0
    ops, block.ops = block.ops, []
    for op in ops:
        if op.domain == "":
            op.attrs.pop("consumed_inputs", None)
            adapters = _ADAPTERS.get(op.type, ())
            rewriter = _Rewriter(block, op, version)
            for before, adapt in adapters:
                if version < before:
                    rewrites += 1
                    with naming_operator(op, f"bring it from opset {version} to {OLDEST_WITH_RULES}", infers=False):
                        adapt(rewriter, op)
            block.ops.append(op)
            block.ops.extend(rewriter.after)
            if adapters and op.attr_info is not None:
                op.attr_info = {k: info for k, info in op.attr_info.items() if k in op.attrs}
        else:
            block.ops.append(op)
    return rewrites


class _Rewriter:
    """Adds helper operators before or after the one being lifted."""

    def __init__(self, block: Block, op: Operator, version: int) -> None:
        self.block = block
        self.op = op
        self.version = version
        self.after: list[Operator] = []

    def before(self, op_type: str, *inputs: Variable, **attrs: Any) -> Variable:
        """Insert an operator before and return its output."""
        helper, variable = self._make(op_type, list(inputs), attrs)
        self.block.ops.append(helper)
        return variable

    def _make(self, op_type: str, inputs: list[Variable], attrs: dict[str, Any]) -> tuple[Operator, Variable]:
        helper = Operator(self.block, op_type, list(inputs), [], attrs)
        first = next(v for v in self.op.outputs if v is not None)
        variable = Variable(self.block, self.block.program.fresh_name(f"{first.name}/{op_type}"), None, helper)
        helper.outputs = [variable]
        helper.role = self.op.role
        infer_leniently(helper)
        self.block.register(variable)
        return helper, variable

    def then(self, op_type: str, *inputs: Variable, **attrs: Any) -> None:
        """Let the operator compute into a new variable and another one, inserted after it, make the old output."""
        final = self.op.outputs[0]
        assert final is not None
        middle = Variable(self.block, self.block.program.fresh_name(f"{final.name}/{self.op.type}"), None, self.op)
        self.block.register(middle)
        self.op.outputs[0] = middle
        helper = Operator(self.block, op_type, [middle, *inputs], [final], attrs)
        helper.role = self.op.role
        final.op = helper
        self.after.append(helper)

    def constant(self, value: Any, dtype: Any = np.int64) -> Variable:
        return self.block.program.constant(np.asarray(value, dtype))

    def to_input(self, name: str, index: int, dtype: Any = np.int64) -> None:
        """Turn an attribute into the input at ``index``."""
        if name not in self.op.attrs:
            return
        value = self.op.attrs.pop(name)
        self.set_input(index, self.constant(value, dtype))

    def set_input(self, index: int, variable: Variable | None) -> None:
        inputs = self.op.inputs
        inputs.extend([None] * (index + 1 - len(inputs)))
        inputs[index] = variable

    def dtype(self) -> Any:
        x = self.op.inputs[0]
        if x is None or x.type is None:
            raise ModelError(f"{self.op}: its element type is unknown, so opset {self.version} cannot be lifted. Add value_info.")
        return x.dtype.numpy

    def rank(self, index: int) -> int:
        x = self.op.inputs[index]
        if x is None or x.rank is None:
            raise ModelError(
                f"{self.op}: the rank of an input is unknown, so opset {self.version} cannot be lifted. Add value_info."
            )
        return x.rank


def _axes(r: _Rewriter, op: Operator) -> None:
    r.to_input("axes", 1)


def _broadcast(r: _Rewriter, op: Operator) -> None:
    """Before 7: ``broadcast=1`` with ``axis`` aligned the second operand with an inner axis of the first."""
    axis = op.attrs.pop("axis", None)
    if op.attrs.pop("broadcast", 0) and axis is not None:
        trailing = r.rank(0) - axis % r.rank(0) - r.rank(1)
        if trailing > 0:
            y = op.inputs[1]
            assert y is not None
            op.inputs[1] = r.before("Unsqueeze", y, r.constant(range(r.rank(1), r.rank(1) + trailing)))


def _gemm(r: _Rewriter, op: Operator) -> None:
    op.attrs.pop("broadcast", None)


def _cast(r: _Rewriter, op: Operator) -> None:
    if isinstance(op.attrs.get("to"), str):
        op.attrs["to"] = dtype_of(op.attrs["to"].lower()).number
        op.attr_info = None


def _reshape(r: _Rewriter, op: Operator) -> None:
    r.to_input("shape", 1)


def _concat(r: _Rewriter, op: Operator) -> None:
    op.attrs.setdefault("axis", 1)


def _split(r: _Rewriter, op: Operator) -> None:
    r.to_input("split", 1)
    if len(op.inputs) < 2 or op.inputs[1] is None:
        op.attrs["num_outputs"] = len(op.outputs)


def _dropout(r: _Rewriter, op: Operator) -> None:
    is_test = op.attrs.pop("is_test", 1 if r.version >= 7 else 0)
    r.to_input("ratio", 1, r.dtype())
    if not is_test:
        r.set_input(1, op.inputs[1] if len(op.inputs) > 1 else r.constant(0.5, r.dtype()))
        r.set_input(2, r.constant(True, np.bool_))


def _batch_normalization(r: _Rewriter, op: Operator) -> None:
    is_test = op.attrs.pop("is_test", None)
    if op.attrs.pop("spatial", 1) == 0:
        raise ModelError(f"{op}: spatial=0 has no equivalent in opset 21. Export the model again with a newer opset.")
    if len(op.outputs) > 1 and is_test != 1:
        op.attrs["training_mode"] = 1
        del op.outputs[3:]


def _clip(r: _Rewriter, op: Operator) -> None:
    r.to_input("min", 1, r.dtype())
    r.to_input("max", 2, r.dtype())


def _pad(r: _Rewriter, op: Operator) -> None:
    if "paddings" in op.attrs:
        op.attrs["pads"] = op.attrs.pop("paddings")
    r.to_input("pads", 1)
    r.to_input("value", 2, r.dtype())


def _slice(r: _Rewriter, op: Operator) -> None:
    r.to_input("starts", 1)
    r.to_input("ends", 2)
    r.to_input("axes", 3)


def _top_k(r: _Rewriter, op: Operator) -> None:
    if "k" in op.attrs:
        op.attrs["k"] = [op.attrs["k"]]
        r.to_input("k", 1)


def _upsample(r: _Rewriter, op: Operator) -> None:
    if "scales" in op.attrs:
        scales = r.constant(op.attrs.pop("scales"), np.float32)
    elif "width_scale" in op.attrs:
        scales = r.constant([1, 1, op.attrs.pop("height_scale"), op.attrs.pop("width_scale")], np.float32)
    else:
        scales = op.inputs[1]  # type: ignore[assignment]
    op.type = "Resize"
    if op.attrs.get("mode") == "bilinear":
        op.attrs["mode"] = "linear"
    _old_resize_attrs(op)
    op.inputs = [op.inputs[0], None, scales]


def _resize(r: _Rewriter, op: Operator) -> None:
    _old_resize_attrs(op)
    op.inputs = [op.inputs[0], None, op.inputs[1]]


def _old_resize_attrs(op: Operator) -> None:
    op.attrs["coordinate_transformation_mode"] = "asymmetric"
    op.attrs["nearest_mode"] = "floor"


def _softmax(r: _Rewriter, op: Operator) -> None:
    """Before 13: the input was flattened to a matrix at ``axis``."""
    axis = op.attrs.get("axis", 1)
    rank = r.rank(0)
    if axis % rank == rank - 1:
        op.attrs["axis"] = -1
        return
    x = op.inputs[0]
    assert x is not None
    shape = r.before("Shape", x)
    op.inputs[0] = r.before("Flatten", x, axis=axis)
    op.attrs["axis"] = -1
    r.then("Reshape", shape, allowzero=1)


def _scatter(r: _Rewriter, op: Operator) -> None:
    op.type = "ScatterElements"


def _group_normalization(r: _Rewriter, op: Operator) -> None:
    """Before 21: one scale and bias per group instead of per channel."""
    x, groups = op.inputs[0], op.attrs["num_groups"]
    assert x is not None
    channels = r.before("Shape", x, start=1, end=2)
    per_group = r.before("Div", channels, r.constant([groups]))
    target = r.before("Concat", r.constant([groups]), per_group, axis=0)
    for i in (1, 2):
        v = op.inputs[i]
        assert v is not None
        wide = r.before("Expand", r.before("Unsqueeze", v, r.constant([1])), target)
        op.inputs[i] = r.before("Reshape", wide, r.constant([-1]))


def _dft(r: _Rewriter, op: Operator) -> None:
    r.set_input(2, r.constant(op.attrs.pop("axis", 1)))


def _grid_sample(r: _Rewriter, op: Operator) -> None:
    op.attrs["mode"] = {"bilinear": "linear", "bicubic": "cubic"}.get(
        op.attrs.get("mode", "bilinear"), op.attrs.get("mode", "linear")
    )


def _roi_align(r: _Rewriter, op: Operator) -> None:
    op.attrs.setdefault("coordinate_transformation_mode", "output_half_pixel")


def _recurrent(r: _Rewriter, op: Operator) -> None:
    op.attrs.pop("output_sequence", None)


def _prelu(r: _Rewriter, op: Operator) -> None:
    """Before 7: a vector slope belonged to the channels."""
    slope = op.inputs[1]
    if slope is not None and slope.rank == 1 and slope.static_shape != (1,) and r.rank(0) > 2:
        op.inputs[1] = r.before("Unsqueeze", slope, r.constant(range(1, r.rank(0) - 1)))


def _tile(r: _Rewriter, op: Operator) -> None:
    tiles, axis = (v.value.numpy().item() if v is not None and v.value is not None else None for v in op.inputs[1:3])
    if tiles is None or axis is None:
        raise ModelError(f"{op}: a Tile of opset 1 with computed repeats cannot be lifted. Export with a newer opset.")
    repeats = [1] * r.rank(0)
    repeats[int(axis)] = int(tiles)
    op.inputs = [op.inputs[0], r.constant(repeats)]


def _old_scan(r: _Rewriter, op: Operator) -> None:
    """Before 9: every operand carries a batch on axis 0. A Scan over the batch, with the Scan over the sequence inside"""
    if op.inputs[0] is not None:
        raise ModelError(f"{op}: Scan of opset 8 with sequence_lens cannot be lifted. Export with opset 9 or newer.")
    operands, body, scanned = op.inputs[1:], op.attrs["body"], op.attrs["num_scan_inputs"]
    program = r.block.program
    shell = program.new_block(r.block, f"{body.name}_batch")
    body.parent = shell
    for formal, operand in zip(body.inputs, operands, strict=True):
        v = Variable(shell, program.fresh_name(f"{formal.name}/item"), _without_batch(operand))
        shell.inputs.append(shell.register(v))
    attrs: dict[str, Any] = {"body": body, "num_scan_inputs": scanned}
    if op.attrs.get("directions"):
        attrs["scan_input_directions"] = op.attrs["directions"]
    inner = Operator(shell, "Scan", list(shell.inputs), [], attrs)
    inner.outputs = [Variable(shell, program.fresh_name(f"{v.name}/item"), None, inner) for v in body.outputs]
    infer_leniently(inner)
    shell.append(inner)
    shell.outputs = [v for v in inner.outputs if v is not None]
    op.inputs, op.attrs = list(operands), {"body": shell, "num_scan_inputs": len(operands)}
    op.attr_info = None


def _without_batch(v: Variable | None) -> Type | None:
    if v is None or not isinstance(v.type, TensorType) or not v.type.dims:
        return None if v is None else v.type
    return TensorType(v.type.dtype, v.type.dims[1:])


_Adapter = Callable[[_Rewriter, Operator], None]
_ADAPTERS: dict[str, list[tuple[int, _Adapter]]] = {
    **{name: [(7, _broadcast)] for name in ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less")},
    **{name: [(13, _axes)] for name in ("Squeeze", "Unsqueeze", "ReduceSum")},
    **{f"Reduce{name}": [(18, _axes)] for name in ("Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")},
    **{name: [(13, _softmax)] for name in ("Softmax", "LogSoftmax", "Hardmax")},
    **{name: [(7, _recurrent)] for name in ("LSTM", "GRU", "RNN")},
    "Gemm": [(7, _gemm)],
    "Cast": [(6, _cast)],
    "Reshape": [(5, _reshape)],
    "Concat": [(4, _concat)],
    "Split": [(18, _split)],
    "Dropout": [(12, _dropout)],
    "BatchNormalization": [(14, _batch_normalization)],
    "Clip": [(11, _clip)],
    "Pad": [(11, _pad)],
    "Slice": [(10, _slice)],
    "TopK": [(10, _top_k)],
    "Upsample": [(21, _upsample)],
    "Resize": [(11, _resize)],
    "Scatter": [(21, _scatter)],
    "GroupNormalization": [(21, _group_normalization)],
    "DFT": [(20, _dft)],
    "GridSample": [(20, _grid_sample)],
    "RoiAlign": [(16, _roi_align)],
    "PRelu": [(7, _prelu)],
    "Tile": [(6, _tile)],
    "Scan": [(9, _old_scan)],
}
