"""A graph that may be rewritten: what some outputs of a program need, with names, inputs and outputs of its own.

It holds copies of operators, types, constants and names in a program that nobody else sees, so what rewrites it cannot write to
the program that it came from.

Tests: tests/core/compile/test_compile.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from onnxgrad.core.ir.copying import Copy
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.origin import inherit_origin
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import needed_and_read, substitute
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.state.scope import Scope

__all__ = ["Graph", "Rewrite"]


class Rewrite(NamedTuple):
    """The record of one pass over a graph.

    Attributes:
        name: of the pass.
        places: how many it rewrote.
        before, after: operators that the graph had.
    """

    name: str
    places: int
    before: int
    after: int

    def __str__(self) -> str:
        fewer = self.before - self.after
        count = f"{abs(fewer)} operator{'' if abs(fewer) == 1 else 's'}"
        change = f"{count} {'fewer' if fewer > 0 else 'more'}" if fewer else "as many operators"
        return f"{self.name}: {self.places} {'place' if self.places == 1 else 'places'}, {change}"


class FedLabel(NamedTuple):
    """Labels that are fed as they are: the input, and how many classes there are besides the label that does not count."""

    name: str
    classes: int
    ignored: int | None


class Graph:
    """Operators, inputs, outputs and constants with their final names, in a program of their own.

    Attributes:
        source: the program it came from; it is read, for values and metadata.
        program: holds the copies and nothing else.
        scope: where the values of weights are.
        inputs: what is fed, and state where it is an input.
        outputs: names and variables; two names may be aliases of one variable.
        initializers: constants, and weights where they are no inputs.
        updates: for each state variable that a run replaces, its new value.
        own_shapes: of inputs and outputs that hold state as rows of another length: the shape of that state.
        labels: what is fed as labels of a loss, and is to be checked by whoever feeds it.
        is_whole: whether it is the program's own forward graph, to be written as it was loaded.
        rewrites: what each pass did.
        replacements: how many variables have been replaced so far.
        helpers: results of rewritten operators whose names mean nothing, so that they may take that of the variable they replace.
    """

    def __init__(self, source: Program, hoists: bool) -> None:
        self.source = source
        self.program = source.empty_copy()
        # Nobody sees a graph that could not be made, so that passes need not be able to put it back.
        self.program.in_transaction = True
        self.copy = Copy(self.program, source, hoists)
        self.scope: Scope = source.active_scope()
        self.inputs: list[Variable] = []
        self.outputs: list[tuple[str, Variable]] = []
        self.initializers: list[Variable] = []
        self.updates: dict[Variable, Variable] = {}
        self.own_shapes: dict[Variable, tuple[int, ...]] = {}
        self.labels: list[FedLabel] = []
        self.is_whole = False
        self.rewrites: list[Rewrite] = []
        self.replacements = 0
        self.helpers: set[Variable] = set()
        self._aliases: dict[Variable, Variable] = {}

    @property
    def operators(self) -> list[Operator]:
        return self.program.global_block().ops

    @operators.setter
    def operators(self, operators: list[Operator]) -> None:
        self.program.global_block().ops = operators

    def types(self) -> set[str]:
        """The types of the operators outside bodies, by which a pass sees that there is nothing for it."""
        return {op.type for op in self.operators}

    def of(self, v: Variable) -> Variable:
        """Return the copy of a variable of the source program, or the variable if it has none."""
        return self.copy.variables.get(v, v)

    def name(self, v: Variable) -> str:
        """The name here of a variable of the source program."""
        return self.of(v).name

    # Rewriting -------------------------------------------------------------------------------------------------------

    def resolve(self, v: Variable) -> Variable:
        """Follow the replacements that rewriting passes noted for a variable."""
        while v in self._aliases:
            v = self._aliases[v]
        return v

    def replace(self, old: Variable, new: Variable) -> None:
        """Replace ``old`` by ``new``, under its name if it has none of its own; ``settle`` tells the readers."""
        inherit_origin(old, new)
        if new.name == "" or new in self.helpers:
            variables = self.program.global_block().vars
            variables.pop(new.name, None)
            new._name = old.name
            variables[old.name] = new
            self.helpers.discard(new)
        self._aliases[old] = new
        self.replacements += 1

    def settle(self) -> None:
        """End a pass: let operators read the replacements, keep those that outputs need, and hold the constants that are read."""
        if not self._aliases:
            return
        final = {v: self.resolve(v) for v in self._aliases}
        self._aliases = {}
        substitute(self.operators, final)
        self.outputs = [(name, self._named(name, v, final.get(v, v))) for name, v in self.outputs]
        self.updates = {v: final.get(new, new) for v, new in self.updates.items()}
        kept = {v for _, v in self.outputs}
        self.copy.variables = {v: copy if copy in kept else final.get(copy, copy) for v, copy in self.copy.variables.items()}
        self.operators, read = needed_and_read(self.operators, [v for _, v in self.outputs])
        self._take_constants(read)

    def _named(self, name: str, old: Variable, new: Variable) -> Variable:
        """Return an output under its name: an Identity of its replacement where that has another name."""
        if new.name == name:
            return new
        old.op = Operator(self.program.global_block(), "Identity", [new], [old])
        old.op.name = name
        self.operators.append(old.op)
        return old

    def take_constants(self) -> None:
        """Hold the constants that operators or outputs read, and no others."""
        self._take_constants(set(self.all_read()))

    def _take_constants(self, read: set[Variable]) -> None:
        main, inputs = self.program.global_block(), set(self.inputs)
        held = [v for v in self.initializers if v in read and v.op is None and v not in inputs]
        known = inputs.union(held)
        fresh = {v for v in read if v.op is None and v.value is not None and v.block is main and v not in known}
        if fresh:  # in the order in which they are read
            held += dict.fromkeys(v for v in self.all_read() if v in fresh)
        self.initializers = held

    def all_read(self) -> Iterable[Variable]:
        for op in self.operators:
            for v in op.operands():
                if v is not None:
                    yield v
        for _, v in self.outputs:
            yield v
