"""Define a pass over a graph or a program: its name, condition, order, and how far its results may differ.

A rewrite is entered as a ``Pass``, and ``core/graph/manager.py`` runs it. It is a function over the whole graph, or it maps
types of operators to forms, which are written in one walk together with those of its neighbours. A rewrite with arguments is a
function that returns a Pass. Passes over a program (lifting it, switching it to training, lowering its precision) change it in
place before a backward pass; passes over a graph see the part of it that a session computes.

Tests: tests/core/graph/test_manager.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable

__all__ = [
    "CPU_FORMS",
    "CUDA_FORMS",
    "OPENVINO_FORMS",
    "ORDER",
    "Form",
    "Forms",
    "GraphPass",
    "Lowering",
    "Pass",
    "ProgramPass",
    "Shapes",
    "Target",
]

Form: TypeAlias = Callable[[Any, Operator], "list[Variable | None] | None"]
"""Writes an operator out by a Builder and returns what replaces its outputs, or None to leave it as it is."""

Forms: TypeAlias = "Mapping[str, Form] | Callable[[Graph], Mapping[str, Form]]"
"""Forms by the type of operators of the standard domain; a function of the graph where they depend on more than their operator."""

Shapes: TypeAlias = Mapping[str, tuple[int, ...]]
"""Shapes of inputs by name."""

CPU_FORMS = "docs/develop/measurements/cpu_forms.md"
CUDA_FORMS = "docs/develop/measurements/cuda_without_device.md"
OPENVINO_FORMS = "docs/develop/measurements/openvino.md"
"""Where the gains of a provider's forms are written down."""

Rounding: TypeAlias = Literal["none", "order", "fast"]
Lowering: TypeAlias = Literal["cpu", "cuda", "openvino", "openvino_bf16", "webgpu"]
"""Providers that have forms of their own: the keys of ``PROVIDERS``."""


ORDER = 16.0
"""Eps times the sum of the absolute values of the terms that adding them in another order may change a result by, at most."""

Rewritten = TypeVar("Rewritten", Graph, Program)


@dataclass(frozen=True)
class Target:
    """The machine and the options that a graph is rewritten for.

    Attributes:
        provider: whose forms are written; None for plain ones.
        runs_on_cpu: whether onnxruntime's CPU provider is to compute it.
        to_newest: whether an opset that no onnxruntime loads is brought down.
        fast: whether forms may round more than the operators they replace.
        shapes: of inputs, where they are known although the program leaves them open.
        chunk: elements of large state that updates take at a time, 0 for all.
        checks_labels: whether labels that are fed are refused there where they are no classes.
    """

    provider: str | None = None
    runs_on_cpu: bool = False
    to_newest: bool = False
    fast: bool = False
    shapes: Shapes = field(default_factory=dict)
    chunk: int = 0
    checks_labels: bool = False


def _always(rewritten: Graph | Program, target: Target) -> bool:
    return True


def _nothing(rewritten: Graph | Program, target: Target) -> None:
    return None


@dataclass(frozen=True)
class Pass(Generic[Rewritten]):
    """One rewrite of a graph or of a program.

    Attributes:
        name: what it is logged as.
        run: rewrites a graph or a program and returns in how many places; 0 means that it is as it was.
        forms: in place of ``run``, of a graph: forms by operator type, each application being one place.
        after: names of passes that it follows where they are run too; others go in the order in which they are listed.
        when: whether it applies to a graph at all; it is skipped where it does not.
        needs: raises where the graph is not such that the pass can be run.
        repeats: whether it is run until it rewrites nothing.
        rounding: ``"none"``: the values are the same bits. ``"order"``: they differ by at most ``ORDER`` eps times the sum of the
            absolute values of the terms, against float64, as terms are added in another order. ``"fast"``: ``bound`` eps times it.
        bound: of a pass over a graph that rounds fast. A pass over a program may say it in words.
        gain: where it is written down what it is good for.
    """

    name: str
    run: Callable[[Rewritten, Target], int] | None = None
    forms: Forms | None = None
    after: tuple[str, ...] = ()
    when: Callable[[Rewritten, Target], bool] = _always
    needs: Callable[[Rewritten, Target], None] = _nothing
    repeats: bool = False
    rounding: Rounding = "none"
    bound: float | None = None
    gain: str = ""

    def __post_init__(self) -> None:
        if (self.run is None) == (self.forms is None):
            raise TypeError(f"the pass {self.name!r} has either run or forms.")
        if self.bound is not None and self.rounding != "fast":
            raise TypeError(f"the pass {self.name!r} rounds {self.rounding!r}, which says by how much; it states no bound.")

    @property
    def most(self) -> float:
        """By how many eps times that sum results may differ; infinite where a pass says it in words."""
        if self.rounding == "fast":
            return inf if self.bound is None else self.bound
        return ORDER if self.rounding == "order" else 0.0


GraphPass: TypeAlias = Pass[Graph]
ProgramPass: TypeAlias = Pass[Program]
