"""What a run of a program does besides its operators: schedules, printing, exchanging gradients, what memory it is to take.

Tests: tests/core/ir/test_plan.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnxgrad.core.ir.variable import Variable

__all__ = ["RunPlan"]


class RunPlan:
    """What belongs to the runs of a program.

    Attributes:
        schedulers: state that a schedule gives before each run, and the schedule.
        printers: values that are handed to a function after each run.
        memory: which tensors the last ``append_backward(checkpoints="auto")`` keeps, and the peak it expects, in bytes.
        exchange: what a step does with gradients before they are applied (``core.runtime.exchange``); copies have none.
    """

    def __init__(self) -> None:
        self.schedulers: list[tuple[Variable, Any]] = []
        self.printers: list[tuple[Variable, Any]] = []
        self.memory: Any = None
        self.exchange: Any = None

    def copy(self, variables: Mapping[Variable, Variable], *, for_test: bool) -> RunPlan:
        """That of a copy of the program: what it prints, and unless it is a copy for inference what schedules give.

        Args:
            variables: the copy of each variable.
        """
        copy = RunPlan()
        copy.printers = [(variables[v], printer) for v, printer in self.printers if v in variables]
        if not for_test:
            copy.schedulers = [(variables[v], scheduler) for v, scheduler in self.schedulers]
        return copy
