"""Detectors whose decoding is in 8-bit integers: pairs of QuantizeLinear and DequantizeLinear, seen as what they round.

Tests: tests/training/detection/test_rounding.py.
"""

from __future__ import annotations

from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import all_operators_of, substitute
from onnxgrad.core.ir.variable import Variable

__all__ = ["rounded_tensors", "take_out_rounding"]


def rounded_tensors(program: Program) -> dict[Variable, Variable]:
    """Find the result of each pair of QuantizeLinear and DequantizeLinear in the main graph, by the tensor that it rounds.

    Of a tensor that several pairs round, the first one counts.

    Example:
        >>> rounded_tensors(program)  # doctest: +SKIP
        {Variable(boxes: float32[N, 8400, 4]): Variable(boxes_dequantized: float32[N, 8400, 4])}
    """
    pairs: dict[Variable, Variable] = {}
    for op in program.global_block().ops:
        x = _rounded_by(op)
        result = op.outputs[0] if op.outputs else None
        if x is not None and result is not None:
            pairs.setdefault(x, result)
    return pairs


def _rounded_by(op: Operator) -> Variable | None:
    """The tensor that is read as integers by an operator, if this makes numbers of them again"""
    if op.domain != "" or op.type != "DequantizeLinear" or op.inputs[0] is None:
        return None
    before = op.inputs[0].op
    if before is None or before.domain != "" or before.type != "QuantizeLinear":
        return None
    return before.inputs[0]


def take_out_rounding(program: Program) -> None:
    """Let the operators of the main graph, and its outputs, read what pairs of QuantizeLinear and DequantizeLinear round.

    Args:
        program: it is changed.

    Example:
        >>> take_out_rounding(program.clone())  # doctest: +SKIP
    """
    block = program.global_block()
    origins: dict[Variable, Variable] = {}
    for op in block.ops:
        x = _rounded_by(op)
        result = op.outputs[0] if op.outputs else None
        if x is not None and result is not None:
            origins[result] = origins.get(x, x)
    substitute(block.ops, origins)
    block.outputs = [origins.get(v, v) for v in block.outputs]
    for kind in ("DequantizeLinear", "QuantizeLinear"):  # what nothing reads any more would be a reader itself
        read = {v for op in all_operators_of(block) for v in op.operands()} | set(block.outputs)
        block.ops = [op for op in block.ops if op.type != kind or any(v in read for v in op.outputs)]
    program.version += 1
