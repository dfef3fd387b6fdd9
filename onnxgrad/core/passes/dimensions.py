"""Give every unknown dimension a symbol, so that inference can tell which ones are equal.

Without it nothing is known of ``x + tanh(x)`` when the sizes of ``x`` are not: each gradient would be summed back to its
operand's shape at run time. The symbols are ours; files and users see an unknown dimension.

Tests: tests/core/autodiff/test_append_backward.py, tests/core/passes/test_contract.py.
"""

from __future__ import annotations

from onnxgrad.core.graph.contract import ProgramPass, Target
from onnxgrad.core.ir.infer import infer_leniently
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.types import TensorType, fresh_dim
from onnxgrad.core.ir.variable import Variable

__all__ = ["NAME_DIMENSIONS"]


def _name_dimensions(program: Program, target: Target) -> int:
    """Name the unknown dimensions of the main block's variables; bodies inside it stay as they are."""
    block, named = program.global_block(), 0
    for v in block.vars.values():
        if v.op is None:
            named += _name(v)
    for op in block.ops:
        unknown = [v for v in op.outputs if v is not None and not _is_known(v)]
        if unknown or any(v is not None and v.entries is not None and None in v.entries for v in op.outputs):
            infer_leniently(op)
            for v in unknown:
                named += _name(v)
    return named


NAME_DIMENSIONS = ProgramPass("name_dimensions", _name_dimensions)


def _is_known(v: Variable) -> bool:
    return isinstance(v.type, TensorType) and v.type.dims is not None and None not in v.type.dims


def _name(v: Variable) -> bool:
    """Name the unknown dimensions of a variable, and return whether it has some"""
    if not isinstance(v.type, TensorType) or v.type.dims is None or None not in v.type.dims:
        return False
    v.type = TensorType(v.type.dtype, tuple(fresh_dim() if dim is None else dim for dim in v.type.dims))
    return True
