"""From a program to a graph: pruned to what some outputs need, or whole, as the file was that it was loaded from.

Tests: tests/core/compile/test_compile.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.plan import make_plan
from onnxgrad.core.ir.bodies import drop_unread
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import needed_operators
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError

__all__ = ["pruned_graph", "whole_graph"]


def pruned_graph(
    program: Program,
    outputs: list[Variable],
    new_values: Mapping[Variable, Variable],
    state_as_inputs: bool,
    inputs: Sequence[Variable],
    constants: Collection[Variable] = (),
) -> Graph:
    """Prune a program to the operators that some outputs, and the new values of its state, need.

    Args:
        program: any program.
        outputs: variables to compute.
        new_values: for each state variable that is replaced, its new value, which is an output too.
        state_as_inputs: whether persistable variables are inputs of the graph instead of initializers.
        inputs: variables that are inputs, and not computed.
        constants: persistable variables that are initializers all the same.
    """
    graph = Graph(program, hoists=True)
    plan = make_plan(program, [*outputs, *new_values.values()], inputs)
    leaves, fed, held = set(plan.leaves), set(inputs), set(constants)
    main = program.global_block()
    for v in main.inputs:
        if v in leaves and not v.persistable and v.value is None:
            graph.inputs.append(graph.copy.read(v))
    known = set(graph.inputs)
    for v in plan.leaves:
        if v.block is not main and not v.persistable:
            continue
        copy = graph.copy.read(v)
        if copy in known:
            continue
        if v.persistable and state_as_inputs and v not in held:
            graph.inputs.append(copy)
        elif v.persistable or (v.value is not None and v.op is None):
            graph.initializers.append(copy)
        elif v in fed or (v.op is None and v.block is main):
            graph.inputs.append(copy)
        known.add(copy)
    _copy_operators(graph, plan.operators, plan.aliases)
    taken: set[str] = set()
    for v in [*outputs, *new_values.values()]:
        copy = graph.copy.read(v)
        if copy.name not in taken:
            taken.add(copy.name)
            graph.outputs.append((copy.name, copy))
    if state_as_inputs:
        returned, copies = {v for _, v in graph.outputs}, graph.copy.variables
        changed = [(v, new) for v, new in {**program.updates, **new_values}.items() if copies.get(new) in returned]
        graph.updates = {graph.copy.read(v): copies[new] for v, new in changed}
    _drop_unread_outputs(graph)
    read = set(graph.all_read())
    for op in graph.operators:
        if op.type == "Scan" and not op.domain:
            drop_unread(op, read)
    for key, v in program._constants.items():
        if v in graph.copy.variables:
            graph.program._constants[key] = graph.copy.variables[v]
    return graph


def _copy_operators(graph: Graph, operators: list[Operator], aliases: dict[Variable, Variable]) -> None:
    """Copy operators in order. The outputs of an expansion get the names of the original's outputs and are read in their place."""
    originals: dict[Variable, list[Variable]] = {}
    replacements = set(aliases.values())
    for original, computed in aliases.items():
        while computed in aliases:
            computed = aliases[computed]
        originals.setdefault(computed, []).append(original)
        if original not in replacements:
            graph.copy.names[computed] = original.name
    copies, block = graph.copy.variables, graph.program.global_block()
    for op in operators:
        graph.copy.append(op, block)
        for v in op.outputs:
            for original in originals.get(v, ()) if v is not None else ():
                copy = copies[original] = copies[v]  # type: ignore[index]
                if original not in replacements:
                    copy.declared, copy.doc = original.declared, original.doc


def _drop_unread_outputs(graph: Graph) -> None:
    """Leave out the outputs that a gradient rule added to an operator and that this graph does not read."""
    extended = [op for op in graph.operators if op.declared_outputs is not None]
    if not extended:
        return
    read = set(graph.all_read())
    for op in extended:
        declared = op.declared_outputs or 0
        op.outputs = [v if i < declared or v in read else None for i, v in enumerate(op.outputs)]
        while len(op.outputs) > declared and op.outputs[-1] is None:
            op.outputs.pop()


def whole_graph(program: Program) -> Graph:
    """The forward graph with the program's own outputs, for a file like the one that was loaded."""
    if not program.outputs:
        raise ArgumentError("this program was built in Python and names no outputs. Pass outputs=[...].")
    main = program.global_block()
    if any(v.op is not None and v.op.role is not Role.FORWARD for v in main.outputs):
        # The file itself returns gradients or updates.
        graph = pruned_graph(program, main.outputs, {}, False, ())
        graph.inputs = [graph.copy.read(v) for v in main.inputs if v.value is None and not v.persistable]
        return graph
    graph = Graph(program, hoists=False)
    graph.is_whole = True
    forward = [op for op in main.ops if op.role is Role.FORWARD and op.replaces is None]
    operators = needed_operators(forward, [*main.outputs, *(v for op in forward if op.loaded for v in op.outputs)])
    used = {v for op in operators for v in op.operands() if v is not None} | set(main.outputs)
    read = graph.copy.read
    graph.inputs = [read(v) for v in main.inputs if v in used or v.declared is not None]
    graph.initializers = [read(v) for v in main.initializers if v.op is None and (v in used or _was_loaded(v))]
    for op in operators:
        graph.copy.append(op, graph.program.global_block())
    graph.outputs = [(v.name, read(v)) for v in main.outputs]
    graph.program.global_block().value_infos = [read(v) for v in main.value_infos]
    _drop_unread_outputs(graph)
    return graph


def _was_loaded(v: Variable) -> bool:
    return v.value is not None and v.value.origin is not None
