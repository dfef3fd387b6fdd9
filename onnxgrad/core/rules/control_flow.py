"""If: the gradient of a branch is a branch that computes forward and then backward."""

from __future__ import annotations

from collections.abc import Iterable

from onnxgrad.core.ir.bodies import as_tuple, finish_body
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.types import Dims
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import zeros_like
from onnxgrad.core.rules.registry import gradient


@gradient("If")
def if_(op, node, *gys):
    """The same If; each branch computes its forward again and the gradients of what it captured, zeros for the rest"""
    wanted = [v for v, is_wanted in zip(node.captures, node.wanted_captures, strict=True) if is_wanted]
    bodies = {}
    branches = ("then_branch", "else_branch")
    returned = zip(*(node.attr(name).outputs for name in branches), strict=True)
    arriving = [_without_shape(op, g, y, of_branches) for g, y, of_branches in zip(gys, node.outputs, returned, strict=True)]
    for name in branches:
        branch, grads = node.differentiate_body(node.attr(name), op.block, arriving, wanted)
        build = Builder(branch, key="zero", role=Role.BACKWARD)
        finish_body(branch, [zeros_like(build, v) if g is None else g for v, g in zip(wanted, grads, strict=True)], build)
        bodies[name] = branch
    results = iter(as_tuple(op.If(node.inputs[0], outputs=len(wanted), **bodies)))
    return None, *(next(results) if is_wanted else None for is_wanted in node.wanted_captures)


def _without_shape(op: Builder, g: Variable | None, y: Variable | None, of_branches: Iterable[Variable]) -> Variable | None:
    """g as a tensor of whatever shape y has, where the shape that it is known to have is not that of both branches"""
    if g is None or y is None or not any(_contradicts(g.dims, v.dims) for v in of_branches):
        return g
    return op.Reshape(g, op.Shape(y), allowzero=1)


def _contradicts(a: Dims | None, b: Dims | None) -> bool:
    if a is None or b is None:
        return False
    return len(a) != len(b) or any(isinstance(m, int) and isinstance(n, int) and m != n for m, n in zip(a, b, strict=True))
