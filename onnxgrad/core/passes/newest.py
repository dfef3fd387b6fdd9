"""Opsets 27 and 28, which no onnxruntime loads yet, in the forms of 26: most of their changes only admit more element types.

Tests: tests/core/passes/test_newest.py.
"""

from __future__ import annotations

from collections.abc import Callable

from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable

__all__ = ["rewrite_newer"]


def rewrite_newer(block: Block) -> int:
    """Write the operators of a block that have no form of opset 26 as several that do, where possible, and return how many."""
    rewrites = 0
    ops, block.ops = block.ops, []
    for op in ops:
        rule = _REWRITTEN.get(op.type) if op.domain == "" else None
        if rule is not None:
            rewrites += _replace(block, op, rule)
        else:
            block.ops.append(op)
    return rewrites


def _replace(block: Block, op: Operator, rule: Callable[[Builder, Operator], Variable | None]) -> bool:
    final = op.outputs[0]
    assert final is not None
    stage: list[Operator] = []
    result = rule(Builder(block, stage, op.role, final.name), op)
    if result is None:
        block.ops.append(op)
        return False
    last = result.op
    assert last is stage[-1]
    last.outputs, last.loaded, final.op = [final], op.loaded, last
    for operator in stage:
        for v in operator.outputs:
            if v is not None and v is not final:
                v._name = block.program.fresh_name(f"{final.name}/{operator.type}")
                block.register(v)
        operator.name = next(v.name for v in operator.outputs if v is not None)
        block.ops.append(operator)
    return True


def _mod(op: Builder, node: Operator) -> Variable | None:
    """A remainder of floats with the sign of the divisor; 26 has the one with the sign of the dividend"""
    x, y = node.inputs
    if node.attrs.get("fmod") or x is None or not x.is_float:
        return None
    rest = op.Mod(x, y, fmod=1)
    against = op.And(op.Not(op.Equal(rest, 0.0)), op.Xor(op.Less(rest, 0.0), op.Less(y, 0.0)))
    return op.Where(against, op.Add(rest, y), rest)


def _space_to_depth(op: Builder, node: Operator) -> Variable | None:
    """Blocks in the order column, row, depth: those of the plain form, with the channels moved"""
    x, size = node.inputs[0], node.attrs["blocksize"]
    mode = node.attrs.pop("mode", "DCR")
    if mode == "DCR":
        return None
    blocks = op.SpaceToDepth(x, blocksize=size)
    n, c = op.Shape(x, start=0, end=1), op.Shape(x, start=1, end=2)
    space = op.Shape(blocks, start=2)
    apart = op.Reshape(blocks, op.Concat(n, [size * size], c, space, axis=0), allowzero=1)
    moved = op.Transpose(apart, perm=[0, 2, 1, 3, 4])
    return op.Reshape(moved, op.Shape(blocks), allowzero=1)


def _celu(op: Builder, node: Operator) -> Variable | None:
    """alpha Elu(x / alpha): 26 has it in float32 only"""
    (x,) = node.inputs
    alpha = node.attr("alpha")
    if x is None or (x.type is not None and x.dtype.name == "float32"):
        return None
    return op.Mul(op.Elu(op.Div(x, alpha), alpha=1.0), alpha)


def _range(op: Builder, node: Operator) -> Variable | None:
    """Write a Range of 16-bit floats in float32, as ``stash_type`` says"""
    stash = node.attrs.pop("stash_type", 1)
    first = node.inputs[0]
    if first is None or first.type is None or first.dtype.name not in ("float16", "bfloat16"):
        return None
    wide = op.Range(*(op.Cast(v, to=stash) for v in node.inputs))
    return op.Cast(wide, to=first.dtype.number)


_REWRITTEN: dict[str, Callable[[Builder, Operator], Variable | None]] = {
    "Mod": _mod,
    "SpaceToDepth": _space_to_depth,
    "Celu": _celu,
    "Range": _range,
}
