"""If: the gradient of a branch is a branch that computes forward and then backward."""

from __future__ import annotations

from onnxgrad.core.ir.bodies import as_tuple, finish_body
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.rules.common import zeros_like
from onnxgrad.core.rules.registry import gradient


@gradient("If")
def if_(op, node, *gys):
    """The same If; each branch computes its forward again and the gradients of what it captured, zeros for the rest"""
    wanted = [v for v, is_wanted in zip(node.captures, node.wanted_captures, strict=True) if is_wanted]
    bodies = {}
    for name in ("then_branch", "else_branch"):
        branch, found = node.differentiate_body(node.attr(name), op.block, list(gys), wanted)
        build = Builder(branch, key="zero", role=Role.BACKWARD)
        finish_body(branch, [zeros_like(build, v) if g is None else g for v, g in zip(wanted, found, strict=True)], build)
        bodies[name] = branch
    results = iter(as_tuple(op.If(node.inputs[0], outputs=len(wanted), **bodies)))
    return None, *(next(results) if is_wanted else None for is_wanted in node.wanted_captures)
