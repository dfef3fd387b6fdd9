"""Describe the work of a run besides its operators: schedules, printing, adding gradients up, exchanging them, memory.

Tests: tests/core/ir/test_plan.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from onnxgrad.core.autodiff.memory import MemoryPlan
    from onnxgrad.core.ir.variable import Variable
    from onnxgrad.core.runtime.exchange import Exchange

__all__ = ["Accumulation", "Lookup", "LossTerm", "RunPlan", "Turn"]

Turn: TypeAlias = Literal["whole", "run", "apply"]
"""Which state of a program is replaced: all of it, or where gradients are added up what each run replaces, or what is made of the
sums when they are applied."""


@dataclass(frozen=True, eq=False)
class LossTerm:
    """A term of a loss, and how those of the parts of a batch make that of the whole batch.

    Attributes:
        value: the term, a scalar, as it counts in the loss.
        reduction: ``"sum"`` where the terms of parts add up, ``"mean"`` for their mean by weights.
        weight: with ``"mean"``, what the sum over the part was divided by, a scalar.
        measure: two weights with equal measures are in proportion.
    """

    value: Variable
    reduction: str
    weight: Variable | None = None
    measure: Any = None

    def copy(self, variables: Mapping[Variable, Variable]) -> LossTerm:
        """Return the term of a copy of the program."""
        weight = None if self.weight is None else variables[self.weight]
        return LossTerm(variables[self.value], self.reduction, weight, self.measure)


@dataclass(eq=False)
class Accumulation:
    """Gradients that several runs add up before they are applied.

    Attributes:
        runs: how many.
        cleared: the state that holds a sum, and what it is when the sum has been applied.
        each: the state that each run replaces, sums among it; what else the program updates is replaced when sums are applied.
        terms: of the loss. A run multiplies the gradients of a mean by its weight, and adds up the weight as well.
        divisors: the state that holds sums of weights, among those of gradients.
        exchange: what adds up the sums of several ranks before they are applied; copies have none.
    """

    runs: int
    cleared: Mapping[Variable, Variable]
    each: frozenset[Variable]
    terms: tuple[LossTerm, ...] = ()
    divisors: frozenset[Variable] = frozenset()
    exchange: Any = None

    @property
    def weights(self) -> list[Variable]:
        """The weights of those terms that are means."""
        return [term.weight for term in self.terms if term.weight is not None]

    @property
    def sums(self) -> list[Variable]:
        """The state that holds them."""
        return list(self.cleared)

    def copy(self, variables: Mapping[Variable, Variable]) -> Accumulation:
        """Return the accumulation of a copy of the program."""
        cleared = {variables[v]: variables[new] for v, new in self.cleared.items()}
        each = frozenset(variables[v] for v in self.each)
        terms = tuple(term.copy(variables) for term in self.terms)
        return Accumulation(self.runs, cleared, each, terms, frozenset(variables[v] for v in self.divisors))


@dataclass(frozen=True, eq=False)
class Lookup:
    """The rows of a table that a batch looks up, which an optimizer updates, and no others.

    Attributes:
        positions: numbers of the rows as they are looked up, some several times and some negative: an integer vector.
        whole: the gradient of the whole table.
        index, gradient: what the optimizer reads: the number of each row that is looked up, in ascending order, and its gradient.
    """

    positions: Variable
    whole: Variable
    index: Variable
    gradient: Variable

    def copy(self, variables: Mapping[Variable, Variable]) -> Lookup:
        """Return the lookup of a copy of the program."""
        return Lookup(variables[self.positions], variables[self.whole], variables[self.index], variables[self.gradient])


class RunPlan:
    """The settings of the runs of a program.

    Attributes:
        schedulers: state that a schedule gives before each run, and the schedule.
        printers: values that are handed to a function after each run.
        memory: which tensors the last ``append_backward(checkpoints="auto")`` keeps, and the peak it expects, in bytes.
        exchange: what a step does with gradients before they are applied (``core.runtime.exchange``); copies have none.
        accumulation: how gradients are added up over several runs; None if each run applies its own.
        lookups: of tables whose other rows an optimizer leaves alone.
        example_axes: by name of an input, the axis that counts examples, where that is not the first one.
    """

    def __init__(self) -> None:
        self.schedulers: list[tuple[Variable, Any]] = []
        self.printers: list[tuple[Variable, Any]] = []
        self.memory: MemoryPlan | None = None
        self.exchange: Exchange | None = None
        self.accumulation: Accumulation | None = None
        self.lookups: list[Lookup] = []
        self.example_axes: dict[str, int] = {}

    def updates(self, updates: Mapping[Variable, Variable], turn: Turn) -> dict[Variable, Variable]:
        """Return the state variables that are replaced now, and their new values."""
        if self.accumulation is None or turn == "whole":
            return dict(updates)
        if turn == "run":
            return {v: new for v, new in updates.items() if v in self.accumulation.each}
        applied = {v: new for v, new in updates.items() if v not in self.accumulation.each}
        return {**applied, **self.accumulation.cleared}

    def exchange_of(self, turn: Turn) -> Any:
        """Return the exchange between ranks in a run, or before sums are applied."""
        if turn != "apply":
            return self.exchange
        return None if self.accumulation is None else self.accumulation.exchange

    def copy(self, variables: Mapping[Variable, Variable], *, for_test: bool) -> RunPlan:
        """Return the plan of a copy of the program: what it prints, and unless it is a copy for inference what schedules give.

        Args:
            variables: the copy of each variable.
        """
        copy = RunPlan()
        copy.example_axes = dict(self.example_axes)
        copy.printers = [(variables[v], printer) for v, printer in self.printers if v in variables]
        if not for_test:
            copy.schedulers = [(variables[v], scheduler) for v, scheduler in self.schedulers]
            copy.accumulation = None if self.accumulation is None else self.accumulation.copy(variables)
            copy.lookups = [lookup.copy(variables) for lookup in self.lookups]
        return copy
