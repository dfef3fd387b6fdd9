"""Low-rank branches of the experts in a fused MoE or QMoE, W + scale B A for each expert.

All experts are inside one operator, so nothing can be added to what their products give: the branch is added to the weight that the
operator reads. A QMoE becomes a MoE whose weights are computed from the integers, as an operator on integers reads no sum; its
file is as small as before, and onnxruntime computes the weights once, when it opens the file.

Tests: tests/training/surgery/test_experts.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.ir.contrib_schemas import contrib_schema
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.opset import CONTRIB_DOMAIN
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.traverse import all_operators_of
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.core.rules.contrib.experts import expert_weight
from onnxgrad.core.rules.contrib.node import ContribNode
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.errors import ModelError
from onnxgrad.training.surgery.heads import insert_before
from onnxgrad.training.surgery.lora_targets import EXPERTS, LoraTarget

__all__ = ["ExpertBranch", "adapt_experts", "expert_branches", "merge_experts"]

Array = np.ndarray[Any, Any]


class ExpertBranch(NamedTuple):
    """A branch in the weight of a MoE: the operator that adds it, what it is added to, and its pieces."""

    add: Operator
    weight: Variable
    a: Parameter
    b: Parameter
    scale: float


def adapt_experts(target: LoraTarget, rank: int, scale: float, rng: np.random.Generator) -> list[str]:
    """Add a branch to one weight of all experts; returns the names of A [experts, rank, inputs] and B [experts, outputs, rank]."""
    op, (experts, outputs, inputs) = target.op, target.shape
    block, program = op.block.program.global_block(), op.block.program
    index = _index_of(target)
    if op.type == "QMoE":
        _dequantise(op)
    weight = op.inputs[index]
    assert weight is not None
    pair = []
    values = rng.normal(0, 1 / np.sqrt(inputs), (experts, rank, inputs)), np.zeros((experts, outputs, rank))
    for label, value in zip("AB", values, strict=True):
        stored = TensorValue.of(value.astype(weight.dtype.numpy))
        pair.append(
            block.create_parameter(program.fresh_name(f"{target.name}.lora_{label}"), value.shape, weight.dtype, value=stored)
        )
    a, b = pair
    total = insert_before(op, lambda build: build.Add(weight, build.Mul(build.MatMul(b, a), scale)), f"{target.name}.lora")
    added = total.op
    assert added is not None
    for other in op.block.ops[: op.idx]:
        if other is added or any(v is added.inputs[1] for v in other.outputs) or any(v is b for v in other.inputs):
            other.metadata = {EXPERTS: target.name}
    op.inputs = [*op.inputs]
    op.inputs[index] = total
    return [p.name for p in pair]


def _index_of(target: LoraTarget) -> int:
    """Where a MoE of this layer reads the weight"""
    step = 3 if target.op.type == "QMoE" else 2
    return 2 + 2 * ((target.at - 2) // step)


def _dequantise(op: Operator) -> None:
    """Make a MoE of a QMoE, whose weights are computed from the integers"""
    node = ContribNode(op)
    node.refuse_unknown()
    if len(op.inputs) > 14 and op.inputs[14] is not None:
        raise ModelError(f"{op} has router_weights, which no operator on float weights reads. Adapt the other layers (layers=).")
    if op.attrs.get("quant_type", "int") not in ("int", b"int") or op.attrs.get("weights_prepacked", -1) == 1:
        raise ModelError(f"{op}: its weights are stored in a form for one processor. Adapt the other layers (layers=).")
    inputs: list[Variable | None] = [*op.inputs[:2]]
    for number in range(3):
        at = 3 * number + 2
        stored = op.inputs[at] if len(op.inputs) > at else None
        bias = op.inputs[at + 2] if len(op.inputs) > at + 2 else None
        weight = None
        if stored is not None:
            weight = insert_before(op, partial(expert_weight, node=node, index=number), f"{stored.name}.float")
        inputs += [weight, bias]
    known = contrib_schema("MoE", CONTRIB_DOMAIN, None)
    assert known is not None
    op.type, op.attr_info = "MoE", None
    op.attrs = {name: value for name, value in op.attrs.items() if name in known.attributes}
    while inputs[-1] is None:
        inputs.pop()
    op.inputs = inputs


def expert_branches(program: Program) -> list[ExpertBranch]:
    """Raises ModelError where a mark, which a file may hold, is on anything but a branch."""
    branches = []
    for add in all_operators_of(program.global_block()):
        if add.type == "Add" and not add.domain and EXPERTS in (add.metadata or {}):
            branch = _branch_at(add)
            if branch is None:
                raise ModelError(f"the branch of experts at {add} is not as add_lora made it. Export it without merging.")
            branches.append(branch)
    return branches


def _branch_at(add: Operator) -> ExpertBranch | None:
    weight, change = add.inputs
    scaled = None if change is None else change.op
    product = None if scaled is None or scaled.type != "Mul" or scaled.inputs[0] is None else scaled.inputs[0].op
    if weight is None or scaled is None or product is None or product.type != "MatMul":
        return None
    (b, a), scale = product.inputs, scaled.inputs[1]
    if not (isinstance(a, Parameter) and isinstance(b, Parameter)) or scale is None or scale.value is None or scale.value.size != 1:
        return None
    between = {id(v) for v in (change, scaled.inputs[0])}
    readers = [op for op in add.block.ops if any(id(v) in between for v in op.inputs)]
    used = [op for op in add.block.ops if any(v is add.outputs[0] for v in op.inputs)]
    shapes = a.static_shape, b.static_shape, weight.static_shape
    if len(readers) != 2 or any((op.domain, op.type) != (CONTRIB_DOMAIN, "MoE") for op in used) or len(used) != 1:
        return None
    left, right, whole = shapes
    if left is None or right is None or len(left) != 3 or len(right) != 3 or left[0] != right[0] or left[1] != right[2]:
        return None
    if whole is not None and whole != (left[0], right[1], left[2]):
        return None
    return ExpertBranch(add, weight, a, b, float(scale.get_value().reshape(())))


def merge_experts(program: Program, as_float: bool) -> None:
    """Add the branches of experts to stored weights, in place; those of integers stay, unless they are to become float ones."""
    for branch in expert_branches(program):
        stored = branch.weight.value is not None or isinstance(branch.weight, Parameter)
        if not stored and not as_float:
            continue
        if stored:
            value = branch.weight.get_value()
        else:
            (value,) = Executor().run(program, {}, [branch.weight])
        a, b = (v.get_value().astype(np.float64) for v in (branch.a, branch.b))
        merged = (np.asarray(value, np.float64) + branch.scale * (b @ a)).astype(branch.weight.dtype.numpy)
        block, y = program.global_block(), branch.add.outputs[0]
        name = branch.weight.name if stored else (branch.add.metadata or {})[EXPERTS]
        target: Variable = branch.weight
        readers = [op for op in all_operators_of(block) if any(v is branch.weight for v in op.inputs)]
        if stored and isinstance(branch.weight, Parameter) and len(readers) == 1:
            branch.weight.set_value(merged)
        else:
            target = block.create_parameter(
                program.fresh_name(f"{name}.merged"), merged.shape, branch.weight.dtype, value=TensorValue.of(merged)
            )
        for op in branch.add.block.ops:
            op.inputs = [target if v is y else v for v in op.inputs]
        _drop_unread(branch.add)


def _drop_unread(op: Operator) -> None:
    """Remove an operator whose result nothing reads any more, and those before it of which the same holds"""
    block = op.block
    if any(any(v is y for v in other.inputs) for y in op.outputs for other in block.ops):
        return
    block.ops = [other for other in block.ops if other is not op]
    for y in op.outputs:
        if y is not None:
            block.vars.pop(y.name, None)
    for v in op.inputs:
        if v is not None and v.op is not None and v.value is None and any(v.op is other for other in block.ops):
            _drop_unread(v.op)
