"""Check the invariants of graphs and programs between two passes: in the tests, and where ``ONNXGRAD_VERIFY=1`` asks for it.

- each variable has one producer, and operators stand behind those whose results they read, in bodies too;
- types found anew from operators and operands do not contradict those that variables have;
- outputs have the names that they had, and state is replaced under the names that it had; a program keeps its parameters;
- ``onnx.checker`` takes what is written, where the writer has entered itself (``core/interop/onnx_export.py``).

What a loaded file fails before any pass is no pass's fault. That is asked only of a check that fails after one: the graph is put
back for it as it was before.

Tests: tests/core/graph/test_manager.py, tests/core/passes/test_contract.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from onnxgrad.core.graph.from_program import pruned_graph
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.infer import inferred_types
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.transaction import Snapshot
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import OnnxGradError

__all__ = ["CHECKS", "Contract", "GraphError", "ProgramContract", "is_asked_for"]

CHECKS: list[Callable[[Graph], None]] = []
"""Further checks of those who stand above: the writer enters ``onnx.checker`` here."""


class GraphError(OnnxGradError, AssertionError):
    """A pass left a graph in a state that no graph may be in: an error of onnxgrad itself."""


def is_asked_for() -> bool:
    return os.environ.get("ONNXGRAD_VERIFY", "") not in ("", "0")


class Contract:
    """The interface of a graph before its passes, for comparison after each."""

    def __init__(self, graph: Graph) -> None:
        self.outputs = [name for name, _ in graph.outputs]
        self.inputs = {v.name for v in graph.inputs}
        self.state = {v.name for v in graph.updates}
        self.passed: list[str] = []
        self.before = Snapshot(graph.program, graph)

    def check(self, graph: Graph, name: str) -> None:
        """Check a graph after the pass of a name.

        Raises:
            GraphError: with the pass, what is wrong, and the passes before it.
        """
        problem = self._problem(graph)
        if problem:
            before = ", ".join(self.passed) or "none"
            raise GraphError(f"after the pass {name!r}: {problem}. Passes before it: {before}. Report this.")
        self.passed.append(name)

    def _problem(self, graph: Graph) -> str:
        problem = _problem_of_order(graph) or self._problem_of_names(graph)
        if problem:
            return problem
        return _new_problem(lambda: _problems_of_graph(graph), self.before, graph.program, graph)

    def _problem_of_names(self, graph: Graph) -> str:
        outputs = [name for name, _ in graph.outputs]
        if outputs != self.outputs:
            return f"the outputs are {outputs}, before they were {self.outputs}"
        inputs = {v.name for v in graph.inputs}
        if not inputs <= self.inputs:
            return f"the inputs {sorted(inputs - self.inputs)} are new"
        state = {v.name for v in graph.updates}
        if state != self.state:
            return f"the state {sorted(state ^ self.state)} came or went"
        returned = {v for _, v in graph.outputs}
        lost = sorted(v.name for v, new in graph.updates.items() if new not in returned)
        return f"the new values of the state {lost} are not outputs" if lost else ""


class ProgramContract:
    """The interface of a program before a pass, for comparison after it."""

    def __init__(self, program: Program) -> None:
        self.outputs = [v.name for v in program.outputs]
        self.parameters = [v.name for v in program.parameters]
        self.before = Snapshot(program)

    def check(self, program: Program, name: str) -> None:
        """Check a program after the pass of a name.

        Raises:
            GraphError: with the pass and what is wrong, unless the same kind of check failed before it.
        """
        problem = _new_problem(lambda: _problems_of_program(program), self.before, program)
        outputs, parameters = [v.name for v in program.outputs], [v.name for v in program.parameters]
        if not problem and outputs != self.outputs:
            problem = f"the outputs are {outputs}, before they were {self.outputs}"
        if not problem and parameters != self.parameters:
            problem = f"the parameters {sorted(set(parameters) ^ set(self.parameters))} came, went or changed their order"
        if problem:
            raise GraphError(f"after the pass {name!r}: {problem}. Report this.")


def _new_problem(problems_of: Callable[[], dict[str, str]], before: Snapshot, *things: Graph | Program) -> str:
    """The first problem of a kind of check that did not fail before; for a check that fails, things are put back for a moment."""
    problems = {kind: problem for kind, problem in problems_of().items() if problem}
    if not problems:
        return ""
    now = Snapshot(*things)
    before.restore()
    try:
        earlier = problems_of()
    finally:
        now.restore()
    return next((problem for kind, problem in problems.items() if not earlier[kind]), "")


def _problems_of_graph(graph: Graph) -> dict[str, str]:
    """By kind of check: what is wrong, or nothing"""
    problems = {"types": _problem_of_types(graph.program.global_block())}
    return problems | {f"check {number}": _says(check, graph) for number, check in enumerate(CHECKS)}


def _problems_of_program(program: Program) -> dict[str, str]:
    """By kind of check: what is wrong, or nothing"""
    main = program.global_block()
    leaves = {v for block in program.blocks for v in block.vars.values() if v.op is None}
    problems = {"order": _problem_of_block(main, leaves), "types": _problem_of_types(main)}
    read = {v for op in main.ops for v in op.operands()}
    results = [v for op in main.ops for v in op.outputs if v is not None and v not in read]
    graph = pruned_graph(program, results, {}, False, ()) if not problems["order"] and results else None
    for number, check in enumerate(CHECKS):
        problems[f"check {number}"] = _says(check, graph) if graph is not None else ""
    return problems


def _says(check: Callable[[Graph], None], graph: Graph) -> str:
    try:
        check(graph)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _problem_of_order(graph: Graph) -> str:
    main = graph.program.global_block()
    # A graph that is to be cut further may have inputs that only its parts will take.
    known = {*graph.inputs, *graph.initializers, *main.inputs}
    problem = _problem_of_block(main, known)
    if problem:
        return problem
    missing = [name for name, v in graph.outputs if v not in known]
    return f"nothing computes the outputs {missing}" if missing else ""


def _problem_of_block(block: Block, known: set[Variable]) -> str:
    """The first operator of a block that reads what is not there yet, or computes what is; ``known`` takes all results."""
    for op in block.ops:
        unread = [v for v in op.inputs if v is not None and v not in known and not _is_constant(v)]
        if unread:
            return f"{op} reads {unread[0].name!r}, which nothing before it computes"
        for body in op.blocks():
            inner = {*known, *body.inputs, *body.initializers}
            problem = _problem_of_block(body, inner)
            if problem:
                return f"in a body of {op.type}: {problem}"
        for v in op.outputs:
            if v is None:
                continue
            if v in known:
                return f"{op} computes {v.name!r}, which is there already"
            known.add(v)
    return ""


def _is_constant(v: Variable) -> bool:
    return v.op is None and v.value is not None


def _problem_of_types(block: Block) -> str:
    for op in block.ops:
        problem = _problem_of_operator(op)
        if problem:
            return problem
        for body in op.blocks():
            problem = _problem_of_types(body)
            if problem:
                return problem
    return ""


def _problem_of_operator(op: Operator) -> str:
    for v, inferred in zip(op.outputs, inferred_types(op), strict=False):
        if v is None or not isinstance(inferred, TensorType) or not isinstance(v.type, TensorType):
            continue
        if inferred.dtype != v.type.dtype or _differ(inferred.dims, v.type.dims):
            return f"{op} computes {v.name!r} as {inferred}, and it is known as {v.type}"
    return ""


def _differ(inferred: object, known: object) -> bool:
    if not isinstance(inferred, tuple) or not isinstance(known, tuple):
        return False
    if len(inferred) != len(known):
        return True
    return any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(inferred, known, strict=True))
