"""compile: what some outputs of a program need, as a graph of its own that may be rewritten, run and written.

This is the only way from a program to a message or a session. A graph holds copies of operators, types, constants and names in a
program that nobody else sees, so nothing behind this door can write to the program that it came from.

Tests: tests/core/compile/test_compile.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from onnxgrad.core.graph.contract import GraphPass, Pass, Shapes, Target
from onnxgrad.core.graph.from_program import pruned_graph, whole_graph
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.manager import run_passes, run_program_pass
from onnxgrad.core.graph.order import order_for_memory
from onnxgrad.core.graph_passes.bfloat16 import BFLOAT16
from onnxgrad.core.graph_passes.branches import BRANCHES
from onnxgrad.core.graph_passes.ceil_pools import CEIL_POOLS
from onnxgrad.core.graph_passes.contrib_kernels import CONTRIB_KERNELS
from onnxgrad.core.graph_passes.empty import EMPTY
from onnxgrad.core.graph_passes.float64 import FLOAT64
from onnxgrad.core.graph_passes.fold import FOLD
from onnxgrad.core.graph_passes.label_range import LABEL_RANGE
from onnxgrad.core.graph_passes.running_stats import RUNNING_STATS
from onnxgrad.core.graph_passes.schema_bodies import SCHEMA_BODIES
from onnxgrad.core.graph_passes.sink_dequantize import SINK_DEQUANTIZE
from onnxgrad.core.graph_passes.tile_updates import TILE_UPDATES
from onnxgrad.core.ir.opset import NEWEST
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.dimensions import NAME_DIMENSIONS
from onnxgrad.core.passes.lift import lift
from onnxgrad.core.providers.registry import passes_of
from onnxgrad.internal.collector import collector_paused

__all__ = ["GENERAL_PASSES", "compile"]


def compile(
    program: Program,
    outputs: Sequence[Variable] | None,
    provider: str | None = None,
    shapes: Shapes | None = None,
    *,
    state_as_inputs: bool = False,
    updates: bool | Mapping[Variable, Variable] = True,
    inputs: Sequence[Variable] = (),
    constants: Collection[Variable] = (),
    ordered: bool = False,
    runs: bool = False,
    fast: bool = False,
    chunk: int = 0,
    checks_labels: bool = False,
) -> Graph:
    """The graph that computes some outputs of a program, pruned to what they need. The program is not changed.

    Args:
        program: any program.
        outputs: variables to compute. None for the program's own outputs with its forward operators as they were loaded.
        provider: ``"cpu"``, ``"cuda"`` or another one (``PROVIDERS``) for the forms that it needs or runs faster;
            None for plain ones.
        shapes: of inputs, where they are known although the program leaves them open.
        state_as_inputs: whether persistable variables are inputs of the graph instead of initializers.
        updates: with ``state_as_inputs``, whether the new values of all state are outputs, or those that are.
        inputs: variables that are inputs, and not computed.
        constants: with ``state_as_inputs``, persistable variables that are initializers all the same: weights that nothing changes.
        ordered: whether the operators are put in the order in which onnxruntime holds few tensors at a time, and an opset that
            no onnxruntime loads is brought down where that is possible. Implied by ``provider``.
        runs: whether onnxruntime's CPU provider is to run it, so that operators for which it has no float64 kernel are written out.
            Implied by ``ordered``, unless another provider is named.
        fast: whether the provider's forms may round more than the operators they replace.
        chunk: elements of large state that updates take at a time, 0 for all. Such state is then an input of shape [rows, columns].
        checks_labels: whether whoever runs it checks ``Graph.labels``. Other labels that are no classes give a loss of NaN.

    Raises:
        ArgumentError: if the provider is not known, or the program is in an opset that its forms are not written in.
    """
    target = Target(
        provider=provider,
        runs_on_cpu=provider == "cpu" or (provider is None and (runs or ordered)),
        to_newest=ordered,
        fast=fast,
        shapes=shapes or {},
        chunk=chunk,
        checks_labels=checks_labels,
    )
    with collector_paused():
        graph = _graph_of(program, outputs, state_as_inputs, updates if state_as_inputs else False, inputs, constants)
        run_passes(graph, _passes_for(target), target)
        if ordered or provider is not None:
            graph.operators = order_for_memory(graph.operators)
    return graph


def _graph_of(
    program: Program,
    outputs: Sequence[Variable] | None,
    state_as_inputs: bool,
    updates: bool | Mapping[Variable, Variable],
    fed: Sequence[Variable],
    constants: Collection[Variable],
) -> Graph:
    """The graph as the program has it, with the training forms that its operators wait for."""
    if outputs is None:
        return whole_graph(program)
    if not program.training_pending:
        new_values = updates if not isinstance(updates, bool) else program.updates if updates else {}
        graph = pruned_graph(program, list(outputs), new_values, state_as_inputs, fed, constants)
        if any(op.origin is not None for op in graph.operators):
            # A file has no symbols for sizes that are unknown, and forms of a rule's operators ask which of them are equal.
            run_program_pass(graph.program, NAME_DIMENSIONS)
        return graph
    trained, copies = program.clone_with_variables()
    lift(trained)
    if isinstance(updates, bool):
        new_values = trained.updates if updates else {}
    else:
        new_values = {copies[v]: copies[new] for v, new in updates.items()}
    wanted, given, held = ([copies[v] for v in variables] for variables in (outputs, fed, constants))
    graph = pruned_graph(trained, wanted, new_values, state_as_inputs, given, held)
    graph.copy.variables.update((v, graph.of(copied)) for v, copied in copies.items())
    return graph


def _lower_opset(graph: Graph, target: Target) -> int:
    """Bring an opset that no onnxruntime loads down, where that is possible."""
    graph.program.functions = {key: f.copy(graph.program.functions) for key, f in graph.program.functions.items()}
    lift(graph.program)
    graph.take_constants()
    return 1


def _is_too_new(graph: Graph, target: Target) -> bool:
    return target.to_newest and (graph.program.opset_version() or 1) > NEWEST


NEWEST_OPSET = Pass("newest_opset", _lower_opset, when=_is_too_new)


GENERAL_PASSES: list[GraphPass] = [
    SCHEMA_BODIES,
    CONTRIB_KERNELS,
    FOLD,
    NEWEST_OPSET,
    BRANCHES,
    CEIL_POOLS,
    EMPTY,
    LABEL_RANGE,
    RUNNING_STATS,
    FLOAT64,
    BFLOAT16,
    # Here stand those of the provider.
    TILE_UPDATES,
    SINK_DEQUANTIZE,
]
"""The passes of every provider, in this order."""


def _passes_for(target: Target) -> list[GraphPass]:
    own = [] if target.provider is None else passes_of(target.provider)
    behind = GENERAL_PASSES.index(TILE_UPDATES)
    return [*GENERAL_PASSES[:behind], *own, *GENERAL_PASSES[behind:]]
