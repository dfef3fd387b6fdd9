"""compile: what some outputs of a program need, as a graph of its own that may be rewritten, run and written.

This is the only way from a program to a message or a session. A graph holds copies of operators, types, constants and names in a
program that nobody else sees, so nothing behind this door can write to the program that it came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module

import numpy as np

from onnxgrad.core.compile.branches import choose_branches
from onnxgrad.core.compile.empty import settle_empty
from onnxgrad.core.compile.float64 import AT_18, FORMS, needs_forms, write_float64
from onnxgrad.core.compile.order import order_for_memory
from onnxgrad.core.compile.plan import make_plan
from onnxgrad.core.compile.providers import lower
from onnxgrad.core.compile.statistics import protect_statistics
from onnxgrad.core.compile.windows import settle_pools
from onnxgrad.core.ir.bodies import drop_unread
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.copying import Copy
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.opset import NEWEST, OLDEST_WITH_RULES
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.scope import Scope
from onnxgrad.core.ir.simplify import SIMPLER, known_ints
from onnxgrad.core.ir.sizes import know_sizes
from onnxgrad.core.ir.traverse import needed_operators, substitute
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.lift import lift
from onnxgrad.errors import ArgumentError

__all__ = ["Graph", "Shapes", "compile"]

Shapes = Mapping[str, tuple[int, ...]]
"""Shapes of inputs by name."""


class Graph:
    """Operators, inputs, outputs and constants with their final names, in a program of their own.

    Attributes:
        source: the program it came from; it is read, for values and metadata.
        program: holds the copies and nothing else.
        scope: where the values of weights are.
        inputs: what is fed, and state where it is an input.
        outputs: names and variables; two names may stand for one variable.
        initializers: constants, and weights where they are no inputs.
        updates: for each state variable that a run replaces, its new value.
        own_shapes: of inputs and outputs that hold state as rows of another length: the shape of that state.
        is_whole: whether it is the program's own forward graph, to be written as it was loaded.
        is_fast: whether forms may round more than the operators they stand for.
        helpers: results of rewritten operators whose names mean nothing, so that they may take that of what they stand for.
    """

    def __init__(self, source: Program, hoists: bool) -> None:
        self.source = source
        self.program = source.empty_copy()
        self.copy = Copy(self.program, source, hoists)
        self.scope: Scope = source.active_scope()
        self.inputs: list[Variable] = []
        self.outputs: list[tuple[str, Variable]] = []
        self.initializers: list[Variable] = []
        self.updates: dict[Variable, Variable] = {}
        self.own_shapes: dict[Variable, tuple[int, ...]] = {}
        self.is_whole = False
        self.is_fast = False
        self.helpers: set[Variable] = set()
        self._stand_ins: dict[Variable, Variable] = {}

    @property
    def operators(self) -> list[Operator]:
        return self.program.global_block().ops

    @operators.setter
    def operators(self, operators: list[Operator]) -> None:
        self.program.global_block().ops = operators

    def of(self, v: Variable) -> Variable:
        """What stands for a variable of the source program here."""
        return self.copy.variables.get(v, v)

    def name(self, v: Variable) -> str:
        """The name here of a variable of the source program."""
        return self.of(v).name

    # Rewriting -------------------------------------------------------------------------------------------------------

    def resolve(self, v: Variable) -> Variable:
        """What a rewriting pass has replaced a variable by."""
        while v in self._stand_ins:
            v = self._stand_ins[v]
        return v

    def replace(self, old: Variable, new: Variable) -> None:
        """Let ``new`` stand for ``old``, under its name if it has none of its own; ``settle`` tells the readers."""
        if new.name == "" or new in self.helpers:
            variables = self.program.global_block().vars
            variables.pop(new.name, None)
            new._name = old.name
            variables[old.name] = new
            self.helpers.discard(new)
        self._stand_ins[old] = new

    def settle(self) -> None:
        """End a pass: let all operators read what stands in, keep what the outputs need, and hold the constants that are read."""
        if not self._stand_ins:
            return
        final = {v: self.resolve(v) for v in self._stand_ins}
        self._stand_ins = {}
        substitute(self.operators, final)
        self.outputs = [(name, self._named(name, v, final.get(v, v))) for name, v in self.outputs]
        self.updates = {v: final.get(new, new) for v, new in self.updates.items()}
        self.copy.variables = {v: final.get(twin, twin) for v, twin in self.copy.variables.items()}
        self.operators = needed_operators(self.operators, [v for _, v in self.outputs])
        self.take_constants()

    def _named(self, name: str, old: Variable, new: Variable) -> Variable:
        """An output under its name: a copy of what stands for it where that has another one."""
        if new.name == name:
            return new
        old.op = Operator(self.program.global_block(), "Identity", [new], [old])
        old.op.name = name
        self.operators.append(old.op)
        return old

    def take_constants(self) -> None:
        """Hold the constants that operators or outputs read, and no others."""
        given = set(self.inputs)
        read = dict.fromkeys(v for v in self._all_read() if v.op is None and v not in given)
        held = [v for v in self.initializers if v in read]
        main, known = self.program.global_block(), set(held)
        held += [v for v in read if v.block is main and v.value is not None and v not in known]
        self.initializers = held

    def _all_read(self) -> Iterable[Variable]:
        for op in self.operators:
            yield from (v for v in op.operands() if v is not None)
        yield from (v for _, v in self.outputs)


def compile(
    program: Program,
    outputs: Sequence[Variable] | None,
    provider: str | None = None,
    shapes: Shapes | None = None,
    *,
    state_as_inputs: bool = False,
    updates: bool = True,
    given: Sequence[Variable] = (),
    ordered: bool = False,
    runs: bool = False,
    fast: bool = False,
    chunk: int = 0,
) -> Graph:
    """The graph that computes some outputs of a program, pruned to what they need. The program is not changed.

    Args:
        program: any program.
        outputs: variables to compute. None for the program's own outputs with its forward operators as they were loaded.
        provider: ``"cpu"``, ``"cuda"`` or another one (``PROVIDERS``) for the forms that it needs or runs faster;
            None for plain ones.
        shapes: of inputs, where they are known although the program leaves them open.
        state_as_inputs: whether persistable variables are inputs of the graph instead of initializers.
        updates: with ``state_as_inputs``, whether the new values of all state are outputs.
        given: variables that are inputs, and not computed.
        ordered: whether the operators are put in the order in which onnxruntime holds few tensors at a time, and an opset that
            no onnxruntime loads is brought down where that is possible. Implied by ``provider``.
        runs: whether onnxruntime's CPU provider is to run it, so that operators for which it has no float64 kernel are written out.
            Implied by ``ordered``, unless another provider is named.
        fast: whether the provider's forms may round more than the operators they stand for.
        chunk: elements of large state that updates take at a time, 0 for all. Such state is then given as [rows, columns].

    Raises:
        ArgumentError: if the provider is not known, or the program is in an opset that its forms are not written in.
    """
    if outputs is None:
        graph = _whole(program)
    elif program.training_pending:
        trained, twins = program.clone_with_variables()
        lift(trained)
        new_values = trained.updates if state_as_inputs and updates else {}
        graph = _pruned(trained, [twins[v] for v in outputs], new_values, state_as_inputs, [twins[v] for v in given])
        graph.copy.variables.update((v, graph.of(twin)) for v, twin in twins.items())
    else:
        new_values = program.updates if state_as_inputs and updates else {}
        graph = _pruned(program, list(outputs), new_values, state_as_inputs, given)
    if shapes:
        know_sizes(graph.operators, lambda v: shapes.get(v.name, v.dims or ()))
        _fold_shapes(graph)
        import_module("onnxgrad.core.compile.folding").fold_constants(graph)
        _fold_shapes(graph)
    if ordered and (graph.program.opset_version() or 1) > NEWEST:
        graph.program.functions = {key: f.copy(graph.program.functions) for key, f in graph.program.functions.items()}
        lift(graph.program)
        graph.take_constants()
    if not graph.is_whole:
        choose_branches(graph)
        main = graph.program.global_block()
        if settle_pools(main) | settle_empty(main) | protect_statistics(main, {v for _, v in graph.outputs}):
            graph.take_constants()
    on_cpu = provider == "cpu" or (provider is None and (runs or ordered))
    _write_out_float64(graph, on_cpu)
    if on_cpu or str(provider).startswith("openvino"):
        import_module("onnxgrad.core.compile.bfloat16").write_out_bfloat16(graph)
    if provider is not None:
        graph.is_fast = fast
        lower(graph, provider)
    if chunk:
        import_module("onnxgrad.core.compile.chunks").update_in_chunks(graph, chunk)
    if any(op.role is Role.BACKWARD for op in graph.operators) and any(op.type == "DequantizeLinear" for op in graph.operators):
        import_module("onnxgrad.core.compile.integers").move_integers(graph)
    if ordered or provider is not None:
        graph.operators = order_for_memory(graph.operators)
    return graph


def _write_out_float64(graph: Graph, runs: bool) -> None:
    """Write out what has no float64 kernel; where the graph is not to be run, only what the file's own opset had as a function."""
    source = graph.source
    if not runs and (source.is_oracle or source.lifted_from not in _WITH_FUNCTIONS):
        return
    forms = FORMS if runs else AT_18
    version = graph.program.opset_version() or 1
    if needs_forms(graph, forms.keys() - AT_18.keys() if version == _WITH_FUNCTIONS[-1] else forms):
        if version < OLDEST_WITH_RULES:
            lift(graph.program)
        write_float64(graph, forms)


