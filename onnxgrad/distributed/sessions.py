"""Sessions of a step that is run in parts: values go from one to the next by name, and are not copied.

Tests: tests/distributed/test_sharded.py, tests/distributed/test_pipeline.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxgrad.core.ir.program import Program
from onnxgrad.core.runtime.denormals import FloatingPointMode
from onnxgrad.core.runtime.places import Place
from onnxgrad.core.runtime.session import open_graph
from onnxgrad.core.step.stages import Stage
from onnxgrad.errors import ArgumentError

__all__ = ["Session"]


class Session:
    """A graph that is run on OrtValues, by name."""

    def __init__(self, stage: Stage, place: Place, threads: int | None) -> None:
        self.stage, self.graph = stage, stage.graph
        self._session = open_graph(self.graph, place, threads, is_training=True)
        self.state = [v.name for v in self.graph.inputs if v.persistable]
        self.inputs = [v.name for v in self.graph.inputs if not v.persistable]
        self.outputs = [name for name, _ in self.graph.outputs]

    def run(self, values: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
        """All outputs."""
        missing = [name for name in self.inputs if name not in values]
        if missing:
            raise ArgumentError(f"the feed lacks {missing[0]!r}. Feed {', '.join(map(repr, self.inputs))}.")
        given = {name: values[name] for name in self.inputs} | {name: state[name] for name in self.state}
        with FloatingPointMode(flushes=True):
            return dict(zip(self.outputs, self._session.run_with_ort_values(self.outputs, given), strict=True))

    def named(self, values: Mapping[Any, Any]) -> dict[str, Any]:
        """Values by the names of the inputs that take them."""
        return {v if isinstance(v, str) else self.graph.name(v): value for v, value in values.items()}

    def replaced(self, results: Mapping[str, Any], program: Program) -> dict[str, Any]:
        """New values of the state that the graph replaces."""
        return {v.name: results[self.graph.name(new)] for v, new in program.updates.items() if self.graph.name(new) in results}
