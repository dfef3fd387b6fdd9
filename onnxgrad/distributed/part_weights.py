"""What the loss of a rank's part of a batch is multiplied by, known before the step: its weight over that of the whole batch.

Tests: tests/distributed/test_divisors.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onnxgrad.core.compile import compile
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.places import CPUPlace
from onnxgrad.core.runtime.runner import OpenPhase
from onnxgrad.core.state.values import value_of, view_of
from onnxgrad.core.step.step import phase_of
from onnxgrad.distributed.transport import Transport

__all__ = ["PartWeights"]


class PartWeights:
    """The weights of the terms of a loss, which ranks compute from what they are fed, and add up.

    Args:
        transport: between the ranks.
        weights: for each input of the program that is told of it, the weight of a term (``core.step.loss_terms.loss_of_part``).

    Attributes:
        totals: of the last step, over all ranks, in the order of ``weights``.
    """

    def __init__(self, transport: Transport, weights: Mapping[Variable, Variable]) -> None:
        self.transport, self._weights = transport, dict(weights)
        self.totals = np.zeros(len(self._weights))
        self._phase: OpenPhase | None = None

    def feeds(self, feed: Mapping[str, Any], counts: bool) -> dict[str, Any]:
        """The weight of this part over that of the whole batch, for each term; ranks wait for each other here.

        Where nothing counts on any rank it is NaN, as the loss of one process is.

        Args:
            feed: this rank's part of the batch, by input name.
            counts: whether its examples count.
        """
        own = self._own(feed) if counts else np.zeros(len(self._weights))
        self.totals = own.copy()
        self.transport.all_reduce_(self.totals)
        with np.errstate(invalid="ignore"):
            shares = own / self.totals
        return {v.name: np.array(share, np.float32) for v, share in zip(self._weights, shares, strict=True)}

    def _own(self, feed: Mapping[str, Any]) -> Any:
        if self._phase is None:
            program = next(iter(self._weights)).block.program
            graph = compile(program, list(self._weights.values()), None, state_as_inputs=True, updates=False)
            self._phase = OpenPhase(phase_of("weigh the loss", graph), CPUPlace(), 1)
            self._dtypes = {v.name: v.dtype.numpy for v in graph.inputs}
        values = {name: value_of(np.asarray(feed[name], dtype, order="C")) for name, dtype in self._dtypes.items() if name in feed}
        results = self._phase.run(values, {})
        return np.array([float(view_of(results[name]).reshape(-1)[0]) for name in self._phase.outputs])
