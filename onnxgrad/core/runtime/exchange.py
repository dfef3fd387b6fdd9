"""Exchange gradients between their computation and their application, where several processes train one program.

Tests: tests/distributed/test_programs.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.places import Place
from onnxgrad.core.runtime.runner import AddsUp
from onnxgrad.core.state.buffers import Buffer
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.step.make import Travels

__all__ = ["Exchange"]


class Exchange(Travels, Protocol):
    """``Program.exchange``: the Executor computes gradients where it says, and applies what it makes of them.

    Attributes:
        transport: what adds arrays up over ranks.
    """

    @property
    def transport(self) -> AddsUp: ...

    def place(self, place: Place) -> Place:
        """The place where the sessions of a step open, so that what they compute and what is exchanged follow each other.

        Args:
            place: of the Executor.

        Raises:
            ArgumentError: if gradients that are computed there cannot be exchanged.
        """

    def feeds(self, program: Program, feed: Mapping[str, Any]) -> Mapping[str, Any]:
        """Further inputs of the run, besides what the caller feeds."""

    def has_met(self, scope: Scope) -> bool:
        """Return whether ranks have come to an agreement about what they train in this scope."""

    def begin(self, program: Program, gradients: Sequence[Variable], scope: Scope) -> None:
        """Called before each run; at the first one of a scope, ranks come to an agreement about what they train."""

    def slots(self, gradients: Sequence[Variable]) -> Mapping[Variable, Any]:
        """The OrtValues that gradients are computed into, in each run."""

    def send(self, number: int, fetched: Mapping[Variable, Any]) -> None:
        """The gradients of a group, and of those before it, are in their slots; called while the run goes on.

        Args:
            number: of the group, which is not the last; it may leave some out.
            fetched: with the first call, arrays of ``reads``.
        """

    def stop(self) -> None:
        """Wait for what is on its way, after a run has failed."""

    def reduce(self, scope: Scope, fetched: Mapping[Variable, Any], statistics: Sequence[Buffer]) -> Mapping[Variable, Any]:
        """Make of what is in the slots what it is for the whole batch, in place; likewise of floating-point state that the passes
        replace.

        Args:
            fetched: arrays of ``reads``.

        Returns:
            What is fetched instead, as arrays.
        """

    def wait(self, names: Collection[str] | None) -> None:
        """Wait until the sums of gradients among the state of these names are complete over all ranks; None for all state.

        Raises:
            BetweenError: if an exchange has failed.
        """

    def settled(self, scope: Scope) -> Mapping[str, Buffer]:
        """Gradients are about to be applied: move the state that is written over to where it travels from, and give it by name."""

    def targets(self, scope: Scope) -> Mapping[Variable, Any]:
        """The OrtValues into which new values of this rank's ranges of weights are computed, as rows, where they are not replaced
        in place. ``applied`` makes these the present ones."""

    def applied(self, scope: Scope) -> None:
        """Gradients are applied: let all ranks have what each has updated of what all hold."""
