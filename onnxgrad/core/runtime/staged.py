"""Sessions that compute one graph step by step, behind the interface of one: what one gives the next reads as it lies.

Between two of them ranks may add values up, or exchange gradients.

Tests: tests/distributed/test_overlap.py, tests/distributed/test_overlap_ends.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from onnxgrad.core.state.values import view_of

__all__ = ["BetweenError", "StagedSession"]


class BetweenError(Exception):
    """The exchange between two sessions has failed, by an error that is not onnxruntime's.

    Attributes:
        error: that one.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class StagedSession:
    """Sessions in the order in which they run, as what ``DoubleBinding`` binds and runs.

    Args:
        sessions: of onnxruntime; an input that an earlier one gives under this name is that.
        outputs: names of what the whole gives; everything else that is computed is dropped when it has been read.
        between: called after each session, with its number and what has been computed by then and not dropped; gives further
            values by name.
        failed: called when a run has failed.
        sums: names of these further values, by the number of the session that they come after.
        device: where values stay that cross from one session to another: its name and number.
    """

    def __init__(
        self,
        sessions: Sequence[Any],
        outputs: Sequence[str],
        between: Callable[[int, Mapping[str, Any]], Mapping[str, Any]],
        failed: Callable[[], None],
        sums: Sequence[Collection[str]] = (),
        device: tuple[str, int] = ("cpu", 0),
    ) -> None:
        self.device = device
        self.sessions, self.between, self.failed = sessions, between, failed
        self.sums = {name for names in sums for name in names}
        self.reads = [{v.name for v in session.get_inputs()} for session in sessions]
        self.makes = [[v.name for v in session.get_outputs()] for session in sessions]
        self.whole = set(outputs)
        produced = {name for names in self.makes for name in names} | self.sums
        self.crosses = [sorted(names & produced) for names in self.reads]
        self.last = {name: number for number, names in enumerate(self.crosses) for name in names}

    def io_binding(self) -> _Binding:
        return _Binding(self)

    def run_with_iobinding(self, binding: _Binding, options: Any = None) -> None:
        binding.run(options)


class _Binding:
    """Binds values, by name, to whichever sessions read or give it."""

    def __init__(self, staged: StagedSession) -> None:
        self._staged = staged
        self._stages = [session.io_binding() for session in staged.sessions]
        self._bound: list[dict[str, None]] = [{} for _ in self._stages]
        self._sum_buffers: dict[str, Any] = {}
        """Where sums are to lie that are results of the whole."""
        self._order: dict[str, None] = {}
        self._values: dict[str, Any] = {}

    def bind_cpu_input(self, name: str, array: Any) -> None:
        for stage in self._readers(name):
            stage.bind_cpu_input(name, array)

    def bind_ortvalue_input(self, name: str, value: Any) -> None:
        for stage in self._readers(name):
            stage.bind_ortvalue_input(name, value)

    def bind_output(self, name: str, *device: Any) -> None:
        if name in self._staged.sums:
            self._order[name] = None
            self._sum_buffers.pop(name, None)
        else:
            self._maker(name).bind_output(name, *device)

    def bind_ortvalue_output(self, name: str, value: Any) -> None:
        if name in self._staged.sums:
            self._order[name] = None
            self._sum_buffers[name] = value
        else:
            self._maker(name).bind_ortvalue_output(name, value)

    def get_outputs(self) -> list[Any]:
        """The outputs of all sessions, in the order in which they were bound."""
        return [self._values[name] for name in self._order]

    def _readers(self, name: str) -> list[Any]:
        return [stage for stage, names in zip(self._stages, self._staged.reads, strict=True) if name in names]

    def _maker(self, name: str) -> Any:
        number = next(number for number, names in enumerate(self._staged.makes) if name in names)
        self._bound[number][name] = self._order[name] = None
        return self._stages[number]

    def run(self, options: Any) -> None:
        try:
            self._run(options)
        except BaseException:
            self._staged.failed()
            raise

    def _run(self, options: Any) -> None:
        staged, values = self._staged, self._values
        values.clear()
        for number, (session, stage, bound) in enumerate(zip(staged.sessions, self._stages, self._bound, strict=True)):
            for name in staged.crosses[number]:
                stage.bind_ortvalue_input(name, values[name])
            for name in staged.makes[number]:
                if name not in bound:
                    stage.bind_output(name, *staged.device)
                    bound[name] = None
            session.run_with_iobinding(stage, options)
            values.update(zip(bound, stage.get_outputs(), strict=True))
            # Nothing keeps what crosses but ``values``, so that it goes when the last session that reads it is through.
            stage.clear_binding_inputs()
            stage.clear_binding_outputs()
            try:
                values.update(staged.between(number, values))
            except Exception as error:
                raise BetweenError(error) from error
            for name in [name for name in values if name not in staged.whole and staged.last.get(name, -1) <= number]:
                del values[name]
        for name, buffer in self._sum_buffers.items():
            np.copyto(view_of(buffer), view_of(values[name]))
            values[name] = buffer
