"""Run a phase of a step by name, and add up over ranks what it gives.

Tests: tests/core/runtime/test_runner.py, tests/distributed/test_pipeline.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from onnxgrad.core.runtime.denormals import FloatingPointMode
from onnxgrad.core.runtime.places import Place
from onnxgrad.core.runtime.session import open_graph
from onnxgrad.core.state.values import value_of, view_of
from onnxgrad.core.step.step import AllReduce, Phase
from onnxgrad.errors import ArgumentError

__all__ = ["AddsUp", "OpenPhase", "added_up"]


class AddsUp(Protocol):
    """A transport that adds up arrays over ranks, in place."""

    def all_reduce_(self, array: Any) -> Any: ...


class OpenPhase:
    """A phase of a training step with its session, which is run on OrtValues, by name.

    Attributes:
        state, inputs: names of the state that it reads, and of what it takes besides.
        outputs: names of what it gives.
    """

    def __init__(self, phase: Phase, place: Place, threads: int | None) -> None:
        self.phase, self.graph = phase, phase.graph
        self._session = open_graph(phase.graph, place, threads, is_training=True)
        self.state = list(phase.reads)
        self.inputs = [v.name for v in self.graph.inputs if not v.persistable]
        self.outputs = [name for name, _ in self.graph.outputs]

    def run(self, values: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
        """All outputs.

        Raises:
            ArgumentError: naming an input that there is no value of.
        """
        missing = [name for name in self.inputs if name not in values]
        if missing:
            raise ArgumentError(f"the feed lacks {missing[0]!r}. Feed {', '.join(map(repr, self.inputs))}.")
        feeds = {name: values[name] for name in self.inputs} | {name: state[name] for name in self.state}
        with FloatingPointMode(flushes=True):
            return dict(zip(self.outputs, self._session.run_with_ort_values(self.outputs, feeds), strict=True))


def added_up(reduce: AllReduce, values: Mapping[str, Any], transport: AddsUp) -> dict[str, Any]:
    """Sums over ranks, by the names under which later phases take them; one buffer travels for each element type."""
    sums: dict[str, Any] = {}
    dtypes: dict[Any, list[tuple[str, str]]] = {}
    for name, total in zip(reduce.values, reduce.sums, strict=True):
        dtypes.setdefault(total.dtype.numpy, []).append((name, total.name))
    for members in dtypes.values():
        views = [view_of(values[name]) for name, _ in members]
        flat = np.concatenate([view.reshape(-1) for view in views])
        transport.all_reduce_(flat)
        at = 0
        for (_, taken), view in zip(members, views, strict=True):
            sums[taken] = value_of(flat[at : at + view.size].reshape(view.shape))
            at += view.size
    return sums
