"""What a step does between its gradients and their application, where several processes train one program.

Tests: tests/distributed/test_programs.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.runner import AddsUp
from onnxgrad.core.state.buffers import Buffer
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.step.cut import Cut
from onnxgrad.core.step.shards import Shards
from onnxgrad.core.step.synchronise import Synchronised

__all__ = ["Exchange"]


class Exchange(Protocol):
    """``Program.exchange``: the Executor computes gradients where it says, and applies what it makes of them.

    Attributes:
        rank: of this process.
        transport: what adds arrays up over ranks.
        reads: what it needs of each run besides: the loss and its weight.
        sends: whether gradients of ranks are put together in each run.
        synchronises: how losses of parts add up where statistics of batches are to be those of all ranks together; None where each
            rank normalises by its own.
        sharding: 0 where all ranks hold all state, 1 where each holds a share of the optimizer's, 2 where it is given the
            gradients of its share alone, too.
    """

    rank: int
    transport: AddsUp
    reads: Sequence[Variable]
    sends: bool
    synchronises: Synchronised | None
    sharding: int

    def share_out(self, program: Program, cut: Cut) -> Shards | None:
        """Who updates what, called before gradients have slots; None where every rank updates all."""

    def feeds(self, program: Program, feed: Mapping[str, Any]) -> Mapping[str, Any]:
        """Further inputs of the run, besides what the caller feeds."""

    def begin(self, program: Program, gradients: Sequence[Variable], scope: Scope) -> None:
        """Called before each run; at the first one of a scope, ranks come to an agreement about what they train."""

    def slots(self, gradients: Sequence[Variable]) -> Mapping[Variable, Any]:
        """The OrtValues that gradients are computed into, in each run."""

    def groups(self, gradients: Sequence[Variable]) -> Sequence[Sequence[Variable]]:
        """Those that are exchanged while the next ones are computed, in order; the last group, of what is left, after the run.

        Fewer than two groups to compute everything in one session."""

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
        """Wait until the state of these names, where it is sums of gradients, is that of all ranks; None for all state.

        Raises:
            BetweenError: if an exchange has failed.
        """

    def applied(self, scope: Scope) -> None:
        """Gradients are applied: let all ranks have what each has updated of what all hold."""