_WITH_FUNCTIONS = (16, 17, 18)
"""Opsets in which onnxruntime takes operators of ``AT_18`` for functions, of any element type; in the last, all of them."""


def _pruned(
    program: Program,
    outputs: list[Variable],
    new_values: Mapping[Variable, Variable],
    state_as_inputs: bool,
    given: Sequence[Variable],
) -> Graph:
    graph = Graph(program, hoists=True)
    plan = make_plan(program, [*outputs, *new_values.values()], given)
    leaves, fed = set(plan.leaves), set(given)
    main = program.global_block()
    for v in main.inputs:
        if v in leaves and not v.persistable and v.value is None:
            graph.inputs.append(graph.copy.leaf(v))
    known = set(graph.inputs)
    for v in plan.leaves:
        if v.block is not main and not v.persistable:
            continue
        twin = graph.copy.leaf(v)
        if twin in known:
            continue
        if v.persistable and state_as_inputs:
            graph.inputs.append(twin)
        elif v.persistable or (v.value is not None and v.op is None):
            graph.initializers.append(twin)
        elif v in fed or (v.op is None and v.block is main):
            graph.inputs.append(twin)
        known.add(twin)
    _copy_operators(graph, plan.operators, plan.aliases)
    taken: set[str] = set()
    for v in [*outputs, *new_values.values()]:
        twin = graph.copy.leaf(v)
        if twin.name not in taken:
            taken.add(twin.name)
            graph.outputs.append((twin.name, twin))
    if state_as_inputs:
        returned, copies = {v for _, v in graph.outputs}, graph.copy.variables
        changed = [(v, new) for v, new in program.updates.items() if copies.get(new) in returned]
        graph.updates = {graph.copy.leaf(v): copies[new] for v, new in changed}
    _drop_unread_outputs(graph)
    read = set(graph._all_read())
    for op in graph.operators:
        if op.type == "Scan" and not op.domain:
            drop_unread(op, read)
    for key, v in program._constants.items():
        if v in graph.copy.variables:
            graph.program._constants[key] = graph.copy.variables[v]
    return graph


