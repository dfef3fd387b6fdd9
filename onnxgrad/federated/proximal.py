"""The proximal term of FedProx as operators of a step: mu / 2 times the squared distance from the weights of all.

Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith, "Federated optimization in heterogeneous networks", MLSys 2020, equation 2.

Tests: tests/federated/test_worker.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from onnxgrad.core.graph.contract import Lowering
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import dependent_operators
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.core.step.cut import exchanged_gradients, is_applied
from onnxgrad.core.step.export import Fetch, Manifest, save_training_step
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import checked

__all__ = ["ANCHORS", "MU", "save_step", "with_proximal"]

MU, ANCHORS = "proximal_mu", "@ANCHOR"


def with_proximal(program: Program) -> Program:
    """A copy of a program whose optimizer sees ``gradient + mu (w - anchor)``, the gradient of the loss with the term.

    Clipping and decay see that sum. The constant ``proximal_mu``, first 0, and for each weight w the constant ``w@ANCHOR`` are to
    be set from outside; the loss that is reported is without the term.

    Args:
        program: one that ``minimize`` was called on.

    Raises:
        ArgumentError: if a weight is updated by something other than one gradient of its shape: scaled losses, sparse rows.
    """
    copy = program.clone()
    applied = [new for new in copy.updates.values() if is_applied(new)]
    if not applied:
        raise ArgumentError("no optimizer updates this program. Call minimize on the loss first.")
    if any(v.name.startswith("loss_scaling") for v in copy.list_vars() if v.persistable):
        raise ArgumentError("the gradients here belong to a scaled loss. Train with loss_scale=0, or without FedProx.")
    trained = [v for v, new in copy.updates.items() if isinstance(v, Parameter) and is_applied(new)]
    gradients = _gradients(copy, applied, trained)
    block = copy.global_block()
    mu = copy.create_global_var(MU, np.array(0, np.float32))
    written, block.ops = block.ops, []
    op = Builder(block, role=Role.OPTIMIZE, key="proximal")
    sums: dict[Variable, Variable] = {}
    for p in trained:
        anchor = copy.create_global_var(p.name + ANCHORS, p.get_value())
        pull = op.Mul(op.Sub(p, anchor), op.Cast(mu, to=p.dtype.number))
        g = gradients[p]
        sums[g] = op.Add(g, op.Cast(pull, to=g.dtype.number))
    added, block.ops = block.ops, written
    readers = [other for other in written if other.role is Role.OPTIMIZE]
    first = min(block.ops.index(other) for other in readers if any(v in sums for v in other.inputs if v is not None))
    for other in readers:
        other.inputs = [v if v is None else sums.get(v, v) for v in other.inputs]
    block.ops[first:first] = added
    copy.version += 1
    return copy


def _gradients(program: Program, applied: list[Variable], trained: list[Parameter]) -> dict[Parameter, Variable]:
    named = {p: re.compile(rf"(.*/)?{re.escape(p.grad_name)}(_\d+)?") for p in trained}
    grads: dict[Parameter, Variable] = {}
    by_parameters = {v for op in dependent_operators(program.global_block().ops, trained) for v in op.outputs}
    for g in exchanged_gradients(program, applied):
        p = next((own for own, name in named.items() if name.fullmatch(g.name)), None)
        if p is None and g not in by_parameters:
            continue  # what the loss of a micro-batch is divided by
        if p is None or p in grads or g.static_shape != p.static_shape:
            raise ArgumentError(f"{g.name}, which the optimizer reads, is not the gradient of one weight. Train without FedProx.")
        grads[p] = g
    missing = [p.name for p in trained if p not in grads]
    if missing:
        raise ArgumentError(f"the gradients of {missing} are not read by the optimizer. Train without FedProx.")
    return grads


@checked
def save_step(program: Program, path: str | Path, fetch: Fetch, *, lowering: Lowering | None = None) -> Manifest:
    """``save_training_step`` of the program with the proximal term, for participants that know files only.

    Args:
        program: one that ``minimize`` was called on.
        path, fetch, lowering: as for ``save_training_step``.

    Returns:
        The manifest. Its constant ``proximal_mu`` is 0 at first; before a round, set it, and each constant ``w@ANCHOR`` to the
        weight w that came.

    Raises:
        ArgumentError: as for the program's optimizer (see ``with_proximal``); FileError if a file cannot be written.

    Example:
        >>> manifest = save_step(program, "out/step", [loss])  # doctest: +SKIP
    """
    names = [v if isinstance(v, str) else v.name for v in ([fetch] if isinstance(fetch, (Variable, str)) else fetch)]
    return save_training_step(with_proximal(program), path, names, lowering=lowering)
