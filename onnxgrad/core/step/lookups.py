"""Let an optimizer that updates the rows that a batch looks up, and no others, update those that any rank looks up.

Of several ranks, each looks up other rows, as many as its part has. What they can add up is the gradient of the whole table, and
which rows any of them has looked up: both have known shapes.

Tests: tests/distributed/test_lookups.py.
"""

from __future__ import annotations

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.plan import Lookup
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import substitute

__all__ = ["share_lookups"]


def share_lookups(program: Program, *, as_numbers: bool = False) -> list[str]:
    """Let what an optimizer reads of lookups be the gradient of the whole table, and a flag for each row that is looked up.

    In one process the step computes what it did, to the rounding of sums of rows that are looked up several times.

    Args:
        program: that an optimizer updates; it is changed, where such an optimizer does.
        as_numbers: whether flags travel as float32 numbers, above 0 where a row is looked up, for others than ranks, who add up or
            average all that travels.

    Returns:
        A line for each table; nothing the second time.
    """
    lookups, program.plan.lookups = program.plan.lookups, []
    for lookup in lookups:
        _share(program, lookup, as_numbers)
    if lookups:
        program.version += 1
    return [
        f"{lookup.whole.name} travels whole, with a flag for each row that is looked up, as each rank looks up other rows."
        for lookup in lookups
    ]


def _share(program: Program, lookup: Lookup, as_numbers: bool) -> None:
    block = program.global_block()
    replaced = {lookup.index, lookup.gradient}
    first = next(at for at, op in enumerate(block.ops) if not replaced.isdisjoint(op.operands()))
    readers, count = block.ops[first:], len(block.ops)
    assert lookup.whole.dims is not None
    size = lookup.whole.dims[0]
    build = Builder(block, role=Role.BACKWARD, key="lookups")
    positions = build.Mod(build.Cast(lookup.positions, to=7), size)
    ones = build.Expand(1.0, build.Shape(positions))
    times = build.ScatterElements(build.constant(np.zeros(size, np.float32)), positions, ones, axis=0, reduction="add")
    apply = Builder(block, role=Role.OPTIMIZE, key="lookups")
    is_looked_up = (apply if as_numbers else build).Greater(times, 0.0)
    index = apply.Reshape(apply.NonZero(is_looked_up), [-1])
    substitute(readers, {lookup.index: index, lookup.gradient: apply.Gather(lookup.whole, index)})
    operators = block.ops[count:]
    del block.ops[count:]
    block.ops[first:first] = operators  # before what reads them
