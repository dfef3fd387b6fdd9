"""Run passes over a graph or a program: in order, each settled, verified where that is asked for, and logged.

``ONNXGRAD_LOG=passes`` prints a line for each pass that rewrote something; ``graph.rewrites`` holds the same. ``ONNXGRAD_VERIFY=1``
checks what was rewritten after each pass (``core/graph/verify.py``), as the tests do.

Tests: tests/core/graph/test_manager.py, tests/core/passes/test_contract.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence

from onnxgrad.core.graph.contract import Form, GraphPass, ProgramPass, Target
from onnxgrad.core.graph.graph import Graph, Rewrite
from onnxgrad.core.graph.rewriting import rewrite_operators
from onnxgrad.core.graph.verify import Contract, ProgramContract, is_asked_for
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.transaction import transaction

__all__ = ["in_order_of_passes", "run_passes", "run_program_pass"]


def run_program_pass(program: Program, each: ProgramPass, target: Target | None = None) -> int:
    """Run a pass over a program in place, as a whole or not at all.

    Returns:
        The number of places that it rewrote; 0 where it does not apply, and the program is then as it was.

    Raises:
        Whatever ``needs`` or ``run`` of the pass raises.
        GraphError: where programs are verified, naming the pass that broke it.
    """
    target = target or Target()
    if not each.when(program, target):
        return 0
    each.needs(program, target)
    assert each.run is not None
    with transaction(program):
        contract = ProgramContract(program) if is_asked_for() else None
        before = len(program.global_block().ops)
        total = rewrites = each.run(program, target)
        while each.repeats and rewrites:
            rewrites = each.run(program, target)
            total += rewrites
        if total:
            program.version += 1
            if contract is not None:
                contract.check(program, each.name)
    _print(Rewrite(each.name, total, before, len(program.global_block().ops)))
    return total


def run_passes(graph: Graph, passes: Sequence[GraphPass], target: Target) -> None:
    """Run passes over a graph, each where it applies.

    Raises:
        Whatever ``needs`` of a pass raises.
        GraphError: where the graph is verified, naming the pass that broke it and those before.
    """
    contract = Contract(graph) if is_asked_for() else None
    for group in _groups(in_order_of_passes(passes)):
        applying = [each for each in group if each.when(graph, target)]
        for each in applying:
            each.needs(graph, target)
        if not applying:
            continue
        if applying[0].forms is not None:
            rewrites = _walk(graph, applying)
        else:
            (each,) = applying
            rewrites = _run(graph, each, target)
        if contract is not None and rewrites:
            contract.check(graph, ", ".join(each.name for each in applying))


def _run(graph: Graph, each: GraphPass, target: Target) -> int:
    assert each.run is not None
    before = len(graph.operators)
    total = rewrites = each.run(graph, target)
    graph.settle()
    while each.repeats and rewrites:
        rewrites = each.run(graph, target)
        graph.settle()
        total += rewrites
    _log(graph, Rewrite(each.name, total, before, len(graph.operators)))
    return total


def _walk(graph: Graph, passes: Sequence[GraphPass]) -> int:
    """Write the forms of neighbouring passes in one walk; of two that apply to an operator, the first is written."""
    before = len(graph.operators)
    counts = dict.fromkeys((each.name for each in passes), 0)
    while True:
        forms = _joined(graph, passes, counts)
        rewritten = rewrite_operators(graph, forms)
        graph.settle()
        if not rewritten or not any(each.repeats for each in passes):
            break
    for each in passes:
        if counts[each.name]:
            # The operators of one walk are counted once, by the first pass that wrote some.
            _log(graph, Rewrite(each.name, counts[each.name], before, len(graph.operators)))
            before = len(graph.operators)
    return sum(counts.values())


def _joined(graph: Graph, passes: Sequence[GraphPass], counts: dict[str, int]) -> Mapping[str, Form]:
    forms: dict[str, list[tuple[str, Form]]] = {}
    for each in passes:
        assert each.forms is not None
        for op_type, form in (each.forms(graph) if callable(each.forms) else each.forms).items():
            forms.setdefault(op_type, []).append((each.name, form))
    return {op_type: _first_of(choices, counts) for op_type, choices in forms.items()}


def _first_of(choices: list[tuple[str, Form]], counts: dict[str, int]) -> Form:
    def write(build: object, op: Operator) -> object:
        for name, form in choices:
            results = form(build, op)
            if results is not None:
                counts[name] += 1
                return results
        return None

    return write  # type: ignore[return-value]


def in_order_of_passes(passes: Iterable[GraphPass]) -> list[GraphPass]:
    """Order passes so that each follows the passes that it names, else as they are listed.

    Raises:
        ValueError: if two have one name, or some wait for each other.
    """
    waiting = list(passes)
    names = [each.name for each in waiting]
    if len(set(names)) < len(names):
        raise ValueError(f"two passes have one name: {sorted(name for name in set(names) if names.count(name) > 1)}.")
    ordered: list[GraphPass] = []
    while waiting:
        missing = {each.name for each in waiting}
        ready = next((each for each in waiting if missing.isdisjoint(each.after)), None)
        if ready is None:
            raise ValueError(f"these passes wait for each other: {sorted(missing)}.")
        ordered.append(ready)
        waiting.remove(ready)
    return ordered


def _groups(passes: Iterable[GraphPass]) -> list[list[GraphPass]]:
    """Neighbouring passes of forms together, others alone. A pass that follows another of its group begins a new one."""
    groups: list[list[GraphPass]] = []
    for each in passes:
        last = groups[-1] if groups else []
        joins = each.forms is not None and last and last[0].forms is not None and not each.repeats and not last[0].repeats
        if joins and {other.name for other in last}.isdisjoint(each.after):
            last.append(each)
        else:
            groups.append([each])
    return groups


# The log ---------------------------------------------------------------------------------------------------------------


def _log(graph: Graph, rewrite: Rewrite) -> None:
    if rewrite.places:
        graph.rewrites.append(rewrite)
    _print(rewrite)


def _print(rewrite: Rewrite) -> None:
    if rewrite.places and "passes" in os.environ.get("ONNXGRAD_LOG", "").split(","):
        print(f"onnxgrad: {rewrite}", file=sys.stderr)