def _copy_operators(graph: Graph, operators: list[Operator], aliases: dict[Variable, Variable]) -> None:
    """Copy in order. What an expansion computes has the name of what it stands for, and is read in its place."""
    named: dict[Variable, str] = {}
    originals: dict[Variable, list[Variable]] = {}
    stand_ins = set(aliases.values())
    for original, computed in aliases.items():
        while computed in aliases:
            computed = aliases[computed]
        originals.setdefault(computed, []).append(original)
        if original not in stand_ins:
            named[computed] = original.name
    copies, block = graph.copy.variables, graph.program.global_block()
    for op in operators:
        graph.copy.operator(op, block, named)
        for v in op.outputs:
            for original in originals.get(v, ()) if v is not None else ():
                twin = copies[original] = copies[v]  # type: ignore[index]
                if original not in stand_ins:
                    twin.declared, twin.doc = original.declared, original.doc


def _drop_unread_outputs(graph: Graph) -> None:
    """Leave out the outputs that a gradient rule added to an operator and that this graph does not read."""
    extended = [op for op in graph.operators if op.declared_outputs is not None]
    if not extended:
        return
    read = set(graph._all_read())
    for op in extended:
        declared = op.declared_outputs or 0
        op.outputs = [v if i < declared or v in read else None for i, v in enumerate(op.outputs)]
        while len(op.outputs) > declared and op.outputs[-1] is None:
            op.outputs.pop()


def _whole(program: Program) -> Graph:
    """The forward graph with the program's own outputs, for a file like the one that was loaded."""
    if not program.outputs:
        raise ArgumentError("this program was built in Python and names no outputs. Pass outputs=[...].")
    main = program.global_block()
    if any(v.op is not None and v.op.role is not Role.FORWARD for v in main.outputs):
        # The file itself returns gradients or updates.
        graph = _pruned(program, main.outputs, {}, False, ())
        graph.inputs = [graph.copy.leaf(v) for v in main.inputs if v.value is None and not v.persistable]
        return graph
    graph = Graph(program, hoists=False)
    graph.is_whole = True
    forward = [op for op in main.ops if op.role is Role.FORWARD and op.replaces is None]
    operators = needed_operators(forward, [*main.outputs, *(v for op in forward if op.loaded for v in op.outputs)])
    used = {v for op in operators for v in op.operands() if v is not None} | set(main.outputs)
    leaf = graph.copy.leaf
    graph.inputs = [leaf(v) for v in main.inputs if v in used or v.declared is not None]
    graph.initializers = [leaf(v) for v in main.initializers if v.op is None and (v in used or _was_loaded(v))]
    for op in operators:
        graph.copy.operator(op, graph.program.global_block())
    graph.outputs = [(v.name, leaf(v)) for v in main.outputs]
    graph.program.global_block().value_infos = [leaf(v) for v in main.value_infos]
    _drop_unread_outputs(graph)
    return graph


def _was_loaded(v: Variable) -> bool:
    return v.value is not None and v.value.origin is not None


def _fold_shapes(graph: Graph) -> None:
    """Leave out arithmetic on shapes that are known, and changes of a shape to itself."""
    build = Builder(graph.program.global_block(), [])
    returned = {v for _, v in graph.outputs}
    for op in graph.operators:
        v = op.outputs[0] if len(op.outputs) == 1 and not op.domain else None
        if v is None or v in returned:
            continue
        found = _known_integers(graph, v)
        if found is None and op.type in ("Shape", "Size", "Expand", "Reshape"):
            found = SIMPLER[op.type](build, [graph.resolve(x) for x in op.inputs if x is not None], op.attrs)
        if found is not None:
            graph.replace(v, found)
    graph.settle()


def _known_integers(graph: Graph, v: Variable) -> Variable | None:
    """A small vector of integers whose elements are all known, as a constant."""
    entries = known_ints(v) if v.entries is not None and v.static_shape is not None and v.dtype.is_integer else None
    if entries is None:
        return None
    return graph.program.constant(np.array(entries, v.dtype.numpy).reshape(v.static_shape or ()))
